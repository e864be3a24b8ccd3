"""Users' measurements beside the estimates of their time, append-only."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "measurement",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("author", sa.Text(), nullable=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("accelerator", sa.Text(), nullable=False),
        sa.Column("family", sa.Text(), nullable=False),
        sa.Column("catalog_revision", sa.BigInteger(), nullable=False),
        sa.Column("engine_version", sa.Text(), nullable=False),
        sa.Column("measured_on", sa.Date(), nullable=True),
        sa.Column("tool", sa.Text(), nullable=True),
        sa.Column("notes", sa.Text(), nullable=True),
        sa.Column("request", postgresql.JSONB(none_as_null=True), nullable=False),
        sa.Column("deployment", postgresql.JSONB(none_as_null=True), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "kind IN ('inference', 'training')", name=op.f("measurement_kind_check")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("measurement_pk")),
        sa.UniqueConstraint("idempotency_key", name=op.f("measurement_idempotency_key_key")),
    )
    op.create_index(
        op.f("measurement_model_accelerator_ix"), "measurement", ["model", "accelerator"]
    )
    op.create_table(
        "measured_figure",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("measurement_id", sa.BigInteger(), nullable=False),
        sa.Column("metric", sa.Text(), nullable=False),
        sa.Column("measured", sa.Double(), nullable=False),
        sa.Column("estimate", sa.Double(), nullable=False),
        sa.Column("low", sa.Double(), nullable=False),
        sa.Column("high", sa.Double(), nullable=False),
        sa.Column("error_ratio", sa.Double(), nullable=False),
        sa.Column("inside", sa.Boolean(), nullable=False),
        sa.CheckConstraint("measured > 0", name=op.f("measured_figure_measured_check")),
        sa.ForeignKeyConstraint(
            ["measurement_id"],
            ["measurement.id"],
            name=op.f("measured_figure_measurement_id_fk"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("measured_figure_pk")),
        sa.UniqueConstraint(
            "measurement_id", "metric", name=op.f("measured_figure_measurement_id_metric_key")
        ),
    )
    for table in ("measurement", "measured_figure"):
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION catalog_refuse_change()"
        )


def downgrade() -> None:
    op.drop_table("measured_figure")
    op.drop_table("measurement")
