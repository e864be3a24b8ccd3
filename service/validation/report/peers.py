"""What other estimators answered about the same measurements, as recorded when they were asked.

``python -m benchmarks.peers --write`` asks them and records it; nothing here runs them.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path

from service.estimation.measurements.compared import ComparedFigure
from service.validation.report.statistics import Compared

#: File of the recorded answers, beside the measurements.
ANSWERS = Path("peers.csv")
COLUMNS = ("peer", "version", "asked_on", "id", "quantity", "value")


@dataclass(frozen=True, slots=True)
class Beside:
    """A comparison, and what a peer estimates for the same measurement."""

    compared: Compared
    peer_value: float

    @property
    def as_peer(self) -> Compared:
        """The comparison as the peer's: its value, without an interval."""
        figure, value = self.compared.figure, self.peer_value
        its = ComparedFigure(figure.quantity, figure.measured, value, value, value)
        return replace(self.compared, figure=its)


@dataclass(frozen=True, slots=True)
class Peer:
    """An estimator with its version, the day it was asked, and its estimates in SI units.

    ``values`` are by document and quantity.
    """

    name: str
    version: str
    asked_on: str
    values: Mapping[tuple[str, str], float]

    def beside(self, compared: Iterable[Compared]) -> list[Beside]:
        """The comparisons that the peer answered too."""
        return [
            Beside(entry, value)
            for entry in compared
            if (value := self.values.get((entry.id, entry.quantity))) is not None
        ]


def read_peers(path: Path) -> tuple[Peer, ...]:
    """Recorded answers, by estimator.

    Raises
    ------
    ValueError
        If the file is not what was written.
    """
    values: dict[tuple[str, str, str], dict[tuple[str, str], float]] = {}
    with path.open(encoding="utf-8", newline="") as opened:
        reader = csv.DictReader(opened)
        if tuple(reader.fieldnames or ()) != COLUMNS:
            raise ValueError(f"{path}: columns must be {', '.join(COLUMNS)}")
        for line in reader:
            value = float(line["value"])
            if not isfinite(value) or value <= 0.0:
                raise ValueError(f"{path}: {line['id']} has no positive value")
            peer = (line["peer"], line["version"], line["asked_on"])
            values.setdefault(peer, {})[line["id"], line["quantity"]] = value
    return tuple(Peer(*named, found) for named, found in values.items())


def write_peers(path: Path, peers: Sequence[Peer]) -> None:
    """Record answers; the same answers give the same bytes."""
    with path.open("w", encoding="utf-8", newline="") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow(COLUMNS)
        for peer in sorted(peers, key=lambda one: one.name):
            for (id_, quantity), value in sorted(peer.values.items()):
                writer.writerow(
                    (peer.name, peer.version, peer.asked_on, id_, quantity, f"{value:.6g}")
                )
