"""What a training step computes again instead of keeping it."""

from __future__ import annotations

from collections.abc import Mapping

from service.core.memory.training.settings import TrainingSettings
from service.core.performance.training.work import TrainingWork

#: Share of the layers' forward pass that is computed again; the head belongs to none.
#: Source: Korthikanti et al., 2022, https://arxiv.org/abs/2205.05198 (full: one more forward);
#: "selective-operators" recomputes every other matrix product and all elementwise work.
_PRODUCTS = {"selective-operators": 0.5, "full": 1.0}
_ATTENTION = {"selective": 1.0, "full": 1.0}
_ELEMENTWISE = {"selective-operators": 1.0, "full": 1.0}


def layers_again(settings: TrainingSettings) -> float:
    """Share of layers whose whole forward pass is computed again, with its messages [-]."""
    if settings.activation_checkpointing != "full":
        return 0.0
    return settings.recomputed_layers_ratio


def attention_again(settings: TrainingSettings) -> float:
    """Share of a forward pass's attention that is computed again [-]."""
    return _share(_ATTENTION, settings)


def elementwise_again(settings: TrainingSettings, work: TrainingWork) -> float:
    """Share of a forward pass's elementwise work that is computed again [-].

    Of modules it is their share of what is written.
    """
    if settings.activation_checkpointing == "selective-modules":
        return work.remade_ratio
    return _share(_ELEMENTWISE, settings)


def kernels_again(settings: TrainingSettings) -> float:
    """Share of a forward pass's kernels that are issued again: of modules few are [-]."""
    return _share(_ELEMENTWISE, settings)


def products_again(settings: TrainingSettings, work: TrainingWork) -> float:
    """Share of a forward pass's products that are recomputed, of which the head is none [-].

    References
    ----------
    PyTorch, torch.utils.checkpoint, 2024 (without reentrance, recomputation stops as soon as all
    that is needed is there); JAX, jax.checkpoint, 2024 (what no gradient needs is not computed)
    """
    if settings.activation_checkpointing == "selective-modules":
        return work.raising_ratio
    share = _share(_PRODUCTS, settings) * (1.0 - work.head_ratio)
    if not settings.recomputes_last_product:
        share -= layers_again(settings) * work.ending_ratio / settings.checkpoint_every
    return share


def _share(shares: Mapping[str, float], settings: TrainingSettings) -> float:
    """What is computed again of a kind of work, where whole layers are not of all of them [-]."""
    again = settings.activation_checkpointing
    return shares.get(again, 0.0) * (layers_again(settings) if again == "full" else 1.0)
