"""Whether slower memory that is cheaper to make is better for the climate than faster memory."""

from __future__ import annotations

from dataclasses import dataclass

from service.core.elementwise import Number, maximum
from service.core.explanation import Formula
from service.core.interval import Interval, product, quotient, scale

_JOULES_PER_KWH = 3.6e6

#: Paths start at a ``MemoryChoice``.
MEMORY_CHOICE = (
    Formula(
        "break_even_gco2e_per_kwh",
        "saved_gco2e_per_token / extra_kwh_per_token",
        "Embodied saving per token over extra energy per token",
        "break_even_gco2e_per_kwh",
    ),
)


@dataclass(frozen=True, slots=True)
class MemoryChoice:
    """Slower against faster memory, per token.

    ``break_even_gco2e_per_kwh`` is the grid intensity below which the slower memory is better; None
    where the slower memory saves nothing in the making, and so never is.
    """

    saved_gco2e_per_token: Interval
    extra_kwh_per_token: Interval
    break_even_gco2e_per_kwh: Interval | None


def memory_choice(
    saved_kgco2e_per_gb: Interval,
    size_gb: Number,
    lifetime_tokens: Interval,
    extra_s_per_token: Interval,
    power_w: Interval,
    pue_ratio: Interval,
) -> MemoryChoice:
    """Grid intensity at which slower and faster memory emit as much.

    Parameters
    ----------
    saved_kgco2e_per_gb
        Making of the faster memory less that of the slower one [kgCO2e/GB]; may be negative.
    size_gb
        Memory that is chosen [GB].
    lifetime_tokens
        Tokens over the memory's life [-].
    extra_s_per_token
        Time by which the slower memory lengthens a token [s].
    power_w
        IT power of the machine during it [W].
    pue_ratio
        Of the building [-].

    Returns
    -------
    MemoryChoice
        Where even the upper end of the saving is not positive, there is no break-even.
    """
    to_grams = 1000.0 * size_gb
    saving = quotient(
        Interval(
            maximum(saved_kgco2e_per_gb.value, 0.0) * to_grams,
            maximum(saved_kgco2e_per_gb.low, 0.0) * to_grams,
            maximum(saved_kgco2e_per_gb.high, 0.0) * to_grams,
        ),
        lifetime_tokens,
    )
    extra = scale(product(extra_s_per_token, power_w, pue_ratio), 1.0 / _JOULES_PER_KWH)
    break_even = quotient(saving, extra) if saved_kgco2e_per_gb.high > 0.0 else None
    return MemoryChoice(saving, extra, break_even)
