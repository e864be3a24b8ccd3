"""Pages that plan: a fleet over years, a day of traffic, and what a site holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from service.catalog.snapshot import CatalogSnapshot
from service.core.number_formats import NUMBER_FORMATS
from service.estimation.formatting import duration, money, number
from service.estimation.plans.answers import SiteLimit
from service.estimation.plans.fleet import fleet_plan_answer
from service.estimation.plans.site import site_plan_answer
from service.estimation.plans.tables import fleet_rows, site_rows, traffic_rows
from service.estimation.plans.traffic import traffic_plan_answer
from service.estimation.rejection import FieldError
from service.estimation.verdict.figures import emissions, rough, rough_money
from service.estimation.verdict.names import (
    accelerator_name,
    format_name,
    model_name,
)
from service.estimation.wording import in_a_sentence, place_name, spoken
from service.portal.bars import Bar, bars
from service.portal.options import WEIGHT_FORMATS
from service.portal.plan_questions import (
    FleetPageRequest,
    PlanQuestion,
    SitePageRequest,
    TrafficPageRequest,
)
from service.portal.questions import query_of
from service.portal.rendering import form, rendered

Answer = Mapping[str, Any]
Words = Callable[[float], str]

_KG_IN_G = 1e3
LIMITED_BY: Mapping[SiteLimit, str] = {
    "site_power": "the power of the site",
    "racks": "the number of racks",
    "rack_power": "the power of a rack",
    "rack_air_cooling": "what the room's air takes from a rack",
    "water": "the water of a day",
}
_TITLES = {"fleet": "Plan a fleet", "traffic": "Plan a day", "site": "Fill a site"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a plan's table: its head, and what it says of a row."""

    head: str
    words: Callable[[Answer], str]


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan as a page shows it."""

    headline: str
    status: str
    sentences: tuple[str, ...]
    chart: str
    bars: tuple[Bar, ...]
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    remarks: tuple[str, ...]


def fleet_page(
    request: FleetPageRequest, snapshot: CatalogSnapshot, *, answer_only: bool = False
) -> str:
    """A fleet over years."""
    answer = fleet_plan_answer(request.plan, snapshot)
    return _page("fleet", request, answer, _fleet(answer, request, snapshot), snapshot, answer_only)


def traffic_page(
    request: TrafficPageRequest, snapshot: CatalogSnapshot, *, answer_only: bool = False
) -> str:
    """A day of traffic."""
    answer = traffic_plan_answer(request.plan, snapshot)
    shown = _traffic(answer, request, snapshot)
    return _page("traffic", request, answer, shown, snapshot, answer_only)


def site_page(
    request: SitePageRequest, snapshot: CatalogSnapshot, *, answer_only: bool = False
) -> str:
    """What a site holds."""
    answer = site_plan_answer(request.plan, snapshot)
    return _page("site", request, answer, _site(answer, request, snapshot), snapshot, answer_only)


def refused_plan_page(
    kind: str,
    model: type[PlanQuestion],
    given: Mapping[str, str],
    errors: Iterable[FieldError],
    snapshot: CatalogSnapshot,
    *,
    answer_only: bool = False,
) -> str:
    """The page with what was given, and what is wrong with it."""
    defaults = {name: field.default for name, field in model.model_fields.items()}
    fields = {**defaults, **{name: given[name] for name in defaults if name in given}}
    shown = form(fields, errors, snapshot) | {"weight_formats": WEIGHT_FORMATS}
    return rendered(
        "plan.html", **shown, kind=kind, titles=_TITLES, answer_only=answer_only, estimate=None
    )


def fleet_table(request: FleetPageRequest, snapshot: CatalogSnapshot) -> list[dict[str, Any]]:
    """The years of a fleet as rows."""
    return fleet_rows(fleet_plan_answer(request.plan, snapshot))


def traffic_table(request: TrafficPageRequest, snapshot: CatalogSnapshot) -> list[dict[str, Any]]:
    """The parts of a day as rows."""
    return traffic_rows(traffic_plan_answer(request.plan, snapshot))


def site_table(request: SitePageRequest, snapshot: CatalogSnapshot) -> list[dict[str, Any]]:
    """What could fill a site as rows."""
    return site_rows(site_plan_answer(request.plan, snapshot))


def _page(
    kind: str,
    request: Any,
    answer: Any,
    plan: Plan,
    snapshot: CatalogSnapshot,
    answer_only: bool,
) -> str:
    found = request.named(snapshot)
    asked = request.plan.model_dump(mode="json", exclude_defaults=True)
    return rendered(
        "plan.html",
        **form(found.form_fields(), (), snapshot),
        weight_formats=WEIGHT_FORMATS,
        kind=kind,
        titles=_TITLES,
        answer_only=answer_only,
        request=found,
        estimate=answer,
        plan=plan,
        unit_link=_unit_link(found),
        body=orjson.dumps(asked, option=orjson.OPT_INDENT_2).decode(),
    )


def _unit_link(request: PlanQuestion) -> str:
    """The page about one copy."""
    names = ("model", "hub", "config", "accelerator", "accelerator_count", "region", "weights")
    stated = request.stated()
    weights = stated.get("weights")
    if weights is not None and weights not in NUMBER_FORMATS:
        stated.pop("weights")
    lengths = ("input_tokens", "output_tokens")
    return query_of({name: stated[name] for name in (*names, *lengths) if name in stated})


def _copy(request: PlanQuestion, snapshot: CatalogSnapshot) -> str:
    """One copy in words."""
    named = request.named(snapshot)
    hardware = accelerator_name(named.accelerator, snapshot)
    weights = "" if request.weights is None else f" in {format_name(request.weights)}"
    return (
        f"{model_name(named.model_name)}{weights} on copies of {request.accelerator_count:,} × "
        f"{hardware}, {place_name(named.region, snapshot)}"
    )


def _fleet(answer: Any, request: FleetPageRequest, snapshot: CatalogSnapshot) -> Plan:
    years, load, totals = answer["years"], answer["loads"][0], answer["totals"]
    first, last = load["years"][0], load["years"][-1]
    capacity = load["capacity_requests_per_s"]["value"]
    counts = [(f"year {one['year']}", one["copies"]) for one in load["years"]]
    each = load["accelerators_per_copy"]
    grows = (
        f"{years[0]['accelerators']:,} accelerators all the time."
        if years[0]["accelerators"] == years[-1]["accelerators"]
        else f"{years[0]['accelerators']:,} accelerators in the first year, "
        f"{years[-1]['accelerators']:,} in year {len(years)}."
    )
    rent, carbon = totals.get("rented_usd"), _carbon(totals)
    rental, machines = load.get("rental"), [one.get("instances") or 0 for one in load["years"]]
    spent = [
        *([f"{rough_money(rent['value'])} of rent"] if rent else []),
        *([f"{emissions(float(f'{carbon:.2g}'))}"] if carbon is not None else []),
    ]
    return Plan(
        headline=grows,
        status="good",
        sentences=(
            f"{_copy(request, snapshot)}.",
            f"A copy carries {number(capacity)} requests a second"
            f"{' within your limits' if request.plan.loads[0].deployment.limits else ''}; the "
            f"busiest hour brings {number(first['requests_per_s'] * request.peak_ratio)} in the "
            f"first year and {number(last['requests_per_s'] * request.peak_ratio)} in the last.",
            *([f"All {len(years)} years together: {' and '.join(spent)}."] if spent else []),
            *(
                [
                    f"Rent is of whole machines: {spoken(rental['instance'], snapshot)} with "
                    f"{rental['accelerators']} accelerators at "
                    f"{money(rental['usd_per_hour']['value'])} an hour."
                ]
                if rental
                else []
            ),
        ),
        chart="Accelerators in use by year, with the range of their number",
        bars=bars(
            (label, each * c["value"], each * c["low"], each * c["high"]) for label, c in counts
        ),
        **_table(
            years,
            (
                Column("Year", lambda one: str(one["year"])),
                Column("Accelerators", lambda one: number(one["accelerators"])),
                Column("Bought", lambda one: number(one["bought"]["value"])),
                Column("Peak power", _told("peak_facility_power_w", _kilowatts)),
                Column("Energy", _told("facility_energy_kwh", _megawatt_hours)),
                Column("Emissions", _emitted),
                Column("Water", _told("water_l", _cubic_metres)),
                *(
                    [Column("Machines rented", lambda one: number(machines[one["year"] - 1]))]
                    if rental
                    else []
                ),
                Column("Rent", _told("rented_usd", _dollars)),
                Column("Electricity", _told("electricity_usd", _dollars)),
            ),
        ),
        remarks=(
            *_remarks(answer),
            "New accelerators are those for more requests, and those in place of hardware at the "
            "end of its life.",
        ),
    )


def _traffic(answer: Any, request: TrafficPageRequest, snapshot: CatalogSnapshot) -> Plan:
    rows, day, saved = answer["intervals"], answer["day"], answer["against_fixed"]
    kept = answer.get("within_limits_ratio")
    rent, carbon = day.get("rented_usd"), day.get("operational_location_kgco2e")
    less = saved.get("accelerator_hours_ratio")
    missed = kept is not None and kept < 1.0
    return Plan(
        headline=f"At most {answer['copies']:,} copies at once."
        + ("" if kept is None else f" {_share(kept)} requests keep your limits."),
        status="missed" if missed else "good",
        sentences=(
            f"{_copy(request, snapshot)}.",
            *([f"A day costs {rough_money(rent['value'])} in rent."] if rent else []),
            *(
                [f"Its electricity emits {emissions(carbon['value'] * _KG_IN_G)}."]
                if carbon
                else []
            ),
            *(
                [
                    f"Scaling with the traffic takes {number(100.0 * less)}% of the accelerator "
                    "hours that the most copies would take if they ran all day."
                ]
                if less is not None and request.scaling == "each-interval"
                else []
            ),
            f"Over the day, {number(100.0 * (1.0 - answer['idle_ratio']))}% of the capacity of "
            "the copies is used.",
            *_waiting(answer.get("shifting")),
            *_contracted(answer.get("contract")),
        ),
        chart="Copies by time of day",
        bars=bars(
            (_clock(row["start_s"]), row["copies"], row["copies"], row["copies"]) for row in rows
        ),
        **_table(
            rows,
            (
                Column("From", lambda one: _clock(one["start_s"])),
                Column("Requests a second", lambda one: number(one["requests_per_s"])),
                Column("Copies", lambda one: number(one["copies"])),
                Column("Used", _told_plain("utilisation_ratio", lambda v: f"{number(100 * v)}%")),
                Column("First token, 95 of 100", _told("ttft_p95_s", duration)),
                Column("Next token, 95 of 100", _told("tpot_p95_s", duration)),
                Column("Energy", _told("facility_energy_kwh", lambda v: f"{number(v)} kWh")),
                Column("Rent", _told("rented_usd", _dollars)),
            ),
        ),
        remarks=_remarks(answer),
    )


def _waiting(shift: Answer | None) -> tuple[str, ...]:
    """What requests save that wait for a cleaner grid."""
    left = None if shift is None else shift["operational_location_ratio"]
    if shift is None or left is None:
        return ()
    moved = number(100.0 * shift["moved_ratio"])
    change = number(100.0 * abs(1.0 - left))
    word = "less" if left <= 1.0 else "more"
    return (f"{moved}% of requests wait for a cleaner grid, which emits {change}% {word}.",)


def _contracted(contract: Answer | None) -> tuple[str, ...]:
    """What generation under contract covers, and what the day emits by contracts."""
    if contract is None:
        return ()
    hourly, yearly = contract["hourly_matched_ratio"], contract["annual_matched_ratio"]
    told = (
        f"Contracted plants generate {number(contract['contracted_kwh'])} kWh a day: they cover "
        f"{number(100.0 * hourly)}% of the electricity at the time it is used, and "
        f"{number(100.0 * yearly)}% if generation at any time of the year counts."
    )
    emitted = contract["hourly_market_kgco2e"]
    if emitted is None:
        return (told,)
    emission = emissions(emitted["value"] * _KG_IN_G)
    return (told, f"Counted hour by hour under these contracts, the day emits {emission}.")


def _site(answer: Any, request: SitePageRequest, snapshot: CatalogSnapshot) -> Plan:
    options = answer["options"]
    named = [accelerator_name(one["accelerator"], snapshot) for one in options]
    served = [((one.get("serves") or {}).get("requests_per_s") or {}) for one in options]
    best = max(
        range(len(options)),
        key=lambda at: (served[at].get("value", 0.0), options[at]["accelerators"]),
    )
    most, rate = options[best], served[best].get("value")
    named_request = request.named(snapshot)
    model = model_name(named_request.model_name)
    place = place_name(named_request.region, snapshot)
    counts = [
        (name, one["accelerators"], one["accelerators"], one["accelerators"])
        for name, one in zip(named, options, strict=True)
    ]
    rates = [
        (name, one["value"], one["low"], one["high"])
        for name, one in zip(named, served, strict=True)
        if one
    ]
    return Plan(
        headline=f"It holds {most['accelerators']:,} × {named[best]}."
        + ("" if rate is None else f" They serve {rough(rate)} requests a second."),
        status="good" if most["accelerators"] else "short",
        sentences=(
            f"{number(request.site_kw)} kW in {in_a_sentence(place)}, {request.racks:,} racks of "
            f"{number(request.rack_kw)} kW.",
            f"It is limited by {LIMITED_BY[most['limited_by']]}.",
            *([f"They serve {model} at the highest rate that keeps your limits."] if rate else []),
        ),
        chart=f"Requests a second of {model}" if rates else "Accelerators that fit",
        bars=bars(rates or counts),
        **_table(
            options,
            (
                Column("Hardware", lambda one: accelerator_name(one["accelerator"], snapshot)),
                Column("Accelerators", lambda one: number(one["accelerators"])),
                Column("Limited by", lambda one: LIMITED_BY[one["limited_by"]]),
                Column(
                    "Power, building included", _told("facility_kw", lambda v: f"{number(v)} kW")
                ),
                Column("Requests a second", _rate),
                Column("Emissions a year", _emitted_per_year),
                Column("Water a day", _told("water_on_site_l_per_day", _cubic_metres)),
                *(
                    [Column("Permitted", lambda one: str(one["permitted"] or "not asked"))]
                    if any(one.get("permitted") for one in options)
                    else []
                ),
            ),
        ),
        remarks=_remarks(answer),
    )


def _share(ratio: float) -> str:
    """A share of requests, as the beginning of a sentence."""
    return "All" if ratio == 1.0 else f"{number(100.0 * ratio)}% of"


def _rate(one: Answer) -> str:
    rate = (one.get("serves") or {}).get("requests_per_s")
    return "does not fit" if rate is None else number(rate["value"])


def _table(rows: Sequence[Answer], columns: Sequence[Column]) -> dict[str, Any]:
    return {
        "heads": tuple(column.head for column in columns),
        "rows": tuple(tuple(column.words(row) for column in columns) for row in rows),
    }


def _told(name: str, words: Words) -> Callable[[Answer], str]:
    """A figure of a row in words."""
    return lambda row: "not known" if row.get(name) is None else words(row[name]["value"])


def _told_plain(name: str, words: Words) -> Callable[[Answer], str]:
    return lambda row: "not known" if row.get(name) is None else words(row[name])


def _carbon(row: Answer) -> float | None:
    """Emissions of operation and of manufacturing [g]."""
    parts = [row.get("operational_location_kgco2e"), row.get("embodied_kgco2e")]
    known = [part["value"] for part in parts if part is not None]
    return sum(known) * _KG_IN_G if len(known) == len(parts) else None


def _emitted(row: Answer) -> str:
    carbon = _carbon(row)
    return "not known" if carbon is None else emissions(carbon)


def _emitted_per_year(row: Answer) -> str:
    named = ("operational_location_kgco2e", "embodied_kgco2e")
    return _emitted({name: row.get(f"{name}_per_year") for name in named})


def _kilowatts(value: float) -> str:
    return f"{number(value / 1e3)} kW"


def _megawatt_hours(value: float) -> str:
    return f"{number(value / 1e3)} MWh"


def _cubic_metres(value: float) -> str:
    return f"{number(value / 1e3)} m³"


def _dollars(value: float) -> str:
    return money(value)


def _clock(start_s: float) -> str:
    minutes = round(start_s / 60.0)
    return f"{minutes // 60:02d}:{minutes % 60:02d}"


def _remarks(answer: Answer) -> tuple[str, ...]:
    return tuple(one["message"] for one in answer["warnings"])
