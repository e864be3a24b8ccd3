"""Figures of the packaged calibrations, as the core takes them."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import yaml

from service.catalog.files import packaged_documents
from service.catalog.snapshot import snapshot_from_documents
from service.core.engines import engine_of_release, release_key
from service.core.figures import Figures
from service.core.interval import Interval
from service.core.memory.inference.runtime import RuntimeOverheads
from service.estimation.overheads import runtime_memory

CALIBRATION = Path(__file__).parents[2] / "hardware_catalog" / "calibration"


def figures_of(file: str, subject: str) -> dict[str, Figures]:
    """Figures of each entry of a file, by the key of the release that it applies to."""
    stated = {
        release_key(document["applies_to"][subject], document["applies_to"].get("generation")): {
            name: Interval(
                figure["value"],
                figure.get("low", figure["value"]),
                figure.get("high", figure["value"]),
            )
            for name, figure in document["figures"].items()
        }
        for document in yaml.safe_load((CALIBRATION / file).read_text(encoding="utf-8"))
    }
    return {key: {**stated.get(engine_of_release(key), {}), **own} for key, own in stated.items()}


@cache
def packaged_overheads() -> RuntimeOverheads:
    """Runtime memory of the packaged engines."""
    return runtime_memory(snapshot_from_documents(packaged_documents(CALIBRATION.parent), 1))
