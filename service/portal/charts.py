"""The charts that the pages show: where they are, and what they say in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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
from service.portal.chart_tables import chart_table
from service.portal.questions import PageRequest
from service.portal.rendering import rendered
from service.portal.training_questions import TrainingPageRequest


def _is_placed(kind: str) -> bool:
    """Whether a kind of chart depends on the region."""
    return "region" in CHART_KINDS[kind].request.model_fields


#: Kinds that are shown first, two of about the same height beside each other.
_FIRST = (
    *("memory-breakdown", "sensitivity"),
    *("throughput-latency", "roofline"),
    *("impacts-by-region", "impacts-map"),
)
#: Kinds that show a deployment, in the order of the page.
_SHOWN = sorted(
    (id_ for id_, kind in CHART_KINDS.items() if issubclass(kind.request, DeploymentRequest)),
    key=lambda id_: _FIRST.index(id_) if id_ in _FIRST else len(_FIRST),
)
#: Kinds that show a training run.
_SHOWN_OF_TRAINING = ["memory-breakdown"]
#: Widths that charts are drawn in: on a page of their own, and beside each other or on phones.
_WIDE_PX, _NARROW_PX = 600, 380
#: Places that the ranking on the page shows.
_RANKED = 12


Form = Literal["svg", "png", "vega-lite", "csv"]


class PictureRequest(PageRequest):
    """A chart of a deployment, for pages: links to the API cannot hold a config.json."""

    format: Form = "svg"
    theme: Literal["light", "dark"] = "light"
    width_px: int = Field(_WIDE_PX, ge=240, le=1600)
    titled: bool = True
    """Whether the picture carries its title."""


class TrainingPictureRequest(TrainingPageRequest):
    """A chart of a training run, for pages."""

    format: Form = "svg"
    theme: Literal["light", "dark"] = "light"
    width_px: int = Field(_WIDE_PX, ge=240, le=1600)
    titled: bool = True
    """Whether the picture carries its title."""


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart by its links, which choose theme and width, and in words; ``page`` is its own.

    Pages write the title themselves, where it can be selected, and pictures in them have none:
    finding out how wide its words are is what takes longest about a picture.
    """

    kind: str
    title: str
    description: str
    address: str
    page: str

    def link(self, theme: str, *, narrow: bool = False) -> str:
        """Where the chart is drawn in a theme, relative to the page."""
        width_px = _NARROW_PX if narrow else _WIDE_PX
        return f"{self.address}&theme={theme}&width_px={width_px}&titled=false"

    @property
    def finding(self) -> str:
        """What the chart says, without what it is about."""
        return self.title.partition(": ")[0]


def pictures(
    request: PageRequest, snapshot: CatalogSnapshot, kinds: Iterable[str] = tuple(_SHOWN)
) -> Iterator[Picture]:
    """The charts of a deployment; one that cannot be drawn of it is left out."""
    for id_ in kinds:
        query = request.link()
        address, page = f"pictures/{id_}?{query}", f"charts/{id_}?{query}"
        fields = deployment_fields(id_, request)
        yield from _picture(CHART_KINDS[id_], fields, address, page, snapshot)


def training_pictures(request: TrainingPageRequest, snapshot: CatalogSnapshot) -> Iterator[Picture]:
    """The charts of a training run; one that cannot be drawn is left out."""
    for id_ in _SHOWN_OF_TRAINING:
        query = request.link()
        address, page = f"training/pictures/{id_}?{query}", f"training/charts/{id_}?{query}"
        yield from _picture(CHART_KINDS[id_], training_fields(request), address, page, snapshot)


def deployment_fields(kind: str, request: PageRequest) -> dict[str, Any]:
    """What a kind of chart is asked about a deployment."""
    estimate = request.estimate
    names = ["model", "precision", "accelerator", "accelerator_count", "parallelism", "workload"]
    names += ["region"] if _is_placed(kind) else []
    more: dict[str, Any] = {"shown": _RANKED} if kind == "impacts-by-region" else {}
    if kind == "sensitivity" and estimate.region is None:
        more = {"figure": "it_energy_per_request_wh"}
    return {name: getattr(estimate, name) for name in names} | more


