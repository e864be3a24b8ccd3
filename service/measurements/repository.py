"""Reads and writes measurements in Postgres, on a connection that the caller hands over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Select, func, or_, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.catalog.database.tables import measured_figure, measurement, measurement_change
from service.core.errors import Conflict

#: What a figure of a report takes beside its document, roughly [byte].
_FIGURE_BYTES = 200
#: Who reports without a key, as revisions name them.
_ANYBODY = ""


class KeyReused(Conflict):
    """An idempotency key that already stands for another report."""


class NoRoom(Conflict):
    """Whose reports take all the room that they have."""


@dataclass(frozen=True, slots=True)
class Reporter:
    """Who reports: an organisation and a person of it, or nobody that is known."""

    organisation: str | None = None
    author: str | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """How much an organisation may keep, and all who have no key together."""

    most_reports: int
    most_bytes: int


@dataclass(frozen=True, slots=True)
class Report:
    """A measurement to be kept, with the comparison that was made of it.

    ``document`` is what was reported, ``deployment`` what it was understood to be about.
    """

    kind: str
    model: str
    accelerator: str
    family: str
    catalog_revision: int
    engine_version: str
    document: Mapping[str, Any]
    deployment: Mapping[str, Any]
    out_of_memory_foreseen: bool | None
    figures: Sequence[Mapping[str, Any]]


#: What is kept of a report in its own row; each figure has one too.
_KEPT = tuple(field.name for field in fields(Report) if field.name != "figures")


@dataclass(frozen=True, slots=True)
class Filter:
    """Which measurements; ``before`` is the id that a page starts below.

    ``organisation`` is who looks: they see their own and everybody's.
    """

    organisation: str | None = None
    model: str | None = None
    accelerator: str | None = None
    kind: str | None = None
    metric: str | None = None
    before: int | None = None


async def add(
    connection: AsyncConnection,
    report: Report,
    reporter: Reporter,
    quota: Quota,
    idempotency_key: str | None,
) -> tuple[int, bool]:
    """Keep a report, as the next revision of whose it is.

    Returns
    -------
    int, bool
        Its id, and whether it is new: a report under a key that it was kept under before is not.

    Raises
    ------
    KeyReused
        If the key stands for another report.
    NoRoom
        If the reporter has no room for it; what was withdrawn takes room, too.
    """
    await _alone(connection, reporter.organisation)
    digest = _digest(report)
    row = {name: getattr(report, name) for name in _KEPT}
    row |= {"idempotency_key": idempotency_key, "request_hash": digest}
    row |= {
        "organisation": reporter.organisation,
        "author": reporter.author,
        "kept_bytes": _kept_bytes(report),
    }
    # Waits for a concurrent report of the same key to commit or fail, and then yields to it.
    added = await connection.scalar(
        insert(measurement)
        .values(row)
        .on_conflict_do_nothing(index_elements=["idempotency_key"])
        .returning(measurement.c.id)
    )
    if added is None:
        kept = (
            await connection.execute(
                select(measurement.c.id, measurement.c.request_hash).where(
                    measurement.c.idempotency_key == idempotency_key
                )
            )
        ).one()
        if kept.request_hash != digest:
            raise KeyReused(idempotency_key)
        return int(kept.id), False
    if report.figures:
        rows = [{"measurement_id": added, **figure} for figure in report.figures]
        await connection.execute(insert(measured_figure), rows)
    await _check_room(connection, reporter.organisation, quota)
    await _change(connection, int(added), reporter, withdrawn=False)
    return int(added), True


async def withdraw(connection: AsyncConnection, id_: int, reporter: Reporter) -> None:
    """Take a report back: it is shown to nobody and teaches nothing from then on."""
    await _alone(connection, reporter.organisation)
    await _change(connection, id_, reporter, withdrawn=True)


async def one(
    connection: AsyncConnection, id_: int, organisation: str | None
) -> dict[str, Any] | None:
    """A measurement with its figures, or None if who looks sees none of that id."""
    wanted = select(measurement).where(measurement.c.id == id_, _seen_by(organisation))
    found = await _with_figures(connection, wanted)
    return found[0] if found else None


async def page(connection: AsyncConnection, wanted: Filter, limit: int) -> list[dict[str, Any]]:
    """Measurements that match, newest first, at most ``limit`` of them."""
    statement = (
        select(measurement)
        .where(_seen_by(wanted.organisation))
        .order_by(measurement.c.id.desc())
        .limit(limit)
    )
    for column in ("model", "accelerator", "kind"):
        value = getattr(wanted, column)
        if value is not None:
            statement = statement.where(measurement.c[column] == value)
    if wanted.before is not None:
        statement = statement.where(measurement.c.id < wanted.before)
    if wanted.metric is not None:
        statement = statement.where(
            select(measured_figure.c.id)
            .where(
                measured_figure.c.measurement_id == measurement.c.id,
                measured_figure.c.metric == wanted.metric,
            )
            .exists()
        )
    return await _with_figures(connection, statement)


async def summary(connection: AsyncConnection, organisation: str | None) -> list[dict[str, Any]]:
    """Errors by model, accelerator and metric, of figures that can be about the same.

    Of the reports that an organisation sees: its own and everybody's.

    Returns
    -------
    list of dict
        ``model``, ``accelerator``, ``family``, ``metric``, ``count``, the mean and the median of
        (estimate − measured) / measured, and the share of measurements inside the interval.
    """
    error = measured_figure.c.error_ratio
    by = (
        measurement.c.model,
        measurement.c.accelerator,
        measurement.c.family,
        measured_figure.c.metric,
    )
    statement = (
        select(
            *by,
            func.count().label("count"),
            func.avg(error).label("mean_error_ratio"),
            func.percentile_cont(0.5).within_group(error).label("median_error_ratio"),
            func.count().filter(measured_figure.c.inside).label("inside"),
        )
        .join(measurement, measurement.c.id == measured_figure.c.measurement_id)
        .where(measured_figure.c.implausible.is_(False), _seen_by(organisation))
        .group_by(*by)
        .order_by(*by)
        .limit(_MOST_GROUPS)
    )
    rows = (await connection.execute(statement)).mappings()
    return [
        {
            **{name: row[name] for name in ("model", "accelerator", "family", "metric", "count")},
            "mean_error_ratio": float(row["mean_error_ratio"]),
            "median_error_ratio": float(row["median_error_ratio"]),
            "coverage_ratio": row["inside"] / row["count"],
        }
        for row in rows
    ]


#: Groups that a summary lists; a filtered list shows the rest.
_MOST_GROUPS = 10_000

_FIGURE_COLUMNS = (
    *("metric", "measured", "estimate", "low", "high", "error_ratio", "inside", "implausible"),
)


async def _with_figures(
    connection: AsyncConnection, statement: Select[Any]
) -> list[dict[str, Any]]:
    rows = (await connection.execute(statement)).mappings()
    found = [{str(name): value for name, value in row.items()} for row in rows]
    by_id: dict[int, list[dict[str, Any]]] = {row["id"]: [] for row in found}
    if not found:
        return []
    figures = await connection.execute(
        select(measured_figure)
        .where(measured_figure.c.measurement_id.in_(by_id))
        .order_by(measured_figure.c.id)
    )
    for figure in figures.mappings():
        by_id[figure["measurement_id"]].append({name: figure[name] for name in _FIGURE_COLUMNS})
    return [row | {"figures": by_id[row["id"]]} for row in found]


async def newest_revisions(connection: AsyncConnection) -> dict[str | None, int]:
    """The number of the newest change of each organisation's reports; None is for no key."""
    rows = await connection.execute(
        select(measurement_change.c.organisation, func.max(measurement_change.c.revision)).group_by(
            measurement_change.c.organisation
        )
    )
    return {organisation or None: int(revision) for organisation, revision in rows}


