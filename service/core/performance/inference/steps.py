"""Explanation of a latency estimate, from the figures the estimate itself holds."""

from __future__ import annotations

from service.core.deployment import Deployment, InferenceWorkload
from service.core.explanation import Formula, Step
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.inference.latency import InferenceLatency, Phase
from service.core.performance.inference.tasks import prefill_tokens

_ROOFLINE = "Williams et al., Roofline, 2009, https://doi.org/10.1145/1498765.1498785"
_CHUNKED = "Agrawal et al., Sarathi-Serve, 2024, https://arxiv.org/abs/2403.02310"
_LITTLE = "Little, 1961, https://doi.org/10.1287/opre.9.3.383"

STEP_TIME = Formula(
    "step_s",
    "Σ operators (max(compute, memory) + (1 − overlap) · min(compute, memory))"
    " + messages + overhead",
    "s",
    _ROOFLINE,
)
INTENSITY = Formula("arithmetic_intensity", "FLOPs / bytes moved", "FLOP/B", _ROOFLINE)
RIDGE = Formula("ridge_point", "peak FLOP/s / peak bandwidth", "FLOP/B", _ROOFLINE)
TPOT = Formula("tpot_s", "decode step + prompts admitted per step · time each adds", "s", _CHUNKED)
TTFT = Formula(
    "ttft_s",
    "(1 + (chunks − 1) / stages at work) · mixed step"
    " + wait for the step under way, earlier prompts and a slot",
    "s",
    _CHUNKED,
)
E2E = Formula("e2e_s", "TTFT + (output_tokens − 1) · TPOT", "s", "definition")
TASK = Formula(
    "task_s",
    "calls_per_task · E2E at the calls' average context + (calls_per_task − 1) · tool_s",
    "s",
    "definition",
)
REQUEST_RATE = Formula(
    "requests_per_s", "running / (TTFT + (output_tokens − 1) · TPOT)", "1/s", _LITTLE
)
TOKEN_RATE = Formula("output_tokens_per_s", "requests_per_s · output_tokens", "1/s", "definition")
SATURATION = Formula(
    "saturation_requests_per_s", "request rate with all slots taken", "1/s", _LITTLE
)
UTILISATION = Formula(
    "utilisation_ratio", "requests_per_s / saturation_requests_per_s", "1", _LITTLE
)


def latency_steps(
    latency: InferenceLatency,
    deployment: Deployment,
    workload: InferenceWorkload,
    calibration: PerformanceCalibration,
) -> tuple[Step, ...]:
    """The formulas applied, in order, with the figures that went in and came out.

    Parameters
    ----------
    latency
        The estimate to explain, of one configuration (not arrays).
    deployment, workload, calibration
        What it was computed from.

    Returns
    -------
    tuple of Step
        Every figure of the estimate appears as the value of a step.
    """
    state = latency.state
    steps = [
        *_phase_steps("prefill", latency.prefill, deployment, calibration),
        *_phase_steps("decode", latency.decode, deployment, calibration),
        Step(
            TPOT,
            {
                "decode_step_s": state.decode.total_s,
                "mixed_step_s": state.mixed.total_s,
                "chunks": state.chunks,
                "decoding_sequences": state.decoding,
                "output_tokens": workload.output_tokens,
            },
            latency.tpot_s.value,
        ),
        Step(
            TTFT,
            {
                "prefill_step_s": state.prefill.total_s,
                "mixed_step_s": state.mixed.total_s,
                "chunks": state.chunks,
                "stages_at_work": calibration.engine.stages_at_work(
                    deployment.parallelism.pipeline
                ),
                "running_sequences": latency.running_sequences_per_replica,
                "waiting_requests": latency.waiting_requests,
            },
            latency.ttft_s.value,
        ),
        Step(
            E2E,
            {
                "ttft_s": latency.ttft_s.value,
                "tpot_s": latency.tpot_s.value,
                "output_tokens": workload.output_tokens,
            },
            latency.e2e_s.value,
        ),
        Step(
            TASK,
            {
                "calls_per_task": workload.calls_per_task,
                "e2e_s": latency.e2e_s.value,
                "tool_s": workload.tool_s,
                "prefill_tokens": prefill_tokens(workload),
            },
            latency.task_s.value,
        ),
        Step(
            REQUEST_RATE,
            {
                "running_sequences_per_replica": latency.running_sequences_per_replica,
                "replicas": latency.replicas,
                "busy_ratio": latency.usage.busy_ratio,
                "tpot_s": latency.tpot_s.value,
            },
            latency.requests_per_s.value,
        ),
        Step(
            TOKEN_RATE,
            {
                "requests_per_s": latency.requests_per_s.value,
                "output_tokens": workload.output_tokens,
            },
            latency.output_tokens_per_s.value,
        ),
        Step(SATURATION, {"replicas": latency.replicas}, latency.saturation_requests_per_s.value),
    ]
    if latency.load is not None and workload.requests_per_s is not None:
        steps.append(
            Step(
                UTILISATION,
                {
                    "requests_per_s": workload.requests_per_s,
                    "saturation_requests_per_s": latency.saturation_requests_per_s.value,
                },
                latency.load.utilisation_ratio,
            )
        )
    return tuple(steps)


def _phase_steps(
    name: str, phase: Phase, deployment: Deployment, calibration: PerformanceCalibration
) -> tuple[Step, Step, Step]:
    def named(formula: Formula) -> Formula:
        return Formula(f"{name}_{formula.name}", formula.expression, formula.unit, formula.source)

    return (
        Step(
            named(STEP_TIME),
            {
                "compute_bound_s": phase.compute_bound_s,
                "memory_bound_s": phase.memory_bound_s,
                "interconnect_s": phase.interconnect_s,
                "overhead_s": phase.overhead_s,
                "memory_efficiency_ratio": calibration.hardware.memory_ratio,
                "matrix_efficiency_ratio": calibration.hardware.matrix_ratio[16],
                "efficiencies": calibration.source,
            },
            phase.step_s,
        ),
        Step(
            named(INTENSITY),
            {"flops": phase.flops, "memory_bytes": phase.memory_bytes},
            phase.arithmetic_intensity_flop_per_byte,
        ),
        Step(
            named(RIDGE),
            {
                "memory_bandwidth_bytes_per_s": (
                    deployment.accelerator.memory_bandwidth_bytes_per_s
                ),
                "matrix_precision": deployment.precision.weights.matrix_precision,
            },
            phase.ridge_point_flop_per_byte,
        ),
    )
