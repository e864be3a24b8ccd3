"""Use case: where the operators of prefill and decode stand under the accelerator's roof."""

from __future__ import annotations

from collections.abc import Iterable

from pydantic import ConfigDict

from service.catalog.snapshot import CatalogSnapshot
from service.charts.curves import roofline
from service.core.explanation import EstimateWarning
from service.core.interval import exact, from_log_sigma
from service.core.performance.inference.replica import decode_load, prompt_load
from service.core.performance.inference.replicas import replica_of
from service.core.performance.kernels import engine_precision, peak_flops_per_s
from service.core.performance.operators import Operator, step_operators
from service.core.performance.steps import StepLoad
from service.estimation.answers import warning_entries
from service.estimation.charts.answers import ChartFindings, ChartSeries
from service.estimation.charts.kind import ChartKind
from service.estimation.charts.requests import DEPLOYED, StyleRequest
from service.estimation.charts.series import axis, chart, point, series
from service.estimation.formatting import number
from service.estimation.inference.answers import LatencyInferenceAnswer, Phase
from service.estimation.inference.deployment import ComputedDeployment
from service.estimation.inference.estimate import inference_latency_answer
from service.estimation.inference.spilling import computed_deployment
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import Problems
from service.estimation.verdict.names import deployment_name

#: How far the roof is drawn beyond the outermost operators, as a factor of intensity.
_MARGIN = 4.0

_PLAIN_STEPS = EstimateWarning(
    "plain_steps",
    "the chart shows operators of plain steps of a whole replica; it leaves out speculative "
    "decoding and disaggregated serving",
)


class RooflineChartRequest(DeploymentRequest):
    """The operators of prefill and decode under the roof of the accelerator."""

    model_config = ConfigDict(json_schema_extra={"examples": [DEPLOYED]})

    style: StyleRequest = StyleRequest()


def roofline_chart(request: RooflineChartRequest, snapshot: CatalogSnapshot) -> ChartFindings:
    """FLOP/s against FLOP per byte of each kind of operator, and what bounds them."""
    answer = inference_latency_answer(request, snapshot)
    computed = computed_deployment(request, snapshot, Problems())
    serving = computed.resolved.serving
    if serving.speculation is not None or serving.disaggregation is not None:
        answer["warnings"] += warning_entries((_PLAIN_STEPS,))
    phases = _phases(computed)
    sigma = computed.estimate.latency.log_sigma
    corrections = computed.estimate.calibration.corrections
    slower = {"prefill": corrections.prefill.ratio, "decode": corrections.decode.ratio}
    lines = [
        series(
            phase,
            [
                point(
                    one.name,
                    from_log_sigma(one.flops / (one.work_s * slower[phase]), sigma[phase]),
                    exact(one.flops / one.memory_bytes),
                )
                for one in operators
                if one.flops > 0.0
            ],
        )
        for phase, operators in phases.items()
    ]
    intensities = [p["x"]["value"] for line in lines for p in line["points"] if p["x"]]
    roofs = _roofs(computed, min(intensities) / _MARGIN, max(intensities) * _MARGIN)
    accelerator = computed.estimate.deployment.accelerator
    ridge = answer["prefill"]["ridge_point_flop_per_byte"]
    return chart(
        f"{_finding(answer)}: {deployment_name(answer['deployment'], snapshot)}",
        f"{accelerator.name} computes at most {_peak(computed) / 1e12:,.0f} TFLOP/s and "
        f"reads {accelerator.memory_bandwidth_bytes_per_s / 1e12:.3g} TB/s: below "
        f"{ridge:,.0f} FLOP per byte its roof is bandwidth, above it is compute. Prefill, at "
        f"{answer['prefill']['arithmetic_intensity_flop_per_byte']:,.0f} FLOP per byte, is bound "
        f"by {_plain(answer['prefill']['bottleneck'])}{_of_decode(answer['decode'])}.",
        (axis("arithmetic intensity", "FLOP/B"), axis("speed of one accelerator", "FLOP/s")),
        [*roofs, *lines],
        [answer],
    )


