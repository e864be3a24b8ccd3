"""A deployment with as many requests in flight as memory and the engine take."""

from __future__ import annotations

from dataclasses import replace
from math import floor
from typing import Final

from service.core.deployment import (
    Deployment,
    InferenceWorkload,
    ServingSettings,
    most_requests,
)
from service.core.elementwise import plain
from service.core.memory.inference.memory import inference_memory
from service.core.memory.inference.runtime import RuntimeOverheads

#: What a request says for it.
MOST: Final = "max"

#: What fits depends on how many are computed at once; the second look settles it.
_LOOKS = 2


def as_many_as_fit(
    deployment: Deployment,
    workload: InferenceWorkload,
    serving: ServingSettings,
    runtime: RuntimeOverheads,
) -> InferenceWorkload:
    """The workload with as many requests in flight as there is room and slots for, at least one."""
    most = floor(plain(most_requests(serving, workload))) * deployment.parallelism.data
    for _ in range(_LOOKS):
        memory = inference_memory(deployment, workload, serving, runtime)
        fitting = floor(memory.max_concurrency.value)
        workload = replace(workload, concurrency=max(min(plain(fitting), most), 1.0))
    return workload
