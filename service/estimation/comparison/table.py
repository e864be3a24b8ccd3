"""Use case: one workload over lists of deployments, as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from service.catalog.entries.references import UnknownReference
from service.catalog.region_groups import regions_meant
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.answers import frame
from service.estimation.comparison.answers import ComparisonAnswer, ComparisonRow, field_problem
from service.estimation.comparison.figures import compared_figures
from service.estimation.detail import SMALL
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.limit_tables import DEPLOYMENT_LIMITS
from service.estimation.recommendations.limits import Bounds, bounds_of
from service.estimation.recommendations.requests import MOST_ROWS, CompareRequest, too_many_rows
from service.estimation.recommendations.verification import held_to
from service.estimation.references import HUB_PREFIX, HubModel, InlineRegion
from service.estimation.rejection import FieldError, Rejected
from service.estimation.requests import ParallelismRequest
from service.estimation.resolution import resolve_region

#: Members of a row that tables have no column for.
_NESTED = ("results", "errors", "limits")


def comparison_answer(request: CompareRequest, snapshot: CatalogSnapshot) -> ComparisonAnswer:
    """Every combination of the lists, each answered or refused by itself.

    They come in the order of models, accelerators, formats, layouts and regions.
    """
    request = with_groups(request, snapshot)
    layouts: list[ParallelismRequest | None] = [*(request.parallelisms or ())] or [None]
    combinations = product(
        enumerate(request.models),
        enumerate(request.accelerators),
        request.precisions,
        layouts,
        enumerate(request.regions or (None,)),
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
                cost=request.cost,
                platform=request.platform,
                facility=request.facility,
                power_limit_w=request.power_limit_w,
            ),
            (model_at, accelerator_at, region_at),
            bounds_of(request.limits),
            snapshot,
        )
        for (model_at, model), (accelerator_at, accelerator), precision, layout, (
            region_at,
            region,
        ) in combinations
    ]
    return {**frame(snapshot.revision), "rows": rows}


def with_groups(request: CompareRequest, snapshot: CatalogSnapshot) -> CompareRequest:
    """The same with the regions of groups in place of their names; those that mean none stay.

    Raises
    ------
    Rejected
        If that makes more rows than a comparison has.
    """
    if request.regions is None:
        return request
    regions: list[str | InlineRegion] = []
    for given in request.regions:
        regions += _meant(given, snapshot) if isinstance(given, str) else [given]
    spelled = request.model_copy(update={"regions": regions})
    if spelled.row_count > MOST_ROWS:
        raise Rejected([FieldError("/regions", too_many_rows(spelled.row_count))])
    return spelled


def _meant(name: str, snapshot: CatalogSnapshot) -> list[str]:
    """The name itself where it means one region or none, so that rows show it as it was sent."""
    try:
        meant = regions_meant(name, snapshot)
    except UnknownReference:
        return [name]
    return [name] if len(meant) == 1 else [region.id for region in meant]


def flat_rows(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Rows with each figure's value, low and high in columns of their own, for tables."""
    flat = []
    for row in answer["rows"]:
        line = {name: value for name, value in row.items() if name not in _NESTED}
        for name, figure in (row["results"] or {}).items():
            for end, suffix in (("value", ""), ("low", "_low"), ("high", "_high")):
                line[f"{name}{suffix}"] = None if figure is None else figure[end]
        line["errors"] = "; ".join(f"{e['pointer']}: {e['detail']}" for e in row["errors"])
        flat.append(line)
    return flat


def _row(
    request: InferenceRequest, at: tuple[int, int, int], bounds: Bounds, snapshot: CatalogSnapshot
) -> ComparisonRow:
    try:
        estimate = inference_estimate(request, snapshot, SMALL)
    except Rejected as rejected:
        return {
            "model": _reference(request.model, at[0]),
            "accelerator": _reference(request.accelerator, at[1]),
            "region": None if request.region is None else _reference(request.region, at[2]),
            "weights": request.precision.weights,
            "kv_cache": request.precision.kv_cache,
            "tensor": None,
            "pipeline": None,
            "data": None,
            "accelerator_count": request.accelerator_count,
            "fits": None,
            "meets_limits": None,
            "limits": [],
            "results": None,
            "errors": [field_problem(error) for error in rejected.errors],
        }
    deployment = estimate["deployment"]
    region = resolve_region(request.region, snapshot)
    limits = held_to(estimate, DEPLOYMENT_LIMITS, bounds, region)
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
        "meets_limits": _met([*limits, *estimate["constraints"]]),
        "limits": limits,
        "results": compared_figures(estimate),
        "errors": [],
    }


def _met(held: Sequence[Mapping[str, Any]]) -> bool | None:
    """Whether all limits are met; None where nobody knows."""
    verdicts = {one["verdict"] for one in held}
    if "fail" in verdicts:
        return False
    return None if "unknown" in verdicts else True


def _reference(given: Any, position: int) -> str:
    """How a refused row names what it was about."""
    if isinstance(given, HubModel):
        return f"{HUB_PREFIX}{given.hub}"
    return given if isinstance(given, str) else f"inline {position}"
