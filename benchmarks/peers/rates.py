"""What one estimate costs the peers that are installed here."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.environments import NAMES, PeerFailed, ask, is_installed, requirement
from benchmarks.peers.questions import questions
from service.validation.packaged import packaged_lines, read_packaged

#: Of the measurements of inference speed, one in so many is asked about.
_ONE_IN = 40


def peer_costs_us(catalog: Path, seconds: float) -> dict[str, float]:
    """Processor time of one estimate of inference speed [µs], by package and version.

    Peers that are not installed (``python -m benchmarks.peers`` does that), or that break off, are
    left out.
    """
    installed = [name for name in NAMES if is_installed(name)]
    if not installed:
        return {}
    snapshot = read_packaged(catalog).snapshot
    asked = questions(packaged_lines(catalog, snapshot), snapshot)
    served = [question for question in asked if question["kind"] == "inference"][::_ONE_IN]
    costs = {}
    for name in installed:
        try:
            cost_s = ask(name, served, "--seconds", str(seconds))
        except PeerFailed:
            continue
        if cost_s is not None:
            costs[requirement(name).replace("==", " ")] = cost_s * 1e6
    return costs
