"""Rows that reports about serving and about training have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.recommendations.requests import ChoiceRequest, SearchRequest
from service.estimation.recommendations.training.requests import TrainingSearchRequest
from service.estimation.verdict.figures import emissions
from service.estimation.wording import place_name
from service.reports.document import UNKNOWN, figure, in_words, listed, number, percent

Rows: TypeAlias = tuple[tuple[str, str], ...]


def searched_rows(
    request: ChoiceRequest,
    search: SearchRequest | TrainingSearchRequest,
    usual_formats: str,
    snapshot: CatalogSnapshot,
) -> Rows:
    """What was searched at whose prices; without formats of its own, the usual ones."""
    own = request.usd_per_accelerator_hour.items()
    prices = "; ".join(f"{name}: {number(price, 'USD')}" for name, price in own)
    return (
        ("Accelerators", _or_all(search.accelerators, "the whole catalog")),
        ("Regions", _places(search.regions, snapshot)),
        ("Weights", _or_all(search.precisions, usual_formats)),
        ("Largest number of accelerators", number(search.max_accelerators)),
        (
            "Prices per accelerator-hour",
            prices or ("list prices" if request.list_prices else "none"),
        ),
    )


def memory_rows(choice: Mapping[str, Any]) -> Rows:
    """What of an accelerator's memory a choice takes and leaves."""
    total = choice["estimate"]["memory"]["total_bytes"]
    return (
        ("Memory per accelerator", figure(total, "GB", 1e-9)),
        ("Free memory", percent(choice["candidate"]["headroom_ratio"])),
    )


def footprint_rows(estimate: Mapping[str, Any], footprint: Mapping[str, Any], of: str) -> Rows:
    """Power, and the energy, gases and water of a period or of a run, which ``of`` names."""
    carbon, water = footprint.get("carbon") or {}, footprint.get("water") or {}
    power = (estimate["energy"] or {}).get("it_power_w")
    return (
        ("Power of the IT equipment", figure(power, "kW", 1e-3)),
        (f"Energy {of}", figure(footprint.get("facility_energy_kwh"), "MWh", 1e-3)),
        (f"Greenhouse gases {of}", in_words(carbon.get("total_gco2e"), emissions)),
        ("of which electricity", in_words(carbon.get("operational_location_gco2e"), emissions)),
        (f"Water {of}", figure(water.get("total_l"), "m³", 1e-3)),
    )


def candidate_usd(candidate: Mapping[str, Any]) -> str:
    """What the work of a candidate costs at the prices of the search [USD]."""
    cost = candidate["metrics"]["cost"]
    return UNKNOWN if cost is None else number(cost)


def _or_all(given: Sequence[str] | None, otherwise: str) -> str:
    return otherwise if given is None else listed(given)


def _places(regions: Sequence[str] | None, snapshot: CatalogSnapshot) -> str:
    """Where is searched: a country's clouds by the name of the country."""
    named = [place_name(f"country/{one.removesuffix('/*')}", snapshot) for one in regions or ()]
    told = [
        f"clouds in {name}" if one.endswith("/*") else one
        for one, name in zip(regions or (), named, strict=True)
    ]
    return _or_all(told if regions else None, "all cloud regions")
