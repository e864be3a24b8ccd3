"""Formulas of an inference deployment's latency and throughput."""

from __future__ import annotations

from service.core.explanation import Formula, paths

_ROOFLINE = "Williams et al., Roofline, 2009, https://doi.org/10.1145/1498765.1498785"
_CHUNKED = "Agrawal et al., Sarathi-Serve, 2024, https://arxiv.org/abs/2403.02310"
_LITTLE = "Little, 1961, https://doi.org/10.1287/opre.9.3.383"
_QUEUE = "Kleinrock, Queueing Systems I, 1975, section 5.6 (Pollaczek–Khinchine mean)"
_ARRIVAL = "Reiser and Lavenberg, 1980, https://doi.org/10.1145/322186.322195 (arrival theorem)"

_TOKENS = paths("setup.workload.output_tokens")
_RUNNING = paths("latency.running_sequences_per_replica")
_STAGES = paths("calibration.engine.pipelined_ratio", stages="deployment.parallelism.pipeline")
_DECODE = paths(decode_step_s="latency.state.decode.total_s")
_PREFILL = paths(prefill_step_s="latency.state.prefill.total_s")
_MIXED = paths("latency.state.chunks", mixed_step_s="latency.state.mixed.total_s")
_PROMPT = paths("latency.state.prompt_added_s")
_OTHERS = (
    "max(running_sequences_per_replica - 1, 0) / max(running_sequences_per_replica, 1)"
    " * prompt_added_s"
)
_BUSY = "max(min(running_sequences_per_replica - 1, 1), 0)"
_WAITING = "min(requests_per_s / replicas * prompt_steps_s, 0.999)"


def _phase(name: str) -> tuple[Formula, ...]:
    """Formulas of a step of prompts or of decoding."""
    at = f"latency.{name}"
    bounds = ("compute_bound_s", "memory_bound_s", "interconnect_s", "overhead_s")
    return (
        Formula(
            f"{name}_step_s",
            " + ".join(bounds),
            f"{_ROOFLINE}; operators by what bounds them",
            f"{at}.step_s",
            {part: f"{at}.{part}" for part in bounds}
            | {
                "efficiencies": "calibration.source",
                "own_measurements": f"calibration.own_measurements.{name}",
            },
        ),
        Formula(
            f"{name}_arithmetic_intensity",
            "flops / memory_bytes",
            _ROOFLINE,
            f"{at}.arithmetic_intensity_flop_per_byte",
            paths(flops=f"{at}.flops", memory_bytes=f"{at}.memory_bytes"),
        ),
        Formula(
            f"{name}_ridge_point",
            "peak_flops_per_s / memory_bandwidth_bytes_per_s",
            _ROOFLINE,
            f"{at}.ridge_point_flop_per_byte",
            paths(
                "deployment.accelerator.memory_bandwidth_bytes_per_s",
                "deployment.precision.weights.matrix_precision",
                peak_flops_per_s=f"{at}.peak_flops_per_s",
            ),
        ),
    )


