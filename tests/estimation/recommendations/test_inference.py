"""Recommendations against single estimates and against brute force."""

from dataclasses import replace

import numpy as np
import orjson
import pytest

from service.core.deployment import (
    Deployment,
    InferenceWorkload,
    Parallelism,
    Precision,
    ServingSettings,
)
from service.core.engine_defaults import StartSettings
from service.core.estimate.inference import InferenceSetup, estimate_inference
from service.core.number_formats import NUMBER_FORMATS
from service.core.search.batch_evaluation import (
    CONCURRENCY_GRID,
    AcceleratorOption,
    Demand,
    Environment,
    SearchSpace,
)
from service.core.search.inference_candidates import inference_candidates
from service.core.search.ranking import burdens, weight_row
from service.core.search.workloads import METRICS, PRIORITIES
from service.estimation.calibrations import calibration
from service.estimation.costs.estimate import offered_in, rents_in
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.against import in_words
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.inference.search import (
    latency_metric,
    search_candidates,
)
from service.estimation.recommendations.inference.space import resolve_search
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.rejection import Rejected
from tests.estimation.recommendations.pasted import CONFIG
from tests.estimation.recommendations.row_footprints import row_footprint, stressed

MODEL = "meta-llama/Llama-3.1-8B"
SMALL = {
    "model": MODEL,
    "workload_kind": "real-time-inference",
    "workload": {"input_tokens": 512, "output_tokens": 128, "requests_per_s": 4.0},
    "limits": {"ttft_s": 1.0, "tpot_s": 0.05, "weight_bits_at_least": 8},
    "search": {
        "accelerators": ["nvidia-h100-sxm-80gb", "nvidia-l40s-48gb", "amd-mi300x-192gb"],
        "regions": ["aws/eu-north-1", "aws/us-east-1", "azure/norwayeast"],
        "precisions": ["bf16", "fp8"],
        "max_accelerators": 8,
    },
    "usd_per_accelerator_hour": {"nvidia-h100-sxm-80gb": 3.0, "nvidia-l40s-48gb": 1.2},
    "list_prices": False,
}

#: What the core's settings of serving are where they are not set.
NO_ENGINE = StartSettings(1024.0, 8192.0, 0.9)


def by_priority(answer):
    return {
        priority: choice["candidate"]["metrics"]
        for choice in answer["choices"]
        for priority in choice["priorities"]
    }


def asked(**changes):
    return RecommendationRequest.model_validate(SMALL | changes)


@pytest.mark.parametrize("format_id", ["bf16", "fp8", "int8", "awq-int4", "nvfp4"])
@pytest.mark.parametrize("layout", [Parallelism(), Parallelism(tensor=8, pipeline=2)])
def test_rows_are_what_single_estimates_say(packaged_snapshot, format_id, layout):
    snapshot = packaged_snapshot
    architecture = snapshot.find("models", "meta-llama/Llama-3.1-70B").value
    entries = list(snapshot.accelerators.values())
    measured = [calibration(snapshot, "vllm", entry.value) for entry in entries]
    offers = [
        AcceleratorOption(entry.value, one.performance, NO_ENGINE)
        for entry, one in zip(entries, measured, strict=True)
    ]
    formats = NUMBER_FORMATS
    precision = Precision(formats[format_id], formats["bf16"], formats["bf16"])
    serving = ServingSettings()
    around = Environment(serving, measured[0].runtime, measured[0].infrastructure)
    demand = Demand(1024.0, 256.0, None, None)
    found, left_out = inference_candidates(
        architecture,
        SearchSpace((precision,), (layout,), offers, 64, native_only=False),
        demand,
        around,
    )
    # Hardware of unknown power has no energy to be compared by, and attention of
    # hardware whose rates of 16 bits and more are unknown takes nobody knows how long.
    lacking = {one.offer for one in left_out.too_small}
    within = {
        at
        for at, one in enumerate(offers)
        if one.accelerator.scale_up_domain_accelerators >= layout.tensor
        # Cards of desks share a group within one of them, whatever a server joins.
        if one.accelerator.platform.kind not in {"desktop", "workstation"}
        or one.accelerator.platform.accelerators_of_a_host >= layout.tensor
    }
    powered = {
        at
        for at in within
        if offers[at].accelerator.thermal_design_power_w is not None
        and {"bf16", "fp16", "fp32"} & offers[at].accelerator.peak_flops_per_s.keys()
    }
    assert set(found.offer.tolist()) == powered - lacking
    assert left_out.beyond_domain == len(offers) - len(within)
    assert left_out.unable == len(within) - len(powered | lacking)
    assert len(found) == len(powered - lacking) * len(CONCURRENCY_GRID) > 0
    for row in range(7, len(found), len(CONCURRENCY_GRID)):
        offer = offers[found.offer[row]]
        deployment = Deployment(architecture, precision, offer.accelerator, layout)
        workload = InferenceWorkload(1024.0, 256.0, float(found.concurrency_per_replica[row]))
        estimate = estimate_inference(
            InferenceSetup(deployment, workload, serving, around.runtime, offer.calibration)
        )
        memory, latency = estimate.memory, estimate.latency
        name = offer.accelerator.id
        assert found.ttft_s[row] == pytest.approx(latency.ttft_s.value), name
        assert found.tpot_s[row] == pytest.approx(latency.tpot_s.value), name
        assert found.latency_spread_ratio[row] == pytest.approx(latency.e2e_spread_ratio), name
        assert found.requests_per_s[row] == pytest.approx(latency.requests_per_s.value), name
        if memory.fits and memory.max_concurrency.value * 0.9 >= found.concurrency_per_replica[row]:
            headroom = memory.headroom_bytes.value / offer.accelerator.memory_bytes
            assert found.headroom_ratio[row] == pytest.approx(headroom), name
        else:
            assert found.headroom_ratio[row] < 0.0, name


