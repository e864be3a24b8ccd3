"""Number formats of weights that a search tries, and where weights in them come from.

First the checkpoint's own, then those of published releases in the catalog, then what the engine
makes by itself of the checkpoint. What the caller would have to convert is tried only if asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Precision
from service.core.engines import Engine
from service.core.number_formats import NUMBER_FORMATS, NumberFormat
from service.estimation.recommendations.answers import PublishedEffect, WeightsFrom
from service.estimation.references import ModelReference
from service.estimation.requests import PrecisionRequest
from service.estimation.resolution import Problems, resolve_precision

#: Formats that engines read widely, and that a checkpoint can be converted to.
_CONVERTED = ("bf16", "fp8", "int8", "awq-int4", "nvfp4", "mxfp4")
#: What engines of native code read, and make of checkpoints with tools of their own.
_FILES = ("gguf-q8_0", "gguf-q4_k_m")
_FILE_PREFIX = "gguf-"
#: What files hold experts as the checkpoint does in, and everything else in 8 bits.
_FILE_OF = {"mxfp4": "gguf-mxfp4"}
_WHOLE_CACHE = "bf16"
#: Formats that halve a cache, of which the first that an engine holds one in is tried.
_HALF_CACHES = ("fp8", "gguf-q8_0", "int8")
_HALF_BITS = 16.0
#: Releases of fewer bits lose so much that they are tried only where they are asked for.
_LEAST_USUAL_BITS = 4.0

Kind: TypeAlias = Literal["checkpoint", "release", "engine", "conversion"]


@dataclass(frozen=True, slots=True)
class TriedModel:
    """A model, or a release of it in another format, with the formats that are tried of it.

    ``reference`` is what a request calls it; ``origins`` says of each format, by its id, where
    weights in it come from.
    """

    entry: Entry[ModelArchitecture]
    reference: ModelReference
    formats: Mapping[str, NumberFormat]
    origins: Mapping[str, WeightsFrom]

    def precisions(self, caches: Sequence[str]) -> tuple[Precision, ...]:
        """Every format with every format of caches."""
        bf16 = NUMBER_FORMATS["bf16"]
        return tuple(
            Precision(one, NUMBER_FORMATS[cache], bf16)
            for one in self.formats.values()
            for cache in caches
        )

    def widest(self) -> NumberFormat:
        """The format with the most bits."""
        return max(self.formats.values(), key=lambda one: one.bits_per_element)

    def made_nowhere_else(self, releases: Sequence[TriedModel]) -> TriedModel:
        """Without what the engine's tools would have to make, but is published as a release."""
        published = {name for one in releases for name in one.formats}
        kept = {
            name: one
            for name, one in self.formats.items()
            if name not in published or self.origins[name]["kind"] != "engine"
        }
        return replace(self, formats=kept)

    def at_least(self, bits: float) -> TriedModel:
        """Without formats of fewer bits."""
        kept = {name: one for name, one in self.formats.items() if one.bits_per_element >= bits}
        return replace(self, formats=kept)


def tried_caches(asked: Sequence[str] | None, engine: Engine) -> tuple[str, ...]:
    """Formats of the KV cache to try: what is asked for of it, else 16 bits and half of that.

    Of an engine that says nothing of its caches, 16 bits alone.
    """
    if asked is not None:
        return tuple(one for one in asked if engine.caches.has(one))
    half = next((one for one in _HALF_CACHES if engine.caches.states(one)), None)
    return (_WHOLE_CACHE,) if half is None else (_WHOLE_CACHE, half)


def tried_model(
    model: Entry[ModelArchitecture],
    reference: ModelReference,
    requested: Sequence[str] | None,
    allow_conversions: bool,
    engine: Entry[Engine],
) -> TriedModel:
    """What is tried of a model itself: formats asked for, else its own and what can be made of it.

    Parameters
    ----------
    model, reference
        The model, and what the request calls it.
    requested, allow_conversions
        What the caller wants tried, None for what there is; and whether the caller would convert.
    engine
        What is to read the weights.
    """
    shipped = resolve_precision(PrecisionRequest(), model.value).weights
    made = _made_by(engine, shipped)
    reads = engine.value.formats
    if requested is not None:
        wanted = [_named(name, model.value) for name in requested]
    else:
        wanted = [NUMBER_FORMATS[name] for name in made]
        if _FILE_OF.get(shipped.listed_id) not in made:
            wanted.insert(0, shipped)
        if allow_conversions:
            # A checkpoint in few bits gains nothing from being widened again.
            usual = (NUMBER_FORMATS[name] for name in _CONVERTED)
            most = shipped.bits_per_element
            wanted += [one for one in usual if one.bits_per_element <= most]
    wanted = [one for one in wanted if reads.has(one.listed_id)]
    origins: dict[str, WeightsFrom] = {}
    for one in wanted:
        kind: Kind = "engine" if one.id in made else "conversion"
        origins.setdefault(one.id, _from("checkpoint" if one.id == shipped.id else kind))
    return TriedModel(model, reference, {one.id: one for one in wanted}, origins)


