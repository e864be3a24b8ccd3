"""What to say of a release of which nothing is known."""

from __future__ import annotations

from collections.abc import Iterator

from service.catalog.snapshot import CatalogSnapshot
from service.core.engines import EngineRelease
from service.core.explanation import EstimateWarning


def release_warnings(
    release: EngineRelease, snapshot: CatalogSnapshot
) -> Iterator[EstimateWarning]:
    """What to say where an engine is older or newer than all that is known of it."""
    engine = snapshot.engines[release.engine].value
    if release.before_first:
        first = engine.generations[0]
        yield EstimateWarning(
            "release_before_first",
            f"the oldest known generation of {engine.id} ({first.id}) dates from {first.since}: "
            "its figures are used for anything older",
        )
    if release.unknown is not None and engine.newest is not None:
        newest = engine.newest
        yield EstimateWarning(
            "release_unknown",
            f"the catalog knows no {engine.name} {release.unknown}: the newest release that it "
            f"knows is {newest.version} (seen in {newest.seen}), whose figures stand in. They hold "
            "if speed and memory have not changed since",
        )
