"""Answers about many deployments: batches and comparisons."""

from __future__ import annotations

from service.estimation.answers import Answer, FieldProblem, Interval, LimitRow, Traced
from service.estimation.inference.answers import InferenceAnswer
from service.estimation.rejection import FieldError
from service.estimation.training.answers import EstimateTrainingAnswer


class BatchItem(Answer):
    """One request's answer, or what is wrong with it."""

    index: int
    """Place in the request, from 0."""
    answer: InferenceAnswer | EstimateTrainingAnswer | None
    """Null if the request was refused."""
    errors: list[FieldProblem]
    """Why it was refused; empty if it was not."""


class BatchAnswer(Traced):
    """Answers and refusals in the order of the requests."""

    items: list[BatchItem]


class ComparedFigures(Answer):
    """Figures of one row; null where a factor is unknown."""

    total_bytes: Interval
    headroom_bytes: Interval
    ttft_s: Interval | None
    tpot_s: Interval | None
    e2e_s: Interval | None
    output_tokens_per_s: Interval | None
    requests_per_s: Interval
    it_energy_per_request_wh: Interval | None
    operational_gco2e_per_1k_tokens: Interval | None
    """Location-based, operation only."""
    gco2e_per_1k_tokens: Interval | None
    """Location-based, operation and manufacturing of hardware."""
    l_per_1k_tokens: Interval | None
    kwh_per_year: Interval | None
    """Energy of the facility."""
    rented_usd_per_hour: Interval | None
    rented_usd_per_million_output_tokens: Interval | None
    """Null where sequences are embedded or ranked."""
    rented_usd_per_request: Interval | None
    """Of a sequence that is embedded or ranked; null where tokens are generated."""
    owned_usd_per_hour: Interval | None
    """Depreciation and electricity of purchased hardware; null unless the prices of both are
    known."""
    owned_usd_per_million_output_tokens: Interval | None
    """Null where sequences are embedded or ranked."""
    owned_usd_per_request: Interval | None
    """Of a sequence that is embedded or ranked; null where tokens are generated."""
    gco2e_per_request: Interval | None
    """Likewise; location-based, operation and manufacturing of hardware."""
    emissions_usd_per_hour: Interval | None
    """Cost of emissions at cost.usd_per_tco2e, beside rent or ownership; null without it."""
    kwh_in_period: Interval | None
    """Energy of the facility in the period; null, as the next two, unless period.days or
    period.requests is given."""
    gco2e_in_period: Interval | None
    """Location-based, operation and manufacturing of hardware."""
    l_in_period: Interval | None
    """Water in the period that was asked about."""


class ComparedRunFigures(Answer):
    """Figures of one training run; null where a factor is unknown."""

    total_bytes: Interval
    step_s: Interval
    tokens_per_s: Interval
    mfu_ratio: Interval
    days: Interval | None
    """Duration of the run, failures included."""
    facility_energy_kwh: Interval | None
    """Energy of the facility for the run."""
    operational_gco2e: Interval | None
    """Location-based, operation only."""
    total_gco2e: Interval | None
    """Location-based, operation and manufacturing of hardware."""
    total_l: Interval | None
    rented_usd: Interval | None
    """Rent of the whole run."""
    owned_usd: Interval | None
    """Depreciation and electricity of purchased hardware for the whole run; null unless the prices
    of both are known."""
    emissions_usd: Interval | None
    """Cost of the run's emissions at cost.usd_per_tco2e, beside rent or ownership; null without
    that price."""


class ComparisonRow(Answer):
    """One combination; if it was refused, it has errors instead of results."""

    model: str
    accelerator: str
    region: str | None
    """Null where none was asked for."""
    weights: str | None
    kv_cache: str | None
    tensor: int | None
    pipeline: int | None
    data: int | None
    accelerator_count: int | None
    fits: bool | None
    """Whether it fits in the accelerators' memory; null where it was refused."""
    meets_limits: bool | None
    """Whether it fits, carries the load and meets all limits; null where a limited figure is
    unknown."""
    limits: list[LimitRow]
    """The limits that are set, each with its figure, verdict and margin."""
    results: ComparedFigures | None
    """Its figures; null where it was refused."""
    errors: list[FieldProblem]
    """Why it was refused; empty where it was not."""


class ComparisonAnswer(Traced):
    """Rows in the order of models, accelerators, formats, layouts and regions."""

    rows: list[ComparisonRow]


def field_problem(error: FieldError) -> FieldProblem:
    """An error of a field as it goes over the wire, of a request that is no file."""
    told: FieldProblem = {"pointer": error.pointer, "detail": error.detail}
    if error.suggestions:
        told["suggestions"] = list(error.suggestions)
    return told
