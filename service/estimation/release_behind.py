"""A release that stands behind an engine's name, as people write it: "vLLM 0.6.3"."""

from __future__ import annotations

import re
from collections.abc import Mapping

_LONGEST = 200
#: "vLLM 0.6.3", "vllm==0.10.0", "SGLang v0.4.3", "llama.cpp b4000"; not "vLLM V1", which is no
#: release.
_RELEASE_BEHIND = re.compile(
    r"(?P<name>.*\S)(?:\s+|\s*==\s*|@)(?:v?(?P<release>\d+(?:\.\d+)+[\w.+-]*)|(?P<build>b\d{3,}))",
    re.IGNORECASE,
)
#: Before a release they name a generation: "vLLM before 0.6".
_OF_GENERATIONS = re.compile(r"\s(?:before|until|to|from|since|after|and)$", re.IGNORECASE)


def release_apart(given: object, name: str, release: str) -> object:
    """Settings of a request with the release apart that stands behind the name of an engine.

    A release that the request states itself counts.

    Parameters
    ----------
    given
        The settings as they were sent, whatever they are.
    name, release
        Fields of the engine and of its release.
    """
    if not isinstance(given, Mapping):
        return given
    named = given.get(name)
    if not isinstance(named, str) or len(named) > _LONGEST:
        return given
    found = _RELEASE_BEHIND.fullmatch(named.strip())
    if found is None or _OF_GENERATIONS.search(found["name"]):
        return given
    stated = given.get(release)
    told = stated if stated is not None else found["release"] or found["build"]
    return {**given, name: found["name"], release: told}
