"""What a training step computes again instead of keeping it."""

from __future__ import annotations

from service.core.memory.training.settings import TrainingSettings
from service.core.performance.training.work import TrainingWork

#: Share of the layers' forward pass that is computed again; the head belongs to none.
#: Source: Korthikanti et al., 2022, https://arxiv.org/abs/2205.05198 (full: one more forward);
#: "selective-operators" recomputes every other matrix product and all elementwise work.
RECOMPUTED_PRODUCTS = {"none": 0.0, "selective": 0.0, "selective-operators": 0.5, "full": 1.0}
RECOMPUTED_ATTENTION = {"none": 0.0, "selective": 1.0, "selective-operators": 0.0, "full": 1.0}
RECOMPUTED_ELEMENTWISE = {"none": 0.0, "selective": 0.0, "selective-operators": 1.0, "full": 1.0}


def products_again(settings: TrainingSettings, work: TrainingWork) -> float:
    """Share of a forward pass's products that are recomputed, of which the head is none [-].

    References
    ----------
    PyTorch, torch.utils.checkpoint, 2024 (without reentrance, recomputation stops as soon as all
    that is needed is there); JAX, jax.checkpoint, 2024 (what no gradient needs is not computed)
    """
    again = settings.activation_checkpointing
    share = RECOMPUTED_PRODUCTS[again] * (1.0 - work.head_ratio)
    if again == "full" and not settings.recomputes_last_product:
        share -= work.ending_ratio / settings.checkpoint_every
    return share
