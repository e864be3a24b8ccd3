"""What every measured figure has that terms are fitted to."""

from __future__ import annotations

from typing import Protocol

from service.calibration.hierarchy import Keys
from service.estimation.measurements.documents import MeasurementDocument


class Row(Protocol):
    """A measured figure that terms are fitted to."""

    @property
    def document(self) -> MeasurementDocument:
        """Where it stands."""

    @property
    def source(self) -> str:
        """Catalog id of the source."""

    @property
    def model(self) -> str:
        """Id of the model."""

    @property
    def keys(self) -> Keys:
        """Keys of its levels."""
