"""What an engine takes beside weights, cache and activations, as measured distributions.

The driver's context, libraries' workspaces, collectives' buffers, captured graphs and the
allocator's slack follow from no formula; they are measured per engine and handed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from service.core.deployment import Accelerator, Parallelism
from service.core.elementwise import Number, minimum, where
from service.core.engines import FALLBACK_ENGINE
from service.core.figures import Figures, from_figures
from service.core.interval import Interval, exact, independent_sum, scale
from service.core.learning import Correction

#: What ids of calibrations begin with that hold figures of an engine.
CALIBRATIONS = "memory-runtime/"

#: From this memory on, engines that prepare their sampler when they start do so for more sequences.
#: Source: vllm-project/vllm vllm/engine/arg_utils.py, 2025 (get_batch_defaults: 70 GiB).
LARGE_MEMORY_BYTES = 70.0 * 1024.0**3

_NONE = exact(0.0)


@dataclass(frozen=True, slots=True)
class EngineRuntime:
    """Runtime memory of one engine, per accelerator.

    ``context_bytes`` is what driver and libraries hold outside the allocator [B];
    ``collectives_bytes`` what communication adds when a model spans accelerators [B];
    ``graphs_bytes`` captured graphs [B].
    ``slack_ratio`` is what the allocator reserves beyond the peak of temporary tensors,
    ``activation_ratio`` that peak over its formula, ``bytes_per_logit`` what sampling takes [B].
    The sampler is prepared for ``profiled_sequences`` (``large_profiled_sequences`` on large
    accelerators without a ``small_default_batch``) whatever the load, and the engine runs no more
    at once; zero where nothing is prepared. A step computes at most ``most_step_tokens`` even where
    settings allow more. An engine that ``prefills_whole`` prompts does not split them;
    one that ``reserves_cache`` measures a full step when it starts and fills the rest of its
    share with cache. ``activations_in_share`` and ``graphs_in_share`` say whether these count
    against the share of memory that the engine may use, or lie beside it. At its peak it holds
    ``cache_copies`` of its caches: two where a longer cache is completed before the old one goes.
    ``workspace_bytes`` is what libraries take from the allocator beside temporary tensors [B].
    """

    engine: str
    calibration: str
    context_bytes: Interval
    collectives_bytes: Interval
    graphs_bytes: Interval
    slack_ratio: Interval
    activation_ratio: Interval
    bytes_per_logit: float
    profiled_sequences: float
    large_profiled_sequences: float
    prefills_whole: bool
    reserves_cache: bool
    activations_in_share: bool
    graphs_in_share: bool
    most_step_tokens: float = inf
    cache_copies: float = 1.0
    workspace_bytes: Interval = _NONE

    def sampled_sequences(
        self,
        accelerator: Accelerator,
        concurrency_per_replica: Number,
        most_running: int | None = None,
    ) -> Number:
        """Sequences sampled at once: as many as prepared for, or as there are [-].

        ``most_running`` is the limit that settings put in place of the engine's own [-].
        """
        if self.profiled_sequences == 0.0:
            return (
                concurrency_per_replica
                if most_running is None
                else minimum(concurrency_per_replica, most_running)
            )
        if most_running is not None:
            return float(most_running)
        if accelerator.small_default_batch:
            return self.profiled_sequences
        return where(
            accelerator.memory_bytes >= LARGE_MEMORY_BYTES,
            self.large_profiled_sequences,
            self.profiled_sequences,
        )

    def corrected(self, correction: Correction) -> EngineRuntime:
        """The same with what is measured corrected."""
        return replace(
            self,
            context_bytes=correction.of(self.context_bytes),
            collectives_bytes=correction.of(self.collectives_bytes),
            graphs_bytes=correction.of(self.graphs_bytes),
            slack_ratio=correction.of(self.slack_ratio),
            activation_ratio=correction.of(self.activation_ratio),
            workspace_bytes=correction.of(self.workspace_bytes),
        )

    def libraries(self, parallelism: Parallelism) -> Interval:
        """What driver, libraries and collectives hold [B]."""
        if communicates(parallelism):
            return independent_sum((self.context_bytes, self.collectives_bytes))
        return self.context_bytes

    def temporary(self, peak_bytes: Number) -> tuple[Interval, Interval]:
        """Activations at their peak and the allocator's slack beside them [B]."""
        scaled = scale(self.activation_ratio, peak_bytes)
        activations = independent_sum((scaled, self.workspace_bytes))
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
        return self.engines.get(engine) or self.engines[FALLBACK_ENGINE]

    def corrected(self, engine: str, correction: Correction) -> RuntimeOverheads:
        """The same with the figures of an engine corrected."""
        return RuntimeOverheads({**self.engines, engine: self.of(engine).corrected(correction)})


def runtime_overheads(figures: Mapping[str, Figures]) -> RuntimeOverheads:
    """Runtime memory from the figures of each engine.

    Raises
    ------
    KeyError
        If an engine lacks a figure, or there are none for the fallback.
    """
    engines = {
        name: from_figures(EngineRuntime, held, engine=name, calibration=f"{CALIBRATIONS}{name}")
        for name, held in figures.items()
    }
    if FALLBACK_ENGINE not in engines:
        raise KeyError(FALLBACK_ENGINE)
    return RuntimeOverheads(engines)