async def documents_at(
    connection: AsyncConnection, organisation: str | None, revision: int, most: int
) -> tuple[list[tuple[int, dict[str, Any]]], int | None]:
    """Reports that count at a revision, by id, the newest of them if there are more than so many.

    Returns
    -------
    list of (int, dict), int or None
        Ids and documents; and the id of a report that counted then and was withdrawn later, None
        without such.
    """
    change = measurement_change
    counted = change.alias("counted")
    withdrawn = change.alias("withdrawn")
    rows = (
        await connection.execute(
            select(measurement.c.id, measurement.c.document, withdrawn.c.revision)
            .join(counted, counted.c.measurement_id == measurement.c.id)
            .outerjoin(
                withdrawn,
                (withdrawn.c.measurement_id == measurement.c.id) & withdrawn.c.withdrawn,
            )
            .where(
                counted.c.organisation == (organisation or _ANYBODY),
                counted.c.withdrawn.is_(False),
                counted.c.revision <= revision,
                or_(withdrawn.c.revision.is_(None), withdrawn.c.revision > revision),
            )
            .order_by(measurement.c.id.desc())
            .limit(most)
        )
    ).all()
    later = next((int(id_) for id_, _, gone in rows if gone is not None), None)
    return [(int(id_), document) for id_, document, _ in reversed(rows)], later


