"""What a step of one pipeline stage computes at its worst, and what its pools hold by then."""

from __future__ import annotations

from service.core.deployment import InferenceWorkload, ServingSettings
from service.core.elementwise import Number, floor, maximum, minimum
from service.core.memory.inference.activations import StepShape
from service.core.memory.inference.copies import copies_held, copying, pooled_bytes
from service.core.memory.inference.plans import StagePlan
from service.core.memory.inference.runtime import EngineRuntime


def step_shape(
    plan: StagePlan,
    engine: EngineRuntime,
    serving: ServingSettings,
    at_once: Number,
    sampled: Number,
    attended: Number,
    copies: Number,
) -> StepShape:
    """What a step of so many tokens computes at its worst, sampling so many sequences."""
    peak, weights = plan.peak, plan.weights
    images: Number = 0.0
    if engine.profiles_images and peak.image_bytes:
        asked = sampled * (
            1.0 if serving.limit_mm_per_prompt is None else serving.limit_mm_per_prompt
        )
        budget = maximum(floor(at_once / peak.image_tokens), 1.0)
        images = asked if peak.cross_attended else minimum(asked, budget)
    return StepShape(
        at_once,
        attended,
        at_once if engine.whole_prompt_logits else sampled,
        images,
        engine.logit_bytes(widened=peak.widens_logits),
        engine.score_bytes(serving.flash_attention, copies),
        engine.bytes_per_entry,
        engine.result_ratio,
        weights.widened_bytes if engine.holds_widened else 0.0,
        engine.loaded_twice_bytes(weights),
        _pooled_bytes(plan, engine, serving),
    )


def score_copies(
    plan: StagePlan,
    engine: EngineRuntime,
    serving: ServingSettings,
    workload: InferenceWorkload,
    step_tokens: Number,
    attended: Number,
) -> Number:
    """Copies of scores that are held, in those of a step that attends to all there is room for [-].

    Pools that keep them hold those of the prompt; how long sequences can be is told as if longer
    ones left as many.
    """
    copied = engine.copied_score_bytes
    how = copying(serving.backend)
    if copied == 0.0 or how == "one" or (how == "kept" and not engine.keeps_copies):
        return 1.0
    prompt = workload.input_tokens
    step = maximum(minimum(step_tokens, prompt), 1.0)
    of_first = plan.peak.score_heads * copied * step * step
    pooled = _pooled_bytes(plan, engine, serving)
    held = copies_held(serving.backend, prompt, step, pooled / maximum(of_first, 1.0))
    most = maximum(step_tokens, 1.0) * maximum(attended, 1.0)
    return held * step * minimum(prompt, attended) / most


def _pooled_bytes(plan: StagePlan, engine: EngineRuntime, serving: ServingSettings) -> float:
    """What lies in a pool beside copies of scores [B]."""
    widest = plan.weights.widest_bytes if engine.widens_prompts else 0.0
    return pooled_bytes(serving.backend, widest)
