"""Checks that a set of documents makes a sound catalog, each error with its place."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from service.catalog.database.own import is_own
from service.catalog.entries.documents import (
    Canonical,
    CatalogError,
    CatalogInvalid,
    Document,
    DocumentSet,
    canonical,
    document_hash,
    escape,
    every_document,
)
from service.catalog.entries.offers import COLUMNS
from service.catalog.entries.references import FORMER_IDS
from service.catalog.snapshot import snapshot_from_documents
from service.core.compliance import EUROPEAN_UNION

if TYPE_CHECKING:
    from jsonschema import Draft202012Validator

Schemas: TypeAlias = "Mapping[str, Draft202012Validator]"

#: A faster format is never slower than a wider one: (slower, faster).
_PEAK_ORDER = (
    ("peak_tf32_flops_per_s", "peak_bf16_flops_per_s"),
    ("peak_bf16_flops_per_s", "peak_fp8_flops_per_s"),
    ("peak_fp16_flops_per_s", "peak_fp16_accumulate_flops_per_s"),
    ("peak_fp16_flops_per_s", "peak_fp8_flops_per_s"),
    ("peak_fp8_flops_per_s", "peak_fp4_flops_per_s"),
)
#: Formats of half the width are multiplied at twice the rate; what is much above has counted zeros
#: that sparsity leaves out, or says in a note why: (slower, faster, most of their ratio).
_DENSE_RATIOS = (
    ("peak_fp32_flops_per_s", "peak_bf16_flops_per_s", 17.0),
    ("peak_fp32_flops_per_s", "peak_fp16_flops_per_s", 17.0),
    ("peak_tf32_flops_per_s", "peak_bf16_flops_per_s", 2.2),
    ("peak_bf16_flops_per_s", "peak_fp8_flops_per_s", 2.2),
    ("peak_bf16_flops_per_s", "peak_int8_flops_per_s", 4.4),
    ("peak_fp8_flops_per_s", "peak_fp4_flops_per_s", 2.2),
)
#: Sheets round bandwidths, "2 TB/s" for 1.99.
_ROUNDING = 1.01
#: Own entries have ids of one form, whatever those of their collection look like.
_OWN_ID = re.compile(r"own/[A-Za-z0-9]+([._/-][A-Za-z0-9]+)*")
_LONGEST_ID = 200
#: Firmware holds back a few percent of the memory; unified memory leaves a quarter to the host.
_LEAST_USABLE_RATIO = 0.5


def schemas_from(schemas: Mapping[str, Any]) -> Schemas:
    """Validators of one document, by collection; a schema of a list gives that of its items."""
    from jsonschema import Draft202012Validator

    for schema in schemas.values():
        Draft202012Validator.check_schema(schema)
    return {
        collection: Draft202012Validator(of_one(schema)) for collection, schema in schemas.items()
    }


def of_one(schema: Any) -> Canonical:
    """The schema of one document, where that of a file may be of a list of them."""
    if schema.get("type") == "array":
        schema = {"$defs": schema.get("$defs", {}), "allOf": [schema["items"]]}
    return Canonical(canonical(schema))


def known_to_meet(documents: DocumentSet, schemas: Mapping[str, Any]) -> None:
    """Spare documents that are known to meet their schemas being held to these once more."""
    for collection, schema in schemas.items():
        digest = document_hash(of_one(schema))
        for document in documents.get(collection, {}).values():
            if isinstance(document, Canonical):
                document.meets = digest


def check_documents(documents: DocumentSet, schemas: Schemas) -> list[CatalogError]:
    """Everything that is wrong with the documents: form, sources, names, figures, conversion.

    What has no schema is held to the other checks alone.
    """
    errors = [
        *_form_errors(documents, schemas),
        *_source_errors(documents),
        *_release_errors(documents),
        *_alias_errors(documents),
        *_plausibility_errors(documents),
        *_instance_errors(documents),
        *_offer_errors(documents),
        *_rule_errors(documents),
        *_engine_errors(documents),
    ]
    told = {(error.collection, error.entry_id) for error in errors}
    try:
        snapshot_from_documents(documents, revision=0)
    except CatalogInvalid as invalid:
        # A document of the wrong form fails again in conversion; once is enough.
        errors.extend(
            error for error in invalid.errors if (error.collection, error.entry_id) not in told
        )
    return errors


def _form_errors(documents: DocumentSet, schemas: Schemas) -> Iterator[CatalogError]:
    for collection, entry_id, document in every_document(documents):
        if document.get("id") != entry_id:
            yield CatalogError(collection, entry_id, "/id", "is not the entry's id")
        if len(entry_id) > _LONGEST_ID:
            detail = f"is longer than {_LONGEST_ID} characters"
            yield CatalogError(collection, entry_id, "/id", detail)
        validator = schemas.get(collection)
        if validator is None:
            continue
        own, schema = is_own(entry_id), document_hash(cast("Canonical", validator.schema))
        if own and not _OWN_ID.fullmatch(entry_id):
            detail = (
                "an own id starts with own/, followed by letters, digits, dots, hyphens, "
                "underscores and slashes"
            )
            yield CatalogError(collection, entry_id, "/id", detail)
        if isinstance(document, Canonical) and document.meets == schema:
            continue
        sound = True
        for error in validator.iter_errors(document):
            sound = False
            if own and list(error.absolute_path) == ["id"]:
                continue
            pointer = "".join(f"/{escape(part)}" for part in error.absolute_path)
            yield CatalogError(collection, entry_id, pointer, error.message[:300])
        if sound and isinstance(document, Canonical):
            document.meets = schema


def _source_errors(documents: DocumentSet) -> Iterator[CatalogError]:
    known = documents.get("sources", {})
    for collection, entry_id, document in every_document(documents):
        if collection == "sources":
            continue
        for pointer, figure in _figures(document):
            missing = [key for key in ("source", "year", "kind") if key not in figure]
            if missing:
                detail = f"a figure needs {' and '.join(missing)}"
                yield CatalogError(collection, entry_id, pointer, detail)
            elif figure["source"] not in known:
                detail = f"no source {figure['source']!r:.80}"
                yield CatalogError(collection, entry_id, f"{pointer}/source", detail)
        for key in ("config_source", "described_by", "place_source", "source"):
            described = document.get(key)
            if described is not None and described not in known:
                yield CatalogError(collection, entry_id, f"/{key}", f"no source {described!r:.80}")
        cited = document.get("sources")
        for position, source in enumerate(cited if isinstance(cited, list) else ()):
            if source not in known:
                pointer = f"/sources/{position}"
                yield CatalogError(collection, entry_id, pointer, f"no source {source!r:.80}")


def _release_errors(documents: DocumentSet) -> Iterator[CatalogError]:
    """What is said of a release has a source, and is of the year that is stated beside it."""
    known = documents.get("sources", {})
    for collection in ("accelerators", "models"):
        for entry_id, document in documents.get(collection, {}).items():
            released = document.get("released")
            if not isinstance(released, Mapping):
                continue
            source, date = released.get("source"), str(released.get("date"))
            if source not in known:
                detail = f"no source {source!r:.80}"
                yield CatalogError(collection, entry_id, "/released/source", detail)
            if date[:4] != str(document.get("release_year")):
                detail = "is not in release_year"
                yield CatalogError(collection, entry_id, "/released/date", detail)


def _alias_errors(documents: DocumentSet) -> Iterator[CatalogError]:
    for collection, entries in documents.items():
        names = {entry_id.casefold(): entry_id for entry_id in entries}
        for entry_id, document in entries.items():
            aliases = document.get("aliases")
            for position, alias in enumerate(aliases if isinstance(aliases, list) else ()):
                holder = names.setdefault(str(alias).casefold(), entry_id)
                if holder != entry_id:
                    detail = f"{alias!r:.80} already means {holder}"
                    yield CatalogError(collection, entry_id, f"/aliases/{position}", detail)
            former = document.get(FORMER_IDS)
            for old in former if isinstance(former, Mapping) else ():
                holder = names.setdefault(str(old).casefold(), entry_id)
                if holder != entry_id or old in entries:
                    pointer = f"/{FORMER_IDS}/{escape(old)}"
                    yield CatalogError(collection, entry_id, pointer, f"{old!r:.80} means {holder}")


def _plausibility_errors(documents: DocumentSet) -> Iterator[CatalogError]:
    for entry_id, document in documents.get("accelerators", {}).items():
        stated = {pointer.rsplit("/", 1)[1]: figure for pointer, figure in _figures(document)}
        for pointer, detail in _implausible(stated):
            yield CatalogError("accelerators", entry_id, f"/figures/{pointer}", detail)
    for entry_id, document in documents.get("regions", {}).items():
        figures = document.get("figures")
        for name, listed in figures.items() if isinstance(figures, Mapping) else ():
            years = [figure.get("year") for figure in listed] if isinstance(listed, list) else []
            if years != sorted(years, key=lambda year: year or 0):
                detail = "dated figures must be sorted by year"
                yield CatalogError("regions", entry_id, f"/figures/{name}", detail)


def _instance_errors(documents: DocumentSet) -> Iterator[CatalogError]:
    """What instances refer to is in the catalog, and no region has two prices."""
    for entry_id, document in documents.get("instances", {}).items():
        accelerator = document.get("accelerator")
        if accelerator not in documents.get("accelerators", {}):
            detail = f"no accelerator {accelerator!r:.80}"
            yield CatalogError("instances", entry_id, "/accelerator", detail)
        prices = document.get("prices")
        seen: set[object] = set()
        for position, price in enumerate(prices if isinstance(prices, list) else ()):
            region = price.get("region") if isinstance(price, Mapping) else None
            pointer = f"/prices/{position}/region"
            if region is not None and region not in documents.get("regions", {}):
                yield CatalogError("instances", entry_id, pointer, f"no region {region!r:.80}")
            if region in seen:
                yield CatalogError("instances", entry_id, pointer, "already has a price")
            seen.add(region)


def _offer_errors(documents: DocumentSet) -> Iterator[CatalogError]:
    """What offers refer to is in the catalog."""
    sources = documents.get("sources", {})
    for provider, document in documents.get("offers", {}).items():
        rows = document.get("rows")
        for position, row in enumerate(rows if isinstance(rows, list) else ()):
            if not isinstance(row, list) or len(row) != len(COLUMNS):
                continue
            instance, region, *_, source = row
            pointer = f"/rows/{position}"
            for collection, name in (("instances", instance), ("regions", region)):
                if name and f"{provider}/{name}" not in documents.get(collection, {}):
                    detail = f"no {collection[:-1]} {provider}/{name!s:.80}"
                    yield CatalogError("offers", provider, pointer, detail)
            if source not in sources:
                yield CatalogError("offers", provider, pointer, f"no source {source!r:.80}")


def _rule_errors(documents: DocumentSet) -> Iterator[CatalogError]:
    """Rules hold in known regions, begin before they end, and turn on facts that can be given."""
    for entry_id, document in documents.get("rules", {}).items():
        regions = document.get("regions")
        for position, region in enumerate(regions if isinstance(regions, list) else ()):
            if region != EUROPEAN_UNION and region not in documents.get("regions", {}):
                detail = f"no region {region!r:.80}"
                yield CatalogError("rules", entry_id, f"/regions/{position}", detail)
        begins, ends = document.get("begins"), document.get("ends")
        if begins is not None and ends is not None and str(begins) >= str(ends):
            yield CatalogError("rules", entry_id, "/ends", "is not after begins")


def _engine_errors(documents: DocumentSet) -> Iterator[CatalogError]:
    """Generations have sources and names that mean one thing; all that is stated has a source."""
    sources = documents.get("sources", {})
    names: dict[str, str] = {}
    for entry_id, document in documents.get("engines", {}).items():
        generations = document.get("generations")
        for part, name in (
            *((part, "source") for part in ("runs_on", "reads", "trains")),
            ("reads", "usual_source"),
        ):
            stated = document.get(part)
            source = stated.get(name) if isinstance(stated, Mapping) else None
            if source is not None and source not in sources:
                detail = f"no source {source!r:.80}"
                yield CatalogError("engines", entry_id, f"/{part}/{name}", detail)
        for pointer, source in (
            *_sources_of_defaults(document),
            *_sources_of_lacks(document),
            *_sources_of_recipes(document),
        ):
            if source not in sources:
                yield CatalogError("engines", entry_id, pointer, f"no source {source!r:.80}")
        for position, one in enumerate(generations if isinstance(generations, list) else ()):
            if not isinstance(one, Mapping):
                continue
            pointer = f"/generations/{position}"
            if one.get("source") is not None and one["source"] not in sources:
                detail = f"no source {one['source']!r:.80}"
                yield CatalogError("engines", entry_id, f"{pointer}/source", detail)
            for name in one.get("names") or ():
                holder = names.setdefault(str(name).casefold(), entry_id)
                if holder != entry_id or name in documents["engines"]:
                    detail = f"{name!r:.80} already means another engine"
                    yield CatalogError("engines", entry_id, f"{pointer}/names", detail)


def _sources_of_lacks(document: Document) -> Iterator[tuple[str, object]]:
    """Where an engine says what it cannot run, and by which source."""
    lacks = document.get("lacks")
    for at, one in enumerate(lacks if isinstance(lacks, list) else ()):
        if isinstance(one, Mapping):
            yield f"/lacks/{at}/source", one.get("source")


def _sources_of_recipes(document: Document) -> Iterator[tuple[str, object]]:
    """Where a framework says how it is used where nobody tells, and by which source."""
    trains = document.get("trains")
    for name in ("unless_told", "also_usual"):
        stated = trains.get(name) if isinstance(trains, Mapping) else None
        for at, one in enumerate(stated if isinstance(stated, list) else ()):
            if isinstance(one, Mapping):
                yield f"/trains/{name}/{at}/source", one.get("source")


def _sources_of_defaults(document: Document) -> Iterator[tuple[str, object]]:
    """Where an engine or its generations say what they start with, and by which source."""
    generations = document.get("generations")
    holders = [("", document)]
    for position, one in enumerate(generations if isinstance(generations, list) else ()):
        holders.append((f"/generations/{position}", one if isinstance(one, Mapping) else {}))
    for pointer, holder in holders:
        rules = holder.get("defaults")
        for at, rule in enumerate(rules if isinstance(rules, list) else ()):
            if isinstance(rule, Mapping):
                yield f"{pointer}/defaults/{at}/source", rule.get("source")


def _implausible(figures: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, str]]:
    numbers = {
        name: value
        for name, figure in figures.items()
        if isinstance(value := figure.get("value"), (int, float)) and not isinstance(value, bool)
    }
    for slower, faster in _PEAK_ORDER:
        if slower in numbers and faster in numbers and numbers[faster] < numbers[slower]:
            yield faster, f"is below {slower}"
    for slower, faster, limit in _DENSE_RATIOS:
        if (
            slower in numbers
            and numbers.get(faster, 0.0) > limit * numbers[slower]
            and not figures[faster].get("note")
        ):
            detail = f"is above {limit:g} x {slower}; halve it if it counts sparsity, or add a note"
            yield faster, detail
    bits, rate = (numbers.get(name) for name in ("memory_bus_bits", "memory_data_rate_bits_per_s"))
    bandwidth = numbers.get("memory_bandwidth_bytes_per_s")
    if bits is not None and rate is not None and bandwidth is not None:
        carried = bits * rate / 8.0
        if bandwidth > _ROUNDING * carried:
            detail = f"is above the {carried:g} B/s that a bus of {bits:g} bit carries"
            yield "memory_bandwidth_bytes_per_s", detail
    usable, memory = numbers.get("memory_usable_bytes"), numbers.get("memory_bytes")
    if usable is not None and memory is not None:
        if usable > memory:
            yield "memory_usable_bytes", "is above memory_bytes"
        elif usable < _LEAST_USABLE_RATIO * memory:
            yield "memory_usable_bytes", "is less than half of memory_bytes"
    idle, most = numbers.get("idle_power_w"), numbers.get("thermal_design_power_w")
    if idle is not None and most is not None and idle >= most:
        yield "idle_power_w", "is not below thermal_design_power_w"
    waiting = numbers.get("waiting_power_w")
    if waiting is not None and most is not None and waiting >= most:
        yield "waiting_power_w", "is not below thermal_design_power_w"
    if waiting is not None and idle is not None and waiting < idle:
        yield "waiting_power_w", "is below idle_power_w"


def _figures(document: Document) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Every figure of a document that is an object, with its pointer."""
    held = document.get("figures")
    named = dict(held) if isinstance(held, Mapping) else {}
    for name, given in named.items():
        for position, figure in enumerate(given if isinstance(given, list) else (given,)):
            pointer = f"/figures/{escape(name)}"
            if isinstance(figure, Mapping):
                yield f"{pointer}/{position}" if isinstance(given, list) else pointer, figure
    prices = document.get("prices")
    for position, price in enumerate(prices if isinstance(prices, list) else ()):
        if isinstance(price, Mapping):
            yield f"/prices/{position}", price
    effects = document.get("quality_effects")
    for position, effect in enumerate(effects if isinstance(effects, list) else ()):
        if isinstance(effect, Mapping):
            yield f"/quality_effects/{position}", effect
    for name in ("published_parameters", "published_active_parameters"):
        figure = document.get(name)
        if isinstance(figure, Mapping):
            yield f"/{name}", figure
