"""Which releases of an engine somebody may mean who names none."""

from __future__ import annotations

import pytest

from service.core.engines import Generation
from service.core.releases import older_in_use, run_by_ratio

GENERATIONS = tuple(
    Generation(id_, since, "another scheduler")
    for id_, since in (("a", "2023-06"), ("b", "2024"), ("c", "2024-09-05"), ("d", "2026-01"))
)


def shares(since: str) -> dict[str, float]:
    return dict(older_in_use(GENERATIONS, since))


def test_what_was_replaced_before_a_model_came_has_never_run_it():
    assert list(shares("2024-01-01")) == ["b", "c"]
    assert list(shares("2024-09-05")) == ["c"]
    assert shares("2026-02-28") == {}


def test_the_longer_a_release_was_in_use_the_more_runs_are_of_it_or_an_older_one():
    early = shares("2024-01-31")
    assert 0.0 < early["b"] < early["c"] < 0.5
    assert shares("2024-07-31")["b"] < early["b"]


def test_an_engine_runs_nothing_before_its_first_release():
    assert shares("2019-01-01") == shares("2023-06-01")


def test_half_of_those_who_ask_run_the_newest_at_least():
    assert all(share < 0.5 for share in shares("0000-12-31").values())


@pytest.mark.parametrize("generations", [(), GENERATIONS[:1]])
def test_an_engine_without_older_releases_leaves_none_open(generations):
    assert list(older_in_use(generations, "2023-01-01")) == []


def test_runs_are_published_from_the_first_weeks_to_a_year_after_they_could_be():
    """By the months of the packaged publications: few at once, half by five, nearly all by 14."""
    assert run_by_ratio(0.0) == 0.0
    assert run_by_ratio(1.0) < 0.1
    assert 0.4 < run_by_ratio(5.0) < 0.6
    assert run_by_ratio(14.0) > 0.9
