"""Inference engines and training frameworks, and whose measurements stand in for theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

#: What an engine runs.
EngineWorkload: TypeAlias = Literal["inference", "training"]

#: Id under which figures stand that hold for engines without any of their own.
FALLBACK_ENGINE = "default"


@dataclass(frozen=True, slots=True)
class SpeedFit:
    """How an engine's speed is fitted to measurements.

    ``launch_bound`` engines issue kernels one by one; those with ``half_accumulation`` add up
    products of 16-bit floats in 16 bit. ``layer_split`` engines are measured on cards of one chip
    and different power, alone and in pipelines, so that the limit by power and the overlap of
    stages can be told. ``usual`` are the values at which fits start, by name of the constant.
    """

    launch_bound: bool = False
    half_accumulation: bool = False
    layer_split: bool = False
    usual: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Engine:
    """An inference engine, a training framework, or both.

    Where it has no figures of its own, those of the engine that it is a ``release_of`` hold, or
    stand in those of the one that it is ``like``. Those that are ``preallocating`` take their share
    of the memory when they start, whatever they come to need of it.
    """

    id: str
    name: str
    workloads: frozenset[str]
    release_of: str | None = None
    like: str | None = None
    speed_fit: SpeedFit | None = None
    preallocating: bool = False
