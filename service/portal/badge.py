"""An estimate as a badge: one line for a README or a dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from service.estimation.formatting import duration, gigabytes, number

_LABEL = "headroom"
#: Colours on which white text stands out by 4.5:1 and more.
_FITS, _NARROW, _SHORT = "#1a7f37", "#8a5a00", "#b42318"
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


def badge(estimate: Mapping[str, Any]) -> Badge:
    """Whether it fits, the time of a token, and the emissions of 1,000."""
    memory = estimate["memory"]
    if not memory["fits"]:
        missing = gigabytes(memory["shortfall_bytes"]["value"])
        return Badge(_LABEL, f"does not fit · {missing} missing", _SHORT)
    sure = memory["fits_certainty"] == "yes"
    parts = ["fits" if sure else "fits narrowly"]
    token, passed = estimate["latency"]["tpot_s"], estimate["latency"]["ttft_s"]
    parts.append(
        f"{duration(passed['value'])}" if token is None else f"{duration(token['value'])}/token"
    )
    impacts = estimate["impacts"]
    carbon = None if impacts is None else impacts["per_1k_tokens"]["carbon"]["total_gco2e"]
    if carbon is not None:
        parts.append(f"{number(carbon['value'])} gCO2e/1k")
    return Badge(_LABEL, " · ".join(parts), _FITS if sure else _NARROW)


def _width_px(text: str) -> float:
    return round(len(text) * _CHARACTER_PX + 2 * _PADDING_PX)