def _seen_by(organisation: str | None) -> ColumnElement[bool]:
    """Reports that are not withdrawn and are an organisation's own or everybody's."""
    whose: ColumnElement[bool] = measurement.c.organisation.is_(None)
    if organisation is not None:
        whose = or_(whose, measurement.c.organisation == organisation)
    taken_back = (
        select(measurement_change.c.measurement_id)
        .where(
            measurement_change.c.measurement_id == measurement.c.id,
            measurement_change.c.withdrawn,
        )
        .exists()
    )
    return whose & ~taken_back


async def _alone(connection: AsyncConnection, organisation: str | None) -> None:
    """Wait until nobody else changes an organisation's reports."""
    lock = func.hashtextextended(f"measurement {organisation or _ANYBODY}", 0)
    await connection.execute(select(func.pg_advisory_xact_lock(lock)))


async def _change(
    connection: AsyncConnection, id_: int, reporter: Reporter, *, withdrawn: bool
) -> None:
    """Make the next revision of an organisation's reports."""
    organisation = reporter.organisation or _ANYBODY
    newest = await connection.scalar(
        select(func.max(measurement_change.c.revision)).where(
            measurement_change.c.organisation == organisation
        )
    )
    await connection.execute(
        insert(measurement_change).values(
            organisation=organisation,
            revision=(newest or 0) + 1,
            measurement_id=id_,
            withdrawn=withdrawn,
            author=reporter.author,
        )
    )


async def _check_room(connection: AsyncConnection, organisation: str | None, quota: Quota) -> None:
    held = (
        await connection.execute(
            select(func.count(), func.coalesce(func.sum(measurement.c.kept_bytes), 0)).where(
                measurement.c.organisation.is_not_distinct_from(organisation)
            )
        )
    ).one()
    whose = "all who report without a key" if organisation is None else organisation
    if held[0] > quota.most_reports:
        raise NoRoom(f"this service keeps at most {quota.most_reports:,} reports of {whose}")
    if held[1] > quota.most_bytes:
        few = quota.most_bytes < 1e5
        most = f"{quota.most_bytes:,} bytes" if few else f"{quota.most_bytes / 1e6:,.1f} MB"
        raise NoRoom(f"this service keeps at most {most} of reports of {whose}")


def _kept_bytes(report: Report) -> int:
    parts = (report.document, report.deployment)
    return sum(len(orjson.dumps(part)) for part in parts) + _FIGURE_BYTES * len(report.figures)


def _digest(report: Report) -> str:
    """Hash of what the user reported, without what was computed from it."""
    return sha256(orjson.dumps(report.document, option=orjson.OPT_SORT_KEYS)).hexdigest()
