"""The catalog of a running process: a current snapshot that follows the database by itself.

The database is brought up to date when the process starts, and then only listened to. When it goes
away the snapshot stays; when there is none at all, the packaged files serve in its place.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from datetime import time as time_of_day
from typing import Any, Literal, TypeAlias

from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from service.background import ended
from service.catalog.database.connection import connect, create_engine, migrate
from service.catalog.database.embedded import EmbeddedPostgres
from service.catalog.database.importer import import_package
from service.catalog.database.own import snapshot_with_own
from service.catalog.database.revisions import (
    RevisionUnknown,
    load_snapshot,
    newest_own_revisions,
    newest_revision,
    own_documents_at,
    revision_as_of,
)
from service.catalog.database.tables import REVISION_CHANNEL
from service.catalog.entries.documents import CatalogInvalid, DocumentSet
from service.catalog.files import packaged_documents
from service.catalog.snapshot import CatalogSnapshot, snapshot_from_documents
from service.core.errors import Unavailable
from service.settings import Settings

#: Number of the revision that the packaged files are while no database has given them one.
UNRECORDED_REVISION = 0

#: Reads what else a process keeps in memory, over the connection that it is given.
Reader: TypeAlias = Callable[[AsyncConnection], Awaitable[None]]

_KEPT_SNAPSHOTS = 8
_KEPT_DAYS = 1_000
_FIRST_PAUSE_S = 0.25
_LONGEST_PAUSE_S = 30.0

_log = logging.getLogger(__name__)


class DatabaseUnavailable(Unavailable):
    """What was asked for needs the database, and it cannot be reached."""


@dataclass(frozen=True, slots=True)
class CatalogStatus:
    """How the catalog of this process stands.

    ``confirmed_s_ago`` [s] tells how long ago the database last said that the snapshot is its
    newest revision, None if it never did. ``problem`` is the last failure, None when all is well.
    """

    database_reachable: bool
    revision: int
    source: Literal["postgres", "packaged files"]
    confirmed_s_ago: float | None
    problem: str | None


@dataclass(frozen=True, slots=True)
class _Own:
    """An organisation's own documents and the revision that last changed them."""

    revision: int
    documents: DocumentSet


