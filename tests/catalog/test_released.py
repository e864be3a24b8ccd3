"""When models and accelerators were released."""

from __future__ import annotations

import pytest

from service.catalog.entries.released import released_by


@pytest.mark.parametrize(
    ("date", "day"),
    [("2024-07", "2024-07-31"), ("2024-02", "2024-02-29"), ("2024-07-23", "2024-07-23")],
)
def test_a_month_counts_as_whole(date: str, day: str) -> None:
    assert released_by({"released": {"date": date, "source": "sheet"}}) == day


def test_a_year_alone_tells_no_day() -> None:
    assert released_by({"release_year": 2024}) is None
