"""Accelerators that are only announced are estimated when named, and never proposed."""

from __future__ import annotations

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.inference.space import resolve_search
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.sweeps.plan import resolve_study
from service.estimation.sweeps.requests import SweepRequest

MODEL = "meta-llama/Llama-3.1-8B"
ANNOUNCED = "amd-mi455x-432gb"


@pytest.mark.parametrize("accelerator", [ANNOUNCED, "amd-mi355x-288gb"])
def test_an_estimate_says_that_its_figures_are_announced(
    packaged_snapshot: CatalogSnapshot, accelerator: str
) -> None:
    request = InferenceRequest(model=MODEL, accelerator=accelerator, region="country/SE")
    answer = inference_estimate(request, packaged_snapshot)
    codes = [warning["code"] for warning in answer["warnings"]]
    assert codes.count("announced_accelerator") == (accelerator == ANNOUNCED)


@pytest.mark.parametrize("named", [None, [ANNOUNCED]])
def test_searches_propose_what_can_be_had(
    packaged_snapshot: CatalogSnapshot, named: list[str] | None
) -> None:
    request = RecommendationRequest.model_validate(
        {
            "model": MODEL,
            "workload": {"input_tokens": 512, "output_tokens": 128, "requests_per_s": 1},
            "workload_kind": "sustainable",
            "search": {
                "accelerators": named,
                "placement": "anywhere",
                "include_unmeasured": True,
            },
        }
    )
    searched = {entry.id for entry in resolve_search(request, packaged_snapshot).accelerators}
    assert (ANNOUNCED in searched) is (named is not None)
    assert named or len(searched) > 200


def test_sweeps_of_the_whole_catalog_leave_them_out(packaged_snapshot: CatalogSnapshot) -> None:
    request = SweepRequest.model_validate(
        {
            "models": [MODEL],
            "workload": {"input_tokens": 512, "output_tokens": 128},
            "space": {"regions": ["country/SE"], "accelerator_counts": [1]},
        }
    )
    study = resolve_study(request, packaged_snapshot)
    swept = {name for name, _ in study.accelerators}
    assert ANNOUNCED not in swept
    assert "nvidia-rtx-5090-32gb" in swept
