"""Hostile requests to the operations that search, compare and report."""

from __future__ import annotations

from tests.fuzz import http

DECISIONS = http.ids_under("/v1/recommendations", "/v1/compare", "/v1/reports/", "/v1/plans/")

globals().update(http.tests_of(DECISIONS))
