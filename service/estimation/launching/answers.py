"""Answers about how to start what was estimated."""

from __future__ import annotations

from service.estimation.answers import Answer


class Start(Answer):
    """How a deployment is started with the settings of its estimate."""

    engine: str
    command: str
    """A line for a shell, which starts one replica; all of them where the engine can do so."""
    kubernetes: str | None
    """A manifest in YAML for all replicas; null where a replica spans machines, or its accelerators
    have no resource name that is known."""
    notes: list[str]
    """What the command leaves to do."""
    source: str
    """Where the flags are documented: an id in /v1/sources."""
