"""How people divide a model with a framework made for it, where a request does not say."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import gcd, inf
from typing import Final

from service.core.architecture.sharding import divisors
from service.core.engines import Engine
from service.core.explanation import EstimateWarning
from service.core.layouts import expert_ranks, has_fast_links, tensor_degrees
from service.core.techniques.setup import TrainingSetup
from service.estimation.layouts import described
from service.estimation.requests import ParallelismRequest
from service.estimation.training.requests import TrainingSettingsRequest

#: Class of frameworks that divide a model by tensors and layers.
DIVIDES_MODELS: Final = "megatron-like"
#: Degrees of tensor parallelism that people take, and the most ranks that share the experts of a
#: layer, however far fast links reach: those of the runs in hardware_catalog/measurements, 2026, of
#: which only Trainium's, in cores, have matrices on more.
_TENSORS, _MOST_EXPERT_RANKS = (1, 2, 4, 8), 64
#: Ranks that share a sequence of so many tokens or more, each of which has a piece of usual length:
#: a choice of this service.
_CONTEXTS, _LONG_TOKENS, _FEWEST_TOKENS = (1, 4, 16), 32_768, 8_192
#: What people who count in powers of two mean by a million, over a million [-].
BINARY_MILLION: Final = 2.0**20 / 1e6


def usual_layouts(
    setup: TrainingSetup, asked: TrainingSettingsRequest, framework: Engine
) -> Iterator[ParallelismRequest]:
    """Layouts of the same accelerators that divide the model, the least divided first.

    Tensors are divided among accelerators that fast links join, layers where a step may have
    micro-batches for all stages of a pipeline, experts within fast links or somewhat beyond, and
    long sequences.
    None for frameworks with which people divide states alone, with copies of the whole model.

    Parameters
    ----------
    setup
        The run with a copy of the model on each accelerator.
    asked, framework
        What was asked, and the framework.

    References
    ----------
    Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
    Megatron-LM, 2021, takeaways 1 to 3 (tensors within a server, layers across). Megatron-Core,
    MoE user guide, 2025 (experts and layers rather than tensors).
    """
    deployment = setup.deployment
    count = deployment.parallelism.accelerator_count
    accelerator, architecture = deployment.accelerator, deployment.architecture
    divides = framework.classes.get("training") == DIVIDES_MODELS
    if count == 1 or not (divides or framework.recipes.divides_models):
        return
    degrees = framework.recipes.tried_degrees(asked.method)
    domain = min(count, accelerator.scale_up_domain_accelerators)
    widest = domain if has_fast_links(accelerator) else 1
    tensors = [n for n in tensor_degrees(architecture, widest) if n in _TENSORS and count % n == 0]
    stages = [n for n in divisors(count) if n <= architecture.layer_count]
    reaches = (domain, min(count, _MOST_EXPERT_RANKS))
    dealt = expert_ranks(architecture, count)
    experts = sorted(
        {max(n for n in divisors(gcd(dealt, count)) if n <= reach) for reach in reaches},
        reverse=True,
    )
    every = sorted(product(tensors, stages), key=_least_divided)
    contexts = _contexts(float(setup.micro_batch.tokens))
    for (tensor, pipeline), context, expert in product(every, contexts, experts):
        used = {"tensor": tensor, "pipeline": pipeline, "context": context, "expert": expert}
        divided = {name for name, degree in used.items() if degree > 1}
        each = tensor * pipeline * context
        whole = count % each == 0 and (count // (pipeline * context)) % expert == 0
        if not whole or not divided or (degrees and not divided <= degrees):
            continue
        if pipeline <= _most_stages(setup, asked, count // each):
            yield ParallelismRequest(**used, data=count // each)


def _contexts(tokens: float) -> list[int]:
    """Ranks that people share a sequence of so many tokens among: one, and more of long ones."""
    most = tokens / _FEWEST_TOKENS if tokens >= _LONG_TOKENS else 1
    return [n for n in _CONTEXTS if n <= most and tokens % n == 0]


def _least_divided(degrees: tuple[int, int]) -> tuple[int, int]:
    """The order of layouts that divide as little as they can, and layers before tensors."""
    tensor, pipeline = degrees
    return tensor * pipeline, tensor


def _most_stages(setup: TrainingSetup, asked: TrainingSettingsRequest, ranks: int) -> float:
    """Stages that the micro-batches of a step fill, of one sequence each unless told otherwise.

    A step that nobody tells of has as many as fill any pipeline, unless each is a step of its own.
    """
    if asked.gradient_accumulation_steps is not None:
        return asked.gradient_accumulation_steps
    tokens = asked.global_batch_tokens
    if asked.global_batch_size is None and tokens is None:
        return 1 if asked.optimizer_in_backward else inf
    # Of tokens a round number is told, and millions often mean powers of two.
    most_tokens = BINARY_MILLION * (tokens or 0.0)
    sequences = asked.global_batch_size or most_tokens / float(setup.micro_batch.tokens)
    return max(sequences / ranks / (asked.micro_batch_size or 1), 1.0)


def layout_warning(setup: TrainingSetup) -> EstimateWarning:
    """What to say of a layout that nobody asked for."""
    return EstimateWarning(
        "layout_assumed",
        "a copy of the model on each accelerator does not fit, recomputes all layers or computes "
        "all experts one by one, and the request does not say how the model is divided: "
        f"{described(setup.deployment.parallelism)} is estimated, the fastest of the usual "
        "layouts that fit, or the nearest to fitting; state parallelism if another one runs",
        about="parallelism",
    )