class CatalogStore:
    """Holds the current snapshot and swaps it whole when a new revision lands.

    Parameters
    ----------
    settings
        Where the database is, and how long to wait for it.
    also
        What else to keep up to date, by the channel on which Postgres announces changes of it.
    tell
        Called with the status whenever it may have changed.
    watch
        Called with each engine before it is used.
    """

    def __init__(
        self,
        settings: Settings,
        also: Mapping[str, Reader] | None = None,
        tell: Callable[[CatalogStatus], None] | None = None,
        watch: Callable[[AsyncEngine], None] | None = None,
    ) -> None:
        self._settings = settings
        self._watch = watch
        self._tell = tell
        self._also = dict(also or {})
        self._embedded = (
            EmbeddedPostgres(settings.data_directory)
            if settings.database_url is None and settings.embedded_database
            else None
        )
        self._packaged: DocumentSet | None = None
        self._url: str | None = None
        self._engine: AsyncEngine | None = None
        self._snapshot: CatalogSnapshot | None = None
        self._source: Literal["postgres", "packaged files"] = "packaged files"
        self._confirmed_at: float | None = None
        self._reachable = False
        self._problem: str | None = None
        self._unreadable_revision: int | None = None
        self._kept: OrderedDict[tuple[int, str | None], CatalogSnapshot] = OrderedDict()
        self._own: dict[str, _Own] = {}
        self._seen: dict[str, tuple[CatalogSnapshot, _Own, CatalogSnapshot]] = {}
        self._days: OrderedDict[tuple[date, str | None], int] = OrderedDict()
        self._reading = asyncio.Lock()
        self._refreshing = asyncio.Lock()
        self._follower: asyncio.Task[None] | None = None

    @property
    def snapshot(self) -> CatalogSnapshot:
        """The current snapshot; the same object until a new revision lands."""
        if self._snapshot is None:
            raise RuntimeError("the catalog store has not been started")
        return self._snapshot

    @property
    def database_url(self) -> str:
        """Address of the database that the catalog is kept in.

        Raises
        ------
        DatabaseUnavailable
            If there is none, or none yet.
        """
        if self._url is None:
            raise DatabaseUnavailable("there is no database")
        return self._url

    def status(self) -> CatalogStatus:
        """Where the snapshot comes from and whether the database can be reached."""
        confirmed = self._confirmed_at
        return CatalogStatus(
            database_reachable=self._reachable,
            revision=self.snapshot.revision,
            source=self._source,
            confirmed_s_ago=None if confirmed is None else time.monotonic() - confirmed,
            problem=self._problem,
        )

    async def start(self) -> None:
        """Prepare the database, load the newest revision and follow it from then on.

        Without a database the packaged catalog is served, and the database is tried again later.

        Raises
        ------
        CatalogInvalid
            If neither the database nor the packaged files have a sound catalog.
        """
        invalid: CatalogInvalid | None = None
        try:
            self._packaged = await asyncio.to_thread(
                packaged_documents, self._settings.catalog_directory
            )
        except CatalogInvalid as error:
            invalid = error
            _log.error("The packaged catalog is not valid and is ignored:\n%s", error)
        if self._settings.database_url is not None or self._embedded is not None:
            try:
                await self._prepare()
                await self._refresh()
            except Exception as error:
                self._failed(error)
        if self._snapshot is None:
            if self._packaged is None:
                raise invalid or CatalogInvalid([])
            self._snapshot = await asyncio.to_thread(
                snapshot_from_documents, self._packaged, UNRECORDED_REVISION, checked=True
            )
            self._told()
        if self._settings.database_url is not None or self._embedded is not None:
            self._follower = asyncio.create_task(self._follow(), name="catalog follower")

    async def stop(self) -> None:
        """Stop following and let go of the database."""
        follower, self._follower = self._follower, None
        if follower is not None:
            await ended(follower)
        if self._engine is not None:
            await self._engine.dispose()
        if self._embedded is not None:
            await asyncio.to_thread(self._embedded.stop)
        self._reachable = False

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncConnection]:
        """A connection in a transaction of its own, for writing to the catalog.

        Raises
        ------
        DatabaseUnavailable
            If the database cannot be reached.
        """
        if self._engine is None:
            raise DatabaseUnavailable("there is no database")
        try:
            connection = await self._engine.connect()
        except Exception as error:
            raise DatabaseUnavailable("the database cannot be reached") from error
        try:
            async with connection.begin():
                yield connection
        except DBAPIError as error:
            if error.connection_invalidated:
                raise DatabaseUnavailable("the database closed the connection") from error
            raise
        except OSError as error:
            raise DatabaseUnavailable("the database does not answer") from error
        finally:
            await connection.close()

    async def refresh(self) -> None:
        """Take over what has just been written, so that its writer finds it here at once.

        Without the database nothing happens; the follower sees to it later.
        """
        if self._engine is not None:
            with suppress(DBAPIError, OSError, TimeoutError):
                await self._refresh()

    async def snapshot_of(self, organisation: str | None) -> CatalogSnapshot:
        """The current snapshot with an organisation's own entries, the shared one if it has none.

        The same object until a new revision lands in either.
        """
        shared = self.snapshot
        own = None if organisation is None else self._own.get(organisation)
        if organisation is None or own is None:
            return shared
        seen = self._seen.get(organisation)
        if seen is None or seen[0] is not shared or seen[1] is not own:
            both = await asyncio.to_thread(
                snapshot_with_own,
                shared.documents(),
                own.documents,
                max(shared.revision, own.revision),
            )
            seen = self._seen[organisation] = (shared, own, both)
        return seen[2]

    async def snapshot_at(self, revision: int, organisation: str | None = None) -> CatalogSnapshot:
        """The catalog as it was at a revision, as an organisation sees it.

        Raises
        ------
        RevisionUnknown
            If there is no such revision.
        CatalogInvalid
            If this release cannot make sense of what the revision holds.
        DatabaseUnavailable
            If the revision would have to be read and the database cannot be reached.
        """
        current = await self.snapshot_of(organisation)
        if revision == current.revision:
            return current
        if not UNRECORDED_REVISION < revision < 2**63:
            raise RevisionUnknown(revision)
        place = (revision, organisation if organisation in self._own else None)
        async with self._reading:
            kept = self._kept.get(place)
            if kept is None:
                async with self.transaction() as connection:
                    kept = await load_snapshot(connection, *place)
                self._keep(kept, place)
            self._kept.move_to_end(place)
        return kept

    async def snapshot_as_of(self, day: date, organisation: str | None = None) -> CatalogSnapshot:
        """The catalog as it stood at the end of a day (UTC), or stands now if that is today.

        Raises
        ------
        RevisionsBeginLater
            If the catalog had no revision by then.
        CatalogInvalid
            If this release cannot make sense of what the revision holds.
        DatabaseUnavailable
            If the database has to be asked and cannot be reached.
        """
        now = datetime.now(UTC)
        if day >= now.date():
            return await self.snapshot_of(organisation)
        place = (day, organisation)
        revision = self._days.get(place)
        if revision is None:
            end = datetime.combine(day + timedelta(days=1), time_of_day(), UTC)
            async with self.transaction() as connection:
                found = await revision_as_of(connection, end, organisation)
            revision = self._days[place] = found.revision
            while len(self._days) > _KEPT_DAYS:
                self._days.popitem(last=False)
        return await self.snapshot_at(revision, organisation)

    def _keep(self, snapshot: CatalogSnapshot, place: tuple[int, str | None]) -> None:
        self._kept[place] = snapshot
        while len(self._kept) > _KEPT_SNAPSHOTS:
            self._kept.popitem(last=False)

    async def _prepare(self) -> None:
        """Start or find the server, bring its schema up to date and import the packaged files."""
        if self._embedded is not None:
            url = await asyncio.to_thread(self._embedded.start)
        else:
            assert self._settings.database_url is not None  # noqa: S101 - for the type checker
            url = self._settings.database_url.get_secret_value()
        if self._engine is None or url != self._url:
            if self._engine is not None:
                await self._engine.dispose()
            self._engine = create_engine(url, self._settings.database_timeout_s)
            if self._watch is not None:
                self._watch(self._engine)
            self._url = url
        await migrate(self._engine)
        if self._packaged is not None:
            async with self._engine.begin() as connection:
                await import_package(connection, self._packaged, "start of the service")

    async def _refresh(self) -> None:
        """Take over the newest revision if it is not the one held, and all else that is kept."""
        async with self._refreshing:
            await self._refresh_alone()

    async def _refresh_alone(self) -> None:
        assert self._engine is not None  # noqa: S101 - for the type checker
        async with self._engine.connect() as connection:
            for read in self._also.values():
                await read(connection)
            await self._refresh_own(connection)
            newest = await newest_revision(connection)
            if newest is None:
                raise RevisionUnknown(UNRECORDED_REVISION)
            held = self._snapshot
            current = (
                held is not None
                and self._source == "postgres"
                and held.revision == newest.revision
                and held.content_hash == newest.content_hash
            )
            if not current and newest.revision != self._unreadable_revision:
                try:
                    loaded = await load_snapshot(connection, newest.revision)
                except CatalogInvalid as error:
                    # A newer release may write what this one cannot read: what was held stays.
                    self._unreadable_revision = newest.revision
                    self._problem = f"revision {newest.revision} cannot be read"
                    _log.error("%s:\n%s", self._problem, error)
                else:
                    self._snapshot, self._source = loaded, "postgres"
                    self._keep(loaded, (loaded.revision, None))
                    current = True
                    _log.info("The catalog is at revision %d.", loaded.revision)
        self._reachable = True
        if current:
            self._confirmed_at = time.monotonic()
            self._problem = None
        self._told()

    async def _refresh_own(self, connection: AsyncConnection) -> None:
        """Take over the own entries of each organisation that has changed them."""
        for organisation, revision in (await newest_own_revisions(connection)).items():
            held = self._own.get(organisation)
            if held is None or held.revision != revision:
                documents = await own_documents_at(connection, revision, organisation)
                self._own[organisation] = _Own(revision, documents)

    async def _follow(self) -> None:
        """Listen for new revisions for ever, and come back when the database does."""
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                if not self._reachable:
                    await self._prepare()
                await self._listen()
            except Exception as error:
                recovered = self._reachable
                self._failed(error)
                pause_s = _FIRST_PAUSE_S if recovered else min(2 * pause_s, _LONGEST_PAUSE_S)
            # Replicas that lost the database together do not come back together.
            await asyncio.sleep(pause_s * random.uniform(0.5, 1.0))  # noqa: S311

    async def _listen(self) -> None:
        """Take over each announced revision until the connection is lost, which is an error."""
        assert self._url is not None  # noqa: S101 - for the type checker
        news = asyncio.Event()

        def announced(*_: Any) -> None:
            news.set()

        connection = await connect(self._url, self._settings.database_timeout_s)
        try:
            connection.add_termination_listener(announced)
            for channel in (REVISION_CHANNEL, *self._also):
                await connection.add_listener(channel, announced)
            while True:
                news.clear()
                await self._refresh()
                # Not wait_for: before Python 3.12 it drops a cancellation that meets the news.
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._settings.catalog_poll_s):
                        await news.wait()
                if connection.is_closed():
                    raise ConnectionError("the database closed the connection")
        finally:
            connection.terminate()

    def _failed(self, error: Exception) -> None:
        self._reachable = False
        self._problem = f"{type(error).__name__}: {error}".strip().split("\n")[0][:300]
        _log.warning("The catalog database cannot be reached: %s", self._problem)
        self._told()

    def _told(self) -> None:
        if self._tell is not None and self._snapshot is not None:
            self._tell(self.status())
