"""How an inference memory answer came about, from the figures stored in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.core.explanation import Formula, Step
from service.core.memory.inference.runtime import communicates

if TYPE_CHECKING:
    from service.core.memory.inference.memory import InferenceMemory

WEIGHTS = Formula(
    "Weights on the fullest accelerator",
    "Σ over tensors: elements on the rank × stored bits / 8",
    "B",
    "Shoeybi et al., Megatron-LM, 2019, https://arxiv.org/abs/1909.08053 (division of tensors)",
)
SEQUENCE = Formula(
    "Cache of one sequence",
    "Σ over layers: bytes per token × page × pages(input + output tokens) + constant states",
    "B",
    "Kwon et al., PagedAttention, 2023, https://arxiv.org/abs/2309.06180",
)
CACHE = Formula(
    "Cache at the requested concurrency",
    "sequences × (sequence − shared prefix) + shared prefix + prefill in windowed layers",
    "B",
    "Kwon et al., PagedAttention, 2023, https://arxiv.org/abs/2309.06180 (shared pages)",
)
ACTIVATIONS = Formula(
    "Peak of temporary tensors",
    "max(step tokens × bytes per token in the widest layer, sequences × vocabulary × bytes per "
    "logit) × measured ratio",
    "B",
    "Order of operations in vLLM and Hugging Face transformers decoder layers, 2024",
)
RUNTIME = Formula(
    "Runtime",
    "context + collectives + graphs + allocator slack × temporary peak",
    "B",
    "Measured distributions by engine, see the calibration entry",
)
TOTAL = Formula("Total", "weights + cache + activations + runtime", "B", "Sum of the parts")
USABLE = Formula(
    "Usable memory",
    "capacity × memory utilisation ratio",
    "B",
    "vLLM gpu_memory_utilization, 2025, https://docs.vllm.ai",
)
BUDGET = Formula(
    "Room for caches",
    "min(usable − weights − what counts against the share, capacity − weights − activations − "
    "runtime)",
    "B",
    "vLLM gpu_worker.py determine_available_memory, 2025",
)
HEADROOM = Formula("Headroom", "room for caches − cache", "B", "Difference of the parts")
SHORTFALL = Formula("Shortfall", "max(−headroom, 0)", "B", "Difference of the parts")
NEXT_TOKEN = Formula(
    "Cache of the next token",
    "Σ over layers that still grow: KV heads on the rank × (key + value dimension) × bytes",
    "B/token",
    "Ainslie et al., GQA, 2023, https://arxiv.org/abs/2305.13245",
)
CAPACITY = Formula(
    "Tokens that fit in the cache",
    "room for caches / cache per token, in whole pages, at the workload's length",
    "token",
    "Kwon et al., PagedAttention, 2023, https://arxiv.org/abs/2309.06180",
)
CONCURRENCY = Formula(
    "Sequences that fit",
    "replicas × floor((room − shared prefix − prefill) / (sequence − shared prefix))",
    "sequence",
    "Kwon et al., PagedAttention, 2023, https://arxiv.org/abs/2309.06180",
)
CONTEXT = Formula(
    "Longest sequence at the requested concurrency",
    "largest n with sequences × cache(n) ≤ room, up to the model's or the setting's limit",
    "token",
    "Kwon et al., PagedAttention, 2023, https://arxiv.org/abs/2309.06180",
)


def steps(memory: InferenceMemory) -> tuple[Step, ...]:
    """Steps of an answer for a single workload, in order of computation."""
    plan = memory.plan
    engine = memory.engine
    layout = plan.cache
    tokens = memory.workload.input_tokens + memory.workload.output_tokens
    by_class: dict[str, float | str] = {
        f"{kind.value}_bytes": size for kind, size in memory.weights_by_class.items()
    }
    cache_inputs: dict[str, float | str] = {
        "tokens": tokens,
        "page_tokens": layout.block_tokens,
        "full_layers_bytes_per_token": layout.full_bytes_per_token,
        "state_bytes": layout.state_bytes,
        "copies": engine.cache_copies,
    }
    for part in layout.windowed:
        cache_inputs[f"window_{part.window_tokens}_bytes_per_token"] = part.bytes_per_token
    spans = communicates(memory.deployment.parallelism)
    return (
        Step(
            WEIGHTS,
            {
                **by_class,
                "format": memory.deployment.precision.weights.id,
                "stage": plan.weights.stage,
                "layers": plan.weights.layers,
                "elements": plan.weights.elements,
            },
            memory.weights.value,
        ),
        Step(NEXT_TOKEN, {"tokens": tokens}, memory.kv_cache_bytes_per_token),
        Step(SEQUENCE, cache_inputs, memory.sequence_bytes),
        Step(
            CACHE,
            {
                "sequences": memory.rank_concurrency,
                "sequence_bytes": memory.sequence_bytes,
                "shared_bytes": memory.shared_bytes,
                "prefill_bytes": memory.prefill_bytes,
            },
            memory.kv_cache.value,
        ),
        Step(
            ACTIVATIONS,
            {
                "step_tokens": memory.step_tokens,
                "layer_bytes_per_token": plan.peak.layer_bytes_per_token,
                "sampled_sequences": memory.sampled_sequences,
                "vocabulary": plan.peak.vocabulary_entries,
                "bytes_per_logit": engine.bytes_per_logit,
                "activation_ratio": engine.activation_ratio.value,
                "workspace_bytes": 0.0 if engine.workspace is None else engine.workspace.value,
            },
            memory.activations.value,
        ),
        Step(
            RUNTIME,
            {
                "context_bytes": engine.context.value,
                "reserved_bytes": memory.serving.reserved_bytes,
                "draft_model_bytes": memory.draft_bytes,
                "graphs_bytes": engine.graphs.value,
                "collectives_bytes": engine.collectives.value if spans else 0.0,
                "slack_ratio": engine.slack_ratio.value,
                "engine": memory.serving.engine,
                "calibration": engine.calibration,
            },
            memory.runtime.value,
        ),
        Step(
            TOTAL,
            {
                "weights_bytes": memory.weights.value,
                "kv_cache_bytes": memory.kv_cache.value,
                "activations_bytes": memory.activations.value,
                "runtime_bytes": memory.runtime.value,
                "low_bytes": memory.total.low,
                "high_bytes": memory.total.high,
            },
            memory.total.value,
        ),
        Step(
            USABLE,
            {
                "capacity_bytes": memory.capacity_bytes,
                "memory_utilization_ratio": memory.serving.memory_utilization_ratio,
            },
            memory.usable_bytes,
        ),
        Step(
            BUDGET,
            {
                "usable_bytes": memory.usable_bytes,
                "capacity_bytes": memory.capacity_bytes,
                "weights_bytes": memory.weights.value,
                "activations_bytes": memory.activations.value,
                "runtime_bytes": memory.runtime.value,
                "activations_in_share": "yes" if engine.activations_in_share else "no",
                "graphs_in_share": "yes" if engine.graphs_in_share else "no",
            },
            memory.kv_cache_budget.value,
        ),
        Step(
            HEADROOM,
            {
                "room_bytes": memory.kv_cache_budget.value,
                "kv_cache_bytes": memory.kv_cache.value,
                "fits": "yes" if memory.fits else "no",
                "fits_certainty": memory.fits_certainty,
            },
            memory.headroom.value,
        ),
        Step(SHORTFALL, {"headroom_bytes": memory.headroom.value}, memory.shortfall.value),
        Step(
            CAPACITY,
            {
                "room_bytes": memory.kv_cache_budget.value,
                "sequence_bytes": memory.sequence_bytes,
                "tokens": tokens,
            },
            memory.kv_cache_capacity_tokens.value,
        ),
        Step(
            CONCURRENCY,
            {
                "room_bytes": memory.kv_cache_budget.value,
                "sequence_bytes": memory.sequence_bytes,
                "shared_bytes": memory.shared_bytes,
                "prefill_bytes": memory.prefill_bytes,
                "replicas": memory.deployment.parallelism.data,
            },
            memory.max_concurrency.value,
        ),
        Step(
            CONTEXT,
            {
                "room_bytes": memory.kv_cache_budget.value,
                "sequences": memory.rank_concurrency,
            },
            memory.max_context_tokens.value,
        ),
    )
