"""A recommendation: the choices, why, and what excluded the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from service.cli.views.parts import columns_table, footer, heading, indented, plain_table, warnings

_Figures = Sequence[tuple[str, tuple[str, ...], str]]

_FIGURES: _Figures = (
    ("memory", ("memory", "total_bytes"), "_bytes"),
    ("TTFT", ("latency", "ttft_s"), "_s"),
    ("TPOT", ("latency", "tpot_s"), "_s"),
    ("CO2e/1k", ("impacts", "per_1k_tokens", "carbon", "total_gco2e"), "_gco2e"),
    ("water/1k", ("impacts", "per_1k_tokens", "water", "total_l"), "_l"),
)
_RUN_FIGURES: _Figures = (
    ("memory", ("memory", "total_bytes"), "_bytes"),
    ("step", ("latency", "step_s"), "_s"),
    ("days", ("latency", "run", "days"), ""),
    ("CO2e", ("impacts", "run", "carbon", "total_gco2e"), "_gco2e"),
    ("water", ("impacts", "run", "water", "total_l"), "_l"),
)


def choice_rows(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """A row a choice, with its estimate."""
    return [
        _row(
            choice,
            _FIGURES,
            {name: choice["candidate"]["precision"][name] for name in ("weights", "kv_cache")}
            | {
                "concurrency_per_replica": choice["candidate"]["concurrency_per_replica"],
                "usd_per_million_output_tokens": choice["candidate"]["metrics"]["cost"],
            },
        )
        for choice in answer["choices"]
    ]


def run_rows(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The same of runs."""
    return [
        _row(
            choice,
            _RUN_FIGURES,
            {"weights": choice["candidate"]["precision"]["weights"]}
            | choice["candidate"]["training"]
            | {"usd": choice["candidate"]["metrics"]["cost"]},
        )
        for choice in answer["choices"]
    ]


def _row(choice: Mapping[str, Any], figures: _Figures, own: Mapping[str, Any]) -> dict[str, Any]:
    candidate = choice["candidate"]
    row = {
        "priorities": " ".join(choice["priorities"]),
        **{
            name: candidate[name]
            for name in ("model", "accelerator", "accelerator_count", "region")
        },
        **own,
        **{name: candidate["parallelism"][name] for name in ("tensor", "pipeline", "data")},
        "usd_per_hour": candidate["usd_per_hour"],
        "usd_per_month": candidate["usd_per_month"],
        "score_ratio": candidate["score_ratio"],
    }
    for _, path, _ in figures:
        figure = _found(choice["estimate"], path)
        base = "_per_1k_tokens" if "per_1k_tokens" in path else ""
        for end in ("value", "low", "high"):
            name = f"{path[-1]}{base}" + ("" if end == "value" else f"_{end}")
            row[name] = None if figure is None else figure[end]
    return row


def view(answer: Mapping[str, Any]) -> Sequence[Any]:
    """The choices, their reasons, and the limits that excluded most."""
    return _view(answer, _FIGURES)


def run_view(answer: Mapping[str, Any]) -> Sequence[Any]:
    """The same of runs."""
    return _view(answer, _RUN_FIGURES)


def _view(answer: Mapping[str, Any], figures: _Figures) -> Sequence[Any]:
    searched = answer["searched"]
    parts: list[Any] = [
        Text(
            f"{answer['workload_kind']}: {searched['candidates']:,} candidates of "
            f"{searched['accelerators']} accelerators in {searched['regions']} regions",
            style="bold",
        )
    ]
    parts += _choices(answer["choices"], figures) if answer["choices"] else _none_left(answer)
    if answer["excluded"]:
        table = plain_table("limit", "threshold", "excluded", right=("threshold", "excluded"))
        for limit in answer["excluded"]:
            table.add_row(limit["label"], _threshold(limit), f"{limit['candidates']:,}")
        parts += [heading("What the limits excluded"), indented(table)]
    parts += _told("What was not searched", answer["not_searched"])
    parts += _told("Limits that nobody set", answer["implied"])
    return [*parts, *warnings(answer), footer(answer)]


def _told(head: str, reasons: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Reasons in sentences under a heading; nothing where there are none."""
    if not reasons:
        return []
    return [heading(head), *(indented(Text(f"{one['in_words']}.")) for one in reasons)]


def _threshold(limit: Mapping[str, Any]) -> str:
    """The limit's value with its unit; nothing of conditions that have none."""
    if limit["threshold"] is None:
        return ""
    return f"{limit['threshold']:g} {limit['unit'].removeprefix('-')}".rstrip()


def _choices(choices: Sequence[Mapping[str, Any]], figures: _Figures) -> list[Any]:
    values = [
        (head, unit, [_value(_found(choice["estimate"], path)) for choice in choices])
        for head, path, unit in figures
    ]
    texts = [
        ("best for", [_best_for(choice) for choice in choices]),
        ("choice", [_named(choice["candidate"]) for choice in choices]),
        ("against", [(choice["against"] or {}).get("in_words", "") for choice in choices]),
    ]
    parts = [heading("Choices"), indented(columns_table(texts, values))]
    first = choices[0]
    weighed = ", ".join(
        f"{part['metric']} {_beyond(part['worse_ratio'])}"
        for part in first["compared"]
        if part["weight_ratio"] and part["worse_ratio"] is not None
    )
    plan = "your plan" if (first["against"] or {}).get("plan") == "baseline" else "the cheapest"
    steady = first["robustness"]["in_words"]
    parts.append(
        indented(
            Text(
                f"{_best_for(first)}, against the best of all in each: {weighed}. Ratios are to "
                f"{plan}. How sure: {steady}.",
                style="dim",
            )
        )
    )
    start = first.get("start")
    if start is not None:
        parts += [heading("Start it"), indented(Text(start["command"]))]
        parts += [indented(Text(note, style="dim")) for note in start["notes"]]
    return parts


def _beyond(worse_ratio: float) -> str:
    """By how much a figure is above another: in percent, or how many times as much it is."""
    return f"{worse_ratio:+.0%}" if worse_ratio < 1.0 else f"{worse_ratio + 1.0:.2g} ×"


def _best_for(choice: Mapping[str, Any]) -> str:
    return ", ".join(one.replace("_", " ") for one in choice["priorities"])


def _none_left(answer: Mapping[str, Any]) -> list[Any]:
    parts: list[Any] = [Text("No candidate meets all limits.", style="bold red")]
    if answer["least_violating"]:
        parts.append(heading("Closest candidates"))
    parts += [
        indented(Text(f"{near['in_words']}."))
        for near in answer["least_violating"]
        if near["in_words"]
    ]
    return parts


def _named(candidate: Mapping[str, Any]) -> str:
    return (
        f"{candidate['accelerator_count']} × {candidate['accelerator']} "
        f"{candidate['precision']['weights']}{_engine(candidate)}, {candidate['region']}"
    )


def _engine(candidate: Mapping[str, Any]) -> str:
    """The engine of a deployment; runs of training have none."""
    return f", {candidate['engine']}" if "engine" in candidate else ""


def _value(figure: Mapping[str, float] | None) -> float | None:
    return None if figure is None else figure["value"]


def _found(estimate: Mapping[str, Any], path: Sequence[str]) -> Mapping[str, float] | None:
    found: Any = estimate
    for name in path:
        found = None if found is None else found.get(name)
    return dict(found) if found is not None else None
