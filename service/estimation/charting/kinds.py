"""The kinds of charts: what each is asked, and who computes what it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.charting import requests
from service.estimation.charting.memory import memory_chart
from service.estimation.charting.over_time import over_time_chart
from service.estimation.charting.pareto import pareto_chart
from service.estimation.charting.regions import map_chart, regions_chart
from service.estimation.charting.roofline import roofline_chart
from service.estimation.charting.sensitivity import sensitivity_chart
from service.estimation.charting.throughput import throughput_chart
from service.estimation.requests import Request


@dataclass(frozen=True, slots=True)
class ChartKind:
    """A kind of chart. ``name`` is that of its operations, ``summary`` what it shows."""

    id: str
    name: str
    summary: str
    request: type[Request]
    use_case: Callable[[Any, CatalogSnapshot], dict[str, Any]]


CHART_KINDS = (
    ChartKind(
        "memory-breakdown",
        "MemoryChart",
        "Chart: what fills the memory of an accelerator, training beside inference",
        requests.MemoryChartRequest,
        memory_chart,
    ),
    ChartKind(
        "roofline",
        "RooflineChart",
        "Chart: operators of prefill and decode under the accelerator's roof",
        requests.RooflineChartRequest,
        roofline_chart,
    ),
    ChartKind(
        "throughput-latency",
        "ThroughputChart",
        "Chart: throughput against latency over the requests in flight",
        requests.ThroughputChartRequest,
        throughput_chart,
    ),
    ChartKind(
        "impacts-by-region",
        "RegionsChart",
        "Chart: carbon, water or energy of a deployment in many regions, ranked",
        requests.RegionsChartRequest,
        regions_chart,
    ),
    ChartKind(
        "impacts-map",
        "MapChart",
        "Chart: carbon, water or energy of a deployment in many regions, on a map",
        requests.MapChartRequest,
        map_chart,
    ),
    ChartKind(
        "impact-over-time",
        "OverTimeChart",
        "Chart: a training run's emissions against cumulative inference, and when they cross",
        requests.OverTimeChartRequest,
        over_time_chart,
    ),
    ChartKind(
        "pareto-front",
        "ParetoChart",
        "Chart: the choices that nothing else beats, on two metrics",
        requests.ParetoChartRequest,
        pareto_chart,
    ),
    ChartKind(
        "sensitivity",
        "SensitivityChart",
        "Chart: how far a figure moves with each of what it depends on",
        requests.SensitivityChartRequest,
        sensitivity_chart,
    ),
)
