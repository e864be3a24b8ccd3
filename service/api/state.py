"""What the routes share: settings and the catalog store, and the snapshot a request asks for."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request as HttpRequest

from service.api.problems import Problem, invalid
from service.catalog.documents import CatalogInvalid
from service.catalog.revisions import RevisionUnknown
from service.catalog.snapshot import CatalogSnapshot
from service.catalog.store import CatalogStore, DatabaseUnavailable
from service.estimation.rejection import FieldError
from service.grid.live import LiveGrid
from service.hub.hub import Hub
from service.settings import Settings

_RETRY_AFTER_S = "5"


@dataclass(frozen=True, slots=True)
class Shared:
    """Settings, catalog, live grid figures and models of the Hub of the process."""

    settings: Settings
    store: CatalogStore
    grid: LiveGrid
    hub: Hub


def shared(http: HttpRequest) -> Shared:
    """What the application was started with."""
    found: Shared = http.app.state.shared
    return found


async def snapshot_for(http: HttpRequest, revision: int | None) -> CatalogSnapshot:
    """The catalog to answer from: the current one, or that of an earlier revision.

    Raises
    ------
    Problem
        If the revision does not exist (422) or cannot be read now (503).
    """
    store, settings = shared(http).store, shared(http).settings
    if revision is None:
        return store.snapshot
    newest = store.snapshot.revision
    if revision != newest and settings.database_url is None and not settings.embedded_database:
        raise _no_such_revision(revision, newest)
    try:
        return await store.snapshot_at(revision)
    except RevisionUnknown:
        raise _no_such_revision(revision, newest) from None
    except CatalogInvalid:
        raise invalid(
            [FieldError("/catalog_revision", "this release cannot read that revision")]
        ) from None
    except DatabaseUnavailable as error:
        raise Problem(
            "unavailable",
            f"revision {revision} has to be read from the database: {error}",
            headers={"Retry-After": _RETRY_AFTER_S},
        ) from None


def _no_such_revision(revision: int, newest: int) -> Problem:
    return invalid(
        [FieldError("/catalog_revision", f"no revision {revision}; the newest is {newest}")]
    )
