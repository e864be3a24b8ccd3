"""Learning curves on sources made up for the purpose, whose likeness is known."""

from __future__ import annotations

from dataclasses import asdict
from random import Random

import pytest

from service.core.learning import CHANNELS, Kin, Lessons, Observation, Report
from service.estimation.measurements.documents import MeasurementDocument
from service.validation.learning.curves import RELATIONS, learning_curves, predictions
from service.validation.learning.likeness import fitted_likeness
from service.validation.learning.rows import Estimate, SourceRow, source_rows
from service.validation.learning.section import learning_section

SIGMA = 0.2
#: Standard deviations of what rows of the sources below share.
TRUE = {"deployment": 0.16, "model": 0.08, "hardware_engine": 0.05, "row": 0.06}


def row(source: str, number: int, kin: Kin, error: float) -> SourceRow:
    seen = Observation("tpot_s", error, {"decode": 1.0, "prefill": 0.0})
    sigma = {"decode": SIGMA, "prefill": SIGMA}
    return SourceRow(source, Report(number, kin, sigma, (seen,)), {"tpot_s": SIGMA})


def made_up(sources: int = 8) -> list[SourceRow]:
    """Rows of sources with three models on two accelerators in two formats at six loads."""
    random, rows = Random(7), []  # noqa: S311
    for source in range(sources):
        parts: dict[object, float] = {}

        def part(kind: str, *names: object) -> float:
            return parts.setdefault((kind, names), random.gauss(0.0, TRUE[kind]))  # noqa: B023

        for model in "abc":
            for hardware in "xy":
                for form in ("bf16", "fp8"):
                    for load in (1, 2, 4, 8, 16, 32):
                        kin = Kin(model, hardware, "vllm", form, float(load), 1000.0)
                        error = (
                            part("deployment", model, hardware, form)
                            + part("model", model)
                            + part("hardware_engine", hardware)
                            + random.gauss(0.0, TRUE["row"])
                        )
                        rows.append(row(f"s{source}", len(rows) + 1, kin, error))
    return rows


ROWS = made_up()
FITTED = fitted_likeness(ROWS)


def test_shares_are_found_again():
    shares = asdict(FITTED["decode"].likeness)
    assert sum(shares.values()) == pytest.approx(1.0)
    assert set(FITTED) == set(CHANNELS)
    whole = sum(each**2 for each in TRUE.values())
    deployed = shares["deployment_ratio"] + shares["load_ratio"]
    assert deployed == pytest.approx(TRUE["deployment"] ** 2 / whole, abs=0.2)
    assert shares["hardware_engine_ratio"] < TRUE["hardware_engine"] ** 2 / whole
    assert shares["row_ratio"] == pytest.approx(TRUE["row"] ** 2 / whole, abs=0.08)
    assert FITTED["decode"].sources == {f"s{number}": 72 for number in range(8)}
    assert FITTED["power"].sources == {}


def test_reports_help_most_where_they_are_most_alike():
    likeness = {channel: found.likeness for channel, found in FITTED.items()}
    points = learning_curves(ROWS, likeness, draws=6)
    gained = {
        (point.relation, point.reported): point.own.median_error_ratio
        / point.without.median_error_ratio
        for point in points
    }
    same, *_, elsewhere = [relation.name for relation in RELATIONS]
    assert max(gained[same, 1], gained[same, 3]) < 0.5
    assert gained[same, 3] < gained[elsewhere, 3] < 1.1
    for point in points:
        assert point.own.width_ratio <= point.without.width_ratio
        assert point.own.coverage_ratio > 0.8
    assert learning_curves(ROWS, likeness, draws=6) == points


def test_without_reports_nothing_is_predicted_otherwise():
    likeness = {"decode": FITTED["decode"].likeness}
    for one in predictions(Lessons((), likeness), ROWS[:5]):
        assert one.own_log_ratio == one.published_log_ratio
        assert one.own_log_sigma == one.published_log_sigma


def test_the_section_says_which_errors_it_is_about():
    likeness = {channel: found.likeness for channel, found in FITTED.items()}
    fresh = learning_section(ROWS[:72], likeness, frozenset({"tpot_s"}))
    fitted = learning_section(ROWS[:72], likeness, frozenset())
    assert "### Other loads of the same deployment" in fresh
    assert "| Decoding | 1 | 1 |" in fresh
    assert "Constants were fitted to most sources" not in fresh
    assert "Constants were fitted to most sources" in fitted
    assert "| Decoding * | 1 | 1 |" in fitted


def test_rows_are_errors_of_the_estimates_that_are_handed_in(packaged_snapshot):
    document = MeasurementDocument.model_validate(
        {
            "id": "one",
            "kind": "inference",
            "request": {
                "model": "meta-llama/Llama-3.1-8B",
                "accelerator": "nvidia-h100-sxm-80gb",
            },
            "measured": {"tpot_s": 0.02, "ttft_s": 0.1},
            "source": "here",
        }
    )
    doubtful = document.model_copy(update={"id": "two", "confidence": "low"})
    left_out = {(id_, "tpot_s"): Estimate(0.01, 0.008, 0.0125) for id_ in ("one", "two", "three")}
    [found] = source_rows([document, doubtful], left_out, packaged_snapshot)
    assert (found.source, found.report.id) == ("here", 1)
    [seen] = found.report.observations
    assert seen.log_ratio == pytest.approx(0.693147, rel=1e-5)
    assert seen.elasticity_ratio["decode"] == pytest.approx(1.0, abs=0.05)
    assert found.log_sigma["tpot_s"] == pytest.approx(0.1356, rel=1e-3)
