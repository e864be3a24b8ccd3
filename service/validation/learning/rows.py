"""Measurements with what is left to learn from them: errors of sources that nobody fitted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import exp, log

from service.catalog.snapshot import CatalogSnapshot
from service.core.interval import Z_90
from service.core.learning import Observation, Report
from service.estimation.learning.lessons import report_of
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.rejection import Rejected

#: What a quantity is told of as, by its name.
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Decoding": ("tpot_s", "tpot_p50_s", "itl_p50_s", "decode_tokens_per_s"),
    "Throughput": ("output_tokens_per_s", "total_tokens_per_s", "requests_per_s"),
    "Prompts": ("ttft_s", "ttft_p50_s", "prefill_tokens_per_s"),
    "Training speed": (
        *("step_s", "tokens_per_s", "tokens_per_s_per_accelerator", "samples_per_s"),
        *("mfu_ratio", "hfu_ratio"),
        *("model_tflops_per_accelerator", "hardware_tflops_per_accelerator"),
    ),
    "Memory": (
        *("allocated_bytes", "reserved_bytes", "process_bytes", "activations_bytes"),
        *("allocated_total_bytes", "reserved_total_bytes", "process_total_bytes"),
        "libraries_bytes",
    ),
    "Power and energy": (
        *("accelerator_power_w", "it_power_w", "wall_power_w"),
        *("accelerator_energy_per_output_token_j", "accelerator_energy_per_request_j"),
        *("it_energy_per_output_token_j", "it_energy_per_request_j", "it_energy_j"),
    ),
}


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate by constants that were fitted without its source, in the quantity's unit."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class SourceRow:
    """A measured configuration of a source, as a report of it would be.

    ``log_sigma`` are the published spreads of its figures, by quantity [-].
    """

    source: str
    report: Report
    log_sigma: Mapping[str, float]


def source_rows(
    documents: Iterable[MeasurementDocument],
    left_out: Mapping[tuple[str, str], Estimate],
    snapshot: CatalogSnapshot,
) -> list[SourceRow]:
    """Documents beside the estimates of sources left out, numbered in their order.

    Figures without such an estimate are left out, and what is of low confidence.
    """
    rows = []
    for number, document in enumerate(documents, 1):
        known = {
            name: left_out[document.id, name]
            for name in document.figures
            if document.id is not None and (document.id, name) in left_out
        }
        if not known or document.confidence == "low" or document.source is None:
            continue
        try:
            report = report_of(number, document, snapshot)
        except Rejected:
            continue
        if report is None:
            continue
        seen = tuple(
            replace(one, log_ratio=log(document.figures[one.quantity] / known[one.quantity].value))
            for one in report.observations
            if one.quantity in known
        )
        sigma = {name: _log_sigma(estimate) for name, estimate in known.items()}
        rows.append(SourceRow(document.source, replace(report, observations=seen), sigma))
    return rows


def error_ratio(log_ratio: float) -> float:
    """Size of the error over what was measured, from the logarithm of measured over estimate."""
    return abs(exp(-log_ratio) - 1.0)


def main_channel(seen: Observation, log_sigma: Mapping[str, float]) -> tuple[str, float]:
    """The channel that explains most of a figure's variance, and its share of it [-]."""
    parts = {
        channel: (elasticity * log_sigma.get(channel, 0.0)) ** 2
        for channel, elasticity in seen.elasticity_ratio.items()
    }
    most = max(parts, key=lambda channel: parts[channel])
    whole = sum(parts.values())
    return most, parts[most] / whole if whole > 0.0 else 0.0


def _log_sigma(estimate: Estimate) -> float:
    if estimate.low <= 0.0 or estimate.high <= estimate.low:
        return 0.0
    return log(estimate.high / estimate.low) / (2.0 * Z_90)
