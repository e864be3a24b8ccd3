"""Catalog entries of fitted terms, one for each level that was measured or has usual values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from math import isclose

from service.calibration.documents import CalibrationEntry, rounded
from service.calibration.hierarchy import Fitted, Keys, Term
from service.calibration.rows import Row
from service.catalog.snapshot import CatalogSnapshot
from service.core.engines import EngineWorkload, engine_of_release, generation_of_release
from service.estimation.levels import ASSUMPTION, engine_keys, hardware_keys

#: A deviation is written where rows took away this share of its prior's spread, or more.
LEAST_INFORMED_RATIO = 0.03
#: ... or where it moves the figure by more than this.
_LEAST_CHANGE_RATIO = 0.02
#: Rows whose estimates do not depend on a level at all, as those of one accelerator do not on its
#: links, take away less than this.
_LEAST_TOUCHED_RATIO = 1e-4
#: Sources that a note names; of more it gives the number.
_NAMED_SOURCES = 4


def level_entries(
    parts: Mapping[str, tuple[Term, ...]],
    fitted: Fitted,
    rows: Sequence[Row],
    snapshot: CatalogSnapshot,
    complete: Callable[[Mapping[str, float]], Mapping[str, float]] = dict,
    least_informed_ratio: float = LEAST_INFORMED_RATIO,
) -> list[CalibrationEntry]:
    """Entries of all levels of all parts, the widest first.

    Parameters
    ----------
    parts
        Terms by the part that they belong to, whose terms have the same levels.
    fitted, rows
        What was fitted, and to what: rows by the numbers of the fit.
    snapshot
        The catalog, for the years of sources.
    complete
        Adds figures that follow from others.
    least_informed_ratio
        A deviation is written where rows took away this share of its prior's spread, or more [-].
    """
    used = [rows[number] for number in fitted.rows]
    return [
        _entry(id_, applies_to, complete(figures), chosen, snapshot)
        for part, terms in parts.items()
        for id_, applies_to, figures, chosen in _levels(
            part, terms, fitted, used, snapshot, least_informed_ratio
        )
    ]


def _levels(
    part: str,
    terms: tuple[Term, ...],
    fitted: Fitted,
    rows: Sequence[Row],
    snapshot: CatalogSnapshot,
    least_informed_ratio: float,
) -> Iterator[tuple[str, Keys, dict[str, float], Sequence[Row]]]:
    """Id, what it applies to, figures and rows of every level of a part that has something."""
    root = fitted.values({})
    yield part, {"part": part}, {term.name: root[term.name] for term in terms}, rows
    for level in terms[0].levels:
        for key, keys in fitted.keys(terms[0], level.kind):
            values = fitted.values(keys)
            wider = fitted.values({kind: one for kind, one in keys.items() if kind != level.kind})
            informed = {term.name: fitted.informed_ratio(term, level.kind, key) for term in terms}
            figures = {
                name: values[name]
                for name, ratio in informed.items()
                if ratio >= least_informed_ratio
                or not isclose(values[name], wider[name], rel_tol=_LEAST_CHANGE_RATIO)
            }
            chosen = [row for row in rows if row.keys.get(level.kind) == key]
            told = max(informed, key=informed.__getitem__)
            touched = informed[told] > _LEAST_TOUCHED_RATIO
            if touched and not figures and level.kind != "engine":
                # Rows that say little still say that it was measured. Engines that they say little
                # of have the figures of those that they are like.
                figures = {told: values[told]}
            if figures and (chosen or any(key in term.usual_of for term in terms)):
                yield f"{part}/{key}", {"part": part, **keys}, figures, chosen
        yield from _usual(part, terms, level.kind, fitted, snapshot)


def _usual(
    part: str, terms: tuple[Term, ...], kind: str, fitted: Fitted, snapshot: CatalogSnapshot
) -> Iterator[tuple[str, Keys, dict[str, float], Sequence[Row]]]:
    """Levels that no row has of which something is known to be usual, which holds there, too.

    They are of hardware, hosts, links, engines and their generations: what engines do is told by
    their source, whether anybody timed them or not.
    """
    known = {key for key, _ in fitted.keys(terms[0], kind)}
    workload: EngineWorkload = "training" if part.startswith("training") else "inference"
    for key in sorted({key for term in terms for key in term.usual_of} - known):
        keys = _keys_of_engine(kind, key, snapshot, workload) or _keys_of(kind, key)
        if keys is None:
            continue
        values = fitted.values(keys)
        figures = {term.name: values[term.name] for term in terms if key in term.usual_of}
        yield f"{part}/{key}", {"part": part, **keys}, figures, ()


def _keys_of_engine(
    kind: str, key: str, snapshot: CatalogSnapshot, workload: EngineWorkload
) -> Keys | None:
    """All keys of an engine, or of a generation of one, for a workload that it runs."""
    generation = generation_of_release(key)
    if kind != ("engine" if generation is None else "generation"):
        return None
    engine = snapshot.engines.get(engine_of_release(key))
    if engine is None or workload not in engine.value.classes:
        return None
    return engine_keys(key, snapshot.engines, workload)


def _keys_of(kind: str, key: str) -> Keys | None:
    """All keys of something else whose key of a kind is known; None where it does not tell them."""
    if kind == "link":
        return {kind: key}
    if kind == "memory" and "/" not in key:
        return {kind: key}
    wider = {"host": "vendor", "hardware": "memory"}.get(kind)
    if wider is not None and "/" in key:
        return {wider: key.partition("/")[0], kind: key}
    # Keys of other pairs, such as a class on a family, have a kind of their own.
    if kind not in ("vendor", "family") or "/" in key:
        return None
    # Ids of hardware families begin with those who make it.
    of_family = "-" in key
    if of_family != (kind == "family"):
        return None
    return hardware_keys(key) if of_family else {kind: key}


def _entry(
    id_: str,
    applies_to: Keys,
    figures: Mapping[str, float],
    rows: Sequence[Row],
    snapshot: CatalogSnapshot,
) -> CalibrationEntry:
    counts = Counter(row.source for row in rows)
    source = main_source(counts)
    return CalibrationEntry(
        id_,
        applies_to,
        f"By {rows_of(counts)}." if rows else "Not measured: usual values.",
        {name: rounded(value) for name, value in figures.items()},
        source,
        int(snapshot.sources[source].document["year"]),
        fitted=bool(rows),
    )


def main_source(counts: Mapping[str, int]) -> str:
    """The source that most figures come from; that of assumptions where there are none."""
    return min(counts, key=lambda name: (-counts[name], name), default=ASSUMPTION)


def rows_of(counts: Mapping[str, int]) -> str:
    """How many rows of which sources, in words."""
    total = sum(counts.values())
    if len(counts) > _NAMED_SOURCES:
        return f"{total} figures of {len(counts)} sources"
    named = ", ".join(f"{count} of {name}" for name, count in sorted(counts.items()))
    return f"{total} figures ({named})"
