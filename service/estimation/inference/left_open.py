"""Settings of serving that a request leaves open and that memory depends on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from service.catalog.derived import derived
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Accelerator, Precision, ServingSettings
from service.core.elementwise import plain
from service.core.engine_defaults import STARTED, UsageContext
from service.core.engines import Engine, EngineRelease
from service.core.explanation import EstimateWarning
from service.core.interval import Interval
from service.core.left_open import LeftOpen
from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.inference.runtime import EngineRuntime, RuntimeOverheads
from service.estimation.requests import ServingRequest
from service.estimation.software import preempts
from service.estimation.starting import start_settings

#: How long releases stay in use, or their figures in print, after others followed them [year].
_YEARS_IN_USE = 3
#: Smallest change of the memory, or of the room for caches, that is told of a choice [-].
_WORTH_TELLING = 0.02
_RELEASE, _USAGE = ("engine_version",), ("usage_context",)
#: What is said of choices that a request leaves open.
_CHOICES: dict[tuple[str, ...], str] = {
    _RELEASE: "which release of the engine runs",
    _USAGE: "whether a server or a script runs the engine",
}
_OTHER_USAGE: dict[UsageContext, UsageContext] = {"server": "offline", "offline": "server"}

_Outcome = tuple[tuple[str, Any], ...]


def left_open(
    asked: ServingRequest,
    release: EngineRelease,
    serving: ServingSettings,
    precision: Precision,
    architecture: ModelArchitecture,
    accelerator: Accelerator,
    overheads: RuntimeOverheads,
    snapshot: CatalogSnapshot,
    arrivals: str | None = None,
    since_year: int = 0,
) -> tuple[LeftOpen, ...]:
    """Choices of a deployment that a request says nothing of, with what else people make of them.

    Parameters
    ----------
    asked, release, serving
        What was asked for, the release that stands for it, and its settings.
    precision, architecture, accelerator
        What runs, and on what.
    overheads
        Measured runtime memory by engine.
    snapshot
        The catalog, whose engines state their generations.
    arrivals
        How requests come, as of the workload.
    since_year
        When model and accelerator came out, which no earlier release runs; 0 if nobody knows.
    """
    engine = snapshot.engines[release.engine].value
    since = max(_in_use_since(snapshot), str(since_year))

    def started(generation: str | None, usage: UsageContext) -> _Outcome:
        other = EngineRelease(release.engine, generation)
        start = start_settings(
            asked.model_copy(update={"usage_context": usage}),
            other,
            architecture,
            accelerator,
            snapshot,
            arrivals,
        )
        settings = {name: getattr(start, name) for name in STARTED}
        settings |= {
            "engine_generation": generation,
            "usage_context": usage,
            "preempts": preempts(other, snapshot),
        }
        return tuple(settings.items())

    found = {
        _RELEASE: [
            started(generation, serving.usage_context)
            for generation in _also_in_use(asked, release, engine, precision, since)
        ],
        _USAGE: [started(release.generation, _OTHER_USAGE[serving.usage_context])]
        if asked.usage_context is None and arrivals is None
        else [],
    }
    choices = []
    for names, outcomes in found.items():
        others = tuple(_unlike(serving, outcomes, overheads))
        if others:
            choices.append(LeftOpen(names, others))
    return tuple(choices)


def _also_in_use(
    asked: ServingRequest,
    release: EngineRelease,
    engine: Engine,
    precision: Precision,
    since: str,
) -> Iterator[str]:
    """Generations beside the one that stands for an engine whose version nobody tells.

    Those that others followed before a day are not in use, ``since`` in ISO 8601.
    """
    if asked.engine_version is not None or engine.named(asked.engine or "") is not None:
        return
    for one in engine.generations:
        until = engine.superseded(one.id)
        in_use = until is None or until > since
        if (
            one.id != release.generation
            and in_use
            and engine.reads(precision.weights.listed_id, one.id)
        ):
            yield one.id


@derived()
def _in_use_since(snapshot: CatalogSnapshot) -> str:
    """The day since when releases are in use, by the newest that the catalog knows."""
    newest = max(
        one.since for entry in snapshot.engines.values() for one in entry.value.generations
    )
    return f"{int(newest[:4]) - _YEARS_IN_USE}{newest[4:]}"


def _unlike(
    serving: ServingSettings, outcomes: Iterable[_Outcome], overheads: RuntimeOverheads
) -> Iterator[_Outcome]:
    """Outcomes that memory may differ by from what stands there, and from those before."""
    seen = [_what_counts(serving, overheads)]
    for outcome in outcomes:
        counts = _what_counts(replace(serving, **dict(outcome)), overheads)
        if counts not in seen:
            seen.append(counts)
            yield outcome


def _what_counts(
    serving: ServingSettings, overheads: RuntimeOverheads
) -> tuple[EngineRuntime, ServingSettings]:
    """What memory depends on: figures of the engine, and settings other than names."""
    runtime = replace(overheads.of(serving.release), engine="", calibration="")
    bare = replace(serving, engine_generation=None, usage_context="server", prompts_apart=0.0)
    return runtime, bare


def left_open_warnings(memory: InferenceMemory) -> Iterator[EstimateWarning]:
    """What to say about choices that nobody told and that memory depends on."""
    usual = memory.usual
    if usual is None:
        return
    for choice, others in memory.otherwise.items():
        found = max(others, key=lambda one: _moved(one, usual))
        if _moved(found, usual) <= _WORTH_TELLING:
            continue
        name = choice.names[0]
        yield EstimateWarning(
            "left_open",
            f"it is not stated {_CHOICES[choice.names]}: by the usual choice weights, caches and "
            f"all else take {_gb(usual.total_bytes)} GB per accelerator and leave "
            f"{_gb(usual.kv_cache_budget_bytes)} GB to caches, by another that is in use "
            f"{_gb(found.total_bytes)} GB and {_gb(found.kv_cache_budget_bytes)} GB. The ranges "
            "hold both; state it to narrow them",
            about=f"serving.{name}",
        )


def _moved(other: InferenceMemory, usual: InferenceMemory) -> float:
    """How much memory, or the room for caches, differs [-]."""
    total, before = _value(other.total_bytes), _value(usual.total_bytes)
    room, room_before = _value(other.kv_cache_budget_bytes), _value(usual.kv_cache_budget_bytes)
    return max(abs(total - before) / before, abs(room - room_before) / max(room_before, before))


def _value(figure: Interval) -> float:
    return plain(figure.value)


def _gb(size: Interval) -> str:
    return f"{_value(size) / 1e9:.1f}"
