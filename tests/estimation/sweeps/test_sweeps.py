"""Sweeps against single estimates, and their division into chunks."""

from collections.abc import Collection
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError

from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.inference.search import search_candidates
from service.estimation.recommendations.inference.space import resolve_search
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.references import FetchedModel, ModelConfig
from service.estimation.rejection import Rejected
from service.estimation.sweeps import plan
from service.estimation.sweeps.chunks import COUNTS, ENDS, TEXTS, Rows, evaluate_chunk
from service.estimation.sweeps.plan import Study, resolve_study
from service.estimation.sweeps.requests import SweepRequest

BODY: dict[str, Any] = {
    "models": ["meta-llama/Llama-3.1-70B", "meta-llama/Llama-3.1-8B"],
    "workload": {"input_tokens": 2048, "output_tokens": 256},
    "space": {
        "accelerators": ["nvidia-l40s-48gb", "nvidia-h100-sxm-80gb", "amd-mi300x-192gb"],
        "accelerator_counts": [8, 16, 12],
        "precisions": ["bf16", "fp8"],
        "parallelisms": [{"tensor": 4}, {"tensor": 8}, {"tensor": 4, "pipeline": 2}],
        "concurrencies": [1, 32, 512],
        "regions": ["aws/eu-north-1", "aws/us-east-1", "country/SE"],
    },
    "limits": {"ttft_s": 2.0, "tpot_s": 0.05, "l_per_year": 3e6},
    "keep": "candidates",
}


def asked(**changes: Any) -> SweepRequest:
    return SweepRequest.model_validate(BODY | changes)


def spaced(**changes: Any) -> SweepRequest:
    return asked(space=BODY["space"] | changes)


def everything(study: Study) -> list[dict[str, Any]]:
    return [row for chunk in study.chunks for row in lines(evaluate_chunk(study, chunk))]


def lines(rows: Rows, texts: Collection[str] = TEXTS) -> list[dict[str, Any]]:
    columns = {
        name: [rows.texts[name][at] for at in column] if name in texts else column.tolist()
        for name, column in rows.columns.items()
    }
    return [dict(zip(columns, line, strict=True)) for line in zip(*columns.values(), strict=True)]


#: Where a single estimate says what a row says.
PLACES = {
    "total_bytes": ("memory", "total_bytes"),
    "headroom_bytes": ("memory", "headroom_bytes"),
    "ttft_s": ("latency", "ttft_s"),
    "tpot_s": ("latency", "tpot_s"),
    "e2e_s": ("latency", "e2e_s"),
    "output_tokens_per_s": ("latency", "output_tokens_per_s"),
    "requests_per_s": ("latency", "requests_per_s"),
    "it_energy_per_request_wh": ("energy", "it_energy_per_request_wh"),
    "it_power_w": ("energy", "it_power_w"),
    "operational_gco2e_per_1k_tokens": (
        "impacts",
        "per_1k_tokens",
        "carbon",
        "operational_location_gco2e",
    ),
    "gco2e_per_1k_tokens": ("impacts", "per_1k_tokens", "carbon", "total_gco2e"),
    "l_per_1k_tokens": ("impacts", "per_1k_tokens", "water", "total_l"),
    "kwh_per_year": ("impacts", "per_year", "facility_energy_kwh"),
    "l_per_year": ("impacts", "per_year", "water", "total_l"),
}


