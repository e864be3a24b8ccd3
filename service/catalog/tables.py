"""The tables: the catalog's revisions with what each changed, and users' measurements.

Rows are added and never changed.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    Double,
    ForeignKey,
    Identity,
    Index,
    Integer,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
    func,
)
from sqlalchemy.dialects.postgresql import JSONB

metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pk",
        "fk": "%(table_name)s_%(column_0_name)s_fk",
        "ix": "%(table_name)s_%(column_0_N_name)s_ix",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "ck": "%(table_name)s_%(constraint_name)s_check",
    }
)

#: One change of the catalog. ``content_hash`` and ``entry_count`` describe all that the catalog
#: holds after it. ``package_hash`` is that of the packaged files when they were what was imported:
#: being unique, it lets one set of files in only once, however many replicas bring it.
catalog_revision = Table(
    "catalog_revision",
    metadata,
    Column("revision", BigInteger, Identity(always=True), primary_key=True),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("author", Text, nullable=False),
    Column("reason", Text, nullable=False),
    Column("content_hash", Text, nullable=False),
    Column("package_hash", Text, nullable=True, unique=True),
    Column("entry_count", Integer, nullable=False),
    CheckConstraint("entry_count >= 0", name="entry_count"),
)

#: One entry as a revision left it; a null document says that the revision removed it.
catalog_entry = Table(
    "catalog_entry",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("revision", BigInteger, ForeignKey("catalog_revision.revision"), nullable=False),
    Column("collection", Text, nullable=False),
    Column("entry_id", Text, nullable=False),
    Column("document", JSONB(none_as_null=True), nullable=True),
    Column("document_hash", Text, nullable=True),
    UniqueConstraint("revision", "collection", "entry_id"),
    CheckConstraint("(document IS NULL) = (document_hash IS NULL)", name="document_hash"),
    Index(None, "collection", "entry_id", "revision"),
)

#: Channel on which Postgres announces the number of each new revision.
REVISION_CHANNEL = "catalog_revision"

#: What a user measured on a deployment. ``request`` is the deployment as it was asked about;
#: ``idempotency_key`` lets a report in once, however often it is sent, and ``request_hash`` says
#: whether a second one under the same key is the same.
measurement = Table(
    "measurement",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("author", Text, nullable=True),
    Column("kind", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("accelerator", Text, nullable=False),
    Column("family", Text, nullable=False),
    Column("catalog_revision", BigInteger, nullable=False),
    Column("engine_version", Text, nullable=False),
    Column("measured_on", Date, nullable=True),
    Column("tool", Text, nullable=True),
    Column("notes", Text, nullable=True),
    Column("request", JSONB(none_as_null=True), nullable=False),
    Column("deployment", JSONB(none_as_null=True), nullable=False),
    Column("idempotency_key", Text, nullable=True, unique=True),
    Column("request_hash", Text, nullable=False),
    CheckConstraint("kind IN ('inference', 'training')", name="kind"),
    Index(None, "model", "accelerator"),
)

#: One measured figure beside the estimate of the time it was reported.
measured_figure = Table(
    "measured_figure",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("measurement_id", BigInteger, ForeignKey("measurement.id"), nullable=False),
    Column("metric", Text, nullable=False),
    Column("measured", Double, nullable=False),
    Column("estimate", Double, nullable=False),
    Column("low", Double, nullable=False),
    Column("high", Double, nullable=False),
    Column("error_ratio", Double, nullable=False),
    Column("inside", Boolean, nullable=False),
    UniqueConstraint("measurement_id", "metric"),
    CheckConstraint("measured > 0", name="measured"),
)
