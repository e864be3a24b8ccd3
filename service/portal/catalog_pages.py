"""The catalog as pages: what there is, lists that can be searched, and single entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import inf
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

from service.catalog.derived import derived
from service.catalog.entries.entry import Entry
from service.catalog.entries.specs import FIGURES
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.catalog.listing import Listing, list_entries, whole_entry_answer
from service.estimation.catalog.offers import OfferQuery, list_offers
from service.estimation.detail import SMALL
from service.estimation.formatting import (
    Scale,
    Words,
    counted,
    gigabytes,
    number,
    range_words,
)
from service.estimation.inference.estimate import inference_memory_answer
from service.estimation.rejection import Rejected
from service.estimation.requests import MemoryInferenceRequest, PrecisionRequest
from service.estimation.resolution import resolve_precision
from service.estimation.verdict.names import model_name
from service.estimation.wording import cloud_name, place_name, spoken
from service.portal.rendering import rendered

#: Collections as people call them, with what is in them.
COLLECTIONS: Mapping[str, tuple[str, str]] = {
    "accelerators": ("Accelerators", "chips, cards and modules, with memory, speed and power"),
    "models": ("Models", "language models with their sizes and licences"),
    "regions": ("Places", "cloud regions, countries and grids: carbon, water, PUE, prices"),
    "instances": ("Instances", "machines that clouds rent out"),
    "platforms": ("Machines", "servers, racks, laptops and phones that hold accelerators"),
    "engines": ("Engines", "programs that serve or train models"),
    "memory-tiers": ("Kinds of memory", "kinds of memory, from on-chip to storage"),
    "interconnects": ("Links", "links between accelerators, hosts and machines"),
    "rules": ("Rules", "laws and standards for sites, companies and models"),
    "sources": ("Sources", "documents that the figures come from"),
}
#: Rows of a list on one page.
_ROWS = 100
#: Offers and models that an entry's page lists.
_MOST_OFFERS = 12
_MOST_FITTING = 40
#: Weights of so many times the memory fit in no layout, whatever parts of them are smaller.
_SURELY_TOO_LARGE = 2.0
_PREFIXES = ((1e3, 1.0, ""), (1e6, 1e3, "k"), (1e9, 1e6, "M"), (1e12, 1e9, "G"), (1e15, 1e12, "T"))
_SMALL = ((1e-6, 1e-9, "ns"), (1e-3, 1e-6, "µs"), (1.0, 1e-3, "ms"), (inf, 1.0, "s"))
#: Units that are written with a prefix where figures are large, or small.
_SCALES = {"s": Scale(_SMALL)} | {
    unit: Scale(
        (
            *((most, size, f"{prefix}{unit}") for most, size, prefix in _PREFIXES),
            (inf, 1e15, f"P{unit}"),
        )
    )
    for unit in ("B", "B/s", "FLOP/s", "bit/s")
}
#: Units that are written otherwise than in the catalog.
_WRITTEN = {"l/kWh": "L/kWh"}
_KINDS = {
    "datasheet": "stated by its maker",
    "measured": "measured",
    "derived": "computed from other figures",
    "assumed": "assumed",
}
#: Facts of an entry that its page shows beside its figures, and what they are called.
_FACTS = {
    "vendor": "Maker",
    "organisation": "Published by",
    "provider": "Provider",
    "family": "Family",
    "form_factor": "Form",
    "memory_technology": "Memory",
    "release_year": "Released",
    "licence": "Licence",
    "base_model": "Base model",
    "kind": "Kind",
    "country": "Country",
    "place": "Place",
    "technology": "Technology",
    "accelerator": "Accelerator",
    "accelerators": "Accelerators in one",
    "subject": "Applies to",
    "effect": "Effect",
    "status": "Status",
    "publisher": "Published by",
    "year": "Year",
    "section": "Section",
    "checked_on": "Checked on",
    "notes": "Notes",
}

#: Facts that are the id of an entry or of a family.
_NAMED_BY_ID = ("family", "accelerator")
#: Forms of hardware as people call them.
_FORMS = {
    "apu": "processor with graphics",
    "board": "board",
    "cpu": "processor",
    "module": "module",
    "oam": "module (OAM)",
    "pcie": "PCIe card",
    "soc": "system on a chip",
    "superchip": "superchip",
    "sxm": "module (SXM)",
    "wafer": "wafer",
}

#: Kinds of places, and what rules are on and do, in lists.
_PLACES = {"cloud": "cloud region", "grid": "part of a grid", "state": "state or province"}
_SUBJECTS = {"site": "sites", "company": "companies", "model": "models"}
_EFFECTS = {
    "limit": "sets a limit",
    "permit": "needs a permit",
    "report": "asks for a report",
    "advice": "advises",
}

Cell = Callable[[Entry[Any], CatalogSnapshot], str]


@dataclass(frozen=True, slots=True)
class Row:
    """A line of a list: its entry's address and name, and what else is shown of it."""

    address: str
    name: str
    cells: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShownFigure:
    """A figure in words, with where it comes from."""

    meaning: str
    value: str
    interval: str
    origin: str
    source: str
    note: str


