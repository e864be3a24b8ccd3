"""Random replicas under random loads, simulated, and what the closed form says of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from service.core.deployment import (
    InferenceWorkload,
    LengthSpread,
    Parallelism,
    ServingSettings,
)
from service.core.performance.inference.latency import inference_latency
from tests.core.deployments import CALIBRATION, deployment
from tests.core.performance.inference.simulation import Simulated, StepTable, simulate

#: Percentiles that are compared.
SHARES = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


@dataclass(frozen=True)
class Case:
    """A replica with lengths of requests and a rate as a share of that at saturation."""

    model: str
    tensor: int
    inputs: float
    outputs: float
    variation: float
    budget: int
    slots: int
    utilisation: float
    seed: int


def cases(count: int, seed: int) -> Iterator[Case]:
    """Random cases, the same for a seed: lengths, slots and budgets over orders of magnitude."""
    random = np.random.default_rng(seed)

    def between(low: float, high: float) -> float:
        return float(np.exp(random.uniform(np.log(low), np.log(high))))

    for _ in range(count):
        budget = int(random.choice([512, 2048, 8192, 16384]))
        yield Case(
            model=str(random.choice(["llama-70b", "mixtral-8x7b"])),
            tensor=int(random.choice([1, 2, 8])),
            inputs=float(round(between(32.0, 16_000.0))),
            outputs=float(round(between(8.0, 1500.0))),
            variation=float(random.choice([0.0, 0.5, 1.0])),
            budget=budget,
            slots=min(round(between(8.0, 600.0)), budget),
            utilisation=float(random.uniform(0.05, 0.95)),
            seed=int(random.integers(1 << 30)),
        )


def lengths(
    random: np.random.Generator, mean: float, variation: float, count: int, least: int
) -> np.ndarray:
    """Whole log-normal lengths with a mean and a coefficient of variation [token]."""
    sigma = np.sqrt(np.log1p(variation**2))
    drawn = mean * np.exp(random.normal(-(sigma**2) / 2.0, sigma, count))
    return np.maximum(np.round(drawn), least)


def spread(drawn: np.ndarray) -> LengthSpread:
    """How lengths that were drawn differ."""
    mean = drawn.mean()
    return LengthSpread(
        float((drawn**2).mean() / mean**2),
        *(float(np.quantile(drawn, share) / mean) for share in SHARES.values()),
    )


def kept_in_flight(case: Case, concurrency: int, apart: bool):
    """The closed form and the simulation of a fixed number of requests in flight.

    In the simulation another request comes half a step after one has ended, as the closed form has
    it; where prompts are apart at once, when the step has ended.
    """
    random = np.random.default_rng(case.seed)
    requests = max(1500, 6 * concurrency)
    inputs = lengths(random, case.inputs, case.variation, requests, 1)
    outputs = lengths(random, case.outputs, case.variation, requests, 2)
    chosen = replace(deployment(case.model), parallelism=Parallelism(tensor=case.tensor))
    workload = InferenceWorkload(
        float(inputs.mean()),
        float(outputs.mean()),
        float(concurrency),
        input_spread=spread(inputs),
        output_spread=spread(outputs),
    )
    serving = ServingSettings(
        chunked_prefill_tokens=case.budget,
        max_running_sequences=case.slots,
        prompts_apart=float(apart),
    )
    found = inference_latency(chosen, workload, serving, CALIBRATION, 1e9)
    table = StepTable(chosen, CALIBRATION, inputs.mean(), outputs.mean(), case.slots, case.budget)
    simulated = simulate(
        table,
        inputs,
        outputs.astype(int),
        case.slots,
        case.budget,
        concurrency=concurrency,
        apart=apart,
        turnaround_s=0.0 if apart else float(found.tpot_s.value) / 2.0,
    )
    return found, simulated


def compared(case: Case, requests: int) -> dict[str, float]:
    """The closed form over the simulation, by figure; times at a rate that both have."""
    random = np.random.default_rng(case.seed)
    inputs = lengths(random, case.inputs, case.variation, requests, 1)
    outputs = lengths(random, case.outputs, case.variation, requests, 2)
    chosen = replace(deployment(case.model), parallelism=Parallelism(tensor=case.tensor))
    serving = ServingSettings(chunked_prefill_tokens=case.budget, max_running_sequences=case.slots)

    def estimate(rate: float):
        workload = InferenceWorkload(
            float(inputs.mean()),
            float(outputs.mean()),
            1.0,
            requests_per_s=rate,
            input_spread=spread(inputs),
            output_spread=spread(outputs),
        )
        return inference_latency(chosen, workload, serving, CALIBRATION, 1e9)

    rate = case.utilisation * float(estimate(1e-6).saturation_requests_per_s.value)
    found = estimate(rate)
    gaps = random.exponential(1.0, requests)
    arrivals = np.cumsum(gaps) * (requests / rate / gaps.sum())
    table = StepTable(chosen, CALIBRATION, inputs.mean(), outputs.mean(), case.slots, case.budget)
    simulated = simulate(
        table, inputs, outputs.astype(int), case.slots, case.budget, arrivals=arrivals
    )
    return _ratios(found, simulated)


def _ratios(found, simulated: Simulated) -> dict[str, float]:
    # The simulation keeps up for certain.
    ratios = {
        "ttft_mean": found.load.mean_ttft_s / simulated.ttft_s.mean(),
        "tpot_mean": found.tpot_s.value / simulated.mean_tpot_s,
        "e2e_mean": found.mean_e2e_s / simulated.e2e_s.mean(),
    }
    for name, share in SHARES.items():
        for figure in ("ttft", "tpot", "e2e"):
            said = getattr(getattr(found.load, f"{figure}_s"), name)
            ratios[f"{figure}_{name}"] = said / np.quantile(
                getattr(simulated, f"{figure}_s"), share
            )
    return {name: float(ratio) for name, ratio in ratios.items()}
