"""One immutable picture of the catalog at a revision, from which every request is answered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Literal, TypeVar, overload

from service.catalog.elsewhere import name_of_machine, several_accelerators, slice_of_tpus
from service.catalog.entries.convert import (
    accelerator_from_document,
    calibration_from_document,
    instance_from_document,
    interconnect_from_document,
    memory_tier_from_document,
    region_from_document,
)
from service.catalog.entries.device_names import DeviceIndex
from service.catalog.entries.documents import (
    COLLECTIONS,
    CatalogError,
    CatalogInvalid,
    Document,
    DocumentInvalid,
    DocumentSet,
    canonical_set,
    content_hash,
    hashes_of,
)
from service.catalog.entries.engines import engine_from_document, names_of
from service.catalog.entries.entry import CatalogDefaults, Entry, read_defaults
from service.catalog.entries.figures import Figure
from service.catalog.entries.instance_names import InstanceIndex
from service.catalog.entries.model_names import ModelIndex
from service.catalog.entries.models import model_from_document
from service.catalog.entries.offers import OfferTable, offers_from_document
from service.catalog.entries.platforms import UsualPlatforms, platform_from_document, put_in
from service.catalog.entries.references import (
    PlaceIndex,
    ReferenceIndex,
    Renaming,
    UnknownReference,
    renamings,
)
from service.catalog.entries.rules import rule_from_document
from service.catalog.entries.shelf_life import year_looked_after
from service.catalog.entries.when_asked import WhenAsked
from service.catalog.reports import OwnReports
from service.core.architecture.model import ModelArchitecture
from service.core.compliance import Rule
from service.core.costs import Instance
from service.core.deployment import Accelerator, Region
from service.core.engines import Engine
from service.core.interval import Interval
from service.core.memory.tiers import Interconnect, MemoryTier
from service.core.platform import Machine

Value = TypeVar("Value")

#: Hashes of the catalogs that this process has converted whole, the last one at the end: what has
#: converted once does so again, and need not be converted before it is asked for.
_CONVERTED: deque[str] = deque(maxlen=64)


@dataclass(frozen=True, slots=True, eq=False)
class CatalogSnapshot:
    """Everything the catalog holds at one revision, by collection and id.

    ``renamed`` holds the entries that have had another id, by collection and that id; collections
    without any are left out. ``reports`` are what whoever asks has measured, None where nobody is
    known to ask. ``derived`` keeps what was worked out from it, see :mod:`service.catalog.derived`.
    Compared by identity.
    """

    revision: int
    content_hash: str
    accelerators: Mapping[str, Entry[Accelerator]]
    platforms: Mapping[str, Entry[Machine]]
    models: Mapping[str, Entry[ModelArchitecture]]
    regions: Mapping[str, Entry[Region]]
    memory_tiers: Mapping[str, Entry[MemoryTier]]
    interconnects: Mapping[str, Entry[Interconnect]]
    instances: Mapping[str, Entry[Instance]]
    offers: Mapping[str, Entry[OfferTable]]
    engines: Mapping[str, Entry[Engine]]
    rules: Mapping[str, Entry[Rule]]
    sources: Mapping[str, Entry[Document]]
    calibrations: Mapping[str, Entry[Mapping[str, Interval]]]
    defaults: CatalogDefaults
    references: Mapping[str, ReferenceIndex]
    renamed: Mapping[str, Mapping[str, Renaming]]
    reports: OwnReports | None = None
    derived: dict[Any, Callable[..., Any]] = field(default_factory=dict, init=False, repr=False)

    @overload
    def find(self, collection: Literal["accelerators"], reference: str) -> Entry[Accelerator]: ...
    @overload
    def find(self, collection: Literal["platforms"], reference: str) -> Entry[Machine]: ...
    @overload
    def find(self, collection: Literal["models"], reference: str) -> Entry[ModelArchitecture]: ...
    @overload
    def find(self, collection: Literal["regions"], reference: str) -> Entry[Region]: ...
    @overload
    def find(self, collection: Literal["memory-tiers"], reference: str) -> Entry[MemoryTier]: ...
    @overload
    def find(self, collection: Literal["interconnects"], reference: str) -> Entry[Interconnect]: ...
    @overload
    def find(self, collection: Literal["instances"], reference: str) -> Entry[Instance]: ...
    @overload
    def find(self, collection: Literal["offers"], reference: str) -> Entry[OfferTable]: ...
    @overload
    def find(self, collection: Literal["engines"], reference: str) -> Entry[Engine]: ...
    @overload
    def find(self, collection: Literal["rules"], reference: str) -> Entry[Rule]: ...
    @overload
    def find(self, collection: Literal["sources"], reference: str) -> Entry[Document]: ...
    @overload
    def find(
        self, collection: Literal["calibrations"], reference: str
    ) -> Entry[Mapping[str, Interval]]: ...
    @overload
    def find(self, collection: str, reference: str) -> Entry[Any]: ...

    def find(self, collection: str, reference: str) -> Entry[Any]:
        """The entry that a reference means: by id, else by alias or a looser spelling.

        Raises
        ------
        UnknownReference
            If there is none, with the ids nearest to it.
        AmbiguousReference
            If there are several, with all of their ids.
        KeyError
            If there is no such collection.
        """
        entries = self.collection(collection)
        entry = entries.get(reference)
        if entry is not None:
            return entry
        index = self.references[collection]
        found = index.find(reference)
        if found is None:
            raise self._named_machine(collection, reference) or index.unfound(collection, reference)
        return entries[found]

    def _named_machine(self, collection: str, reference: str) -> UnknownReference | None:
        index = self.references[collection]
        if collection != "accelerators" or index.could_be(reference):
            return None
        machine = name_of_machine(
            reference, self.references, self.instances, self.platforms, self.accelerators
        )
        return several_accelerators(reference, index) or machine or slice_of_tpus(reference, index)

    def collection(self, collection: str) -> Mapping[str, Entry[Any]]:
        """All entries of a collection, by id."""
        if collection not in COLLECTIONS:
            raise KeyError(collection)
        entries: Mapping[str, Entry[Any]] = getattr(self, collection.replace("-", "_"))
        return entries

    def delivered_accelerators(self) -> dict[str, Entry[Accelerator]]:
        """Accelerators that can be had, by id: all but those that are only announced."""
        return {
            id_: entry
            for id_, entry in self.accelerators.items()
            if not entry.document.get("announced", False)
        }

    def region(self, document: Any, as_of: int | None = None) -> Entry[Region]:
        """A region from an object like its documents, whose parents are regions of the catalog.

        See :func:`service.catalog.entries.convert.region_from_document`.
        """

        def parent_document(region_id: str) -> Document | None:
            entry = self.regions.get(region_id)
            return None if entry is None else entry.document

        return region_from_document(document, parent_document, self.defaults, as_of)

    def with_reports(self, reports: OwnReports | None) -> CatalogSnapshot:
        """The same catalog for whoever has measured something."""
        return replace(self, reports=reports)

    def documents(self) -> DocumentSet:
        """The documents that the snapshot was made from."""
        return {
            collection: {
                entry_id: entry.document for entry_id, entry in self.collection(collection).items()
            }
            for collection in COLLECTIONS
        }


def snapshot_from_documents(
    documents: DocumentSet, revision: int, *, checked: bool = False
) -> CatalogSnapshot:
    """The snapshot of a set of documents, without any database.

    Parameters
    ----------
    documents
        Documents by collection and id.
    revision
        The number that answers state.
    checked
        Whether they are known to convert, as packaged ones are, and as those are that did so in
        this process: each is then converted when it is first asked for.

    Raises
    ------
    CatalogInvalid
        If documents cannot be converted, naming each of them.
    """
    errors: list[CatalogError] = []
    documents = canonical_set(documents)

    def converted(collection: str, convert: Callable[[Document], Value]) -> Mapping[str, Value]:
        held = documents.get(collection, {})
        if checked:
            return WhenAsked(held, lambda entry_id: convert(held[entry_id]))
        entries = {}
        for entry_id, document in sorted(held.items()):
            try:
                entries[entry_id] = convert(document)
            except DocumentInvalid as error:
                errors.append(CatalogError(collection, entry_id, error.pointer, error.detail))
        return MappingProxyType(entries)

    calibrations = converted("calibrations", calibration_from_document)
    if errors:
        raise CatalogInvalid(errors)
    digest = content_hash(hashes_of(documents))
    checked = checked or digest in _CONVERTED
    defaults = replace(
        read_defaults(entry.document for entry in calibrations.values()),
        year=year_looked_after(documents),
    )
    regions, engines = documents.get("regions", {}), documents.get("engines", {})
    machines, models = documents.get("platforms", {}), documents.get("models", {})
    platforms = converted(
        "platforms",
        lambda document: platform_from_document(document, machines, calibrations, defaults),
    )

    usual_platforms = UsualPlatforms(platforms)

    def in_its_platform(document: Document) -> Entry[Accelerator]:
        entry = accelerator_from_document(document, defaults)
        usual = usual_platforms.of(entry)
        return entry if usual is None else put_in(entry, usual)

    parents: dict[str, Mapping[str, Figure]] = {}
    offers = converted("offers", offers_from_document)
    offered = {provider: entry.value for provider, entry in offers.items()}
    snapshot = CatalogSnapshot(
        revision=revision,
        content_hash=digest,
        accelerators=converted("accelerators", in_its_platform),
        platforms=platforms,
        models=converted("models", lambda document: model_from_document(document, models.get)),
        regions=converted(
            "regions",
            lambda document: region_from_document(document, regions.get, defaults, parents=parents),
        ),
        memory_tiers=converted("memory-tiers", memory_tier_from_document),
        interconnects=converted("interconnects", interconnect_from_document),
        instances=converted(
            "instances", lambda document: instance_from_document(document, offered)
        ),
        offers=offers,
        engines=converted("engines", lambda document: engine_from_document(document, engines)),
        rules=converted("rules", rule_from_document),
        sources=converted("sources", _source_entry),
        calibrations=calibrations,
        defaults=defaults,
        references=WhenAsked(
            COLLECTIONS, lambda collection: _index(collection, documents.get(collection, {}))
        ),
        renamed=MappingProxyType(
            {
                collection: found
                for collection in COLLECTIONS
                if (found := renamings(collection, documents.get(collection, {})))
            }
        ),
    )
    if errors:
        raise CatalogInvalid(errors)
    if not checked:
        _CONVERTED.append(digest)
    return snapshot


def _index(collection: str, documents: Mapping[str, Document]) -> ReferenceIndex:
    aliases = {entry_id: tuple(names_of(document)) for entry_id, document in documents.items()}
    if collection == "regions":
        places = {id_: filter(None, (doc.get("place"),)) for id_, doc in documents.items()}
        return PlaceIndex(aliases, places)
    if collection == "models":
        releases = {id_ for id_, document in documents.items() if "base_model" in document}
        return ModelIndex(aliases, releases)
    names = {id_: str(document.get("name", id_)) for id_, document in documents.items()}
    if collection == "instances":
        return InstanceIndex(aliases, names)
    if collection != "accelerators":
        return ReferenceIndex(aliases)
    memory = {
        id_: str(kind)
        for id_, document in documents.items()
        if (kind := document.get("memory_technology")) is not None
    }
    return DeviceIndex(aliases, names, memory)


def _source_entry(document: Document) -> Entry[Document]:
    return Entry(document["id"], document, document, {})