@dataclass(frozen=True, slots=True)
class ShownOpinion:
    """What another source says of a figure, in words."""

    meaning: str
    value: str
    verdict: str
    source: str


def catalog_page(snapshot: CatalogSnapshot) -> str:
    """What the catalog holds."""
    counts = [(id_, *words, len(snapshot.collection(id_))) for id_, words in COLLECTIONS.items()]
    return rendered("catalog.html", here="Catalog", title="Catalog", trail=(), counts=counts)


def collection_page(
    collection: str, text: str | None, cursor: str | None, snapshot: CatalogSnapshot
) -> str:
    """A list of entries, those that match a text if one is given.

    Raises
    ------
    Rejected
        If the cursor is of another list.
    """
    listing = Listing(text=text, limit=_ROWS, cursor=cursor)
    page = list_entries(snapshot, collection, listing)
    columns = _COLUMNS.get(collection, ())
    rows = [
        Row(
            entry_address(collection, entry.id),
            _listed_name(collection, entry),
            tuple(told(entry, snapshot) for _, told in columns),
        )
        for entry in page.entries
    ]
    asked = {} if text is None else {"q": text}
    following = None
    if page.next_cursor is not None:
        following = f"catalog/{collection}?{urlencode(asked | {'cursor': page.next_cursor})}"
    title, told = COLLECTIONS[collection]
    return rendered(
        "collection.html",
        up="../",
        here="Catalog",
        title=title,
        told=told,
        trail=(("catalog", "Catalog"),),
        collection=collection,
        text=text or "",
        heads=[head for head, _ in columns],
        rows=rows,
        following=following,
    )


def entry_page(collection: str, id_: str, snapshot: CatalogSnapshot) -> str:
    """An entry with its figures, their sources, and what goes with it.

    Parameters
    ----------
    collection, id_
        The entry, by its id or another of its names.
    snapshot
        The catalog.

    Raises
    ------
    UnknownReference
        If there is none of that id or name.
    """
    entry = snapshot.find(collection, id_)
    answer = whole_entry_answer(snapshot, collection, entry)
    sources = _sources(answer, snapshot)
    title, _ = COLLECTIONS[collection]
    month = {"release_year": answer["released"]["date"]} if "released" in answer else {}
    told = {**answer, **month}
    facts = [
        (words, _fact(name, str(told[name]), snapshot))
        for name, words in _FACTS.items()
        if told.get(name)
    ]
    facts += list(_derived(answer))
    return rendered(
        "entry.html",
        up="../" * (2 + entry.id.count("/")),
        here="Catalog",
        title=_name(entry),
        trail=(("catalog", "Catalog"), (f"catalog/{collection}", title)),
        collection=collection,
        id="" if entry.id == _name(entry) else entry.id,
        aliases=", ".join(answer.get("aliases", ())),
        facts=facts,
        address=answer.get("url", "") if collection == "sources" else "",
        figures=list(_figures(collection, answer)),
        opinions=list(_opinions(collection, answer)),
        unopposed=answer.get("no_second_opinion", ""),
        requirements=list(_requirements(answer)),
        offers=_offers(collection, entry.id, snapshot),
        fitting=_fitting(snapshot, entry.id) if collection == "accelerators" else None,
        question=_question(collection, entry.id),
        sources=sources,
        data=f"v1/{collection}/{quote(entry.id)}",
    )


def _fact(name: str, value: str, snapshot: CatalogSnapshot) -> str:
    """A fact with names in place of ids."""
    if name == "form_factor":
        return _FORMS.get(value, value)
    if name == "country":
        return place_name(f"country/{value}", snapshot).removeprefix("country/")
    return spoken(value, snapshot) if name in _NAMED_BY_ID else value


def entry_address(collection: str, id_: str) -> str:
    """Where an entry's page is, from the front page."""
    return f"catalog/{collection}/{quote(id_)}"


def in_words(value: float, unit: str) -> str:
    """A figure of the catalog with its unit, with a prefix where it is large."""
    return _words(unit)(value)


