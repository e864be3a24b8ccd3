"""The charts that the page shows of a deployment: where they are, and what they say in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.charting.kinds import CHART_KINDS
from service.estimation.rejection import Rejected
from service.portal.questions import PageRequest

#: Kinds that are shown, in this order, with whether they depend on the region.
_SHOWN = (
    ("memory-breakdown", False),
    ("throughput-latency", False),
    ("roofline", False),
    ("impacts-by-region", True),
    ("sensitivity", True),
)
_KINDS = {kind.id: kind for kind in CHART_KINDS}
#: Widths that charts are drawn in, for wide and for narrow screens.
_WIDE_PX, _NARROW_PX = 600, 340


@dataclass(frozen=True, slots=True)
class Picture:
    """A chart by its links, which choose theme and width, and in words."""

    title: str
    description: str
    kind: str
    query: str

    def link(self, theme: str, *, narrow: bool = False) -> str:
        """Where the chart is drawn in a theme, relative to the page."""
        width_px = _NARROW_PX if narrow else _WIDE_PX
        return f"v1/charts/{self.kind}?{self.query}&format=svg&theme={theme}&width_px={width_px}"


def pictures(
    request: PageRequest, snapshot: CatalogSnapshot, kinds: tuple[str, ...] | None = None
) -> Iterator[Picture]:
    """The charts of a deployment; one that cannot be drawn of it is left out."""
    estimate = request.estimate
    asked: dict[str, Any] = {
        name: getattr(estimate, name)
        for name in (
            "model",
            "precision",
            "accelerator",
            "accelerator_count",
            "parallelism",
            "workload",
        )
    }
    for id_, placed in _SHOWN:
        if kinds is not None and id_ not in kinds:
            continue
        fields = asked | ({"region": estimate.region} if placed else {})
        kind = _KINDS[id_]
        try:
            shown = kind.use_case(kind.request(**fields), snapshot)
        except Rejected:
            continue
        query = request.deployment_link(placed=placed)
        yield Picture(shown["title"], shown["description"], id_, query)
