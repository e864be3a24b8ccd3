"""The report of a recommendation for inference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import NO_SPREAD
from service.core.search.workloads import WORKLOAD_KINDS
from service.core.years import HOURS_PER_MONTH
from service.estimation.formatting import duration
from service.estimation.inference.lengths import mean_and_spread
from service.estimation.recommendations.limit_tables import DEPLOYMENT_LIMITS
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.requests import InputTokens
from service.estimation.verdict.figures import compared_figures
from service.estimation.verdict.names import format_name, layout_words
from service.estimation.verdict.verdict import Verdict, inference_verdict
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


def recommendation_document(
    request: RecommendationRequest, answer: Mapping[str, Any], snapshot: CatalogSnapshot
) -> Document:
    """The document of a recommendation for inference.

    Parameters
    ----------
    request
        What was asked.
    answer
        What ``recommendation_answer`` gives for it.
    snapshot
        The catalog that it was answered from.
    """
    models = model_names(request.asked_models, snapshot)
    form = Form(
        title="Hardware for",
        kind=WORKLOAD_KINDS[request.workload_kind].name,
        path="/v1/recommendations",
        models=models,
        terms=INFERENCE_TERMS,
        verdict=_verdict(request, answer, snapshot),
        key_figures=compared_figures,
        asked=_asked(request, models, snapshot),
        choices=_choices,
        figures=_figures,
        runners=_runners,
    )
    return decision_document(request, answer, form, snapshot)


def _verdict(
    request: RecommendationRequest, answer: Mapping[str, Any], snapshot: CatalogSnapshot
) -> Verdict | None:
    """The verdict on your own plan, or else on the first choice."""
    choices = answer["choices"]
    if answer.get("baseline") is not None:
        estimate = answer["baseline"]["estimate"]
        return inference_verdict(estimate, snapshot, request.limits, choices)
    if not choices:
        return None
    return inference_verdict(choices[0]["estimate"], snapshot, request.limits)


def _length(asked: InputTokens) -> str:
    """A length in words: its mean where requests differ."""
    mean, spread = mean_and_spread(asked)
    return f"{mean:,.0f}" if spread is NO_SPREAD else f"{mean:,.0f} on average"


def _asked(
    request: RecommendationRequest, models: Sequence[str], snapshot: CatalogSnapshot
) -> tuple[tuple[str, str], ...]:
    workload, search = request.workload, request.search
    if workload.requests_per_s is not None:
        load = f"{number(workload.requests_per_s)} requests per second"
    elif workload.concurrency is not None:
        load = f"{number(workload.concurrency)} requests at once"
    else:
        load = "one replica at full load"
    return (
        ("Models", listed(models)),
        ("Kind of workload", WORKLOAD_KINDS[request.workload_kind].name),
        (
            "Prompt and answer",
            f"{_length(workload.input_tokens)} and {_length(workload.output_tokens)} tokens",
        ),
        ("Load", load),
        ("Share of prompts cached", percent(workload.prefix_cached_ratio)),
        ("Calls per task", number(workload.calls_per_task)),
        ("Engine", request.serving.engine or "the one that is usual on the accelerators"),
        *searched_rows(request, search, "the checkpoint's own, and the usual formats", snapshot),
    )


def _settings(candidate: Mapping[str, Any]) -> str:
    weights, cache = (format_name(candidate["precision"][of]) for of in ("weights", "kv_cache"))
    return ", ".join(
        [f"{weights} weights", f"{cache} cache", *layout_words(candidate["parallelism"])]
    )


def _choices(choices: Sequence[Mapping[str, Any]], several: bool) -> Table:
    rows = []
    for choice in choices:
        candidate, latency = choice["candidate"], choice["estimate"]["latency"]
        impacts = choice["estimate"]["impacts"] or {}
        carbon = (impacts.get("per_1k_tokens") or {}).get("carbon") or {}
        total = carbon.get("total_gco2e")
        rows.append(
            (
                ", ".join(best_for(choice)),
                INFERENCE_TERMS.configuration(candidate, several),
                candidate["region"],
                number(latency["ttft_s"]["value"]),
                number(latency["tpot_s"]["value"]),
                candidate_usd(candidate),
                UNKNOWN if total is None else number(total["value"] * 1e3),
                choice["confidence"],
            )
        )
    return Table(
        (
            "Best for",
            "Configuration",
            "Region",
            "First token [s]",
            "Per token [s]",
            "USD per million output tokens",
            "g CO₂e per million tokens",
            "Confidence",
        ),
        tuple(rows),
        "The choices",
        (3, 4, 5, 6),
    )


def _figures(choice: Mapping[str, Any]) -> Table:
    estimate = choice["estimate"]
    latency, cost = estimate["latency"], estimate["cost"] or {}
    year = (estimate["impacts"] or {}).get("per_year") or {}
    # In places of one's own, what it costs to own it.
    owned = cost.get("owned") if choice["candidate"]["owned"] else None
    hourly = cost.get("rented") or owned or {}
    asked = candidate_usd(choice["candidate"])
    rows = (
        *memory_rows(choice),
        ("Time to first token", in_words(latency["ttft_s"], duration)),
        ("Time per output token", in_words(latency["tpot_s"], duration)),
        ("Time for a whole answer", in_words(latency["e2e_s"], duration)),
        ("Output", figure(latency["output_tokens_per_s"], "tokens/s")),
        *footprint_rows(estimate, year, "per year"),
        ("Price per hour", figure(hourly.get("usd_per_hour"), "USD")),
        ("Price per month", figure(hourly.get("usd_per_hour"), "USD", HOURS_PER_MONTH)),
        (
            "Price per million output tokens",
            figure(hourly.get("usd_per_million_output_tokens"), "USD"),
        ),
        (
            "Per million output tokens, at the prices of the search",
            asked if asked == UNKNOWN else f"{asked} USD",
        ),
    )
    return Table(("Figure", "Estimate (90 % interval)"), rows, "What to expect", (1,))


def _runners(front: Sequence[Mapping[str, Any]], several: bool) -> Table:
    return Table(
        (
            "Configuration",
            "Region",
            "Score",
            "g CO₂e",
            "L by stress",
            "USD per million output tokens",
        ),
        tuple(
            (
                INFERENCE_TERMS.configuration(one, several),
                one["region"],
                UNKNOWN if one["score_ratio"] is None else percent(one["score_ratio"]),
                number(one["metrics"]["carbon"]),
                number(one["metrics"]["water"]),
                candidate_usd(one),
            )
            for one in front
        ),
        "Best trade-offs, best score first; greenhouse gases and water, weighted by stress, "
        "per 1,000 output tokens",
        (2, 3, 4, 5),
    )


def _miss_settings(one: Mapping[str, Any]) -> str:
    layout = layout_words({**one, "data": 1})[:-1]
    return ", ".join([f"{format_name(one['weights'])} weights", *layout])


#: How deployments and their limits are told.
INFERENCE_TERMS = Terms(limit_names(DEPLOYMENT_LIMITS), _settings, _miss_settings)
