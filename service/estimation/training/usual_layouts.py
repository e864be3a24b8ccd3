"""How people divide a model with a framework made for it, where a request does not say."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import inf
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
#: Most accelerators that share each matrix, however far fast links reach: no run that is published
#: divides further.
_WIDEST = 8


def usual_layouts(
    setup: TrainingSetup, asked: TrainingSettingsRequest, framework: Engine
) -> Iterator[ParallelismRequest]:
    """Layouts of the same accelerators that divide the model, the least divided first.

    Experts are divided among the accelerators that fast links join. Tensors come next, and layers
    only where a step may have micro-batches for all stages of a pipeline; with experts, whose
    matrices are narrow already, it is the other way round. None for frameworks that divide states
    alone, with copies of the whole model.

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
    if framework.classes.get("training") != DIVIDES_MODELS or count == 1:
        return
    degrees = framework.recipes.tried_degrees(asked.method)
    domain = min(count, accelerator.scale_up_domain_accelerators)
    widest = min(domain, _WIDEST) if has_fast_links(accelerator) else 1
    tensors = [n for n in tensor_degrees(architecture, widest) if count % n == 0]
    stages = [n for n in divisors(count) if n <= architecture.layer_count]
    experts = [1, expert_ranks(architecture, domain)]
    every = sorted(product(tensors, stages), key=_least_divided if architecture.routes else _stages)
    for (tensor, pipeline), expert in product(every, sorted(set(experts), reverse=True)):
        used = {"tensor": tensor, "pipeline": pipeline, "expert": expert}
        divided = {name for name, degree in used.items() if degree > 1}
        whole = count % (tensor * pipeline) == 0 and (count // pipeline) % expert == 0
        # Layers are divided once tensors are as far as fast links reach, those of experts before.
        narrow = pipeline > 1 and tensor < tensors[-1] and not architecture.routes
        filled = pipeline <= _most_stages(asked, count // (tensor * pipeline))
        if divided and whole and filled and not narrow and (not degrees or divided <= degrees):
            yield ParallelismRequest(**used, data=count // (tensor * pipeline))


def _stages(degrees: tuple[int, int]) -> tuple[int, int]:
    """The order of layouts that divide tensors before layers: degrees of both in that order."""
    tensor, pipeline = degrees
    return pipeline, tensor


def _least_divided(degrees: tuple[int, int]) -> tuple[int, int]:
    """The order of layouts that divide as little as they can, and layers before tensors."""
    tensor, pipeline = degrees
    return tensor * pipeline, tensor


def _most_stages(asked: TrainingSettingsRequest, ranks: int) -> float:
    """Stages that the micro-batches of a step fill, of one sequence each unless told otherwise.

    A step that nobody tells of has as many as fill any pipeline, unless each is a step of its own.
    """
    if asked.gradient_accumulation_steps is not None:
        return asked.gradient_accumulation_steps
    tokens = asked.global_batch_tokens
    if asked.global_batch_size is None and tokens is None:
        return 1 if asked.optimizer_in_backward else inf
    sequences = asked.global_batch_size or (tokens or 0.0) / asked.sequence_length
    return max(sequences / ranks / (asked.micro_batch_size or 1), 1.0)


def layout_warning(setup: TrainingSetup) -> EstimateWarning:
    """What to say of a layout that nobody asked for."""
    return EstimateWarning(
        "layout_assumed",
        "a copy of the model on each accelerator does not fit, and the request does not say how "
        f"the model is divided: {described(setup.deployment.parallelism)} is estimated; state "
        "parallelism, or ask for a recommendation of the best layout",
        about="parallelism",
    )
