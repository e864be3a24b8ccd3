"""Hostile requests to the operations that estimate."""

from __future__ import annotations

from tests.fuzz import http

ESTIMATES = http.ids_under(
    *("/v1/estimates/", "/v1/memory/", "/v1/latency/", "/v1/impacts", "/v1/projections")
)

globals().update(http.tests_of(ESTIMATES))
