"""What adapters make of whole matrices while these are multiplied, however few tokens there are.

BOFT turns every adapted matrix before it is used, and the backward pass needs what came of it;
DoRA takes the norm of every adapted matrix with its update.

References
----------
Liu et al., BOFT, 2023, https://arxiv.org/abs/2311.06243; Liu et al., DoRA, 2024,
https://arxiv.org/abs/2402.09353; huggingface/peft src/peft/tuners/boft/layer.py (Linear.forward)
and src/peft/tuners/lora/dora.py (DoraLinearLayer.forward), 2025
"""

from __future__ import annotations

from collections.abc import Iterator

from service.core.architecture.model import LayerGroup
from service.core.architecture.sharding import kv_heads, rank_shape
from service.core.deployment import Deployment, Parallelism
from service.core.memory.training.adapters import is_adapted
from service.core.memory.training.settings import TrainingSettings


def adapted_weights_bytes(
    deployment: Deployment, settings: TrainingSettings, layers: int, element_bytes: float
) -> dict[str, float]:
    """Tensors of the size of weights that adapters make, by what they are [B].

    ``rotated_weights`` stay until the backward pass, of every layer or, where whole layers are
    recomputed, of those that are recomputed together; ``normed_matrix`` is the largest one while
    its norm is taken. Empty for adapters that make none.

    Parameters
    ----------
    deployment, settings
        What is trained, on what, and how.
    layers
        Layers that the rank holds.
    element_bytes
        Size of an activation, which these tensors have [B].
    """
    if not settings.trains or settings.method == "full":
        return {}
    parallelism, architecture = deployment.parallelism, deployment.architecture
    each = [list(_adapted(group, parallelism, settings)) for group in architecture.groups]
    if settings.adapter == "boft":
        factors = settings.boft_factors
        sizes = [sum(_rotated(shape, factors) for shape in shapes) for shapes in each]
        whole = sum(
            group.count * size for group, size in zip(architecture.groups, sizes, strict=True)
        )
        kept = whole * layers / architecture.layer_count
        if settings.activation_checkpointing == "full":
            kept = min(kept, max(sizes) * settings.checkpoint_every)
        return {"rotated_weights": kept * element_bytes}
    if settings.adapter == "dora":
        largest = max((_normed(shape) for shapes in each for shape in shapes), default=0.0)
        return {"normed_matrix": largest * element_bytes}
    return {}


def _adapted(
    group: LayerGroup, parallelism: Parallelism, settings: TrainingSettings
) -> Iterator[tuple[float, float]]:
    """Inputs and outputs of every adapted matrix of a layer on a rank."""
    for tensor in group.tensors:
        if is_adapted(tensor, settings):
            copies, inputs, outputs = rank_shape(tensor, parallelism, kv_heads(group))
            for _ in range(round(copies)):
                yield inputs, outputs


def _rotated(shape: tuple[float, float], factors: int) -> float:
    """Elements that stay of a matrix: the turned one, and scaled, and what turns it.

    One factor is multiplied by an identity, which stays; of several each stays with the products
    of those before it.
    """
    inputs, outputs = shape
    turning = 1.0 if factors == 1 else 2.0 * factors
    return turning * inputs**2 + 2.0 * inputs * outputs


def _normed(shape: tuple[float, float]) -> float:
    """Elements while a norm is taken: an identity goes through the adapter, which makes the update.

    That is scaled, and added to the matrix.
    """
    inputs, outputs = shape
    return inputs**2 + 3.0 * inputs * outputs
