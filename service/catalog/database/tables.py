"""The tables: the catalog's revisions with what each changed, API keys, users' measurements.

Rows are added and never changed.
"""

from __future__ import annotations

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
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
#: ``organisation`` is whose own entries it changed, null for the catalog that all share;
#: ``key_id`` is the API key that it was made with.
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
    Column("organisation", Text, nullable=True),
    Column("key_id", Text, nullable=True),
    CheckConstraint("entry_count >= 0", name="entry_count"),
    CheckConstraint("package_hash IS NULL OR organisation IS NULL", name="package_is_shared"),
    Index(None, "organisation", "revision"),
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

#: An organisation's own entry as a revision left it. In a table of its own, so that no reader of
#: the shared catalog, of this release or the last, comes upon it by leaving out a condition.
own_entry = Table(
    "own_entry",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("organisation", Text, nullable=False),
    Column("revision", BigInteger, ForeignKey("catalog_revision.revision"), nullable=False),
    Column("collection", Text, nullable=False),
    Column("entry_id", Text, nullable=False),
    Column("document", JSONB(none_as_null=True), nullable=True),
    Column("document_hash", Text, nullable=True),
    UniqueConstraint("revision", "collection", "entry_id"),
    CheckConstraint("(document IS NULL) = (document_hash IS NULL)", name="document_hash"),
    Index(None, "organisation", "collection", "entry_id", "revision"),
)

#: Channel on which Postgres announces the number of each new revision.
REVISION_CHANNEL = "catalog_revision"

#: Who may write, and whose own entries they see. The secret itself is kept nowhere: 256 random bits
#: need no slow hash. Expiry is set when a key is made; a row in ``api_key_revocation`` ends it.
api_key = Table(
    "api_key",
    metadata,
    Column("key_id", Text, primary_key=True),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("created_by", Text, nullable=False),
    Column("organisation", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("scopes", ARRAY(Text), nullable=False),
    Column("secret_hash", Text, nullable=False),
    Column("expires_at", DateTime(timezone=True), nullable=True),
    Index(None, "organisation"),
)

#: The end of a key before its time; ``at`` may lie ahead, to let callers change over to another.
api_key_revocation = Table(
    "api_key_revocation",
    metadata,
    Column("id", BigInteger, Identity(always=True), primary_key=True),
    Column("key_id", Text, ForeignKey("api_key.key_id"), nullable=False),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("created_by", Text, nullable=False),
    Column("at", DateTime(timezone=True), nullable=False),
    Index(None, "key_id"),
)

#: Channel on which Postgres announces keys that were made or revoked.
KEY_CHANNEL = "api_key"

#: What a user measured. ``document`` is the report as it was sent, ``deployment`` what it was
#: understood to be about, ``out_of_memory_foreseen`` whether the estimate agreed that it fails;
#: ``idempotency_key`` lets a report in once, however often it is sent, and ``request_hash`` says
#: whether a second one under the same key is the same. A report that has an ``organisation`` is
#: seen by it alone; ``kept_bytes`` is what it takes of the room that its reporter has.
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
    Column("document", JSONB(none_as_null=True), nullable=False),
    Column("deployment", JSONB(none_as_null=True), nullable=False),
    Column("out_of_memory_foreseen", Boolean, nullable=True),
    Column("idempotency_key", Text, nullable=True, unique=True),
    Column("request_hash", Text, nullable=False),
    Column("organisation", Text, nullable=True),
    Column("kept_bytes", BigInteger, nullable=False, server_default="0"),
    CheckConstraint("kind IN ('inference', 'training', 'impacts')", name="kind"),
    Index(None, "model", "accelerator"),
    Index(None, "organisation"),
)

#: A report that begins to count, or was ``withdrawn``, in the order of an organisation's own
#: revisions; those who have no key are the organisation "".
measurement_change = Table(
    "measurement_change",
    metadata,
    Column("organisation", Text, primary_key=True),
    Column("revision", BigInteger, primary_key=True),
    Column("created_at", DateTime(timezone=True), nullable=False, server_default=func.now()),
    Column("measurement_id", BigInteger, ForeignKey("measurement.id"), nullable=False),
    Column("withdrawn", Boolean, nullable=False),
    Column("author", Text, nullable=True),
    UniqueConstraint("measurement_id", "withdrawn"),
)

#: Channel on which Postgres announces whose reports have changed.
MEASUREMENT_CHANNEL = "measurement"

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
    Column("implausible", Boolean, nullable=False),
    UniqueConstraint("measurement_id", "metric"),
    CheckConstraint("measured > 0", name="measured"),
)
