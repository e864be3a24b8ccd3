"""From catalog documents, or like objects in a request, to what the core computes with.

Figures are used as they stand. Where one is missing, either the core value says None, or a
documented stand-in from the calibration collection takes its place and the origin names it.
Every function raises ``DocumentInvalid``, with a pointer to what is missing, unknown, of the wrong
type or out of bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from service.catalog.entries.documents import Document, DocumentInvalid
from service.catalog.entries.entry import (
    CatalogDefaults,
    Entry,
    FigureOrigin,
    origin,
    read_calibration,
)
from service.catalog.entries.figures import Figure, read_dated_figures, read_figure, read_figures
from service.catalog.entries.offers import PRICE, OfferTable, offer_origin
from service.catalog.entries.reading import Chosen, fields_of, flag, text, whole_number
from service.catalog.entries.shelf_life import is_stale
from service.catalog.entries.specs import FIGURES
from service.core.costs import Instance, Price, PriceKind
from service.core.deployment import Accelerator, Link, Region
from service.core.interval import Interval, bounded
from service.core.memory.tiers import Interconnect, MemoryTier

#: Peaks the core knows, by the name of the precision.
PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "fp16_accumulate", "fp8", "int8", "fp4")

#: ISO 3166 keeps this code free for "unknown".
UNKNOWN_COUNTRY = "ZZ"

#: What kind of thing a form factor is, for stand-ins of its making and mass.
_BUILT_AS = {"sxm": "module", "oam": "module", "superchip": "module", "pcie": "card"}

_LONGEST_CHAIN = 8
_ACCELERATOR_KEYS = frozenset(
    {
        "id",
        "name",
        "vendor",
        "family",
        "form_factor",
        "release_year",
        "released",
        "announced",
        "memory_technology",
        "unified_memory",
        "aliases",
        "scale_up_link",
        "scale_up_domain_accelerators",
        "figures",
        "notes",
    }
)
_REGION_KEYS = frozenset(
    {
        "id",
        "name",
        "kind",
        "country",
        "subdivision",
        "parent",
        "place",
        "latitude",
        "longitude",
        "place_source",
        "marketplace",
        "aliases",
        "figures",
        "notes",
    }
)
_MEMORY_TIER_KEYS = frozenset(
    {"id", "name", "kind", "technology", "unit", "aliases", "figures", "notes"}
)
_INTERCONNECT_KEYS = frozenset(
    {"id", "name", "family", "topology", "domain_endpoints", "aliases", "figures", "notes"}
)
_INSTANCE_KEYS = frozenset(
    {
        *("id", "name", "provider", "accelerator", "accelerators", "described_by", "aliases"),
        *("marketplace", "figures", "prices", "notes"),
    }
)
_PRICE_KEYS = frozenset({"region", "date"})


def accelerator_from_document(
    document: Any, defaults: CatalogDefaults | None = None
) -> Entry[Accelerator]:
    """An accelerator from a catalog document or an object of the same fields.

    Parameters
    ----------
    document
        Needs ``figures`` with memory_bytes and memory_bandwidth_bytes_per_s; a figure is a number
        or an object with value, low, high, year and source. Everything else may be absent, and
        is then None, or absent from ``peak_flops_per_s``.
    defaults
        Stand-ins for a missing link and spreads for figures without an interval.
    """
    fields = fields_of(document, _ACCELERATOR_KEYS)
    defaults = defaults or CatalogDefaults()
    entry_id = text(fields, "id", "inline")
    figures = read_figures(fields.get("figures"), "/figures", FIGURES["accelerators"])
    chosen = Chosen("accelerators", entry_id, figures, defaults)
    peaks = {
        precision: chosen.number(f"peak_{precision}_flops_per_s")
        for precision in PRECISIONS
        if f"peak_{precision}_flops_per_s" in figures
    }
    usable = "memory_usable_bytes" if "memory_usable_bytes" in figures else "memory_bytes"
    link = "scale_up_bandwidth_bytes_per_s"
    if link not in figures and "host_link_bandwidth_bytes_per_s" in figures:
        link = "host_link_bandwidth_bytes_per_s"
    built = _BUILT_AS.get(text(fields, "form_factor", ""))
    family = text(fields, "family", "default")
    value = chosen.value(
        Accelerator,
        id=entry_id,
        name=text(fields, "name", entry_id),
        vendor=text(fields, "vendor", "unknown"),
        family=family,
        memory_bytes=chosen.number(usable),
        peak_flops_per_s=peaks,
        scale_up=Link(chosen.number(link), chosen.number("scale_up_latency_s")),
        scale_up_domain_accelerators=_domain(fields, chosen),
        scale_out=(
            Link(
                chosen.number("scale_out_bandwidth_bytes_per_s"),
                chosen.number("scale_out_latency_s"),
            )
            if "scale_out_bandwidth_bytes_per_s" in figures
            else None
        ),
        embodied_kgco2e=chosen.typical("embodied_kgco2e", built),
        mass_kg=chosen.typical("mass_kg", built),
        unified_memory=flag(fields, "unified_memory"),
        memory_technology=text(fields, "memory_technology", ""),
    )
    return Entry(entry_id, fields, value, chosen.origins)


def region_from_document(
    document: Any,
    parent_document: Callable[[str], Document | None],
    defaults: CatalogDefaults,
    as_of: int | None = None,
    parents: dict[str, Mapping[str, Figure]] | None = None,
) -> Entry[Region]:
    """A region from a catalog document or an object of the same fields.

    Figures that it lacks are taken along ``parent``.

    Parameters
    ----------
    document
        A figure is a number, an object with value, low, high, year and source, or a list of
        dated ones.
    parent_document
        Looks up the document of a region.
    defaults
        Stand-ins and spreads for missing figures.
    as_of
        Use figures of this year or earlier where there are any, else the earliest later ones; None
        for the newest.
    parents
        Figures of parents that were read before with the same ``as_of``, and of those read now.
    """
    fields = fields_of(document, _REGION_KEYS)
    read = {} if parents is None else parents
    entry_id = text(fields, "id", "inline")
    chosen = Chosen("regions", entry_id, {}, defaults)
    country = ""
    link: Document | None = fields
    holder, passed = entry_id, [entry_id]
    while link is not None:
        # A mistake in a parent is the parent's, whose own conversion names it.
        pointer = "/figures" if link is fields else "/parent"
        dated = None if link is fields else read.get(holder)
        if dated is None:
            stated = link.get("figures") or {}
            dated = read_dated_figures(stated, pointer, FIGURES["regions"], as_of)
            if link is not fields:
                read[holder] = dated
        chosen.add_missing(holder, dated)
        country = country or text(link, "country", "")
        parent = link.get("parent")
        if parent is None:
            break
        link = parent_document(parent) if isinstance(parent, str) else None
        if link is None:
            raise DocumentInvalid("/parent", f"no region {parent!r:.80}")
        if parent in passed or len(passed) > _LONGEST_CHAIN:
            raise DocumentInvalid("/parent", "the chain of parents is circular or too long")
        holder = parent
        passed.append(parent)
    value = chosen.value(
        Region,
        id=entry_id,
        name=text(fields, "name", entry_id),
        country=country or UNKNOWN_COUNTRY,
        pue_ratio=bounded(
            chosen.interval("pue_ratio"), 1.0, FIGURES["regions"]["pue_ratio"].bounds.most
        ),
        wue_l_per_kwh=chosen.filled("wue_l_per_kwh"),
    )
    value = replace(
        value,
        pue_stood_in=_stood_in("pue_ratio", chosen.origins),
        wue_stood_in=_stood_in("wue_l_per_kwh", chosen.origins),
    )
    stale = () if as_of is not None else _stale(chosen.origins, defaults.year)
    return Entry(entry_id, fields, value, chosen.origins, stale)


def _stood_in(name: str, origins: Mapping[str, FigureOrigin]) -> bool:
    return name in origins and origins[name].collection == "calibrations"


def _stale(origins: Mapping[str, FigureOrigin], present_year: int) -> tuple[str, ...]:
    """Names of the figures that can no longer be taken for the present."""
    return tuple(
        name
        for name, found in origins.items()
        if found.year is not None and is_stale(name, found.year, present_year)
    )


def _served(collection: str, document: Any, keys: frozenset[str]) -> tuple[Document, str, Chosen]:
    """A document's fields, its id and all its figures.

    Figures that nothing computes with are served too, each with its source.
    """
    fields = fields_of(document, keys)
    entry_id = text(fields, "id", "inline")
    figures = read_figures(fields.get("figures"), "/figures", FIGURES[collection])
    chosen = Chosen(collection, entry_id, figures, CatalogDefaults())
    for figure_name in figures:
        chosen.known_interval(figure_name)
    return fields, entry_id, chosen


def memory_tier_from_document(document: Any) -> Entry[MemoryTier]:
    """A kind of memory from a catalog document or an object of the same fields."""
    fields, entry_id, chosen = _served("memory-tiers", document, _MEMORY_TIER_KEYS)
    value = chosen.value(
        MemoryTier,
        id=entry_id,
        name=text(fields, "name", entry_id),
        kind=text(fields, "kind", "host"),
    )
    return Entry(entry_id, fields, value, chosen.origins)


def interconnect_from_document(document: Any) -> Entry[Interconnect]:
    """A link from a catalog document."""
    fields, entry_id, chosen = _served("interconnects", document, _INTERCONNECT_KEYS)
    value = chosen.value(Interconnect, id=entry_id, name=text(fields, "name", entry_id))
    return Entry(entry_id, fields, value, chosen.origins)


def instance_from_document(
    document: Any, offers: Mapping[str, OfferTable] | None = None
) -> Entry[Instance]:
    """A rentable machine from a catalog document, with what its provider's offers say of it.

    Prices of the document itself come before those of offers.
    """
    fields, entry_id, chosen = _served("instances", document, _INSTANCE_KEYS)
    accelerators = fields.get("accelerators")
    if not isinstance(accelerators, int) or isinstance(accelerators, bool) or accelerators < 1:
        raise DocumentInvalid("/accelerators", "must be a whole number above zero")
    prices: dict[PriceKind, dict[str | None, Price]] = {"on-demand": {}}
    origins = dict(chosen.origins)
    listed = fields.get("prices", [])
    if not isinstance(listed, list):
        raise DocumentInvalid("/prices", "must be a list")
    for position, given in enumerate(listed):
        pointer = f"/prices/{position}"
        if not isinstance(given, Mapping):
            raise DocumentInvalid(pointer, "must be an object")
        plain = {key: value for key, value in given.items() if key not in _PRICE_KEYS}
        figure = read_figure(plain, pointer, PRICE)
        region = given.get("region")
        date = given.get("date") or str(figure.year)
        prices["on-demand"].setdefault(region, Price(figure.value, region, date, figure.source))
        origins[price_name("on-demand", region)] = origin("instances", entry_id, figure)
    provider = text(fields, "provider", "inline")
    regions = set(prices["on-demand"])
    table = (offers or {}).get(provider)
    mine = () if table is None else table.by_instance.get(entry_id.partition("/")[2], ())
    for offer in mine:
        region = None if table is None else table.region_id(offer)
        regions.add(region)
        kind: Any = offer.kind
        if offer.usd_per_hour is None or region in prices.get(kind, {}):
            continue
        price = Price(offer.usd_per_hour, region, offer.date, offer.source)
        prices.setdefault(kind, {})[region] = price
        origins[price_name(kind, region)] = offer_origin(provider, offer)
    value = Instance(
        id=entry_id,
        provider=provider,
        accelerator=text(fields, "accelerator", ""),
        accelerators=accelerators,
        prices=prices,
        regions=frozenset(regions),
    )
    return Entry(entry_id, fields, value, origins)


def price_name(kind: PriceKind, region: str | None) -> str:
    """What the origin of an instance's price is called."""
    return f"{kind} price in {region or 'all regions'}"


def calibration_from_document(document: Document) -> Entry[Mapping[str, Interval]]:
    """The fitted or measured constants of a calibration document, by name."""
    figures = read_calibration(document)
    return Entry(
        document["id"],
        document,
        {name: figure.interval() for name, figure in figures.items()},
        {name: origin("calibrations", document["id"], figure) for name, figure in figures.items()},
    )


def _domain(fields: Document, chosen: Chosen) -> int:
    key = "scale_up_domain_accelerators"
    stated = fields.get(key) is not None
    return whole_number(fields, key, 1) if stated else int(chosen.number(key))
