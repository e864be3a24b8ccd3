"""What memory beside an accelerator costs: its price, its making, and the energy of its traffic."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING

from service.core.elementwise import Number, maximum, where
from service.core.interval import Interval, exact, independent_sum, product, scale
from service.core.memory.transfers import of_size, transfer_energy_j
from service.core.performance.usage import Usage

if TYPE_CHECKING:
    from service.core.memory.inference.tiers import InferenceTiers

#: Stands for no bytes where something is divided by them [B].
_LEAST_BYTES = 1e-300


def provided_bytes(capacity_bytes: Number, used_bytes: Interval) -> Interval:
    """What has to be there of a tier: all of it, or what is used where it has no bounds [B].

    Parameters
    ----------
    capacity_bytes
        Of the part that an accelerator has [B]; infinite where nobody says.
    used_bytes
        What is kept in it [B].
    """
    bounded = capacity_bytes < inf
    return Interval(
        *(
            where(bounded, capacity_bytes, one)
            for one in (used_bytes.value, used_bytes.low, used_bytes.high)
        )
    )


def tiers_price_usd(tiers: InferenceTiers) -> Interval:
    """Price of the memory beside the machine, for each accelerator [USD].

    Memory of the host comes with the machine; what has no known price is left out.
    """
    return _of_all(tiers, [tier.worth.price_usd_per_gb for tier in tiers.outside])


def tiers_embodied_kgco2e(tiers: InferenceTiers) -> Interval:
    """Making of the memory beside the machine, for each accelerator [kgCO2e].

    That of the host's memory is part of the machine's; what is not known is left out.
    """
    return _of_all(tiers, [tier.worth.embodied_kgco2e_per_gb for tier in tiers.outside])


def _of_all(tiers: InferenceTiers, per_gb: Sequence[Interval | None]) -> Interval:
    """What all tiers beside the machine come to at so much for each gigabyte."""
    found = [
        product(of_size(each, 1.0), provided_bytes(tier.capacity_bytes, used))
        for tier, used, each in zip(tiers.outside, tiers.used_bytes[1:], per_gb, strict=True)
        if each is not None and tier.beside_machine
    ]
    return independent_sum(found) if found else exact(0.0)


def tiers_power_w(tiers: InferenceTiers, usage: Usage) -> Interval:
    """Mean power of the memory outside by what moves, for each accelerator [W].

    The share of a decoding step's bytes that lie outside is taken for prompts, too. Tiers whose
    energy for a bit is not known are left out.

    Parameters
    ----------
    tiers
        Where everything lives.
    usage
        How many bytes move in each phase, and how much of the time.
    """
    moved: Number = 0.0
    for use in usage.phases:
        moved = moved + use.time_ratio * use.bytes_per_s
    traffic = tiers.traffic()
    whole: Number = 0.0
    for each in traffic:
        whole = whole + each.touched_bytes
    rate = usage.busy_ratio * moved / maximum(whole, _LEAST_BYTES)
    found = [
        scale(transfer_energy_j(1.0, tier.worth.energy_pj_per_bit), rate * each.touched_bytes)
        for tier, each in zip(tiers.outside, traffic[1:], strict=True)
        if tier.worth.energy_pj_per_bit is not None
    ]
    return independent_sum(found) if found else exact(0.0)
