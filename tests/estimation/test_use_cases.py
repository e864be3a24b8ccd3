"""The registry of use cases: every door asks what is in it."""

from __future__ import annotations

from service.cli.questions.estimates import QUESTIONS
from service.estimation.use_cases import USE_CASES


def test_commands_ask_use_cases_of_the_registry() -> None:
    asked = {path for each in QUESTIONS for path in (each.inference, each.training) if path}
    assert asked <= USE_CASES.keys()


def test_names_and_paths_are_unique() -> None:
    assert len({use_case.name for use_case in USE_CASES.values()}) == len(USE_CASES)
    assert all(f"/{path}" == use_case.path for path, use_case in USE_CASES.items())


def test_every_use_case_has_examples_to_ask() -> None:
    for use_case in USE_CASES.values():
        assert use_case.request.model_json_schema()["examples"], use_case.path
