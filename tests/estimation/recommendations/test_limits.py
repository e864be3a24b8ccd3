"""The table of limits and what is asked, answered and typed by its names."""

import inspect
from math import isnan

import numpy as np
import pytest

from service.cli.questions.options import DEPLOYMENT_LIMIT_OPTIONS, RUN_LIMIT_OPTIONS
from service.estimation.recommendations.exclusions import Exclusions
from service.estimation.recommendations.inference.limits import (
    DEPLOYMENT_LIMITS,
    DeploymentFigures,
)
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.limits import CONDITIONS, limit_checks, limit_rows
from service.estimation.recommendations.requests import LimitsRequest, RecommendationRequest
from service.estimation.recommendations.training.limits import RUN_LIMITS
from service.estimation.recommendations.training.recommend import training_recommendation_answer
from service.estimation.recommendations.training.requests import (
    RunLimits,
    TrainingRecommendationRequest,
)
from service.mcp.server import Tools

TABLES = (
    (DEPLOYMENT_LIMITS, LimitsRequest, DEPLOYMENT_LIMIT_OPTIONS),
    (RUN_LIMITS, RunLimits, RUN_LIMIT_OPTIONS),
)


@pytest.mark.parametrize(("limits", "request_model", "options"), TABLES)
def test_table_request_and_options_name_the_same_limits(limits, request_model, options):
    requested = [one.name for one in limits if one.requested]
    assert sorted(requested) == sorted(request_model.model_fields)
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
                "run": {"tokens": 1e9},
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
    figures = DeploymentFigures(ttft_s=np.array([0.5, 2.0, np.nan, 3.0]))
    excluded = Exclusions()
    checks = limit_checks(DEPLOYMENT_LIMITS, figures, {"ttft_s": 1.0, "tpot_s": 1.0})
    assert excluded.within_limits(checks, 4).tolist() == [True, False, False, False]
    (only,) = excluded.all()
    assert (only.limit, only.candidates, only.nearest_value) == ("ttft_s", 3, 2.0)


def test_at_least_limits_turn_their_sign():
    figures = DeploymentFigures(headroom_ratio=np.array([0.3, 0.05, -0.2]))
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
