"""Deployments that come closest to limits which none of them meets."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from service.core.search.inference_candidates import InferenceCandidates
from service.core.search.rows import TooSmall
from service.core.years import HOURS_PER_MONTH
from service.estimation.recommendations.inference.limits import DEPLOYMENT_LIMITS
from service.estimation.recommendations.inference.search import (
    GRAMS_PER_KG,
    deployment_figures,
    inference_units,
    metric_rows,
    yearly_requests,
)
from service.estimation.recommendations.inference.space import ResolvedSearch
from service.estimation.recommendations.limits import limit_checks
from service.estimation.recommendations.near_misses import (
    Miss,
    beyond_memory,
    in_least_places,
    lowest_prices,
    nearest,
    past_limits,
)
from service.estimation.recommendations.placement import SearchResult


def least_violating(
    search: ResolvedSearch, found: SearchResult[InferenceCandidates]
) -> list[dict[str, Any]]:
    """Configurations by how far they are past their limits, each with what must change.

    Prices are the lowest known of each accelerator; with a limit of carbon or water, all figures
    are those of the place, of those open to the accelerator, where a kWh takes least of it.
    """
    misses: list[Miss] = []
    for model_at, rows in enumerate(found.by_model):
        misses += _misses_of_model(search, model_at, rows, found.left_out[model_at].too_small)
    return nearest(misses)


def _misses_of_model(
    search: ResolvedSearch, model_at: int, rows: InferenceCandidates, small: tuple[TooSmall, ...]
) -> list[Miss]:
    model, space = search.models[model_at], search.spaces[model_at]

    def described(offer: int, count: int, precision: int, layout: int) -> dict[str, Any]:
        return {
            "model": model.id,
            "accelerator": search.accelerators[offer].id,
            "accelerator_count": count,
            "weights": space.precisions[precision].weights.id,
            "tensor": space.layouts[layout].tensor,
            "pipeline": space.layouts[layout].pipeline,
        }

    if not len(rows):
        return beyond_memory(
            small,
            search.context,
            lambda one: described(
                one.offer, space.layouts[one.layout].least_accelerators, one.choice, one.layout
            ),
        )
    bounds, context = search.bounds(model.value), search.context
    figures = deployment_figures(rows, search)
    if bounds["kgco2e_per_year"] is None and bounds["l_per_year"] is None:
        usd = lowest_prices(context, rows.offer, rows.accelerators)
    else:
        yearly = yearly_requests(rows, search)
        there = in_least_places(
            metric_rows(rows, model_at, search),
            context,
            inference_units(search),
            of_water=bounds["kgco2e_per_year"] is None,
        )
        usd = there.usd_per_hour
        figures = replace(
            figures,
            kgco2e_per_year=there.carbon_g * yearly / GRAMS_PER_KG,
            l_per_year=there.water_l * yearly,
        )
    known = np.nan_to_num(usd, nan=np.inf)
    figures = replace(figures, usd_per_hour=known, usd_per_month=known * HOURS_PER_MONTH)
    return past_limits(
        list(limit_checks(DEPLOYMENT_LIMITS, figures, bounds)),
        np.maximum(search.limits.headroom_ratio_at_least - rows.headroom_ratio, 0.0),
        search.context.memory_bytes()[rows.offer],
        usd,
        lambda row: described(
            int(rows.offer[row]),
            int(rows.accelerators[row]),
            int(rows.precision[row]),
            int(rows.layout[row]),
        ),
    )
