"""One choice of a recommendation: its figures, its reasons, its limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from service.reports.document import (
    UNKNOWN,
    Bar,
    Bars,
    Section,
    Table,
    Text,
    figure,
    number,
    percent,
)

_TOKENS_PER_BASIS = 1000.0
#: Changes smaller than this are none.
_ALIKE_RATIO = 0.005


def configuration(candidate: Mapping[str, Any], with_model: bool = True) -> str:
    """A candidate in a line, without its place."""
    layout = candidate["parallelism"]
    degrees = [
        f"{name} {layout[name]}" for name in ("tensor", "pipeline", "expert") if layout[name] > 1
    ]
    replicas = f"{layout['data']} replicas" if layout["data"] > 1 else "1 replica"
    model = f" for {candidate['model']}" if with_model else ""
    return (
        f"{candidate['accelerator_count']} × {candidate['accelerator']}{model}, "
        f"weights {candidate['precision']['weights']}, cache {candidate['precision']['kv_cache']}, "
        + ", ".join([*degrees, replicas])
    )


def per_million(candidate: Mapping[str, Any]) -> str:
    """What a million output tokens cost [USD], at the prices of the search."""
    cost = candidate["metrics"]["cost"]
    return UNKNOWN if cost is None else number(cost * _TOKENS_PER_BASIS)


def choice_sections(
    priorities: list[str], choice: Mapping[str, Any], limit_names: Mapping[str, tuple[str, str]]
) -> Iterable[Section]:
    """What there is to say about a choice."""
    yield Section(
        f"Best for {', '.join(priorities)}",
        (
            Text(f"{configuration(choice['candidate'])}, in {choice['candidate']['region']}."),
            _figures(choice),
            *_reasons(choice),
            *(_next_best(choice) if "balanced" in priorities else ()),
            _limits(choice, limit_names),
            *(Text(f"{one['message']}.", "note") for one in choice["estimate"]["warnings"]),
        ),
        level=3,
    )


def _figures(choice: Mapping[str, Any]) -> Table:
    candidate, estimate = choice["candidate"], choice["estimate"]
    memory, latency, energy = estimate["memory"], estimate["latency"], estimate["energy"]
    year = (estimate["impacts"] or {}).get("per_year") or {}
    carbon, water = year.get("carbon") or {}, year.get("water") or {}
    rented = (estimate["cost"] or {}).get("rented") or {}
    rows = (
        ("Memory of an accelerator", figure(memory["total_bytes"], "GB", 1e-9)),
        ("Memory left free", percent(candidate["headroom_ratio"])),
        ("Time to first token", figure(latency["ttft_s"], "s")),
        ("Time per output token", figure(latency["tpot_s"], "s")),
        ("Time of a whole request", figure(latency["e2e_s"], "s")),
        ("Output", figure(latency["output_tokens_per_s"], "tokens/s")),
        ("Power of the IT equipment", figure((energy or {}).get("it_power_w"), "kW", 1e-3)),
        ("Energy of a year", figure(year.get("facility_energy_kwh"), "MWh", 1e-3)),
        ("Greenhouse gases of a year", figure(carbon.get("total_gco2e"), "t CO₂e", 1e-6)),
        (
            "of which electricity",
            figure(carbon.get("operational_location_gco2e"), "t CO₂e", 1e-6),
        ),
        ("Water of a year", figure(water.get("total_l"), "m³", 1e-3)),
        ("Rent of an hour, list price", figure(rented.get("usd_per_hour"), "USD")),
        ("A million output tokens, prices of the search", _usd(per_million(candidate))),
    )
    return Table(("Figure", "Estimate (90 % interval)"), rows, "What to expect", (1,))


def _usd(amount: str) -> str:
    return amount if amount == UNKNOWN else f"{amount} USD"


def _reasons(choice: Mapping[str, Any]) -> Iterable[Text | Table | Bars]:
    parts = choice["contributions"]
    score = sum(part["contribution_ratio"] for part in parts)
    yield Bars(
        tuple(
            Bar(
                part["metric"],
                part["contribution_ratio"],
                f"{percent(part['contribution_ratio'])} of at most {percent(part['weight_ratio'])}",
            )
            for part in parts
        ),
        f"Where its score of {percent(score)} comes from",
    )
    given_up = tuple(
        (
            one["metric"],
            number(one["best"], one["unit"]),
            UNKNOWN if one["worse_ratio"] is None else percent(one["worse_ratio"]),
        )
        for one in choice["given_up"]
    )
    yield Table(
        ("Priority", "Best of all that meet the limits", "This one is worse by"),
        given_up,
        "What it gives up",
        (1, 2),
    )
    agreement = choice["agreement"]
    yield Text(
        f"What matters most for this kind of workload: {agreement['focus']}; "
        f"{agreement['because']}."
    )


def _next_best(choice: Mapping[str, Any]) -> Iterable[Text]:
    loser = choice["nearest_loser"]
    if loser is None:
        return
    other, flip = loser["candidate"], loser["would_win_if"]
    when = ""
    if flip is not None and abs(flip["change_ratio"]) < _ALIKE_RATIO:
        when = " The two score alike."
    elif flip is not None:
        change = percent(flip["change_ratio"])
        when = f" It would be first if its {flip['metric']} changed by {change}."
    yield Text(f"Next best: {configuration(other)}, in {other['region']}.{when}")


def _limits(choice: Mapping[str, Any], names: Mapping[str, tuple[str, str]]) -> Table:
    rows = tuple(
        (
            names.get(one["name"], (one["name"].replace("_", " "), ""))[0],
            _measured(one["value"], one["unit"]),
            _measured(one["limit"], one["unit"]),
            one["verdict"],
        )
        for one in (*choice["limits"], *choice["estimate"]["constraints"])
    )
    return Table(("Held", "Estimate", "Limit", "Verdict"), rows, "Limits held", (1, 2))


def _measured(value: float | None, unit: str) -> str:
    if value is not None and unit == "bytes":
        return number(value / 1e9, "GB")
    return number(value, "" if unit == "-" else unit)
