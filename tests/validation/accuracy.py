"""How accurate estimates are, on record: a change that makes them worse has to say so.

``accuracy.json`` holds the median and the 90th percentile of the error of each target's quantities,
in sample and on publications that the constants were fitted without. ``python -m
tests.validation.accuracy`` writes it anew.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

from service.settings import INSTALLATION
from service.validation.left_out import left_out_of
from service.validation.packaged import Packaged, packaged_lines, read_packaged
from service.validation.report.assessed import Assessed, assess, together
from service.validation.report.statistics import Compared, accuracy
from service.validation.report.targets import TARGETS

FILE = Path(__file__).parent / "accuracy.json"
RENEW = "python -m tests.validation.accuracy"

#: Median and 90th percentile of the error in a part of the figures, by quantity and part.
Accuracy: TypeAlias = dict[str, dict[str, tuple[float, float]]]


def found_accuracy(packaged: Packaged, assessed: Assessed) -> Accuracy:
    """The accuracy of the estimates as they are; nothing for quantities that nobody measured."""
    parts: dict[str, Sequence[Compared]] = {
        "in sample": assessed.figures,
        "left out": left_out_of(packaged.left_out or (), assessed.figures),
    }
    found: Accuracy = {}
    for target in TARGETS:
        for part, figures in parts.items():
            errors = accuracy([one for one in figures if target.covers(one)])
            if errors.median_error_ratio is not None and errors.p90_error_ratio is not None:
                of_target = found.setdefault(target.name, {})
                of_target[part] = (errors.median_error_ratio, errors.p90_error_ratio)
    return found


def recorded_accuracy() -> Accuracy:
    """The accuracy on record."""
    recorded: Accuracy = json.loads(FILE.read_text(encoding="utf-8"))
    return recorded


def _write() -> None:
    catalog = INSTALLATION / "hardware_catalog"
    packaged = read_packaged(catalog)
    lines = packaged_lines(catalog, packaged.snapshot)
    assessed = together(assess(one, packaged.snapshot, name) for name, one in lines.items())
    rounded = {
        target: {part: [round(error, 4) for error in errors] for part, errors in parts.items()}
        for target, parts in found_accuracy(packaged, assessed).items()
    }
    FILE.write_text(json.dumps(rounded, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    _write()
