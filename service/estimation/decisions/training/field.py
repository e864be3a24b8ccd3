"""All training candidates of a search in all places, cut down to those that nothing beats."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import NDArray

from service.core.architecture.model import ModelArchitecture
from service.core.elementwise import FloatArray
from service.core.planning.training_candidates import (
    StateTooLarge,
    TrainingCandidates,
    TrainingSpace,
    training_candidates,
)
from service.estimation.decisions.exclusions import Exclusion, Exclusions
from service.estimation.decisions.ground import scale_up_domains
from service.estimation.decisions.siting import Bill, Contest, Held, Rated, Sited, sited, within_all
from service.estimation.decisions.training.space import ResolvedTrainingSearch

SECONDS_PER_DAY = 86_400.0
_KG_PER_GRAM = 1e-3

#: Name of the exclusion of runs that failures keep from any progress.
_NEVER_ENDS = "makes_progress"


@dataclass(frozen=True, slots=True)
class TrainingField:
    """Candidates of each model, and those in places that met all limits and that nothing beats.

    Metrics of ``sited``: share of memory filled beyond the target of headroom [-], time of the
    run [s], and its carbon [kg], water [L] and cost [USD].
    """

    of_model: tuple[TrainingCandidates, ...]
    sited: Sited
    searched: int
    exclusions: tuple[Exclusion, ...]
    too_large: tuple[tuple[StateTooLarge, ...], ...]


def training_field(search: ResolvedTrainingSearch) -> TrainingField:
    """Search everything.

    Returns
    -------
    TrainingField
        Whose ``sited`` is empty if nothing meets the limits.
    """
    of_model: list[TrainingCandidates] = []
    large: list[tuple[StateTooLarge, ...]] = []
    contests: list[Contest] = []
    excluded = Exclusions()
    for entry, space in zip(search.models, search.spaces, strict=True):
        found, lacking = training_candidates(entry.value, space, search.demand, search.around)
        of_model.append(found)
        large.append(lacking)
        contests.append(_contest(found, entry.value, space, search, excluded, len(lacking)))
    return TrainingField(
        of_model=tuple(of_model),
        sited=sited(contests, search.ground, (_KG_PER_GRAM, 1.0, 1.0), excluded),
        searched=sum(len(found) for found in of_model),
        exclusions=excluded.all(),
        too_large=tuple(large),
    )


def _contest(
    found: TrainingCandidates,
    architecture: ModelArchitecture,
    space: TrainingSpace,
    search: ResolvedTrainingSearch,
    excluded: Exclusions,
    too_large: int,
) -> Contest:
    limits = search.limits
    hours = found.accelerator_hours / np.maximum(found.accelerators, 1.0)
    tokens = np.full(len(found), search.demand.sequence_tokens)
    alive = within_all(
        (
            ("context_length", "tokens", tokens, architecture.max_position_embeddings),
            (
                "headroom_ratio_at_least",
                "-",
                -found.headroom_ratio,
                -limits.headroom_ratio_at_least,
            ),
            ("host_memory_bytes", "B", found.host_bytes, search.host_memory_bytes),
            ("days", "d", found.wall_s / SECONDS_PER_DAY, limits.days),
            ("it_power_w", "W", found.power_w, limits.it_power_w),
        ),
        len(found),
        excluded,
    )
    ending = np.isfinite(found.wall_s[alive])
    if not ending.all():
        excluded.without_threshold(_NEVER_ENDS, int(len(alive) - ending.sum()))
        alive = alive[ending]
    tensor = np.array([layout.tensor for layout in space.layouts], dtype=np.intp)
    domains = scale_up_domains(search.ground)
    alive = alive[excluded.beyond_domain(tensor[found.layout[alive]], domains[found.offer[alive]])]
    if too_large:
        excluded.add("headroom_ratio_at_least", too_large)

    def limits_of(bill: Bill) -> Iterable[Held]:
        yield ("kgco2e", "kgCO2e", bill.carbon_g * _KG_PER_GRAM, limits.kgco2e)
        yield ("litres", "L", bill.water_l, limits.litres)

    def hourly_limits(rows: NDArray[np.intp], usd_per_hour: FloatArray) -> Iterable[Held]:
        usd = usd_per_hour * hours[rows]
        yield ("usd", "USD", np.nan_to_num(usd, nan=inf), limits.usd)

    return Contest(
        Rated(
            offer=found.offer,
            accelerators=found.accelerators,
            tensor=tensor[found.layout],
            filled=1.0 - np.minimum(found.headroom_ratio, search.kind.headroom_target_ratio),
            memory_spread=found.memory_spread,
            seconds=found.wall_s,
            seconds_spread=found.wall_spread,
            it_wh=found.it_wh,
            it_wh_spread=found.it_wh_spread,
            accelerator_hours=found.accelerator_hours,
        ),
        alive,
        hourly_limits,
        limits_of,
    )
