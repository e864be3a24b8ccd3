"""Tables of kernels by release: what those before and after a release have, it has, too."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import service.core.performance as performance
from service.catalog.snapshot import CatalogSnapshot


def tables() -> Iterator[tuple[str, frozenset[str]]]:
    """Names of modules of formulas with the sets of releases that stand in them."""
    for module in pkgutil.iter_modules(performance.__path__, f"{performance.__name__}."):
        for name, held in vars(import_module(module.name)).items():
            for each in held if isinstance(held, tuple) else (held,):
                found: Any = getattr(each, "releases", each)
                if isinstance(found, frozenset) and any("@" in str(one) for one in found):
                    yield f"{module.name}.{name}", found


def test_no_release_lacks_what_those_before_and_after_it_have(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    found = list(tables())
    assert len(found) > 10
    for name, releases in found:
        for engine in {one.partition("@")[0] for one in releases if "@" in one}:
            known = [one.id for one in packaged_snapshot.engines[engine].value.generations]
            places = [
                known.index(one.partition("@")[2])
                for one in releases
                if one.startswith(f"{engine}@")
            ]
            missing = {known[place] for place in range(min(places), max(places))} - {
                one.partition("@")[2] for one in releases
            }
            assert missing == set(), (name, engine)
