"""Hostile requests to the operations that draw."""

from __future__ import annotations

from tests.fuzz import http

CHARTS = http.ids_under("/v1/charts/")

globals().update(http.tests_of(CHARTS))
