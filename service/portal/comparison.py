"""Deployments side by side: what the page about them is asked, and what it shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from pydantic import Field, model_validator

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.detail import WHOLE
from service.estimation.formatting import duration, money
from service.estimation.inference.estimate import inference_estimate
from service.estimation.recommendations.against import in_words
from service.estimation.references import FormatName, ModelReference, Reference
from service.estimation.rejection import FieldError, Rejected
from service.estimation.verdict.names import accelerator_name, names_of
from service.portal.bars import Bar, bars
from service.portal.figures import (
    INFERENCE,
    Line,
    figure_at,
    grams,
    line,
    section_title,
    table,
    verdict,
)
from service.portal.options import KV_CACHE_FORMATS, WEIGHT_FORMATS
from service.portal.questions import (
    DEFAULTS,
    EXAMPLE,
    LAYOUT,
    PageRequest,
    one_accelerator,
    query_of,
)
from service.portal.rendering import form, rendered, sources
from service.portal.views import own_name

#: Columns beside the first; what a field of theirs leaves empty is as in the first.
OTHERS = (2, 3, 4)
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

#: What the bars compare, and what the better of two and the best of several does.
_CHARTS = (
    ("First token", "latency.ttft_s", duration, ("answers sooner", "answers soonest")),
    ("Each next token", "latency.tpot_s", duration, ("writes faster", "writes fastest")),
    (
        "Per million output tokens",
        "cost.rented.usd_per_million_output_tokens",
        money,
        ("costs less per token", "costs least per token"),
    ),
    (
        "Emissions per request",
        "impacts.per_request.carbon.total_gco2e",
        grams,
        ("emits less per request", "emits least per request"),
    ),
)
#: What the form has no field for, and keeps.
_HELD = tuple(
    name
    for name in PageRequest.model_fields
    if name
    not in (
        *(*VARIED, "hub", "config", "kv_cache", "recommend"),
        *("input_tokens", "output_tokens", "concurrency"),
    )
)
_ORDINALS = {1: "first", 2: "second", 3: "third", 4: "fourth"}
#: What an empty comparison holds beside the deployment.
_EXAMPLE = "nvidia-h200-sxm-141gb"

#: Differences smaller than this are none, and ratios from which on people count times.
_ALIKE_RATIO, _TIMES = 0.02, 2.0

Count = int | None
#: Whether a figure is the best of all: only perhaps so where it shares its range with another.
Mark = Literal["", "best", "perhaps best"]


class ComparePageRequest(PageRequest):
    """Up to four deployments under one load."""

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
    model_4: ModelReference | None = None
    accelerator_4: Reference | None = None
    accelerator_count_4: Count = Field(None, ge=1, le=100_000)
    weights_4: FormatName | None = None
    region_4: Reference | None = None

    @model_validator(mode="before")
    @classmethod
    def _with_an_example(cls, given: Any) -> Any:
        """A comparison with nothing shows what the next generation would change."""
        others = {f"{name}_{number}" for name in VARIED for number in OTHERS}
        if not isinstance(given, Mapping):
            return given
        asked = one_accelerator(given)
        if others & given.keys():
            return asked
        return {**(asked or EXAMPLE), "accelerator_2": _EXAMPLE}

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
            if "accelerator" in changes:
                changes["power_limit_w"] = None
            found.append((number, first.model_copy(update=changes)))
        return found

    def link(self, **changes: Any) -> str:
        """The query of a link to the same comparison."""
        fields = self.stated("theme", "recommend", *(f"model_{n}" for n in OTHERS))
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
    """A figure of a deployment, whether it is the best of all, and how it stands to the first."""

    value: str
    interval: str
    best: Mark
    against: str = ""


def compare_page(
    request: ComparePageRequest, snapshot: CatalogSnapshot, *, answer_only: bool = False
) -> str:
    """The page about deployments side by side, or only its answer.

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
    known = [one for one in estimates if one is not None]
    return rendered(
        "compare.html",
        **_form(_shown(request, columns), _errors(columns), snapshot),
        answer_only=answer_only,
        request=request,
        estimate=answered[0].estimate,
        load=_load(request),
        columns=[
            {
                "number": column.number,
                "request": column.request,
                "names": names_of(column.estimate["deployment"], snapshot, own_name(column.request))
                if column.estimate
                else None,
                "name": _column_name(column, snapshot),
                "ordinal": _ORDINALS[column.number].capitalize(),
                "estimate": column.estimate,
                "verdict": verdict(column.estimate["memory"]) if column.estimate else None,
                "errors": column.errors,
            }
            for column in columns
        ],
        finding=_finding(columns),
        strengths=list(_strengths(columns, snapshot)),
        remarks=_remarks(columns, snapshot),
        sections=[
            (
                section_title(title, known),
                [(name, _cells(estimates, path, words)) for name, path, words in lines],
            )
            for title, lines in INFERENCE
        ],
        charts=list(_charts(columns, snapshot)),
        sources=sources(*(one for one in estimates if one)),
    )


