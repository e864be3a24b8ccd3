"""What the routes share: settings, catalog and keys, who is calling and what they are shown."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime

from anyio import CapacityLimiter
from starlette.requests import Request as HttpRequest

from service.access.keyring import Keyring
from service.access.keys import Caller, KeyRefused
from service.api.http.problems import Problem, invalid
from service.api.observability.exposition import Exposition
from service.catalog.database.revisions import RevisionsBeginLater, RevisionUnknown
from service.catalog.database.store import CatalogStore, DatabaseUnavailable
from service.catalog.entries.documents import CatalogInvalid
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.references import CatalogRequest
from service.estimation.rejection import FieldError
from service.grid.live import LiveGrid
from service.hub.hub import Hub
from service.measurements.book import ReportBook, ReportsUnknown, ReportWithdrawn
from service.settings import Settings

RETRY_AFTER_S = "5"

_CHALLENGE = {"WWW-Authenticate": 'Bearer realm="headroom"'}


#: Where servers find the event that tells of the end, in the state of the lifespan (ASGI).
DRAINING = "draining"
#: Where a request's scope has the revision of an earlier catalog that it asked for, and the newest.
_EARLIER = "headroom.earlier_catalog"
#: Problems that may lie in what that catalog does not have.
_OF_ENTRIES = frozenset({"invalid-request", "not-found"})
#: Streams of events that a process keeps open, each of which asks the database once a second.
_MOST_WATCHERS = 100


@dataclass(frozen=True, slots=True)
class Shared:
    """Settings, catalog, keys, live grid figures, models of the Hub and metrics of the process.

    ``book`` has the reports that estimates learn from. ``draining`` is set when the process is
    about to stop, for streams that would go on for long; ``watchers`` bounds how many there are.
    """

    settings: Settings
    store: CatalogStore
    keyring: Keyring
    grid: LiveGrid
    hub: Hub
    exposition: Exposition
    book: ReportBook
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    watchers: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(_MOST_WATCHERS))

    @property
    def basis(self) -> object:
        """What answers to those who have no key follow from: another one when any of it changes."""
        return self.book.basis(self.store.snapshot)


def shared(http: HttpRequest) -> Shared:
    """What the application was started with."""
    found: Shared = http.app.state.shared
    return found


def caller(http: HttpRequest) -> Caller | None:
    """Who sent a request, None for one without a key.

    Raises
    ------
    Problem
        If it has a key that opens nothing (401): to answer as if there were none would hide from
        its holder that their own entries are not looked at.
    """
    given = http.headers.get("authorization")
    if given is None:
        return None
    scheme, _, text = given.partition(" ")
    if scheme.lower() != "bearer":
        raise Problem(
            "unauthorized", "send an API key as 'Authorization: Bearer …'", headers=_CHALLENGE
        )
    try:
        return shared(http).keyring.caller(text.strip())
    except KeyRefused as refused:
        raise Problem("unauthorized", str(refused), headers=_CHALLENGE) from None


def caller_with(http: HttpRequest, scope: str) -> Caller:
    """Who sent a request that only a key with a scope may make.

    Raises
    ------
    Problem
        If there is no key that holds (401), or it does not allow this (403).
    """
    known = caller(http)
    if known is None:
        detail = f"this requires an API key with the scope {scope}"
        raise Problem("unauthorized", detail, headers=_CHALLENGE)
    if scope not in known.scopes:
        raise Problem("forbidden", f"the API key {known.key_id} lacks the scope {scope}")
    return known


def organisation_of(known: Caller | None) -> str | None:
    """Whose entries and reports a caller sees beside everybody's."""
    return None if known is None else known.organisation


async def current_snapshot(http: HttpRequest) -> CatalogSnapshot:
    """The newest catalog, with the caller's own entries.

    Raises
    ------
    Problem
        If the request has a key that opens nothing (401).
    """
    known = caller(http)
    return await shared(http).store.snapshot_of(organisation_of(known))


