"""What is worked out from a catalog snapshot once, and kept as long as the snapshot is."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial, wraps
from typing import Any, TypeVar, cast

from service.catalog.snapshot import CatalogSnapshot

Compute = TypeVar("Compute", bound=Callable[..., Any])


def derived(most: int = 1) -> Callable[[Compute], Compute]:
    """Declares a function of a snapshot, of whose results up to ``most`` are kept with it.

    They go when the snapshot goes: a cache of the function's own would hold on to every snapshot
    that it has ever seen.
    """

    def declared(compute: Compute) -> Compute:
        @wraps(compute)
        def kept(snapshot: CatalogSnapshot, *more: Any) -> Any:
            found = snapshot.derived.get(compute)
            if found is None:
                found = snapshot.derived[compute] = lru_cache(most)(partial(compute, snapshot))
            return found(*more)

        return cast("Compute", kept)

    return declared
