"""What a kind of chart is: what it is asked, who computes what it shows, and who draws that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.charts.frame import Style
from service.estimation.charts.answers import ChartFindings
from service.estimation.references import Request


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
