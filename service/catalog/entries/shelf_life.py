"""How long figures stay true, and which of a catalog are past it.

Properties of a product do not change once it is sold. What does is grids, how data centres are run,
and prices; for how long each can be taken for the present is stated here. Ages are counted to the
year in which the catalog was last looked after, not to the present: the same catalog says the same
of itself at any time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from service.catalog.entries.documents import Document, DocumentSet

#: Years for which a figure can be taken for the present, by its name.
SHELF_LIFE_YEARS: Mapping[str, float] = {
    # Grids lose a few per cent of their intensity a year (Ember, Global Electricity Review 2025:
    # 458 to 445 g/kWh over 2023-2024); statistics lag by one to two years.
    "grid_gco2e_per_kwh": 3,
    "market_gco2e_per_kwh": 3,
    "marginal_gco2e_per_kwh": 3,
    "carbon_free_energy_ratio": 3,
    # Operators restate PUE and WUE of their sites every year.
    "pue_ratio": 3,
    "wue_l_per_kwh": 3,
    # Follows the mix of a grid, whose plants change over a decade.
    "ewif_l_per_kwh": 6,
    # Aqueduct's baseline is a mean over decades; WRI renews it every four years or so.
    "water_stress_ratio": 6,
    # Contracts follow wholesale prices, which have doubled and halved within two years.
    "electricity_usd_per_kwh": 3,
    "price": 1,
    # Accelerators lose a fifth to a third of their price a year once the next ones are sold, and
    # have doubled where memory was short.
    "price_usd": 2,
}
#: Rules are looked up again within this time.
RULE_YEARS = 1
#: So are accelerators that are only announced: by then they are sold, or something else is.
ANNOUNCED_YEARS = 0.5


@dataclass(frozen=True, slots=True)
class StaleFigure:
    """A figure past its shelf life: the year it is of, and the years it was good for."""

    collection: str
    entry_id: str
    name: str
    year: int
    shelf_life_years: float


def is_stale(name: str, year: int, present_year: int) -> bool:
    """Whether a figure of a year can no longer be taken for the present."""
    return present_year - year > SHELF_LIFE_YEARS.get(name, float("inf"))


def year_looked_after(documents: DocumentSet) -> int:
    """The latest year in which a source was read, 0 in a catalog without sources."""
    return max(
        (_year(source.get("retrieved")) for source in documents.get("sources", {}).values()),
        default=0,
    )


def stale_figures(documents: DocumentSet, present_year: int) -> Iterator[StaleFigure]:
    """Figures and offers past their shelf life: of dated ones the newest counts."""
    for collection, entries in documents.items():
        for entry_id, document in entries.items():
            for name, year in _dated(document):
                if is_stale(name, year, present_year):
                    life = SHELF_LIFE_YEARS[name]
                    yield StaleFigure(collection, entry_id, name, year, life)
            if document.get("announced") is True:
                told = max((year for _, year in _dated(document)), default=present_year)
                if present_year - told > ANNOUNCED_YEARS:
                    yield StaleFigure(collection, entry_id, "announced", told, ANNOUNCED_YEARS)
            checked = _year(document.get("checked_on"))
            if collection == "rules" and checked and present_year - checked > RULE_YEARS:
                yield StaleFigure(collection, entry_id, "checked_on", checked, RULE_YEARS)
            if collection == "offers":
                yield from _stale_offers(entry_id, document, present_year)


def _dated(document: Document) -> Iterator[tuple[str, int]]:
    figures = document.get("figures")
    for name, stated in figures.items() if isinstance(figures, Mapping) else ():
        listed = stated if isinstance(stated, list) else [stated]
        years = [figure["year"] for figure in listed if isinstance(figure, Mapping)]
        if years:
            yield name, max(years)
    for price in document.get("prices") or ():
        yield "price", price["year"]


def _stale_offers(provider: str, document: Document, present_year: int) -> Iterator[StaleFigure]:
    """Machines of a provider whose newest price is past the shelf life of prices."""
    newest: dict[str, int] = {}
    for instance, _, _, usd, date, _ in document.get("rows") or ():
        if usd is not None:
            newest[instance] = max(newest.get(instance, 0), _year(date))
    for instance, year in newest.items():
        if is_stale("price", year, present_year):
            life = SHELF_LIFE_YEARS["price"]
            yield StaleFigure("offers", f"{provider}/{instance}", "price", year, life)


def _year(date: object) -> int:
    text = str(date or "")[:4]
    return int(text) if text.isdecimal() else 0
