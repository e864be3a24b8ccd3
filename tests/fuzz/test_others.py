"""Hostile requests to all operations but those that compute."""

from __future__ import annotations

from tests.fuzz import http
from tests.fuzz.test_charts import CHARTS
from tests.fuzz.test_decisions import DECISIONS
from tests.fuzz.test_estimates import ESTIMATES

OTHERS = set(http.operations()) - CHARTS - DECISIONS - ESTIMATES

globals().update(http.tests_of(OTHERS))


def test_every_operation_is_asked():
    """There is a test for each, and each has a name of its own."""
    asked = {name for name in globals() if name.startswith("test_")}
    assert {f"test_{id_}" for id_ in OTHERS} <= asked
    assert len(http.operations()) > 100
    assert len(CHARTS | DECISIONS | ESTIMATES) > 20
