"""How people divide a model with a framework made for it, where a request does not say."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
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


def usual_layouts(
    setup: TrainingSetup, asked: TrainingSettingsRequest, framework: Engine
) -> Iterator[ParallelismRequest]:
    """Layouts of the same accelerators that divide the model, the least divided first.

    Experts are divided among the accelerators that fast links join, then tensors, and layers only
    where a step has micro-batches for all stages of a pipeline. None for frameworks that divide
    states alone, with copies of the whole model.

    Parameters
    ----------
    setup
        The run with a copy of the model on each accelerator.
    asked, framework
        What was asked, and the framework.

    References
    ----------
    Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
    Megatron-LM, 2021, takeaways 1 to 3 (tensors within a server, layers across).
    """
    deployment = setup.deployment
    count = deployment.parallelism.accelerator_count
    accelerator, architecture = deployment.accelerator, deployment.architecture
    if framework.classes.get("training") != DIVIDES_MODELS or count == 1:
        return
    degrees = framework.recipes.tried_degrees(asked.method)
    domain = min(count, accelerator.scale_up_domain_accelerators)
    widest = domain if has_fast_links(accelerator) else 1
    tensors = [n for n in tensor_degrees(architecture, widest) if count % n == 0]
    stages = [n for n in divisors(count) if n <= architecture.layer_count]
    experts = [1, expert_ranks(architecture, domain)]
    for pipeline, tensor, expert in product(stages, tensors, sorted(set(experts), reverse=True)):
        used = {"tensor": tensor, "pipeline": pipeline, "expert": expert}
        divided = {name for name, degree in used.items() if degree > 1}
        whole = count % (tensor * pipeline) == 0 and (count // pipeline) % expert == 0
        # Layers are divided once tensors are as far as fast links reach.
        narrow = pipeline > 1 and tensor < tensors[-1]
        filled = pipeline <= _micro_batches(asked, count // (tensor * pipeline))
        if divided and whole and filled and not narrow and (not degrees or divided <= degrees):
            yield ParallelismRequest(**used, data=count // (tensor * pipeline))


def _micro_batches(asked: TrainingSettingsRequest, ranks: int) -> float:
    """Micro-batches a step of a pipeline, which has those of one sequence unless told otherwise."""
    if asked.gradient_accumulation_steps is not None:
        return asked.gradient_accumulation_steps
    tokens = asked.global_batch_tokens
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