@pytest.mark.parametrize("placement", ["anywhere", "offered"])
def test_the_best_score_is_that_of_brute_force(packaged_snapshot, placement):
    request = asked(search=SMALL["search"] | {"placement": placement})
    search = resolve_search(request, packaged_snapshot)
    found = search_candidates(search)
    placed = found.placed
    weights = weight_row({m: search.weights[m] for m in METRICS}, placed.metrics)
    best = np.nanmin(burdens(placed.metrics, weights, placed.units.least))

    rows, _ = inference_candidates(
        search.models[0].value, search.spaces[0], search.demand, search.environments[0]
    )
    prices = np.array([3.0, 1.2, np.nan])
    brute = np.inf
    for row in range(len(rows)):
        if rows.headroom_ratio[row] < 0 or rows.ttft_s[row] > 1.0 or rows.tpot_s[row] > 0.05:
            continue
        hours, offer = rows.accelerator_hours[row], rows.offer[row]
        for place in np.flatnonzero(search.context.placeable[offer]):
            one = row_footprint(rows, row, search.context, place)
            line = [
                1.0 - min(rows.headroom_ratio[row], search.kind.headroom_target_ratio),
                latency_metric(rows, search)[row],
                one.total_location_gco2e.value * 1000.0 / 128,
                one.water_stress_weighted_l.value * 1000.0 / 128,
                hours * prices[offer] * 1e6 / 128,
                one.facility_energy_kwh.value * 1e6 / 128,
            ]
            brute = np.nanmin([brute, burdens(np.array([line]), weights, placed.units.least)[0]])
    # Near-ties within the tolerance may stand for one another.
    assert best == pytest.approx(brute, abs=0.05)


def test_choices_meet_the_limits_and_say_why(packaged_snapshot):
    answer = recommendation_answer(asked(), packaged_snapshot)
    assert "balanced" in answer["choices"][0]["priorities"]
    for choice in answer["choices"]:
        latency = choice["estimate"]["latency"]
        assert latency["ttft_s"]["value"] <= 1.0
        assert latency["tpot_s"]["value"] <= 0.05
        assert choice["estimate"]["memory"]["fits"]
        parts = [part["factor_ratio"] for part in choice["compared"]]
        if None not in parts:
            assert np.prod(parts) == pytest.approx(choice["candidate"]["score_ratio"])
        assert {limit["verdict"] for limit in choice["limits"]} <= {"pass", "unknown"}
        assert all(part["worse_ratio"] >= 0.0 for part in choice["compared"] if part["value"])
        assert choice["agreement"]["because"]
    by = by_priority(answer)
    assert set(by) == set(PRIORITIES)
    assert by["lowest_carbon"]["carbon"] <= by["fastest"]["carbon"] * 1.02
    assert by["fastest"]["latency"] <= by["lowest_carbon"]["latency"] * 1.02
    assert recommendation_answer(asked(), packaged_snapshot) == answer


def test_tighter_limits_never_add_survivors(packaged_snapshot):
    sizes = []
    for tpot_s in (0.05, 0.02, 0.01, 0.005):
        request = asked(limits={"ttft_s": 1.0, "tpot_s": tpot_s})
        sizes.append(recommendation_answer(request, packaged_snapshot)["searched"]["candidates"])
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]


def test_without_survivors_it_says_what_comes_closest(packaged_snapshot):
    request = asked(limits={"ttft_s": 1e-4, "tpot_s": 0.05})
    answer = recommendation_answer(request, packaged_snapshot)
    assert answer["choices"] == []
    assert answer["warnings"][0]["code"] == "nothing_meets_the_limits"
    nearest = answer["least_violating"][0]
    assert nearest["must_change"][0]["limit"] == "ttft_s"
    assert nearest["must_change"][0]["must_fall_by"] > 0.0
    ttft = next(entry for entry in answer["excluded"] if entry["limit"] == "ttft_s")
    assert ttft["nearest_value"] == pytest.approx(
        min(miss["must_change"][0]["value"] for miss in answer["least_violating"]), rel=0.5
    )


def test_a_model_that_nothing_holds_lacks_memory(packaged_snapshot):
    search = SMALL["search"] | {"accelerators": ["nvidia-l40s-48gb"], "max_accelerators": 1}
    request = asked(model="meta-llama/Llama-3.1-405B", search=search)
    answer = recommendation_answer(request, packaged_snapshot)
    (nearest,) = answer["least_violating"]
    (change,) = nearest["must_change"]
    assert change["limit"] == "memory_bytes"
    # 405 GB in 8 bit on an accelerator of 48 GB.
    assert change["must_rise_by"] == pytest.approx(405.9e9 - 47.8e9, rel=0.03)


def test_list_prices_stand_in_for_own_ones_and_are_said(packaged_snapshot):
    rents = rents_in(packaged_snapshot, packaged_snapshot.regions["aws/us-east-1"])
    # p5.48xlarge, January 2026: 55.04 USD an hour for eight.
    assert (8, 55.04) in rents["nvidia-h100-sxm-80gb"]
    answer = recommendation_answer(
        asked(usd_per_accelerator_hour={}, list_prices=True), packaged_snapshot
    )
    assert "list_prices" in {warning["code"] for warning in answer["warnings"]}
    for choice in answer["choices"]:
        assert choice["candidate"]["metrics"]["cost"] > 0.0