def test_rows_are_what_single_estimates_say(packaged_snapshot):
    rows = everything(resolve_study(asked(), packaged_snapshot))
    fitting = [row for row in rows if row["fits"]]
    assert {row["region"] for row in rows} == set(BODY["space"]["regions"])
    for row in fitting[:: len(fitting) // 40]:
        degrees = {name: row[name] for name in ("tensor", "pipeline", "expert", "data")}
        request = InferenceRequest.model_validate(
            {
                "model": row["model"],
                "accelerator": row["accelerator"],
                "accelerator_count": row["accelerator_count"],
                "precision": {"weights": row["weights"], "kv_cache": row["kv_cache"]},
                "parallelism": degrees,
                "region": row["region"],
                "workload": BODY["workload"]
                | {"concurrency": row["concurrency_per_replica"] * row["data"]},
                # Rows leave nothing open.
                "serving": {"engine_version": "newest", "usage_context": "server"},
            }
        )
        estimate = inference_estimate(request, packaged_snapshot)
        assert estimate["memory"]["fits"]
        for name, path in PLACES.items():
            found: Any = estimate
            for part in path:
                found = None if found is None else found[part]
            for end, suffix in ENDS:
                if found is None:
                    assert np.isnan(row[f"{name}{suffix}"]), name
                else:
                    assert row[f"{name}{suffix}"] == pytest.approx(found[end], rel=1e-9), name


def test_every_configuration_is_a_row_or_counted_under_one_reason(packaged_snapshot):
    degrees = [{"tensor": 1}, {"tensor": 4}, {"tensor": 16}]
    space = BODY["space"] | {"parallelisms": degrees}
    limits = BODY["limits"] | {"l_per_year": 5e5}
    study = resolve_study(asked(keep="survivors", space=space, limits=limits), packaged_snapshot)
    found = [evaluate_chunk(study, chunk) for chunk in study.chunks]
    kept = sum(len(rows) for rows in found)
    excluded = sum(sum(rows.excluded.values()) for rows in found)
    assert 0 < kept < study.configurations
    assert kept + excluded == study.configurations
    reasons = {reason for rows in found for reason in rows.excluded}
    domain = "tensor_parallel_group_within_scale_up_domain"
    assert {"weights_do_not_fit", domain, "fits", "tpot_s", "l_per_year"} <= reasons


def test_survivors_are_the_candidates_that_meet_the_limits(packaged_snapshot):
    candidates = everything(resolve_study(asked(), packaged_snapshot))
    survivors = everything(resolve_study(asked(keep="survivors"), packaged_snapshot))
    wanted = [row for row in candidates if row["meets_limits"]]
    assert 0 < len(wanted) < len(candidates)
    assert len(survivors) == len(wanted)
    for mine, theirs in zip(survivors, wanted, strict=True):
        assert list(mine) == list(theirs)
        assert [repr(value) for value in mine.values()] == [
            repr(value) for value in theirs.values()
        ]


@pytest.mark.parametrize("limits", [{"ttft_s": 1e-9}, {"l_per_year": 1e-9}])
def test_nothing_may_survive(packaged_snapshot, limits):
    study = resolve_study(asked(keep="survivors", limits=limits), packaged_snapshot)
    [rows] = [evaluate_chunk(study, chunk) for chunk in study.chunks]
    assert len(rows) == 0
    assert sum(rows.excluded.values()) == study.configurations
    assert all(len(column) == 0 for column in rows.columns.values())


@pytest.mark.parametrize("most", [54, 60, 500, 5_000])
def test_how_it_is_divided_changes_nothing(packaged_snapshot, monkeypatch, most):
    whole = resolve_study(asked(), packaged_snapshot)
    monkeypatch.setattr(plan, "CHUNK_CONFIGURATIONS", most)
    divided = resolve_study(asked(), packaged_snapshot)
    assert len(whole.chunks) == 1
    assert all(chunk.configurations <= most for chunk in divided.chunks)
    assert divided.configurations == whole.configurations
    assert repr(everything(divided)) == repr(everything(whole))


def test_rows_come_in_the_order_of_the_lists(packaged_snapshot):
    rows = everything(resolve_study(asked(), packaged_snapshot))
    space = BODY["space"]
    first = [row for row in rows if row["model"] == BODY["models"][1] and row["weights"] == "bf16"]
    one = [row for row in first if row["tensor"] == 4 and row["pipeline"] == 1]
    places = [
        (
            ["bf16", "fp8"].index(row["kv_cache"]),
            space["accelerators"].index(row["accelerator"]),
            space["concurrencies"].index(row["concurrency_per_replica"]),
            space["accelerator_counts"].index(row["accelerator_count"]),
            space["regions"].index(row["region"]),
        )
        for row in one
    ]
    assert len(places) == 2 * 3 * 3 * 3 * 3
    assert places == sorted(places)


def test_a_load_is_carried_by_as_many_replicas_as_it_takes_or_not_at_all(packaged_snapshot):
    load = BODY["workload"] | {"requests_per_s": 6.0}
    free = everything(
        resolve_study(
            asked(workload=load, space=BODY["space"] | {"accelerator_counts": None}),
            packaged_snapshot,
        )
    )
    assert {row["data"] for row in free} - {1}
    assert all(row["requests_per_s"] >= 6.0 for row in free)
    sized = everything(resolve_study(asked(workload=load), packaged_snapshot))
    lacking = [row for row in sized if row["requests_per_s"] < 6.0]
    assert lacking
    assert not any(row["meets_limits"] for row in lacking)


def test_prices_are_the_callers_own_else_the_clouds_else_the_lowest_else_unknown(packaged_snapshot):
    request = asked(usd_per_accelerator_hour={"nvidia-h100-sxm-80gb": 2.5}, list_prices=False)
    rows = everything(resolve_study(request, packaged_snapshot))
    for row in rows:
        if row["accelerator"] != "nvidia-h100-sxm-80gb":
            assert np.isnan(row["rented_usd_per_hour"])
            assert np.isnan(row["rented_usd_per_million_output_tokens"])
            continue
        hourly = 2.5 * row["accelerator_count"]
        assert row["rented_usd_per_hour"] == pytest.approx(hourly)
        millions = row["output_tokens_per_s"] * 3600.0 / 1e6
        assert row["rented_usd_per_million_output_tokens"] == pytest.approx(hourly / millions)
    listed = everything(resolve_study(asked(), packaged_snapshot))
    whole = 0
    for row in listed:
        offers = [
            (entry.value.accelerators, entry.value.price_in(row["region"]))
            for entry in packaged_snapshot.instances.values()
            if entry.value.accelerator == row["accelerator"]
            and entry.value.provider == row["region"].partition("/")[0]
            and entry.value.offered_in(row["region"])
        ]
        known = [
            (size, price.usd_per_hour)
            for size, price in offers
            if price is not None and size >= row["tensor"]
        ]
        if known:
            # Whole instances, as many as hold the accelerators.
            wanted = min(-(-row["accelerator_count"] // size) * usd for size, usd in known)
            assert wanted * 0.9 <= row["rented_usd_per_hour"] <= wanted * 1.3
            whole += 1
        elif not offers:
            assert np.isnan(row["rented_usd_per_hour"])
    assert whole


def test_clouds_take_what_they_are_known_to_rent_out(packaged_snapshot):
    space = BODY["space"] | {"placement": "offered", "accelerators": ["google-tpu-v6e"]}
    space["regions"] = ["aws/eu-north-1", "gcp/europe-west4"]
    study = resolve_study(asked(space=space), packaged_snapshot)
    rows = everything(study)
    assert {row["region"] for row in rows if row["meets_limits"]} <= {"gcp/europe-west4"}
    left_out = [evaluate_chunk(study, chunk).excluded.get("offered", 0) for chunk in study.chunks]
    assert sum(left_out) > 0


def test_drafts_and_tiers_may_be_part_of_it(packaged_snapshot):
    def named(row):
        return tuple(row[name] for name in (*TEXTS, *COUNTS))

    plain = everything(resolve_study(asked(), packaged_snapshot))
    serving = {
        "speculative": {"draft_tokens": 4, "acceptance_ratio": 0.8},
        "memory_tiers": [{"tier": "ddr5-8ch", "units": 2}],
    }
    more = everything(resolve_study(asked(serving=serving), packaged_snapshot))
    assert sum(row["fits"] for row in more) > sum(row["fits"] for row in plain)
    alone = {named(row): row["tpot_s"] for row in plain if row["fits"]}
    few = [row for row in more if row["concurrency_per_replica"] == 1 and named(row) in alone]
    assert few
    assert all(row["tpot_s"] < alone[named(row)] for row in few)


def test_left_open_it_searches_what_recommendations_do(packaged_snapshot):
    study = resolve_study(
        SweepRequest.model_validate({"models": ["llama-3.1-8b"]}), packaged_snapshot
    )
    vllm = packaged_snapshot.engines["vllm"].value
    assert {id_ for id_, _ in study.accelerators} == {
        id_
        for id_, entry in packaged_snapshot.delivered_accelerators().items()
        if vllm.runs_on(entry.value.hardware)
    }
    assert len(study.regions) > 100
    assert study.configurations > 1_000_000


def test_things_given_in_line_are_told_apart(packaged_snapshot):
    inline = {
        "family": "nvidia-hopper",
        "figures": {
            "memory_bytes": 96e9,
            "memory_bandwidth_bytes_per_s": 4e12,
            "peak_bf16_flops_per_s": 1e15,
            "thermal_design_power_w": 700,
        },
    }
    region = {"parent": "country/GB", "figures": {"grid_gco2e_per_kwh": 92}}
    study = resolve_study(
        spaced(accelerators=[inline, "nvidia-h100-sxm-80gb"], regions=["country/GB", region]),
        packaged_snapshot,
    )
    assert [name for name, _ in study.accelerators] == ["inline 0", "nvidia-h100-sxm-80gb"]
    assert [name for name, _ in study.regions] == ["country/GB", "inline 1"]


@pytest.mark.parametrize(
    ("changes", "pointer", "said"),
    [
        ({"models": ["llama-9"]}, "/models/0", "unknown id"),
        ({"space": {"accelerators": ["abacus"]}}, "/space/accelerators/0", "unknown id"),
        ({"space": {"regions": ["country/SE", "moon"]}}, "/space/regions/1", "unknown id"),
        ({"space": {"parallelisms": [{"tensor": 7}]}}, "/space/parallelisms", "heads"),
        (
            {"space": {"accelerator_counts": [3], "parallelisms": [{"tensor": 4}]}},
            "/space",
            "nothing to evaluate",
        ),
        ({"usd_per_accelerator_hour": {"abacus": 1.0}}, "/usd_per_accelerator_hour/abacus", "unk"),
    ],
)
def test_what_cannot_be_studied_is_refused_by_name(packaged_snapshot, changes, pointer, said):
    with pytest.raises(Rejected) as refused:
        resolve_study(SweepRequest.model_validate(BODY | changes), packaged_snapshot)
    assert pointer in {error.pointer for error in refused.value.errors}
    assert said in " ".join(error.detail for error in refused.value.errors)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"serving": {"disaggregated": {}}}, "disaggregated cannot be swept"),
        (
            {
                "space": {
                    "concurrencies": list(range(1, 51)),
                    "accelerator_counts": list(range(1, 51)),
                    "regions": ["country/SE"] * 100,
                }
            },
            "250000; at most 100000",
        ),
    ],
)
def test_what_is_too_much_is_refused_with_its_size(changes, said):
    with pytest.raises(ValidationError, match=said):
        asked(**changes)


