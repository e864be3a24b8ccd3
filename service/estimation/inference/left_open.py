"""What else a request may mean that leaves open which release, backend or usage of its engine runs.

Estimates have the value of the newest release, of the backend that most people run and of a server.
Their ranges reach over the releases with which such a model may well have run on such an
accelerator, over the backends that many run there, over scripts that run the engine, for speed
where answering requests holds steps up, and, for memory, over the room for caches that it takes
where nobody sets the length of sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

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
from service.core.memory.inference.copies import copying
from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.inference.runtime import RuntimeOverheads
from service.core.otherwise import NOT_RARE_RATIO, RARE_RATIO
from service.core.performance.inference.closed_load import ClosedLoad
from service.core.releases import older_in_use
from service.estimation.calibrations import Calibration
from service.estimation.formatting import duration
from service.estimation.requests import ServingRequest
from service.estimation.since import runs_since

#: Releases whose speed is computed besides the newest, the oldest first: those between them are
#: about as fast as one or the other.
_MOST_TIMED = 2
#: What a server has to add to each step for its speed to be computed without it, too [s].
_LEAST_SERVED_S = 1e-4
#: How often engines that take room for caches ahead are run as they come, and how often with a
#: length of sequences that was set: nobody has counted, and both are common [-].
_UNSET_RATIO = 0.5
#: What a choice has to move to be told of: a share of memory, and of times and rates [-].
_MEMORY_TOLD, _SPEED_TOLD = 0.02, 0.05

Setting: TypeAlias = Literal["engine_version", "backend", "usage_context", "max_model_len"]

#: What is said of settings that a request leaves open.
_CHOICES: Mapping[Setting, str] = {
    "engine_version": "which release of the engine runs",
    "backend": "which backend drives the accelerator",
    "usage_context": "whether a server or a script runs the engine",
    "max_model_len": "for how many tokens a sequence is given room ahead",
}
#: What settings are called that speed depends on.
_NAMED: Mapping[Setting, str] = {
    "engine_version": "release",
    "backend": "backend",
    "usage_context": "use",
}
#: How an engine is run, in words.
_USES: Mapping[UsageContext, str] = {"server": "a server", "offline": "a script"}
_OTHER_USAGE: Mapping[UsageContext, UsageContext] = {"server": "offline", "offline": "server"}


@dataclass(frozen=True, slots=True)
class Otherwise:
    """How a deployment may run by another choice of a ``setting`` that its request leaves open.

    ``share_ratio`` says how often requests mean it, or one still older [-]. Speed and power are
    computed by it if ``timed``, memory if ``sized``.
    """

    setting: Setting
    share_ratio: float
    release: EngineRelease
    serving: ServingSettings
    calibration: Calibration
    timed: bool = False
    sized: bool = False


@dataclass(frozen=True, slots=True)
class LeftOpen:
    """Choices of an engine that a request leaves open, as far as figures depend on them."""

    engine_name: str
    choices: tuple[Otherwise, ...] = ()


NOTHING_LEFT_OPEN = LeftOpen("")


def other_servings(
    asked: ServingRequest,
    release: EngineRelease,
    engine: Engine,
    model: Entry[ModelArchitecture],
    accelerator: Entry[Accelerator],
    usage: UsageContext | None,
    snapshot: CatalogSnapshot,
) -> Iterator[tuple[Setting, float, ServingRequest]]:
    """What a request may mean besides, and how often: older releases, backends, usage.

    Releases come from the oldest on. Other backends come with the newest release and with the one
    before it, whose kernels may be others on just these. ``usage`` is what the request is taken to
    mean, None where the load tells it.
    """
    stated = {"engine": engine.id, "engine_version": release.generation}
    releases = [(release.generation, 1.0)]
    if asked.engine_version is None and (
        asked.engine is None or engine.named(asked.engine) is None
    ):
        since = runs_since(model, accelerator, snapshot)
        for id_, share_ratio in older_in_use(engine.generations, since):
            if id_ == release.generation:
                break
            if share_ratio > RARE_RATIO:
                update = stated | {"engine_version": id_}
                yield "engine_version", share_ratio, asked.model_copy(update=update)
                releases[1:] = [(id_, share_ratio)]
    if asked.backend is None:
        for backend in also_usual_backends(engine.backends, accelerator.value.hardware):
            for version, of_release in releases:
                meant_ratio = NOT_RARE_RATIO * of_release
                if meant_ratio > RARE_RATIO:
                    update = stated | {"backend": backend, "engine_version": version}
                    yield "backend", meant_ratio, asked.model_copy(update=update)
    if asked.usage_context is None and usage is not None:
        update = stated | {"usage_context": _OTHER_USAGE[usage]}
        yield "usage_context", NOT_RARE_RATIO, asked.model_copy(update=update)


def other_contexts(
    asked: ServingRequest, release: EngineRelease, serving: ServingSettings, usual: Calibration
) -> Iterator[Otherwise]:
    """The same where an engine that takes room ahead takes otherwise much, as nobody told it."""
    other = None
    if asked.max_model_len is None:
        other = usual.runtime.of(release.key).by_other_context
    if other is not None:
        runtime = RuntimeOverheads({**usual.runtime.engines, release.key: other})
        made = replace(usual, runtime=runtime)
        yield Otherwise("max_model_len", _UNSET_RATIO, release, serving, made)


def left_open(
    engine: Engine,
    found: Iterable[Otherwise],
    serving: ServingSettings,
    calibration: Calibration,
) -> LeftOpen:
    """Other choices by which speed or memory is otherwise than by the usual one.

    How an engine is used changes its speed where its server answers requests in the process that
    runs steps; elsewhere it is taken to change its memory alone.
    """
    others = list(found)
    served_s = calibration.performance.engine.served_s
    usual_speed, usual_memory = _what_counts(serving, calibration)
    counted = [(one.setting, *_what_counts(one.serving, one.calibration)) for one in others]
    speeds = _apart(usual_speed, [(setting, speed) for setting, speed, _ in counted])
    releases = [at for at in speeds if others[at].setting == "engine_version"]
    backends = [at for at in speeds if others[at].setting == "backend"]
    usages = [
        at
        for at in speeds
        if others[at].setting == "usage_context"
        and abs(others[at].calibration.performance.engine.served_s - served_s) > _LEAST_SERVED_S
    ]
    timed = {*releases[:_MOST_TIMED], *backends, *usages}
    sized = set(_apart(usual_memory, [(setting, memory) for setting, _, memory in counted]))
    choices = (
        replace(others[at], timed=at in timed, sized=at in sized) for at in sorted(timed | sized)
    )
    return LeftOpen(engine.name, tuple(choices))


def _apart(usual: object, counted: Sequence[tuple[Setting, object]]) -> list[int]:
    """Positions of choices of which something counts that is otherwise than usual.

    Of several of a setting by which it is the same the last stands for all: of releases the newest,
    which is meant as often as they are together.
    """
    return [
        at
        for at, choice in enumerate(counted)
        if choice[1] != usual and choice not in counted[at + 1 :]
    ]


def _what_counts(
    serving: ServingSettings, calibration: Calibration
) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """What speed and power depend on, and memory: fitted figures, and settings but for names."""
    own = calibration.performance
    bare = replace(serving, engine_version=None, engine_generation=None)
    timed = replace(bare, memory_utilization_ratio=0.0)
    sized = replace(bare, backend=None, usage_context="server", prompts_apart=0.0)
    runtime = calibration.runtime.of(serving.release)
    copied = copying(serving.backend) if runtime.copied_score_bytes else ""
    memory = runtime.figures(), sized, copied
    return (own.hardware, own.engine, own.power, own.widening, timed), memory


def left_open_warnings(estimate: InferenceEstimate, open_: LeftOpen) -> Iterator[EstimateWarning]:
    """What to say about choices that nobody told and that figures depend on."""
    choices = [one for one in open_.choices if one.timed]
    timed = list(zip(choices, (one.found for one in estimate.otherwise), strict=True))
    for setting in _NAMED:
        speeds = [(one, found) for one, found in timed if one.setting == setting]
        yield from _speed_told(setting, open_, estimate, speeds)
    yield from _memory_told(estimate.memory)


def length_warnings(estimate: InferenceEstimate) -> Iterator[EstimateWarning]:
    """What to say where nobody tells whether answers differ in length and first tokens show it."""
    load = estimate.latency.replica
    if not isinstance(load, ClosedLoad) or load.differing is None:
        return
    alike, differing = plain(load.mean_ttft_s), plain(load.differing.mean_ttft_s)
    if maximum(alike / differing, differing / alike) <= 1.0 + _SPEED_TOLD:
        return
    yield EstimateWarning(
        "lengths_left_open",
        "whether answers differ in length is not stated: if all are alike, requests that begin "
        f"together end together, and the first token takes {duration(alike)}; if they differ, "
        f"{duration(differing)}. Ranges cover both; state a mean and a p95 to narrow them",
        about="workload.output_tokens",
    )


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
                    f"{_name(other, usual)} {duration(another)}"
                )
    if message:
        yield EstimateWarning(
            "speed_left_open",
            f"the {_NAMED[setting]} of {open_.engine_name} is not stated: {message}. Ranges cover "
            "both; state it to narrow them",
            about=f"serving.{setting}",
        )


def _memory_told(memory: InferenceMemory) -> Iterator[EstimateWarning]:
    """The memory by the choice that moves it most, of each setting, if it moves by enough."""
    usual = memory.usual
    if usual is None:
        return
    for setting in _CHOICES:
        others = [one.found for one in memory.otherwise.get(setting, ())]
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
    room = plain(other.room_bytes.value)
    room_before = plain(usual.room_bytes.value)
    return max(abs(total - before) / before, abs(room - room_before) / max(room_before, before))


def _gb(size: Interval) -> str:
    return f"{plain(size.value) / 1e9:.1f}"


def _room_gb(memory: InferenceMemory) -> str:
    """Room for caches; none where what lies beside them does not fit."""
    return f"{plain(memory.kv_cache_budget_bytes.value) / 1e9:.1f}"


def _usual_name(setting: Setting, usual: InferenceEstimate) -> str:
    if setting == "engine_version":
        return "the newest"
    return _chosen(setting, usual.setup.serving)


def _name(other: Otherwise, usual: InferenceEstimate) -> str:
    if other.setting == "engine_version":
        return f"an older one ({other.release.generation})"
    chosen = _chosen(other.setting, other.serving)
    if other.serving.release == usual.setup.serving.release:
        return chosen
    return f"{chosen} of an older release ({other.release.generation})"


def _chosen(setting: Setting, serving: ServingSettings) -> str:
    """What is chosen of a setting beside the release, in words."""
    return _USES[serving.usage_context] if setting == "usage_context" else str(serving.backend)
