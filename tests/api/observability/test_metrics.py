"""What ``/metrics`` tells, of one process and of several on one port."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest
from asgi_lifespan import LifespanManager
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from service import ENGINE_VERSION
from service.api.app import create_app
from service.core.impacts.processor_time import carbon_g, processor_energy_j
from service.settings import INSTALLATION, Settings


def families(text: str) -> dict[str, Metric]:
    return {family.name: family for family in text_string_to_metric_families(text)}


def only(family: Metric) -> float:
    [sample] = family.samples
    return sample.value


def counted(found: dict[str, Metric], route: str) -> float:
    return sum(
        sample.value
        for sample in found["headroom_requests"].samples
        if sample.labels["route"] == route and sample.name.endswith("_total")
    )


async def scraped(**changes) -> dict[str, Metric]:
    app = create_app(Settings(**{"embedded_database": False, "log_level": "error"} | changes))
    async with LifespanManager(app, startup_timeout=60):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return families((await client.get("/metrics")).text)


@contextmanager
def two_workers() -> Iterator[str]:
    """The address of a service of two processes."""
    with subprocess.Popen(
        [sys.executable, "-m", "service.cli", "serve", "--port", "0", "--workers", "2"],
        cwd=INSTALLATION,
        env={**os.environ, "HEADROOM_EMBEDDED_DATABASE": "false", "HEADROOM_LOG_LEVEL": "error"},
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout
        try:
            yield process.stdout.readline().split()[4]
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=30)


async def test_the_process_and_its_catalog_are_shown(client):
    before = time.time()
    found = families((await client.get("/metrics")).text)
    assert only(found["headroom_requests_in_flight"]) == 1
    assert "headroom_requests_in_flight_limit" not in found
    assert only(found["headroom_workers"]) == 1
    assert only(found["process_cpu_seconds"]) > 0
    assert only(found["process_resident_memory_bytes"]) > 20e6
    assert 0 < only(found["headroom_catalog_snapshot_timestamp_seconds"]) <= before
    [build] = found["headroom_build_info"].samples
    assert build.labels == {"version": ENGINE_VERSION}


async def test_how_old_the_catalog_is_can_be_told_from_the_database(postgres_url):
    before = time.time()
    found = await scraped(
        DATABASE_URL=SecretStr(postgres_url), embedded_database=True, concurrency_limit=7
    )
    assert only(found["headroom_database_reachable"]) == 1
    assert only(found["headroom_catalog_revision"]) >= 1
    assert before - 1 <= only(found["headroom_catalog_confirmed_timestamp_seconds"]) <= time.time()
    assert only(found["headroom_requests_in_flight_limit"]) == 7
    found = await scraped(DATABASE_URL=SecretStr("postgresql://nobody@127.0.0.1:9/none"))
    assert only(found["headroom_database_reachable"]) == 0
    assert only(found["headroom_catalog_confirmed_timestamp_seconds"]) == 0


async def test_own_energy_and_carbon_stand_on_the_region_that_is_set_up(packaged_snapshot):
    found = await scraped(region="eu-north-1", processor_w=5.0)
    region = packaged_snapshot.find("regions", "aws/eu-north-1").value
    [basis] = found["headroom_estimate_basis_info"].samples
    assert basis.labels["region"] == "aws/eu-north-1"
    assert basis.labels["processor_w"] == "5"
    busy_s = only(found["process_cpu_seconds"])
    energy_j = only(found["headroom_estimated_energy_joules"])
    assert energy_j == pytest.approx(busy_s * 5.0 * region.pue_ratio.value)
    grid = region.grid_gco2e_per_kwh.value
    assert only(found["headroom_estimated_carbon_grams"]) == pytest.approx(energy_j / 3.6e6 * grid)


@pytest.mark.parametrize("region", [None, "atlantis"])
async def test_without_a_region_carbon_is_unknown_and_not_zero(region, capfd):
    found = await scraped(region=region)
    assert only(found["headroom_estimated_energy_joules"]) > 0
    assert not found["headroom_estimated_carbon_grams"].samples
    assert ("HEADROOM_REGION" in capfd.readouterr().err) == (region is not None)


def test_a_processor_hour_at_full_load():
    assert processor_energy_j(3600.0, 3.5, 1.2) == pytest.approx(15_120.0)
    assert carbon_g(3.6e6, 400.0) == pytest.approx(400.0)


def test_any_worker_tells_of_all():
    with two_workers() as address, httpx.Client(base_url=address) as client:
        for _ in range(40):
            # A connection for each, so that the system spreads them.
            assert httpx.get(f"{address}/v1/accelerators").status_code == 200
        told = [families(httpx.get(f"{address}/metrics").text) for _ in range(8)]
        assert {counted(found, "/v1/accelerators") for found in told} == {40}
        pids = {
            sample.labels["pid"]
            for found in told
            for sample in found["process_cpu_seconds"].samples
        }
        assert len(pids) == only(told[0]["headroom_workers"]) == 2
        assert only(told[0]["headroom_requests_in_flight"]) == 1

        killed = pids.pop()
        os.kill(int(killed), signal.SIGKILL)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                found = families(client.get("/metrics").text)
            except httpx.TransportError:
                continue
            now = {sample.labels["pid"] for sample in found["process_cpu_seconds"].samples}
            if len(now) == 2 and killed not in now:
                break
            time.sleep(0.2)
        assert pids < now
        assert counted(found, "/v1/accelerators") == 40
        assert only(found["headroom_requests_in_flight"]) == 1