def test_what_was_fetched_from_the_hub_is_written_out_for_the_worker() -> None:
    config = {"model_type": "llama", "hidden_size": 64}
    fetched = FetchedModel(
        hub="acme/tiny", revision="abc", config=config, url="https://x", year=2026, may_be_old=False
    )
    asked = SweepRequest(models=["llama-3.1-8b"]).model_copy(update={"models": [fetched]})
    kept = SweepRequest.model_validate_json(asked.standing_alone().model_dump_json())
    (model,) = kept.models
    assert isinstance(model, ModelConfig)
    assert model.config == config


def test_a_limit_of_power_that_nothing_keeps_is_refused(packaged_snapshot):
    request = SweepRequest.model_validate(
        {"models": ["meta-llama/Llama-3.1-8B"], "power_limit_w": 1e-9}
    )
    with pytest.raises(Rejected) as refused:
        resolve_study(request, packaged_snapshot)
    assert [error.pointer for error in refused.value.errors] == ["/power_limit_w"]


RATED = {
    "models": ["meta-llama/Llama-3.1-8B"],
    "workload": {"input_tokens": 1024, "output_tokens": 256, "requests_per_s": 40.0},
    "space": {
        "accelerators": ["nvidia-h100-sxm-80gb", "nvidia-l40s-48gb", "nvidia-l4-24gb"],
        "regions": ["aws/us-east-1", "aws/eu-north-1"],
        "precisions": ["bf16"],
        "kv_caches": ["bf16"],
        "parallelisms": [{"tensor": 1}, {"tensor": 2}],
        "max_accelerators": 32,
        "placement": "anywhere",
    },
    "limits": {"ttft_s": 0.6, "tpot_s": 0.03, "percentile": "p95"},
    "keep": "candidates",
}


