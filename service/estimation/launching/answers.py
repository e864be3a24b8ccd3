"""Answers about how to start what was estimated."""

from __future__ import annotations

from service.estimation.answers import Answer
from service.estimation.detail import part_of


@part_of("kubernetes")
class Manifest(Answer, total=False):
    """How a cluster is told to start it."""

    kubernetes: str | None
    """A manifest in YAML for all replicas; null where a replica spans machines, or its accelerators
    have no resource name that is known."""


class Start(Manifest):
    """How a deployment is started with the settings of its estimate."""

    engine: str
    """Id of the engine in /v1/engines."""
    command: str
    """A line for a shell, which starts one replica; all of them where the engine can do so."""
    notes: list[str]
    """What the command leaves to do."""
    source: str
    """Where the flags are documented: an id in /v1/sources."""


class ConfigurationFile(Answer):
    """A file that the command reads."""

    name: str
    """What the command expects it to be called."""
    content: str
    """All that stands in it."""


class RunStart(Answer):
    """How a training run is started with the settings of its estimate."""

    engine: str
    """The framework: that of the run, or one that it stands for."""
    command: str
    """A line for a shell, for one machine."""
    file: ConfigurationFile | None
    """What to write beside it; null where flags say everything."""
    notes: list[str]
    """What the command leaves to do."""
    source: str
    """Where the flags are documented: an id in /v1/sources."""
