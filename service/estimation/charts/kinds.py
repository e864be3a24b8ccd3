"""The kinds of charts: those that the modules of this package declare as their ``KINDS``."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from service.estimation import charts
from service.estimation.charts.answers import ChartFindings
from service.estimation.charts.kind import ChartKind
from service.estimation.remarks import remarking

_MODULES = [
    import_module(f"{charts.__name__}.{each.name}") for each in iter_modules(charts.__path__)
]

#: Kinds of charts by id.
CHART_KINDS: dict[str, ChartKind] = {
    kind.id: replace(kind, use_case=remarking(ChartFindings)(kind.use_case))
    for kind in sorted(
        (kind for module in _MODULES for kind in getattr(module, "KINDS", ())),
        key=lambda kind: kind.id,
    )
}