def test_under_a_rate_replicas_are_those_of_recommendations(packaged_snapshot):
    study = resolve_study(SweepRequest.model_validate(RATED), packaged_snapshot)
    rows = everything(study)
    space = RATED["space"]
    request = RecommendationRequest.model_validate(
        {
            "model": RATED["models"][0],
            "workload": RATED["workload"],
            "limits": RATED["limits"],
            "search": {
                name: space[name]
                for name in (
                    *("accelerators", "regions", "precisions", "kv_caches"),
                    *("max_accelerators", "placement"),
                )
            },
        }
    )
    search = resolve_search(request, packaged_snapshot)
    (found,) = search_candidates(search).by_model
    for name in space["accelerators"]:
        offer = [one.id for one in search.accelerators].index(name)
        for tensor in (1, 2):
            at = [one.tensor for one in search.spaces[0].layouts].index(tensor)
            mine = (found.offer == offer) & (found.layout == at) & (found.accelerators <= 32)
            theirs = [row for row in rows if (row["accelerator"], row["tensor"]) == (name, tensor)]
            assert {row["data"] for row in theirs} == set(found.replicas[mine].astype(int))
    assert any(row["meets_limits"] for row in rows)
    for row in rows[::4]:
        estimate = inference_estimate(
            InferenceRequest.model_validate(
                {
                    "model": row["model"],
                    "accelerator": row["accelerator"],
                    "accelerator_count": row["accelerator_count"],
                    "precision": {"weights": row["weights"], "kv_cache": row["kv_cache"]},
                    "parallelism": {"tensor": row["tensor"], "data": row["data"]},
                    "region": row["region"],
                    "workload": RATED["workload"]
                    | {"concurrency": row["concurrency_per_replica"] * row["data"]},
                }
            ),
            packaged_snapshot,
        )
        times = estimate["latency"]
        if times["ttft_s"] is None:
            assert not row["meets_limits"]
            continue
        assert row["ttft_s"] == pytest.approx(times["ttft_s"]["value"], rel=1e-9)
        kept = times["load"]["ttft_s"]["p95"]["value"] <= 0.6
        kept = kept and times["load"]["tpot_s"]["p95"]["value"] <= 0.03
        if row["meets_limits"]:
            assert kept


def test_sized_configurations_add_up(packaged_snapshot):
    body = RATED | {"keep": "survivors"}
    study = resolve_study(SweepRequest.model_validate(body), packaged_snapshot)
    found = [evaluate_chunk(study, chunk) for chunk in study.chunks]
    kept = sum(len(rows) for rows in found)
    assert kept > 0
    assert kept + sum(sum(rows.excluded.values()) for rows in found) == study.configurations


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"workload": {"input_tokens": 128}}, "requests_per_s"),
        ({"space": RATED["space"] | {"concurrencies": [8]}}, "space.concurrencies"),
        ({"space": RATED["space"] | {"accelerator_counts": [8]}}, "space.accelerator_counts"),
    ],
)
def test_percentiles_of_sweeps_need_replicas_counted_by_arrivals(changes, said):
    with pytest.raises(ValueError, match=said):
        SweepRequest.model_validate(RATED | changes)
