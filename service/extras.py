"""Libraries that only some answers need, and that are large: they are installed when wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec


@dataclass(frozen=True, slots=True)
class Extra:
    """A part that may be left out: the module that it stands on, and what it is good for."""

    module: str
    purpose: str


#: By name, in ``pyproject.toml``, ``requirements/`` and ``./headroom serve --with``.
EXTRAS: Mapping[str, Extra] = {
    "images": Extra("vl_convert", "charts as PNG and SVG"),
    "pdf": Extra("typst", "recommendations as PDF"),
    "sweeps": Extra("pyarrow", "sweeps and their results"),
}


def is_installed(name: str) -> bool:
    """Whether an extra is there; one that is added to a running service counts at once."""
    return find_spec(EXTRAS[name].module) is not None


def how_to_add(names: Iterable[str]) -> str:
    """What has to be done for extras to be there."""
    listed = ",".join(names)
    return f"start with `./headroom serve --with {listed}`, or install headroom[{listed}]"
