"""The charts that the pages show: where they are, and what they say in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.charts.kind import ChartKind
from service.estimation.charts.kinds import CHART_KINDS
from service.estimation.charts.requests import StyleRequest
from service.estimation.references import Request
from service.estimation.rejection import Rejected
from service.estimation.requests import DeploymentRequest
from service.portal.questions import PageRequest
from service.portal.training_questions import TrainingPageRequest


def _is_placed(kind: str) -> bool:
    """Whether a kind of chart depends on the region."""
    return "region" in CHART_KINDS[kind].request.model_fields


#: Kinds that show a deployment, those that depend on its region last.
_SHOWN = sorted(
    (id_ for id_, kind in CHART_KINDS.items() if issubclass(kind.request, DeploymentRequest)),
    key=_is_placed,
)
#: Kinds that show a training run as well, beside inference by the same accelerators.
_SHOWN_OF_TRAINING = [id_ for id_ in _SHOWN if "training" in CHART_KINDS[id_].request.model_fields]
#: Widths that charts are drawn in, for wide and for narrow screens.
_WIDE_PX, _NARROW_PX = 600, 340


class PictureRequest(PageRequest):
    """A chart of a deployment, for pages: links to the API cannot hold a config.json."""

    theme: Literal["light", "dark"] = "light"
    width_px: int = Field(_WIDE_PX, ge=240, le=1600)


class TrainingPictureRequest(TrainingPageRequest):
    """A chart of a training run, for pages."""

    theme: Literal["light", "dark"] = "light"
    width_px: int = Field(_WIDE_PX, ge=240, le=1600)


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart by its links, which choose theme and width, and in words."""

    title: str
    description: str
    address: str

    def link(self, theme: str, *, narrow: bool = False) -> str:
        """Where the chart is drawn in a theme, relative to the page."""
        return f"{self.address}&theme={theme}&width_px={_NARROW_PX if narrow else _WIDE_PX}"


def pictures(
    request: PageRequest, snapshot: CatalogSnapshot, kinds: Iterable[str] = tuple(_SHOWN)
) -> Iterator[Picture]:
    """The charts of a deployment; one that cannot be drawn of it is left out."""
    for id_ in kinds:
        if request.config is not None:
            address = f"pictures/{id_}?{request.link()}"
        else:
            query = request.deployment_link(placed=_is_placed(id_))
            address = f"v1/charts/{id_}?{query}&format=svg"
        yield from _picture(CHART_KINDS[id_], deployment_fields(id_, request), address, snapshot)


def training_pictures(request: TrainingPageRequest, snapshot: CatalogSnapshot) -> Iterator[Picture]:
    """The charts of a training run beside inference; one that cannot be drawn is left out."""
    for id_ in _SHOWN_OF_TRAINING:
        if request.config is not None:
            address = f"training/pictures/{id_}?{request.link()}"
        else:
            query = request.api_link("region", phases="both")
            address = f"v1/charts/{id_}?{query}&format=svg"
        yield from _picture(CHART_KINDS[id_], training_fields(request), address, snapshot)


def deployment_fields(kind: str, request: PageRequest) -> dict[str, Any]:
    """What a kind of chart is asked about a deployment."""
    estimate = request.estimate
    names = ["model", "precision", "accelerator", "accelerator_count", "parallelism", "workload"]
    names += ["region"] if _is_placed(kind) else []
    return {name: getattr(estimate, name) for name in names}


def training_fields(request: TrainingPageRequest) -> dict[str, Any]:
    """What charts are asked about a training run."""
    estimate = request.estimate
    names = ("model", "precision", "accelerator", "accelerator_count", "parallelism", "training")
    return {name: getattr(estimate, name) for name in names} | {"phases": "both"}


def chart_request(
    kind: str, request: PictureRequest | TrainingPictureRequest
) -> tuple[ChartKind, Request] | None:
    """The chart that a picture is of; None where the page shows none of that kind."""
    trained = isinstance(request, TrainingPictureRequest)
    if kind not in (_SHOWN_OF_TRAINING if trained else _SHOWN):
        return None
    fields = (
        training_fields(request)
        if isinstance(request, TrainingPictureRequest)
        else deployment_fields(kind, request)
    )
    style = StyleRequest(format="svg", theme=request.theme, width_px=request.width_px)
    return CHART_KINDS[kind], CHART_KINDS[kind].request.model_validate({**fields, "style": style})


def _picture(
    kind: ChartKind, fields: dict[str, Any], address: str, snapshot: CatalogSnapshot
) -> Iterator[Picture]:
    try:
        shown = kind.use_case(kind.request(**fields), snapshot)
    except Rejected:
        return
    yield Picture(shown["title"], shown["description"], address)
