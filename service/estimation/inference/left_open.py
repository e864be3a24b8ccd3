"""What else a request may mean that names neither release nor backend of its engine.

Estimates have the value of the newest release and of the backend that most people run. Their ranges
reach over the releases with which such a model may have run on such an accelerator, and over the
backends that many run there, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from service.catalog.derived import derived
from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.backends import also_usual_backends
from service.core.deployment import Accelerator, ServingSettings
from service.core.elementwise import Number, maximum, minimum, plain
from service.core.engines import Engine, EngineRelease, names_release
from service.core.estimate.inference import InferenceEstimate
from service.core.explanation import EstimateWarning
from service.core.memory.inference.memory import InferenceMemory
from service.estimation.calibrations import Calibration
from service.estimation.requests import ServingRequest

#: Releases whose speed is computed besides the newest, the oldest first: those between them are
#: about as fast as one or the other. Of the rest the one that was the newest for longest tells what
#: else memory may be.
_MOST_TIMED = 2
#: What a choice has to move to be told of: a share of memory, and of times and rates [-].
_MEMORY_TOLD, _SPEED_TOLD = 0.02, 0.05

Setting: TypeAlias = Literal["engine_version", "backend"]


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

    Of the first ``timed`` of ``others`` speed and power are computed, of all of them memory.
    """

    engine_name: str
    others: tuple[Otherwise, ...] = ()
    timed: int = 0


NOTHING_LEFT_OPEN = LeftOpen("")


def other_servings(
    asked: ServingRequest,
    release: EngineRelease,
    engine: Engine,
    model: Entry[ModelArchitecture],
    accelerator: Entry[Accelerator],
    snapshot: CatalogSnapshot,
) -> Iterator[tuple[Setting, ServingRequest]]:
    """What a request may mean besides: older releases from the oldest on, then backends."""
    stated = {"engine": engine.id, "engine_version": release.generation}
    if asked.engine_version is None and not names_release(engine, asked.engine):
        for id_ in engine.in_use_after(_day(model, accelerator, snapshot)):
            if id_ == release.generation:
                break
            update = stated | {"engine_version": id_}
            yield "engine_version", asked.model_copy(update=update)
    if asked.backend is None:
        for backend in also_usual_backends(engine.backends, accelerator.value.hardware):
            yield "backend", asked.model_copy(update=stated | {"backend": backend})


def left_open(
    engine: Engine,
    found: Iterable[Otherwise],
    serving: ServingSettings,
    calibration: Calibration,
) -> LeftOpen:
    """Other choices in the order in which they are computed, beside the usual one."""
    apart: list[Otherwise] = []
    alike: list[Otherwise] = []
    for one in found:
        (alike if one.is_as_fast(serving, calibration) else apart).append(one)
    releases = [one for one in apart if one.setting == "engine_version"]
    timed = [*releases[:_MOST_TIMED], *(one for one in apart if one.setting == "backend")]
    rest = [*releases[_MOST_TIMED:], *(one for one in alike if one.setting == "engine_version")]
    usual = max(rest, key=lambda one: _months(engine, one.release.generation), default=None)
    return LeftOpen(engine.name, (*timed, *(() if usual is None else (usual,))), len(timed))


def _months(engine: Engine, generation: str | None) -> int:
    """For how long a generation was the newest [months]."""
    since = next(one.since for one in engine.generations if one.id == generation)
    until = engine.superseded(generation) or since
    return _month(until) - _month(since)


def _month(date: str) -> int:
    """Months of a day, month or year in ISO 8601, which is taken to begin then [months]."""
    return int(date[:4]) * 12 + int(date[5:7] or 1)


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
    timed = list(zip(open_.others, estimate.otherwise, strict=False))
    held = list(zip(open_.others, estimate.memories, strict=True))
    settings: tuple[Setting, ...] = ("engine_version", "backend")
    for setting in settings:
        speeds = [(one, found) for one, found in timed if one.setting == setting]
        yield from _told("speed_left_open", setting, open_, estimate, speeds, _SPEEDS, _SPEED_TOLD)
        sizes = [(one, found) for one, found in held if one.setting == setting]
        yield from _told(
            *("memory_left_open", setting, open_, estimate.memory, sizes),
            *(_SIZES, _MEMORY_TOLD),
        )


#: How a figure is read, what is told of it, how, and in which unit.
_Told: TypeAlias = tuple[Callable[[Any], Number], str, str, float]


def _per_token_s(estimate: InferenceEstimate) -> Number:
    return estimate.latency.tpot_s.value if estimate.deployment.architecture.generates else 0.0


def _first_token_s(estimate: InferenceEstimate) -> Number:
    return estimate.latency.ttft_s.value


def _total_bytes(memory: InferenceMemory) -> Number:
    return memory.total_bytes.value


def _cached_tokens(memory: InferenceMemory) -> Number:
    return memory.kv_cache_capacity_tokens.value


#: Figures that are told, with how they are.
_SPEEDS: tuple[_Told, ...] = (
    (_per_token_s, "a token takes", "{:.3g} ms", 1e3),
    (_first_token_s, "the first token takes", "{:.3g} ms", 1e3),
)
_SIZES: tuple[_Told, ...] = (
    (_total_bytes, "an accelerator holds", "{:.1f} GB", 1e-9),
    (_cached_tokens, "caches have room for", "{:,.0f} tokens", 1.0),
)


def _told(
    code: str,
    setting: Setting,
    open_: LeftOpen,
    usual: Any,
    others: Iterable[tuple[Otherwise, Any]],
    figures: Iterable[_Told],
    worth: float,
) -> Iterator[EstimateWarning]:
    """The figure that another choice moves most, by both, if it is moved by enough."""
    furthest: Number = 1.0 + worth
    message = ""
    for other, found in others:
        for read, words, form, unit in figures:
            one, another = plain(read(usual)), plain(read(found))
            if minimum(one, another) <= 0.0:
                continue
            apart = maximum(one / another, another / one)
            if furthest < apart < float("inf"):
                furthest = apart
                message = (
                    f"with {_usual_name(setting, usual)} {words} {form.format(one * unit)}, with "
                    f"{_name(other)} {form.format(another * unit)}"
                )
    if message:
        what = "release" if setting == "engine_version" else "backend"
        yield EstimateWarning(
            code,
            f"the {what} of {open_.engine_name} is not stated: {message}. Ranges hold both: "
            "state it to narrow them",
            about=f"serving.{setting}",
        )


def _usual_name(setting: Setting, usual: InferenceEstimate | InferenceMemory) -> str:
    if setting == "engine_version":
        return "the newest"
    serving = usual.serving if isinstance(usual, InferenceMemory) else usual.setup.serving
    return str(serving.backend)


def _name(other: Otherwise) -> str:
    if other.setting == "engine_version":
        return f"an older one ({other.release.generation})"
    return str(other.serving.backend)
