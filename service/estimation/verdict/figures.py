"""The few figures that carry a verdict, with range, equivalent, and what each rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, log
from typing import Any, Literal

from service.catalog.snapshot import CatalogSnapshot
from service.core.years import DAYS_PER_YEAR, HOURS_PER_MONTH
from service.estimation.formatting import (
    Scale,
    Words,
    duration,
    gigabytes,
    in_currency,
    money,
    number,
    range_words,
)
from service.estimation.impacts.equivalences import EQUIVALENCES

Estimate = Mapping[str, Any]
Figure = Mapping[str, float]
#: What a cost is of.
Basis = Literal["rented", "owned", "unknown"]

MONTHS_PER_YEAR = 12.0
_GRAMS_PER_T = 1e6
_GRAMS_PER_KG = 1e3
_KG_AND_T = ((_GRAMS_PER_T, _GRAMS_PER_KG, "kg CO₂e"), (inf, _GRAMS_PER_T, "t CO₂e"))
#: Grams of emissions in tonnes, in kilograms where they are small, or in grams.
emissions = Scale(((100.0, 1.0, "g CO₂e"), *_KG_AND_T))
#: In grams up to a kilogram: a plan and what emits a fifth of it are told in one unit.
emissions_of_tokens = Scale(((_GRAMS_PER_KG, 1.0, "g CO₂e"), *_KG_AND_T))
#: Silent reading of English prose [words/s]: Brysbaert, How many words do we read per
#: minute?, 2019, https://doi.org/10.1016/j.jml.2019.104047 (238 words a minute).
READ_WORDS_PER_S = 238.0 / 60.0
#: Words of English prose in a token [-], as OpenAI's help pages state it for its tokenizers.
WORDS_PER_TOKEN = 0.75
#: A range is drawn between a fourth and four times of its value.
_DRAWN_FACTOR = 4.0
#: Days, hours or minutes where it is less than two of them, or years where it is more.
days = Scale(
    (
        (2.0 / 24.0, 1.0 / 1440.0, "minutes"),
        (2.0, 1.0 / 24.0, "hours"),
        (2.0 * DAYS_PER_YEAR, 1.0, "days"),
        (inf, DAYS_PER_YEAR, "years"),
    )
)
#: Kinds of prices as people call them.
_PRICES: Mapping[object, str] = {
    "on-demand": "on-demand price",
    "spot": "spot price",
    "reserved-1y": "price of a one-year reservation",
    "reserved-3y": "price of a three-year reservation",
}
#: Steps of the explanation that a cost comes from.
_PAID_STEPS: Mapping[Basis, tuple[str, ...]] = {
    "rented": ("rented_usd_per_hour",),
    "owned": ("hardware_usd_per_hour", "electricity_usd_per_hour"),
    "unknown": (),
}


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """A figure that carries a verdict.

    ``value``, ``low`` and ``high`` are in the unit of the estimate's own figure, and texts in that
    of people. ``note`` tells what it is like, or on what terms it holds. ``steps`` are the steps of
    the explanation that it comes from, and ``collections`` the parts of the catalog it rests on.
    """

    id: str
    name: str
    value: float | None
    low: float | None
    high: float | None
    text: str
    range_text: str
    note: str
    steps: tuple[str, ...]
    collections: tuple[str, ...]

    @property
    def drawn(self) -> tuple[float, float] | None:
        """Ends of the range on a line from 0 to 100 with the value at 50, by factors."""
        if not self.value or self.low is None or self.high is None or self.low == self.high:
            return None
        return _position(self.low, self.value), _position(self.high, self.value)


#: What a time does where more requests arrive than are answered.
GROWS = "keeps growing"


def inference_figures(estimate: Estimate, snapshot: CatalogSnapshot) -> tuple[KeyFigure, ...]:
    """Time to the first and of each next token, money, emissions, and memory."""
    latency, memory = estimate["latency"], estimate["memory"]
    year = (estimate["impacts"] or {}).get("per_year") or {}
    speed = ("accelerators", "calibrations", "engines")
    overloaded = (latency.get("load") or {}).get("saturated", False)
    return (
        _figure(
            "first-token",
            "First token",
            latency["ttft_s"],
            duration,
            "more and more requests wait" if overloaded else "on average, waiting included",
            ("ttft_s",),
            speed,
            GROWS if overloaded else "not known",
        ),
        _figure(
            "next-token",
            "Each next token",
            latency["tpot_s"],
            duration,
            _pace(latency["tpot_s"]),
            ("tpot_s",),
            speed,
        ),
        _money(estimate),
        _carbon(year, snapshot),
        _memory(memory),
    )


def compared_figures(estimate: Estimate, snapshot: CatalogSnapshot) -> tuple[KeyFigure, ...]:
    """The same with emissions of tokens after those of a month, as choices are told apart.

    What answers faster answers more in a month, and emits more in it.
    """
    of_tokens = ((estimate["impacts"] or {}).get("per_1k_tokens") or {}).get("carbon") or {}
    figures = inference_figures(estimate, snapshot)
    at = next(index for index, one in enumerate(figures) if one.id == "carbon")
    thousand = of_tokens.get("total_gco2e")
    million = thousand and {end: thousand[end] * 1e3 for end in ("value", "low", "high")}
    month = figures[at]
    per_million = _figure(
        "carbon-of-tokens",
        "Emissions per million tokens",
        million,
        emissions_of_tokens,
        "",
        month.steps,
        month.collections,
    )
    return (*figures[: at + 1], per_million, *figures[at + 1 :])


def training_figures(estimate: Estimate, snapshot: CatalogSnapshot) -> tuple[KeyFigure, ...]:
    """Length of the run, tokens a second, money, emissions, and memory."""
    latency, memory = estimate["latency"], estimate["memory"]
    run = (estimate["impacts"] or {}).get("run") or {}
    basis, cost = known_cost(estimate)
    speed = ("accelerators", "calibrations", "engines")
    carbon = (run.get("carbon") or {}).get("total_gco2e")
    return (
        _figure(
            "run",
            "The whole run",
            (latency.get("run") or {}).get("days"),
            days,
            "evaluations, failures and restarts included",
            ("wall_s", "useful_s", "step_s"),
            speed,
        ),
        _figure(
            "tokens",
            "Tokens a second",
            latency["tokens_per_s"],
            number,
            f"{number(latency['mfu_ratio']['value'] * 100.0)}% of peak",
            ("tokens_per_s", "step_s"),
            speed,
        ),
        _figure(
            "cost",
            "Cost of the run",
            cost.get("usd_run"),
            money,
            price_terms(basis, cost),
            _PAID_STEPS[basis],
            ("instances", "offers", "accelerators"),
        ),
        _figure(
            "carbon",
            "Emissions of the run",
            carbon,
            emissions,
            _driving(carbon, snapshot),
            ("total_location_gco2e", "operational_location_gco2e", "embodied_gco2e"),
            ("regions", "platforms", "accelerators"),
        ),
        _memory(memory),
    )


def monthly(figure: Figure | None) -> dict[str, float] | None:
    """A figure of a year as one of an average month."""
    if figure is None:
        return None
    return {end: figure[end] / MONTHS_PER_YEAR for end in ("value", "low", "high")}


def known_cost(estimate: Estimate) -> tuple[Basis, Mapping[str, Any]]:
    """The rent or, where none is known, what owning the hardware costs; and which of them it is."""
    cost = estimate["cost"] or {}
    bases: tuple[Basis, ...] = ("rented", "owned")
    return next(((basis, cost[basis]) for basis in bases if cost.get(basis)), ("unknown", {}))


def cost_per_month(estimate: Estimate) -> dict[str, float] | None:
    """What a deployment costs in an average month [USD], by :func:`known_cost`."""
    hour = known_cost(estimate)[1].get("usd_per_hour")
    if hour is None:
        return None
    return {end: hour[end] * HOURS_PER_MONTH for end in ("value", "low", "high")}


def times_reading(tpot_s: float) -> float:
    """How many times as fast as people read tokens come [-]."""
    return WORDS_PER_TOKEN / tpot_s / READ_WORDS_PER_S


def price_terms(basis: Basis, cost: Mapping[str, Any]) -> str:
    """On what terms a cost holds."""
    if basis == "unknown":
        return "no list price is known"
    if basis == "owned":
        return "owned: hardware and electricity"
    date = cost.get("price_date")
    kind = _PRICES.get(cost.get("price_kind"), "list price")
    return kind + (f" of {date}" if date else "")


def _memory(memory: Mapping[str, Any]) -> KeyFigure:
    return _figure(
        "memory",
        "Memory used, each",
        memory["total_bytes"],
        gigabytes,
        f"of {gigabytes(memory['capacity_bytes'])}",
        ("Total", "Headroom"),
        ("models", "accelerators", "calibrations"),
    )


def _money(estimate: Estimate) -> KeyFigure:
    basis, cost = known_cost(estimate)
    tokens = cost.get("usd_per_million_output_tokens")
    terms = price_terms(basis, cost)
    return _figure(
        "cost",
        "Cost a month",
        cost_per_month(estimate),
        money,
        f"{money(tokens['value'])} per million output tokens; {terms}" if tokens else terms,
        _PAID_STEPS[basis],
        ("instances", "offers", "accelerators"),
    )


def _carbon(year: Mapping[str, Any], snapshot: CatalogSnapshot) -> KeyFigure:
    carbon = monthly((year.get("carbon") or {}).get("total_gco2e"))
    return _figure(
        "carbon",
        "Emissions a month",
        carbon,
        emissions,
        _driving(carbon, snapshot),
        ("total_location_gco2e", "operational_location_gco2e", "embodied_gco2e"),
        ("regions", "platforms", "accelerators"),
    )


def _pace(tpot: Figure | None) -> str:
    if tpot is None:
        return "nothing is generated"
    times = times_reading(tpot["value"])
    if times >= 1.5:
        told = number(round(times, 1) if times < 10 else round(times))
        return f"{told} times as fast as people read"
    return "about as fast as people read" if times >= 0.8 else "slower than people read"


def _driving(carbon: Figure | None, snapshot: CatalogSnapshot) -> str:
    """Emissions as the way that an average car goes with as many."""
    entry = snapshot.calibrations.get(EQUIVALENCES)
    if carbon is None or entry is None:
        return ""
    km = carbon["value"] / float(entry.value["passenger_car_gco2e_per_km"].value)
    return f"as much as a car driving {rough(km)} km"


def rough(value: float) -> str:
    """A number of two digits in words, for sentences."""
    return number(two_digits(value))


def rough_money(usd: float) -> str:
    """An amount of two digits."""
    value, currency = in_currency(usd)
    return f"{rough(value)} {currency}"


def two_digits(value: float) -> float:
    """The nearest number of two digits."""
    return float(f"{value:.2g}")


def _figure(
    id_: str,
    name: str,
    figure: Figure | None,
    words: Words,
    note: str,
    steps: tuple[str, ...],
    collections: tuple[str, ...],
    unknown: str = "not known",
) -> KeyFigure:
    if figure is None:
        return KeyFigure(id_, name, None, None, None, unknown, "", note, steps, collections)
    value, low, high = (float(figure[end]) for end in ("value", "low", "high"))
    return KeyFigure(
        id_,
        name,
        value,
        low,
        high,
        words(value),
        range_words(words, value, low, high),
        note,
        steps,
        collections,
    )


def _position(end: float, value: float) -> float:
    if end <= 0.0:
        return 0.0
    place = 50.0 + 50.0 * log(end / value) / log(_DRAWN_FACTOR)
    return round(min(max(place, 0.0), 100.0), 1)
