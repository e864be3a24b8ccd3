"""An organisation's own entries: their ids, and how they stand beside the shared catalog.

They are entries like all others, except that only the organisation's keys see them. Their ids begin
with ``own/``, so that none stands in a shared entry's place: what a shared id means is the same for
everybody.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping

from service.catalog.entries.documents import COLLECTIONS, CatalogInvalid, Document, DocumentSet
from service.catalog.snapshot import CatalogSnapshot, snapshot_from_documents

OWN_PREFIX = "own/"
#: Efficiencies are fitted to measurements and hold for all; own prices stand in own instances.
OWN_COLLECTIONS = tuple(name for name in COLLECTIONS if name not in ("calibrations", "offers"))

_log = logging.getLogger(__name__)


def is_own(entry_id: str) -> bool:
    """Whether an entry of this id belongs to an organisation."""
    return entry_id.startswith(OWN_PREFIX)


def merged(shared: DocumentSet, own: DocumentSet) -> dict[str, dict[str, Document]]:
    """Shared and own documents together, the shared ones first."""
    return {
        collection: {**shared.get(collection, {}), **own.get(collection, {})}
        for collection in {**shared, **own}
    }


def snapshot_with_own(shared: DocumentSet, own: DocumentSet, revision: int) -> CatalogSnapshot:
    """The snapshot that an organisation sees.

    An own entry that no longer can be read, because the shared one that it refers to has gone, is
    left out: it must not keep its organisation from everything else.

    Raises
    ------
    CatalogInvalid
        If shared documents cannot be converted.
    """
    try:
        return snapshot_from_documents(merged(shared, own), revision)
    except CatalogInvalid as invalid:
        unreadable = {(error.collection, error.entry_id): error for error in invalid.errors}
        if not all(is_own(entry_id) for _, entry_id in unreadable):
            raise
    for error in unreadable.values():
        _log.warning("An own entry is ignored: %s", error)
    readable: Mapping[str, dict[str, Document]] = {
        collection: {
            entry_id: document
            for entry_id, document in entries.items()
            if (collection, entry_id) not in unreadable
        }
        for collection, entries in own.items()
    }
    return snapshot_with_own(shared, readable, revision)
