"""The verdict on an estimate: a headline, the sentences under it, and the figures that carry it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.formatting import duration, gigabytes, in_gigabytes, money, number
from service.estimation.recommendations.requests import DecisionLimitsRequest
from service.estimation.verdict.figures import (
    Basis,
    KeyFigure,
    cost_per_month,
    days,
    emissions,
    inference_figures,
    known_cost,
    monthly,
    rough,
    times_reading,
    training_figures,
)
from service.estimation.verdict.limits import SPEED_LIMITS, Held, deadline_held, held
from service.estimation.verdict.names import Names, format_name, names_of

Estimate = Mapping[str, Any]
#: How it stands: everything that was asked for holds, just about fits, misses a limit, or does not
#: fit into memory.
Status = Literal["good", "narrow", "missed", "short"]

#: Savings from which on the headline tells them.
_WORTH_TELLING_RATIO = 0.6
#: Monthly costs above this many times the plan's are told: less is the same in two digits.
_DEARER_RATIO = 1.05
#: Shares of a price as people call them.
_SHARES = (
    (0.5, "half"),
    (1 / 3, "a third"),
    (0.25, "a quarter"),
    (0.2, "a fifth"),
    (0.1, "a tenth"),
)
_AS_IF = "Speed, cost and emissions are given as if it did."
_SETS_THE_PACE = {
    "memory_bandwidth": "memory bandwidth",
    "compute": "computing speed",
    "interconnect": "the links between accelerators",
    "overhead": "the engine's own work between steps",
}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an estimate means.

    ``headline`` is the whole answer in a line; ``sentences`` say it in full, the most important
    first; ``limiting`` is what holds it back, and ``brief`` a few words for where there is little
    room. ``limits`` are those that were asked for.
    """

    status: Status
    headline: str
    sentences: tuple[str, ...]
    limiting: str
    brief: str
    figures: tuple[KeyFigure, ...]
    limits: tuple[Held, ...]
    names: Names

    @property
    def text(self) -> str:
        """All of it in words."""
        return " ".join((self.headline, *self.sentences))


def inference_verdict(
    estimate: Estimate,
    snapshot: CatalogSnapshot,
    limits: DecisionLimitsRequest | None = None,
    choices: Sequence[Mapping[str, Any]] = (),
    model: str | None = None,
) -> Verdict:
    """The verdict on a deployment.

    Parameters
    ----------
    estimate
        Answer of ``inference_estimate``.
    snapshot
        Holds names and yardsticks.
    limits
        What was asked for; without any, nothing is called fast enough.
    choices
        Those of a recommendation with this deployment as its ``baseline``, if one was searched for.
    model
        What the model is called, where it has no name of its own.
    """
    names = names_of(estimate["deployment"], snapshot, model)
    limited = held(estimate, limits)
    missed = [one for one in limited if one.kept is False]
    cheaper = cheapest(choices)
    dearer = None if cheaper is None else _times_a_month(cheaper, estimate)
    saves = cheaper if dearer is None else None
    figures = inference_figures(estimate, snapshot)
    memory = estimate["memory"]
    overload = _overload(estimate)
    status = _status(memory, missed, overload)
    sentences = [_fit(memory, names)]
    if status == "short":
        sentences.append(_AS_IF)
    else:
        sentences += [_speed(estimate, limited), _price_and_emissions(estimate, limited)]
    if cheaper is not None:
        sentences.append(_cheaper(cheaper, dearer, snapshot))
    return Verdict(
        status=status,
        headline=_headline(status, memory, limited, missed, saves, overload),
        sentences=tuple(sentence for sentence in sentences if sentence),
        limiting=_pace_setters(estimate),
        brief=_brief(estimate, figures),
        figures=figures,
        limits=limited,
        names=names,
    )


def training_verdict(
    estimate: Estimate,
    snapshot: CatalogSnapshot,
    most_days: float | None = None,
    most_usd: float | None = None,
    model: str | None = None,
) -> Verdict:
    """The verdict on a training run, held against a deadline [days] and a budget [USD]."""
    names = names_of(estimate["deployment"], snapshot, model)
    limited = deadline_held(estimate, most_days, most_usd)
    missed = [one for one in limited if one.kept is False]
    memory, latency = estimate["memory"], estimate["latency"]
    status = _status(memory, missed)
    run = (latency.get("run") or {}).get("days")
    figures = training_figures(estimate, snapshot)
    known = {one.id: one for one in figures}
    if run is None:
        length = f"A step takes {duration(latency['step_s']['value'])}."
    else:
        length = f"The run takes about {days(run['value'])}."
    cost, carbon = known["cost"], known["carbon"]
    placed = estimate["deployment"]["region"] is not None
    paid = _paid(cost.value, carbon.value, "", known_cost(estimate)[0], placed=placed)
    return Verdict(
        status=status,
        headline=_headline(status, memory, limited, missed, None),
        sentences=(_fit(memory, names), *((_AS_IF,) if status == "short" else (length, paid))),
        limiting="",
        brief=f"{'fits' if memory['fits'] else 'does not fit'}"
        + ("" if run is None else f" · {days(run['value'])}"),
        figures=figures,
        limits=limited,
        names=names,
    )