def refused_compare_page(
    given: Mapping[str, str],
    errors: Iterable[FieldError],
    snapshot: CatalogSnapshot,
    *,
    answer_only: bool = False,
) -> str:
    """The page with what was given, and what is wrong with it."""
    defaults = ComparePageRequest().model_dump()
    fields = defaults | {name: given[name] for name in defaults if name in given}
    shown = _form(fields, errors, snapshot)
    return rendered("compare.html", **shown, answer_only=answer_only, request=None, estimate=None)


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
            estimate = inference_estimate(one.estimate, snapshot, WHOLE.without("remedies"))
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


def _strengths(columns: Sequence[Column], snapshot: CatalogSnapshot) -> Iterator[str]:
    """What each deployment that fits is best at, surely or perhaps, in a sentence."""
    fit = [(one, one.estimate) for one in columns if one.estimate]
    fit = [(one, estimate) for one, estimate in fit if estimate["memory"]["fits"]]
    rows = [
        (_cells([estimate for _, estimate in fit], path, words), does[len(fit) > 2])
        for _, path, words, does in _CHARTS
    ]
    for place, (column, _) in enumerate(fit):
        told = [
            f"{sure}{_listed(found)}"
            for sure, mark in (("", "best"), ("perhaps ", "perhaps best"))
            if (found := [does for cells, does in rows if cells[place].best == mark])
        ]
        if told:
            name = f"The {_ORDINALS[column.number]}, {_column_name(column, snapshot)},"
            yield f"{name} {', and '.join(told)}."


def _listed(texts: Sequence[str]) -> str:
    *others, last = texts
    return f"{', '.join(others)} and {last}" if others else last


def _charts(
    columns: Sequence[Column], snapshot: CatalogSnapshot
) -> Iterator[tuple[str, tuple[Bar, ...]]]:
    """The figures that carry a verdict, as bars of the deployments that have them."""
    for title, path, words, _ in _CHARTS:
        known = [
            (f"{_ORDINALS[one.number].capitalize()}: {_column_name(one, snapshot)}", figure)
            for one in columns
            if one.estimate is not None and (figure := figure_at(one.estimate, path)) is not None
        ]
        if len(known) > 1:
            ends = ("value", "low", "high")
            yield title, bars(((name, *(fig[end] for end in ends)) for name, fig in known), words)


def _remarks(columns: Sequence[Column], snapshot: CatalogSnapshot) -> list[tuple[str, list[str]]]:
    """What to know about all of the deployments, and then about each."""
    said = {
        f"{_ORDINALS[one.number].capitalize()}: {_column_name(one, snapshot)}": [
            warning["message"] for warning in one.estimate["warnings"]
        ]
        for one in columns
        if one.estimate is not None
    }
    first = next(iter(said.values()), [])
    shared = [text for text in first if len(said) > 1 and all(text in o for o in said.values())]
    own = [(name, [text for text in texts if text not in shared]) for name, texts in said.items()]
    return [(name, texts) for name, texts in [("All of them", shared), *own] if texts]


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
        cells.append(Cell(shown.value, shown.interval, mark, _against(path, figure, figures[0])))
    return cells


def _against(path: str, figure: Mapping[str, float] | None, first: Any) -> str:
    """A figure as a ratio to that of the first deployment; nothing where they are alike."""
    if figure is None or first is None or figure is first or not first["value"]:
        return ""
    ratio = figure["value"] / first["value"]
    if ratio <= 0.0 or abs(ratio - 1.0) < _ALIKE_RATIO:
        return ""
    part, _, name = path.partition(".")
    if part == "cost":
        return in_words({"cost": ratio})
    if part == "latency" and name.endswith("_s") and path not in _MORE_IS_BETTER:
        return in_words({"latency": ratio})
    return (
        f"{ratio:.2g} × as much"
        if ratio >= _TIMES
        else f"{(ratio - 1.0) * 100.0:+.0f}%".replace("-", "−")
    )


def _apart(first: Mapping[str, float], second: Mapping[str, float]) -> bool:
    return first["high"] < second["low"] or second["high"] < first["low"]


def _column_name(column: Column, snapshot: CatalogSnapshot) -> str:
    accelerator = accelerator_name(column.request.accelerator, snapshot)
    return f"{column.request.accelerator_count:,} × {accelerator}"


def _load(request: PageRequest) -> str:
    if request.requests_per_s is not None:
        return f"{request.requests_per_s:,.3g} requests a second"
    if request.concurrency == "max":
        return "as many requests at once as fit"
    return (
        "one request at a time"
        if request.concurrency == 1
        else f"{request.concurrency:,} requests at once"
    )


def _errors(columns: Iterable[Column]) -> list[FieldError]:
    """What is wrong with columns, at the fields that say so."""
    found = []
    for column in columns:
        for error in column.errors:
            name = error.pointer.strip("/").partition("/")[0]
            suffix = f"_{column.number}" if column.number > 1 and name in VARIED else ""
            found.append(replace(error, pointer=f"/{name}{suffix}"))
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
        "held": [(n, fields[n]) for n in _HELD if fields[n] not in (None, "", DEFAULTS[n])],
        "ordinals": _ORDINALS,
    }
