"""Micro-batches that people take: what a run has whose request says nothing of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from service.core.architecture.model import ModelArchitecture
from service.core.architecture.sharding import divisors
from service.core.deployment import Parallelism
from service.core.engines import Engine
from service.core.explanation import EstimateWarning
from service.core.memory.training.memory import training_memory
from service.core.memory.training.runtime import TrainingOverheads
from service.core.recipes import Recipes
from service.core.techniques.setup import TrainingSetup
from service.estimation.resolution import Problems
from service.estimation.training.requests import TrainingSettingsRequest
from service.estimation.training.untold import zero_stage_of
from service.estimation.training.usual_layouts import BINARY_MILLION, DIVIDES_MODELS

#: Tokens of a micro-batch where the framework has no usual one: what sources of training in
#: hardware_catalog/measurements take in the middle, 2026.
_USUAL_TOKENS = 16_384
#: The same in a pipeline, which many small ones fill: one sequence of 4,096 tokens or more, and two
#: of 2,048, in the middle of the same sources.
_PIPELINE_TOKENS = 4_096
_GB = 1e9
#: Shares of what every rank needs that a batch told in tokens has at least: less is not rounded.
_FEWEST_OF_EACH = 0.5
#: Tokens of a step that differ by less from those that are told are what was meant [-].
_ROUND = 0.01
#: Code of what is said of a micro-batch that nobody told.
ASSUMED = "micro_batch_assumed"
#: Tokens of a step of runs that divide the model in the middle, and the fewest and most
#: micro-batches that are taken for each stage of a pipeline to make them, by the sources of
#: training in hardware_catalog/measurements, 2026.
_STEP_TOKENS = 4_194_304
_FEWEST_A_STAGE, _MOST_A_STAGE = 4, 16
#: Tokens of the largest steps that were published.
#: Source: Kimi Team, Kimi K2, 2025, section 2.5, https://arxiv.org/abs/2507.20534.
MOST_STEP_TOKENS = 2.0**26
#: The ZeRO stage that gathers all weights for each micro-batch.
GATHERS_WEIGHTS = 3


def usual_batch(
    asked: TrainingSettingsRequest,
    recipes: Recipes,
    architecture: ModelArchitecture,
    parallelism: Parallelism,
    memory_bytes: float,
    shared: int | None = None,
) -> int:
    """Sequences of a micro-batch: as asked, else as people who use the framework take them.

    A pipeline takes few, since it is filled by many. Of a number of tokens, which some frameworks'
    recipes make the larger the more ``memory_bytes`` an accelerator has, it is the
    largest power of two of sequences that have no more, at least one. Where weights are gathered
    for each micro-batch, more tokens are needed to be worth it of a model each of whose tokens uses
    few of them, and tensor-parallel ranks, which divide activations, take as many as they would
    alone. Of ``shared`` sequences of a step on a rank it is a number that divides them.
    """
    if asked.micro_batch_size is not None:
        return asked.micro_batch_size
    if shared is not None:
        alone = usual_batch(asked, recipes, architecture, parallelism, memory_bytes)
        return reduced(alone, alone, shared)
    usual = recipes.untold(asked.method, asked.zero_stage or 0, routes=architecture.routes)
    if parallelism.pipeline > 1:
        return _power_of_two(_PIPELINE_TOKENS / asked.sequence_length)
    if "micro_batch_size" in usual:
        return int(usual["micro_batch_size"])
    tokens = float(usual.get("micro_batch_tokens", _USUAL_TOKENS))
    if "micro_batch_tokens_per_gb" in usual:
        tokens = float(usual["micro_batch_tokens_per_gb"]) * memory_bytes / _GB
    if asked.zero_stage == GATHERS_WEIGHTS:
        tokens *= parallelism.tensor
        if parallelism.expert == 1:
            tokens *= architecture.total_parameters / architecture.active_parameters
    return _power_of_two(tokens / asked.sequence_length)


def usual_steps(
    asked: TrainingSettingsRequest, size: int, parallelism: Parallelism, framework: Engine | None
) -> int:
    """Micro-batches of so many sequences in a step where nobody tells their number, nor the batch.

    In a pipeline, and of all weights with frameworks that divide models, which large models are
    trained from nothing with, they are as many as make a usual number of tokens a step, within what
    people take for each stage. Elsewhere, and where an optimizer that runs within the backward pass
    allows no more, it is one.
    """
    stages = parallelism.pipeline
    divides = framework is not None and framework.classes.get("training") == DIVIDES_MODELS
    accumulates = stages > 1 or (divides and asked.method == "full")
    if not accumulates or asked.optimizer_in_backward:
        return 1
    steps = _STEP_TOKENS / (asked.sequence_length * size * parallelism.data)
    fewest = _FEWEST_A_STAGE if stages > 1 else 1
    return min(max(round(steps / stages), fewest), _MOST_A_STAGE) * stages


def with_steps(
    asked: TrainingSettingsRequest,
    shared: int | None,
    framework: Engine | None,
    architecture: ModelArchitecture,
    parallelism: Parallelism,
    memory_bytes: float,
) -> TrainingSettingsRequest:
    """What was asked, with how many micro-batches a step has where nobody says.

    Of ``shared`` sequences that a rank takes a step, one of their size and number follows from the
    other, or the number from a usual size.
    """
    recipes = Recipes() if framework is None else framework.recipes
    ranks = parallelism.data * parallelism.context
    told: dict[str, Any] = {
        "zero_stage": zero_stage_of(asked, recipes, ranks, parallelism.pipeline)
    }
    steps = asked.gradient_accumulation_steps
    if steps is None:
        divided = asked.model_copy(update=told)
        size = usual_batch(divided, recipes, architecture, parallelism, memory_bytes, shared)
        told["gradient_accumulation_steps"] = (
            usual_steps(asked, size, parallelism, framework) if shared is None else shared // size
        )
    elif shared is not None:
        told["micro_batch_size"] = asked.micro_batch_size or shared // steps
    return asked.model_copy(update=told)


def taken(asked: TrainingSettingsRequest, setup: TrainingSetup) -> TrainingSettingsRequest:
    """What was asked, with the micro-batches that a run takes."""
    return asked.model_copy(
        update={
            "micro_batch_size": int(setup.micro_batch.sequences),
            "gradient_accumulation_steps": int(setup.settings.gradient_accumulation_steps),
        }
    )


def assumes_steps(asked: TrainingSettingsRequest, steps: float) -> bool:
    """Whether a request leaves it open how many micro-batches a step has, and it has several."""
    told = (asked.gradient_accumulation_steps, asked.global_batch_size, asked.global_batch_tokens)
    return told == (None, None, None) and steps > 1


def tells_batch(asked: TrainingSettingsRequest, steps: float) -> bool:
    """Whether a request decides the batch of a step, which has so many micro-batches."""
    if asked.global_batch_size is not None or asked.global_batch_tokens is not None:
        return True
    return asked.micro_batch_size is not None and not assumes_steps(asked, steps)


def has_few_sequences(asked: TrainingSettingsRequest, ranks: int) -> bool:
    """Whether a global batch that is told has no sequence for each of so many ranks."""
    sequences: float | None = asked.global_batch_size
    if sequences is None and asked.global_batch_tokens is not None:
        sequences = asked.global_batch_tokens / asked.sequence_length / _FEWEST_OF_EACH
    return sequences is not None and sequences < ranks


def shared_batch(
    asked: TrainingSettingsRequest, parallelism: Parallelism, problems: Problems
) -> int | None:
    """Sequences of a step on each data-parallel rank; None where nobody tells the global batch.

    Notes, with the nearest batch that divides, what ranks and micro-batches do not divide. Of
    tokens, which people tell in round numbers, it is that nearest batch itself, or the nearest to
    millions as powers of two if that fills a pipeline.
    """
    if asked.global_batch_size is not None and asked.global_batch_tokens is not None:
        problems.add(
            "/training/global_batch_tokens",
            "global_batch_size says how many sequences a step has; give one of the two",
        )
        return None
    told = (asked.micro_batch_size or 1) * (asked.gradient_accumulation_steps or 1)
    each = told * parallelism.data
    if asked.global_batch_tokens is not None:
        sequences = asked.global_batch_tokens / asked.sequence_length
        if sequences < _FEWEST_OF_EACH * each:
            problems.add(
                "/training/global_batch_tokens",
                f"{asked.global_batch_tokens:,.0f} tokens are {sequences:,.0f} sequences, too few "
                f"for {_parts_of(asked, parallelism)}; divide the model among accelerators, or "
                f"take {each * asked.sequence_length:,} tokens",
            )
            return None
        nearest = [max(round(unit * sequences / each), 1) for unit in (1.0, BINARY_MILLION)]
        filling = (number for number in nearest if number % parallelism.pipeline == 0)
        return next(filling, nearest[0]) * told
    if asked.global_batch_size is None:
        return None
    below, rest = divmod(asked.global_batch_size, each)
    if not rest:
        return _as_told(asked, parallelism, problems)
    near = " or ".join(f"{each * n:,}" for n in (below, below + 1) if n)
    problems.add(
        "/training/global_batch_size",
        f"{asked.global_batch_size:,} sequences cannot be divided into "
        f"{_parts_of(asked, parallelism)}; {near} can",
    )
    return None


def _as_told(
    asked: TrainingSettingsRequest, parallelism: Parallelism, problems: Problems
) -> int | None:
    """Sequences of each rank; notes it where micro-batch and their number make another batch."""
    told, micro = asked.global_batch_size or 0, asked.micro_batch_size
    steps, ranks = asked.gradient_accumulation_steps, parallelism.data
    if micro is not None and steps is not None and micro * steps * ranks != told:
        problems.add(
            "/training/global_batch_size",
            f"{_parts_of(asked, parallelism)} make {micro * steps * ranks:,} sequences, not "
            f"{told:,}; leave out global_batch_size, micro_batch_size or "
            "gradient_accumulation_steps",
        )
        return None
    return told // ranks


def _parts_of(asked: TrainingSettingsRequest, parallelism: Parallelism) -> str:
    """What a global batch is divided into, in words."""
    ranks = f"{parallelism.data:,} data-parallel rank{'s' if parallelism.data > 1 else ''}"
    parts = [ranks]
    if asked.gradient_accumulation_steps is not None:
        parts.append(f"gradient_accumulation_steps {asked.gradient_accumulation_steps:,}")
    if asked.micro_batch_size is not None:
        parts.append(f"micro_batch_size {asked.micro_batch_size:,}")
    return " × ".join(parts)


def tokens_warning(
    asked: TrainingSettingsRequest, shared: int | None, parallelism: Parallelism
) -> Iterator[EstimateWarning]:
    """What to say of a batch told in tokens that sequences and ranks do not divide evenly."""
    if asked.global_batch_tokens is None or shared is None:
        return
    sequences = shared * parallelism.data
    tokens = sequences * asked.sequence_length
    if abs(tokens / asked.global_batch_tokens - 1.0) > _ROUND:
        yield EstimateWarning(
            "global_batch_rounded",
            f"{asked.global_batch_tokens:,.0f} tokens a step do not divide into sequences for each "
            f"rank: {sequences:,} sequences ({tokens:,} tokens) are estimated",
            about="training.global_batch_tokens",
        )


def fitting_batch(
    setup: TrainingSetup, overheads: TrainingOverheads, shared: int | None = None
) -> TrainingSetup:
    """A run with its micro-batch, or with the largest power of two of sequences that fits.

    Of ``shared`` sequences that a rank takes a step it is the largest number that divides them. If
    not even one sequence fits, it has one. Optimizer states that can be paged out need not be.
    """
    sequences = int(setup.micro_batch.sequences)
    if sequences == 1:
        return setup
    settings = replace(setup.settings.kept_whole, left_open=())
    memory = training_memory(setup.deployment, setup.micro_batch, settings, overheads)
    return in_batches(
        setup, reduced(sequences, int(memory.max_micro_batch_size.value), shared), shared
    )


def in_batches(setup: TrainingSetup, sequences: float, shared: int | None = None) -> TrainingSetup:
    """A run with other micro-batches, and as many of them as share its sequences of a step."""
    batch = replace(setup.micro_batch, sequences=float(sequences))
    if shared is None:
        return replace(setup, micro_batch=batch)
    settings = replace(setup.settings, gradient_accumulation_steps=float(shared // sequences))
    return replace(setup, micro_batch=batch, settings=settings)


def reduced(usual: int, most: int, shared: int | None = None) -> int:
    """The usual number where at most so many fit: itself, or a power of two, at least one.

    Of ``shared`` sequences of a step it is the largest number that divides them.
    """
    if shared is not None:
        fitting = max(min(usual, most), 1)
        return max(number for number in divisors(shared) if number <= fitting)
    return usual if usual <= most else _power_of_two(most)


def _power_of_two(most: float) -> int:
    """The largest one up to a number, at least one."""
    return 1 << (max(int(most), 1).bit_length() - 1)


def steps_warning(steps: int) -> EstimateWarning:
    """What to say of a number of micro-batches that nobody told."""
    return EstimateWarning(
        "micro_batches_assumed",
        "the request says neither how large the batch of all ranks is nor how many micro-batches a "
        f"step has: {steps} are assumed, as people usually take in such a layout",
        about="training.gradient_accumulation_steps",
    )


def batch_warning(size: int) -> EstimateWarning:
    """What to say of a micro-batch that nobody told."""
    return EstimateWarning(
        ASSUMED,
        f"the request does not give the micro-batch: a size of {size} is assumed, which is what "
        "people usually take, or as much of it as fits. All figures are for this size",
    )
