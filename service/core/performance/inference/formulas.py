"""Formulas of an inference deployment's latency and throughput."""

from __future__ import annotations

from collections.abc import Mapping

from service.core.explanation import Formula, paths

_ROOFLINE = "Williams et al., Roofline, 2009, https://doi.org/10.1145/1498765.1498785"
_CHUNKED = "Agrawal et al., Sarathi-Serve, 2024, https://arxiv.org/abs/2403.02310"
_LITTLE = "Little, 1961, https://doi.org/10.1287/opre.9.3.383"
_QUEUE = "Kleinrock, Queueing Systems I, 1975, section 5.6 (Pollaczek–Khinchine mean)"
_ARRIVAL = "Reiser and Lavenberg, 1980, https://doi.org/10.1145/322186.322195 (arrival theorem)"

_GATED = "Takagi, Analysis of Polling Systems, 1986 (gated service)"
_SLOTS = "Halfin and Whitt, 1981, https://doi.org/10.1287/opre.29.3.567"

_TOKENS = paths("setup.workload.output_tokens")
_PIPELINED = paths("calibration.engine.pipelined_ratio")
_MIX = paths(
    "latency.state.mix.base_s",
    "latency.state.mix.added_s",
    "latency.state.mix.taken_s",
    "latency.state.mix.chunks",
    "latency.state.mix.steps",
    "latency.state.mix.fitting_prompts",
    "latency.state.mix.stages_at_work",
)
_STATE = paths(
    "latency.state.busy_ratio",
    "latency.state.together_prompts",
    "latency.state.others_ratio",
    "latency.state.prompts_per_step",
    "latency.state.queued_prompts",
    "latency.state.varied_s",
    "latency.state.fuller_s",
    "latency.state.wave_prompts",
)
#: First tokens are those of replicas that keep up with what comes.
_KEPT_MIX, _KEPT_STATE = (
    {name: path.replace("latency.", "latency.kept.", 1) for name, path in figures.items()}
    for figures in (_MIX, _STATE)
)
_BURST = paths(
    "latency.burst.full.chunks",
    "latency.burst.full.groups",
    "latency.burst.full.together_prompts",
    "latency.burst.full.prompt_step_s",
    stages_at_work="latency.burst.full.stages",
)
_AT_WORK = "stages_at_work"


def _of(inputs: Mapping[str, str], *names: str) -> dict[str, str]:
    """Some of the paths."""
    return {name: inputs[name] for name in names}


