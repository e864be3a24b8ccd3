"""Figures of the packaged calibrations, as the core takes them."""

from __future__ import annotations

from pathlib import Path

import yaml

from service.core.figures import Figures
from service.core.interval import Interval

CALIBRATION = Path(__file__).parents[2] / "hardware_catalog" / "calibration"


def figures_of(file: str, subject: str) -> dict[str, Figures]:
    """Figures of each entry of a file, by the engine or framework that it applies to."""
    return {
        document["applies_to"][subject]: {
            name: Interval(
                figure["value"],
                figure.get("low", figure["value"]),
                figure.get("high", figure["value"]),
            )
            for name, figure in document["figures"].items()
        }
        for document in yaml.safe_load((CALIBRATION / file).read_text(encoding="utf-8"))
    }
