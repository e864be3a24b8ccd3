"""The footprint of one candidate in one region, by the formula of single estimates."""

from service.core.impacts.footprint import Footprint, footprint
from service.core.impacts.infrastructure import Making
from service.core.interval import exact
from service.core.search.inference_candidates import InferenceCandidates
from service.core.search.training_candidates import TrainingCandidates
from service.estimation.recommendations.search_context import SearchContext


def row_footprint(
    rows: InferenceCandidates | TrainingCandidates, row: int, context: SearchContext, region: int
) -> Footprint:
    embodied = context.embodied_kgco2e[rows.offer[row]]
    return footprint(
        exact(float(rows.it_wh[row]) / 1000.0),
        exact(float(rows.accelerator_hours[row])),
        None,
        context.region_values[region],
        context.infrastructure,
        Making(embodied, None, None, None, context.infrastructure.service_hours()),
    )


def stressed(water):
    """Litres weighted by stress of a footprint, as if it were extreme where it is not known."""
    known = water["stress_weighted_l"] or water["total_l"]
    return known["value"]
