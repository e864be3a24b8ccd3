from __future__ import annotations

import numpy as np
import pytest

from service.calibration.spread import (
    COVERED_SHARE,
    LeftOut,
    borne_out,
    coverage_ratio,
    three_sigmas,
)


def _rows(source: float, model: float, row: float, added: float = 0.0) -> list[LeftOut]:
    """Forty sources of five models with four rows each, whose errors have known spreads."""
    random = np.random.default_rng(1)
    found = []
    for number in range(40):
        of_source = random.normal(0.0, source)
        for name in "abcde":
            of_model = of_source + random.normal(0.0, model)
            found += [
                LeftOut(f"s{number}", name, of_model + random.normal(0.0, row), added)
                for _ in range(4)
            ]
    return found


@pytest.mark.parametrize(("source", "model", "row"), [(0.3, 0.1, 0.05), (0.05, 0.05, 0.3)])
def test_variances_are_told_apart(source: float, model: float, row: float) -> None:
    found = three_sigmas(_rows(source, model, row))
    assert found["source_log_sigma"] == pytest.approx(source, rel=0.5, abs=0.03)
    assert found["model_log_sigma"] == pytest.approx(model, rel=0.5, abs=0.04)
    assert found["row_log_sigma"] == pytest.approx(row, rel=0.3)


def test_the_wanted_share_lies_inside() -> None:
    rows = _rows(0.2, 0.1, 0.1)
    variance = sum(sigma**2 for sigma in three_sigmas(rows).values())
    assert coverage_ratio(rows, variance) == pytest.approx(COVERED_SHARE, abs=0.01)


def test_what_levels_add_is_not_counted_twice() -> None:
    plain = sum(sigma**2 for sigma in three_sigmas(_rows(0.3, 0.1, 0.1)).values())
    known = sum(sigma**2 for sigma in three_sigmas(_rows(0.3, 0.1, 0.1, 0.04)).values())
    assert known == pytest.approx(plain - 0.04, rel=0.01)


@pytest.mark.parametrize(("really", "least", "most"), [(0.0, 0.1, 0.2), (1.0, 0.5, 1.0)])
def test_levels_add_what_errors_bear_out(really: float, least: float, most: float) -> None:
    random = np.random.default_rng(2)
    rows = [
        LeftOut(
            f"s{number}",
            "a",
            random.normal(0.0, (0.1**2 + really * (number % 2) * 0.5**2) ** 0.5),
            (number % 2) * 0.5**2,
        )
        for number in range(400)
    ]
    borne = borne_out(rows)
    scaled = borne.rows
    assert least <= borne.unmeasured_ratio <= most
    assert borne.part_log_sigma == 0.0
    variance = sum(sigma**2 for sigma in three_sigmas(scaled).values())
    assert coverage_ratio(scaled, variance) == pytest.approx(COVERED_SHARE, abs=0.03)


@pytest.mark.parametrize("really", [0.0, 0.8])
def test_a_part_that_is_known_less_well_has_a_spread_of_its_own(really: float) -> None:
    random = np.random.default_rng(3)
    rows = [
        LeftOut(
            f"s{number}",
            "a",
            random.normal(0.0, (0.1**2 + (really * part) ** 2) ** 0.5),
            0.0,
            part,
        )
        for number in range(600)
        for part in [(number % 3) * 0.25]
    ]
    borne = borne_out(rows)
    assert borne.part_log_sigma == pytest.approx(really, abs=0.25)
    variance = sum(sigma**2 for sigma in three_sigmas(borne.rows).values())
    assert coverage_ratio(borne.rows, variance) == pytest.approx(COVERED_SHARE, abs=0.02)
    flat = sum(sigma**2 for sigma in three_sigmas(rows).values())
    assert variance < flat / 2 if really else variance == pytest.approx(flat)


def test_a_source_far_off_with_many_rows_counts_once() -> None:
    rows = _rows(0.1, 0.05, 0.05)
    crowd = [LeftOut("crowd", "a", 2.0, 0.0) for _ in range(2000)]
    without = sum(sigma**2 for sigma in three_sigmas(rows).values())
    with_crowd = sum(sigma**2 for sigma in three_sigmas([*rows, *crowd]).values())
    assert with_crowd < without * 1.5


def test_errors_that_agree_claim_no_certainty() -> None:
    rows = [LeftOut("one", "a", 0.0, 0.0), LeftOut("two", "b", 0.0, 0.0)]
    assert sum(sigma**2 for sigma in three_sigmas(rows).values()) == pytest.approx(0.08**2)
