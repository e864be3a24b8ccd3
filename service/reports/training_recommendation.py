"""The report of a recommendation for training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.core.search.workloads import WORKLOAD_KINDS
from service.estimation.recommendations.limit_tables import RUN_LIMITS
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest
from service.estimation.verdict.figures import days, training_figures
from service.estimation.verdict.names import (
    format_name,
    layout_words,
    method_name,
    optimizer_name,
)
from service.estimation.verdict.verdict import Verdict, training_verdict
from service.reports.decision import (
    Form,
    Terms,
    best_for,
    decision_document,
    limit_names,
    model_names,
)
from service.reports.document import (
    UNKNOWN,
    Document,
    Table,
    figure,
    in_words,
    listed,
    number,
    percent,
)
from service.reports.rows import candidate_usd, footprint_rows, memory_rows, searched_rows

_HOURS_PER_DAY = 24.0
#: What is recomputed, and where optimizer states are kept, where that is anything.
_RECOMPUTED = {
    "selective": "attention scores recomputed",
    "selective-modules": "norms and activations recomputed",
    "selective-operators": "every other product recomputed",
    "full": "whole layers recomputed",
}
_OFFLOADED = {
    "cpu": "optimizer states in host memory",
    "nvme": "optimizer states on NVMe drives",
    "tier": "optimizer states in a memory tier",
}
#: What a search for offloading was asked.
_MAY_OFFLOAD = {None: "where nothing fits without", True: "may be", False: "no"}


def training_recommendation_document(
    request: TrainingRecommendationRequest, answer: Mapping[str, Any], snapshot: CatalogSnapshot
) -> Document:
    """The document of a recommendation for training.

    Parameters
    ----------
    request
        What was asked.
    answer
        What ``training_recommendation_answer`` gives for it.
    snapshot
        The catalog that it was answered from.
    """
    models = model_names(request.asked_models, snapshot)
    form = Form(
        title="Where to train",
        kind=WORKLOAD_KINDS[answer["workload_kind"]].name,
        path="/v1/recommendations/training",
        models=models,
        terms=TRAINING_TERMS,
        verdict=_verdict(request, answer, snapshot),
        key_figures=training_figures,
        asked=_asked(request, answer, models, snapshot),
        choices=_choices,
        figures=_figures,
        runners=_runners,
    )
    return decision_document(request, answer, form, snapshot)


def _verdict(
    request: TrainingRecommendationRequest, answer: Mapping[str, Any], snapshot: CatalogSnapshot
) -> Verdict | None:
    """The verdict on your own plan, or else on the first choice."""
    if answer.get("baseline") is not None:
        estimate = answer["baseline"]["estimate"]
    elif answer["choices"]:
        estimate = answer["choices"][0]["estimate"]
    else:
        return None
    return training_verdict(estimate, snapshot, request.limits.days, request.limits.usd)


def _asked(
    request: TrainingRecommendationRequest,
    answer: Mapping[str, Any],
    models: Sequence[str],
    snapshot: CatalogSnapshot,
) -> tuple[tuple[str, str], ...]:
    run, search = request.trained, request.search
    return (
        ("Models", listed(models)),
        ("Tokens of the run", f"{run.tokens:,.0f}"),
        ("Tokens per sequence", f"{run.sequence_length:,}"),
        ("Sequences per step", f"{answer['global_batch_size']:,}"),
        ("What is trained", listed([method_name(one) for one in run.methods])),
        ("Optimizers", listed([optimizer_name(one) for one in run.optimizers])),
        ("Optimizer states in host memory", _MAY_OFFLOAD[run.offload]),
        ("Framework", "any" if run.framework == "default" else run.framework),
        *searched_rows(request, search, "the checkpoint's own, and FP8", snapshot),
    )


def _settings(candidate: Mapping[str, Any]) -> str:
    layout, how = candidate["parallelism"], candidate["training"]
    recomputed = how["activation_checkpointing"]
    weights = format_name(candidate["precision"]["weights"])
    settings = [
        f"ZeRO {how['zero_stage']}" if how["zero_stage"] else "",
        _RECOMPUTED.get(recomputed, ""),
        _OFFLOADED.get(how["offload_optimizer"], ""),
        f"micro-batches of {how['micro_batch_size']}",
    ]
    return ", ".join(
        [
            f"{method_name(how['method'])} in {weights} with {optimizer_name(how['optimizer'])}",
            *layout_words(layout),
            *filter(None, settings),
        ]
    )


def _choices(choices: Sequence[Mapping[str, Any]], several: bool) -> Table:
    return Table(
        (
            "Best for",
            "Configuration",
            "Region",
            "Days",
            "Accelerator-hours",
            "USD",
            "kg CO₂e",
            "L by stress",
            "Confidence",
        ),
        tuple(
            (
                ", ".join(best_for(choice)),
                TRAINING_TERMS.configuration(choice["candidate"], several),
                choice["candidate"]["region"],
                number(choice["candidate"]["days"]),
                number(choice["candidate"]["accelerator_hours"]),
                candidate_usd(choice["candidate"]),
                number(choice["candidate"]["metrics"]["carbon"]),
                number(choice["candidate"]["metrics"]["water"]),
                choice["confidence"],
            )
            for choice in choices
        ),
        "The choices",
        (3, 4, 5, 6, 7),
    )


def _figures(choice: Mapping[str, Any]) -> Table:
    candidate, estimate = choice["candidate"], choice["estimate"]
    speed, hourly = estimate["latency"], candidate["usd_per_hour"]
    run, whole = speed.get("run") or {}, (estimate["impacts"] or {}).get("run") or {}
    rows = (
        *memory_rows(choice),
        ("Time of a step", figure(speed["step_s"], "s")),
        ("Tokens per second", figure(speed["tokens_per_s"], "")),
        ("Share of peak used (MFU)", in_words(speed["mfu_ratio"], percent)),
        ("Achieved per accelerator", figure(speed["model_tflops_per_accelerator"], "TFLOP/s")),
        ("Duration of the run", in_words(run.get("days"), days)),
        ("Expected failures", figure(run.get("expected_failures"), "")),
        *footprint_rows(estimate, whole, "of the run"),
        ("Price per hour, all accelerators", UNKNOWN if hourly is None else number(hourly, "USD")),
        (
            "Price of the run",
            UNKNOWN
            if hourly is None
            else number(hourly * _HOURS_PER_DAY * candidate["days"], "USD"),
        ),
    )
    return Table(("Figure", "Estimate (90 % interval)"), rows, "What to expect", (1,))


def _runners(front: Sequence[Mapping[str, Any]], several: bool) -> Table:
    return Table(
        ("Configuration", "Region", "Score", "Days", "kg CO₂e", "L by stress", "USD"),
        tuple(
            (
                TRAINING_TERMS.configuration(one, several),
                one["region"],
                UNKNOWN if one["score_ratio"] is None else percent(one["score_ratio"]),
                number(one["days"]),
                number(one["metrics"]["carbon"]),
                number(one["metrics"]["water"]),
                candidate_usd(one),
            )
            for one in front
        ),
        "Best trade-offs, best score first",
        (2, 3, 4, 5, 6),
    )


def _miss_settings(one: Mapping[str, Any]) -> str:
    return f"{method_name(one['method'])} in {format_name(one['weights'])}, " + ", ".join(
        [f"ZeRO {one['zero_stage']}", *layout_words({**one, "data": 1})[:-1]]
    )


#: How runs and their limits are told.
TRAINING_TERMS = Terms(limit_names(RUN_LIMITS), _settings, _miss_settings)
