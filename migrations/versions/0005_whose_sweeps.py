"""Whose a sweep is: an organisation's are seen by its keys alone, and counted to it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("sweep", sa.Column("organisation", sa.Text(), nullable=True))
    op.create_index(op.f("sweep_organisation_status_ix"), "sweep", ["organisation", "status"])


def downgrade() -> None:
    op.drop_index(op.f("sweep_organisation_status_ix"), "sweep")
    op.drop_column("sweep", "organisation")
