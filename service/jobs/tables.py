"""Tables of sweeps and of the chunks that are done; the queue's own are procrastinate's."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    Table,
    Text,
    func,
)
from sqlalchemy.dialects.postgresql import JSONB, UUID

from service.catalog.database.tables import metadata

#: Statuses of sweeps in which chunks are still worked on.
UNFINISHED = ("queued", "running")

#: A study as it was asked for, with the catalog and engine that it is answered by. ``request`` is
#: its JSON as bytes, because it may hold characters that Postgres' own texts cannot.
#: ``organisation`` is whose it is, null for those that were asked for without an API key.
sweep = Table(
    "sweep",
    metadata,
    Column("id", UUID(as_uuid=True), primary_key=True),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("started_at", DateTime(timezone=True), nullable=True),
    Column("finished_at", DateTime(timezone=True), nullable=True),
    Column("status", Text, nullable=False, server_default="queued"),
    Column("problem", Text, nullable=True),
    Column("catalog_revision", BigInteger, nullable=False),
    Column("engine_version", Text, nullable=False),
    Column("request", LargeBinary, nullable=False),
    Column("configuration_count", BigInteger, nullable=False),
    Column("chunk_count", Integer, nullable=False),
    Column("idempotency_key", Text, nullable=True, unique=True),
    Column("request_hash", Text, nullable=False),
    Column("organisation", Text, nullable=True),
    Index(None, "organisation", "status"),
    CheckConstraint(
        "status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'expired', 'deleted')",
        name="status",
    ),
)

#: What one chunk came to, once: a second worker that has done it too finds it here. ``content`` is
#: a Parquet file of its rows.
sweep_chunk = Table(
    "sweep_chunk",
    metadata,
    Column("sweep_id", UUID(as_uuid=True), ForeignKey("sweep.id"), primary_key=True),
    Column("chunk", Integer, primary_key=True),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("duration_s", Double, nullable=False),
    Column("configuration_count", BigInteger, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("excluded", JSONB(none_as_null=True), nullable=False),
    Column("content", LargeBinary, nullable=False),
)
