"""What zero weights save: memory where they are left out, time where kernels skip them."""

from __future__ import annotations

from typing import Literal, TypeAlias

from service.core.elementwise import Number, minimum
from service.core.explanation import Formula

#: Which zeros there are: whole rows and heads, two of every four, or anywhere.
Structure: TypeAlias = Literal["structured", "2:4", "unstructured"]

#: Share of zeros in the 2:4 pattern, and bits that say where each kept element stood. Source:
#: Mishra et al., Accelerating sparse deep neural networks, 2021, https://arxiv.org/abs/2104.08378.
SEMI_STRUCTURED_RATIO = 0.5
_POSITION_BITS = 2.0
#: Bits of a column's number in compressed rows, and of a bitmap that says where zeros are.
_INDEX_BITS, _BITMAP_BITS = 16.0, 1.0

#: Families of accelerators whose matrix units take products of 2:4 matrices at twice the rate.
#: Sources: NVIDIA Ampere, Ada, Hopper and Blackwell white papers; AMD CDNA 3 white paper, 2023.
SEMI_STRUCTURED_FAMILIES = frozenset(
    {
        *("nvidia-ampere", "nvidia-ampere-ga10x", "nvidia-ada", "nvidia-hopper"),
        *("nvidia-blackwell", "nvidia-blackwell-gb20x", "amd-cdna3", "amd-cdna4"),
    }
)

#: Paths start at pruned weights.
PRUNED = (
    Formula(
        "Pruned weights",
        "dense_bytes * kept_ratio",
        "Zeros that are left out, with what says where they were",
        "pruned_bytes",
        unit="B",
    ),
)


def stored_ratio(structure: Structure, sparsity_ratio: Number, bits_per_element: Number) -> Number:
    """Stored bytes of pruned matrices over dense ones [-].

    Parameters
    ----------
    structure
        Which zeros there are; two of four are half, whatever ``sparsity_ratio`` says.
    sparsity_ratio
        Share of zeros [-].
    bits_per_element
        Bits of a dense element [bit].

    Returns
    -------
    Number
        Zeros anywhere are stored with an index of 16 bits or a bitmap, whichever takes less, and
        dense where neither saves anything.
    """
    kept = 1.0 - sparsity_ratio
    if structure == "structured":
        return kept
    if structure == "2:4":
        half = 1.0 - SEMI_STRUCTURED_RATIO
        return half * (1.0 + _POSITION_BITS / bits_per_element)
    indexed = kept * (1.0 + _INDEX_BITS / bits_per_element)
    mapped = kept + _BITMAP_BITS / bits_per_element
    return minimum(minimum(indexed, mapped), 1.0)


def product_ratio(structure: Structure, sparsity_ratio: Number, family: str) -> Number:
    """Time of matrix products that compute bounds, over that of dense ones [-].

    Zeros anywhere are multiplied like all others: no engine for language models skips them.
    """
    if structure == "structured":
        return 1.0 - sparsity_ratio
    if structure == "2:4" and family in SEMI_STRUCTURED_FAMILIES:
        return 1.0 - SEMI_STRUCTURED_RATIO
    return 1.0