def test_unknown_budgets_are_not_met(packaged_snapshot):
    request = asked(
        limits={"ttft_s": 1.0, "tpot_s": 0.05, "usd_per_hour": 100.0},
        usd_per_accelerator_hour={},
    )
    answer = recommendation_answer(request, packaged_snapshot)
    assert answer["choices"] == []
    priced = recommendation_answer(
        asked(limits={"ttft_s": 1.0, "tpot_s": 0.05, "usd_per_hour": 100.0}), packaged_snapshot
    )
    chosen = {choice["candidate"]["accelerator"] for choice in priced["choices"]}
    assert chosen
    assert "amd-mi300x-192gb" not in chosen


@pytest.mark.parametrize("load", [{}, {"concurrency": 40}])
def test_what_a_candidate_emits_and_costs_is_what_its_estimate_says(packaged_snapshot, load):
    lengths = {"input_tokens": 512, "output_tokens": 128}
    places = ["aws/us-east-1", "oci/uk-london-1"]
    request = asked(
        workload=lengths | load,
        workload_kind="sustainable",
        limits={},
        search=SMALL["search"] | {"regions": places},
        list_prices=True,
    )
    answer = recommendation_answer(request, packaged_snapshot)
    compared = set()
    for one in answer["front"]:
        running = one["concurrency_per_replica"] * one["parallelism"]["data"]
        own = request.usd_per_accelerator_hour.get(one["accelerator"])
        estimate = inference_estimate(
            InferenceRequest(
                **{name: one[name] for name in ("model", "accelerator", "region", "precision")},
                accelerator_count=one["accelerator_count"],
                parallelism=one["parallelism"],
                workload={"concurrency": running} | lengths | load,
                cost={"usd_per_accelerator_hour": own},
            ),
            packaged_snapshot,
        )
        said, metrics, latency = estimate["impacts"]["per_1k_tokens"], one["metrics"], "latency"
        assert metrics[latency] == pytest.approx(estimate[latency]["e2e_s"]["value"], rel=1e-12)
        carbon = said["carbon"]["total_gco2e"]
        assert metrics["carbon"] == pytest.approx(carbon["value"], rel=1e-12)
        assert metrics["water"] == pytest.approx(stressed(said["water"]), rel=1e-12)
        assert metrics["energy"] == pytest.approx(said["facility_energy_kwh"]["value"] * 1000.0)
        rented = estimate["cost"]["rented"]
        if rented is not None:
            million = rented["usd_per_million_output_tokens"]["value"]
            assert metrics["cost"] == pytest.approx(million, rel=1e-12)
        compared.add((one["region"], rented is not None))
    assert len({region for region, _ in compared}) > 1
    assert any(priced for _, priced in compared)


@pytest.mark.parametrize(
    ("kind", "lengths", "around"),
    [
        ("batch-inference", {}, {}),
        ("agentic", {}, {}),
        (
            "batch-inference",
            {
                "input_tokens": {"mean": 700.0, "p95": 1900.0},
                "output_tokens": {"tokens": [20, 400], "shares": [3, 1]},
            },
            {"power_limit_w": 320.0, "facility": {"pue_ratio": 1.37}},
        ),
        ("agentic", {}, {"power_limit_w": 400.0, "facility": {"site_class": "enterprise"}}),
    ],
)
def test_choices_show_the_figures_of_their_estimates(packaged_snapshot, kind, lengths, around):
    """A search takes load for steady; with random arrivals the estimate's figures are shown."""
    workload = SMALL["workload"] | {"requests_per_s": 9.0, "calls_per_task": 3} | lengths
    answer = recommendation_answer(
        asked(workload_kind=kind, workload=workload, limits={}, list_prices=True, **around),
        packaged_snapshot,
    )
    assert answer["choices"]
    members = ("accelerator", "region", "precision", "parallelism", "concurrency_per_replica")
    for choice in answer["choices"]:
        candidate, estimate = choice["candidate"], choice["estimate"]
        metrics, latency = candidate["metrics"], estimate["latency"]
        assert candidate["ttft_s"] == latency["ttft_s"]["value"]
        assert candidate["tpot_s"] == latency["tpot_s"]["value"]
        waited = latency["task_s" if kind == "agentic" else "e2e_s"]["value"]
        assert metrics["latency"] == pytest.approx(waited, rel=1e-12)
        said = estimate["impacts"]["per_1k_tokens"]
        assert metrics["carbon"] == pytest.approx(said["carbon"]["total_gco2e"]["value"], rel=1e-12)
        assert metrics["water"] == pytest.approx(stressed(said["water"]), rel=1e-12)
        rented = estimate["cost"]["rented"]
        if rented is not None:
            million = rented["usd_per_million_output_tokens"]["value"]
            assert metrics["cost"] == pytest.approx(million, rel=1e-12)
        assert {part["metric"]: part["value"] for part in choice["compared"]} == metrics
        # The request of a choice asks for its very estimate.
        again = inference_estimate(
            InferenceRequest.model_validate(choice["request"]), packaged_snapshot
        )
        assert {name: again[name] for name in estimate} == estimate
        # Where the front lists a choice, it says the same of it.
        same = [
            one for one in answer["front"] if all(one[name] == candidate[name] for name in members)
        ]
        assert same in ([], [candidate])


def test_accelerators_that_idle_above_a_limit_are_left_out_or_refused(packaged_snapshot):
    places = {"regions": ["aws/us-east-1"], "max_accelerators": 8}
    found = recommendation_answer(
        asked(limits={}, search=places, list_prices=True, power_limit_w=60.0), packaged_snapshot
    )
    chosen = {one["candidate"]["accelerator"] for one in found["choices"]}
    assert chosen
    for name in chosen:
        accelerator = packaged_snapshot.accelerators[name].value
        assert accelerator.idle_power_w is None or accelerator.idle_power_w.value < 60.0
    with pytest.raises(Rejected) as refused:
        recommendation_answer(asked(power_limit_w=60.0), packaged_snapshot)
    assert {one.pointer for one in refused.value.errors} == {"/power_limit_w"}


