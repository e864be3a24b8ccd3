"""Shapes of catalog entries, for the OpenAPI document: the catalog's files with what is computed.

Typed dictionaries, because an entry leaves out what nobody states.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NotRequired

from service.api.catalog.engine_entries import EngineEntry
from service.api.catalog.stated import CatalogEntry, CatalogFigure, Stated
from service.estimation.answers import Answer
from service.estimation.catalog.answers import ModelFacts, RegionFigures


class SecondOpinion(Answer):
    """A figure of an entry as another source states it. It never changes an estimate."""

    figure: str
    """Its unit is in its name."""
    value: float
    """What the other source states."""
    source: str
    agrees: bool
    """Whether it is within 2 % of the catalog's own figure."""
    reason: NotRequired[str]
    """Why it differs."""
    region: NotRequired[str]
    """Of a price, where it is asked."""
    kind: NotRequired[Literal["on-demand", "spot", "reserved-1y", "reserved-3y"]]
    """Of a price, how the instance is rented."""
    date: NotRequired[str]
    """Of a price, its day, month or year."""


class CheckedEntry(CatalogEntry):
    """What entries have that are held against other sources; both are left out of lists."""

    second_opinions: NotRequired[list[SecondOpinion]]
    """What other sources state of it."""
    no_second_opinion: NotRequired[str]
    """Why no other source states its figures, where there is none."""


class Released(Answer):
    """The month or day of a release."""

    date: str
    """Month or day in ISO 8601."""
    source: str


class AcceleratorEntry(CheckedEntry):
    """A chip, card or module. Peaks are dense; unknown figures are left out."""

    name: str
    vendor: str
    family: str
    form_factor: str
    """How it is built in: module, card, or part of a chip."""
    release_year: int
    released: NotRequired[Released]
    """Month or day on which it was introduced."""
    announced: NotRequired[bool]
    memory_technology: str
    """Kind of its memory."""
    unified_memory: bool
    aliases: list[str]
    scale_up_link: str
    """Link to its neighbours: id in /v1/interconnects."""
    scale_up_domain_accelerators: int
    """Accelerators that this link joins."""
    figures: dict[str, CatalogFigure]


class PlatformEntry(CheckedEntry):
    """A machine that holds accelerators, with what is stated for it by itself.

    What it lacks is as in the platform that it is like; figures are those of the machine without
    accelerators, unless it contains them.
    """

    name: str
    vendor: NotRequired[str]
    release_year: NotRequired[int]
    like: NotRequired[str]
    kind: NotRequired[
        Literal[
            "server-8",
            "server-superchip",
            "server-pcie",
            "server-asic",
            "server-cpu",
            "rack",
            "workstation",
            "desktop",
            "mini-pc",
            "laptop",
            "soc-board",
            "phone",
        ]
    ]
    site_class: NotRequired[Literal["hyperscale", "colocation", "enterprise", "office", "home"]]
    accelerators: NotRequired[int]
    host_accelerators: NotRequired[int]
    """Accelerators that one operating system starts processes on; all of them if left out."""
    board_accelerators: NotRequired[int]
    """Accelerators that are sold together, as one board or rack; each by itself if left out."""
    shared: NotRequired[bool]
    integrated: NotRequired[bool]
    contains_accelerators: NotRequired[bool]
    peer_to_peer: NotRequired[bool]
    processors: NotRequired[str]
    """Processors of the host, as its maker names them."""
    power_supplies: NotRequired[str]
    """Power supplies, as its maker names them."""
    host_link: NotRequired[str]
    """Link between host and accelerators: id in /v1/interconnects."""
    scale_up_link: NotRequired[str]
    """Link between accelerators: id in /v1/interconnects."""
    scale_up_domain_accelerators: NotRequired[int]
    """Accelerators that this link joins."""
    default_for: NotRequired[list[str]]
    default_form_factors: NotRequired[list[str]]
    described_by: NotRequired[str]
    aliases: list[str]
    figures: dict[str, CatalogFigure]


class QualityEffect(Answer):
    """A benchmark's score of a release beside that of its base model, as published."""

    benchmark: str
    """Name of the benchmark, with its version."""
    base: float
    value: float
    """Score of the release."""
    unit: Literal["percent", "perplexity", "score"]
    year: int
    source: str
    kind: Literal["datasheet", "measured", "derived", "assumed"]
    note: NotRequired[str]


class ModelEntry(CatalogEntry):
    """A model with the facts of its published config."""

    aliases: list[str]
    organisation: str
    task: NotRequired[Literal["embed", "rerank"]]
    """What it was trained for, where it does not generate."""
    release_year: NotRequired[int]
    released: NotRequired[Released]
    """Month or day from which it could be downloaded."""
    licence: NotRequired[str]
    """Licence of the weights, as its publisher names it."""
    published_parameters: NotRequired[CatalogFigure]
    published_active_parameters: NotRequired[CatalogFigure]
    base_model: NotRequired[str]
    """Of a quantised release, the model whose weights it stores in another format."""
    quantization_config: NotRequired[dict[str, Any]]
    """How a release stores its weights, with the modules that it leaves as they are."""
    formats: NotRequired[list[str]]
    """Formats of the files of a set, by id."""
    quality_effects: NotRequired[list[QualityEffect]]
    config: NotRequired[dict[str, Any]]
    """The facts of the model's config.json; a release has those of its base model."""
    config_source: str
    """Where its config was read."""
    derived: ModelFacts


