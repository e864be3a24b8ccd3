"""API keys, organisations' own entries, and who made a revision with which key."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

_NEW_TABLES = ("own_entry", "api_key", "api_key_revocation")


def upgrade() -> None:
    op.add_column("catalog_revision", sa.Column("organisation", sa.Text(), nullable=True))
    op.add_column("catalog_revision", sa.Column("key_id", sa.Text(), nullable=True))
    op.create_check_constraint(
        op.f("catalog_revision_package_is_shared_check"),
        "catalog_revision",
        "package_hash IS NULL OR organisation IS NULL",
    )
    op.create_index(
        op.f("catalog_revision_organisation_revision_ix"),
        "catalog_revision",
        ["organisation", "revision"],
    )
    op.create_table(
        "own_entry",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("organisation", sa.Text(), nullable=False),
        sa.Column("revision", sa.BigInteger(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("entry_id", sa.Text(), nullable=False),
        sa.Column("document", postgresql.JSONB(none_as_null=True), nullable=True),
        sa.Column("document_hash", sa.Text(), nullable=True),
        sa.CheckConstraint(
            "(document IS NULL) = (document_hash IS NULL)",
            name=op.f("own_entry_document_hash_check"),
        ),
        sa.ForeignKeyConstraint(
            ["revision"], ["catalog_revision.revision"], name=op.f("own_entry_revision_fk")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("own_entry_pk")),
        sa.UniqueConstraint(
            "revision",
            "collection",
            "entry_id",
            name=op.f("own_entry_revision_collection_entry_id_key"),
        ),
    )
    op.create_index(
        op.f("own_entry_organisation_collection_entry_id_revision_ix"),
        "own_entry",
        ["organisation", "collection", "entry_id", "revision"],
    )
    op.create_table(
        "api_key",
        sa.Column("key_id", sa.Text(), nullable=False),
        _created_at(),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("organisation", sa.Text(), nullable=False),
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("scopes", sa.ARRAY(sa.Text()), nullable=False),
        sa.Column("secret_hash", sa.Text(), nullable=False),
        sa.Column("expires_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("key_id", name=op.f("api_key_pk")),
    )
    op.create_index(op.f("api_key_organisation_ix"), "api_key", ["organisation"])
    op.create_table(
        "api_key_revocation",
        sa.Column("id", sa.BigInteger(), sa.Identity(always=True), nullable=False),
        sa.Column("key_id", sa.Text(), nullable=False),
        _created_at(),
        sa.Column("created_by", sa.Text(), nullable=False),
        sa.Column("at", sa.DateTime(timezone=True), nullable=False),
        sa.ForeignKeyConstraint(
            ["key_id"], ["api_key.key_id"], name=op.f("api_key_revocation_key_id_fk")
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("api_key_revocation_pk")),
    )
    op.create_index(op.f("api_key_revocation_key_id_ix"), "api_key_revocation", ["key_id"])
    for table in _NEW_TABLES:
        op.execute(
            f"CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table} "
            "FOR EACH STATEMENT EXECUTE FUNCTION catalog_refuse_change()"
        )
    op.execute(
        """
        CREATE FUNCTION api_key_announce() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
            PERFORM pg_notify('api_key', NEW.key_id);
            RETURN NEW;
        END
        $$
        """
    )
    for table in ("api_key", "api_key_revocation"):
        op.execute(
            f"CREATE TRIGGER {table}_announce AFTER INSERT ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION api_key_announce()"
        )


def downgrade() -> None:
    for table in reversed(_NEW_TABLES):
        op.drop_table(table)
    op.execute("DROP FUNCTION api_key_announce()")
    op.drop_index(op.f("catalog_revision_organisation_revision_ix"), "catalog_revision")
    op.drop_constraint(op.f("catalog_revision_package_is_shared_check"), "catalog_revision")
    op.drop_column("catalog_revision", "key_id")
    op.drop_column("catalog_revision", "organisation")


def _created_at() -> sa.Column[sa.DateTime]:
    return sa.Column(
        "created_at",
        sa.DateTime(timezone=True),
        server_default=sa.text("now()"),
        nullable=False,
    )
