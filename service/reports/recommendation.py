"""A recommendation as a document: what was asked, what to choose, why, and how far to trust it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from service.core.planning.workloads import WORKLOAD_KINDS
from service.estimation.decisions.requests import RecommendationRequest
from service.estimation.requests import HubModel
from service.reports.choice import choice_sections, configuration, per_million
from service.reports.document import (
    UNKNOWN,
    Bar,
    Bars,
    Document,
    Section,
    Table,
    Text,
    listed,
    number,
    percent,
)

_MOST_RUNNERS = 12
#: Characters of a request that are printed; a model's configuration may be of any length.
_LONGEST_BODY = 4_000

#: What limits are called where people read them, with their units.
LIMIT_NAMES: Mapping[str, tuple[str, str]] = {
    "ttft_s": ("time to first token", "s"),
    "tpot_s": ("time per output token", "s"),
    "e2e_s": ("time of a whole request", "s"),
    "task_s": ("time of an agent's task", "s"),
    "usd_per_hour": ("price of an hour", "USD"),
    "kgco2e_per_year": ("greenhouse gases of a year", "kg CO₂e"),
    "l_per_year": ("water of a year", "L"),
    "it_power_w": ("power of the IT equipment", "W"),
    "weight_bits_at_least": ("bits of a weight, at least", "bit"),
    "headroom_ratio_at_least": ("memory left free, at least", ""),
    "memory_bytes": ("memory of an accelerator", "B"),
}
_TO_SAY = (
    "Figures are estimates for planning, not measurements and not a quotation. A range in brackets "
    "is a 90 % interval: in nine cases of ten the measured figure lies within it.",
    "Prices are list prices or those given, without discounts, taxes, network, storage or staff. "
    "Whether the hardware can be had, and when, was not looked at.",
    "Greenhouse gases are location-based (the grid's yearly average) with the share of making the "
    "hardware; contracts for electricity change the market-based figure only.",
    "Where nobody has published a figure, it is given as not known, never as zero.",
    "Before buying, measure the choice with your own model and traffic.",
)


def recommendation_document(request: RecommendationRequest, answer: Mapping[str, Any]) -> Document:
    """The document of a recommendation.

    Parameters
    ----------
    request
        What was asked.
    answer
        What ``recommendation_answer`` gives for it.
    """
    kind = WORKLOAD_KINDS[request.workload_kind]
    choices = _merged(answer["choices"])
    models = listed(_models(request))
    several = len(_models(request)) > 1
    sections = [
        Section("Summary", tuple(_summary(answer, choices))),
        Section("What was asked", tuple(_asked(request, answer))),
    ]
    if choices:
        sections.append(Section("Choices", (_choices(choices, several),)))
        for priorities, choice in choices:
            sections += choice_sections(priorities, choice, LIMIT_NAMES)
    sections.append(Section("What excluded the others", tuple(_excluded(answer))))
    if answer["front"]:
        sections.append(Section("Runners-up", tuple(_runners(answer, several))))
    sections += [
        Section(
            "Limits of this report",
            (
                *(Text(text) for text in _TO_SAY),
                *(Text(f"{one['message']}.", "note") for one in answer["warnings"]),
            ),
        ),
        Section("Sources", tuple(_sources(answer))),
        Section("How to repeat it", tuple(_repeat(request, answer))),
    ]
    return Document(
        title=f"Hardware for {models}",
        subtitle=f"{kind.name}: recommendation from catalog revision {answer['catalog_revision']}, "
        f"engine {answer['engine_version']}",
        sections=tuple(sections),
    )


def _models(request: RecommendationRequest) -> list[str]:
    named = request.models if request.models is not None else [request.model]
    return [
        model
        if isinstance(model, str)
        else model.hub
        if isinstance(model, HubModel)
        else "a model of your own"
        for model in named
    ]


def _merged(choices: Iterable[Mapping[str, Any]]) -> list[tuple[list[str], Mapping[str, Any]]]:
    """Choices with the priorities that each is first for: one candidate may serve several."""
    merged: dict[bytes, tuple[list[str], Mapping[str, Any]]] = {}
    for choice in choices:
        key = orjson.dumps(choice["candidate"], option=orjson.OPT_SORT_KEYS)
        merged.setdefault(key, ([], choice))[0].append(choice["priority"])
    return list(merged.values())


def _summary(
    answer: Mapping[str, Any], choices: list[tuple[list[str], Mapping[str, Any]]]
) -> Iterable[Text]:
    searched = answer["searched"]
    scope = (
        f"{searched['configurations']:,} configurations of {searched['accelerators']} "
        f"accelerators were evaluated, and held against {searched['regions']} regions."
    )
    if not choices:
        yield Text("Nothing that was searched meets all limits.", "strong")
        yield Text(f"{scope} What comes closest, and what would have to change, is told below.")
        return
    _, first = choices[0]
    candidate = first["candidate"]
    yield Text(f"{configuration(candidate)}, in {candidate['region']}.", "strong")
    latency = first["estimate"]["latency"]
    yield Text(
        f"It is the best balance of the priorities below, and meets every limit: the first token "
        f"after {number(latency['ttft_s']['value'], 's')}, each further one after "
        f"{number(latency['tpot_s']['value'], 's')}, "
        f"{percent(candidate['headroom_ratio'])} of memory left free. Confidence in these figures "
        f"is {first['confidence']}."
    )
    robust = first["robustness"]
    if robust["clear_winner"]:
        verdict = "so it is a clear winner"
    else:
        verdict = "so others are nearly as good: look at the runners-up before deciding"
    yield Text(
        f"With figures and priorities varied within their uncertainty it stays first in "
        f"{percent(robust['share_ratio'])} of cases, {verdict}."
    )
    yield Text(scope)


def _asked(request: RecommendationRequest, answer: Mapping[str, Any]) -> Iterable[Table | Bars]:
    workload, search = request.workload, request.search
    if workload.requests_per_s is not None:
        load = f"{number(workload.requests_per_s)} requests a second"
    elif workload.concurrency is not None:
        load = f"{number(workload.concurrency)} requests in flight"
    else:
        load = "one replica, as busy as it can be"
    rows = [
        ("Models", listed(_models(request))),
        ("Kind of workload", WORKLOAD_KINDS[request.workload_kind].name),
        ("Prompt and answer", f"{workload.input_tokens:,} and {workload.output_tokens:,} tokens"),
        ("Load", load),
        ("Share of prompts cached", percent(workload.prefix_cached_ratio)),
        ("Calls of a task", number(workload.calls_per_task)),
        ("Engine", request.serving.engine),
        ("Accelerators", _or_all(search.accelerators, "all of the catalog")),
        ("Regions", _or_all(search.regions, "all cloud regions")),
        ("Weights", _or_all(search.precisions, "as shipped, and the usual formats")),
        ("Accelerators at most", number(search.max_accelerators)),
        (
            "Prices of an accelerator-hour",
            "; ".join(
                f"{name}: {number(price, 'USD')}"
                for name, price in request.usd_per_accelerator_hour.items()
            )
            or ("lowest list prices" if request.list_prices else "none"),
        ),
    ]
    yield Table(("Input", "Value"), tuple(rows), caption="Inputs")
    limits = tuple(
        (name, number(answer["limits"][field], unit))
        for field, (name, unit) in LIMIT_NAMES.items()
        if answer["limits"].get(field)
    )
    if limits:
        yield Table(("Limit", "At most, unless said otherwise"), limits, "Hard limits", (1,))
    weights = answer["weights"]
    total = sum(weights.values())
    yield Bars(
        tuple(
            Bar(name, weight / total, percent(weight / total)) for name, weight in weights.items()
        ),
        "Priorities",
    )


def _or_all(given: list[str] | None, otherwise: str) -> str:
    return otherwise if given is None else listed(given)


def _choices(choices: list[tuple[list[str], Mapping[str, Any]]], several: bool) -> Table:
    rows = []
    for priorities, choice in choices:
        candidate, latency = choice["candidate"], choice["estimate"]["latency"]
        carbon = ((choice["estimate"]["impacts"] or {}).get("per_year") or {}).get("carbon") or {}
        total = carbon.get("total_gco2e")
        rows.append(
            (
                ", ".join(priorities),
                configuration(candidate, several),
                candidate["region"],
                number(latency["ttft_s"]["value"]),
                number(latency["tpot_s"]["value"]),
                per_million(candidate),
                UNKNOWN if total is None else number(total["value"] / 1e6),
                choice["confidence"],
            )
        )
    return Table(
        (
            "Best for",
            "Configuration",
            "Region",
            "First token [s]",
            "Per token [s]",
            "USD per million output tokens",
            "t CO₂e a year",
            "Confidence",
        ),
        tuple(rows),
        "The best for each priority",
        (3, 4, 5, 6),
    )


def _excluded(answer: Mapping[str, Any]) -> Iterable[Text | Table | Bars]:
    excluded = sorted(answer["excluded"], key=lambda one: -one["candidates"])
    if excluded:
        most = excluded[0]["candidates"]
        yield Bars(
            tuple(
                Bar(
                    LIMIT_NAMES.get(one["limit"], (one["limit"], ""))[0],
                    one["candidates"] / most,
                    f"{one['candidates']:,}"
                    + (
                        ""
                        if one["nearest_value"] is None
                        else f"; the closest had {number(one['nearest_value'])}, the limit is "
                        f"{number(one['threshold'])}"
                    ),
                )
                for one in excluded
            ),
            "Configurations that a limit excluded",
        )
    else:
        yield Text("No limit excluded anything.")
    if answer["least_violating"]:
        yield Table(
            ("Configuration", "What would have to change"),
            tuple(
                (
                    f"{one['accelerator_count']} × {one['accelerator']}, {one['weights']}, "
                    f"tensor {one['tensor']}, pipeline {one['pipeline']}",
                    "; ".join(_change(change) for change in one["must_change"]),
                )
                for one in answer["least_violating"]
            ),
            "What comes closest",
        )


def _change(change: Mapping[str, Any]) -> str:
    name, unit = LIMIT_NAMES.get(change["limit"], (change["limit"], ""))
    if change.get("must_fall_by") is not None:
        return f"{name} of {number(change['value'], unit)} must fall by " + number(
            change["must_fall_by"], unit
        )
    return f"{name} of {number(change['value'], unit)} must rise by " + number(
        change.get("must_rise_by"), unit
    )


def _runners(answer: Mapping[str, Any], several: bool) -> Iterable[Text | Table]:
    front = answer["front"][:_MOST_RUNNERS]
    yield Table(
        ("Configuration", "Region", "Score", "g CO₂e", "L", "USD per million output tokens"),
        tuple(
            (
                configuration(one, several),
                one["region"],
                percent(one["score_ratio"]),
                number(one["metrics"]["carbon"]),
                number(one["metrics"]["water"]),
                per_million(one),
            )
            for one in front
        ),
        "Candidates that nothing beats, best score first; gases and water per 1,000 output tokens",
        (2, 3, 4, 5),
    )
    if (more := answer["searched"]["unbeaten"] - len(front)) > 0:
        yield Text(f"{more:,} more are beaten by nothing in everything.")


def _sources(answer: Mapping[str, Any]) -> Iterable[Table]:
    used = {source["id"]: source for entry in answer["provenance"] for source in entry["sources"]}
    entries = {
        id_: [
            entry["id"]
            for entry in answer["provenance"]
            if any(source["id"] == id_ for source in entry["sources"])
        ]
        for id_ in used
    }
    yield Table(
        ("Source", "Publisher", "Year", "Used for", "Address"),
        tuple(
            (
                source["title"],
                source["publisher"],
                str(source["year"] or ""),
                listed(entries[id_], 4),
                source["url"] or "",
            )
            for id_, source in sorted(used.items())
        ),
        "Documents that figures of the choices rest on",
    )


def _repeat(request: RecommendationRequest, answer: Mapping[str, Any]) -> Iterable[Text]:
    yield Text(
        f"The same request gives the same figures with catalog revision "
        f"{answer['catalog_revision']} and engine version {answer['engine_version']}: "
        "POST it to /v1/recommendations. As application/json the answer has every figure with its "
        "interval."
    )
    asked = request.model_dump(mode="json", exclude_defaults=True)
    asked["catalog_revision"] = answer["catalog_revision"]
    body = orjson.dumps(asked, option=orjson.OPT_INDENT_2).decode()
    more = len(body) - _LONGEST_BODY
    cut = f"{body[:_LONGEST_BODY]}\n({more:,} more characters)" if more > 0 else body
    yield Text(cut, "code")
