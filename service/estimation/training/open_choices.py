"""What a request leaves open that decides how fast a run is: ranges that reach over it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from service.core.engines import FALLBACK_ENGINE
from service.core.estimate.training import TrainingSpeed, TrainingSpeedSetup, reaching
from service.core.explanation import EstimateWarning
from service.core.memory.training.memory import TrainingMemory
from service.core.memory.training.settings import TrainingSettings
from service.estimation.training.memory import CHOICES, told_by
from service.estimation.training.requests import TrainingRequest

#: Other choices are told from so many times the speed on: less lies within intervals.
_WORTH_TELLING = 1.05
_WORTH_TELLING_OF_BATCHES = 1.25
#: Sequences of a micro-batch that are tried at most.
_MOST_SEQUENCES = 64
_BATCH = "micro_batch_size"


def with_open_choices(
    speed: TrainingSpeed, request: TrainingRequest, memory: TrainingMemory
) -> TrainingSpeed:
    """A speed whose range reaches over micro-batches and ways to fit that nobody told.

    One sequence at a time is the least that a rank can compute; people take as many as fit where
    that is faster. A run that does not fit as it is taken to be was run otherwise: with layers
    recomputed or, where nothing says by which framework, with states and weights divided.

    Parameters
    ----------
    speed
        The speed of a run with a sequence at a time where nothing else was asked for.
    request, memory
        What was asked, and the memory that it takes.
    """
    setup, asked = speed.setup, request.training
    others: dict[str, Sequence[TrainingSpeedSetup]] = {}
    if _BATCH not in asked.model_fields_set and asked.sequence_lengths is None:
        sequences = _most_sequences(memory)
        if sequences > 1:
            batch = replace(setup.micro_batch, sequences=sequences)
            others[_BATCH] = [replace(setup, micro_batch=batch)]
    if memory.fits_certainty == "no":
        for name, settings in _fitting(setup, request):
            others[name] = [replace(setup, settings=settings)]
    return reaching(speed, others)


def _most_sequences(memory: TrainingMemory) -> int:
    """The largest power of two of sequences that fits, up to a usual number; 0 if none does."""
    fitting = int(min(float(memory.max_micro_batch_size.value), _MOST_SEQUENCES))
    return 2 ** (fitting.bit_length() - 1) if memory.fits and fitting else 0


def _fitting(
    setup: TrainingSpeedSetup, request: TrainingRequest
) -> Iterator[tuple[str, TrainingSettings]]:
    """Settings of the same run by which more fits, of what nobody told."""
    asked, settings = request.training, setup.settings
    parallelism = setup.deployment.parallelism
    if asked.activation_checkpointing is None and settings.activation_checkpointing != "full":
        yield "activation_checkpointing", replace(settings, activation_checkpointing="full")
    divisible = parallelism.data * parallelism.context > 1 and parallelism.pipeline == 1
    if asked.zero_stage is None and divisible and settings.framework == FALLBACK_ENGINE:
        yield "zero_stage", replace(settings, zero_stage=3)


def speed_warnings(speed: TrainingSpeed) -> Iterator[EstimateWarning]:
    """What to say about choices that nobody told and that speed depends on."""
    usual = float(speed.step.step_s)
    for name, times in speed.otherwise_s.items():
        ratio = max((usual / float(one) for one in times), key=lambda one: max(one, 1.0 / one))
        if name == _BATCH:
            if ratio >= _WORTH_TELLING_OF_BATCHES:
                yield EstimateWarning(
                    "micro_batches_of_one",
                    "speed is that of one sequence at a time on each rank, because "
                    f"micro_batch_size is not given: with as many as fit it is {ratio:.1f} times "
                    "that. The range reaches up to there",
                )
        elif max(ratio, 1.0 / ratio) >= _WORTH_TELLING:
            yield EstimateWarning(
                "speed_left_open",
                f"the request does not say {CHOICES[name]}: with another common choice the run has "
                f"{ratio:.2f} times the speed. The range covers both; state it to narrow the range",
                about=told_by(name),
            )