def test_answers_of_one_token_are_not_searched():
    with pytest.raises(ValueError, match="2 or more on average"):
        asked(workload={"output_tokens": 1})
    with pytest.raises(ValueError, match="2 or more on average"):
        asked(workload={"output_tokens": {"mean": 1.5, "p95": 3.0}})


@pytest.mark.parametrize("in_flight", [1, 7, 40, 64, 1000, 99_991])
def test_replicas_share_what_is_in_flight_evenly(packaged_snapshot, in_flight):
    request = asked(workload={"concurrency": in_flight})
    shares = resolve_search(request, packaged_snapshot).spaces[0].concurrencies
    assert len(set(shares)) == len(shares)
    for share in shares:
        replicas = np.ceil(in_flight / share)
        assert replicas * share == pytest.approx(in_flight, rel=1e-14)
        assert share <= max(CONCURRENCY_GRID)


def test_where_the_usual_wue_stands_in_the_answer_says_so(packaged_snapshot):
    def warnings(*regions):
        search = SMALL["search"] | {"regions": list(regions)}
        answer = recommendation_answer(asked(search=search), packaged_snapshot)
        return {one["code"]: one["message"] for one in answer["warnings"]}

    assert "usual_wue" not in warnings("aws/eu-north-1")
    assert warnings("aws/eu-north-1", "oci/uk-london-1")["usual_wue"].startswith(
        "1 of 2 regions publish no water use on site: 0.36 L/kWh (0 to 1.8)"
    )


def test_what_hardware_does_not_multiply_is_tried_only_when_named(packaged_snapshot):
    search = resolve_search(
        asked(search={"accelerators": ["nvidia-a100-sxm-80gb"], "max_accelerators": 2}),
        packaged_snapshot,
    )
    space = search.spaces[0]
    native, _ = inference_candidates(
        search.models[0].value, space, search.demand, search.environments[0]
    )
    named, _ = inference_candidates(
        search.models[0].value,
        replace(space, native_only=False),
        search.demand,
        search.environments[0],
    )
    tried = {space.precisions[at].weights.id for at in np.unique(native.precision)}
    assert "fp8" not in tried
    assert "fp8" in {space.precisions[at].weights.id for at in np.unique(named.precision)}


def test_formats_are_tried_where_engines_have_kernels(packaged_snapshot):
    three = ["amd-mi355x-288gb", "nvidia-b200-sxm-180gb", "google-tpu-v6e"]
    wanted = {"accelerators": three, "max_accelerators": 1, "allow_conversions": True}
    limits = {"ttft_s": 1.0, "tpot_s": 0.05}
    search = resolve_search(asked(search=wanted, limits=limits), packaged_snapshot)
    found, _ = inference_candidates(
        search.models[0].value, search.spaces[0], search.demand, search.environments[0]
    )
    tried = {
        (search.accelerators[offer].id, search.spaces[0].precisions[at].weights.id)
        for offer, at in zip(found.offer, found.precision, strict=True)
    }
    assert ("amd-mi355x-288gb", "mxfp4") in tried
    assert ("nvidia-b200-sxm-180gb", "nvfp4") in tried
    assert ("nvidia-b200-sxm-180gb", "awq-int4") in tried
    assert ("google-tpu-v6e", "int8") in tried
    for missing in ("nvfp4", "awq-int4"):
        assert ("amd-mi355x-288gb", missing) not in tried
        assert ("google-tpu-v6e", missing) not in tried


def tried_of(snapshot, model, **search):
    found = resolve_search(
        asked(model=model, limits={}, search={"max_accelerators": 1} | search), snapshot
    )
    every = [
        (one.entry.id, name, one.origins[name]["kind"])
        for one in found.tried
        for name in one.formats
    ]
    # Once, however many engines read it.
    return list(dict.fromkeys(every))


def test_formats_that_exist_are_tried_and_others_only_where_they_may_be_made(packaged_snapshot):
    model = "meta-llama/Llama-3.1-70B"
    tried = tried_of(packaged_snapshot, model)
    assert tried[:2] == [(model, "bf16", "checkpoint"), (model, "fp8", "engine")]
    releases = {entry for entry, _, kind in tried if kind == "release"}
    assert "hugging-quants/Meta-Llama-3.1-70B-Instruct-AWQ-INT4" in releases
    assert all(packaged_snapshot.models[one].document["base_model"] == model for one in releases)
    assert not [one for one in tried if one[2] == "conversion"]
    # What its makers ship in 8 bits is narrowed further only where it may be converted.
    own, further = (
        {name for _, name, _ in tried_of(packaged_snapshot, "deepseek-ai/DeepSeek-R1", **also)}
        for also in ({}, {"allow_conversions": True})
    )
    assert "nvfp4" in further - own
    more = tried_of(packaged_snapshot, model, allow_conversions=True)
    assert (model, "nvfp4", "conversion") in more
    # A checkpoint in few bits is served as it is.
    assert tried_of(packaged_snapshot, "openai/gpt-oss-120b") == [
        ("openai/gpt-oss-120b", "mxfp4-checkpoint", "checkpoint")
    ]


def test_what_is_asked_for_is_tried_whoever_makes_it(packaged_snapshot):
    formats = {"precisions": ["int8", "fp8", "bf16"], "accelerators": ["nvidia-l4-24gb"]}
    tried = tried_of(packaged_snapshot, MODEL, **formats)
    assert tried == [
        (MODEL, "int8", "conversion"),
        (MODEL, "fp8", "engine"),
        (MODEL, "bf16", "checkpoint"),
    ]


