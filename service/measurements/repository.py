"""Reads and writes measurements in Postgres, on a connection that the caller hands over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any

import orjson
from sqlalchemy import Select, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from service.catalog.database.tables import measured_figure, measurement
from service.core.errors import Conflict


class KeyReused(Conflict):
    """An idempotency key that already stands for another report."""


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
    """Which measurements; ``before`` is the id that a page starts below."""

    model: str | None = None
    accelerator: str | None = None
    kind: str | None = None
    metric: str | None = None
    before: int | None = None


async def add(
    connection: AsyncConnection, report: Report, idempotency_key: str | None
) -> tuple[int, bool]:
    """Keep a report.

    Returns
    -------
    int, bool
        Its id, and whether it is new: a report under a key that it was kept under before is not.

    Raises
    ------
    KeyReused
        If the key stands for another report.
    """
    digest = _digest(report)
    row = {name: getattr(report, name) for name in _KEPT}
    row |= {"idempotency_key": idempotency_key, "request_hash": digest}
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
    return int(added), True


async def one(connection: AsyncConnection, id_: int) -> dict[str, Any] | None:
    """A measurement with its figures, or None if there is none of that id."""
    found = await _with_figures(connection, select(measurement).where(measurement.c.id == id_))
    return found[0] if found else None


async def page(connection: AsyncConnection, wanted: Filter, limit: int) -> list[dict[str, Any]]:
    """Measurements that match, newest first, at most ``limit`` of them."""
    statement = select(measurement).order_by(measurement.c.id.desc()).limit(limit)
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


async def summary(connection: AsyncConnection) -> list[dict[str, Any]]:
    """Errors by model, accelerator and metric, of figures that can be about the same.

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
        .where(measured_figure.c.implausible.is_(False))
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


def _digest(report: Report) -> str:
    """Hash of what the user reported, without what was computed from it."""
    return sha256(orjson.dumps(report.document, option=orjson.OPT_SORT_KEYS)).hexdigest()
