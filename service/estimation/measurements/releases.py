"""The release that a document means without naming it in its request.

Measurements are of the engines of their day: where nobody says which release ran, it is rather the
newest of that day than the newest of today.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.core.engines import Engine, UnknownVersion, release_of

#: A day or month in a text; a year alone may be anything.
_DATE = re.compile(r"(?<![\d.])(20[12]\d-(?:0[1-9]|1[0-2])(?:-[0-3]\d)?)(?![\d.])")
#: A version right behind a name.
_VERSION = re.compile(r"[\s=@:,-]*v?(\d+(?:\.\d+)+)")


def release_said(
    document: Mapping[str, Any], engine: Engine, named: str, snapshot: CatalogSnapshot
) -> tuple[str, str] | None:
    """Version or date of the release that a document tells of beside its request, and where it is.

    What ran is told as ``engine`` in words, such as "vLLM 0.5.2; Python 3.10", or the day of the
    measurement, or the source's year stands for it.

    Parameters
    ----------
    document
        A document as its file has it.
    engine, named
        What ran, and what the request calls it.
    snapshot
        The catalog, with the years of sources.

    Returns
    -------
    tuple of str, or None
        A version or date that means a release of the engine, and a pointer to where it stands;
        None where nothing tells, or the engine has one generation alone.
    """
    if not engine.generations:
        return None
    for text, pointer in _said(document, engine, named, snapshot):
        try:
            found = release_of(engine, text, named)
        except UnknownVersion:
            continue
        if not found.before_first:
            return text, pointer
    return None


def _said(
    document: Mapping[str, Any], engine: Engine, named: str, snapshot: CatalogSnapshot
) -> Iterator[tuple[str, str]]:
    words = document.get("engine")
    if isinstance(words, str):
        for name in {engine.name, engine.id, named}:
            if words.casefold().startswith(name.casefold()):
                version = _VERSION.match(words[len(name) :])
                if version is not None:
                    yield version[1], "/engine"
        date = _DATE.search(words)
        if date is not None:
            yield date[1], "/engine"
    if document.get("measured_on") is not None:
        yield str(document["measured_on"]), "/measured_on"
    source = snapshot.sources.get(str(document.get("source")))
    if source is not None:
        yield str(source.document["year"]), "/source"
