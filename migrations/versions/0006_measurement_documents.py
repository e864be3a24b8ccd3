"""Measurements as they are reported: one document each, of serving, training or impacts.

Reports that were kept before become documents of the same form.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_TABLES = ("measurement", "measured_figure")
#: Of counters of the allocator, "peak" left the name.
_SHORTER = (
    "UPDATE measured_figure SET metric = replace(metric, 'peak_', '') "
    "WHERE metric IN ('peak_allocated_bytes', 'peak_reserved_bytes')"
)
_LONGER = (
    "UPDATE measured_figure SET metric = 'peak_' || metric "
    "WHERE metric IN ('allocated_bytes', 'reserved_bytes')"
)
_TOLD = ("measured_on", "tool", "notes")


def upgrade() -> None:
    _let_change(True)
    op.add_column(
        "measurement", sa.Column("document", postgresql.JSONB(none_as_null=True), nullable=True)
    )
    op.add_column("measurement", sa.Column("out_of_memory_foreseen", sa.Boolean(), nullable=True))
    op.add_column(
        "measured_figure",
        sa.Column("implausible", sa.Boolean(), nullable=False, server_default=sa.false()),
    )
    op.execute(_SHORTER)
    op.execute(
        "UPDATE measured_figure SET implausible = estimate >= measured * 100 "
        "OR estimate <= measured / 100"
    )
    op.execute(
        "UPDATE measurement SET document = jsonb_strip_nulls(jsonb_build_object("
        "'kind', kind, 'request', request, 'measured_on', measured_on, 'tool', tool, "
        "'notes', notes)) || jsonb_build_object('measured', coalesce((SELECT "
        "jsonb_object_agg(metric, measured) FROM measured_figure "
        "WHERE measurement_id = measurement.id), '{}'::jsonb))"
    )
    op.alter_column("measurement", "document", nullable=False)
    op.alter_column("measured_figure", "implausible", server_default=None)
    for name in ("request", *_TOLD):
        op.drop_column("measurement", name)
    _allow_kinds("'inference', 'training', 'impacts'")
    _let_change(False)


def downgrade() -> None:
    _let_change(True)
    op.execute(
        "DELETE FROM measured_figure USING measurement "
        "WHERE measurement_id = measurement.id AND kind = 'impacts'"
    )
    op.execute("DELETE FROM measurement WHERE kind = 'impacts'")
    _allow_kinds("'inference', 'training'")
    op.add_column("measurement", sa.Column("measured_on", sa.Date(), nullable=True))
    op.add_column("measurement", sa.Column("tool", sa.Text(), nullable=True))
    op.add_column("measurement", sa.Column("notes", sa.Text(), nullable=True))
    op.add_column(
        "measurement", sa.Column("request", postgresql.JSONB(none_as_null=True), nullable=True)
    )
    op.execute(
        "UPDATE measurement SET request = document -> 'request', tool = document ->> 'tool', "
        "notes = document ->> 'notes', measured_on = CASE "
        "WHEN length(document ->> 'measured_on') = 10 THEN (document ->> 'measured_on')::date END"
    )
    op.execute(_LONGER)
    op.alter_column("measurement", "request", nullable=False)
    op.drop_column("measured_figure", "implausible")
    for name in ("document", "out_of_memory_foreseen"):
        op.drop_column("measurement", name)
    _let_change(False)


def _let_change(allowed: bool) -> None:
    """Whether rows may be changed while they are brought into another form."""
    switch = "DISABLE" if allowed else "ENABLE"
    for table in _TABLES:
        op.execute(f"ALTER TABLE {table} {switch} TRIGGER {table}_append_only")


def _allow_kinds(kinds: str) -> None:
    op.drop_constraint(op.f("measurement_kind_check"), "measurement")
    op.create_check_constraint(op.f("measurement_kind_check"), "measurement", f"kind IN ({kinds})")