def _words(unit: str) -> Words:
    if unit in _SCALES:
        return _SCALES[unit]
    written = _WRITTEN.get(unit, unit).replace("CO2e", " CO₂e")
    return lambda value: number(value) if unit == "-" else f"{number(value)} {written}"


def _name(entry: Entry[Any]) -> str:
    document = entry.document
    return str(document.get("name") or document.get("title") or entry.id)


def _sources(answer: Mapping[str, Any], snapshot: CatalogSnapshot) -> list[Mapping[str, Any]]:
    """The documents that an entry's figures and what is derived from them rest on."""
    ids = {source["id"]: None for source in answer.get("sources", ())}
    for stated in answer.get("figures", {}).values():
        ids |= {one["source"]: None for one in (stated if isinstance(stated, list) else [stated])}
    return [snapshot.sources[id_].document for id_ in sorted(ids)]


def _figures(collection: str, answer: Mapping[str, Any]) -> Iterator[ShownFigure]:
    """Every figure that is stated for an entry, dated ones the newest first."""
    for name, stated in answer.get("figures", {}).items():
        spec = FIGURES[collection][name]
        dated = stated if isinstance(stated, list) else [stated]
        for one in sorted(dated, key=lambda figure: -figure["year"]):
            low, high = one.get("low"), one.get("high")
            interval = ""
            if low is not None and high is not None:
                interval = range_words(_words(spec.unit), one["value"], low, high)
            yield ShownFigure(
                spec.meaning,
                in_words(one["value"], spec.unit),
                interval,
                f"{_KINDS[one['kind']]}, {one['year']}",
                one["source"],
                one.get("note", ""),
            )


def _opinions(collection: str, answer: Mapping[str, Any]) -> Iterator[ShownOpinion]:
    """What other sources state of an entry, and whether that is the same."""
    for one in answer.get("second_opinions", ()):
        if "kind" in one:
            where = f" in {one['region']}" if "region" in one else ""
            kind, dated = one["kind"].replace("-", " "), one["date"]
            meaning, value = f"Price, {kind}{where}, {dated}", f"{one['value']:.2f} USD/h"
        else:
            spec = FIGURES[collection][one["figure"]]
            meaning, value = spec.meaning, in_words(one["value"], spec.unit)
        verdict = "the same, within 2 %" if one["agrees"] else one.get("reason", "differs")
        yield ShownOpinion(meaning, value, verdict, one["source"])


