"""Formulas of an inference deployment's memory, and of what it holds in further tiers."""

from __future__ import annotations

from service.core.explanation import Formula, paths

_PAGES = "Kwon et al., PagedAttention, 2023, https://arxiv.org/abs/2309.06180"
_DIFFERENCE = "Difference of the parts"
_ENGINE = "Measured distributions by engine, see the calibration entry"
_STEPS = "Order of operations in vLLM and Hugging Face transformers decoder layers, 2024"
_ROOM = paths("room_bytes")
_LAYERS = paths(
    "plan.cache.context_ranks", full_layers_bytes_per_token="plan.cache.full_bytes_per_token"
)
_PAGE = paths(page_tokens="plan.cache.block_tokens")

#: Paths start at an ``InferenceMemory``.
MEMORY = (
    Formula(
        "Tensors of the checkpoint",
        "total_model_bytes",
        "Sum over all tensors, shared ones once",
        "checkpoint_bytes",
        paths("plan.weights.total_model_bytes"),
    ),
    Formula(
        "Kept in the host's memory",
        "host_weights_bytes + host_pool_bytes",
        _ENGINE,
        "host_bytes",
        paths(
            "engine.host_pool_bytes",
            "engine.calibration",
            host_weights_bytes="plan.weights.host_bytes",
        ),
    ),
    Formula(
        "Weights on the fullest accelerator",
        "sum(weights_bytes)",
        "Shoeybi et al., Megatron-LM, 2019, https://arxiv.org/abs/1909.08053 (division of tensors)",
        "weights_bytes",
        paths(weights_bytes="weights_by_class_bytes", format="deployment.precision.weights.id"),
    ),
    Formula(
        "Cache of the next token",
        "full_layers_bytes_per_token / context_ranks + sum(bytes_per_token)",
        "Ainslie et al., GQA, 2023, https://arxiv.org/abs/2305.13245",
        "kv_cache_bytes_per_token",
        _LAYERS | paths(bytes_per_token="growing_windows"),
    ),
    Formula(
        "Cache of one sequence",
        "cache_copies * (state_bytes + full_layers_bytes_per_token * page_tokens"
        " * ceil(ceil(tokens / context_ranks) / page_tokens) + sum(bytes))",
        _PAGES,
        "sequence_bytes",
        _LAYERS | _PAGE | paths("engine.cache_copies", "plan.cache.state_bytes", bytes="windows"),
    ),
    Formula(
        "Cache of one request",
        "prompt_copies * sequence_bytes + beams_bytes",
        f"{_PAGES} (beams share pages of their prompt)",
        "request_bytes",
        paths("workload.beams.prompt_copies"),
    ),
    Formula(
        "Cache at the requested concurrency",
        "requests * (request_bytes - shared_bytes) + shared_bytes + prefill_bytes"
        " - growing_bytes * (requests - sqrt(requests))",
        f"{_PAGES} (shared pages)",
        "kv_cache_bytes",
        paths(requests="concurrency_per_replica"),
    ),
    Formula(
        "Temporary tensors inside the widest layer",
        "(layer_bytes_per_token * result_ratio + score_heads * bytes_per_score * attended_tokens)"
        " * step_tokens + widened_bytes",
        _STEPS,
        "layer_peak_bytes",
        paths(
            "plan.peak.layer_bytes_per_token",
            "plan.peak.score_heads",
            "shape.bytes_per_score",
            "shape.attended_tokens",
            "shape.step_tokens",
            "shape.result_ratio",
            "shape.widened_bytes",
        ),
    ),
    Formula(
        "Temporary tensors at the worst moment",
        "max(layer_peak_bytes,"
        " vocabulary * (sampled_sequences * bytes_per_logit + bytes_per_entry)"
        " + (output_bytes_per_token * result_ratio + experts_bytes_per_token) * step_tokens,"
        " repeated_bytes) + pooled_bytes",
        _STEPS,
        "peak_bytes",
        paths(
            "shape.sampled_sequences",
            "shape.bytes_per_logit",
            "shape.bytes_per_entry",
            "plan.peak.output_bytes_per_token",
            "plan.peak.experts_bytes_per_token",
            "shape.result_ratio",
            "shape.step_tokens",
            "shape.repeated_bytes",
            "shape.pooled_bytes",
            vocabulary="plan.peak.vocabulary_entries",
        ),
    ),
    Formula(
        "Temporary tensors while images are encoded",
        "images * image_bytes",
        _STEPS,
        "images_bytes",
        paths("shape.images", "plan.peak.image_bytes"),
    ),
    Formula(
        "Peak of temporary tensors",
        "max(activation_ratio * peak_bytes, images_bytes) + workspace_bytes",
        _ENGINE,
        "activations_bytes",
        paths("engine.activation_ratio", "engine.workspace_bytes", "engine.calibration"),
    ),
    Formula(
        "Libraries",
        "counted_bytes"
        " + (collectives_bytes * min(max(link_bandwidth_bytes_per_s / 25e9, 1), 16)"
        " if max(tensor_ranks, context_ranks, expert_ranks) > 1 else 0)"
        " + reserved_bytes + draft_model_bytes",
        "Measured distributions by engine, see the calibration entry; channels: NVIDIA, NCCL"
        " src/init.cc and src/graph/search.cc, 2024",
        "libraries_bytes",
        paths(
            "engine.counted_bytes",
            "engine.collectives_bytes",
            "engine.calibration",
            tensor_ranks="deployment.parallelism.tensor",
            context_ranks="deployment.parallelism.context",
            link_bandwidth_bytes_per_s="deployment.accelerator.scale_up.bandwidth_bytes_per_s",
            reserved_bytes="serving.reserved_bytes",
            expert_ranks="deployment.parallelism.expert",
        ),
    ),
    Formula(
        "Slack of the allocator",
        "slack_ratio * peak_bytes",
        _ENGINE,
        "slack_bytes",
        paths("engine.slack_ratio", "engine.calibration"),
    ),
    Formula(
        "Runtime",
        "context_bytes + libraries_bytes + slack_bytes + graphs_bytes",
        _ENGINE,
        "runtime_bytes",
        paths("serving.engine", "engine.calibration"),
    ),
    Formula(
        "Tensors",
        "weights_bytes + kv_cache_bytes + activations_bytes",
        "Sum of the parts",
        "allocated_bytes",
    ),
    Formula(
        "Taken by the allocator",
        "allocated_bytes + slack_bytes + graphs_bytes",
        "Sum of the parts",
        "reserved_bytes",
    ),
    Formula(
        "Taken by the process",
        "min(max(usable_bytes + context_bytes * (1 - context_in_share)"
        " + graphs_bytes * (1 - graphs_in_share)"
        " + (min(reached_bytes - activations_bytes, 0) if activations_in_share"
        " else reached_bytes), weights_bytes + libraries_bytes + context_bytes), capacity_bytes)"
        " if fills_share and causal else total_bytes",
        "vLLM gpu_worker.py determine_available_memory and compile_or_warm_up_model, 2025",
        "process_bytes",
        paths(
            "engine.context_in_share",
            "engine.graphs_in_share",
            "engine.activations_in_share",
            "engine.fills_share",
            "reached_bytes",
            "deployment.architecture.causal",
        ),
    ),
    Formula(
        "Total",
        "weights_bytes + kv_cache_bytes + activations_bytes + runtime_bytes",
        "Sum of the parts",
        "total_bytes",
    ),
    Formula(
        "Usable memory",
        "capacity_bytes * memory_utilization_ratio"
        " + ((share_is_of_free * (1 - memory_utilization_ratio) + share_is_of_caches)"
        " * (weights_bytes + libraries_bytes + slack_bytes + context_in_share * context_bytes"
        " + activations_in_share * activations_bytes + graphs_in_share * graphs_bytes))"
        " - kept_bytes",
        "vLLM gpu_memory_utilization, 2025, https://docs.vllm.ai; TensorRT-LLM"
        " free_gpu_memory_fraction, 2025",
        "usable_bytes",
        paths(
            "serving.memory_utilization_ratio",
            "kept_bytes",
            "engine.share_is_of_free",
            "engine.share_is_of_caches",
            "engine.context_in_share",
            "engine.graphs_in_share",
            "engine.activations_in_share",
        ),
    ),
    Formula(
        "Left for caches",
        "min(usable_bytes - libraries_bytes - slack_bytes - context_in_share * context_bytes"
        " - activations_in_share * activations_bytes - graphs_in_share * graphs_bytes,"
        " capacity_bytes - activations_bytes - libraries_bytes - slack_bytes - graphs_bytes)"
        " - weights_bytes",
        "vLLM gpu_worker.py determine_available_memory, 2025",
        "room_bytes",
        paths(
            "engine.activations_in_share",
            "engine.graphs_in_share",
            "engine.context_in_share",
        ),
    ),
    Formula("Room for caches", "max(room_bytes, 0)", _DIFFERENCE, "kv_cache_budget_bytes", _ROOM),
    Formula(
        "Headroom",
        "room_bytes - kv_cache_bytes",
        _DIFFERENCE,
        "headroom_bytes",
        _ROOM | paths("fits_certainty"),
    ),
    Formula("Shortfall", "max(-headroom_bytes, 0)", _DIFFERENCE, "shortfall_bytes"),
    Formula(
        "Tokens that fit in the cache",
        "max(floor(room_bytes * (ceil(counted_tokens / page_tokens) * page_tokens"
        " / max(counted_sequence_bytes, 1)) / page_tokens) * page_tokens, 0)",
        _PAGES,
        "kv_cache_capacity_tokens",
        _ROOM | _PAGE | paths("counted_tokens", "counted_sequence_bytes"),
    ),
    Formula(
        "Sequences that fit",
        "replicas * floor(((sqrt(growing_bytes ** 2"
        " + 4 * max(max(request_bytes - shared_bytes, 1) + step_bytes_per_sequence"
        " - growing_bytes, 1) * max(room_bytes - shared_bytes - prefill_bytes, 0)) - growing_bytes)"
        " / (2 * max(max(request_bytes - shared_bytes, 1) + step_bytes_per_sequence"
        " - growing_bytes, 1))) ** 2"
        " if growing_bytes > 0 else max(room_bytes - shared_bytes - prefill_bytes, 0)"
        " / (max(request_bytes - shared_bytes, 1) + step_bytes_per_sequence))",
        _PAGES,
        "max_concurrency",
        paths(
            "deciding_sequences.room_bytes",
            "deciding_sequences.step_bytes_per_sequence",
            "deciding_sequences.stage.request_bytes",
            "deciding_sequences.stage.shared_bytes",
            "deciding_sequences.stage.prefill_bytes",
            "deciding_sequences.stage.growing_bytes",
            replicas="deployment.parallelism.data",
        ),
        unit="sequence",
    ),
    Formula(
        "Left for the tokens of a sequence at the requested concurrency",
        "((room_bytes / cache_copies - step_tokens * windows_bytes_per_token) / max(requests, 1)"
        " - beams_bytes / cache_copies) / prompt_copies"
        " - constant_bytes - cache_bytes_per_token * before_tokens",
        _PAGES,
        "deciding_stretch.spare_bytes",
        paths(
            "engine.cache_copies",
            "deciding_stretch.room_bytes",
            "deciding_stretch.line.constant_bytes",
            "deciding_stretch.before_tokens",
            "deciding_stretch.windows_bytes_per_token",
            "workload.beams.prompt_copies",
            beams_bytes="deciding_stretch.beams_bytes",
            requests="concurrency_per_replica",
            cache_bytes_per_token="deciding_stretch.line.bytes_per_token",
        ),
    ),
    Formula(
        "Longest sequence at the requested concurrency",
        "min(max(floor((before_tokens + 2 * spare_bytes / (bytes_per_token"
        " + sqrt(bytes_per_token ** 2 + 4 * bytes_per_pair * max(spare_bytes, 0))))"
        " / page_tokens) * page_tokens, 0) if bytes_per_token + bytes_per_pair > 0"
        " else (limit_tokens if spare_bytes >= 0 else 0), limit_tokens)",
        _PAGES,
        "max_context_tokens",
        _PAGE
        | paths(
            "deciding_stretch.spare_bytes",
            "deciding_stretch.before_tokens",
            "deciding_stretch.bytes_per_token",
            "deciding_stretch.bytes_per_pair",
            limit_tokens="context_limit_tokens",
        ),
    ),
)
#: Paths start at ``InferenceTiers``.
TIERS = (
    Formula(
        "Room for weights and caches in the accelerator",
        "max(weights_bytes + room_for_caches_bytes, 0)",
        "Sum of the parts",
        "room_bytes",
        paths("memory.weights_bytes", room_for_caches_bytes="memory.room_bytes"),
    ),
    Formula(
        "Bandwidth with tiers",
        "sum(touched_bytes) / (overlap_ratio * max(time_s) + (1 - overlap_ratio) * sum(time_s))",
        "Weighted harmonic mean without overlap; overlap from 0 to 1 gives the interval",
        "effective_bandwidth",
        paths("overlap_ratio"),
        unit="B/s",
    ),
)
#: Paths start at a ``TierContent``.
TIER = (
    Formula(
        "Held by a tier",
        "sum(bytes)",
        "Exchange argument: with the bytes touched most in the fastest tier with room, swapping "
        "bytes of two tiers could only make a step longer",
        "stored_bytes",
        paths(bytes="parts_bytes", tier="name"),
    ),
    Formula(
        "Time to read what a step touches in a tier",
        "touched_bytes / bandwidth_bytes_per_s",
        "definition",
        "time_s",
        paths(tier="name"),
    ),
)
