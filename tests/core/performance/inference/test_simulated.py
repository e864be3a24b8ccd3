"""The closed form beside a simulation of continuous batching, over random replicas and loads."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.core.performance.inference.cases import Case, cases, compared, kept_in_flight

#: Median and 90th percentile of errors that the closed form keeps, by figure [-]. The distribution
#: over a thousand cases stands in docs/methodology.md; the module ``distribution`` repeats it.
KEPT = {
    "ttft_mean": (0.08, 0.30),
    "ttft_p50": (0.10, 0.30),
    "ttft_p95": (0.15, 0.40),
    "ttft_p99": (0.20, 0.45),
    "tpot_mean": (0.04, 0.15),
    "tpot_p50": (0.05, 0.15),
    "tpot_p95": (0.08, 0.30),
    "tpot_p99": (0.08, 0.35),
    "e2e_mean": (0.05, 0.15),
    "e2e_p50": (0.05, 0.15),
    "e2e_p95": (0.08, 0.25),
    "e2e_p99": (0.10, 0.30),
}


@pytest.fixture(scope="module")
def ratios() -> list[dict[str, float]]:
    return [compared(case, requests=2500) for case in cases(40, seed=17)]


@pytest.mark.parametrize("figure", KEPT)
def test_open_load_is_close_to_the_simulation(ratios, figure):
    errors = np.abs([case[figure] - 1.0 for case in ratios])
    median, high = KEPT[figure]
    assert np.median(errors) < median
    assert np.quantile(errors, 0.9) < high


def test_few_slots_are_waited_for_as_in_the_simulation():
    """llama.cpp and Ollama have one to four: most of what an almost idle one does is to wait."""
    loads = [(1, 0.1), (1, 0.5), (2, 0.2), (2, 0.8), (3, 0.5), (4, 0.3), (4, 0.8), (6, 0.6)]
    found = [
        compared(
            replace(case, slots=slots, utilisation=utilisation, outputs=max(case.outputs, 32.0)),
            requests=6000,
        )
        for case, (slots, utilisation) in zip(cases(8, seed=321), loads, strict=True)
    ]
    errors = np.abs([one["ttft_mean"] - 1.0 for one in found])
    assert np.median(errors) < 0.1
    assert errors.max() < 0.4


def closed_loop(case: Case, concurrency: int, variation: float, apart: bool):
    """Rate, TTFT and TPOT of the closed form over those of the simulation."""
    chosen = replace(case, variation=variation, slots=max(concurrency, 2))
    found, simulated = kept_in_flight(chosen, concurrency, apart)
    return (
        found.requests_per_s.value / simulated.requests_per_s,
        found.ttft_s.value / simulated.ttft_s.mean(),
        found.tpot_s.value / simulated.mean_tpot_s,
    )


@pytest.mark.parametrize(
    ("variation", "apart", "rate", "ttft", "tpot"),
    [
        (0.0, False, 0.03, 0.15, 0.02),
        (0.0, True, 0.06, 0.06, 0.02),
        (0.6, False, 0.07, 0.12, 0.04),
        (0.6, True, 0.05, 0.20, 0.03),
    ],
)
def test_closed_loops_are_close_to_the_simulation(variation, apart, rate, ttft, tpot):
    found = [
        closed_loop(case, max(round(case.slots * case.utilisation), 1), variation, apart)
        for case in cases(16, seed=29)
    ]
    errors = np.median(np.abs(np.array(found) - 1.0), axis=0)
    assert (errors < (rate, ttft, tpot)).all()


def test_places_that_become_free_in_one_step_are_taken_together():
    # Answers of differing lengths, of which several end in each step: one step computes all prompts
    # that take their places, and reads the weights once for them.
    case = Case("llama-70b", 2, 200.0, 90.0, 0.6, 4096, 256, 1.0, seed=3)
    rate, _, tpot = closed_loop(case, 254, 0.6, True)
    assert rate == pytest.approx(1.0, abs=0.06)
    assert tpot == pytest.approx(1.0, abs=0.06)
