"""What each process counts, for Prometheus.

Several worker processes on one port share their counts through the files of prometheus_client's
multiprocess mode, so whichever of them is asked tells of all; ``exposition`` puts that together.
"""

from __future__ import annotations

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from service.catalog.database.store import CatalogStatus

REGISTRY = CollectorRegistry()
REQUESTS = Counter(
    "headroom_requests_total",
    "Requests answered.",
    ("method", "route", "status"),
    registry=REGISTRY,
)
REQUEST_SECONDS = Histogram(
    "headroom_request_duration_seconds",
    "Time from request to answer.",
    ("method", "route"),
    buckets=(0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    registry=REGISTRY,
)
IN_FLIGHT = Gauge(
    "headroom_requests_in_flight",
    "Requests being answered, including this one.",
    registry=REGISTRY,
    multiprocess_mode="livesum",
)
_REVISION = Gauge(
    "headroom_catalog_revision",
    "Catalog revision that is served; with several workers, the oldest one.",
    registry=REGISTRY,
    multiprocess_mode="livemin",
)
_TAKEN_AT = Gauge(
    "headroom_catalog_snapshot_timestamp_seconds",
    "When the served revision was loaded.",
    registry=REGISTRY,
    multiprocess_mode="livemin",
)
_CONFIRMED_AT = Gauge(
    "headroom_catalog_confirmed_timestamp_seconds",
    "When the database last confirmed that this is its newest revision; 0 if never.",
    registry=REGISTRY,
    multiprocess_mode="livemin",
)
_REACHABLE = Gauge(
    "headroom_database_reachable",
    "1 if all workers can reach the database.",
    registry=REGISTRY,
    multiprocess_mode="livemin",
)

# Looking up a metric by its labels costs more than counting with it. Methods, routes and statuses
# are few, so these stay small.
_counters: dict[tuple[str, str, int], Counter] = {}
_histograms: dict[tuple[str, str], Histogram] = {}


def count_request(method: str, route: str, status: int, seconds: float) -> None:
    """Count an answered request by the template of its route, never by its path."""
    counter = _counters.get((method, route, status))
    if counter is None:
        counter = REQUESTS.labels(method, route, str(status))
        _counters[method, route, status] = counter
    histogram = _histograms.get((method, route))
    if histogram is None:
        histogram = _histograms[method, route] = REQUEST_SECONDS.labels(method, route)
    counter.inc()
    histogram.observe(seconds)


class CatalogGauges:
    """Shows how the catalog of an application stands, each time that is told.

    Not when the metrics are asked for: of several workers only one is asked.
    """

    def __init__(self) -> None:
        self._served: tuple[str, int] | None = None

    def show(self, status: CatalogStatus) -> None:
        """Take over what the catalog store tells of itself."""
        now = time.time()
        if self._served != (status.source, status.revision):
            self._served = (status.source, status.revision)
            _TAKEN_AT.set(now)
        _REVISION.set(status.revision)
        _REACHABLE.set(status.database_reachable)
        confirmed_s_ago = status.confirmed_s_ago
        _CONFIRMED_AT.set(0.0 if confirmed_s_ago is None else now - confirmed_s_ago)
