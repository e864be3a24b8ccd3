"""What else a request may mean that leaves open which release, backend or usage of its engine runs.

Estimates have the value of the newest release, of the backend that most people run and of a server.
Their ranges reach over the releases with which such a model may have run on such an accelerator,
over the backends that many run there, and, for memory, over scripts that run the engine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from service.catalog.derived import derived
from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.backends import also_usual_backends
from service.core.deployment import Accelerator, ServingSettings
from service.core.elementwise import Number, maximum, minimum, plain
from service.core.engine_defaults import UsageContext
from service.core.engines import Engine, EngineRelease
from service.core.estimate.inference import InferenceEstimate
from service.core.explanation import EstimateWarning
from service.core.interval import Interval
from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.inference.runtime import EngineRuntime
from service.estimation.calibrations import Calibration
from service.estimation.formatting import duration
from service.estimation.requests import ServingRequest

#: Releases whose speed is computed besides the newest, the oldest first: those between them are
#: about as fast as one or the other.
_MOST_TIMED = 2
#: What a choice has to move to be told of: a share of memory, and of times and rates [-].
_MEMORY_TOLD, _SPEED_TOLD = 0.02, 0.05

Setting: TypeAlias = Literal["engine_version", "backend", "usage_context"]

#: What is said of settings that a request leaves open.
_CHOICES: Mapping[Setting, str] = {
    "engine_version": "which release of the engine runs",
    "backend": "which backend drives the accelerator",
    "usage_context": "whether a server or a script runs the engine",
}
_OTHER_USAGE: Mapping[UsageContext, UsageContext] = {"server": "offline", "offline": "server"}


@dataclass(frozen=True, slots=True)
class Otherwise:
    """How a deployment may run by another choice of a ``setting`` that its request leaves open."""

    setting: Setting
    release: EngineRelease
    serving: ServingSettings
    calibration: Calibration

    def is_as_fast(self, serving: ServingSettings, calibration: Calibration) -> bool:
        """Whether nothing that speed or power depends on is otherwise than usual."""
        own, usual = self.calibration.performance, calibration.performance
        alike = replace(
            self.serving,
            engine_generation=serving.engine_generation,
            memory_utilization_ratio=serving.memory_utilization_ratio,
        )
        return (own.hardware, own.engine, own.power, own.widening, alike) == (
            *(usual.hardware, usual.engine, usual.power, usual.widening),
            serving,
        )


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """Choices of an engine that a request leaves open.

    By those of ``timed`` speed and power are otherwise, by those of ``sized`` memory is.
    """

    engine_name: str
    timed: tuple[Otherwise, ...] = ()
    sized: tuple[Otherwise, ...] = ()


NOTHING_LEFT_OPEN = LeftOpen("")


def other_servings(
    asked: ServingRequest,
    release: EngineRelease,
    engine: Engine,
    model: Entry[ModelArchitecture],
    accelerator: Entry[Accelerator],
    usage: UsageContext | None,
    snapshot: CatalogSnapshot,
) -> Iterator[tuple[Setting, ServingRequest]]:
    """What a request may mean besides: older releases from the oldest on, backends, usage.

    ``usage`` is what the request is taken to mean, None where the load tells it.
    """
    stated = {"engine": engine.id, "engine_version": release.generation}
    if asked.engine_version is None and (
        asked.engine is None or engine.named(asked.engine) is None
    ):
        for id_ in engine.in_use_after(_day(model, accelerator, snapshot)):
            if id_ == release.generation:
                break
            update = stated | {"engine_version": id_}
            yield "engine_version", asked.model_copy(update=update)
    if asked.backend is None:
        for backend in also_usual_backends(engine.backends, accelerator.value.hardware):
            yield "backend", asked.model_copy(update=stated | {"backend": backend})

    if asked.usage_context is None and usage is not None:
        update = stated | {"usage_context": _OTHER_USAGE[usage]}
        yield "usage_context", asked.model_copy(update=update)


def left_open(
    engine: Engine,
    found: Iterable[Otherwise],
    serving: ServingSettings,
    calibration: Calibration,
) -> LeftOpen:
    """Other choices by which speed or memory is otherwise than by the usual one."""
    others = list(found)
    apart = [one for one in others if not one.is_as_fast(serving, calibration)]
    releases = [one for one in apart if one.setting == "engine_version"]
    backends = [one for one in apart if one.setting == "backend"]
    sized: list[Otherwise] = []
    seen = [_what_memory_counts(serving, calibration)]
    for one in others:
        counts = _what_memory_counts(one.serving, one.calibration)
        if counts not in seen:
            seen.append(counts)
            sized.append(one)
    return LeftOpen(engine.name, (*releases[:_MOST_TIMED], *backends), tuple(sized))


def _what_memory_counts(
    serving: ServingSettings, calibration: Calibration
) -> tuple[EngineRuntime, ServingSettings]:
    """What memory depends on: figures of the engine, and settings other than names."""
    runtime = replace(calibration.runtime.of(serving.release), engine="", calibration="")
    bare = replace(
        serving, engine_generation=None, backend=None, usage_context="server", prompts_apart=0.0
    )
    return runtime, bare


def _day(
    model: Entry[ModelArchitecture], accelerator: Entry[Accelerator], snapshot: CatalogSnapshot
) -> str:
    """The day after which a model may have run on an accelerator, in ISO 8601.

    Of both the year is known. Models are run from the day on which they appear, on accelerators
    that engines come to support by the end of the year in which these do. Where nobody says of
    which year a model is, it is that of the first of its type.
    """
    year = model.document.get("release_year") or _first_years(snapshot).get(model.value.model_type)
    since = accelerator.document.get("release_year")
    return max(f"{year or 0:04d}-01-01", f"{since or 0:04d}-12-31")


@derived()
def _first_years(snapshot: CatalogSnapshot) -> dict[str, int]:
    """The year of the first model of each type."""
    found: dict[str, int] = {}
    for entry in snapshot.models.values():
        year, type_ = entry.document.get("release_year"), entry.value.model_type
        if year is not None:
            found[type_] = min(year, found.get(type_, year))
    return found


def left_open_warnings(estimate: InferenceEstimate, open_: LeftOpen) -> Iterator[EstimateWarning]:
    """What to say about choices that nobody told and that figures depend on."""
    timed = list(zip(open_.timed, estimate.otherwise, strict=True))
    settings: tuple[Setting, ...] = ("engine_version", "backend")
    for setting in settings:
        speeds = [(one, found) for one, found in timed if one.setting == setting]
        yield from _speed_told(setting, open_, estimate, speeds)
    yield from _memory_told(estimate.memory)


def _per_token_s(estimate: InferenceEstimate) -> Number:
    return estimate.latency.tpot_s.value if estimate.deployment.architecture.generates else 0.0


def _first_token_s(estimate: InferenceEstimate) -> Number:
    return estimate.latency.ttft_s.value


#: Figures of speed that are told, with how they are.
_SPEEDS: tuple[tuple[Callable[[InferenceEstimate], Number], str], ...] = (
    (_per_token_s, "a token takes"),
    (_first_token_s, "the first token takes"),
)


def _speed_told(
    setting: Setting,
    open_: LeftOpen,
    usual: InferenceEstimate,
    others: Iterable[tuple[Otherwise, InferenceEstimate]],
) -> Iterator[EstimateWarning]:
    """The time that another choice moves most, by both, if it is moved by enough."""
    furthest: Number = 1.0 + _SPEED_TOLD
    message = ""
    for other, found in others:
        for read, text in _SPEEDS:
            one, another = plain(read(usual)), plain(read(found))
            if minimum(one, another) <= 0.0:
                continue
            apart = maximum(one / another, another / one)
            if furthest < apart < float("inf"):
                furthest = apart
                message = (
                    f"with {_usual_name(setting, usual)} {text} {duration(one)}, with "
                    f"{_name(other)} {duration(another)}"
                )
    if message:
        what = "release" if setting == "engine_version" else "backend"
        yield EstimateWarning(
            "speed_left_open",
            f"the {what} of {open_.engine_name} is not stated: {message}. Ranges cover both; "
            "state it to narrow them",
            about=f"serving.{setting}",
        )


def _memory_told(memory: InferenceMemory) -> Iterator[EstimateWarning]:
    """The memory by the choice that moves it most, of each setting, if it moves by enough."""
    usual = memory.usual
    if usual is None:
        return
    settings: tuple[Setting, ...] = ("engine_version", "backend", "usage_context")
    for setting in settings:
        others = memory.otherwise.get(setting, ())
        found = max(others, key=lambda one: _moved(one, usual), default=usual)
        if _moved(found, usual) <= _MEMORY_TOLD:
            continue
        yield EstimateWarning(
            "left_open",
            f"the request does not say {_CHOICES[setting]}: with the usual choice the deployment "
            f"takes {_gb(usual.total_bytes)} GB per accelerator and has room for "
            f"{_room_gb(usual)} GB of caches, with another {_gb(found.total_bytes)} GB and "
            f"{_room_gb(found)} GB. Ranges cover both; state it to narrow them",
            about=f"serving.{setting}",
        )


def _moved(other: InferenceMemory, usual: InferenceMemory) -> float:
    """How much memory, or the room for caches, differs [-]."""
    total, before = plain(other.total_bytes.value), plain(usual.total_bytes.value)
    room = plain(other.kv_cache_budget_bytes.value)
    room_before = plain(usual.kv_cache_budget_bytes.value)
    return max(abs(total - before) / before, abs(room - room_before) / max(room_before, before))


def _gb(size: Interval) -> str:
    return f"{plain(size.value) / 1e9:.1f}"


def _room_gb(memory: InferenceMemory) -> str:
    """Room for caches; none where what lies beside them does not fit."""
    return f"{maximum(plain(memory.kv_cache_budget_bytes.value), 0.0) / 1e9:.1f}"


def _usual_name(setting: Setting, usual: InferenceEstimate) -> str:
    return "the newest" if setting == "engine_version" else str(usual.setup.serving.backend)


def _name(other: Otherwise) -> str:
    if other.setting == "engine_version":
        return f"an older one ({other.release.generation})"
    return str(other.serving.backend)
