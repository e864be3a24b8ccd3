"""Refits of inference: what made measurements is found in them, and what is packaged agrees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from service.calibration.documents import CalibrationEntry, differences
from service.calibration.inference import (
    constants_of,
    fit_inference,
    fitted_engines,
    holdout_residuals,
    inference_entries,
    measured_deployments,
)
from service.core.figures import from_figures
from service.core.interval import Z_90, exact
from service.core.performance.calibration import EngineOverhead, hardware_efficiency
from service.core.performance.inference.latency import inference_latency
from service.settings import INSTALLATION
from service.validation.packaged import Bench, read_measurements
from service.validation.rows.tables import Row

CATALOG = INSTALLATION / "hardware_catalog"
KNOWN = {"memory_ratio": 0.7, "matrix_8bit_ratio": 0.45, "step_s": 2e-3, "sequence_s": 3e-5}


@pytest.fixture(scope="module")
def rows() -> tuple[Row, ...]:
    return read_measurements(CATALOG, None).rows["latency_inference"]


@pytest.fixture(scope="module")
def entries(bench: Bench, rows: tuple[Row, ...]) -> dict[str, CalibrationEntry]:
    """Of one engine on two families, by id."""
    chosen = [row for row in rows if row.source == "mlenergy-v2-code"]
    return {one.id: one for one in inference_entries(chosen, bench.vocabulary, bench.snapshot)}


def test_a_refit_finds_the_constants_that_made_its_rows(bench: Bench, rows):
    chosen = [row for row in rows if row.source == "trtllm-0.17"][::3]
    measured = measured_deployments(chosen, bench.vocabulary, bench.snapshot)
    assert len(measured) > 40
    engine = bench.snapshot.engines["tensorrt-llm"].value
    usual = {constant.name: constant.usual for constant in constants_of(engine)}
    figures = {
        name: exact(value)
        for name, value in (
            usual
            | KNOWN
            | {"launch_bound": False, "prefill_log_sigma": 0.1, "decode_log_sigma": 0.1}
        ).items()
    }
    for bits in ("32", "4"):
        same = {"32": "16", "4": "8"}[bits]
        figures[f"matrix_{bits}bit_ratio"] = figures[f"matrix_{same}bit_ratio"]
    made = []
    for found in measured:
        resolved = found.computed.resolved
        calibration = replace(
            resolved.calibration.performance,
            hardware=hardware_efficiency(figures),
            engine=from_figures(EngineOverhead, figures),
        )
        latency = inference_latency(
            resolved.deployment, resolved.workload, resolved.serving, calibration, found.fitting
        )
        made.append(replace(found, measured=float(latency.output_tokens_per_s.value)))
    fitted = fit_inference(engine, made, bench.vocabulary)
    assert fitted.log_sigma < 0.03
    # The prior holds it back a little.
    assert fitted.values["memory_ratio"] == pytest.approx(0.7, rel=0.15)
    assert fitted.values["matrix_8bit_ratio"] == pytest.approx(0.45, rel=0.1)


def test_packaged_constants_are_what_packaged_rows_give(bench: Bench, rows):
    quick = [row for row in rows if row.source in ("qwen1-readme", "qwen25-speed")]
    quick = [row for row in quick if "vLLM" not in row.text("framework")]
    entries = inference_entries(quick, bench.vocabulary, bench.snapshot)
    text = (CATALOG / "calibration" / "performance.yaml").read_text(encoding="utf-8")
    # Of the other engines these rows know nothing.
    mine = [entry for entry in entries if entry.applies_to["engine"] == "transformers"]
    told = differences(mine, text, 0.02)
    assert {line.split(": ")[1] for line in told} == {"no rows give it"}
    assert {entry.id for entry in mine} == {
        "performance/transformers/nvidia-ampere",
        "performance/transformers/default",
    }


def test_intervals_are_those_of_models_that_the_fit_has_not_seen(bench: Bench, rows, entries):
    chosen = [row for row in rows if row.source == "mlenergy-v2-code"]
    measured = [
        found
        for found in measured_deployments(chosen, bench.vocabulary, bench.snapshot)
        if found.computed.resolved.deployment.accelerator.family == "nvidia-hopper"
    ]
    engine = fitted_engines(bench.snapshot)["vllm@before-0.6"]
    held_out = holdout_residuals(engine, measured, bench.vocabulary)
    assert held_out is not None
    assert len(held_out) == len(measured)
    fitted = fit_inference(engine, measured, bench.vocabulary)
    assert np.median(np.abs(held_out)) > np.median(np.abs(fitted.residuals))
    few = [found for found in measured if found.row.text("model") == measured[0].row.text("model")]
    assert holdout_residuals(engine, few, bench.vocabulary) is None

    entry = entries[f"performance/{engine.id}/nvidia-hopper"]
    widest = np.quantile(np.abs(held_out), 0.9) / Z_90
    assert entry.figures["decode_log_sigma"] == pytest.approx(widest, rel=0.01)
    assert "models left out of the fit" in entry.note


def test_every_engine_has_values_for_hardware_without_rows(bench: Bench):
    entries = inference_entries([], bench.vocabulary, bench.snapshot)
    fitted = set(fitted_engines(bench.snapshot))
    assert {"vllm", "vllm@before-0.6"} < fitted
    assert {entry.id for entry in entries} == {f"performance/{name}/default" for name in fitted}
    assert not any(entry.fitted for entry in entries)
    assert all(entry.figures["decode_log_sigma"] == 0.35 for entry in entries)


def test_unmeasured_hardware_is_taken_for_what_the_engine_was_measured_on(bench: Bench, entries):
    families = [
        entries[f"performance/vllm@before-0.6/nvidia-{name}"] for name in ("ampere", "hopper")
    ]
    default = entries["performance/vllm@before-0.6/default"]
    older = fitted_engines(bench.snapshot)["vllm@before-0.6"]
    usual = {constant.name: constant.usual for constant in constants_of(older)}
    # What the engine adds is its own on all hardware; what hardware reaches is not.
    assert default.figures["step_s"] < 0.1 * usual["step_s"]
    assert default.figures["memory_ratio"] == pytest.approx(usual["memory_ratio"], rel=0.05)
    for name in ("decode_log_sigma", "prefill_log_sigma"):
        assert default.figures[name] > max(family.figures[name] for family in families)
    assert not default.fitted
    # An engine that is like no measured one keeps the usual values.
    assert entries["performance/llama.cpp/default"].figures["step_s"] == 5e-4


def test_an_engine_without_rows_is_taken_for_the_one_that_it_is_like(packaged_snapshot):
    entries = packaged_snapshot.calibrations
    mine, other = entries["performance/sglang/default"], entries["performance/vllm/default"]
    figures = [one.document["figures"] for one in (mine, other)]
    for name in ("step_s", "sequence_s", "memory_ratio"):
        assert figures[0][name]["value"] == figures[1][name]["value"]
    assert figures[0]["decode_log_sigma"]["value"] > figures[1]["decode_log_sigma"]["value"]
