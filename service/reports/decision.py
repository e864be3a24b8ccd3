"""A recommendation as a document: what was asked, what to choose, why, and how far to trust it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from service.catalog.entries.references import UnknownReference
from service.catalog.named_models import model_named
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.formatting import duration
from service.estimation.recommendations.limits import CONDITIONS, Limit, bounds_told
from service.estimation.references import CatalogRequest, HubModel, ModelReference
from service.estimation.resolution import UNNAMED
from service.estimation.verdict.figures import KeyFigure, days
from service.estimation.verdict.verdict import Verdict
from service.estimation.wording import sentence, spoken
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
    renamed,
)
from service.reports.first_pages import first_pages, plans_of

#: What limits are called where people read them, with their units.
Names: TypeAlias = Mapping[str, tuple[str, str]]

_MOST_RUNNERS = 12
#: Characters of a request that are printed; a model's configuration may be of any length.
_LONGEST_BODY = 4_000
#: Changes smaller than this are none.
_ALIKE_RATIO = 0.005
#: What metrics are called where they grow and shrink.
_MEASURED = {"headroom": "memory in use", "latency": "time"}
#: Figures that miss a limit by less read as the limit itself.
_JUST_RATIO = 1e-3
#: What a unit of memory is called in limits and in constraints.
_BYTES = ("B", "bytes")
_SHARE_OF_MEMORY = "share of memory used"
#: Times from which on people count hours and days [s].
_LONG_S, _SECONDS_PER_DAY = 600.0, 86_400.0

_TO_SAY = (
    "Figures are estimates for planning, neither measurements nor a quotation. A range in "
    "brackets is a 90 % interval: in nine cases out of ten, the measured figure lies within it.",
    "Prices are list prices or your own, without discounts, taxes, network, storage or staff. "
    "Availability and delivery times of hardware were not checked.",
    "Greenhouse gases are location-based (the grid's yearly average) and include a share of "
    "manufacturing the hardware. Electricity contracts change only the market-based figure.",
    "Figures that nobody has published are shown as not known, never as zero.",
    "Before buying, measure the choice with your own model and traffic.",
)


#: Units of limits where they are printed otherwise than in answers: labels say what they are of.
_PRINTED = {"-": "", "kgCO2e": "kg CO₂e"}
#: What a share is printed in, by the names of limits on shares.
_SHARE, _OF_SHARES = "%", "_ratio"
#: Units of which there may be one.
_COUNTED = ("accelerators", "sequences", "tokens")
#: Units that people say otherwise, with how.
_SPOKEN: Mapping[str, Callable[[float], str]] = {"s": duration, "d": days}
_MINUTES_PER_DAY = 1440
#: The limit that is set to no rule at all.
_RULES = "compliance"
_VERDICTS = {"pass": "kept", "fail": "missed", "unknown": "not known"}


def limit_names(limits: Iterable[Limit]) -> Names:
    """What limits and other conditions are called, with the units that they are printed in."""
    return {
        limit.name: (limit.label, _PRINTED.get(unit, unit))
        for limit in limits
        for unit in (_unit(limit.name, limit.unit).partition("/")[0],)
    } | {one.name: (one.label, one.unit) for one in CONDITIONS}


def _unit(limit: str, unit: str) -> str:
    """The unit that a limit is printed in."""
    return _SHARE if _OF_SHARES in limit else unit


@dataclass(frozen=True, slots=True)
class Terms:
    """How candidates and limits are told, wherever that is.

    ``limits`` are the names of limits; ``settings`` says in a line how a candidate runs on its
    accelerators, and ``miss_settings`` the same of a near miss.
    """

    limits: Names
    settings: Callable[[Mapping[str, Any]], str]
    miss_settings: Callable[[Mapping[str, Any]], str]

    def configuration(self, candidate: Mapping[str, Any], with_model: bool = True) -> str:
        """A candidate in a line, without its place."""
        model = f" for {candidate['model']}" if with_model else ""
        return f"{hardware(candidate)}{model}: {self.settings(candidate)}"

    def miss(self, one: Mapping[str, Any]) -> str:
        """A near miss in a line."""
        return f"{hardware(one)}: {self.miss_settings(one)}"

    def hard_limits(self, answer: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        """The limits that were set, each with its value."""
        return tuple(
            (name, bound if isinstance(bound, str) else _in_unit(bound, unit))
            for field, bound in bounds_told(answer["limits"]).items()
            if field == _RULES or (bound and bound != "mean" and bound is not True)
            for name, unit in (self._named(field),)
        )

    def exclusions(self, answer: Mapping[str, Any]) -> tuple[tuple[str, int, str], ...]:
        """What excluded candidates, most first: its name, how many, and that in words."""
        return tuple(
            (name, one["candidates"], _excluded_text(one, unit))
            for one in sorted(answer["excluded"], key=lambda one: -one["candidates"])
            for name, unit in (self._named(one["limit"]),)
        )

    def changes(self, one: Mapping[str, Any]) -> str:
        """What would have to change for a near miss to meet the limits."""
        return "; ".join(self._change(change) for change in one["must_change"])

    def _change(self, change: Mapping[str, Any]) -> str:
        name, unit = self._named(change["limit"])
        most = change.get("must_fall_by")
        by, compared = (change.get("must_rise_by"), "more") if most is None else (most, "less")
        needed = _span(by) if unit == "d" and by is not None else _in_unit(by, unit)
        return f"{name} is {_in_unit(change['value'], unit)} and must be {needed} {compared}"

    def _named(self, limit: str) -> tuple[str, str]:
        return self.limits.get(limit, (limit.replace("_", " "), ""))


@dataclass(frozen=True, slots=True)
class Form:
    """What differs between reports by what is to be chosen.

    ``title`` stands before the models, ``path`` is where to ask again. ``verdict`` is that on your
    own plan or on the first choice, ``key_figures`` are those that carry it. ``asked`` are the
    inputs, with their values; ``choices`` and ``runners`` are tables of choices with their
    priorities, and of candidates; ``figures`` is what to expect of a choice.
    """

    title: str
    kind: str
    path: str
    models: Sequence[str]
    terms: Terms
    verdict: Verdict | None
    key_figures: Callable[[Mapping[str, Any], CatalogSnapshot], tuple[KeyFigure, ...]]
    asked: tuple[tuple[str, str], ...]
    choices: Callable[[Sequence[Mapping[str, Any]], bool], Table]
    figures: Callable[[Mapping[str, Any]], Table]
    runners: Callable[[Sequence[Mapping[str, Any]], bool], Table]


def decision_document(
    request: CatalogRequest, answer: Mapping[str, Any], form: Form, snapshot: CatalogSnapshot
) -> Document:
    """The document of a recommendation.

    Parameters
    ----------
    request
        What was asked.
    answer
        The recommendation.
    form
        What is told of it.
    snapshot
        Holds names.
    """
    choices = answer["choices"]
    several = len(form.models) > 1
    asked = Table(("Input", "Value"), form.asked, caption="Inputs")
    plans = plans_of(answer, form.key_figures, snapshot, most=len(choices))
    excluded = form.terms.exclusions(answer)
    sections = [
        *first_pages(answer, form.verdict, plans, excluded, snapshot),
        Section(
            "Appendix: the request",
            (
                Text(scope(answer)),
                asked,
                *_hard_limits(answer, form),
                _priorities(answer),
            ),
            new_page=True,
        ),
    ]
    if choices:
        sections.append(Section("The choices in detail", (form.choices(choices, several),)))
        sections += [_choice(at, choice, form) for at, choice in enumerate(choices, 1)]
    sections.append(Section("What excluded the others", tuple(_excluded(answer, form))))
    if answer["front"]:
        front = answer["front"][:_MOST_RUNNERS]
        more = answer["searched"]["unbeaten"] - len(front)
        rest = (
            (Text(f"{more:,} other options are also reasonable: none beats them on every metric."),)
            if more > 0
            else ()
        )
        sections.append(Section("Runners-up", (form.runners(front, several), *rest)))
    sections += [
        Section(
            "Limits of this report",
            (
                *(Text(text) for text in _TO_SAY),
                *(Text(sentence(one["message"], snapshot), "note") for one in answer["warnings"]),
            ),
        ),
        Section("Sources", tuple(_sources(answer))),
        Section("How to repeat it", tuple(_repeat(request, answer, form.path))),
    ]
    written = Document(
        title=f"{form.title} {listed(form.models)}",
        subtitle=f"{form.kind}: recommendation from catalog revision "
        f"{answer['catalog_revision']}, engine {answer['engine_version']}",
        sections=tuple(sections),
    )
    return renamed(written, lambda text: spoken(text, snapshot))


def _hard_limits(answer: Mapping[str, Any], form: Form) -> Iterable[Table]:
    limits = form.terms.hard_limits(answer)
    if limits:
        yield Table(("Limit", "At most, unless said otherwise"), limits, "Hard limits", (1,))


def _priorities(answer: Mapping[str, Any]) -> Bars:
    weights = answer["weights"]
    total = sum(weights.values())
    return Bars(
        tuple(
            Bar(name, weight / total, percent(weight / total)) for name, weight in weights.items()
        ),
        "Priorities",
    )


def _choice(at: int, choice: Mapping[str, Any], form: Form) -> Section:
    """What there is to say about a choice."""
    candidate = choice["candidate"]
    return Section(
        f"Choice {at}: {', '.join(best_for(choice))}",
        (
            Text(f"In {candidate['region']}: {form.terms.configuration(candidate, True)}."),
            form.figures(choice),
            *_reasons(choice),
            *(_next_best(choice, form) if "balanced" in choice["priorities"] else ()),
            _limits(choice, form.terms.limits),
            *_start(choice),
            *(Text(one["message"], "note") for one in choice["estimate"]["warnings"]),
        ),
        level=3,
    )


def hardware(one: Mapping[str, Any]) -> str:
    """What a candidate or a near miss runs on."""
    return f"{one['accelerator_count']} × {one['accelerator']}"


def scope(answer: Mapping[str, Any]) -> str:
    """How much was searched, in a sentence."""
    searched = answer["searched"]
    return (
        f"{searched['configurations']:,} configurations of {searched['accelerators']} accelerators "
        f"were evaluated in {searched['regions']} regions."
    )


def best_for(choice: Mapping[str, Any]) -> tuple[str, ...]:
    """What a choice is best for, in words."""
    return tuple(one.replace("_", " ") for one in choice["priorities"])


def model_names(models: Sequence[ModelReference], snapshot: CatalogSnapshot) -> list[str]:
    """Models as they are named in print; of several, nameless ones as candidates call them."""
    return [
        _catalog_name(one, snapshot)
        if isinstance(one, str)
        else one.hub
        if isinstance(one, HubModel)
        else "a model of your own" + (f" ({UNNAMED} {at})" if len(models) > 1 else "")
        for at, one in enumerate(models)
    ]


def _catalog_name(model: str, snapshot: CatalogSnapshot) -> str:
    """A model of the catalog by its name, whatever it was asked by."""
    try:
        return model_named(model, snapshot).id
    except UnknownReference:
        return model


def _reasons(choice: Mapping[str, Any]) -> Iterable[Text | Table]:
    against = choice["against"]
    if against is not None:
        plan = "your own plan" if against["plan"] == "baseline" else "the cheapest choice"
        yield Text(f"Against {plan}: {against['in_words']}.")
    yield Table(
        ("What counts", "Weight", "This choice", "Best within the limits", "Worse by"),
        tuple(
            (
                one["metric"],
                percent(one["weight_ratio"]),
                _metric(one["value"], one["unit"]),
                _metric(one["best"], one["unit"]),
                UNKNOWN if one["worse_ratio"] is None else percent(one["worse_ratio"]),
            )
            for one in choice["compared"]
        ),
        "What it is chosen by, and what it gives up",
        (1, 2, 3, 4),
    )
    agreement = choice["agreement"]
    yield Text(
        f"What matters most for this kind of workload: {agreement['focus']}; "
        f"{agreement['because']}."
    )


def _metric(value: float | None, unit: str) -> str:
    """A figure that choices are compared by."""
    if value is None:
        return UNKNOWN
    if unit == _SHARE_OF_MEMORY:
        return f"{percent(value)} of memory used"
    if unit == "s":
        return duration(value) if value < _LONG_S else days(value / _SECONDS_PER_DAY)
    return number(value, unit.replace("CO2e", " CO₂e"))


def _next_best(choice: Mapping[str, Any], form: Form) -> Iterable[Text]:
    loser = choice["nearest_loser"]
    if loser is None:
        return
    other, flip = loser["candidate"], loser["would_win_if"]
    when = ""
    if flip is not None and abs(flip["change_ratio"]) < _ALIKE_RATIO:
        when = " The two score alike."
    elif flip is not None:
        ratio = flip["change_ratio"]
        when = (
            f" It would be first with {percent(abs(ratio))} {'less' if ratio < 0.0 else 'more'} "
            f"{_MEASURED.get(flip['metric'], flip['metric'])}."
        )
    yield Text(f"Next best, in {other['region']}: {form.terms.configuration(other, True)}.{when}")


def _start(choice: Mapping[str, Any]) -> Iterable[Text]:
    start = choice.get("start")
    if start is not None:
        yield Text("How to start it:")
        yield Text(start["command"], "code")
        yield from (Text(f"{note[0].upper()}{note[1:]}.") for note in start["notes"])


def _limits(choice: Mapping[str, Any], names: Names) -> Table:
    rows = tuple(
        (
            names.get(one["name"], (one["name"].replace("_", " "), ""))[0],
            _in_unit(one["value"], _unit(one["name"], one["unit"])),
            _in_unit(one["limit"], _unit(one["name"], one["unit"])),
            _VERDICTS.get(one["verdict"], one["verdict"]),
        )
        for one in (*choice["limits"], *choice["estimate"]["constraints"])
    )
    return Table(("Held", "Estimate", "Limit", "Verdict"), rows, "Limits held", (1, 2))


def _excluded(answer: Mapping[str, Any], form: Form) -> Iterable[Text | Table | Bars]:
    excluded = form.terms.exclusions(answer)
    if excluded:
        most = excluded[0][1]
        yield Bars(
            tuple(Bar(name, count / most, text) for name, count, text in excluded),
            "Configurations that a limit excluded",
        )
    else:
        yield Text("No limit excluded anything.")
    if answer["least_violating"]:
        yield Table(
            ("Configuration", "What would have to change"),
            tuple(
                (form.terms.miss(one), form.terms.changes(one)) for one in answer["least_violating"]
            ),
            "Closest candidates",
        )


def _excluded_text(one: Mapping[str, Any], unit: str) -> str:
    """How many candidates a limit excluded, and how near it the closest came."""
    count = f"{one['candidates']:,}"
    if one["nearest_value"] is None:
        return count
    nearest, threshold = one["nearest_value"], one["threshold"]
    if unit == _SHARE and nearest < 0.0:
        return f"{count}; the closest lacked {percent(-nearest)} of the memory"
    if abs(nearest - threshold) <= _JUST_RATIO * max(abs(nearest), abs(threshold), _JUST_RATIO):
        return f"{count}; the closest just missed {_in_unit(threshold, unit)}"
    closest, limit = (_in_unit(value, unit) for value in (nearest, threshold))
    return f"{count}; the closest had {closest}, the limit is {limit}"


def _span(span_days: float) -> str:
    """A span of time as people say it: in whole minutes, hours with minutes, or days."""
    minutes = max(round(span_days * _MINUTES_PER_DAY), 1)
    if minutes >= 2 * _MINUTES_PER_DAY:
        return days(span_days)
    parts = [(minutes // 60, "hour"), (minutes % 60, "minute")]
    return " ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in parts if count)


def _in_unit(value: float | None, unit: str) -> str:
    """A figure of a limit; bytes as gigabytes."""
    if value is not None and unit in _BYTES:
        return number(value / 1e9, "GB")
    if unit == _SHARE:
        return percent(value)
    if value is not None and unit in _SPOKEN:
        return _SPOKEN[unit](value)
    if value == 1.0 and unit in _COUNTED:
        return f"1 {unit.removesuffix('s')}"
    return number(value, "" if unit == "-" else unit)


def _sources(answer: Mapping[str, Any]) -> Iterable[Table]:
    used = {
        source["id"]: source
        for entry in answer["provenance"]["entries"]
        for source in entry["sources"]
    }
    entries = {
        id_: [
            entry["id"]
            for entry in answer["provenance"]["entries"]
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
        "Sources of the figures",
    )


def _repeat(request: CatalogRequest, answer: Mapping[str, Any], path: str) -> Iterable[Text]:
    yield Text(
        f"The same request gives the same figures with catalog revision "
        f"{answer['catalog_revision']} and engine version {answer['engine_version']}: "
        f"POST it to {path}. As application/json the answer has every figure with its "
        "interval."
    )
    asked = request.model_dump(mode="json", exclude_defaults=True)
    asked["catalog_revision"] = answer["catalog_revision"]
    body = orjson.dumps(asked, option=orjson.OPT_INDENT_2).decode()
    more = len(body) - _LONGEST_BODY
    cut = f"{body[:_LONGEST_BODY]}\n({more:,} more characters)" if more > 0 else body
    yield Text(cut, "code")
