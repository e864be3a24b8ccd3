"""The engine that serves or trains where a request names none, by hardware, formats and models."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from service.catalog.derived import derived
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Accelerator
from service.core.engines import (
    REFERENCE_ENGINE,
    USUAL_ENGINE,
    USUAL_ENGINE_OF_GGUF,
    Engine,
)
from service.core.format_lists import is_particular
from service.core.hardware import Hardware


def that_serves(
    usual: str,
    model_types: Collection[str],
    accelerators: Sequence[Accelerator],
    snapshot: CatalogSnapshot,
) -> str:
    """The usual engine, or the one that serves models of types that this one does not."""
    engine = snapshot.engines.get(usual)
    if engine is None or not model_types:
        return usual
    lacks = [engine.value.lack_of(one) for one in model_types]
    named = {"" if lack is None else lack.instead or "" for lack in lacks}
    able = snapshot.engines.get(named.pop()) if len(named) == 1 else None
    if able is None or not all(able.value.runs_on(one.hardware) for one in accelerators):
        return usual
    return able.id


def told_formats(
    asked: Sequence[str] | None, models: Iterable[ModelArchitecture]
) -> tuple[str, ...]:
    """Formats of weights that tell the engine of a search: those asked for, else those of files.

    Empty where models come in what most engines read.
    """
    shipped = tuple(model.native_format for model in models)
    of_files = all(one.startswith("gguf-") or is_particular(one) for one in shipped)
    return tuple(asked or (shipped if of_files else ()))


def that_searches(
    usual: str,
    weights_formats: Sequence[str],
    accelerators: Sequence[Accelerator],
    snapshot: CatalogSnapshot,
) -> str:
    """The usual engine, or one that decodes with beams on the accelerators if this one does not.

    Of these it is one that reads the weights, rather one that is usual there, and then the one that
    others are held against.
    """
    engines = [entry.value for entry in snapshot.engines.values()]

    def able(engine: Engine) -> bool:
        runs = all(engine.runs_on(one.hardware) for one in accelerators)
        return engine.beam_caches is not None and engine.unestimated is None and runs

    def rank(engine: Engine) -> tuple[bool, bool, bool, bool]:
        return (
            engine.id != usual,
            not all(map(engine.formats.states, weights_formats)),
            not all(engine.usual.has(one.hardware) for one in accelerators),
            engine.id != REFERENCE_ENGINE,
        )

    found = min(filter(able, engines), key=rank, default=None)
    return usual if found is None else found.id


def usual_engine(
    accelerators: Sequence[Accelerator],
    weights_formats: Sequence[str],
    snapshot: CatalogSnapshot,
) -> str:
    """Id of the engine that most people run on the accelerators, and that runs on most of them."""
    of_gguf = snapshot.engines.get(USUAL_ENGINE_OF_GGUF)
    if (
        of_gguf is not None
        and weights_formats
        and all(one.startswith("gguf-") for one in weights_formats)
        and all(of_gguf.value.runs_on(one.hardware) for one in accelerators)
    ):
        return of_gguf.id
    if weights_formats and all(is_particular(one) for one in weights_formats):
        engines = (entry.value for entry in snapshot.engines.values())
        able = (one.id for one in engines if all(map(one.formats.states, weights_formats)))
        return next(able, USUAL_ENGINE)
    found = dict.fromkeys(filter(None, (_usual_on(snapshot, one.hardware) for one in accelerators)))

    def runs_on(id_: str) -> int:
        engine = snapshot.engines[id_].value
        return sum(engine.runs_on(one.hardware) for one in accelerators)

    return max(found, key=runs_on, default=USUAL_ENGINE)


@derived(most=1024)
def usual_framework(snapshot: CatalogSnapshot, hardware: Hardware) -> str | None:
    """Id of the framework that most people train with on hardware; None where many are in use."""
    engines = (entry.value for entry in snapshot.engines.values())
    return next((one.id for one in engines if one.usual_to_train.has(hardware)), None)


@derived(most=1024)
def _usual_on(snapshot: CatalogSnapshot, hardware: Hardware) -> str | None:
    """The engine whose list has the accelerator itself, else the one that has its family."""
    usual = [one for entry in snapshot.engines.values() if (one := entry.value).usual.has(hardware)]
    own = (one.id for one in usual if one.usual.names_one(hardware))
    return next(own, usual[0].id if usual else None)
