"""What is computed of one configuration, and of a grid whose figures are arrays."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from service.core.deployment import Link, Region
from service.core.estimate.inference import InferenceSetup, estimate_inference, inference_energy
from service.core.impacts.footprint import footprint
from service.core.impacts.infrastructure import Infrastructure, making
from service.core.interval import exact
from service.estimation.inference.deployment import ResolvedDeployment

Evaluate = Callable[[Region], tuple[Any, ...]]


def single(resolved: ResolvedDeployment) -> Evaluate:
    """An action that evaluates a deployment by itself."""
    return _evaluating(resolved.setup, resolved.calibration.infrastructure)


def grid(resolved: ResolvedDeployment, size: int) -> Evaluate:
    """An action that evaluates ``size`` configurations around a deployment.

    Structure (model, formats, parallelism) is that of the deployment; figures vary.
    """
    draw = np.random.default_rng(20)
    base = resolved.deployment.accelerator
    accelerator = replace(
        base,
        memory_bytes=draw.choice([80e9, 96e9, 141e9, 192e9], size),
        memory_bandwidth_bytes_per_s=draw.choice([2e12, 3.35e12, 4.8e12, 8e12], size),
        peak_flops_per_s={
            name: peak * draw.choice([0.5, 1.0, 2.0], size)
            for name, peak in base.peak_flops_per_s.items()
        },
        scale_up=Link(draw.choice([64e9, 300e9, 450e9, 900e9], size), base.scale_up.latency_s),
        thermal_design_power_w=draw.choice([350.0, 700.0, 1000.0], size),
        idle_power_w=exact(draw.choice([50.0, 70.0, 140.0], size)),
    )
    deployment = replace(resolved.deployment, accelerator=accelerator)
    workload = replace(
        resolved.workload,
        input_tokens=draw.choice([512.0, 2048.0, 8192.0], size),
        output_tokens=draw.choice([128.0, 256.0, 1024.0], size),
        concurrency=draw.choice([1.0, 8.0, 32.0, 128.0, 256.0], size),
    )
    setup = replace(resolved.setup, deployment=deployment, workload=workload)
    return _evaluating(setup, resolved.calibration.infrastructure)


def _evaluating(setup: InferenceSetup, infrastructure: Infrastructure) -> Evaluate:
    """Memory fit, TTFT, TPOT, throughput, power, energy, carbon and water, with intervals."""
    made = making(setup.deployment.accelerator, infrastructure)

    def evaluate(region: Region) -> tuple[Any, ...]:
        estimate = estimate_inference(setup)
        energy = inference_energy(estimate, infrastructure)
        placed = footprint(
            energy.request_kwh, energy.request_hours, None, region, infrastructure, made
        )
        latency = estimate.latency
        return (
            *(estimate.fits, estimate.memory.headroom_bytes),
            *(latency.ttft_s, latency.tpot_s, latency.output_tokens_per_s),
            *(energy.power.it_power_w, energy.request.it_wh),
            *(placed.total_location_gco2e, placed.water_total_l),
        )

    return evaluate
