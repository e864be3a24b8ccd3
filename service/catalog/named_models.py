"""The model that a name means, where no entry has it: a copy of one, or one in another format.

A name that is an entry's but for its owner is that of a copy. One with endings that say how weights
are stored (:mod:`service.catalog.entries.release_names`) is a release of the model before them. A
publisher stores releases of one kind of model alike, so what a format leaves as it is follows the
catalog's releases of the same publisher, else the usual settings of the format's tool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from service.catalog.database.own import is_own
from service.catalog.derived import derived
from service.catalog.entries.entry import Entry
from service.catalog.entries.references import AmbiguousReference, UnknownReference
from service.catalog.entries.release_names import Reading, Stored, readings
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.cache_format import cache_format
from service.core.architecture.model import ModelArchitecture
from service.core.architecture.quantization import checkpoint_format
from service.core.explanation import EstimateWarning

#: Code of the remark that says what a name was taken for.
TAKEN_FOR = "model_taken_for"
#: Of a model's document, what is not that of a release of it.
_OF_THE_MODEL = frozenset(
    {"aliases", "config", "formats", "former_ids", "name", "notes", "quality_effects"}
)
#: Organisations of the Hub that have had another name, in small letters.
MOVED: Mapping[str, str] = {
    "neuralmagic": "redhatai",
    "nm-testing": "redhatai",
    "thudm": "zai-org",
    "cohereforai": "coherelabs",
    "cognitivecomputations": "quixiai",
    "ehartford": "quixiai",
}
#: Modules of one layer, by its number.
_OF_LAYER = re.compile(r"layers?\.\d")


def model_named(name: str, snapshot: CatalogSnapshot) -> Entry[ModelArchitecture]:
    """The model that a name means: an entry, a copy of one, or a release of one.

    The latter two say so in their warnings; a release goes by the name that was given.

    Raises
    ------
    UnknownReference
        If it means none, with the ids nearest to it; :class:`AmbiguousReference` if several.
    """
    try:
        return snapshot.find("models", name)
    except AmbiguousReference:
        raise
    except UnknownReference:
        found = None if is_own(name) else _taken(snapshot, name)
        if found is None:
            raise
        return found


@derived(most=1024)
def _taken(snapshot: CatalogSnapshot, name: str) -> Entry[ModelArchitecture] | None:
    found = _meant(name, snapshot)
    if found is None:
        return None
    entry, reading = found
    if reading.stored is None:
        remark = f"no entry goes by {name!r}, which is taken for {entry.id}"
        return replace(entry, value=_remarked(entry.value, remark))
    return _release(name, _base_of(entry, snapshot), reading.stored, snapshot)


def _meant(name: str, snapshot: CatalogSnapshot) -> tuple[Entry[ModelArchitecture], Reading] | None:
    index = snapshot.references["models"]
    owner = _owner(name)
    of_another: tuple[Entry[ModelArchitecture], Reading] | None = None
    for reading in readings(name):
        longer = reading.before_tuning
        if longer is not None and index.begins(longer):
            continue  # Versions of it may differ in more than their tuning.
        found = index.find(reading.plain)
        if found is None:
            continue
        entry = snapshot.models[found]
        if reading.stored is not None or not owner or _owner(found) == owner:
            return entry, reading
        if "base_model" not in entry.document:
            return entry, reading
        # A release of somebody else, who may have left other modules as they are.
        of_another = of_another or (entry, reading)
    return of_another


def _called(name: str) -> str:
    """A model's name on the Hub, or that of its file without folders."""
    return name if _owner(name) else re.split(r"[/\\]", name)[-1]


def _owner(name: str) -> str:
    """Who publishes a model by its name on the Hub, under today's name; "" for other names."""
    owner, _, rest = name.casefold().partition("/")
    return MOVED.get(owner, owner) if rest and "/" not in rest else ""


def _base_of(
    entry: Entry[ModelArchitecture], snapshot: CatalogSnapshot
) -> Entry[ModelArchitecture]:
    """The model that an entry is a release of, or the entry itself."""
    base = entry.document.get("base_model")
    return entry if base is None else snapshot.models[base]


def _release(
    name: str, base: Entry[ModelArchitecture], stored: Stored, snapshot: CatalogSnapshot
) -> Entry[ModelArchitecture]:
    """A model in the format that a name says."""
    architecture = base.value
    config = _as_published(name, base, stored, snapshot)
    if not config:
        architecture = replace(
            architecture, native_format=stored.weights, native_number_format=None
        )
    elif stored.weights != architecture.native_format:
        held = checkpoint_format({**base.document["config"], "quantization_config": config})
        architecture = replace(
            architecture, native_format=held.listed_id, native_number_format=held.exact
        )
    why = "as its name says" if stored.is_told else "the usual one of such files"
    cache = cache_format({"quantization_config": config})
    architecture = replace(architecture, native_cache_format=cache)
    caches = "" if cache is None else f" and caches in {cache.upper()}"
    remark = (
        f"no entry goes by {name!r}, which is taken for {base.id} with weights in "
        f"{stored.weights.upper()}{caches}, {why}, unless you name another format"
    )
    document = {key: held for key, held in base.document.items() if key not in _OF_THE_MODEL}
    document |= {"id": _called(name), "base_model": base.id, "quantization_config": dict(config)}
    return Entry(document["id"], document, _remarked(architecture, remark), base.origins)


def _remarked(architecture: ModelArchitecture, remark: str) -> ModelArchitecture:
    warning = EstimateWarning(TAKEN_FOR, remark)
    return replace(architecture, warnings=(warning, *architecture.warnings))


def _as_published(
    name: str, base: Entry[ModelArchitecture], stored: Stored, snapshot: CatalogSnapshot
) -> Mapping[str, Any]:
    """The ``quantization_config`` of a release, as far as releases like it are known."""
    if not stored.config:
        return {}
    owner = _owner(name)
    like = sorted(
        (not same_owner, not same_model, id_)
        for id_, same_owner, same_model in _alike(owner, base, stored, snapshot)
    )
    if not like:
        return stored.config
    found: Mapping[str, Any] = snapshot.models[like[0][-1]].document["quantization_config"]
    told = {key: value for key, value in stored.config.items() if key.startswith("kv_cache")}
    return {**found, **told}


def _alike(
    owner: str, base: Entry[ModelArchitecture], stored: Stored, snapshot: CatalogSnapshot
) -> Iterator[tuple[str, bool, bool]]:
    """Releases in the same format: by the owner of a model of its kind, or by anybody of itself.

    The latter only where no owner is named. Each with whether it is the owner's, and whether it is
    of the model itself.
    """
    for id_, base_id in _releases(snapshot):
        same_owner, same_model = _owner(id_) == owner, base_id == base.id
        if not same_owner and (owner or not same_model):
            continue
        of = snapshot.models[base_id]
        kind = of.value.model_type, of.value.layer_count
        own_kind = base.value.model_type, base.value.layer_count
        release = snapshot.models[id_]
        numbered = _OF_LAYER.search(str(release.document["quantization_config"]))
        alike = kind == own_kind if numbered else kind[0] == own_kind[0]
        if (same_model or alike) and release.value.native_format == stored.weights:
            yield id_, same_owner, same_model


@derived()
def _releases(snapshot: CatalogSnapshot) -> tuple[tuple[str, str], ...]:
    """Ids of all releases of other models, each with that of the model."""
    return tuple(
        (id_, entry.document["base_model"])
        for id_, entry in snapshot.models.items()
        if "base_model" in entry.document
    )