def test_files_of_native_engines_are_no_formats_of_servers(packaged_snapshot):
    served = {name for _, name, _ in tried_of(packaged_snapshot, MODEL)}
    assert not [name for name in served if name.startswith("gguf")]
    search = asked(limits={}, search={"max_accelerators": 1}, serving={"engine": "llama.cpp"})
    native = [
        one.formats[name]
        for one in resolve_search(search, packaged_snapshot).tried
        for name in one.formats
    ]
    assert any(one.id.startswith("gguf") for one in native)
    assert all(one.bits_per_element >= 4.0 for one in native)


def test_a_chosen_release_is_what_its_command_starts(packaged_snapshot):
    answer = recommendation_answer(
        asked(
            model="meta-llama/Llama-3.1-70B",
            limits={"ttft_s": 5.0, "tpot_s": 0.1},
            search={"accelerators": ["nvidia-h100-sxm-80gb"], "regions": ["aws/us-east-1"]},
        ),
        packaged_snapshot,
    )
    chosen = [
        one for one in answer["choices"] if one["candidate"]["weights_from"]["kind"] == "release"
    ]
    assert chosen
    for choice in chosen:
        release = choice["candidate"]["weights_from"]["release"]
        assert choice["candidate"]["model"] == release
        assert choice["request"]["model"] == release
        assert f"vllm serve {release} " in choice["start"]["command"]
        assert "--quantization" not in choice["start"]["command"]


def test_clouds_take_what_they_are_known_to_rent_out(packaged_snapshot):
    answer = recommendation_answer(
        asked(search={"max_accelerators": 8}, list_prices=True), packaged_snapshot
    )
    placed = {(one["region"], one["accelerator"]) for one in answer["front"]}
    assert placed
    for region, accelerator in placed:
        assert accelerator in offered_in(packaged_snapshot, packaged_snapshot.regions[region])
    (nowhere,) = [one for one in answer["not_searched"] if one["reason"] == "not_offered"]
    assert nowhere["accelerators"] > 0
    assert f"{nowhere['accelerators']} accelerators" in nowhere["in_words"]


def test_what_no_cloud_has_is_placed_where_the_caller_says(packaged_snapshot):
    own = {"accelerators": ["nvidia-rtx-a1000-8gb", "nvidia-h100-sxm-80gb"], "max_accelerators": 8}
    search = resolve_search(asked(search=own), packaged_snapshot)
    assert search.context.placeable[0].all()
    clouds = {
        region.id.partition("/")[0]
        for region, may in zip(search.context.regions, search.context.placeable[1], strict=True)
        if may
    }
    assert clouds >= {"aws", "azure", "gcp", "nebius", "hyperstack"}
    assert "hetzner" not in clouds
    only = resolve_search(
        asked(search=own | {"regions": ["gcp/europe-west4", "country/SE"], "placement": "offered"}),
        packaged_snapshot,
    )
    assert only.context.placeable.tolist() == [[True, True], [True, True]]
    tpu = {"accelerators": ["google-tpu-v6e"], "regions": ["aws/eu-north-1", "gcp/europe-west4"]}
    kept = resolve_search(asked(search=tpu | {"placement": "offered"}), packaged_snapshot)
    assert kept.context.placeable.tolist() == [[False, True]]


OUTSIDE = {
    "engine": "vllm",
    "memory_tiers": [{"tier": "ddr5-8ch", "units": 2}, {"tier": "cxl-2.0-ddr5-direct", "units": 4}],
}


@pytest.mark.parametrize("model", ["meta-llama/Llama-3.1-70B", "mistralai/Mixtral-8x7B-v0.1"])
def test_rows_with_drafts_and_tiers_are_what_single_estimates_say(packaged_snapshot, model):
    accelerators = [
        "nvidia-h100-sxm-80gb",
        "nvidia-rtx-4090-24gb",
        "amd-mi300x-192gb",
        "nvidia-gb200-186gb",
        "apple-m3-ultra-512gb",
    ]
    draft = {"draft_model": "meta-llama/Llama-3.2-1B", "draft_tokens": 3}
    request = asked(
        model=model,
        workload={"input_tokens": 512, "output_tokens": 128},
        limits={},
        search={
            "accelerators": accelerators,
            "regions": ["country/SE"],
            "precisions": ["bf16"],
            "kv_caches": ["bf16"],
            "max_accelerators": 4,
            "speculative": [draft],
        },
        serving=OUTSIDE,
    )
    search = resolve_search(request, packaged_snapshot)
    space = search.spaces[0]
    rows, left_out = inference_candidates(
        search.models[0].value, space, search.demand, search.environments[0]
    )
    # Nothing is too small for the weights where they may lie outside.
    assert not left_out.too_small
    assert {False, True} == set(rows.spilled.tolist())
    assert {0, 1} == set(rows.draft.tolist())
    for row in np.random.default_rng(3).choice(len(rows), 50, replace=False):
        layout = space.layouts[rows.layout[row]]
        # Rows have the ranges of the newest release.
        serving = OUTSIDE | {"engine_version": "0.21"}
        serving |= {"speculative": draft} if rows.draft[row] else {}
        estimate = inference_estimate(
            InferenceRequest.model_validate(
                {
                    "model": model,
                    "accelerator": search.accelerators[rows.offer[row]].id,
                    "precision": {"weights": "bf16", "kv_cache": "bf16"},
                    "parallelism": {
                        name: getattr(layout, name) for name in ("tensor", "pipeline", "expert")
                    },
                    "region": "country/SE",
                    "workload": {
                        "input_tokens": 512,
                        "output_tokens": 128,
                        "concurrency": int(rows.concurrency_per_replica[row]),
                    },
                    "serving": serving,
                }
            ),
            packaged_snapshot,
        )
        latency, memory = estimate["latency"], estimate["memory"]
        placed = memory["placement"]["fits"]
        outside = sum(tier["used_bytes"]["value"] for tier in memory["placement"]["tiers"][1:])
        assert bool(rows.spilled[row]) == (placed and outside > 1.0)
        if not placed:
            assert rows.headroom_ratio[row] < 0.0
            continue
        close = 1e-12
        assert rows.ttft_s[row] == pytest.approx(latency["ttft_s"]["value"], rel=close)
        assert rows.tpot_s[row] == pytest.approx(latency["tpot_s"]["value"], rel=close)
        e2e = latency["e2e_s"]
        # Single ones also reach over answers that differ in length, of which a mean is told.
        assert 1.0 < rows.latency_spread_ratio[row] <= e2e["high"] / e2e["value"] * (1.0 + close)
        energy = estimate["energy"]["it_energy_per_request_wh"]
        assert rows.it_wh[row] == pytest.approx(energy["value"], rel=close)


