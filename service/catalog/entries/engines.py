"""Engines from catalog documents, and whose figures hold for them."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from itertools import pairwise
from typing import Any, cast, get_args

from service.catalog.entries.documents import Document, DocumentInvalid, canonical
from service.catalog.entries.engine_backends import backends_from
from service.catalog.entries.engine_defaults import defaults_from
from service.catalog.entries.entry import Entry, FigureOrigin
from service.catalog.entries.references import FORMER_IDS
from service.core.engines import (
    CLASSES,
    FALLBACK_ENGINE,
    Engine,
    EngineWorkload,
    Generation,
    Lack,
    class_of_unknown,
    engine_of_release,
    release_key,
)
from service.core.format_lists import FormatList
from service.core.hardware import HardwareList
from service.core.recipes import (
    ALSO_OPEN,
    UNTOLD,
    UNTOLD_OF_BATCHES,
    UNTOLD_OF_LAYOUTS,
    UNTOLD_OF_PLACES,
    UNTOLD_OF_PRECISION,
    AdapterKernels,
    ExpertCapacity,
    InterleavedRounds,
    Recipes,
    Recomputation,
    Usual,
)
from service.core.versions import KnownRelease

_OF_GENERATION = ("id", "since", "differs", "version", "constants_of")


def engine_from_document(document: Document, engines: Mapping[str, Document]) -> Entry[Engine]:
    """An engine from a catalog document, beside those of all engines.

    Raises
    ------
    DocumentInvalid
        With a pointer to whatever is missing or of the wrong type, or where engines refer to each
        other in a circle or to one that is not there.
    """
    fields: Document = canonical(document)
    passed = {fields["id"]}
    nearest: Document = fields
    while "like" in nearest:
        referred = nearest["like"]
        pointer = "/like" if nearest is fields else ""
        if not isinstance(referred, str) or referred not in engines:
            raise DocumentInvalid(pointer, f"no engine {referred!r:.80}")
        if referred in passed:
            raise DocumentInvalid(pointer, "leads back to itself")
        passed.add(referred)
        nearest = engines[referred]
    runs_on = fields.get("runs_on", {})
    if not isinstance(runs_on, Mapping):
        raise DocumentInvalid("/runs_on", "must be an object")
    reads = fields.get("reads", {})
    if not isinstance(reads, Mapping):
        raise DocumentInvalid("/reads", "must be an object")
    holds = fields.get("holds", {})
    if not isinstance(holds, Mapping):
        raise DocumentInvalid("/holds", "must be an object")
    layout = fields.get("layout", {})
    if not isinstance(layout, Mapping):
        raise DocumentInvalid("/layout", "must be an object")
    beam_search = fields.get("beam_search", {})
    if not isinstance(beam_search, Mapping):
        raise DocumentInvalid("/beam_search", "must be an object")
    trains = fields.get("trains", {})
    if not isinstance(trains, Mapping):
        raise DocumentInvalid("/trains", "must be an object")
    value = Engine(
        id=str(fields["id"]),
        name=str(fields.get("name", fields["id"])),
        classes=_classes(fields),
        generations=_generations(fields.get("generations")),
        like=fields.get("like"),
        hardware=_hardware(runs_on, "/runs_on/hardware"),
        usual=_hardware(runs_on, "/runs_on/usual"),
        usual_to_train=_hardware(trains, "/trains/usual_on"),
        formats=_formats(reads, "reads", "formats"),
        lacks=_lacks(fields.get("lacks")),
        caches=_formats(holds, "holds", "caches"),
        usual_caches=dict(holds.get("usual", {})),
        usual_weights=dict(reads.get("usual", {})),
        divides_layers=layout.get("divides") == "layers",
        experts_on_host=layout.get("experts") == "host",
        offloaded=layout.get("offloaded"),
        spills_from=layout.get("spills_from"),
        spills_layers=layout.get("spills") == "layers",
        shares_experts=layout.get("shares_experts") is True,
        recipes=_recipes(trains),
        preallocating=fields.get("preallocating") is True,
        pads_heads=fields.get("pads_heads") is True,
        preempting=fields.get("preempting") is True,
        beam_caches=beam_search.get("caches"),
        defaults=defaults_from(fields.get("defaults"), "/defaults"),
        backends=backends_from(fields.get("backends")),
        newest=_newest(fields.get("newest")),
        ended=fields.get("ended"),
        unestimated=fields.get("unestimated"),
    )
    stated = {
        "description": fields.get("source"),
        "runs_on": runs_on.get("source"),
        "reads": reads.get("source"),
        "usual_weights": reads.get("usual_source"),
        "holds": holds.get("source"),
        "layout": layout.get("source"),
        "beam_search": beam_search.get("source"),
        "trains": trains.get("source"),
        "backends": fields.get("backends", {}).get("source"),
        "newest": (fields.get("newest") or {}).get("source"),
    } | {one["id"]: one.get("source") for one in fields.get("generations") or ()}
    origins = {
        name: FigureOrigin("engines", value.id, source, None, "datasheet")
        for name, source in stated.items()
    }
    return Entry(value.id, fields, value, origins)


def names_of(document: Document) -> Iterator[str]:
    """What else an entry goes by: aliases, former ids, and an engine's names of a generation."""
    yield from map(str, document.get("aliases") or ())
    yield from map(str, document.get(FORMER_IDS) or ())
    generations = document.get("generations")
    for one in generations if isinstance(generations, list) else ():
        if isinstance(one, Mapping):
            yield from map(str, one.get("names") or ())


