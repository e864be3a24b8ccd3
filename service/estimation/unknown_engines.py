"""What to say of an engine or framework that nobody knows."""

from __future__ import annotations

from collections.abc import Sequence

from service.catalog.entries.references import UnknownReference
from service.core.engines import EngineWorkload


class UnknownEngine(UnknownReference):
    """No engine goes by a name, which is told with those that run the workload.

    Parameters
    ----------
    unknown
        What was asked for, with all engines of similar names.
    workload
        What the engine has to run.
    able
        Ids of the engines that run it.
    """

    def __init__(
        self, unknown: UnknownReference, workload: EngineWorkload, able: Sequence[str]
    ) -> None:
        near = tuple(id_ for id_ in unknown.suggestions if id_ in able)
        super().__init__(unknown.collection, unknown.reference, near)
        self._able = f"for {workload} there are {', '.join(able)}"

    @property
    def hint(self) -> str:
        """What may be meant, and all that there is."""
        near = super().hint
        return f"{near} {self._able.capitalize()}" if near else f"; {self._able}"