def test_what_has_no_room_lies_outside_if_it_may(packaged_snapshot):
    small = {
        "accelerators": ["nvidia-rtx-4090-24gb"],
        "regions": ["country/SE"],
        "precisions": ["bf16"],
        "max_accelerators": 1,
    }
    without = recommendation_answer(
        asked(
            model="meta-llama/Llama-3.1-70B", limits={"ttft_s": 60.0, "tpot_s": 10.0}, search=small
        ),
        packaged_snapshot,
    )
    assert without["choices"] == []
    within = recommendation_answer(
        asked(
            model="meta-llama/Llama-3.1-70B",
            workload={"input_tokens": 512, "output_tokens": 128},
            limits={"ttft_s": 60.0, "tpot_s": 10.0},
            search=small,
            serving={"memory_tiers": [{"tier": "ddr5-8ch", "units": 2}]},
        ),
        packaged_snapshot,
    )
    choice = within["choices"][0]
    assert choice["candidate"]["uses_memory_tiers"]
    assert choice["estimate"]["memory"]["placement"]["host_bytes"]["value"] > 100e9
    assert choice["estimate"]["deployment"]["serving"]["memory_tiers"] == ["ddr5-8ch"]


def test_drafts_are_chosen_where_they_help(packaged_snapshot):
    search = SMALL["search"] | {
        "speculative": [{"draft_tokens": 4, "acceptance_ratio": 0.8}, {"draft_tokens": 8}]
    }
    answer = recommendation_answer(
        asked(
            workload={"input_tokens": 512, "output_tokens": 128, "concurrency": 1}, search=search
        ),
        packaged_snapshot,
    )
    fastest = next(one for one in answer["choices"] if "fastest" in one["priorities"])
    drafted = fastest["candidate"]["speculative"]
    assert drafted == {"draft_model": None, "draft_tokens": 4, "acceptance_ratio": 0.8}
    assert fastest["estimate"]["deployment"]["serving"]["speculative"]["draft_tokens"] == 4
    plain = recommendation_answer(
        asked(workload={"input_tokens": 512, "output_tokens": 128, "concurrency": 1}),
        packaged_snapshot,
    )
    before = next(one for one in plain["choices"] if "fastest" in one["priorities"])
    assert fastest["candidate"]["tpot_s"] < before["candidate"]["tpot_s"]
    assert before["candidate"]["speculative"] is None


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"serving": {"memory_tiers": ["shelf"]}}, "/serving/memory_tiers/0"),
        (
            {"search": SMALL["search"] | {"speculative": [{"draft_model": "no-such"}]}},
            "/search/speculative/0/draft_model",
        ),
    ],
)
def test_unknown_drafts_and_tiers_are_named(packaged_snapshot, change, pointer):
    with pytest.raises(Rejected) as refused:
        resolve_search(asked(**change), packaged_snapshot)
    assert pointer in {error.pointer for error in refused.value.errors}


def test_pools_of_their_own_are_not_searched():
    with pytest.raises(ValueError, match=r"search\.disaggregated: true"):
        asked(serving={"disaggregated": {}})


def test_what_is_longer_than_the_model_takes_is_said_before_all_else(packaged_snapshot):
    answer = recommendation_answer(
        asked(model="EleutherAI/pythia-1b", workload={"input_tokens": 4096}), packaged_snapshot
    )
    assert answer["choices"] == []
    first = answer["excluded"][0]
    assert (first["limit"], first["threshold"]) == ("context_length", 2048.0)
    change = answer["least_violating"][0]["must_change"][0]
    assert change["limit"] == "context_length"
    assert change["must_fall_by"] == pytest.approx(4096 + 256 - 2048)


def test_tensor_parallel_groups_stay_within_fast_links(packaged_snapshot):
    wide = {"accelerators": ["nvidia-l40s-48gb"], "regions": ["country/SE"], "max_accelerators": 64}
    answer = recommendation_answer(
        asked(model="meta-llama/Llama-3.1-70B", search=wide, limits={"ttft_s": 1.0}),
        packaged_snapshot,
    )
    domain = packaged_snapshot.accelerators["nvidia-l40s-48gb"].value.scale_up_domain_accelerators
    assert answer["front"]
    assert all(one["parallelism"]["tensor"] <= domain for one in answer["front"])


