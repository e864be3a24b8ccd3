"""Deployments side by side: what the page about them is asked, and what it shows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field, model_validator

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.inference.estimate import inference_estimate
from service.estimation.references import FormatName, ModelReference, Reference
from service.estimation.rejection import FieldError, Rejected
from service.portal.figures import INFERENCE, Line, figure_at, line, table, verdict
from service.portal.options import KV_CACHE_FORMATS, WEIGHT_FORMATS
from service.portal.questions import LAYOUT, PageRequest, query_of
from service.portal.rendering import form, rendered, sources

#: Columns beside the first; what a field of theirs leaves empty is as in the first.
OTHERS = (2, 3)
#: Fields in which columns may differ.
VARIED = ("model", "accelerator", "accelerator_count", "weights", "region")
#: Figures of which more is better; of all others less is.
_MORE_IS_BETTER = frozenset(
    {
        "memory.headroom_bytes",
        "memory.max_concurrency",
        "latency.output_tokens_per_s",
        "latency.requests_per_s",
    }
)

_ORDINALS = {1: "first", 2: "second", 3: "third"}
#: What an empty comparison holds beside the deployment.
_EXAMPLE = "nvidia-h200-sxm-141gb"

Count = int | None
#: Whether a figure is the best of all: only perhaps so where it shares its range with another.
Mark = Literal["", "best", "perhaps best"]


class ComparePageRequest(PageRequest):
    """Up to three deployments under one load."""

    model_2: ModelReference | None = None
    accelerator_2: Reference | None = None
    accelerator_count_2: Count = Field(None, ge=1, le=100_000)
    weights_2: FormatName | None = None
    region_2: Reference | None = None
    model_3: ModelReference | None = None
    accelerator_3: Reference | None = None
    accelerator_count_3: Count = Field(None, ge=1, le=100_000)
    weights_3: FormatName | None = None
    region_3: Reference | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_an_example(cls, given: Any) -> Any:
        """A comparison with nothing shows what the next generation would change."""
        others = {f"{name}_{number}" for name in VARIED for number in OTHERS}
        if not isinstance(given, Mapping) or others & given.keys():
            return given
        return {**given, "accelerator_2": _EXAMPLE}

    @property
    def columns(self) -> list[tuple[int, PageRequest]]:
        """The deployments, each with the number of its fields."""
        names = set(PageRequest.model_fields)
        first = PageRequest.model_construct(**{name: getattr(self, name) for name in names})
        found = [(1, first)]
        for number in OTHERS:
            changes = {
                name: value
                for name in VARIED
                if (value := getattr(self, f"{name}_{number}")) is not None
            }
            if not changes:
                continue
            if "model" in changes:
                changes |= {"config": None, "hub": _hub(changes["model"])}
            if "accelerator_count" in changes or "accelerator" in changes:
                # The layout of the first fits its own number of accelerators.
                changes |= dict.fromkeys(LAYOUT)
            found.append((number, first.model_copy(update=changes)))
        return found

    def link(self, **changes: Any) -> str:
        """The query of a link to the same comparison."""
        fields = self.stated("theme", "recommend", "model_2", "model_3")
        named = {f"model_{n}": _text(getattr(self, f"model_{n}")) for n in OTHERS}
        return query_of(fields | named | changes)


@dataclass(frozen=True, slots=True)
class Column:
    """A deployment of the comparison: its estimate, or why there is none."""

    number: int
    request: PageRequest
    estimate: Mapping[str, Any] | None
    errors: tuple[FieldError, ...]


@dataclass(frozen=True, slots=True)
class Cell:
    """A figure of a deployment, and whether it is the best of all."""

    value: str
    interval: str
    best: Mark


def compare_page(request: ComparePageRequest, snapshot: CatalogSnapshot) -> str:
    """The page about deployments side by side.

    Raises
    ------
    Rejected
        If none of the deployments can be computed.
    """
    columns = _columns(request, snapshot)
    answered = [column for column in columns if column.estimate is not None]
    if not answered:
        raise Rejected([error for column in columns for error in column.errors])
    estimates = [column.estimate for column in columns]
    return rendered(
        "compare.html",
        **_form(_shown(request, columns), _errors(columns), snapshot),
        request=request,
        estimate=answered[0].estimate,
        columns=[
            {
                "number": column.number,
                "request": column.request,
                "name": f"{column.request.accelerator_count} × {column.request.accelerator}",
                "ordinal": _ORDINALS[column.number].capitalize(),
                "estimate": column.estimate,
                "verdict": verdict(column.estimate["memory"]) if column.estimate else None,
                "errors": column.errors,
            }
            for column in columns
        ],
        finding=_finding(columns),
        sections=[
            (title, [(name, _cells(estimates, path, words)) for name, path, words in lines])
            for title, lines in INFERENCE
        ],
        sources=sources({"provenance": [e for one in estimates if one for e in one["provenance"]]}),
    )


def refused_compare_page(
    given: Mapping[str, str], errors: Iterable[FieldError], snapshot: CatalogSnapshot
) -> str:
    """The page with what was given, and what is wrong with it."""
    fields = ComparePageRequest().model_dump() | dict(given)
    shown = _form(fields, errors, snapshot)
    return rendered("compare.html", **shown, request=None, estimate=None)


def compare_table(request: ComparePageRequest, snapshot: CatalogSnapshot) -> list[dict[str, Any]]:
    """Every figure of every deployment, as rows.

    Raises
    ------
    Rejected
        If none of the deployments can be computed.
    """
    columns = _columns(request, snapshot)
    if all(column.estimate is None for column in columns):
        raise Rejected([error for column in columns for error in column.errors])
    return [
        {"deployment": column.number, **row}
        for column in columns
        if column.estimate is not None
        for row in table(column.estimate)
    ]


def _columns(request: ComparePageRequest, snapshot: CatalogSnapshot) -> list[Column]:
    found = []
    for number, one in request.columns:
        try:
            estimate = inference_estimate(one.estimate, snapshot, advise=False)
            found.append(Column(number, one.with_ids(estimate["deployment"]), estimate, ()))
        except Rejected as rejected:
            found.append(Column(number, one, None, tuple(rejected.errors)))
    return found


def _finding(columns: Iterable[Column]) -> str:
    """Which of the deployments fit, in a sentence."""
    answered = [column for column in columns if column.estimate is not None]
    fit = [
        _ORDINALS[column.number]
        for column in answered
        if column.estimate is not None and column.estimate["memory"]["fits"]
    ]
    if not fit:
        return "None fits"
    if len(fit) == len(answered):
        return {1: "It fits", 2: "Both fit"}.get(len(fit), "All fit")
    return f"Only the {' and the '.join(fit)} {'fits' if len(fit) == 1 else 'fit'}"


def _cells(estimates: Sequence[Mapping[str, Any] | None], path: str, words: Any) -> list[Cell]:
    """A figure of all deployments; the best is marked where there is one, and how surely."""
    figures = [None if one is None else figure_at(one, path) for one in estimates]
    known = [figure for figure in figures if figure is not None]
    sign = -1.0 if path in _MORE_IS_BETTER else 1.0
    ranked = sorted(known, key=lambda figure: sign * float(figure["value"]))
    best = None
    if len(ranked) > 1 and words(ranked[0]["value"]) != words(ranked[1]["value"]):
        best = ranked[0]
    cells = []
    for one, figure in zip(estimates, figures, strict=True):
        shown = Line("", "") if one is None else line("", figure, words)
        mark: Mark = ""
        if figure is not None and figure is best:
            mark = "best" if all(_apart(best, other) for other in ranked[1:]) else "perhaps best"
        cells.append(Cell(shown.value, shown.interval, mark))
    return cells


def _apart(first: Mapping[str, float], second: Mapping[str, float]) -> bool:
    return first["high"] < second["low"] or second["high"] < first["low"]


def _errors(columns: Iterable[Column]) -> list[FieldError]:
    """What is wrong with columns, at the fields that say so."""
    found = []
    for column in columns:
        for error in column.errors:
            name = error.pointer.strip("/").partition("/")[0]
            suffix = f"_{column.number}" if column.number > 1 and name in VARIED else ""
            found.append(FieldError(f"/{name}{suffix}", error.detail))
    return found


def _shown(request: ComparePageRequest, columns: Iterable[Column]) -> dict[str, Any]:
    """The fields of the form, with catalog ids in place of aliases, as it offers them."""
    named = {f"model_{n}": _text(getattr(request, f"model_{n}")) for n in OTHERS}
    fields = request.form_fields() | named
    for column in columns:
        suffix = "" if column.number == 1 else f"_{column.number}"
        for name in ("model", "accelerator", "region"):
            stated = fields[f"{name}{suffix}"]
            value = getattr(column.request, name)
            if stated is not None and isinstance(value, str):
                fields[f"{name}{suffix}"] = value
    return fields


def _hub(model: Any) -> str | None:
    return getattr(model, "hub", None)


def _text(model: Any) -> str | None:
    hub = _hub(model)
    return model if hub is None else f"hf:{hub}"


def _form(
    fields: Mapping[str, Any], errors: Iterable[FieldError], snapshot: CatalogSnapshot
) -> dict[str, Any]:
    return form(fields, errors, snapshot) | {
        "weight_formats": WEIGHT_FORMATS,
        "kv_cache_formats": KV_CACHE_FORMATS,
        "others": OTHERS,
    }
