"""What to say of an engine or framework that nobody knows."""

from __future__ import annotations

from collections.abc import Sequence

from service.catalog.entries.references import UnknownReference
from service.core.engines import CLASSES, EngineWorkload, class_of_unknown

#: What may be left out, and what is then estimated.
_LEFT_OUT = {
    "training": ". Or leave it out: figures are then between those of all measured frameworks",
    "inference": "",
}


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
        kind = CLASSES[class_of_unknown(unknown.reference, None, workload)]
        usual = CLASSES[class_of_unknown("", None, workload)]
        alike = (kind.reference,) if not near and kind is not usual else ()
        super().__init__(unknown.collection, unknown.reference, near or alike)
        self._alike = alike
        self._able = f"or {workload} there are {', '.join(able)}{_LEFT_OUT[workload]}"

    @property
    def hint(self) -> str:
        """What may be meant, or is the nearest of its kind by its name, and all that there is."""
        if self._alike:
            return f"; the nearest of its kind is {self._alike[0]}. F{self._able}"
        near = super().hint
        return f"{near} F{self._able}" if near else f"; f{self._able}"
