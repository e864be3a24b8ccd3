"""What would make an inference deployment fit."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from service.core.memory.inference import InferenceMemory, inference_memory
from service.core.performance.inference import inference_latency
from service.core.techniques.plan import Judgement
from service.core.techniques.registry import TECHNIQUES
from service.core.techniques.setup import InferenceSetup
from service.core.techniques.technique import InferenceChange, Technique
from service.estimation.calibrations import Calibration
from service.estimation.remedies import NOTHING_TO_CHANGE, remedies, remembered


def inference_remedies(memory: InferenceMemory, calibration: Calibration) -> dict[str, Any]:
    """Changes and plans that make a deployment fit; nothing where it does.

    Parameters
    ----------
    memory
        The estimate.
    calibration
        Measured overheads and efficiencies that it was computed with.

    Returns
    -------
    dict
        ``{"would_help": [...], "plans": [...]}``.
    """
    if memory.fits:
        return NOTHING_TO_CHANGE
    known: dict[Hashable, InferenceMemory] = {}

    def memory_of(setup: InferenceSetup) -> InferenceMemory:
        name = _name(setup)
        if name not in known:
            known[name] = inference_memory(
                setup.deployment, setup.workload, setup.serving, calibration.runtime
            )
        return known[name]

    def judge(setup: InferenceSetup) -> Judgement[InferenceSetup]:
        found = memory_of(setup)
        return Judgement(
            setup=setup,
            total=found.total,
            capacity_bytes=float(found.capacity_bytes),
            headroom_bytes=float(found.headroom.value),
            host_bytes=0.0,
            host_capacity_bytes=0.0,
            fits=bool(found.fits),
            accelerators=setup.deployment.parallelism.accelerator_count,
            token_s=_token_s(setup, calibration),
        )

    def propose(
        setup: InferenceSetup,
    ) -> Iterator[tuple[Technique, Iterable[InferenceChange]]]:
        for technique in TECHNIQUES:
            if technique.inference is not None:
                yield technique, technique.inference(memory_of(setup))

    start = InferenceSetup(memory.deployment, memory.workload, memory.serving)
    return remedies(start, remembered(judge, _name), propose)


def _name(setup: InferenceSetup) -> Hashable:
    """What may differ between setups of one plan."""
    deployment = setup.deployment
    return deployment.precision, deployment.parallelism, setup.workload, setup.serving


def _token_s(setup: InferenceSetup, calibration: Calibration) -> float:
    """Time for each output token with all requests that may run running, if they fit [s].

    Arrivals at a given rate would hide what a change costs until it saturates.
    """
    busy = replace(setup.workload, requests_per_s=None)
    latency = inference_latency(
        setup.deployment,
        busy,
        setup.serving,
        calibration.performance,
        max(setup.workload.concurrency / setup.deployment.parallelism.data, 1.0),
    )
    return float(1.0 / latency.output_tokens_per_s.value)
