"""What to say of a run in micro-batches of one sequence, which nobody asked for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from service.core.estimate.training import TrainingSpeed, training_speed
from service.core.explanation import EstimateWarning
from service.core.memory.training.memory import TrainingMemory
from service.estimation.training.requests import TrainingRequest

#: Larger micro-batches are told from so many times the speed on: less lies within intervals.
_WORTH_TELLING = 1.25
#: Sequences of a micro-batch that are tried at most.
_MOST_SEQUENCES = 64


def batch_warnings(
    request: TrainingRequest, memory: TrainingMemory, speed: TrainingSpeed
) -> Iterator[EstimateWarning]:
    """That more sequences at once would train faster, where one was taken for want of a word.

    Parameters
    ----------
    request
        What was asked, which may leave ``micro_batch_size`` out.
    memory
        Memory of the run, which says how many sequences fit.
    speed
        Its speed by published constants.
    """
    if "micro_batch_size" in request.training.model_fields_set or not memory.fits:
        return
    if request.training.mfu_ratio is not None or request.training.sequence_lengths is not None:
        return
    fitting = min(float(memory.max_micro_batch_size.value), _MOST_SEQUENCES)
    if fitting < 2:
        return
    sequences = 2 ** (int(fitting).bit_length() - 1)
    batch = replace(speed.setup.micro_batch, sequences=sequences)
    larger = training_speed(replace(speed.setup, micro_batch=batch)).step.tokens_per_s
    gain = float(larger / speed.step.tokens_per_s)
    if gain >= _WORTH_TELLING:
        yield EstimateWarning(
            "micro_batches_of_one",
            "speed is that of one sequence at a time on each rank, as nothing says how many a "
            f"micro-batch has: with {sequences}, which fit, it is {gain:.1f} times that",
        )