def training_fields(request: TrainingPageRequest) -> dict[str, Any]:
    """What charts are asked about a training run."""
    estimate = request.estimate
    names = ("model", "precision", "accelerator", "accelerator_count", "parallelism", "training")
    return {name: getattr(estimate, name) for name in names} | {"phases": "training"}


def shown_kinds(asked: type[PictureRequest | TrainingPictureRequest]) -> list[str]:
    """Kinds of charts that pages show of a deployment, or of a training run."""
    return _SHOWN_OF_TRAINING if issubclass(asked, TrainingPictureRequest) else _SHOWN


def chart_request(
    kind: str, request: PictureRequest | TrainingPictureRequest
) -> tuple[ChartKind, Request] | None:
    """The chart that a picture is of; None where the page shows none of that kind."""
    if kind not in shown_kinds(type(request)):
        return None
    fields = (
        training_fields(request)
        if isinstance(request, TrainingPictureRequest)
        else deployment_fields(kind, request)
    )
    form = None if request.format == "csv" else request.format
    style = StyleRequest(format=form, theme=request.theme, width_px=request.width_px)
    return CHART_KINDS[kind], CHART_KINDS[kind].request.model_validate({**fields, "style": style})


def chart_page(
    kind: str, request: PictureRequest | TrainingPictureRequest, snapshot: CatalogSnapshot
) -> str:
    """The page of one chart that pages show: to look into, in words, and as a table.

    Raises
    ------
    KeyError
        If pages show none of that kind.
    Rejected
        If it cannot be drawn of what is asked.
    """
    wanted = chart_request(kind, request)
    if wanted is None:
        raise KeyError(kind)
    findings = wanted[0].findings(wanted[1], snapshot)
    trained = isinstance(request, TrainingPictureRequest)
    folder, up = ("training/", "../../") if trained else ("", "../")
    query = request.link(format=None, theme=None, width_px=None, titled=None)
    shown = Picture(
        kind,
        findings["title"],
        findings["description"],
        f"{folder}pictures/{kind}?{query}",
        f"{folder}charts/{kind}?{query}",
    )
    finding, _, subject = findings["title"].partition(": ")
    return rendered(
        "chart.html",
        up=up,
        here="Train a model" if trained else "Serve a model",
        title=finding,
        trail=(),
        finding=finding,
        subject=subject,
        one=shown,
        table=chart_table(kind, findings),
        back=f"{'training' if trained else './'}?{query}",
    )


def chart_rows(
    wanted: tuple[ChartKind, Request], snapshot: CatalogSnapshot
) -> list[dict[str, Any]]:
    """Every figure of a chart, for spreadsheets."""
    findings: Mapping[str, Any] = wanted[0].findings(wanted[1], snapshot)
    axes = [(name, findings[f"{name}_axis"]) for name in ("x", "y")]
    found = []
    for line in findings["series"]:
        for one in line["points"]:
            row: dict[str, Any] = {"series": line["name"], "label": one.get("name", one["label"])}
            for name, axis in axes:
                if axis is not None and one[name] is not None:
                    head = f"{axis['name']} [{axis['unit']}]"
                    row |= {head: one[name]["value"]}
                    row |= {f"{head} {end}": one[name][end] for end in ("low", "high")}
            found.append(row)
    return found


def _picture(
    kind: ChartKind, fields: dict[str, Any], address: str, page: str, snapshot: CatalogSnapshot
) -> Iterator[Picture]:
    try:
        shown = kind.findings(kind.request(**fields), snapshot)
    except Rejected:
        return
    yield Picture(kind.id, shown["title"], shown["description"], address, page)