def releases_of(engines: Mapping[str, Entry[Engine]], workload: EngineWorkload) -> Iterator[str]:
    """Keys of all releases that run a workload, an engine before its generations."""
    for id_, entry in engines.items():
        if workload in entry.value.classes and id_ != FALLBACK_ENGINE:
            yield id_
            for generation in entry.value.generations:
                yield release_key(id_, generation.id)


def kin_of(release: str, engines: Mapping[str, Entry[Engine]]) -> Iterator[tuple[str, str | None]]:
    """Keys of figures of a release and its engine with None, then of those it is like with an id.

    Parameters
    ----------
    release
        The key of a release, or an engine's id.
    engines
        All engines.
    """
    engine = engines[engine_of_release(release)].value
    yield release, None
    if engine.id != release:
        yield engine.id, None
    while engine.like is not None:
        yield engine.like, engine.like
        engine = engines[engine.like].value


def figures_of(
    release: str, engines: Mapping[str, Entry[Engine]], workload: EngineWorkload
) -> dict[str, str | None]:
    """Keys of figures of speed that hold for a release, the nearest first.

    Parameters
    ----------
    release
        The key of a release, or an engine's id.
    engines
        All engines.
    workload
        What it runs, which decides its class.

    Returns
    -------
    dict of str to str or None
        None for figures of its own; else whose they are that stand in: those of the engines that
        it is like, of its class, and of the engine that stands for that.
    """
    held = dict(kin_of(release, engines))
    class_ = engines[engine_of_release(release)].value.classes.get(workload)
    if class_ is not None:
        reference = CLASSES[class_].reference
        held.setdefault(class_, f"{class_} engines")
        held.setdefault(reference, f"{class_} engines ({reference})")
    return held


def _lacks(stated: object) -> tuple[Lack, ...]:
    if stated is None:
        return ()
    if not isinstance(stated, list) or not all(isinstance(one, Mapping) for one in stated):
        raise DocumentInvalid("/lacks", "must be a list of objects")
    return tuple(
        Lack(
            formats=FormatList(frozenset(map(str, one.get("formats", ())))),
            hardware=HardwareList(frozenset(map(str, one.get("hardware", ())))),
            models=frozenset(map(str, one.get("models", ()))),
            instead=one.get("instead"),
        )
        for one in stated
    )


