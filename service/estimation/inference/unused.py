"""Settings of serving that change nothing beside others, of which a request is told."""

from __future__ import annotations

from collections.abc import Iterator

from service.core.explanation import EstimateWarning
from service.estimation.idle import unused
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.requests import DeploymentRequest

_OF_TASKS = ("tool_s", "context_growth_tokens", "context_kept_cached")
_OF_IMAGES = ("image_width_px", "image_height_px")


def unused_load(request: DeploymentRequest | ImpactsRequest) -> Iterator[EstimateWarning]:
    """What to say of parts of a workload that mean nothing beside the others."""
    workload = request.workload
    if workload.calls_per_task == 1:
        yield from unused(
            workload, "workload", _OF_TASKS, "a task is one call, as calls_per_task is 1"
        )
    if not workload.images_per_request:
        yield from unused(
            workload, "workload", _OF_IMAGES, "there are no images, as images_per_request is 0"
        )
