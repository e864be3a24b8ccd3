"""Every source, or another group, estimated by constants that were fitted without it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from hashlib import sha256
from multiprocessing import get_context
from types import MappingProxyType
from typing import Protocol

from service.calibration.documents import CalibrationEntry, document_of
from service.calibration.groups import Group, by_source
from service.catalog.entries.convert import calibration_from_document
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.levels import POWER_SPREAD
from service.estimation.measurements.computed import computed
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.measurements.quantities import NotEstimated
from service.estimation.rejection import Rejected
from service.validation.left_out import LeftOutFigure
from service.validation.report.statistics import stand_ins

_PROCESSES = 2


class FittedPart(Protocol):
    """A part of the constants, such as those of speed, fitted to rows of many sources."""

    def entries_without(self, group: Group) -> list[CalibrationEntry]:
        """Its entries as they are without the rows of a group, spreads included."""


def left_out_figures(
    documents: Iterable[MeasurementDocument],
    quantities: frozenset[str],
    snapshot: CatalogSnapshot,
    parts: Sequence[FittedPart],
    groups: Sequence[Group] | None = None,
) -> list[tuple[Group, list[LeftOutFigure]]]:
    """All figures of some quantities, each group estimated without its own rows.

    Parameters
    ----------
    documents
        What was measured.
    quantities
        Names of the quantities.
    snapshot
        The catalog, whose entries of speed and power are replaced.
    parts
        What was fitted.
    groups
        What is left out together: each source if nothing else is asked for. Documents of no group
        are not estimated.

    Returns
    -------
    list of (Group, list of LeftOutFigure)
        In the order of groups and documents; what cannot be estimated is not there.
    """
    chosen = [one for one in documents if quantities.intersection(one.figures)]
    asked = by_source(chosen) if groups is None else groups
    global _work
    _work = (chosen, quantities, snapshot, parts)
    with ProcessPoolExecutor(_PROCESSES, mp_context=get_context("fork")) as pool:
        return list(zip(asked, pool.map(_of_group, asked), strict=True))


#: What the processes share, from when they are made.
_work: tuple[
    Sequence[MeasurementDocument],
    frozenset[str],
    CatalogSnapshot,
    Sequence[FittedPart],
]


def _of_group(group: Group) -> list[LeftOutFigure]:
    documents, quantities, snapshot, parts = _work
    entries = [entry for part in parts for entry in part.entries_without(group)]
    without = _with_spread(with_entries(snapshot, entries), snapshot)
    return [
        figure
        for document in documents
        if str(document.id) in group.documents
        for figure in _compared(document, quantities, without)
    ]


def _with_spread(without: CatalogSnapshot, whole: CatalogSnapshot) -> CatalogSnapshot:
    """Constants with the spread of power of all rows where none of them is left to fit one to."""
    if POWER_SPREAD in without.calibrations:
        return without
    kept = {**without.calibrations, POWER_SPREAD: whole.calibrations[POWER_SPREAD]}
    return replace(without, calibrations=MappingProxyType(kept))


def _compared(
    document: MeasurementDocument, quantities: frozenset[str], snapshot: CatalogSnapshot
) -> Iterable[LeftOutFigure]:
    try:
        found = computed(document, snapshot)
    except Rejected:
        return
    for name in sorted(quantities.intersection(document.figures)):
        try:
            estimate = found.read(name)
        except NotEstimated:
            continue
        yield LeftOutFigure(
            id=str(document.id),
            quantity=name,
            measured=document.figures[name],
            value=float(estimate.value),
            low=float(estimate.low),
            high=float(estimate.high),
            source=str(document.source),
            model=found.model,
            accelerator=found.accelerator,
            family=found.family,
            engine=found.software,
            stand_ins=" ".join(stand_ins(found.warnings)),
        )


#: What came before the entries that are fitted now, by the first part of their ids.
_EARLIER = {"speed": "performance"}


def with_entries(snapshot: CatalogSnapshot, entries: Iterable[CalibrationEntry]) -> CatalogSnapshot:
    """The catalog with the entries in place of all whose ids begin with the same part."""
    new = {entry.id: calibration_from_document(document_of(entry)) for entry in entries}
    replaced = {id_.partition("/")[0] for id_ in new}
    replaced |= {_EARLIER[part] for part in replaced & _EARLIER.keys()}
    kept = {
        id_: entry
        for id_, entry in snapshot.calibrations.items()
        if id_.partition("/")[0] not in replaced
    }
    return replace(snapshot, calibrations=MappingProxyType(kept | new))


def digest_of(texts: Iterable[str]) -> str:
    """What ties comparisons to the constants that they belong to: the files that hold these."""
    return sha256("\n".join(texts).encode()).hexdigest()[:16]
