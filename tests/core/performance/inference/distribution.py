"""How far the closed form of random arrivals is off the simulation, over many random cases.

``python -m tests.core.performance.inference.distribution [--cases N] [--requests N] [--seed N]``
prints median and 90th percentile of the errors, and their median with its sign, of all cases and of
parts of them. A thousand cases of 6,000 requests take some minutes on one core.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from itertools import pairwise

import numpy as np

from tests.core.performance.inference.cases import Case, cases, compared

FIGURES = tuple(
    f"{figure}_{share}"
    for figure in ("ttft", "tpot", "e2e")
    for share in ("mean", "p50", "p95", "p99")
)
#: What each part of the cases is told apart by, and the ends of its ranges.
PARTS: dict[str, tuple[Callable[[Case], float], tuple[float, ...]]] = {
    "utilisation": (lambda case: case.utilisation, (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)),
    "variation of lengths": (lambda case: case.variation, (0.0, 0.25, 0.75, 2.0)),
    "prompts over budget": (lambda case: case.inputs / case.budget, (0.0, 0.1, 0.5, 1.0, 4.0, 1e3)),
    "answers": (lambda case: case.outputs, (0.0, 20.0, 100.0, 400.0, 2000.0)),
    "slots": (lambda case: case.slots, (0.0, 16.0, 64.0, 200.0, 1000.0)),
}


def line(name: str, ratios: list[dict[str, float]]) -> str:
    """Median and 90th percentile of errors, and the median error with its sign [%]."""
    cells = []
    for figure in FIGURES:
        errors = 100.0 * (np.array([one[figure] for one in ratios]) - 1.0)
        sizes = np.abs(errors)
        cells.append(
            f"{np.median(sizes):3.0f} {np.quantile(sizes, 0.9):3.0f} {np.median(errors):+3.0f}"
        )
    return f"{name:34s}{len(ratios):5d}  " + "  ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description="closed form beside the simulation")
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--requests", type=int, default=6000, help="of each case")
    parser.add_argument("--seed", type=int, default=2026)
    asked = parser.parse_args()
    found = [(case, compared(case, asked.requests)) for case in cases(asked.cases, asked.seed)]
    heading = f"{'errors [%]: median, p90, bias':34s}{'cases':>5s}  "
    lines = [heading + "  ".join(f"{figure:>11s}" for figure in FIGURES)]
    lines.append(line("all", [ratios for _, ratios in found]))
    for name, (figure_of, ends) in PARTS.items():
        for low, high in pairwise(ends):
            part = [ratios for case, ratios in found if low <= figure_of(case) < high]
            if part:
                lines.append(line(f"{name} {low:g} to {high:g}", part))
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