def tried_releases(
    model: Entry[ModelArchitecture],
    allow_conversions: bool,
    engine: Entry[Engine],
    snapshot: CatalogSnapshot,
) -> list[TriedModel]:
    """Published releases of a model that the engine reads, one for each format.

    Of several in one format, the one whose effect on quality is published, then the one of the
    model's own organisation. What its makers ship in 8 bits or fewer is narrowed further only
    where the caller would convert it as well.
    """
    shipped_bits = resolve_precision(PrecisionRequest(), model.value).weights.bits_per_element
    own_is_narrow = shipped_bits < _HALF_BITS and not allow_conversions
    least_bits = shipped_bits if own_is_narrow else _LEAST_USUAL_BITS
    found: dict[str, tuple[tuple[bool, bool, str], TriedModel]] = {}
    organisation = model.document.get("organisation")
    for release in snapshot.models.values():
        document = release.document
        if document.get("base_model") != model.id:
            continue
        own = resolve_precision(PrecisionRequest(), release.value).weights
        files = document.get("formats")
        of_files = files is not None or own.listed_id.startswith(_FILE_PREFIX)
        if of_files and not engine.value.formats.names:
            # Engines of servers read such files, if at all, without kernels made for them.
            continue
        offered = [own] if files is None else _usual_files(files)
        effects = document.get("quality_effects") or []
        standing = (not effects, document.get("organisation") != organisation, release.id)
        for one in offered:
            if not engine.value.formats.has(one.id) or one.bits_per_element < least_bits:
                continue
            if one.id not in found or standing < found[one.id][0]:
                # Of several files, what is published is of the one that stands for all.
                origin = _from("release", release.id, effects if one.id == own.id else ())
                tried = TriedModel(release, release.id, {one.id: one}, {one.id: origin})
                found[one.id] = (standing, tried)
    return [tried for _, tried in found.values()]


def _usual_files(names: Sequence[str]) -> list[NumberFormat]:
    """Files of a release that people take, or all where it has none of these.

    Others of about as many bits are older forms that lose more, or smaller for what little they
    lose: llama.cpp, tools/quantize, README, 2025; llama-server itself fetches Q4_K_M.
    """
    usual = [name for name in _FILES if name in names]
    return [NUMBER_FORMATS[name] for name in usual or names]


def note_unread(
    engines: Iterable[str], model: str, pointer: str, asked: bool, problems: Problems
) -> None:
    """Note that no engine reads any format that is tried of a model."""
    what = (
        "any of these formats" if asked else f"{model} as published, or any quantised release of it"
    )
    problems.add(pointer, f"{', '.join(engines)} cannot read {what}; name another engine")


def note_bits(least_bits: float, widest: NumberFormat, of: str, problems: Problems) -> None:
    """Note a limit on the bits of weights that no format which is tried meets."""
    problems.add(
        "/limits/weight_bits_at_least",
        f"{least_bits:g} bits contradict the formats of {of}: the widest is {widest.id} with "
        f"{widest.bits_per_element:.3g} bits",
    )


def _named(name: str, architecture: ModelArchitecture) -> NumberFormat:
    return resolve_precision(PrecisionRequest(weights=name), architecture).weights


def _made_by(engine: Entry[Engine], shipped: NumberFormat) -> tuple[str, ...]:
    """Formats that an engine makes of a checkpoint, when it starts or by its tools.

    Tools that write files read checkpoints of fewer than 16 bits, too, and narrow them; servers
    take these as they are.
    """
    if engine.value.formats.names:
        whole = _FILE_OF.get(shipped.listed_id)
        if whole is not None and engine.value.formats.has(whole):
            return (whole,)
        return tuple(
            name
            for name in _FILES
            if engine.value.formats.has(name)
            and NUMBER_FORMATS[name].bits_per_element < shipped.bits_per_element
        )
    if shipped.bits_per_element < _HALF_BITS:
        return ()
    flag = engine.document.get("start", {}).get("flags", {}).get("weights", {})
    return tuple(name for name in _CONVERTED if name in flag.get("values", ()))


def _from(
    kind: Kind,
    release: str | None = None,
    effects: Sequence[PublishedEffect] = (),
) -> WeightsFrom:
    return {"kind": kind, "release": release, "quality_effects": list(effects)}
