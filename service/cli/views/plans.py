"""Plans as tables: a fleet by the year, a day by the interval, a site by its hardware."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from service.cli.views.parts import (
    columns_table,
    figures_table,
    footer,
    heading,
    indented,
    warnings,
)

_FLEET_FIELDS = (
    ("in use", "accelerators"),
    ("bought", "bought"),
    ("retired", "retired"),
    ("peak power", "peak_facility_power_w"),
    ("energy", "facility_energy_kwh"),
    ("operation", "operational_location_kgco2e"),
    ("making", "embodied_bought_kgco2e"),
    ("water", "water_l"),
    ("rent", "rented_usd"),
    ("purchase", "purchase_usd"),
    ("electricity", "electricity_usd"),
    ("tokens", "tokens_usd"),
    ("of tokens", "tokens_kgco2e"),
)
_FLEET_TOTALS = (
    "facility_energy_kwh",
    "operational_location_kgco2e",
    "embodied_bought_kgco2e",
    "water_l",
    "rented_present_usd",
    "owned_present_usd",
    "tokens_present_usd",
)
_INTERVAL_FIELDS = (
    ("rate", "requests_per_s"),
    ("used", "utilisation_ratio"),
    ("TTFT 95 %", "ttft_p95_s"),
    ("TPOT 95 %", "tpot_p95_s"),
    ("energy", "facility_energy_kwh"),
    ("CO2e", "operational_location_gco2e"),
    ("rent", "rented_usd"),
)
_SITE_FIELDS = (
    ("accelerators", "accelerators"),
    ("racks", "racks_used"),
    ("power", "facility_kw"),
    ("energy/year", "facility_energy_kwh_per_year"),
    ("operation/year", "operational_location_kgco2e_per_year"),
    ("water/day", "water_l_per_day"),
)
_DAY_FIELDS = ("facility_energy_kwh", "operational_location_kgco2e", "rented_usd")


def fleet_view(answer: Mapping[str, Any]) -> Sequence[Any]:
    """Each year of all loads, the copies of each load, and the whole."""
    years = answer["years"]
    names = ", ".join(load["name"] for load in answer["loads"])
    parts: list[Any] = [
        Text(f"{names} over {len(years)} years", style="bold"),
        columns_table(
            [("year", [str(year["year"]) for year in years])], _columns(years, _FLEET_FIELDS)
        ),
    ]
    for load in answer["loads"]:
        copies = ", ".join(_counted(year["copies"]) for year in load["years"])
        each = load["accelerators_per_copy"]
        of = "one accelerator" if each == 1 else f"{each} accelerators"
        parts.append(Text(f"{load['name']}, copies of {of} by year: {copies}"))
        rental = load.get("rental")
        if rental:
            rented = ", ".join(f"{year['instances']:,}" for year in load["years"])
            parts.append(
                indented(
                    Text(
                        f"rented as {rental['instance']} with {rental['accelerators']} "
                        f"accelerators: {rented} by year"
                    )
                )
            )
    parts += [heading("All years"), figures_table(answer["totals"], _FLEET_TOTALS)]
    return [*parts, *warnings(answer), footer(answer)]


def site_view(answer: Mapping[str, Any]) -> Sequence[Any]:
    """Each kind of hardware: how much of it, what it does, and what stands against it."""
    options = answer["options"]
    texts = [
        ("hardware", [option["accelerator"] for option in options]),
        ("limited by", [option["limited_by"].replace("_", " ") for option in options]),
        ("breaks first", [(option["first_broken"] or "–").replace("_", " ") for option in options]),
        ("permitted", [option["permitted"] or "–" for option in options]),
    ]
    rates = [(option["serves"] or {}).get("requests_per_s") for option in options]
    columns = _columns(options, _SITE_FIELDS)
    if any(rates):
        columns.append(("serves", "requests_per_s", [_value(rate) for rate in rates]))
    return [
        Text(f"what fits a site in {answer['region']}", style="bold"),
        columns_table(texts, columns),
        *warnings(answer),
        footer(answer),
    ]


def traffic_view(answer: Mapping[str, Any]) -> Sequence[Any]:
    """Each interval, the day, and what following the traffic saves."""
    rows = answer["intervals"]
    texts = [
        ("at", [_clock(row["start_s"]) for row in rows]),
        ("copies", [str(row["copies"]) for row in rows]),
    ]
    against = answer["against_fixed"]
    saved = [
        f"{name} {against[field]:.0%}"
        for name, field in (
            ("accelerator hours", "accelerator_hours_ratio"),
            ("energy", "facility_energy_ratio"),
            ("rent", "rented_ratio"),
        )
        if against[field] is not None
    ]
    return [
        Text(
            f"at most {answer['copies']} copies at once; {answer['idle_ratio']:.0%} of what they "
            "could carry is not asked for",
            style="bold",
        ),
        columns_table(texts, _columns(rows, _INTERVAL_FIELDS)),
        heading("The day"),
        figures_table(answer["day"], _DAY_FIELDS),
        indented(Text(f"of those with a fixed number of copies: {', '.join(saved)}")),
        *_hours(answer),
        *warnings(answer),
        footer(answer),
    ]


def _hours(answer: Mapping[str, Any]) -> list[Any]:
    """What contracts cover, and what waiting saves."""
    lines = []
    contract, shift = answer.get("contract"), answer.get("shifting")
    if contract:
        lines.append(
            f"contracts cover {contract['hourly_matched_ratio']:.0%} of the electricity hour by "
            f"hour, {contract['annual_matched_ratio']:.0%} over all hours together"
        )
    if shift:
        left = shift["operational_location_ratio"]
        lines.append(
            f"{shift['moved_ratio']:.0%} of the requests wait for a cleaner grid"
            + ("" if left is None else f", which leaves {left:.1%} of the emissions")
        )
    return [indented(Text(line)) for line in lines]


def _columns(
    rows: Sequence[Mapping[str, Any]], fields: Sequence[tuple[str, str]]
) -> list[tuple[str, str, list[float | None]]]:
    """Columns of numbers; those that no row knows are left out."""
    columns = [
        (
            head,
            field.removesuffix("_per_year").removesuffix("_per_day"),
            [_value(row[field]) for row in rows],
        )
        for head, field in fields
    ]
    return [one for one in columns if any(value is not None for value in one[2])]


def _value(figure: Mapping[str, float] | float | None) -> float | None:
    return figure["value"] if isinstance(figure, Mapping) else figure


def _counted(count: Mapping[str, int]) -> str:
    if count["low"] == count["high"]:
        return f"{count['value']:,}"
    return f"{count['value']:,} ({count['low']:,} to {count['high']:,})"


def _clock(seconds: float) -> str:
    return f"{int(seconds // 3600):02}:{int(seconds % 3600 // 60):02}"
