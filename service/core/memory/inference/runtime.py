"""What an engine takes beside weights, cache and activations, as measured distributions.

The driver's context, libraries' workspaces, collectives' buffers, captured graphs and the
allocator's slack follow from no formula; they are measured per engine and handed in.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from service.core.deployment import Accelerator, Parallelism
from service.core.elementwise import Number, minimum, where
from service.core.interval import Interval, exact, independent_sum, scale

#: Engine whose figures apply where an engine has none of its own.
FALLBACK_ENGINE = "default"

#: Between an engine's name and the version that an older release of it comes before.
_BEFORE = "-before-"

#: From this memory on, but not on the A100, engines that prepare their sampler when they start do
#: so for more sequences. Source: vllm-project/vllm vllm/engine/arg_utils.py, 2025
#: (get_batch_defaults: 70 GiB; pull request 17885 for the exception).
LARGE_MEMORY_BYTES = 70.0 * 1024.0**3
SMALL_BATCH_FAMILY = "nvidia-ampere"

_NONE = exact(0.0)


@dataclass(frozen=True, slots=True)
class EngineRuntime:
    """Runtime memory of one engine, per accelerator.

    ``context`` is what driver and libraries hold outside the allocator [B]; ``collectives`` what
    communication adds when a model spans accelerators [B]; ``graphs`` captured graphs [B].
    ``slack_ratio`` is what the allocator reserves beyond the peak of temporary tensors,
    ``activation_ratio`` that peak over its formula, ``bytes_per_logit`` what sampling takes [B].
    The sampler is prepared for ``profiled_sequences`` (``large_profiled_sequences`` on large
    accelerators) whatever the load, and the engine runs no more at once; zero where nothing is
    prepared. A step computes at most ``most_step_tokens`` even where
    settings allow more. An engine that ``prefills_whole`` prompts does not split them;
    one that ``reserves_cache`` measures a full step when it starts and fills the rest of its
    share with cache. ``activations_in_share`` and ``graphs_in_share`` say whether these count
    against the share of memory that the engine may use, or lie beside it. At its peak it holds
    ``cache_copies`` of its caches: two where a longer cache is completed before the old one goes.
    ``workspace`` is what libraries take from the allocator beside temporary tensors [B].
    """

    engine: str
    calibration: str
    context: Interval
    collectives: Interval
    graphs: Interval
    slack_ratio: Interval
    activation_ratio: Interval
    bytes_per_logit: float
    profiled_sequences: float
    large_profiled_sequences: float
    most_step_tokens: float
    prefills_whole: bool
    reserves_cache: bool
    activations_in_share: bool
    graphs_in_share: bool
    cache_copies: float = 1.0
    workspace: Interval = _NONE

    def sampled_sequences(
        self, accelerator: Accelerator, concurrency: Number, most_running: int | None = None
    ) -> Number:
        """Sequences sampled at once: as many as prepared for, or as there are [-].

        ``most_running`` is the limit that settings put in place of the engine's own [-].
        """
        if self.profiled_sequences == 0.0:
            return concurrency if most_running is None else minimum(concurrency, most_running)
        if most_running is not None:
            return float(most_running)
        if accelerator.family == SMALL_BATCH_FAMILY:
            return self.profiled_sequences
        return where(
            accelerator.memory_bytes >= LARGE_MEMORY_BYTES,
            self.large_profiled_sequences,
            self.profiled_sequences,
        )

    def libraries(self, parallelism: Parallelism) -> Interval:
        """What driver, libraries and collectives hold [B]."""
        if communicates(parallelism):
            return independent_sum((self.context, self.collectives))
        return self.context

    def temporary(self, peak_bytes: Number) -> tuple[Interval, Interval]:
        """Activations at their peak and the allocator's slack beside them [B]."""
        activations = independent_sum((scale(self.activation_ratio, peak_bytes), self.workspace))
        return activations, scale(self.slack_ratio, peak_bytes)


def communicates(parallelism: Parallelism) -> bool:
    """Whether a model's accelerators exchange messages within a step."""
    return parallelism.replica_accelerators > 1 or parallelism.expert > 1


@dataclass(frozen=True, slots=True)
class RuntimeOverheads:
    """Runtime memory by engine."""

    engines: Mapping[str, EngineRuntime]

    def of(self, engine: str) -> EngineRuntime:
        """Figures of an engine, or the fallback's where it has none of its own."""
        for candidate in engine_fallbacks(engine):
            if candidate in self.engines:
                return self.engines[candidate]
        raise KeyError(FALLBACK_ENGINE)


def engine_fallbacks(engine: str) -> tuple[str, ...]:
    """Engines whose figures may stand for an engine's, best first.

    An older release (``vllm-before-0.6``) takes those of today's where it has none of its own.
    """
    return engine, engine.partition(_BEFORE)[0], FALLBACK_ENGINE


def runtime_overheads(documents: Iterable[Mapping[str, Any]]) -> RuntimeOverheads:
    """Read runtime memory from calibration documents.

    Parameters
    ----------
    documents
        ``{"id", "applies_to": {"engine"}, "figures": {name: {"value", "low"?, "high"?}}}``, the
        names being the fields of :class:`EngineRuntime`, with ``_bytes`` where they are sizes and
        ``_ratio`` where they are yes (1) or no (0). Without ``most_step_tokens`` a step is bounded
        by settings alone; without ``cache_copies`` caches are held once.

    Returns
    -------
    RuntimeOverheads
        The same as values.

    Raises
    ------
    KeyError
        If a document lacks a figure, or none is for the fallback engine.
    """
    engines = {
        engine.engine: engine for engine in (_engine_runtime(document) for document in documents)
    }
    if FALLBACK_ENGINE not in engines:
        raise KeyError(FALLBACK_ENGINE)
    return RuntimeOverheads(engines)


def _engine_runtime(document: Mapping[str, Any]) -> EngineRuntime:
    figures: Mapping[str, Mapping[str, Any]] = document["figures"]

    def interval(name: str) -> Interval:
        figure = figures[name]
        value = float(figure["value"])
        return Interval(value, float(figure.get("low", value)), float(figure.get("high", value)))

    def number(name: str) -> float:
        return float(figures[name]["value"])

    return EngineRuntime(
        engine=str(document["applies_to"]["engine"]),
        calibration=str(document["id"]),
        context=interval("context_bytes"),
        collectives=interval("collectives_bytes"),
        graphs=interval("graphs_bytes"),
        slack_ratio=interval("slack_ratio"),
        activation_ratio=interval("activation_ratio"),
        bytes_per_logit=number("bytes_per_logit"),
        profiled_sequences=number("profiled_sequences"),
        large_profiled_sequences=number("large_profiled_sequences"),
        most_step_tokens=(
            number("most_step_tokens") if "most_step_tokens" in figures else float("inf")
        ),
        prefills_whole=bool(number("prefills_whole_ratio")),
        reserves_cache=bool(number("reserves_cache_ratio")),
        activations_in_share=bool(number("activations_in_share_ratio")),
        graphs_in_share=bool(number("graphs_in_share_ratio")),
        cache_copies=number("cache_copies") if "cache_copies" in figures else 1.0,
        workspace=interval("workspace_bytes") if "workspace_bytes" in figures else _NONE,
    )
