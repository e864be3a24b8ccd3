"""What people call figures, entries and releases: words in place of field names and ids."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from service.catalog.derived import derived
from service.catalog.entries.documents import Document
from service.catalog.snapshot import CatalogSnapshot
from service.core.explanation import UNITS
from service.estimation.resolution import UNNAMED, UNPLACED

#: Clouds by the beginning of their regions' names, with what people call them.
_CLOUDS = {
    "aws": "AWS",
    "azure": "Azure",
    "gcp": "Google Cloud",
    "oci": "Oracle Cloud",
}
#: Figures of hardware as people call them, and whether that is a plural.
_OF_HARDWARE: Mapping[str, tuple[str, bool]] = {
    "embodied_adpe_kgsbeq": ("minerals used up by manufacturing", True),
    "embodied_kgco2e": ("emissions of manufacturing", True),
    "embodied_primary_energy_mj": ("primary energy of manufacturing", False),
    "mass_kg": ("weight", False),
    "scale_out_bandwidth_bytes_per_s": ("bandwidth of the network", False),
    "scale_up_bandwidth_bytes_per_s": ("bandwidth of the links between accelerators", False),
    "scale_up_pair_bandwidth_bytes_per_s": ("bandwidth of the links of two accelerators", False),
    "scale_up_latency_s": ("latency of the links between accelerators", False),
}
#: Likewise of places.
_OF_PLACES: Mapping[str, tuple[str, bool]] = {
    "adpe_kgsbeq_per_kwh": ("minerals that electricity uses up", True),
    "carbon_free_energy_ratio": ("share of carbon-free energy", False),
    "electricity_usd_per_kwh": ("price of electricity", False),
    "ewif_l_per_kwh": ("water that power stations use", False),
    "grid_gco2e_per_kwh": ("emissions of the grid", True),
    "market_gco2e_per_kwh": ("contract-based emissions of electricity", True),
    "primary_energy_mj_per_kwh": ("primary energy of electricity", False),
    "pue_ratio": ("energy that data centres add (PUE)", False),
    "water_stress_ratio": ("scarcity of water", False),
    "wue_l_per_kwh": ("water that data centres use on site", False),
}
_FIGURES = {**_OF_HARDWARE, **_OF_PLACES}
_UNIT = re.compile(rf"({'|'.join(sorted(UNITS, key=len, reverse=True))})$")
#: Ids as they stand in sentences; plain words are none.
_ID = re.compile(r"(?<![\w/@'-])[A-Za-z0-9][\w./@+-]*\w")
_TELLS_AN_ID = re.compile(r"[-/@.\d]")
#: Parts of the names of hardware families that are initials, and others that are no plain words.
_INITIALS = frozenset(
    {"ai", "cdna", "cpu", "gcn", "hpc", "hpg", "lpu", "rdna", "rdu", "tpu", "wse"}
)
_WRITTEN = {"ga10x": "GA10x", "gaudi3": "Gaudi 3", "gb20x": "GB20x", "x86": "x86"}
#: Versions, which have small letters.
_VERSION = re.compile(r"v\d+[a-z]?")
#: What stands for software that nobody named.
_ANY_SOFTWARE = "default"
#: Names of places before which English has an article.
_TAKES_ARTICLE = re.compile(
    r"United |European Union|Middle East|World |Bahamas|Comoros|Gambia|Maldives|Netherlands|"
    r"Philippines|.*(Republic|Islands)$"
)


def in_words(figure: str) -> str:
    """A figure of the catalog as people call it."""
    known = _FIGURES.get(figure)
    return _UNIT.sub("", figure).replace("_", " ") if known is None else known[0]


def unpublished(figures: str | Sequence[str], of: str) -> str:
    """That nobody has published a figure of something, or several of them."""
    named = [figures] if isinstance(figures, str) else figures
    *others, last = (f"the {in_words(one)}" for one in named)
    listed = f"{', '.join(others)} and {last}" if others else last
    return f"no figure is published for {listed} {_of(named[0])} {of}"


def dated(figure: str, of: str, year: int | None) -> str:
    """From which year a figure of something is."""
    dates = "date" if _is_plural(figure) else "dates"
    return f"the {in_words(figure)} {_of(figure)} {of} {dates} from {year}"


def _of(figure: str) -> str:
    return "in" if figure in _OF_PLACES else "of"


def _is_plural(figure: str) -> bool:
    return _FIGURES.get(figure, ("", False))[1]


def named_software(software: str) -> str:
    """An engine, or a generation of one, as a sentence can name it."""
    engine, _, generation = software.partition("@")
    if engine == _ANY_SOFTWARE:
        return "this software"
    return f"{engine} ({generation})" if generation else engine


def place_name(region: str | None, snapshot: CatalogSnapshot) -> str:
    """A region by its town and its cloud, or by its own name."""
    if region is None:
        return "no particular place"
    entry = snapshot.regions.get(region)
    if entry is None:
        return "your own site" if region == UNNAMED else region
    document: Document = entry.document
    place = document.get("place")
    if document.get("kind") == "cloud" and place:
        return f"{place} ({cloud_name(region, entry.value.name)})"
    return str(entry.value.name)


def in_a_sentence(name: str) -> str:
    """A place's name as it stands within a sentence: the United States, but Sweden."""
    return f"the {name}" if _TAKES_ARTICLE.match(name) else name


