"""Use case: one workload over lists of deployments, as a table."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.answers import frame
from service.estimation.comparison.answers import ComparedFigures, ComparisonAnswer, ComparisonRow
from service.estimation.inference.answers import InferenceAnswer
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.requests import CompareRequest
from service.estimation.references import HUB_PREFIX, HubModel
from service.estimation.rejection import Rejected
from service.estimation.requests import ParallelismRequest


def comparison_answer(request: CompareRequest, snapshot: CatalogSnapshot) -> ComparisonAnswer:
    """Every combination of the lists, each answered or refused by itself.

    They come in the order of models, accelerators, formats, layouts and regions.
    """
    layouts: list[ParallelismRequest | None] = [*(request.parallelisms or ())] or [None]
    combinations = product(
        enumerate(request.models),
        enumerate(request.accelerators),
        request.precisions,
        layouts,
        enumerate(request.regions),
    )
    rows = [
        _row(
            InferenceRequest(
                model=model,
                accelerator=accelerator,
                accelerator_count=request.accelerator_count,
                precision=precision,
                parallelism=layout,
                region=region,
                workload=request.workload,
                serving=request.serving,
                period=request.period,
                platform=request.platform,
                facility=request.facility,
                power_limit_w=request.power_limit_w,
            ),
            (model_at, accelerator_at, region_at),
            snapshot,
        )
        for (model_at, model), (accelerator_at, accelerator), precision, layout, (
            region_at,
            region,
        ) in combinations
    ]
    return {**frame(snapshot.revision), "rows": rows}


def flat_rows(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows with each figure's value, low and high in columns of their own, for tables."""
    flat = []
    for row in answer["rows"]:
        line = {name: value for name, value in row.items() if name not in ("results", "errors")}
        for name, figure in (row["results"] or {}).items():
            for end, suffix in (("value", ""), ("low", "_low"), ("high", "_high")):
                line[f"{name}{suffix}"] = None if figure is None else figure[end]
        line["errors"] = "; ".join(f"{e['pointer']}: {e['detail']}" for e in row["errors"])
        flat.append(line)
    return flat


def _row(
    request: InferenceRequest, at: tuple[int, int, int], snapshot: CatalogSnapshot
) -> ComparisonRow:
    try:
        estimate = inference_estimate(request, snapshot, advise=False)
    except Rejected as rejected:
        return {
            "model": _reference(request.model, at[0]),
            "accelerator": _reference(request.accelerator, at[1]),
            "region": _reference(request.region, at[2]),
            "weights": request.precision.weights,
            "kv_cache": request.precision.kv_cache,
            "tensor": None,
            "pipeline": None,
            "data": None,
            "accelerator_count": request.accelerator_count,
            "fits": None,
            "results": None,
            "errors": [
                {"pointer": error.pointer, "detail": error.detail} for error in rejected.errors
            ],
        }
    deployment = estimate["deployment"]
    return {
        "model": deployment["model"],
        "accelerator": deployment["accelerator"],
        "region": deployment["region"],
        "weights": deployment["precision"]["weights"],
        "kv_cache": deployment["precision"]["kv_cache"],
        "tensor": deployment["parallelism"]["tensor"],
        "pipeline": deployment["parallelism"]["pipeline"],
        "data": deployment["parallelism"]["data"],
        "accelerator_count": deployment["accelerator_count"],
        "fits": estimate["memory"]["fits"],
        "results": _figures(estimate),
        "errors": [],
    }


def _reference(given: Any, position: int) -> str:
    """How a refused row names what it was about."""
    if isinstance(given, HubModel):
        return f"{HUB_PREFIX}{given.hub}"
    return given if isinstance(given, str) else f"inline {position}"


def _figures(estimate: InferenceAnswer) -> ComparedFigures:
    memory, latency = estimate["memory"], estimate["latency"]
    energy, impacts, rented = estimate["energy"], estimate["impacts"], estimate["cost"]["rented"]
    tokens = None if impacts is None else impacts["per_1k_tokens"]
    return {
        "total_bytes": memory["total_bytes"],
        "headroom_bytes": memory["headroom_bytes"],
        "ttft_s": latency["ttft_s"],
        "tpot_s": latency["tpot_s"],
        "e2e_s": latency["e2e_s"],
        "output_tokens_per_s": latency["output_tokens_per_s"],
        "requests_per_s": latency["requests_per_s"],
        "it_energy_per_request_wh": None if energy is None else energy["it_energy_per_request_wh"],
        "operational_gco2e_per_1k_tokens": None
        if tokens is None
        else tokens["carbon"]["operational_location_gco2e"],
        "gco2e_per_1k_tokens": None if tokens is None else tokens["carbon"]["total_gco2e"],
        "l_per_1k_tokens": None if tokens is None else tokens["water"]["total_l"],
        "kwh_per_year": None if impacts is None else impacts["per_year"]["facility_energy_kwh"],
        "rented_usd_per_hour": None if rented is None else rented["usd_per_hour"],
        "rented_usd_per_million_output_tokens": None
        if rented is None
        else rented["usd_per_million_output_tokens"],
    }