def _hardware(stated: Document, pointer: str) -> HardwareList:
    named = stated.get(pointer.rpartition("/")[2], [])
    if not isinstance(named, list):
        raise DocumentInvalid(pointer, "must be a list")
    return HardwareList(frozenset(map(str, named)))


def _formats(stated: Document, part: str, of: str) -> FormatList:
    named = stated.get(of, [])
    if not isinstance(named, list):
        raise DocumentInvalid(f"/{part}/{of}", "must be a list")
    return FormatList(frozenset(map(str, named)))


def _recipes(trains: Document) -> Recipes:
    lists: dict[str, tuple[str, ...]] = {}
    for part in (
        *("methods", "degrees", "fp8_recipes", "adapters", "optimizers", "offload_places"),
        *("adapter_degrees", "products", "also_products", "recomputes_in_part"),
    ):
        names = trains.get(part, [])
        if not isinstance(names, list):
            raise DocumentInvalid(f"/trains/{part}", "must be a list")
        lists[part] = tuple(map(str, names))
    named = {part: frozenset(names) for part, names in lists.items()}
    most = trains.get("most_zero_stage_in_pipeline")
    if most is not None and not isinstance(most, int):
        raise DocumentInvalid("/trains/most_zero_stage_in_pipeline", "must be a whole number")
    stages = trains.get("zero_stages", [])
    if not isinstance(stages, list) or not all(isinstance(one, int) for one in stages):
        raise DocumentInvalid("/trains/zero_stages", "must be a list of whole numbers")
    predicts = trains.get("predicts")
    return Recipes(
        named["methods"],
        named["degrees"],
        most,
        tuple(stages),
        lists["fp8_recipes"],
        named["adapters"],
        named["optimizers"],
        _formats(trains, "trains", "bases"),
        named["products"] if "products" in trains else None,
        named["offload_places"] if "offload_places" in trains else None,
        trains.get("recomputes_last_product", True) is True,
        trains.get("fp8_attention") is True,
        None if predicts is None else predicts is True,
        str(trains.get("gradient_dtype", "bf16")),
        named["adapter_degrees"],
        trains.get("divided_by"),
        _unless_told(trains),
        _usual(
            trains,
            "unless_told",
            UNTOLD + UNTOLD_OF_LAYOUTS + UNTOLD_OF_BATCHES,
            conditional=True,
        ),
        _usual(trains, "also_usual", UNTOLD + ALSO_OPEN),
        lists["also_products"],
        _one_of(InterleavedRounds, trains.get("interleaved_rounds")),
        recomputes_in_part=cast("tuple[Recomputation, ...]", lists["recomputes_in_part"]),
        usual_base=trains.get("usual_base"),
        shard_groups=trains.get("shard_groups", True) is True,
        divides_models=trains.get("divides_models") is True,
        overlaps_zero=trains.get("overlaps_zero", True) is True,
        adapter_kernels=_one_of(AdapterKernels, trains.get("adapter_kernels")) or "each",
        expert_capacity=_one_of(ExpertCapacity, trains.get("expert_capacity")),
        secondary_shards=trains.get("secondary_shards") is True,
        gathers_in=frozenset(trains.get("gathers_in", ())),
        scatters_in=frozenset(trains.get("scatters_in", ())),
    )


def _one_of(kind: Any, stated: object) -> Any:
    return next((known for known in get_args(kind) if stated == known), None)


#: What says when settings are usual.
_CONDITIONS = frozenset({"methods", "zero_stages", "since", "encoders", "routed"})


def _unless_told(trains: Document) -> Mapping[str, Any]:
    """Settings that it always sets otherwise than most do where nobody says; the last counts."""
    known = (
        *(UNTOLD + UNTOLD_OF_LAYOUTS + UNTOLD_OF_PRECISION),
        *(UNTOLD_OF_PLACES + UNTOLD_OF_BATCHES),
    )
    return {
        name: value
        for one in _stated(trains, "unless_told")
        if not _CONDITIONS & set(one)
        for name, value in _settings(one, known).items()
    }


