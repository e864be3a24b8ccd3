"""The table of limits and what is asked, answered and typed by its names."""

import inspect
from math import isnan

import numpy as np
import pytest

from service.cli.questions.options import DEPLOYMENT_LIMIT_OPTIONS, RUN_LIMIT_OPTIONS
from service.estimation.comparison.table import comparison_answer, flat_rows
from service.estimation.recommendations.exclusions import Exclusions
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.limit_tables import (
    DEPLOYMENT_LIMITS,
    RUN_LIMITS,
)
from service.estimation.recommendations.limits import (
    CONDITIONS,
    CandidateFigures,
    limit_checks,
    limit_rows,
)
from service.estimation.recommendations.requests import (
    CompareRequest,
    LimitsRequest,
    RecommendationRequest,
)
from service.estimation.recommendations.training.recommend import training_recommendation_answer
from service.estimation.recommendations.training.requests import (
    RunLimits,
    TrainingRecommendationRequest,
)
from service.estimation.rejection import Rejected
from service.mcp.server import Tools

#: Fields that are no number to hold a figure against.
NO_NUMBERS = {"compliance", "site", "implied"}
TABLES = (
    (DEPLOYMENT_LIMITS, LimitsRequest, DEPLOYMENT_LIMIT_OPTIONS),
    (RUN_LIMITS, RunLimits, RUN_LIMIT_OPTIONS),
)


@pytest.mark.parametrize(("limits", "request_model", "options"), TABLES)
def test_table_request_and_options_name_the_same_limits(limits, request_model, options):
    requested = [one.name for one in limits if one.requested]
    assert sorted(requested) == sorted(set(request_model.model_fields) - NO_NUMBERS)
    assert [one.place for one in options] == [("limits", name) for name in requested]
    names = [one.name for one in (*limits, *CONDITIONS)]
    assert len(set(names)) == len(names)
    assert all(one.at_least == one.name.endswith("at_least") for one in limits)


def test_tools_of_assistants_set_limits_of_the_table():
    names = {one.name for one in DEPLOYMENT_LIMITS if one.requested}
    taken = names & set(inspect.signature(Tools.recommend).parameters)
    assert {"ttft_s", "tpot_s", "usd_per_hour"} <= taken


def test_every_limit_that_is_set_is_held_against_each_choice(packaged_snapshot):
    wide = {one.name: 1e9 for one in DEPLOYMENT_LIMITS if one.requested and not one.at_least}
    answer = recommendation_answer(
        RecommendationRequest.model_validate(
            {
                "model": "meta-llama/Llama-3.1-8B",
                "limits": wide,
                "search": {"max_accelerators": 2, "regions": ["aws/us-east-1"]},
            }
        ),
        packaged_snapshot,
    )
    for choice in answer["choices"]:
        rows = {row["name"]: row for row in choice["limits"]}
        assert set(rows) == {*wide, "headroom_ratio_at_least"}
        assert {row["verdict"] for row in rows.values()} == {"pass"}
        assert all(row["margin"] >= 0.0 for row in rows.values())


def test_every_limit_of_a_run_that_is_set_is_held_against_each_choice(packaged_snapshot):
    wide = {one.name: 1e9 for one in RUN_LIMITS if one.requested and not one.at_least}
    answer = training_recommendation_answer(
        TrainingRecommendationRequest.model_validate(
            {
                "model": "meta-llama/Llama-3.1-8B",
                "training": {"tokens": 1e9},
                "limits": wide,
                "search": {"max_accelerators": 8, "regions": ["aws/us-east-1"]},
            }
        ),
        packaged_snapshot,
    )
    for choice in answer["choices"]:
        assert {row["name"] for row in choice["limits"]} == {*wide, "headroom_ratio_at_least"}
        assert {row["verdict"] for row in choice["limits"]} == {"pass"}


def test_an_unknown_figure_is_past_its_limit_and_never_the_nearest():
    figures = CandidateFigures(ttft_s=np.array([0.5, 2.0, np.nan, 3.0]))
    excluded = Exclusions()
    checks = limit_checks(DEPLOYMENT_LIMITS, figures, {"ttft_s": 1.0, "tpot_s": 1.0})
    assert excluded.within_limits(checks, 4).tolist() == [True, False, False, False]
    (only,) = excluded.all()
    assert (only.limit, only.candidates, only.nearest_value) == ("ttft_s", 3, 2.0)


def test_at_least_limits_turn_their_sign():
    figures = CandidateFigures(headroom_ratio=np.array([0.3, 0.05, -0.2]))
    excluded = Exclusions()
    checks = limit_checks(DEPLOYMENT_LIMITS, figures, {"headroom_ratio_at_least": 0.1})
    assert excluded.within_limits(checks, 3).tolist() == [True, False, False]
    (only,) = excluded.all()
    assert (only.threshold, only.nearest_value) == (0.1, 0.05)
    estimate = {"memory": {"headroom_bytes": {"value": 30.0}, "capacity_bytes": 100.0}}
    (row,) = limit_rows(
        DEPLOYMENT_LIMITS,
        {"headroom_ratio_at_least": 0.1, "ttft_s": None},
        estimate,
        {"uses_memory_tiers": False},
    )
    assert (row["value"], row["limit"], row["verdict"]) == (0.3, 0.1, "pass")
    assert row["margin"] == pytest.approx(0.2)
    assert not isnan(row["margin"])


