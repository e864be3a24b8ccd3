"""What searches for serving and for training have in common."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from service.catalog.entries.entry import Entry
from service.core.architecture.model import ModelArchitecture
from service.core.search.workloads import WorkloadKind
from service.estimation.recommendations.search_context import SearchContext
from service.estimation.references import Request

#: Share of a search that is evaluating configurations; the rest compares them in places [-].
EVALUATING_RATIO = 0.8


class Search(Protocol):
    """What was searched, with everything filled in that its request left open."""

    @property
    def kind(self) -> WorkloadKind:
        """The row of the decision matrix."""

    @property
    def models(self) -> tuple[Entry[ModelArchitecture], ...]:
        """The models to choose among."""

    @property
    def context(self) -> SearchContext:
        """Accelerators, places and prices."""

    @property
    def limits(self) -> Request:
        """The hard limits."""

    @property
    def weights(self) -> Mapping[str, float]:
        """Weights of the metrics."""