def _usual(
    trains: Document, part: str, known: Container[str], *, conditional: bool = False
) -> tuple[Usual, ...]:
    """Settings that are usual under conditions; all of a part, or those that have any."""
    return tuple(
        Usual(
            _settings(one, known),
            frozenset(one.get("methods", ())),
            frozenset(one.get("zero_stages", ())),
            one.get("since"),
            one.get("encoders") is True,
            one.get("routed") is True,
        )
        for one in _stated(trains, part)
        if not conditional or _CONDITIONS & set(one)
    )


def _stated(trains: Document, name: str) -> list[Mapping[str, Any]]:
    stated = trains.get(name, [])
    if not isinstance(stated, list) or not all(isinstance(one, Mapping) for one in stated):
        raise DocumentInvalid(f"/trains/{name}", "must be a list of objects")
    return stated


def _settings(stated: Mapping[str, Any], known: Container[str]) -> Mapping[str, Any]:
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in stated.items()
        if name in known
    }


def _classes(fields: Document) -> Mapping[EngineWorkload, str]:
    """Its class by what it runs: as stated, else as its name says."""
    workloads = fields.get("workloads")
    if not isinstance(workloads, list) or not workloads:
        raise DocumentInvalid("/workloads", "must be a list")
    stated = fields.get("classes", {})
    if not isinstance(stated, Mapping):
        raise DocumentInvalid("/classes", "must be an object")
    classes: dict[EngineWorkload, str] = {}
    for position, named in enumerate(workloads):
        if named not in get_args(EngineWorkload):
            raise DocumentInvalid(f"/workloads/{position}", "must be inference or training")
        workload = cast("EngineWorkload", named)
        class_ = stated.get(workload) or class_of_unknown(str(fields["id"]), None, workload)
        if class_ not in CLASSES or CLASSES[class_].workload != workload:
            known = ", ".join(one.id for one in CLASSES.values() if one.workload == workload)
            raise DocumentInvalid(f"/classes/{workload}", f"must be one of {known}")
        classes[workload] = class_
    return classes


def _newest(stated: object) -> KnownRelease | None:
    if stated is None:
        return None
    if not isinstance(stated, Mapping) or not {"version", "seen"}.issubset(stated):
        raise DocumentInvalid("/newest", "must be an object with version and seen")
    return KnownRelease(str(stated["version"]), str(stated["seen"]))


def _generations(given: Any) -> tuple[Generation, ...]:
    if given is None:
        return ()
    if not isinstance(given, list):
        raise DocumentInvalid("/generations", "must be a list")
    found = []
    for position, one in enumerate(given):
        pointer = f"/generations/{position}"
        if not isinstance(one, Mapping) or not {"id", "since", "differs"}.issubset(one):
            raise DocumentInvalid(pointer, "must be an object with id, since and differs")
        found.append(
            Generation(
                **{name: str(one[name]) for name in _OF_GENERATION if name in one},
                aliases=tuple(map(str, one.get("aliases") or ())),
                names=tuple(map(str, one.get("names") or ())),
                preempting=one.get("preempting"),
                launch_bound=one.get("launch_bound"),
                defaults=defaults_from(one.get("defaults"), f"{pointer}/defaults"),
                formats=FormatList(frozenset(map(str, one.get("formats") or ()))),
                fuses_attention=one.get("fuses_attention", True) is True,
            )
        )
    for position, (older, newer) in enumerate(pairwise(found), start=1):
        if older.since > newer.since:
            detail = "generations must stand from the oldest to the newest"
            raise DocumentInvalid(f"/generations/{position}/since", detail)
    if len({one.id for one in found}) < len(found):
        raise DocumentInvalid("/generations", "two generations have the same id")
    for position, one in enumerate(found):
        if one.constants_of not in {None, *(earlier.id for earlier in found[:position])}:
            pointer = f"/generations/{position}/constants_of"
            raise DocumentInvalid(pointer, "must be the id of an earlier generation")
    return tuple(found)
