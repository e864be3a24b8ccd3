"""The engine and release that a document means without naming them in its request.

A document tells in words what ran, which its request may leave out. Measurements are of the engines
of their day: where nobody says which release ran, it is rather the newest of that day than the
newest of today.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from service.catalog.entries.engines import names_of
from service.catalog.snapshot import CatalogSnapshot
from service.core.engines import (
    FALLBACK_ENGINE,
    Engine,
    EngineWorkload,
    UnknownVersion,
    release_of,
)

#: A day or month in a text; a year alone may be anything.
_DATE = re.compile(r"(?<![\d.])(20[12]\d-(?:0[1-9]|1[0-2])(?:-[0-3]\d)?)(?![\d.])")
#: A version right behind a name.
_VERSION = re.compile(r"[\s=@:,-]*(?:release\s)?v?(\d+(?:\.\d+)+)", re.IGNORECASE)


#: What stands between the parts of a name.
_BETWEEN = re.compile(r"[\s_-]+")


def engine_said(
    document: Mapping[str, Any],
    named: str | None,
    workload: EngineWorkload,
    snapshot: CatalogSnapshot,
) -> str | None:
    """Id of the engine that a document tells of in words, as ``engine``, beside its request.

    Parameters
    ----------
    document
        A document as its file has it.
    named
        What the request calls the engine: nothing, any, or one that the other is built like or on.
    workload
        What ran.
    snapshot
        The catalog.

    Returns
    -------
    str, or None
        An engine for the workload; None where words begin with the name of none, or of one that
        is another than the request's. A library that others are built on, too, and that
        containers are called after, tells nothing.
    """
    words = document.get("engine")
    if not isinstance(words, str):
        return None
    said = _plain(words)
    lengths = {
        id_: max((len(name) for name in _names(entry.document) if _begins(said, name)), default=0)
        for id_, entry in snapshot.engines.items()
        if workload in entry.value.workloads
        and id_ != FALLBACK_ENGINE
        and not entry.document.get("library")
    }
    found = max(lengths, key=lambda id_: lengths[id_], default=None)
    if found is None or not lengths[found]:
        return None
    if named is None or named == FALLBACK_ENGINE:
        return found
    asked = snapshot.find("engines", named)
    fits = snapshot.engines[found].value.like == asked.id
    return found if fits or asked.value.recipes.divided_by == found else None


def _names(document: Mapping[str, Any]) -> Iterator[str]:
    yield from map(_plain, (document["id"], document.get("name", ""), *names_of(document)))


def _begins(said: str, name: str) -> bool:
    """Whether words begin with a name, and not with a longer word."""
    return bool(name) and said.startswith(name) and not said[len(name) :][:1].isalnum()


def _plain(words: str) -> str:
    return _BETWEEN.sub(" ", words.strip()).casefold()


def release_said(
    document: Mapping[str, Any], engine: Engine, named: str, snapshot: CatalogSnapshot
) -> tuple[str, str] | None:
    """Version or date of the release that a document tells of beside its request, and where it is.

    What ran is told as ``engine`` in words, such as "vLLM 0.5.2; Python 3.10" or "LMDeploy
    TurboMind 0.2.0", or the day of the measurement, or the source's year stands for it.

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
        version = _VERSION.match(_behind(words, engine, named, snapshot))
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


def _behind(words: str, engine: Engine, named: str, snapshot: CatalogSnapshot) -> str:
    """What follows the name of an engine with which words begin; nothing if they begin otherwise.

    Some name a part of the engine behind it, as in "LMDeploy TurboMind 0.2.0": releases are of
    both. What the engine's own name begins with is another's, as TensorRT of TensorRT-LLM.
    """
    own = [_plain(name) for name in (engine.name, engine.id, named)]
    rest = _plain(words)
    begun = max((len(name) for name in own if _begins(rest, name)), default=0)
    if not begun:
        return ""
    rest = rest[begun:]
    for part in names_of(snapshot.engines[engine.id].document):
        name, inner = _plain(part), rest.lstrip(" (/")
        if _begins(inner, name) and not any(one.startswith(name) for one in own):
            return inner[len(name) :].lstrip(")")
    return rest
