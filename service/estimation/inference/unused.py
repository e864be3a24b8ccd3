"""Settings of serving that change nothing beside others, of which a request is told."""

from __future__ import annotations

from collections.abc import Iterator

from service.core.explanation import EstimateWarning
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.requests import DeploymentRequest, WorkloadRequest

_OF_TASKS = ("tool_s", "context_growth_tokens", "context_kept_cached")
_OF_IMAGES = ("image_width_px", "image_height_px")


def unused_load(request: DeploymentRequest | ImpactsRequest) -> Iterator[EstimateWarning]:
    """What to say of parts of a workload that mean nothing beside the others."""
    workload = request.workload
    if workload.calls_per_task == 1:
        yield from _unused(workload, _OF_TASKS, "a task is one call, as calls_per_task is 1")
    if not workload.images_per_request:
        yield from _unused(workload, _OF_IMAGES, "there are no images, as images_per_request is 0")


def _unused(
    workload: WorkloadRequest, names: tuple[str, ...], reason: str
) -> Iterator[EstimateWarning]:
    fields = type(workload).model_fields
    asked = [name for name in names if getattr(workload, name) != fields[name].default]
    if asked:
        change = "changes" if len(asked) == 1 else "change"
        yield EstimateWarning(
            "setting_unused",
            f"{reason}: {' and '.join(asked)} {change} nothing",
            about=f"workload.{asked[0]}",
        )
