"""Choices held against a plan: the caller's own, or else the cheapest choice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from service.estimation.recommendations.answers import Against, AgainstRatios
from service.estimation.recommendations.limits import Written

#: Where estimates state what plans are held against each other by.
Places = Mapping[str, tuple[str, ...]]

_OF_TOKENS = ("impacts", "per_1k_tokens")
INFERENCE_PLACES: Places = {
    "cost": ("cost", "rented", "usd_per_million_output_tokens"),
    "latency": ("latency", "e2e_s"),
    "carbon": (*_OF_TOKENS, "carbon", "total_gco2e"),
    "water": (*_OF_TOKENS, "water", "total_l"),
    "energy": (*_OF_TOKENS, "facility_energy_kwh"),
}
_OF_RUN = ("impacts", "run")
TRAINING_PLACES: Places = {
    "cost": ("cost", "rented", "usd_run"),
    "latency": ("latency", "run", "days"),
    "carbon": (*_OF_RUN, "carbon", "total_gco2e"),
    "water": (*_OF_RUN, "water", "total_l"),
    "energy": (*_OF_RUN, "facility_energy_kwh"),
}

#: What less and more of a figure are called.
_WORDS: Mapping[str, tuple[str, str]] = {
    "cost": ("cheaper", "dearer"),
    "latency": ("faster", "slower"),
    "carbon": ("less carbon", "more carbon"),
    "water": ("less water", "more water"),
    "energy": ("less energy", "more energy"),
}
#: Ratios from which on people count times rather than shares.
_TIMES = 2.0
#: Differences smaller than this are none.
_ALIKE_RATIO = 0.02


def held_against_plan(
    choices: Sequence[dict[str, Any]], plan: Written | None, places: Places
) -> list[dict[str, Any]]:
    """The choices, each with its ratios to the plan, or to the cheapest of them.

    Parameters
    ----------
    choices
        With their estimates.
    plan
        The estimate of the caller's own plan, if there is one.
    places
        Where estimates state the figures.
    """
    to: Literal["baseline", "cheapest"] = "cheapest" if plan is None else "baseline"
    if plan is None:
        plan = next((one["estimate"] for one in choices if "cheapest" in one["priorities"]), None)
    if plan is None:
        return [choice | {"against": None} for choice in choices]
    return [
        choice
        | {"against": None if choice["estimate"] is plan else _against(to, choice, plan, places)}
        for choice in choices
    ]


def _against(
    to: Literal["baseline", "cheapest"], choice: Written, plan: Written, places: Places
) -> Against:
    estimate = choice["estimate"]
    ratios = {name: _ratio(_at(estimate, path), _at(plan, path)) for name, path in places.items()}
    if choice["candidate"]["metrics"]["cost"] is None:
        # What it would cost to own is no price where it can only be rented.
        ratios["cost"] = None
    counts = estimate["deployment"], plan["deployment"]
    found: AgainstRatios = {
        "cost": ratios["cost"],
        "latency": ratios["latency"],
        "carbon": ratios["carbon"],
        "water": ratios["water"],
        "energy": ratios["energy"],
        "accelerators": counts[0]["accelerator_count"] / counts[1]["accelerator_count"],
    }
    return {"plan": to, "ratios": found, "in_words": in_words(ratios)}


def in_words(ratios: Mapping[str, float | None]) -> str:
    """Ratios as people say them: 4.1 × cheaper, 30 % slower."""
    told = [
        _told(ratio, *_WORDS[name])
        for name, ratio in ratios.items()
        if ratio is not None and abs(ratio - 1.0) >= _ALIKE_RATIO
    ]
    return ", ".join(told) or "the same in everything that is known"


def _told(ratio: float, less: str, more: str) -> str:
    word, times = (less, 1.0 / ratio) if ratio < 1.0 else (more, ratio)
    if times >= _TIMES:
        return f"{times:.2g} × {word}" if times < 10.0 else f"{times:.0f} × {word}"
    return f"{abs(ratio - 1.0):.0%} {word}"


def _ratio(mine: float | None, other: float | None) -> float | None:
    return mine / other if mine and other else None


def _at(estimate: Written, path: Sequence[str]) -> float | None:
    found: Any = estimate
    for name in path:
        if name == "rented" and found is not None and found.get(name) is None:
            # In places of one's own, what it costs to own it.
            name = "owned"
        found = None if found is None else found.get(name)
    return None if found is None else float(found["value"])