def test_a_70b_model_is_served_as_people_do(packaged_snapshot):
    """In 16 bit under 50 ms a token in one cloud: several of the large, none of the small.

    vLLM's documentation (Tensor parallelism, 2025) divides Llama 3.1 70B among 4 accelerators of a
    node; the model card of scb10x/llama3.1-typhoon2-70b-instruct, 2024, asks for at least two of
    80 GB. In one instance, AWS rents out either of them by eights.
    """
    answer = recommendation_answer(
        RecommendationRequest.model_validate(
            {
                "model": "meta-llama/Llama-3.1-70B",
                "workload": {"input_tokens": 1024, "output_tokens": 256, "requests_per_s": 1.0},
                "limits": {"ttft_s": 2.0, "tpot_s": 0.05, "weight_bits_at_least": 16},
                "search": {
                    "accelerators": [
                        *("nvidia-t4-16gb", "nvidia-l4-24gb", "nvidia-a10g-24gb"),
                        *("nvidia-a100-sxm-40gb", "nvidia-a100-sxm-80gb", "nvidia-h100-sxm-80gb"),
                    ],
                    "regions": ["aws/us-east-1"],
                    "placement": "offered",
                    "max_accelerators": 16,
                },
            }
        ),
        packaged_snapshot,
    )
    chosen = answer["choices"][0]
    large = ("nvidia-a100-sxm-40gb", "nvidia-a100-sxm-80gb", "nvidia-h100-sxm-80gb")
    assert chosen["candidate"]["accelerator"] in large
    assert chosen["candidate"]["parallelism"]["tensor"] in (4, 8)
    # Four do not come without the other four of their instance.
    instance = chosen["estimate"]["cost"]["rented"]
    assert instance["instance"] in ("aws/p4d.24xlarge", "aws/p4de.24xlarge", "aws/p5.48xlarge")
    assert chosen["compared"]
    assert chosen["agreement"]["because"]
    small = {"nvidia-t4-16gb", "nvidia-l4-24gb"}
    assert not small & {one["accelerator"] for one in answer["front"]}
    assert {"tpot_s", "headroom_ratio_at_least"} <= {one["limit"] for one in answer["excluded"]}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {
                "limits": {"weight_bits_at_least": 16},
                "search": SMALL["search"] | {"precisions": ["fp8", "nvfp4"]},
            },
            "16 bits contradict the formats of search.precisions: the widest is fp8 with 8 bits",
        ),
        (
            {
                "limits": {"weight_bits_at_least": 32},
                "search": SMALL["search"] | {"precisions": None},
            },
            f"32 bits contradict the formats of {MODEL}: the widest is bf16 with 16 bits",
        ),
    ],
)
def test_contradictions_are_named(packaged_snapshot, change, said):
    with pytest.raises(Rejected) as refused:
        resolve_search(asked(**change), packaged_snapshot)
    (error,) = refused.value.errors
    assert error.pointer == "/limits/weight_bits_at_least"
    assert error.detail.startswith(said)


@pytest.mark.parametrize("own", [SMALL["usd_per_accelerator_hour"], {}])
def test_a_further_accelerator_changes_nobodys_order(packaged_snapshot, own):
    def ordered(accelerators):
        request = asked(
            search=SMALL["search"] | {"accelerators": accelerators},
            usd_per_accelerator_hour=own,
            list_prices=True,
        )
        answer = recommendation_answer(request, packaged_snapshot)
        named = [orjson.dumps({**one, "score_ratio": 0}) for one in answer["front"]]
        return named, answer["searched"]["candidates"]

    # Dearer by the hour than all others, and dearer to make.
    (few, candidates), (more, further) = (
        ordered(SMALL["search"]["accelerators"] + added)
        for added in ([], ["nvidia-b300-sxm-288gb"])
    )
    assert candidates < further
    both = set(few) & set(more)
    assert len(both) > 3
    assert [one for one in few if one in both] == [one for one in more if one in both]


def test_models_without_a_name_are_chosen_among(packaged_snapshot):
    limits = {"tpot_s": 0.2, "ttft_s": 5.0}
    larger = CONFIG | {"num_hidden_layers": 32}
    models = [{"config": larger}, {"config": CONFIG}, SMALL["model"]]
    several = recommendation_answer(
        asked(model=None, models=models, limits=limits), packaged_snapshot
    )
    alone = recommendation_answer(asked(model={"config": CONFIG}, limits=limits), packaged_snapshot)
    assert {one["candidate"]["model"] for one in several["choices"]} == {"inline 1"}
    assert {one["candidate"]["model"] for one in alone["choices"]} == {"inline"}
    # The smallest model costs least, and is verified as itself.
    cheapest = [
        next(
            one["estimate"]["memory"]
            for one in answer["choices"]
            if "cheapest" in one["priorities"]
        )
        for answer in (several, alone)
    ]
    assert cheapest[0]["weights_bytes"] == cheapest[1]["weights_bytes"]


def test_a_limit_on_power_is_held_against_the_estimate(packaged_snapshot):
    answer = recommendation_answer(
        asked(limits=SMALL["limits"] | {"it_power_w": 12_000.0}), packaged_snapshot
    )
    for choice in answer["choices"]:
        row = next(one for one in choice["limits"] if one["name"] == "it_power_w")
        assert (row["verdict"], row["limit"]) == ("pass", 12_000.0)
        assert row["value"] == choice["estimate"]["energy"]["it_power_w"]["value"]


def test_choices_are_held_against_the_plan_of_the_caller(packaged_snapshot):
    plan = {
        "model": MODEL,
        "accelerator": "nvidia-h100-sxm-80gb",
        "accelerator_count": 8,
        "region": "aws/us-east-1",
        "workload": SMALL["workload"],
        "cost": {"usd_per_accelerator_hour": 3.0},
    }
    answer = recommendation_answer(asked(baseline=plan), packaged_snapshot)
    mine = inference_estimate(InferenceRequest.model_validate(plan), packaged_snapshot)
    assert answer["baseline"]["estimate"]["latency"] == mine["latency"]
    assert {row["name"] for row in answer["baseline"]["limits"]} >= {"ttft_s", "tpot_s"}
    token = ("cost", "rented", "usd_per_million_output_tokens")
    for choice in answer["choices"]:
        held, estimate = choice["against"], choice["estimate"]
        assert held["plan"] == "baseline"
        rented = estimate["cost"]["rented"]
        if rented is not None:
            ratio = rented[token[-1]]["value"] / mine["cost"]["rented"][token[-1]]["value"]
            assert held["ratios"]["cost"] == pytest.approx(ratio)
        count = choice["candidate"]["accelerator_count"]
        assert held["ratios"]["accelerators"] == count / 8
    assert "cheaper" in answer["choices"][0]["against"]["in_words"]