async def snapshot_for(http: HttpRequest, asked: CatalogRequest) -> CatalogSnapshot:
    """What to answer a question from: the catalog at a revision, and the caller's own reports.

    Both are the newest unless the question names a revision or, of the catalog, a day. Reports are
    part of it where the caller has any, or asks for them.

    Raises
    ------
    Problem
        If a revision does not exist (422), cannot be read now (503) or cannot be repeated (410), or
        if the request has a key that opens nothing (401).
    """
    organisation, found = organisation_of(caller(http)), shared(http)
    snapshot = await _catalog_for(found, asked, organisation)
    if asked.catalog_revision is not None or asked.as_of is not None:
        newest_catalog = await found.store.snapshot_of(organisation)
        if snapshot.revision != newest_catalog.revision:
            http.scope[_EARLIER] = snapshot.revision, newest_catalog.revision
    revision = asked.calibration_revision
    if asked.calibration == "published":
        return snapshot
    newest = found.book.newest(organisation)
    if newest is None:
        detail = "own measurements are an organisation's: send its API key"
        if revision is not None:
            raise invalid([FieldError("/calibration_revision", detail)])
        if asked.calibration == "own":
            raise invalid([FieldError("/calibration", detail)])
        return snapshot
    if newest == 0 and revision is None and asked.calibration is None:
        return snapshot
    try:
        reports = await found.book.reports(
            found.store, organisation, newest if revision is None else revision
        )
    except ReportsUnknown as unknown:
        raise invalid([FieldError("/calibration_revision", str(unknown))]) from None
    except ReportWithdrawn as withdrawn:
        raise Problem("gone", str(withdrawn)) from None
    except DatabaseUnavailable as error:
        raise Problem(
            "unavailable",
            f"your reports are in the database, which cannot be reached: {error}; with "
            "calibration published they are not needed",
            headers={"Retry-After": RETRY_AFTER_S},
        ) from None
    return found.book.taught(snapshot, reports)


def in_its_catalog(http: HttpRequest, problem: Problem) -> Problem:
    """A problem that says from which catalog, where that is an earlier one that was asked for."""
    earlier = http.scope.get(_EARLIER)
    if earlier is None or problem.slug not in _OF_ENTRIES:
        return problem
    asked, newest = earlier
    detail = f"{problem.detail} (in revision {asked} of the catalog; the newest is {newest})"
    return Problem(problem.slug, detail, problem.errors, problem.headers, problem.suggestions)


async def _catalog_for(
    found: Shared, asked: CatalogRequest, organisation: str | None
) -> CatalogSnapshot:
    """The catalog to answer from, with an organisation's own entries."""
    newest = await found.store.snapshot_of(organisation)
    if asked.catalog_revision is None and asked.as_of is None:
        return newest
    history = found.settings.database_url is not None or found.settings.embedded_database
    if asked.as_of is not None:
        if asked.catalog_revision is not None:
            raise invalid([FieldError("/as_of", "give either as_of or catalog_revision")])
        today = datetime.now(UTC).date()
        if asked.as_of > today:
            raise invalid([FieldError("/as_of", f"is in the future; today is {today} (UTC)")])
        if not history and asked.as_of < today:
            raise invalid(
                [FieldError("/as_of", "earlier catalogs are not available without a database")]
            )
    elif asked.catalog_revision != newest.revision and not history:
        raise _no_such_revision(asked.catalog_revision, newest.revision)
    pointer = "/catalog_revision" if asked.as_of is None else "/as_of"
    try:
        if asked.as_of is not None:
            return await found.store.snapshot_as_of(asked.as_of, organisation)
        assert asked.catalog_revision is not None  # noqa: S101 - for the type checker
        return await found.store.snapshot_at(asked.catalog_revision, organisation)
    except RevisionUnknown:
        raise _no_such_revision(asked.catalog_revision, newest.revision) from None
    except RevisionsBeginLater as later:
        since = "" if later.first is None else f" before {later.first:%Y-%m-%d %H:%M} (UTC)"
        raise invalid([FieldError(pointer, f"the catalog has no revision{since}")]) from None
    except CatalogInvalid:
        raise invalid([FieldError(pointer, "this release cannot read that revision")]) from None
    except DatabaseUnavailable as error:
        raise Problem(
            "unavailable",
            f"that revision is in the database, which cannot be reached: {error}",
            headers={"Retry-After": RETRY_AFTER_S},
        ) from None


def _no_such_revision(revision: int | None, newest: int) -> Problem:
    return invalid(
        [FieldError("/catalog_revision", f"no revision {revision}; the newest is {newest}")]
    )
