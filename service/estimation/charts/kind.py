"""What a kind of chart is: what it is asked, who computes what it shows, and who draws that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from service.catalog.derived import derived
from service.catalog.snapshot import CatalogSnapshot
from service.charts.frame import Style
from service.estimation.charts.answers import ChartFindings
from service.estimation.formatting import Units, shown_in
from service.estimation.references import Request

#: Charts that are kept: those of a few pages.
_MOST_KEPT = 24


@dataclass(frozen=True, slots=True)
class ChartKind:
    """A kind of chart. ``name`` is that of its operations, ``summary`` what it shows.

    ``description`` says in a sentence how it shows that.
    """

    id: str
    name: str
    summary: str
    description: str
    request: type[Request]
    use_case: Callable[[Any, CatalogSnapshot], ChartFindings]
    draw: Callable[[Mapping[str, Any], Style], dict[str, Any]]

    def findings(self, request: Request, snapshot: CatalogSnapshot) -> ChartFindings:
        """What it shows, kept for the pictures that are asked for after a page has told it.

        Raises
        ------
        Rejected
            If the request refers to unknown things, or the chart cannot be drawn of it.
        """
        looks = {"style"} & type(request).model_fields.keys()
        asked = request.model_dump_json(exclude=looks)
        return _findings(snapshot, _Asked(self.id, asked, self.use_case, request))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A chart that is asked for, whatever it is to look like."""

    kind: str
    asked: str
    use_case: Callable[[Any, CatalogSnapshot], ChartFindings] = field(compare=False)
    request: Request = field(compare=False)


@derived(_MOST_KEPT)
def _findings(snapshot: CatalogSnapshot, asked: _Asked) -> ChartFindings:
    # Kept for everyone, whatever units the one who asks first reads: pictures are in these.
    with shown_in(Units()):
        return asked.use_case(asked.request, snapshot)