def test_without_a_plan_the_cheapest_choice_is_what_others_are_held_against(packaged_snapshot):
    answer = recommendation_answer(asked(), packaged_snapshot)
    assert answer["baseline"] is None
    for choice in answer["choices"]:
        assert (choice["against"] is None) == ("cheapest" in choice["priorities"])


def test_what_it_costs_to_own_is_not_held_against_a_rent(packaged_snapshot):
    """Nobody lists a rent of B200 at Google: that would have been 11 × cheaper than renting."""
    accelerators = ["nvidia-h100-sxm-80gb", "nvidia-b200-sxm-180gb"]
    search = {"accelerators": accelerators, "regions": ["gcp/us-west1", "gcp/europe-north1"]}
    body = {
        "model": "llama-3.1-70b",
        "workload": {"input_tokens": 6000, "output_tokens": 200, "requests_per_s": 10},
        "limits": {"ttft_s": 1.0, "tpot_s": 0.05},
        "search": search,
    }
    request = RecommendationRequest.model_validate(body)
    choices = recommendation_answer(request, packaged_snapshot)["choices"]
    unpriced = [one for one in choices if one["candidate"]["usd_per_hour"] is None]
    assert unpriced
    for choice in unpriced:
        assert choice["against"]["ratios"]["cost"] is None
        assert "cheaper" not in choice["against"]["in_words"]


def test_a_plan_that_cannot_be_estimated_says_where_it_is_wrong(packaged_snapshot):
    plan = {"model": MODEL, "accelerator": "nvidia-h100", "region": "nowhere"}
    with pytest.raises(Rejected) as refused:
        recommendation_answer(asked(baseline=plan), packaged_snapshot)
    assert "/baseline/region" in {error.pointer for error in refused.value.errors}
    plan = {"model": MODEL, "accelerator": "nvidia-h100-sxm-80gb", "region": "aws/us-east-1"}
    with pytest.raises(Rejected, match="/baseline/as_of"):
        recommendation_answer(asked(baseline=plan | {"as_of": "2026-01-01"}), packaged_snapshot)


@pytest.mark.parametrize(
    ("ratios", "words"),
    [
        (
            {"cost": 1 / 4.1, "latency": 1.3, "carbon": 0.5},
            "4.1 × cheaper, 30% slower, 2 × less carbon",
        ),
        ({"cost": 0.7, "latency": 1.01}, "30% cheaper"),
        ({"cost": 12.4}, "12 × dearer"),
        ({"cost": None}, "the same in everything that is known"),
    ],
)
def test_ratios_are_said_as_people_say_them(ratios, words):
    names = ("cost", "latency", "carbon", "water", "energy")
    assert in_words({name: ratios.get(name) for name in names}) == words


def test_groups_are_searched_and_left_out(packaged_snapshot):
    search = {"regions": ["nordics"], "without_regions": ["azure/*", "FI/*"], "max_accelerators": 8}
    found = resolve_search(asked(search=search), packaged_snapshot).context.regions
    assert found
    assert {region.value.country for region in found} <= {"DK", "IS", "NO", "SE"}
    assert not [region.id for region in found if region.id.startswith("azure/")]
    with pytest.raises(Rejected) as refused:
        resolve_search(asked(search=search | {"without_regions": ["eea"]}), packaged_snapshot)
    (error,) = refused.value.errors
    assert error.pointer == "/search/without_regions"


def test_marketplaces_are_searched_by_name_only(packaged_snapshot):
    everywhere = resolve_search(asked(search={}), packaged_snapshot)
    providers = {region.id.partition("/")[0] for region in everywhere.context.regions}
    assert "vast" not in providers
    assert "aws" in providers
    for names, only in (
        (["vast/US"], {"vast"}),
        (["vast/*"], {"vast"}),
        (["lium/*", "aws/*"], {"lium", "aws"}),
    ):
        named = resolve_search(asked(search={"regions": names}), packaged_snapshot)
        assert {region.id.partition("/")[0] for region in named.context.regions} == only
    europe = resolve_search(asked(search={"regions": ["europe"]}), packaged_snapshot)
    assert "vast" not in {region.id.partition("/")[0] for region in europe.context.regions}


def test_a_limit_of_power_that_nothing_keeps_is_refused(packaged_snapshot):
    with pytest.raises(Rejected) as refused:
        resolve_search(asked(search={}, power_limit_w=1e-9), packaged_snapshot)
    assert [error.pointer for error in refused.value.errors] == ["/power_limit_w"]


def test_a_plan_that_spills_into_memory_tiers_leaves_no_less_than_nothing_free(packaged_snapshot):
    plan = {
        "model": "meta-llama/Llama-3.1-70B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "region": "aws/us-east-1",
        "workload": {"input_tokens": 512, "output_tokens": 128, "concurrency": 1},
        "serving": {"memory_tiers": ["ddr5"]},
    }
    limits = {"ttft_s": 1e3, "tpot_s": 1e3, "headroom_ratio_at_least": 0.0}
    answer = recommendation_answer(asked(baseline=plan, limits=limits), packaged_snapshot)
    rows = {row["name"]: row for row in answer["baseline"]["limits"]}
    assert rows["headroom_ratio_at_least"]["value"] == 0.0
    assert rows["headroom_ratio_at_least"]["verdict"] == "pass"