def cloud_name(region: str, name: str) -> str:
    """The cloud of a region, by the beginning of its name."""
    provider, _, own = region.partition("/")
    return _CLOUDS.get(provider) or name.partition(f" {own}")[0]


def spoken(text: str, snapshot: CatalogSnapshot) -> str:
    """A text with names in place of the catalog's ids."""
    names = _names(snapshot)
    return _ID.sub(lambda found: names.get(found[0], found[0]), text)


@derived(most=1024)
def _sentence(snapshot: CatalogSnapshot, text: str) -> str:
    told = spoken(text, snapshot)
    first = told if told.startswith(_small_names(snapshot)) else f"{told[0].upper()}{told[1:]}"
    return f"{first}{'' if told.endswith('.') else '.'}"


def sentence(text: str, snapshot: CatalogSnapshot) -> str:
    """A remark as a sentence, with names in place of the catalog's ids."""
    return _sentence(snapshot, text)


@derived()
def _names(snapshot: CatalogSnapshot) -> Mapping[str, str]:
    """Names of all that sentences are about, by id."""
    engines = {id_: entry.value.name for id_, entry in snapshot.engines.items()}
    engines.pop(_ANY_SOFTWARE, None)
    named = {id_: name for id_, name in _named(snapshot) if _TELLS_AN_ID.search(id_)}
    return engines | named | {UNNAMED: "what you described", UNPLACED: "an unnamed place"}


@derived()
def _small_names(snapshot: CatalogSnapshot) -> tuple[str, ...]:
    """Names that begin with a small letter even where a sentence does, such as vLLM."""
    return tuple(
        name for name in _names(snapshot).values() if name[:1].islower() and " " not in name
    )


def _named(snapshot: CatalogSnapshot) -> Iterator[tuple[str, str]]:
    for id_ in snapshot.regions:
        yield id_, in_a_sentence(place_name(id_, snapshot))
    for id_, instance in snapshot.instances.items():
        yield id_, instance.document["name"]
    for id_, tier in snapshot.memory_tiers.items():
        yield id_, tier.value.name
    for id_, machine in snapshot.platforms.items():
        yield id_, machine.document["name"]
    for id_, entry in snapshot.accelerators.items():
        yield id_, entry.value.name
        yield entry.value.family, _family_name(entry.value.family, entry.value.vendor)


def _family_name(family: str, vendor: str) -> str:
    """A hardware family by its vendor, who begins its id, and its own name."""
    first, _, own = family.partition("-")
    maker = vendor if vendor.lower().startswith(first) else _word(first)
    return " ".join([maker, *map(_word, own.split("-"))]).strip()


def _word(word: str) -> str:
    """A part of the id of a family as its maker writes it: CDNA 3, GA10x, Hopper."""
    letters = word.rstrip("0123456789.")
    if letters in _INITIALS:
        return f"{letters.upper()} {word.removeprefix(letters)}".strip()
    if _VERSION.fullmatch(word):
        return word
    return _WRITTEN.get(word, word.capitalize())
