"""The reports that a running process answers from: those of an organisation at a revision.

Which revision is the newest is known beforehand, so that who has reported nothing waits for no
table; reports are read when they are first needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from cachetools import LRUCache
from sqlalchemy.ext.asyncio import AsyncConnection

from service.catalog.database.store import CatalogStore
from service.catalog.reports import MOST_REPORTS, OwnReports
from service.catalog.snapshot import CatalogSnapshot
from service.core.errors import NotFound
from service.measurements.repository import documents_at, newest_revisions

_KEPT_REPORTS = 64
_KEPT_SNAPSHOTS = 64


class ReportsUnknown(NotFound):
    """The organisation's reports have no revision of this number; ``newest`` is the last."""

    def __init__(self, revision: int, newest: int) -> None:
        super().__init__(f"no revision {revision} of your reports; the newest is {newest}")


class ReportWithdrawn(NotFound):
    """A report that counted at this revision was withdrawn since."""

    def __init__(self, revision: int, id_: int) -> None:
        super().__init__(
            f"revision {revision} used report {id_}, which was withdrawn since: what it was "
            "answered then cannot be repeated"
        )


class ReportBook:
    """Knows how far each organisation's reports are; swapped whole when that changes.

    Parameters
    ----------
    without_key
        Whether those who have no key learn from what was reported without one.
    """

    def __init__(self, *, without_key: bool) -> None:
        self._without_key = without_key
        self._basis: tuple[CatalogSnapshot, int] | None = None
        self._newest: Mapping[str | None, int] = MappingProxyType({})
        self._reports: LRUCache[tuple[str | None, int, int], OwnReports] = LRUCache(_KEPT_REPORTS)
        self._taught: LRUCache[tuple[int, OwnReports], tuple[CatalogSnapshot, CatalogSnapshot]] = (
            LRUCache(_KEPT_SNAPSHOTS)
        )

    async def refresh(self, connection: AsyncConnection) -> None:
        """Read how far reports are."""
        self._newest = MappingProxyType(await newest_revisions(connection))

    def newest(self, organisation: str | None) -> int | None:
        """The newest revision of an organisation's reports, 0 before the first.

        None for those who have no key, unless they learn from each other.
        """
        if organisation is None and not self._without_key:
            return None
        return self._newest.get(organisation, 0)

    def basis(self, snapshot: CatalogSnapshot) -> object:
        """What those who have no key are answered from: another object when any of it changes."""
        newest = self.newest(None)
        if not newest:
            return snapshot
        held = self._basis
        if held is None or held[0] is not snapshot or held[1] != newest:
            held = self._basis = (snapshot, newest)
        return held

    async def reports(
        self, store: CatalogStore, organisation: str | None, revision: int
    ) -> OwnReports:
        """An organisation's reports at a revision; the same object as long as it is kept.

        Raises
        ------
        ReportsUnknown
            If there is no such revision.
        ReportWithdrawn
            If a report that counted then was withdrawn since.
        DatabaseUnavailable
            If they would have to be read and the database cannot be reached.
        """
        newest = self._newest.get(organisation, 0)
        if not 0 <= revision <= newest:
            raise ReportsUnknown(revision, newest)
        # What an older revision used may have been withdrawn by a newer one.
        place = (organisation, revision, newest)
        kept = self._reports.get(place)
        if kept is None:
            documents: dict[int, Mapping[str, object]] = {}
            if revision > 0:
                async with store.transaction() as connection:
                    found, gone = await documents_at(
                        connection, organisation, revision, MOST_REPORTS
                    )
                if gone is not None:
                    raise ReportWithdrawn(revision, gone)
                documents = dict(found)
            kept = OwnReports(organisation, revision, MappingProxyType(documents))
            self._reports[place] = kept
        return kept

    def taught(self, snapshot: CatalogSnapshot, reports: OwnReports) -> CatalogSnapshot:
        """A snapshot with reports; the same object for the same two."""
        place = (id(snapshot), reports)
        held = self._taught.get(place)
        if held is None or held[0] is not snapshot:
            held = self._taught[place] = (snapshot, snapshot.with_reports(reports))
        return held[1]
