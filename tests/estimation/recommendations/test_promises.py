"""What searches promise, with tiers, pools, speculative decoding and groups of places together."""

import numpy as np
import pytest

from service.core.impacts.footprint import footprint
from service.core.impacts.infrastructure import Making
from service.core.interval import exact
from service.core.search.ranking import burdens, weight_row
from service.core.search.regions import in_usual_site
from service.core.search.workloads import METRICS
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.inference.search import search_candidates
from service.estimation.recommendations.inference.space import resolve_search
from service.estimation.recommendations.requests import RecommendationRequest

OUTPUT_TOKENS = 128
USD = {"nvidia-h200-sxm-141gb": 40_000.0, "nvidia-l40s-48gb": 9_000.0}
HOURS = 4.0 * 8766.0
ALL_OF_THEM = {
    "model": "meta-llama/Llama-3.1-70B",
    "workload": {"input_tokens": 1024, "output_tokens": OUTPUT_TOKENS, "requests_per_s": 0.2},
    "limits": {"ttft_s": 10.0, "tpot_s": 1.5},
    "search": {
        "accelerators": list(USD),
        "regions": ["nordics"],
        "where": ["owned"],
        "precisions": ["bf16"],
        "kv_caches": ["bf16"],
        "max_accelerators": 4,
        "disaggregated": True,
        "speculative": [{"draft_model": "meta-llama/Llama-3.2-1B", "draft_tokens": 3}],
    },
    "serving": {
        "memory_tiers": [
            {"tier": "ddr5-8ch"},
            {"tier": "cxl-2.0-ddr5-direct", "price_usd_per_gb": 10.0},
        ]
    },
    "ownership": {"purchase_usd_per_accelerator": USD, "amortisation_years": 4},
    "include": ["front"],
}


def asked(workload=(), limits=(), **search):
    changed = {
        "workload": ALL_OF_THEM["workload"] | dict(workload),
        "limits": ALL_OF_THEM["limits"] | dict(limits),
        "search": ALL_OF_THEM["search"] | search,
    }
    return RecommendationRequest.model_validate(ALL_OF_THEM | changed)


@pytest.fixture(scope="module")
def answer(packaged_snapshot):
    return recommendation_answer(asked(), packaged_snapshot)


def test_the_best_score_is_that_of_brute_force(packaged_snapshot):
    search = resolve_search(asked(), packaged_snapshot)
    found = search_candidates(search)
    placed, (rows,), context = found.placed, found.by_model, search.context
    assert {True, False} == set(rows.spilled.tolist()) == set(rows.pooled.tolist())
    assert len(context.regions) > 3
    assert len(set(rows.draft.tolist())) == 2
    assert (rows.beside_usd > 0.0).any()
    weights = weight_row({m: search.weights[m] for m in METRICS}, placed.metrics)
    best = np.nanmin(burdens(placed.metrics, weights, placed.units.least))
    per_1k = 1000.0 / OUTPUT_TOKENS
    lines = []
    for row in np.flatnonzero(
        (rows.headroom_ratio >= 0.0)
        & (rows.held_ttft_s <= 10.0)
        & (rows.held_tpot_s <= 1.5)
        & (rows.missing_replicas <= 0.0)
        & (rows.accelerators <= 4)
    ):
        name = context.accelerators[rows.offer[row]].id
        hours = rows.accelerator_hours[row]
        made = context.embodied_kgco2e[rows.offer[row]]
        made = exact(made.value + rows.beside_kgco2e[row])
        lost = (USD[name] + rows.beside_usd[row]) / HOURS
        for place, region in enumerate(context.region_values):
            one = footprint(
                exact(float(rows.it_wh[row]) / 1000.0),
                exact(float(hours)),
                None,
                in_usual_site(region, context.accelerators[rows.offer[row]].value.platform.site),
                context.infrastructure,
                Making(made, None, None, None, context.infrastructure.service_hours()),
            )
            kwh = one.facility_energy_kwh.value
            metered = context.prices.owning.electricity_usd_per_kwh[place] * kwh
            lines.append(
                [
                    1.0 - min(rows.headroom_ratio[row], search.kind.headroom_target_ratio),
                    rows.e2e_s[row],
                    one.total_location_gco2e.value * per_1k,
                    one.water_stress_weighted_l.value * per_1k,
                    (hours * lost + metered) * per_1k * 1000.0,
                    kwh * 1000.0 * per_1k,
                ]
            )
    brute = np.nanmin(burdens(np.array(lines), weights, placed.units.least))
    assert best == pytest.approx(brute, rel=1e-9)


def test_tightening_a_limit_adds_no_survivor(packaged_snapshot, answer):
    sizes = [answer["searched"]["candidates"]]
    for tpot_s in (0.2, 0.03, 0.01):
        request = asked(limits={"tpot_s": tpot_s})
        sizes.append(recommendation_answer(request, packaged_snapshot)["searched"]["candidates"])
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]


def test_raising_the_rate_never_lowers_the_cost(packaged_snapshot, answer):
    def usd(found):
        choice = next(one for one in found["choices"] if "cheapest" in one["priorities"])
        return choice["candidate"]["usd_per_hour"]

    rates = [
        usd(recommendation_answer(asked({"requests_per_s": rate}), packaged_snapshot))
        for rate in (0.05, 1.0)
    ]
    # What hardware of one's own draws depends on the work: its electricity is less at a lower rate.
    assert rates[0] <= usd(answer) <= rates[1]


def test_what_is_dominated_changes_no_order(packaged_snapshot, answer):
    """A place of dirtier and dearer power beside the group."""

    def named(found):
        return [
            (
                *(one["accelerator"], one["accelerator_count"], one["region"]),
                *(str(one["parallelism"]), str(one["speculative"])),
                *(one["disaggregated"], one["uses_memory_tiers"]),
            )
            for one in found["front"]
        ]

    worse = asked(regions=["nordics", "country/ZA"])
    more = named(recommendation_answer(worse, packaged_snapshot))
    few = named(answer)
    assert {one[2] for one in few} <= {one[2] for one in more}
    kept = [one for one in more if one[2] != "country/ZA"]
    both = set(few) & set(kept)
    assert len(both) > 3
    assert [one for one in few if one in both] == [one for one in kept if one in both]
