"""Sweeps, what their chunks came to, and the queue that hands chunks to workers.

The queue's tables are those of procrastinate 3.10, as it publishes them: a later release of it that
changes them needs a migration here.
"""

from __future__ import annotations

from pathlib import Path

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

QUEUE_SCHEMA = Path(__file__).parents[1] / "procrastinate_3.10.sql"


def upgrade() -> None:
    op.create_table(
        "sweep",
        sa.Column("id", postgresql.UUID(as_uuid=True), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("started_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("finished_at", sa.DateTime(timezone=True), nullable=True),
        sa.Column("status", sa.Text(), server_default="queued", nullable=False),
        sa.Column("problem", sa.Text(), nullable=True),
        sa.Column("catalog_revision", sa.BigInteger(), nullable=False),
        sa.Column("engine_version", sa.Text(), nullable=False),
        sa.Column("request", sa.LargeBinary(), nullable=False),
        sa.Column("configuration_count", sa.BigInteger(), nullable=False),
        sa.Column("chunk_count", sa.Integer(), nullable=False),
        sa.Column("idempotency_key", sa.Text(), nullable=True),
        sa.Column("request_hash", sa.Text(), nullable=False),
        sa.CheckConstraint(
            "status IN ('queued', 'running', 'succeeded', 'failed', 'cancelled', 'expired', "
            "'deleted')",
            name=op.f("sweep_status_check"),
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("sweep_pk")),
        sa.UniqueConstraint("idempotency_key", name=op.f("sweep_idempotency_key_key")),
    )
    op.create_table(
        "sweep_chunk",
        sa.Column("sweep_id", postgresql.UUID(as_uuid=True), nullable=False),
        sa.Column("chunk", sa.Integer(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("duration_s", sa.Double(), nullable=False),
        sa.Column("configuration_count", sa.BigInteger(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("excluded", postgresql.JSONB(none_as_null=True), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweep.id"], name=op.f("sweep_chunk_sweep_id_fk")),
        sa.PrimaryKeyConstraint("sweep_id", "chunk", name=op.f("sweep_chunk_pk")),
    )
    # Parquet is compressed already.
    op.execute("ALTER TABLE sweep_chunk ALTER COLUMN content SET STORAGE EXTERNAL")
    # Many statements at once, functions among them: only the driver's own way takes them.
    script = QUEUE_SCHEMA.read_text()
    op.get_bind().connection.dbapi_connection.run_async(
        lambda connection: connection.execute(script)
    )


def downgrade() -> None:
    op.execute(
        "DROP TABLE procrastinate_events, procrastinate_periodic_defers, procrastinate_jobs, "
        "procrastinate_workers CASCADE"
    )
    op.execute(
        """
        DO $$
        DECLARE routine regprocedure;
        BEGIN
            FOR routine IN
                SELECT oid::regprocedure FROM pg_proc
                WHERE pronamespace = current_schema()::regnamespace
                AND proname LIKE 'procrastinate\\_%'
            LOOP
                EXECUTE 'DROP FUNCTION ' || routine || ' CASCADE';
            END LOOP;
        END
        $$
        """
    )
    for name in ("job_to_defer_v1", "job_event_type", "job_status"):
        op.execute(f"DROP TYPE procrastinate_{name}")
    op.drop_table("sweep_chunk")
    op.drop_table("sweep")