def cheapest(choices: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The choice that costs least, where it is cheaper than the plan that it is held against."""
    for choice in choices:
        against = choice.get("against")
        ratio = None if against is None else against["ratios"]["cost"]
        if "cheapest" in choice["priorities"] and against is not None and ratio is not None:
            return choice if against["plan"] == "baseline" and ratio < 1.0 else None
    return None


def _status(memory: Estimate, missed: Sequence[Held], overload: str | None = None) -> Status:
    if not memory["fits"]:
        return "short"
    if missed or overload:
        return "missed"
    return "good" if memory["fits_certainty"] == "yes" else "narrow"


def _headline(
    status: Status,
    memory: Estimate,
    limited: Sequence[Held],
    missed: Sequence[Held],
    cheaper: Mapping[str, Any] | None,
    overload: str | None = None,
) -> str:
    if status == "short":
        return f"It does not fit: each accelerator is {_gb(memory['shortfall_bytes'])} short."
    narrowly = "" if memory["fits_certainty"] == "yes" else " narrowly"
    if overload:
        return f"It fits{narrowly}, but cannot keep up with {overload}."
    if missed:
        listed = " and ".join(f"your {one.limit_text}" for one in missed)
        return f"It fits{narrowly}, but misses {listed}."
    kept = [one for one in limited if one.kept]
    fast = any(one.name in SPEED_LIMITS for one in kept)
    verdict = f"It fits{narrowly}, and is fast enough." if fast else f"It fits{narrowly}."
    if kept and not fast:
        verdict = f"It fits{narrowly}, and keeps your limits."
    share = None if cheaper is None else _share(cheaper["against"]["ratios"]["cost"])
    return verdict if share is None else f"{verdict} The same work could cost {share}."


def _share(ratio: float) -> str | None:
    """A share of a price as people call it, where it is worth telling."""
    if ratio > _WORTH_TELLING_RATIO:
        return None
    return min(_SHARES, key=lambda one: abs(one[0] - ratio))[1]


def _fit(memory: Estimate, names: Names) -> str:
    one = names.accelerator_count == 1
    hardware = f"one {names.accelerator}" if one else names.hardware
    if not memory["fits"]:
        needed = memory["total_bytes"]
        there = needed["value"] - memory["shortfall_bytes"]["value"]
        each = "It" if one else "Each"
        return (
            f"{names.model} in {names.weights} does not fit on {hardware}: {each.lower()} would "
            f"have to hold {_gb(needed)}, and has {_rough_gb(there)} for it."
        )
    each = "" if one else " each"
    outside = memory["total_bytes"]["value"] - memory["capacity_bytes"]
    if outside > 0.0:
        # An accelerator cannot hold more than its memory.
        spare = f"over {_rough_gb(outside)} of it{each} in other memory"
    else:
        spare = f"{_gb(memory['headroom_bytes'])} to spare{each}"
    doubt = (
        "" if memory["fits_certainty"] == "yes" else ", which is less than this estimate may be off"
    )
    return f"{names.model} in {names.weights} fits on {hardware} with {spare}{doubt}."


def _overload(estimate: Estimate) -> str | None:
    """The rate that is asked for, in words, where more arrives than is answered."""
    load = estimate["latency"].get("load")
    if load is None or not load["saturated"]:
        return None
    return f"{number(estimate['deployment']['workload']['requests_per_s'])} requests a second"


def _speed(estimate: Estimate, limited: Sequence[Held]) -> str:
    latency = estimate["latency"]
    count = estimate["deployment"]["workload"]["concurrency"]
    asked_rate = estimate["deployment"]["workload"].get("requests_per_s")
    many = f"{count:,.0f} requests at once" if count > 1 else "one request at a time"
    if asked_rate is not None:
        many = f"{number(asked_rate)} requests a second"
    if _overload(estimate):
        most = latency["saturation_requests_per_s"]["value"]
        return (
            f"Too slow for {many}: it answers {rough(most)} a second at most, so more and more "
            f"would wait."
        )
    if latency["tpot_s"] is None:
        return f"With {many}, each takes {duration(latency['e2e_s']['value'])}."
    rate = 1.0 / latency["tpot_s"]["value"]
    comes = (
        f"answers start after {duration(latency['ttft_s']['value'])} and come at {rough(rate)} "
        f"tokens a second each"
    )
    speed = [one for one in limited if one.name in SPEED_LIMITS]
    missed = [one for one in speed if one.kept is False]
    if missed:
        told = " and ".join(f"{one.told} {one.value_text}, not {one.limit_text}" for one in missed)
        return f"Too slow for {many}: {told}."
    if speed:
        return f"Fast enough for {many}: {comes}."
    times = times_reading(latency["tpot_s"]["value"])
    read = "faster" if times >= 1.0 else "slower"
    return f"With {many}, {comes}, {read} than people read."


def _price_and_emissions(estimate: Estimate, limited: Sequence[Held]) -> str:
    year = (estimate["impacts"] or {}).get("per_year") or {}
    usd = cost_per_month(estimate)
    carbon = monthly((year.get("carbon") or {}).get("total_gco2e"))
    paid = _paid(
        None if usd is None else usd["value"],
        None if carbon is None else carbon["value"],
        " a month",
        known_cost(estimate)[0],
        placed=estimate["deployment"]["region"] is not None,
    )
    over = [one for one in limited if one.kept is False and one.name not in SPEED_LIMITS]
    told = [
        # What it costs a month has just been said.
        f"{'that is' if one.name == 'usd_per_month' else f'{one.told} {one.value_text},'} "
        f"over your {one.limit_text}"
        for one in over
    ]
    return " ".join([paid, *(f"{text[0].upper()}{text[1:]}." for text in told)])


def _paid(usd: float | None, grams: float | None, per: str, basis: Basis, *, placed: bool) -> str:
    price = None if usd is None else money(usd)
    carbon = None if grams is None else emissions(grams)
    known = " and ".join(one for one in (price, carbon) if one)
    missing = {
        "rented": "",
        "owned": " The price is that of owning it; "
        + ("no rent is known in this place." if placed else "rents depend on the place."),
        "unknown": " No price of this hardware "
        + ("in this place is known." if placed else "is known; rents depend on the place."),
    }[basis]
    return f"About {known}{per}.{missing}" if known else missing.strip()


def _times_a_month(choice: Mapping[str, Any], estimate: Estimate) -> float | None:
    """How many times as much a choice costs in a month, where that is more; it also does more."""
    own, other = cost_per_month(estimate), choice["candidate"]["usd_per_month"]
    if own is None or other is None:
        return None
    ratio = float(other / own["value"])
    return ratio if ratio >= _DEARER_RATIO else None


def _cheaper(
    choice: Mapping[str, Any], times_a_month: float | None, snapshot: CatalogSnapshot
) -> str:
    candidate = choice["candidate"]
    names = names_of(candidate, snapshot)
    saved = 1.0 - choice["against"]["ratios"]["cost"]
    weights = format_name(candidate["precision"]["weights"])
    what = f"{names.hardware} in {weights}, {names.place}: {saved:.0%} less"
    if times_a_month is None:
        return f"Cheaper: {what} for the same work."
    dearer = f"{times_a_month:.2g} times as much a month, as it does more"
    return f"Cheaper per token: {what}, but {dearer}."


def _pace_setters(estimate: Estimate) -> str:
    """What holds the speed back."""
    latency = estimate["latency"]
    prefill, decode = (
        None if latency.get(phase) is None else _SETS_THE_PACE.get(latency[phase]["bottleneck"])
        for phase in ("prefill", "decode")
    )
    if latency["tpot_s"] is None or decode is None:
        return "" if prefill is None else f"{_capital(prefill)} sets the pace."
    if prefill is None or prefill == decode:
        return f"{_capital(decode)} sets the pace."
    return f"{_capital(decode)} sets the pace of the answer, and {prefill} that of the first token."


def _brief(estimate: Estimate, figures: Sequence[KeyFigure]) -> str:
    memory = estimate["memory"]
    if not memory["fits"]:
        return f"does not fit · {gigabytes(memory['shortfall_bytes']['value'])} missing"
    sure = memory["fits_certainty"] == "yes"
    known = {one.id: one for one in figures}
    token, passed = known["next-token"], known["first-token"]
    parts = ["fits" if sure else "fits narrowly"]
    if overload := _overload(estimate):
        parts.append(f"too slow for {overload}")
    else:
        parts.append(passed.text if token.value is None else f"{token.text}/token")
    parts += [f"{known[id_].text}/month" for id_ in ("cost", "carbon") if known[id_].value]
    return " · ".join(parts)


def _gb(figure: Mapping[str, float]) -> str:
    return _rough_gb(figure["value"])


def _rough_gb(size_bytes: float) -> str:
    value, unit = in_gigabytes(size_bytes)
    return f"{rough(value)} {unit}"


def _capital(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"
