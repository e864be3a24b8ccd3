"""Whose a measurement is, how much room it takes, and which of them count at each revision.

What was reported before is everybody's. Where there are no owners, reports that have one, and those
that were withdrawn, would be shown to everybody: going back leaves them out.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("measurement", sa.Column("organisation", sa.Text(), nullable=True))
    op.add_column(
        "measurement",
        sa.Column("kept_bytes", sa.BigInteger(), nullable=False, server_default=sa.text("0")),
    )
    op.create_index(op.f("measurement_organisation_ix"), "measurement", ["organisation"])
    op.create_table(
        "measurement_change",
        sa.Column("organisation", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column(
            "created_at",
            sa.DateTime(timezone=True),
            server_default=sa.text("now()"),
            nullable=False,
        ),
        sa.Column("measurement_id", sa.BigInteger(), nullable=False),
        sa.Column("withdrawn", sa.Boolean(), nullable=False),
        sa.Column("author", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(
            ["measurement_id"],
            ["measurement.id"],
            name=op.f("measurement_change_measurement_id_fk"),
        ),
        sa.PrimaryKeyConstraint("organisation", "revision", name=op.f("measurement_change_pk")),
        sa.UniqueConstraint(
            "measurement_id",
            "withdrawn",
            name=op.f("measurement_change_measurement_id_withdrawn_key"),
        ),
    )
    op.execute(
        "INSERT INTO measurement_change (organisation, revision, measurement_id, withdrawn) "
        "SELECT '', row_number() OVER (ORDER BY id), id, false FROM measurement"
    )
    op.execute(
        "CREATE TRIGGER measurement_change_append_only BEFORE UPDATE OR DELETE OR TRUNCATE "
        "ON measurement_change FOR EACH STATEMENT EXECUTE FUNCTION catalog_refuse_change()"
    )
    op.execute(
        """
        CREATE FUNCTION measurement_announce() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_notify('measurement', NEW.organisation);
            RETURN NEW;
        END
        $$
        """
    )
    op.execute(
        "CREATE TRIGGER measurement_change_announce AFTER INSERT ON measurement_change "
        "FOR EACH ROW EXECUTE FUNCTION measurement_announce()"
    )


def downgrade() -> None:
    _let_change(True)
    hidden = (
        "SELECT id FROM measurement WHERE organisation IS NOT NULL OR id IN "
        "(SELECT measurement_id FROM measurement_change WHERE withdrawn)"
    )
    op.execute(f"CREATE TEMPORARY TABLE hidden_measurement ON COMMIT DROP AS {hidden}")
    op.drop_table("measurement_change")
    op.execute("DROP FUNCTION measurement_announce()")
    op.execute(
        "DELETE FROM measured_figure USING hidden_measurement "
        "WHERE measurement_id = hidden_measurement.id"
    )
    op.execute(
        "DELETE FROM measurement USING hidden_measurement "
        "WHERE measurement.id = hidden_measurement.id"
    )
    op.drop_index(op.f("measurement_organisation_ix"), "measurement")
    op.drop_column("measurement", "kept_bytes")
    op.drop_column("measurement", "organisation")
    _let_change(False)


def _let_change(allowed: bool) -> None:
    """Whether rows may be taken away while owners are."""
    switch = "DISABLE" if allowed else "ENABLE"
    for table in ("measurement", "measured_figure"):
        op.execute(f"ALTER TABLE {table} {switch} TRIGGER {table}_append_only")