#: Paths start at an ``InferenceEstimate``.
LATENCY = (
    *_phase("prefill"),
    *_phase("decode"),
    Formula(
        "prompt_added_s",
        "chunks * max(mixed_step_s - (decode_step_s if output_tokens > 1 else 0),"
        " 0.05 * prefill_step_s) / prompts_per_step",
        _CHUNKED,
        "latency.state.prompt_added_s",
        _MIXED | _DECODE | _PREFILL | _TOKENS | paths("latency.state.prompts_per_step"),
    ),
    Formula(
        "tpot_s",
        f"decode_step_s + {_OTHERS} / (stages * max(output_tokens - 1, 1)) * decoding_sequences",
        _CHUNKED,
        "latency.tpot_s",
        _DECODE
        | _RUNNING
        | _PROMPT
        | _TOKENS
        | paths(
            stages="deployment.parallelism.pipeline",
            decoding_sequences="latency.state.met_decoding_sequences",
        ),
    ),
    Formula(
        "own_prompt_s",
        f"(1 + (chunks - 1) / (1 + pipelined_ratio * (stages - 1)))"
        f" * (prefill_step_s * (1 - {_BUSY}) + mixed_step_s * {_BUSY})",
        _CHUNKED,
        "latency.ttft_parts_s.own_prompt",
        _MIXED | _PREFILL | _STAGES | _RUNNING,
    ),
    Formula(
        "earlier_prompts_s",
        f"{_OTHERS} / (1 + pipelined_ratio * (stages - 1)) * prefilling_sequences",
        _ARRIVAL,
        "latency.ttft_parts_s.earlier_prompts",
        _RUNNING
        | _PROMPT
        | _STAGES
        | paths(prefilling_sequences="latency.state.met_prefilling_sequences"),
    ),
    Formula(
        "step_under_way_s",
        f"0.5 * {_BUSY} * tpot_s",
        _ARRIVAL,
        "latency.ttft_parts_s.step_under_way",
        _RUNNING | paths("latency.tpot_s"),
    ),
    Formula(
        "free_slot_s",
        "waiting_requests / (replicas * replica_requests_per_s)",
        _LITTLE,
        "latency.ttft_parts_s.free_slot",
        paths(
            "latency.waiting_requests",
            "latency.replicas",
            replica_requests_per_s="latency.state.requests_per_s",
        ),
    ),
    Formula(
        "prompt_steps_s",
        "chunks * mixed_step_s",
        _CHUNKED,
        "latency.ttft_parts_s.prompt_steps",
        _MIXED,
    ),
    Formula(
        "running_step_s",
        "min(running_sequences_per_replica, 1) * tpot_s / 2",
        _ARRIVAL,
        "latency.ttft_parts_s.running_step",
        _RUNNING | paths("latency.tpot_s"),
    ),
    Formula(
        "queue_s",
        f"{_WAITING} * prompt_steps_s / (2 * (1 - {_WAITING}))",
        _QUEUE,
        "latency.ttft_parts_s.queue",
        paths(
            "setup.workload.requests_per_s",
            "latency.replicas",
            prompt_steps_s="latency.ttft_parts_s.prompt_steps",
        ),
    ),
    Formula(
        "ttft_s",
        "sum(s)",
        "definition: from arrival to the first token, waiting included",
        "latency.ttft_s",
        paths(s="latency.ttft_parts_s"),
    ),
    Formula(
        "e2e_s",
        "ttft_s + (output_tokens - 1) * tpot_s",
        "definition",
        "latency.e2e_s",
        _TOKENS | paths("latency.ttft_s", "latency.tpot_s"),
    ),
    Formula(
        "task_s",
        "calls_per_task * call_s + (calls_per_task - 1) * tool_s",
        "definition; a call has the average context of a task's calls",
        "latency.task_s",
        paths("setup.workload.calls_per_task", "setup.workload.tool_s"),
    ),
    Formula(
        "saturation_requests_per_s",
        "replicas * max(full_requests_per_s, replica_requests_per_s)",
        f"{_LITTLE}, of a replica with all slots taken",
        "latency.saturation_requests_per_s",
        paths(
            "latency.replicas",
            full_requests_per_s="latency.full.requests_per_s",
            replica_requests_per_s="latency.state.requests_per_s",
        ),
    ),
    Formula(
        "saturation_requests_per_s",
        "min(prefill_limit_per_s, decode_limit_per_s)",
        "Zhong et al., DistServe, 2024, https://arxiv.org/abs/2401.09670",
        "latency.saturation_requests_per_s",
        paths("latency.pools.prefill_limit_per_s", "latency.pools.decode_limit_per_s"),
    ),
    Formula(
        "requests_per_s",
        "min(concurrency / e2e_s, limit_requests_per_s)",
        _LITTLE,
        "latency.requests_per_s",
        paths("setup.workload.concurrency", "latency.e2e_s", "latency.limit_requests_per_s"),
    ),
    Formula(
        "requests_per_s",
        "min(asked_requests_per_s, saturation_requests_per_s)",
        "definition",
        "latency.requests_per_s",
        paths(
            "latency.saturation_requests_per_s",
            asked_requests_per_s="setup.workload.requests_per_s",
        ),
    ),
    Formula(
        "output_tokens_per_s",
        "requests_per_s * output_tokens",
        "definition",
        "latency.output_tokens_per_s",
        _TOKENS | paths("latency.requests_per_s"),
    ),
    Formula(
        "input_tokens_per_s",
        "requests_per_s * input_tokens",
        "definition",
        "latency.input_tokens_per_s",
        paths("setup.workload.input_tokens", "latency.requests_per_s"),
    ),
    Formula(
        "utilisation_ratio",
        "asked_requests_per_s / saturation_requests_per_s",
        _LITTLE,
        "latency.load.utilisation_ratio",
        paths(
            "latency.saturation_requests_per_s",
            asked_requests_per_s="setup.workload.requests_per_s",
        ),
    ),
)