def _phases(computed: ComputedDeployment) -> dict[str, tuple[Operator, ...]]:
    """Operators of a step of a prompt alone, and of one of decoding sequences alone."""
    deployment = computed.estimate.deployment
    parallelism = deployment.parallelism
    resolved = computed.resolved
    replica = replica_of(
        deployment, resolved.workload, resolved.serving, computed.estimate.calibration
    )
    requests = replica.requests
    sequences = computed.latency.running_sequences_per_replica / parallelism.pipeline

    def operators(load: StepLoad) -> tuple[Operator, ...]:
        return step_operators(
            replica.steps.work,
            load,
            deployment.accelerator,
            parallelism,
            computed.estimate.calibration,
            resolved.serving.flash_attention,
        )

    phases = {"prefill": operators(prompt_load(requests, resolved.serving.chunked_prefill_tokens))}
    if computed.generates:
        phases["decode"] = operators(decode_load(requests, sequences))
    return phases


def _roofs(computed: ComputedDeployment, least: float, most: float) -> Iterable[ChartSeries]:
    """What the datasheet allows, and what the hardware was measured to reach of it."""
    hardware = computed.estimate.calibration.hardware
    bandwidth = float(computed.estimate.deployment.accelerator.memory_bandwidth_bytes_per_s)
    precision = computed.estimate.deployment.precision.weights.matrix_precision
    peak, bits = peak_flops_per_s(
        computed.estimate.deployment.accelerator,
        engine_precision(precision, computed.estimate.calibration.engine),
    )
    for name, flops_per_s, bytes_per_s in (
        ("datasheet", float(peak), bandwidth),
        ("reached", float(peak) * hardware.matrix_ratio[bits], bandwidth * hardware.memory_ratio),
    ):
        ridge = flops_per_s / bytes_per_s
        yield series(
            f"roof, {name}",
            [
                point(name, exact(min(flops_per_s, x * bytes_per_s)), exact(x))
                for x in sorted({min(least, ridge), ridge, max(most, ridge)})
            ],
        )


def _peak(computed: ComputedDeployment) -> float:
    precision = computed.estimate.deployment.precision.weights.matrix_precision
    peak, _ = peak_flops_per_s(
        computed.estimate.deployment.accelerator,
        engine_precision(precision, computed.estimate.calibration.engine),
    )
    return float(peak)


def _of_decode(decode: Phase | None) -> str:
    if decode is None:
        return ""
    intensity = number(decode["arithmetic_intensity_flop_per_byte"])
    return f"; decode, at {intensity}, by {_plain(decode['bottleneck'])}"


def _finding(answer: LatencyInferenceAnswer) -> str:
    """Under which part of the roof the phases stand, which is what the picture shows."""
    prefill = _roof_above(answer["prefill"])
    if answer["decode"] is None:
        return f"The pass over a sequence is under the {prefill} roof"
    decode = _roof_above(answer["decode"])
    if prefill == decode:
        return f"Prefill and decode are under the {prefill} roof"
    return f"Prefill is under the {prefill} roof, decode under the {decode} roof"


def _roof_above(phase: Phase) -> str:
    computes = phase["arithmetic_intensity_flop_per_byte"] >= phase["ridge_point_flop_per_byte"]
    return "compute" if computes else "bandwidth"


def _plain(bottleneck: str) -> str:
    return bottleneck.replace("_", " ")


KINDS = (
    ChartKind(
        "roofline",
        "RooflineChart",
        "Chart: operators of prefill and decode under the accelerator's roof",
        "Operators of a prefill and of a decoding step by arithmetic intensity and FLOP/s, "
        "under the roof of peak bandwidth and peak FLOP/s.",
        RooflineChartRequest,
        roofline_chart,
        roofline,
    ),
)
