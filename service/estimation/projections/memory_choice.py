"""Use case: on which grids slower memory that is cheaper to make beats faster memory."""

from __future__ import annotations

from functools import partial
from typing import Any

from pydantic import ConfigDict, Field

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.explanation import EstimateWarning, explain
from service.core.impacts.memory_choice import MEMORY_CHOICE, memory_choice
from service.core.interval import Interval, exact
from service.estimation.answers import figure, frame, grounds, known_figure
from service.estimation.detail import WHOLE, Detail, FieldPaths, Grounded
from service.estimation.projections.answers import Better, MemoryChoiceAnswer
from service.estimation.projections.over_time import positive
from service.estimation.references import CatalogRequest, Figure, Reference, RegionReference
from service.estimation.resolution import Problems, resolve_region

_MAKING = "memory-choice/default"
_RATIO = "fast_over_slow_making_ratio"


class MemoryChoiceRequest(CatalogRequest):
    """Faster memory against slower memory that takes longer for a token."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "size_gb": 80.0,
                    "lifetime_tokens": 1e12,
                    "extra_s_per_token": {"value": 1e-6, "low": 5e-7, "high": 2e-6},
                    "power_w": 1000.0,
                    "region": "aws/eu-north-1",
                }
            ]
        }
    )

    size_gb: float = Field(gt=0.0, le=1e9)
    """Amount of memory [GB]."""
    lifetime_tokens: Figure
    """Tokens over the memory's life."""
    extra_s_per_token: Figure
    """Extra time per token with the slower memory, e.g. the difference of two latency estimates."""
    power_w: Figure
    """IT power of the machine during that time."""
    slow_memory: Reference = "ddr5-8ch"
    """A memory tier with a known manufacturing figure."""
    fast_over_slow_making: Figure | None = None
    """Embodied emissions of the faster memory over those of the slower one, per byte; if null, the
    catalog's ratio, on which sources disagree."""
    region: RegionReference | None = None
    """Where it runs; decides PUE and verdict."""
    explain: bool = False
    """Add a step-by-step explanation."""
    include: Grounded = ()
    fields: FieldPaths = ()


def memory_choice_answer(
    request: MemoryChoiceRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> MemoryChoiceAnswer:
    """Grid intensity below which the slower memory is better, and what that means for a place.

    Raises
    ------
    Rejected
        If a figure is not positive, a reference unknown, or nobody states the memory's making.
    """
    problems = Problems()
    tokens = positive(request.lifetime_tokens, "/lifetime_tokens", problems)
    extra_s = positive(request.extra_s_per_token, "/extra_s_per_token", problems)
    power_w = positive(request.power_w, "/power_w", problems)
    making = snapshot.calibrations[_MAKING]
    ratio = making.value[_RATIO]
    if request.fast_over_slow_making is not None:
        ratio = positive(request.fast_over_slow_making, "/fast_over_slow_making", problems)
    slow = problems.attempt(
        "/slow_memory", lambda: snapshot.find("memory-tiers", request.slow_memory)
    )
    per_gb = None if slow is None else slow.value.embodied_kgco2e_per_gb
    if slow is not None and per_gb is None:
        problems.add("/slow_memory", f"no manufacturing figure is published for {slow.id}")
    asked = request.region
    region = (
        None
        if asked is None
        else problems.attempt("/region", lambda: resolve_region(asked, snapshot))
    )
    problems.stop_if_any()
    slow, per_gb = problems.resolved(slow), problems.resolved(per_gb)
    saved = _saved(per_gb, ratio)
    pue = exact(1.0) if region is None else region.value.pue_ratio
    result = memory_choice(saved, request.size_gb, tokens, extra_s, power_w, pue)
    grid = None if region is None else region.value.grid_gco2e_per_kwh
    entries: list[tuple[str, Entry[Any]]] = [("memory-tiers", slow), ("calibrations", making)]
    if region is not None:
        entries.append(("regions", region))
    warnings = []
    if request.fast_over_slow_making is None:
        warnings.append(
            EstimateWarning(
                "making_disputed",
                "sources disagree whether manufacturing a byte of fast memory emits more or "
                "less; do not decide on this alone",
            )
        )
    return {
        **frame(snapshot.revision),
        "saved_kgco2e_per_gb": figure(saved),
        "saved_gco2e_per_token": figure(result.saved_gco2e_per_token),
        "extra_kwh_per_token": figure(result.extra_kwh_per_token),
        "break_even_gco2e_per_kwh": known_figure(result.break_even_gco2e_per_kwh),
        "region": None if region is None else region.id,
        "grid_gco2e_per_kwh": known_figure(grid),
        "better": _better(result.break_even_gco2e_per_kwh, grid),
        **grounds(
            snapshot,
            warnings,
            entries,
            partial(explain, result, MEMORY_CHOICE)
            if request.explain or detail.has("explanation")
            else None,
            detail=detail,
        ),
    }


def _saved(slow_kgco2e_per_gb: Interval, ratio: Interval) -> Interval:
    """Making of the faster memory less that of the slower one, which both go with the latter's."""
    slow = slow_kgco2e_per_gb
    low = min(slow.low * (ratio.low - 1.0), slow.high * (ratio.low - 1.0))
    high = max(slow.low * (ratio.high - 1.0), slow.high * (ratio.high - 1.0))
    return Interval(slow.value * (ratio.value - 1.0), low, high)


def _better(break_even: Interval | None, grid: Interval | None) -> Better | None:
    """Which memory emits less, where the intervals leave no doubt."""
    if break_even is None:
        return "faster"
    if grid is None:
        return None
    if grid.high < break_even.low:
        return "slower"
    return "faster" if grid.low > break_even.high else "undecided"
