"""What attention that is not fused keeps of every score for the backward pass."""

from __future__ import annotations

from service.core.memory.training.settings import TrainingSettings

MASK_BYTES = 1.0  # an element of a dropout mask
_WIDE = 4.0  # bytes of an element in 32 bit


def score_bytes(
    settings: TrainingSettings, element_bytes: float, *, wide: bool, capped: bool
) -> float:
    """Bytes per head and pair of tokens of one sequence [B].

    The softmax keeps what it makes; the product with values what it reads: the same, or what
    narrowing or dropout makes of it. Dropout keeps its mask, and capping what its tangent makes.

    Parameters
    ----------
    settings
        Where there is dropout.
    element_bytes
        Size of an activation [B].
    wide
        Whether the softmax is computed in 32 bit.
    capped
        Whether scores go through a hyperbolic tangent.

    References
    ----------
    Korthikanti et al., 2022, section 4.1 (5·a·s²·b in 16 bit, with dropout),
    https://arxiv.org/abs/2205.05198; tools/autograd/derivatives.yaml (_softmax, native_dropout,
    tanh, bmm), PyTorch, 2025
    """
    softmax = max(_WIDE, element_bytes) if wide else element_bytes
    kept = softmax + (element_bytes if capped else 0.0)
    if "attention" in settings.dropout:
        return kept + MASK_BYTES + element_bytes
    return kept + (element_bytes if softmax > element_bytes else 0.0)
