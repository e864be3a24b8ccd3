"""What ``/metrics`` tells, of one process and of several on one port."""

from __future__ import annotations

import os
import time

import httpx
import pytest
from asgi_lifespan import LifespanManager
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from service import ENGINE_VERSION
from service.api.app import create_app
from service.api.observability.exposition import SHARED_FOLDER
from service.core.impacts.processor_time import carbon_g, processor_energy_j
from service.settings import Settings


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
    async with LifespanManager(app, startup_timeout=None):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return families((await client.get("/metrics")).text)


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


async def test_how_old_the_catalog_is_can_be_told_from_the_database(catalog_url):
    before = time.time()
    found = await scraped(
        DATABASE_URL=SecretStr(catalog_url), embedded_database=True, concurrency_limit=7
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


async def test_a_worker_that_has_just_begun_to_count_is_no_fault(tmp_path, monkeypatch):
    """Its file is made before it gets its first length."""
    (tmp_path / f"counter_{os.getpid()}.db").touch()
    monkeypatch.setenv(SHARED_FOLDER, str(tmp_path))
    found = await scraped()
    assert found["headroom_workers"].samples