def test_rows_of_a_comparison_are_held_to_limits(packaged_snapshot):
    body = {
        "models": ["meta-llama/Llama-3.1-8B"],
        "accelerators": ["nvidia-h100-sxm-80gb", "nvidia-t4-16gb"],
        "regions": ["aws/us-east-1"],
        "precisions": [{"weights": "bf16"}, {"weights": "fp8"}],
        "workload": {"input_tokens": 512, "output_tokens": 128, "requests_per_s": 1.0},
        "limits": {"tpot_s": 0.03, "percentile": "p95", "weight_bits_at_least": 16},
    }
    rows = comparison_answer(CompareRequest.model_validate(body), packaged_snapshot)["rows"]
    found = {(row["accelerator"], row["weights"]): row for row in rows}
    names = {"tpot_s", "weight_bits_at_least", "headroom_ratio_at_least"}
    assert all({one["name"] for one in row["limits"]} == names for row in rows)
    fast = {one["name"]: one for one in found["nvidia-h100-sxm-80gb", "bf16"]["limits"]}
    assert found["nvidia-h100-sxm-80gb", "bf16"]["meets_limits"] is True
    assert fast["tpot_s"]["value"] < 0.03
    coarse = {one["name"]: one for one in found["nvidia-h100-sxm-80gb", "fp8"]["limits"]}
    assert coarse["weight_bits_at_least"]["verdict"] == "fail"
    assert found["nvidia-h100-sxm-80gb", "fp8"]["meets_limits"] is False
    assert found["nvidia-t4-16gb", "bf16"]["meets_limits"] is False
    table = flat_rows({"rows": rows})
    assert [line["meets_limits"] for line in table] == [row["meets_limits"] for row in rows]
    assert all("limits" not in line for line in table)


def test_a_price_limit_in_a_cloud_is_held_against_its_rent(packaged_snapshot):
    """What it would cost to own keeps no limit where it can only be rented."""
    request = CompareRequest.model_validate(
        {
            "models": ["llama-3.1-8b"],
            "accelerators": ["mi300x"],
            "regions": ["gcp/europe-west4", "country/DE"],
            "limits": {"usd_per_month": 9000},
        }
    )
    rented, owned = comparison_answer(request, packaged_snapshot)["rows"]
    (price,) = [one for one in rented["limits"] if one["name"] == "usd_per_month"]
    assert (price["verdict"], price["value"]) == ("unknown", None)
    assert rented["meets_limits"] is None
    (price,) = [one for one in owned["limits"] if one["name"] == "usd_per_month"]
    assert price["verdict"] == "pass"
    assert owned["meets_limits"] is True


def test_percentiles_of_a_comparison_need_arrivals():
    with pytest.raises(ValueError, match="requests_per_s"):
        CompareRequest.model_validate(
            {
                "models": ["meta-llama/Llama-3.1-8B"],
                "accelerators": ["nvidia-t4-16gb"],
                "regions": ["aws/us-east-1"],
                "limits": {"ttft_s": 1.0, "percentile": "p99"},
            }
        )


def test_weights_of_runs_have_as_many_bits_as_asked(packaged_snapshot):
    body = {
        "model": "meta-llama/Llama-3.1-8B",
        "training": {"tokens": 1e9, "methods": ["full", "qlora"], "framework": "peft"},
        "limits": {"weight_bits_at_least": 8},
        "search": {"accelerators": ["nvidia-h100-sxm-80gb"], "max_accelerators": 8},
    }
    request = TrainingRecommendationRequest.model_validate(body)
    answer = training_recommendation_answer(request, packaged_snapshot)
    assert answer["choices"]
    for choice in answer["choices"]:
        assert choice["candidate"]["training"]["method"] == "full"
        held = {one["name"]: one for one in choice["limits"]}
        assert held["weight_bits_at_least"]["value"] >= 8.0
    body["training"]["methods"] = ["qlora"]
    with pytest.raises(Rejected) as refused:
        training_recommendation_answer(
            TrainingRecommendationRequest.model_validate(body), packaged_snapshot
        )
    (error,) = refused.value.errors
    assert error.pointer == "/limits/weight_bits_at_least"
    assert "training.methods" in error.detail


EUROPE = ["aws/eu-north-1", "aws/eu-west-3", "country/SE"]


@pytest.mark.parametrize(
    ("load", "limits"),
    [
        ({}, {}),
        ({}, {"ttft_s": 1e-6}),
        ({"requests_per_s": 2.0}, {"usd_per_hour": 8.0}),
        ({"concurrency": 12}, {"tpot_s": 0.02, "kgco2e_per_year": 500.0}),
    ],
)
def test_exclusions_add_up(packaged_snapshot, limits, load):
    answer = recommendation_answer(
        RecommendationRequest.model_validate(
            {
                "model": "meta-llama/Llama-3.1-8B",
                "workload_kind": "batch-inference",
                "workload": load,
                "limits": limits,
                "search": {"max_accelerators": 4, "regions": EUROPE},
            }
        ),
        packaged_snapshot,
    )
    _adds_up(answer)


def test_exclusions_of_runs_add_up(packaged_snapshot):
    answer = training_recommendation_answer(
        TrainingRecommendationRequest.model_validate(
            {
                "model": "meta-llama/Llama-3.1-8B",
                "training": {"tokens": 1e9, "global_batch_size": 12},
                "limits": {"days": 4.0, "usd": 3000.0},
                "search": {"max_accelerators": 8, "regions": EUROPE},
            }
        ),
        packaged_snapshot,
    )
    _adds_up(answer)


def _adds_up(answer):
    searched, excluded = answer["searched"], answer["excluded"]
    count = {
        stage: sum(one["candidates"] for one in excluded if one["stage"] == stage)
        for stage in ("configuration", "place")
    }
    assert 0 <= searched["within_limits"] <= searched["configurations"] <= searched["combinations"]
    assert searched["combinations"] == searched["within_limits"] + count["configuration"]
    # What others beat is in no count, as nothing excludes it.
    assert count["place"] + searched["unbeaten"] <= searched["candidates"]
    assert len({one["limit"] for one in excluded}) == len(excluded)
