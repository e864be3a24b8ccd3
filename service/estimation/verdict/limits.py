"""What was asked for, held against what an estimate says, in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from service.estimation.formatting import duration, money, number
from service.estimation.recommendations.limit_tables import DEPLOYMENT_LIMITS
from service.estimation.recommendations.limits import bounds_of, limit_rows
from service.estimation.recommendations.requests import DecisionLimitsRequest
from service.estimation.verdict.figures import days, emissions, known_cost

_GRAMS_PER_KG = 1e3
_L_PER_M3 = 1e3


@dataclass(frozen=True, slots=True)
class Held:
    """A limit that was asked for: what it is on, the figure and the limit in words, and if kept.

    ``kept`` is None where the figure is not known. ``ratio`` is the figure by the limit.
    """

    name: str
    told: str
    value_text: str
    limit_text: str
    kept: bool | None
    ratio: float | None


def _a_month(usd: float) -> str:
    return f"{money(usd)} a month"


#: How limits are told: what has the figure, and the words of the figure and the limit.
_TOLD: Mapping[str, tuple[str, Callable[[float], str]]] = {
    "ttft_s": ("the first token takes", duration),
    "tpot_s": ("each next token takes", duration),
    "e2e_s": ("a whole answer takes", duration),
    "task_s": ("a whole task takes", duration),
    "usd_per_hour": ("it costs", lambda value: f"{money(value)} an hour"),
    "usd_per_month": ("it costs", _a_month),
    "kgco2e_per_year": (
        "it emits",
        lambda value: f"{emissions(value * _GRAMS_PER_KG)} a year",
    ),
    "l_per_year": ("it takes", lambda value: f"{number(value / _L_PER_M3)} m³ of water a year"),
    "it_power_w": ("it draws", lambda value: f"{number(value / 1e3)} kW"),
}
#: Those of them that are about speed.
SPEED_LIMITS = frozenset({"ttft_s", "tpot_s", "e2e_s", "task_s"})


def held(estimate: Mapping[str, Any], limits: DecisionLimitsRequest | None) -> tuple[Held, ...]:
    """The limits that were asked for, each held against the estimate as searches do it."""
    if limits is None:
        return ()
    hour = known_cost(estimate)[1].get("usd_per_hour")
    candidate = {
        "usd_per_hour": None if hour is None else hour["value"],
        "limits_of": limits.percentile,
    }
    return tuple(
        Held(
            name=row["name"],
            told=told,
            value_text="not known" if row["value"] is None else words(row["value"]),
            limit_text=words(row["limit"]),
            kept=None if row["value"] is None else row["verdict"] == "pass",
            ratio=None if row["value"] is None else row["value"] / row["limit"],
        )
        for row in limit_rows(DEPLOYMENT_LIMITS, bounds_of(limits), estimate, candidate)
        if row["name"] in _TOLD
        for told, words in (_TOLD[row["name"]],)
    )


def deadline_held(
    estimate: Mapping[str, Any], most_days: float | None, most_usd: float | None
) -> tuple[Held, ...]:
    """Likewise of a training run: its length and its cost."""
    run = (estimate["latency"].get("run") or {}).get("days")
    usd = known_cost(estimate)[1].get("usd_run")
    asked = (
        ("days", "the run takes", run, most_days, days),
        ("usd", "it costs", usd, most_usd, money),
    )
    return tuple(
        Held(
            name,
            told,
            "not known" if figure is None else words(figure["value"]),
            words(most),
            None if figure is None else figure["value"] <= most,
            None if figure is None else figure["value"] / most,
        )
        for name, told, figure, most, words in asked
        if most is not None
    )
