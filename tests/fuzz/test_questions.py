"""Hostile requests to the operations that compute: estimates, decisions, charts, reports."""

from __future__ import annotations

from tests.fuzz import http

_COMPUTED = (
    *("/v1/estimates/", "/v1/memory/", "/v1/latency/", "/v1/impacts", "/v1/charts/"),
    *("/v1/recommendations", "/v1/compare", "/v1/reports/", "/v1/projections/"),
)
QUESTIONS = {id_ for id_, (_, path) in http.operations().items() if path.startswith(_COMPUTED)}

globals().update(http.tests_of(sorted(QUESTIONS)))