class RegionEntry(CatalogEntry):
    """A cloud region, country, state or grid with the figures stated for it by itself."""

    name: str
    kind: Literal["cloud", "country", "state", "grid"]
    country: str
    """Country by ISO 3166-1, two letters."""
    subdivision: NotRequired[str]
    parent: NotRequired[str]
    """Id of the region whose figures stand in where it has none."""
    place: NotRequired[str]
    latitude: NotRequired[float]
    longitude: NotRequired[float]
    """Of the place, in degrees east."""
    place_source: NotRequired[str]
    marketplace: NotRequired[bool]
    """Machines there are rented out by whoever owns them."""
    aliases: NotRequired[list[str]]
    figures: dict[str, CatalogFigure | list[CatalogFigure]]
    derived: RegionFigures


class MemoryTierEntry(CatalogEntry):
    """A kind of memory; figures are of one unit of it, and unknown ones are left out."""

    name: str
    kind: Literal[
        "on-chip",
        "device",
        "host",
        "expansion",
        "pool",
        "storage",
        "processing-in-memory",
        "compute-in-memory",
    ]
    technology: str
    """What the memory is made of."""
    unit: str
    aliases: list[str]
    figures: dict[str, CatalogFigure]


class InterconnectEntry(CatalogEntry):
    """A link; figures are of one endpoint and one direction."""

    name: str
    family: str
    """What it is a generation of."""
    topology: NotRequired[str]
    """How endpoints are joined."""
    domain_endpoints: NotRequired[int]
    aliases: list[str]
    figures: dict[str, CatalogFigure]


class InstancePrice(CatalogFigure):
    """An on-demand price of one instance, without taxes [USD/h]."""

    region: NotRequired[str]


class InstanceEntry(CheckedEntry):
    """A machine with accelerators that a cloud provider rents out."""

    name: str
    provider: str
    accelerator: str
    accelerators: int
    described_by: str
    marketplace: NotRequired[bool]
    """Whoever owns such a machine rents it out through the provider, at a price of his own."""
    aliases: list[str]
    figures: dict[str, CatalogFigure]
    prices: list[InstancePrice]


class RuleCondition(Stated):
    """A fact compared with a value."""

    fact: str
    """Name of the fact, as requests about rules call it."""
    comparison: Literal["at_most", "at_least", "above", "below", "is", "before", "from"]
    """How the fact stands to the value where the condition holds."""
    value: float | str | bool
    """What the fact is compared with."""


class RuleEntry(CatalogEntry):
    """What a site, a company or a model has to keep, report or ask for. No legal advice."""

    name: str
    subject: Literal["site", "company", "model"]
    """Whom it is about."""
    effect: Literal["limit", "report", "permit", "advice"]
    status: Literal["in_force", "draft", "stayed", "repealed"]
    regions: list[str]
    begins: NotRequired[str]
    """Day from which it holds."""
    ends: NotRequired[str]
    due: NotRequired[str]
    applies: list[RuleCondition]
    requires: list[RuleCondition]
    source: str
    section: NotRequired[str]
    """Where it stands in the source."""
    checked_on: str
    aliases: list[str]


class SourceEntry(Stated):
    """A document that figures were taken from."""

    id: str
    title: str
    publisher: str
    year: int
    url: str
    licence: str
    """Licence or terms under which it may be used."""
    retrieved: str
    """Day on which it was read."""
    kind: Literal["primary", "secondary"]
    attribution: NotRequired[str]


class Page(Answer):
    """Entries of a collection, in the order asked for."""

    next_cursor: str | None
    """Null on the last page."""
    catalog_revision: int


#: What operations call an entry of each collection.
NAMES: Mapping[str, str] = {
    "accelerators": "Accelerator",
    "platforms": "Platform",
    "models": "Model",
    "regions": "Region",
    "memory-tiers": "MemoryTier",
    "interconnects": "Interconnect",
    "instances": "Instance",
    "engines": "Engine",
    "rules": "Rule",
    "sources": "Source",
}

ENTRIES: Mapping[str, Any] = {
    "accelerators": AcceleratorEntry,
    "platforms": PlatformEntry,
    "models": ModelEntry,
    "regions": RegionEntry,
    "memory-tiers": MemoryTierEntry,
    "interconnects": InterconnectEntry,
    "instances": InstanceEntry,
    "engines": EngineEntry,
    "rules": RuleEntry,
    "sources": SourceEntry,
}


class AcceleratorPage(Page):
    """Accelerators, in the order asked for."""

    items: list[AcceleratorEntry]


class PlatformPage(Page):
    """Platforms, in the order asked for."""

    items: list[PlatformEntry]


class ModelPage(Page):
    """Models, in the order asked for."""

    items: list[ModelEntry]


class RegionPage(Page):
    """Regions, in the order asked for."""

    items: list[RegionEntry]


class MemoryTierPage(Page):
    """Memory tiers, in the order asked for."""

    items: list[MemoryTierEntry]


class InterconnectPage(Page):
    """Interconnects, in the order asked for."""

    items: list[InterconnectEntry]


class InstancePage(Page):
    """Instances, in the order asked for."""

    items: list[InstanceEntry]


class EnginePage(Page):
    """Engines and frameworks, in the order asked for."""

    items: list[EngineEntry]


class RulePage(Page):
    """Rules, in the order asked for."""

    items: list[RuleEntry]


class SourcePage(Page):
    """Sources, in the order asked for."""

    items: list[SourceEntry]


PAGES: Mapping[str, Any] = {
    "accelerators": AcceleratorPage,
    "platforms": PlatformPage,
    "models": ModelPage,
    "regions": RegionPage,
    "memory-tiers": MemoryTierPage,
    "interconnects": InterconnectPage,
    "instances": InstancePage,
    "engines": EnginePage,
    "rules": RulePage,
    "sources": SourcePage,
}
