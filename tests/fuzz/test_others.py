"""Hostile requests to all operations but those that compute."""

from __future__ import annotations

from tests.fuzz import http
from tests.fuzz.test_questions import QUESTIONS

globals().update(http.tests_of(sorted(set(http.operations()) - QUESTIONS)))


def test_every_operation_is_asked():
    """There is a test for each, and each has a name of its own."""
    asked = {name for name in globals() if name.startswith("test_")}
    assert {f"test_{id_}" for id_ in set(http.operations()) - QUESTIONS} <= asked
    assert len(http.operations()) > 100
    assert len(QUESTIONS) > 20
