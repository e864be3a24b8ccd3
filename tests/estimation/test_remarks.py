"""Warnings point at the figures that they are about."""

from __future__ import annotations

from typing import Any

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.use_cases import USE_CASES

PLACED = {"region": "country/SE"}


@pytest.mark.parametrize(
    ("question", "changes", "pointers"),
    [
        (
            "estimates/inference",
            {"region": "country/SE"},
            {"/latency/tpot_s", "/facility/pue_ratio"},
        ),
        ("latency/inference", {}, {"/tpot_s"}),
    ],
)
def test_assumptions_point_at_what_they_move(
    packaged_snapshot: CatalogSnapshot, question: str, changes: dict[str, Any], pointers: set[str]
) -> None:
    use_case = USE_CASES[question]
    asked = {"model": "qwen3-0.6b", "accelerator": "amd-epyc-7763", "parallelism": {"tensor": 2}}
    answer = use_case.respond(use_case.request.model_validate(asked | changes), packaged_snapshot)
    told = {one["pointer"] for one in answer["warnings"] if one["code"] == "assumed_figure"}
    assert told == pointers
