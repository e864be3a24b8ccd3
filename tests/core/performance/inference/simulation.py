"""A small discrete-event simulation of a continuously batching replica, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from service.core.performance.step import StepLoad, step_time
from service.core.performance.work import rank_work


@dataclass
class Simulated:
    """Means over all requests after the warm-up, in seconds."""

    ttft_s: float
    tpot_s: float
    ttft_p95_s: float


def simulate(deployment, calibration, inputs, outputs, rate, slots, requests, seed=5):
    """Poisson arrivals at one replica; a step decodes all and computes one waiting prompt."""
    work = rank_work(deployment.architecture, deployment.precision, deployment.parallelism)
    context = inputs + outputs / 2.0

    @cache
    def seconds(decoding, prompts):
        load = StepLoad(inputs * prompts, prompts, inputs / 2.0, decoding, context)
        return float(
            step_time(
                work, load, deployment.accelerator, deployment.parallelism, calibration
            ).total_s
        )

    arrivals = np.cumsum(np.random.default_rng(seed).exponential(1.0 / rate, requests))
    now, at, waiting, running = 0.0, 0, [], []
    ttft, tpot = {}, {}
    while at < requests or waiting or running:
        while at < requests and arrivals[at] <= now:
            waiting.append(at)
            at += 1
        if not waiting and not running:
            now = float(arrivals[at])
            continue
        admitted = waiting.pop(0) if waiting and len(running) < slots else None
        now += seconds(len(running), 0 if admitted is None else 1)
        for request in running:
            request[1] -= 1
        for request in [one for one in running if one[1] == 0]:
            running.remove(request)
            tpot[request[0]] = (now - request[2]) / (outputs - 1)
        if admitted is not None:
            ttft[admitted] = now - arrivals[admitted]
            running.append([admitted, outputs - 1, now])
    kept = range(requests // 10, requests)
    first = np.array([ttft[one] for one in kept])
    return Simulated(
        float(first.mean()),
        float(np.mean([tpot[one] for one in kept])),
        float(np.quantile(first, 0.95)),
    )
