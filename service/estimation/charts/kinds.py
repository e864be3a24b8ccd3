"""The kinds of charts: what each is asked, and who computes what it shows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.charts import requests
from service.estimation.charts.memory import memory_chart
from service.estimation.charts.over_time import over_time_chart
from service.estimation.charts.pareto import pareto_chart
from service.estimation.charts.regions import map_chart, regions_chart
from service.estimation.charts.roofline import roofline_chart
from service.estimation.charts.sensitivity import sensitivity_chart
from service.estimation.charts.throughput import throughput_chart
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
    use_case: Callable[[Any, CatalogSnapshot], dict[str, Any]]


CHART_KINDS = (
    ChartKind(
        "memory-breakdown",
        "MemoryChart",
        "Chart: what fills the memory of an accelerator, training beside inference",
        "Parts of the memory of the fullest accelerator, stacked, with its capacity as a line.",
        requests.MemoryChartRequest,
        memory_chart,
    ),
    ChartKind(
        "roofline",
        "RooflineChart",
        "Chart: operators of prefill and decode under the accelerator's roof",
        "Operators of a prefill and of a decoding step by arithmetic intensity and FLOP/s, "
        "under the roof of peak bandwidth and peak FLOP/s.",
        requests.RooflineChartRequest,
        roofline_chart,
    ),
    ChartKind(
        "throughput-latency",
        "ThroughputChart",
        "Chart: throughput against latency over the requests in flight",
        "Output tokens per second and accelerator against a latency, one point for each number "
        "of requests in flight, with the best point within the limit.",
        requests.ThroughputChartRequest,
        throughput_chart,
    ),
    ChartKind(
        "impacts-by-region",
        "RegionsChart",
        "Chart: carbon, water or energy of a deployment in many regions, ranked",
        "The impact of one deployment in each region, split into its parts, the least first.",
        requests.RegionsChartRequest,
        regions_chart,
    ),
    ChartKind(
        "impacts-map",
        "MapChart",
        "Chart: carbon, water or energy of a deployment in many regions, on a map",
        "The impact of one deployment in each region whose place is known, on a map of the world.",
        requests.MapChartRequest,
        map_chart,
    ),
    ChartKind(
        "impact-over-time",
        "OverTimeChart",
        "Chart: a training run's emissions against cumulative inference, and when they cross",
        "Emissions of training, of inference added up day by day, and of both, with the day on "
        "which inference has emitted as much as training.",
        requests.OverTimeChartRequest,
        over_time_chart,
    ),
    ChartKind(
        "pareto-front",
        "ParetoChart",
        "Chart: the choices that nothing else beats, on two metrics",
        "Members of a recommendation's Pareto front on two of its metrics, and the choice for "
        "each priority; the request is that of a recommendation.",
        requests.ParetoChartRequest,
        pareto_chart,
    ),
    ChartKind(
        "sensitivity",
        "SensitivityChart",
        "Chart: how far a figure moves with each of what it depends on",
        "The figure at both ends of each input, one input at a time and the widest first: over "
        "its 90 % interval where it has one, else by change_ratio.",
        requests.SensitivityChartRequest,
        sensitivity_chart,
    ),
)
