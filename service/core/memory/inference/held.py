"""What running sequences hold of caches, and how much room an engine takes for them."""

from __future__ import annotations

from service.core.deployment import Deployment, InferenceWorkload, ServingSettings
from service.core.elementwise import Number, floor, maximum, minimum, scaled, where
from service.core.memory.inference.plans import StagePlan
from service.core.memory.inference.runtime import EngineRuntime
from service.core.memory.kv_cache import CacheLayout, layout_sequence_bytes


def growing_bytes(
    plan: StagePlan,
    engine: EngineRuntime,
    workload: InferenceWorkload,
    serving: ServingSettings,
    whole: Number,
) -> Number:
    """What a running sequence lacks of a whole one on average, if pages are taken as it grows [B].

    Long answers are held for longer: what is held on average is half of the mean of the squares of
    their lengths over their mean.
    """
    if not serving.preempts:
        return 0.0
    answered = workload.output_tokens / 2.0 * minimum(workload.output_spread.square_ratio, 2.0)
    tokens = engine.held_tokens(workload.input_tokens + answered, serving.max_model_len)
    lacking = maximum(whole - layout_sequence_bytes(plan.cache, tokens), 0.0)
    return scaled(lacking, workload.beams.width)


def shared_bytes(layout: CacheLayout, workload: InferenceWorkload, tokens: Number) -> Number:
    """Bytes of a sequence that all others read too: whole pages of the common prefix."""
    ratio = workload.prefix_cached_ratio
    if isinstance(ratio, float | int) and ratio == 0.0:
        return 0.0
    block = layout.block_tokens * layout.context_ranks
    common = minimum(ratio * workload.input_tokens, maximum(tokens - 1, 0.0))
    return layout.full_bytes_per_token * layout.block_tokens * floor(common / block)


def growing_windows(layout: CacheLayout, tokens: Number) -> dict[str, Number]:
    """Bytes per token of windowed layers that are not full yet, by window [B/token]."""
    return {
        part.name: where(tokens <= part.window_tokens, part.bytes_per_token, 0.0)
        for part in layout.windowed
    }


def unset_tokens(engine: EngineRuntime, deployment: Deployment, serving: ServingSettings) -> Number:
    """Tokens of all sequences that caches have room for as nobody set a length, by that choice.

    No more than the model is made for; zero where the engine takes room for what is asked. Caches
    get it as far as memory has room for it: where there is not enough, people set a length.
    """
    if serving.max_model_len is not None or not engine.context_unset:
        return 0.0
    longest = deployment.architecture.max_position_embeddings
    if longest is None:
        return 0.0
    memory = deployment.accelerator.memory_bytes * deployment.parallelism.replica_accelerators
    return minimum(engine.unset_tokens(memory), float(longest))
