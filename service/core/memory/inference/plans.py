"""What of a rank's memory does not depend on the workload, by pipeline stage."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from service.core.architecture.model import ModelArchitecture
from service.core.architecture.prediction import predictors
from service.core.deployment import Deployment, Parallelism, Precision, ServingSettings
from service.core.interval import Interval
from service.core.memory.inference.activations import StepPeak, step_peak
from service.core.memory.inference.runtime import EngineRuntime, RuntimeOverheads
from service.core.memory.kv_cache import CacheLayout, cache_layout
from service.core.memory.weights import Loading, RankWeights, stage_weights


@dataclass(frozen=True, slots=True)
class StagePlan:
    """What of a rank's memory does not depend on the workload, for one pipeline stage."""

    weights: RankWeights
    cache: CacheLayout
    peak: StepPeak


@dataclass(frozen=True, slots=True)
class EnginePlan(StagePlan):
    """The same as an engine holds it: weights, and what lies in the host's memory [B]."""

    weights_bytes: Interval
    host_bytes: Interval


def weights_overflow(
    deployment: Deployment, serving: ServingSettings, overheads: RuntimeOverheads
) -> bool:
    """Whether weights alone are more than an accelerator holds, in a single configuration."""
    capacity = deployment.accelerator.memory_bytes
    plans = engine_plans(deployment, serving, overheads.of(serving.release))
    return any(plan.weights.total_bytes > capacity for plan in plans)


def engine_plans(
    deployment: Deployment, serving: ServingSettings, engine: EngineRuntime
) -> tuple[EnginePlan, ...]:
    """Plans of a deployment as its engine holds weights and caches."""
    model, layout = (deployment.architecture, deployment.precision), deployment.parallelism
    return _engine_plans(*model, layout, serving.kv_block_tokens, engine)


@lru_cache(maxsize=1024)
def _engine_plans(
    architecture: ModelArchitecture,
    precision: Precision,
    parallelism: Parallelism,
    block_tokens: int,
    engine: EngineRuntime,
) -> tuple[EnginePlan, ...]:
    plans = stage_plans(
        architecture,
        precision,
        parallelism.of_replica,
        block_tokens,
        engine.loading,
        cross_attended=engine.pages_images,
        pages_windows=engine.pages_windows,
        windows_ratio=engine.windows_ratio,
        pages_shared=engine.pages_shared,
        keeps_passed=engine.keeps_passed,
        groups_layers=engine.groups_layers,
        narrow_states=engine.narrow_states,
        gathers_tokens=engine.gathers_tokens,
        holds_experts=engine.holds_experts,
    )
    return tuple(
        EnginePlan(
            plan.weights,
            plan.cache,
            plan.peak,
            engine.loaded(plan.weights.total_bytes, plan.weights.mix_log_sigma),
            engine.sized(plan.weights.host_bytes + engine.host_pool_bytes),
        )
        for plan in plans
    )


@lru_cache(maxsize=1024)
def stage_plans(
    architecture: ModelArchitecture,
    precision: Precision,
    parallelism: Parallelism,
    block_tokens: int,
    loading: Loading,
    *,
    cross_attended: bool = False,
    pages_windows: bool = False,
    windows_ratio: float = 1.0,
    pages_shared: bool = False,
    keeps_passed: bool = False,
    groups_layers: bool = False,
    narrow_states: bool = False,
    gathers_tokens: bool = False,
    holds_experts: bool = False,
) -> tuple[StagePlan, ...]:
    """Plans of the pipeline stages that can be the fullest: no other holds more of everything.

    ``loading`` says how the engine holds weights, ``cross_attended``, ``pages_windows``,
    ``windows_ratio``, ``pages_shared``, ``keeps_passed``, ``groups_layers`` and ``narrow_states``
    what it caches as :func:`cache_layout` takes them; it ``gathers_tokens`` and ``holds_experts``
    as :func:`step_peak` does, the latter unless kernels of the weights' format bring room of their
    own.
    """
    peak = step_peak(
        architecture,
        precision.activations,
        parallelism,
        gathers_tokens=gathers_tokens,
        holds_experts=holds_experts and not precision.weights.padded_experts,
    )
    plans: list[StagePlan] = []
    for stage in range(parallelism.pipeline):
        weights = stage_weights(architecture, precision.weights, parallelism, stage, loading)
        outdone = [
            other.weights.layers >= weights.layers
            and other.weights.total_bytes >= weights.total_bytes
            for other in plans
        ]
        if any(outdone):
            continue
        layout = cache_layout(
            architecture,
            precision.kv_cache,
            parallelism,
            block_tokens,
            stage,
            cross_attended=cross_attended,
            pages_windows=pages_windows,
            windows_ratio=windows_ratio,
            pages_shared=pages_shared,
            keeps_passed=keeps_passed,
            groups_layers=groups_layers,
            narrow_states=narrow_states,
        )
        plans.append(StagePlan(weights, layout, peak))
    return tuple(plans)


def draft_plan(
    engine: EngineRuntime, serving: ServingSettings, deployment: Deployment
) -> StagePlan | None:
    """Weights and caches of what drafts, on the rank that holds most of it.

    That is a draft model, or the layers that a checkpoint has for it.
    """
    speculation, parallelism = serving.speculation, deployment.parallelism
    if speculation is None:
        return None
    drafting, precision = speculation.architecture, speculation.precision
    if drafting is None:
        drafting, precision = predictors(deployment.architecture), deployment.precision
        # The last stage holds them all.
        parallelism = replace(parallelism, pipeline=1)
    if drafting is None or precision is None:
        return None
    plans = stage_plans(
        drafting,
        precision,
        parallelism,
        serving.kv_block_tokens,
        engine.loading,
    )
    return max(plans, key=lambda one: one.weights.total_bytes)
