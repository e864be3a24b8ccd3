"""An estimate as a badge: one line for a README or a dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.estimation.verdict.verdict import Status, Verdict

_LABEL = "headroom"
#: Colours on which white text stands out by 4.5:1 and more.
_GOOD, _NARROW, _SHORT = "#1a7f37", "#8a5a00", "#b42318"
_COLOURS: Mapping[Status, str] = {
    "good": _GOOD,
    "narrow": _NARROW,
    "missed": _NARROW,
    "short": _SHORT,
}
#: Characters of a reason that a badge has room for.
_MOST_REASON = 90
#: Width of a character of the badge's type, and what is left free on both sides of text [px].
_CHARACTER_PX, _PADDING_PX = 6.4, 6.0


@dataclass(frozen=True, slots=True)
class Badge:
    """What a badge says, and how wide its two parts are."""

    label: str
    message: str
    colour: str

    @property
    def label_px(self) -> float:
        """Width of the left part [px]."""
        return _width_px(self.label)

    @property
    def message_px(self) -> float:
        """Width of the right part [px]."""
        return _width_px(self.message)


def badge(verdict: Verdict, estimate: Mapping[str, Any]) -> Badge:
    """The verdict in a few words, under the load that it holds for."""
    return Badge(f"{_LABEL} · {load(estimate)}", verdict.brief, _COLOURS[verdict.status])


def refused_badge(reason: str) -> Badge:
    """Why there is no estimate, as a badge that can be read."""
    short = reason if len(reason) <= _MOST_REASON else f"{reason[: _MOST_REASON - 1]}…"
    return Badge(_LABEL, f"cannot be answered: {short}", _SHORT)


def load(estimate: Mapping[str, Any]) -> str:
    """The load of an estimate in a few words."""
    workload = estimate["deployment"]["workload"]
    lengths = f"{workload['input_tokens']:,.0f} + {workload['output_tokens']:,.0f} tokens"
    rate = workload.get("requests_per_s")
    if rate is not None:
        return f"{rate:,.3g} requests/s of {lengths}"
    return f"{workload['concurrency']:,.0f} at once, {lengths}"


def _width_px(text: str) -> float:
    return round(len(text) * _CHARACTER_PX + 2 * _PADDING_PX)