def _derived(answer: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What is computed from a model's configuration."""
    derived = answer.get("derived", {})
    for name, words in (
        ("total_parameters", "Parameters"),
        ("active_parameters", "Parameters used for a token"),
        ("layers", "Layers"),
        ("max_position_embeddings", "Longest context [tokens]"),
    ):
        value = derived.get(name)
        if isinstance(value, int):
            yield words, counted(value)


def _requirements(answer: Mapping[str, Any]) -> Iterator[str]:
    """What a rule asks for, condition by condition."""
    for part, opening in (("applies", "Applies where"), ("requires", "Asks that")):
        for one in answer.get(part, ()):
            words = one["fact"].replace("_", " ")
            yield f"{opening} {words} {one['comparison'].replace('_', ' ')} {_said(one['value'])}."


def _said(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, int | float) else str(value).replace("_", " ")


def _offers(collection: str, id_: str, snapshot: CatalogSnapshot) -> list[dict[str, Any]]:
    """Where an accelerator, or an instance, is rented out, the cheapest first."""
    sort = "usd_per_accelerator_hour"
    asked = {
        "accelerators": OfferQuery(accelerator=id_, sort=sort, limit=_MOST_OFFERS),
        "instances": OfferQuery(instance=id_, sort=sort, limit=_MOST_OFFERS),
        "regions": OfferQuery(region=id_, sort=sort, limit=_MOST_OFFERS),
    }
    query = asked.get(collection)
    if query is None:
        return []
    try:
        return [
            {
                **one,
                "place": place_name(one["region"], snapshot) if one["region"] else "",
                "machine": _name(snapshot.instances[one["instance"]]),
            }
            for one in list_offers(snapshot, query)["items"]
        ]
    except Rejected:
        return []


@derived(most=64)
def _fitting(snapshot: CatalogSnapshot, accelerator: str) -> list[tuple[str, str, str]]:
    """The largest models that one accelerator holds, with the memory that they take."""
    capacity = float(snapshot.accelerators[accelerator].value.memory_bytes)
    found: list[tuple[float, str]] = []
    for id_, parameters in _by_size(snapshot):
        weights = resolve_precision(PrecisionRequest(), snapshot.models[id_].value).weights
        if _SURELY_TOO_LARGE * capacity < parameters * float(weights.bits_per_element) / 8.0:
            continue
        try:
            request = MemoryInferenceRequest(model=id_, accelerator=accelerator)
            memory = inference_memory_answer(request, snapshot, SMALL)
        except Rejected:
            continue
        if memory["fits"]:
            found.append((memory["total_bytes"]["value"], id_))
        if len(found) == _MOST_FITTING:
            break
    return [
        (model_name(id_), entry_address("models", id_), gigabytes(total))
        for total, id_ in sorted(found, reverse=True)
    ]


@derived()
def _by_size(snapshot: CatalogSnapshot) -> tuple[tuple[str, float], ...]:
    """Models that are no release of another, with their parameters, the largest first."""
    sized = [
        (id_, float(entry.value.total_parameters))
        for id_, entry in snapshot.models.items()
        if "base_model" not in entry.document
    ]
    return tuple(sorted(sized, key=lambda one: -one[1]))


def _question(collection: str, id_: str) -> str:
    """The page that asks about an entry, from the front page; empty where there is none."""
    field = {"accelerators": "accelerator", "models": "model", "regions": "region"}.get(collection)
    return "" if field is None else f"./?{urlencode({field: id_})}"


def _stated(name: str) -> Cell:
    return lambda entry, _: str(entry.document.get(name, "")).replace("_", " ")


def _fact_of(name: str, words: Mapping[str, str] = MappingProxyType({})) -> Cell:
    """A fact of an entry in words, with names in place of ids."""

    def told(entry: Entry[Any], snapshot: CatalogSnapshot) -> str:
        stated = str(entry.document.get(name) or "")
        return words.get(stated) or (_fact(name, stated, snapshot) if stated else "")

    return told


def _listed_name(collection: str, entry: Entry[Any]) -> str:
    """An entry as a list names it: a region of a cloud by its town, its cloud, and its own name."""
    if collection == "regions" and entry.document.get("place"):
        own = entry.id.partition("/")[2]
        return f"{entry.document['place']}, {cloud_name(entry.id, _name(entry))} {own}"
    return _name(entry)


def _intensity(entry: Entry[Any], _: CatalogSnapshot) -> str:
    """Emissions of a place's electricity, which may be those of the grid that it stands in."""
    grid = entry.value.grid_gco2e_per_kwh
    return "not known" if grid is None else in_words(round(float(grid.value)), "gCO2e/kWh")


def _figure(collection: str, name: str) -> Cell:
    def words(entry: Entry[Any], _: CatalogSnapshot) -> str:
        stated = entry.document.get("figures", {}).get(name)
        if isinstance(stated, list):
            stated = max(stated, key=lambda figure: figure["year"])
        unit = FIGURES[collection][name].unit
        return "not known" if stated is None else in_words(stated["value"], unit)

    return words


_COLUMNS: Mapping[str, tuple[tuple[str, Cell], ...]] = {
    "accelerators": (
        ("Maker", _stated("vendor")),
        ("Memory", _figure("accelerators", "memory_bytes")),
        ("Bandwidth", _figure("accelerators", "memory_bandwidth_bytes_per_s")),
        ("Power", _figure("accelerators", "thermal_design_power_w")),
        ("Released", _stated("release_year")),
    ),
    "models": (
        ("Published by", _stated("organisation")),
        ("Parameters", lambda entry, _: counted(entry.value.total_parameters)),
        ("Licence", _stated("licence")),
        ("Released", _stated("release_year")),
    ),
    "regions": (
        ("Kind", _fact_of("kind", _PLACES)),
        ("Country", _fact_of("country")),
        ("Electricity", _intensity),
    ),
    "instances": (
        ("Provider", _stated("provider")),
        ("Accelerator", _fact_of("accelerator")),
        ("How many", _stated("accelerators")),
    ),
    "platforms": (("Kind", _stated("kind")), ("Maker", _stated("vendor"))),
    "engines": (
        ("For", lambda entry, _: " and ".join(entry.document.get("workloads", ()))),
        ("Like", _stated("like")),
    ),
    "rules": (
        ("Applies to", _fact_of("subject", _SUBJECTS)),
        ("Effect", _fact_of("effect", _EFFECTS)),
        ("Status", _stated("status")),
    ),
    "sources": (("Published by", _stated("publisher")), ("Year", _stated("year"))),
}
