"""Who draws which kind of chart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from service.charts import bars, curves, maps
from service.charts.frame import Style

DRAWN: Mapping[str, Callable[[Mapping[str, Any], Style], dict[str, Any]]] = MappingProxyType(
    {
        "memory-breakdown": bars.memory_breakdown,
        "roofline": curves.roofline,
        "throughput-latency": curves.throughput_latency,
        "impacts-by-region": bars.impacts_by_region,
        "impacts-map": maps.impacts_map,
        "impact-over-time": curves.impact_over_time,
        "pareto-front": curves.pareto_front,
        "sensitivity": bars.sensitivity,
    }
)