def _stages_at_work(path: str, overlapping: str) -> Formula:
    """How many stages work on chunks of one prompt at the same time."""
    return Formula(
        "stages_at_work",
        "1 + pipelined_ratio * (overlapping_stages - 1)",
        f"{_CHUNKED}; all stages overlap, but where about a thousand launches wait for each",
        path,
        _PIPELINED | paths(overlapping),
        unit="1",
    )


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
        "prompt_tokens / mixed_tokens * max(mixed_step_s - base_s, 0.05 * prefill_step_s)"
        " if output_tokens > 1 else (prefill_step_s - base_s) * chunks",
        _CHUNKED,
        "latency.state.mix.added_s",
        _of(_MIX, "base_s", "chunks")
        | _TOKENS
        | paths(
            "latency.state.mix.mixed_tokens",
            prompt_tokens="latency.new_input_tokens",
            mixed_step_s="latency.state.mix.mixed.total_s",
            prefill_step_s="latency.state.prefill.total_s",
        ),
    ),
    Formula(
        "tpot_s",
        "base_s + others_ratio * prompts_per_step * taken_s + fuller_s"
        " - wave_prompts * taken_s / (output_tokens - 1) if output_tokens > 1 else decode_step_s",
        _CHUNKED,
        "latency.tpot_s",
        _of(_MIX, "base_s", "taken_s")
        | _of(_STATE, "others_ratio", "prompts_per_step", "fuller_s", "wave_prompts")
        | _TOKENS
        | paths(decode_step_s="latency.state.decode.total_s"),
    ),
    _stages_at_work("latency.state.mix.stages_at_work", "latency.state.mix.overlapping_stages"),
    Formula(
        "own_prompt_s",
        f"(1 - busy_ratio) * ((1 + (prefill_chunks - 1) / {_AT_WORK}) * prefill_step_s"
        " + (together_prompts - 1) * added_s)"
        f" + busy_ratio * ((1 + (steps - 1) / {_AT_WORK}) * base_s"
        f" + (1 + (chunks - 1) / {_AT_WORK}) / chunks * together_prompts * added_s)"
        " + varied_s + received_s",
        _CHUNKED,
        "latency.ttft_parts_s.own_prompt",
        _of(_KEPT_MIX, "base_s", "added_s", "chunks", "steps", "stages_at_work")
        | _of(_KEPT_STATE, "busy_ratio", "together_prompts", "varied_s")
        | paths(
            prefill_step_s="latency.state.prefill.total_s",
            prefill_chunks="latency.state.chunks",
            received_s="latency.received_s",
        ),
    ),
    Formula(
        "earlier_prompts_s",
        "others_ratio * taken_s * queued_prompts",
        _ARRIVAL,
        "latency.ttft_parts_s.earlier_prompts",
        _of(_KEPT_MIX, "taken_s") | _of(_KEPT_STATE, "others_ratio", "queued_prompts"),
    ),
    Formula(
        "wave_s",
        "wave_prompts * taken_s",
        f"{_CHUNKED}; requests that are alike and begin together end together",
        "latency.ttft_parts_s.wave",
        _of(_KEPT_MIX, "taken_s") | _of(_KEPT_STATE, "wave_prompts"),
    ),
    Formula(
        "step_under_way_s",
        "0.5 * busy_ratio * (base_s + others_ratio * prompts_per_step * taken_s)",
        _ARRIVAL,
        "latency.ttft_parts_s.step_under_way",
        _of(_KEPT_MIX, "base_s", "taken_s")
        | _of(_KEPT_STATE, "busy_ratio", "others_ratio", "prompts_per_step"),
    ),
    _stages_at_work("latency.burst.full.stages", "latency.burst.full.overlapping_stages"),
    Formula(
        "own_prompt_s",
        f"(1 + (chunks - 1) / {_AT_WORK}) * prompt_step_s",
        _CHUNKED,
        "latency.burst.full.own_prompt_s",
        _of(_BURST, "chunks", "prompt_step_s", "stages_at_work"),
    ),
    Formula(
        "earlier_prompts_s",
        f"(groups - 1) / 2 * chunks / {_AT_WORK} * prompt_step_s",
        f"{_CHUNKED}; prompts in the order in which they came",
        "latency.burst.full.earlier_prompts_s",
        _of(_BURST, "groups", "chunks", "prompt_step_s", "stages_at_work"),
    ),
    Formula(
        "decoding_beside_s",
        f"chunks * together_prompts * mean_decoding_groups * beside_s / {_AT_WORK}",
        f"{_CHUNKED}; sequences whose prompts are done decode beside the others",
        "latency.burst.full.decoding_beside_s",
        _of(_BURST, "chunks", "together_prompts", "stages_at_work")
        | paths("latency.burst.full.mean_decoding_groups", "latency.burst.full.beside_s"),
    ),
    Formula(
        "makespan_s",
        "waves_before * slot_s + last_makespan_s",
        "definition: a request takes the slot of one that has ended",
        "latency.burst.makespan_s",
        paths(
            "latency.burst.waves_before",
            "latency.burst.full.slot_s",
            last_makespan_s="latency.burst.last.makespan_s",
        ),
    ),
    Formula(
        "requests_per_s",
        "concurrency / makespan_s",
        "definition: all requests over the time until the last is answered",
        "latency.requests_per_s",
        paths("setup.workload.concurrency", "latency.burst.makespan_s"),
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
        "running_step_s",
        "busy_ratio * base_s / 2",
        _GATED,
        "latency.ttft_parts_s.running_step",
        _of(_KEPT_MIX, "base_s") | _of(_KEPT_STATE, "busy_ratio"),
    ),
    Formula(
        "prompts_beside_s",
        "busy_ratio * (cycle_s * (0.5 + requests_per_s / stages * taken_s) - base_s / 2)"
        " * (1 - 1 / max(fitting_prompts, 1))",
        _GATED,
        "latency.ttft_parts_s.prompts_beside",
        _of(_KEPT_MIX, "base_s", "taken_s", "fitting_prompts")
        | _of(_KEPT_STATE, "busy_ratio")
        | paths(
            "latency.kept_load.cycle_s",
            "latency.kept.state.requests_per_s",
            stages="deployment.parallelism.pipeline",
        ),
    ),
    Formula(
        "queue_s",
        "waiting_ratio * tail_s",
        _QUEUE,
        "latency.ttft_parts_s.queue",
        paths(
            "latency.kept_load.prompt_queue.waiting_ratio", "latency.kept_load.prompt_queue.tail_s"
        ),
    ),
    Formula(
        "slot_queue_s",
        "waiting_ratio * tail_s",
        _SLOTS,
        "latency.ttft_parts_s.slot_queue",
        paths(
            "latency.kept_load.slot_queue.waiting_ratio",
            "latency.kept_load.slot_queue.tail_s",
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
        "replicas * max(stages * full_prompts / full_step_s, replica_requests_per_s)",
        f"{_LITTLE}, of a replica with all slots taken",
        "latency.saturation_requests_per_s",
        paths(
            "latency.replicas",
            full_prompts="latency.full.prompts",
            full_step_s="latency.full.step_s",
            stages="deployment.parallelism.pipeline",
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
        "requests_per_s * (input_tokens + encoded_tokens)",
        "definition",
        "latency.input_tokens_per_s",
        paths(
            "setup.workload.input_tokens",
            "setup.workload.encoded_tokens",
            "latency.requests_per_s",
        ),
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
