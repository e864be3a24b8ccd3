"""The text that ``/metrics`` answers: of this process, or of all workers that share its port."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead
from prometheus_client.registry import Collector

from service import ENGINE_VERSION
from service.api.observability.metrics import REGISTRY
from service.api.observability.own_footprint import OwnFactors
from service.core.impacts.processor_time import carbon_g, processor_energy_j

#: Where prometheus_client's multiprocess mode keeps what workers count; set by ``serve``.
SHARED_FOLDER = "PROMETHEUS_MULTIPROC_DIR"


class Exposition:
    """Puts the metrics together.

    Parameters
    ----------
    factors
        What turns processor time into energy and carbon.
    concurrency_limit
        Requests in flight per worker above which 503 is answered, None for no limit.
    """

    def __init__(self, factors: OwnFactors, concurrency_limit: int | None) -> None:
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(_Counted())
        self._registry.register(_Processes(factors, concurrency_limit))

    def text(self) -> bytes:
        """All metrics in the Prometheus text format."""
        return generate_latest(self._registry)


class _Counted(Collector):
    """What requests and the catalog have counted."""

    def collect(self) -> Iterable[Metric]:
        folder = _shared_folder()
        if folder is None:
            return REGISTRY.collect()
        for worker in _workers_in(folder):
            if not psutil.pid_exists(worker):
                # What it counted stays; only that it is in a state, such as busy, is forgotten.
                mark_process_dead(worker, str(folder))  # type: ignore[no-untyped-call]
        counted: Iterable[Metric] = MultiProcessCollector.merge(  # type: ignore[no-untyped-call]
            list(_begun(folder)), accumulate=True
        )
        return counted


class _Processes(Collector):
    """What the processes take, and what that comes to.

    Each has its own ``pid``, so that rates stay right when a worker is replaced. The names are
    those that Prometheus libraries have in common.
    """

    def __init__(self, factors: OwnFactors, concurrency_limit: int | None) -> None:
        self._factors = factors
        self._concurrency_limit = concurrency_limit

    def collect(self) -> Iterator[Metric]:
        by_pid = ("pid",)
        cpu = CounterMetricFamily(
            "process_cpu_seconds", "User and system processor time.", labels=by_pid
        )
        memory = GaugeMetricFamily(
            "process_resident_memory_bytes", "Resident memory.", labels=by_pid
        )
        started = GaugeMetricFamily(
            "process_start_time_seconds", "When the process started.", labels=by_pid
        )
        files = GaugeMetricFamily("process_open_fds", "Open file descriptors.", labels=by_pid)
        most_files = GaugeMetricFamily(
            "process_max_fds", "Largest number of open file descriptors.", labels=by_pid
        )
        energy = CounterMetricFamily(
            "headroom_estimated_energy_joules",
            "Energy of the service itself, estimated from processor time; "
            "headroom_estimate_basis_info says how.",
            labels=by_pid,
        )
        carbon = CounterMetricFamily(
            "headroom_estimated_carbon_grams",
            "Emissions of that energy in gCO2e, location-based, estimated.",
            labels=by_pid,
        )
        factors, limit = self._factors, resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        workers = list(_running())
        for process in workers:
            with suppress(psutil.NoSuchProcess), process.oneshot():
                pid = (str(process.pid),)
                times = process.cpu_times()
                busy_s = times.user + times.system
                energy_j = processor_energy_j(busy_s, factors.processor_w, factors.pue_ratio)
                cpu.add_metric(pid, busy_s)
                memory.add_metric(pid, process.memory_info().rss)
                started.add_metric(pid, process.create_time())
                files.add_metric(pid, process.num_fds())
                most_files.add_metric(pid, limit)
                energy.add_metric(pid, float(energy_j))
                if factors.grid_gco2e_per_kwh is not None:
                    carbon.add_metric(pid, float(carbon_g(energy_j, factors.grid_gco2e_per_kwh)))
        yield from (cpu, memory, started, files, most_files, energy, carbon)
        yield GaugeMetricFamily("headroom_workers", "Worker processes.", value=len(workers))
        if self._concurrency_limit is not None:
            yield GaugeMetricFamily(
                "headroom_requests_in_flight_limit",
                "Requests in flight over all workers above which the service answers 503.",
                value=self._concurrency_limit * len(workers),
            )
        yield InfoMetricFamily("headroom_build", "What runs.", value={"version": ENGINE_VERSION})
        yield InfoMetricFamily(
            "headroom_estimate_basis",
            "Basis of the estimates of the service's own energy and carbon.",
            value={
                "processor_w": f"{factors.processor_w:g}",
                "pue_ratio": f"{factors.pue_ratio:g}",
                "region": factors.region or "",
                "grid_gco2e_per_kwh": (
                    "" if factors.grid_gco2e_per_kwh is None else f"{factors.grid_gco2e_per_kwh:g}"
                ),
                "source": factors.described,
            },
        )


def _shared_folder() -> Path | None:
    named = os.environ.get(SHARED_FOLDER)
    return Path(named) if named else None


def _workers_in(folder: Path) -> set[int]:
    """Process ids of all workers that ever counted; each has files named after it."""
    return {int(file.stem.rpartition("_")[2]) for file in folder.glob("*.db")}


def _begun(folder: Path) -> Iterator[str]:
    """Files in which workers count; one that a worker has just made is empty for a moment."""
    for file in folder.glob("*.db"):
        with suppress(FileNotFoundError):
            if file.stat().st_size:
                yield str(file)


def _running() -> Iterator[psutil.Process]:
    """The workers that run now; never a stranger that was given a dead one's number."""
    folder = _shared_folder()
    workers = {os.getpid()} if folder is None else _workers_in(folder)
    for worker in sorted(workers):
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(worker)
            if process.ppid() == os.getppid():
                yield process
