"""Micro-batches that people take: what a run has whose request says nothing of them."""

from __future__ import annotations

from dataclasses import replace

from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Parallelism
from service.core.explanation import EstimateWarning
from service.core.memory.training.memory import training_memory
from service.core.memory.training.runtime import TrainingOverheads
from service.core.recipes import Recipes
from service.core.techniques.setup import TrainingSetup
from service.estimation.training.requests import TrainingSettingsRequest

#: Tokens of a micro-batch where the framework has no usual one: what sources of training in
#: hardware_catalog/measurements take in the middle, 2026.
_USUAL_TOKENS = 16_384
#: Code of what is said of a micro-batch that nobody told.
ASSUMED = "micro_batch_assumed"
#: The stage that gathers all weights for each micro-batch.
_GATHERED = 3


def usual_batch(
    asked: TrainingSettingsRequest,
    recipes: Recipes,
    architecture: ModelArchitecture,
    parallelism: Parallelism,
) -> int:
    """Sequences of a micro-batch: as asked, else as people who use the framework take them.

    A pipeline takes them one by one, since it is filled by many. Of a number of tokens it is the
    largest power of two of sequences that have no more, at least one. Where weights are gathered
    for each micro-batch, more tokens are needed to be worth it of a model each of whose tokens uses
    few of them, and tensor-parallel ranks, which divide activations, take as many as they would
    alone.
    """
    if asked.micro_batch_size is not None:
        return asked.micro_batch_size
    usual = recipes.untold(asked.method, asked.zero_stage or 0, routes=architecture.routes)
    if parallelism.pipeline > 1:
        return 1
    if "micro_batch_size" in usual:
        return int(usual["micro_batch_size"])
    tokens = float(usual.get("micro_batch_tokens", _USUAL_TOKENS))
    if asked.zero_stage == _GATHERED:
        tokens *= parallelism.tensor
        if parallelism.expert == 1:
            tokens *= architecture.total_parameters / architecture.active_parameters
    return _power_of_two(tokens / asked.sequence_length)


def fitting_batch(setup: TrainingSetup, overheads: TrainingOverheads) -> TrainingSetup:
    """A run with its micro-batch, or with the largest power of two of sequences that fits.

    If not even one sequence fits, it has one. Optimizer states that can be paged out need not be.
    """
    sequences = int(setup.micro_batch.sequences)
    if sequences == 1:
        return setup
    settings = replace(setup.settings.kept_whole, left_open=())
    memory = training_memory(setup.deployment, setup.micro_batch, settings, overheads)
    fitting = reduced(sequences, int(memory.max_micro_batch_size.value))
    return replace(setup, micro_batch=replace(setup.micro_batch, sequences=float(fitting)))


def reduced(usual: int, most: int) -> int:
    """The usual number where at most so many fit: itself, or a power of two, at least one."""
    return usual if usual <= most else _power_of_two(most)


def _power_of_two(most: float) -> int:
    """The largest one up to a number, at least one."""
    return 1 << (max(int(most), 1).bit_length() - 1)


def batch_warning(size: int) -> EstimateWarning:
    """What to say of a micro-batch that nobody told."""
    return EstimateWarning(
        ASSUMED,
        f"the request does not give the micro-batch: a size of {size} is assumed, which is what "
        "people usually take, or as much of it as fits. All figures are for this size",
    )
