"""What happens to callers when something that the service stands on fails."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from service.access.keys import make_key
from service.catalog.database.connection import WRITER_LOCK, connect
from service.catalog.database.embedded import EmbeddedPostgres
from service.settings import INSTALLATION
from tests.conftest import execute
from tests.faults.processes import (
    QUESTION,
    Load,
    Service,
    eventually,
    folder,
    kill_postgres,
    serving,
)

WHY = {"reason": "measured under load"}
T4 = "/v1/accelerators/nvidia-t4-16gb"


def key_in(url: str) -> dict[str, str]:
    """Headers with a key that may write."""
    key = make_key()
    columns = "key_id, created_by, organisation, name, scopes, secret_hash"
    values = f"'{key.key_id}', 'tests', 'acme', 'faults', '{{catalog:write}}', '{key.secret_hash}'"
    execute(url, f"INSERT INTO api_key ({columns}) VALUES ({values})")  # noqa: S608
    return {"Authorization": f"Bearer {key.text}"}


def change(service: Service, headers: dict[str, str], power_w: float) -> httpx.Response:
    """Change a card's power, on the strength of what it is now."""
    held = service.ask("GET", T4)
    entry = held.json()
    entry["figures"]["thermal_design_power_w"]["value"] = power_w
    match = {"If-Match": held.headers["etag"]}
    return service.ask("PUT", T4, params=WHY, json=entry, headers=headers | match)


def known(service: Service, headers: dict[str, str]) -> bool:
    return service.ask("GET", "/v1/workloads", headers=headers).status_code == 200


def test_postgres_killed_and_started_again_under_load() -> None:
    with folder() as path:
        postgres = EmbeddedPostgres(path)
        url = postgres.start()
        try:
            with serving(DATABASE_URL=url, HEADROOM_DATABASE_TIMEOUT_S="2") as service:
                headers = key_in(url)
                eventually(lambda: known(service, headers), "the key is known")
                assert change(service, headers, 71).status_code == 200
                with Load(service) as load:
                    kill_postgres(path)
                    eventually(
                        lambda: service.ask("GET", "/readyz").json()["status"] == "degraded",
                        "the loss is noticed",
                    )
                    refused = change(service, headers, 72)
                    assert refused.status_code == 503, refused.text
                    assert int(refused.headers["retry-after"]) >= 1
                    postgres.start()
                    eventually(
                        lambda: service.ask("GET", "/readyz").json()["status"] == "ready",
                        "it is found again",
                    )
                    done = change(service, headers, 73)
                    assert done.status_code == 200, done.text
                assert set(load.seen) == {"200"}
                assert service.stop() == 0
        finally:
            postgres.stop()


@pytest.mark.parametrize("reconnecting", [False, True])
@pytest.mark.parametrize("workers", ["1", "2"])
def test_sigterm_under_load_drops_no_request(workers: str, reconnecting: bool) -> None:
    # Long enough for a client that a busy machine keeps from running.
    settings = {"HEADROOM_EMBEDDED_DATABASE": "false", "HEADROOM_DRAIN_S": "20"}
    with serving("--workers", workers, **settings) as service:
        with Load(service, threads=8, reconnecting=reconnecting, pause_s=0) as load:
            assert service.stop() == 0
        assert set(load.seen) <= {"200", "no longer listening"}, load.seen


def held(url: str, statement: str, release: threading.Event) -> threading.Thread:
    """Run a statement in a transaction that stays open until it is released."""
    begun = threading.Event()

    async def hold() -> None:
        connection = await connect(url, timeout_s=60)
        async with connection.transaction():
            await connection.execute(statement)
            begun.set()
            await asyncio.to_thread(release.wait)
        await connection.close()

    thread = threading.Thread(target=lambda: asyncio.run(hold()))
    thread.start()
    assert begun.wait(30)
    return thread


def test_a_database_that_does_not_answer_in_time(catalog_url: str) -> None:
    with serving(DATABASE_URL=catalog_url, HEADROOM_DATABASE_TIMEOUT_S="1") as service:
        headers = key_in(catalog_url)
        eventually(lambda: known(service, headers), "the key is known")
        release = threading.Event()
        holder = held(catalog_url, "LOCK TABLE catalog_entry IN ACCESS EXCLUSIVE MODE", release)
        try:
            # More writers than the pool has connections: all are told, and readers see nothing.
            with Load(service, threads=2) as load, ThreadPoolExecutor(12) as writers:
                told = list(writers.map(lambda n: change(service, headers, 80 + n), range(12)))
            assert {answer.status_code for answer in told} == {503}
            assert all("retry-after" in answer.headers for answer in told)
            assert set(load.seen) == {"200"}
        finally:
            release.set()
            holder.join()
        eventually(lambda: change(service, headers, 99).status_code == 200, "writes work again")


def test_a_data_directory_that_is_damaged() -> None:
    with folder() as path:
        broken = path / "postgres"
        broken.mkdir()
        (broken / "PG_VERSION").write_text("not a version\n")
        (broken / "global").write_text("a file where a folder should be")
        with serving(HEADROOM_DATA_DIRECTORY=str(path)) as service:
            ready = service.ask("GET", "/readyz").json()
            assert (ready["status"], ready["catalog_source"]) == ("degraded", "packaged files")
            assert ready["problem"]
            assert service.ask("POST", "/v1/estimates/inference", json=QUESTION).status_code == 200
            written = service.ask("GET", "/v1/catalog/revisions")
            assert written.status_code == 503
            assert service.stop() == 0


@pytest.fixture(scope="module")
def replicas(catalog_url: str) -> Iterator[tuple[Service, Service]]:
    """Two services on one database."""
    with serving(DATABASE_URL=catalog_url) as one, serving(DATABASE_URL=catalog_url) as other:
        yield one, other


def test_a_bad_revision_is_rolled_back_by_another(
    catalog_url: str, replicas: tuple[Service, Service]
) -> None:
    service, _ = replicas
    headers = key_in(catalog_url)
    eventually(lambda: known(service, headers), "the key is known")
    before = service.ask("GET", T4)
    good = before.json()
    assert change(service, headers, 7_000).status_code == 200
    now = service.ask("GET", T4)
    assert now.json()["figures"]["thermal_design_power_w"]["value"] == 7_000
    match = {"If-Match": now.headers["etag"]}
    undone = service.ask("PUT", T4, params=WHY, json=good, headers=headers | match)
    assert undone.status_code == 200
    after = service.ask("GET", T4)
    assert after.json() == good
    assert after.headers["etag"] == before.headers["etag"]


def test_two_replicas_follow_each_other(
    catalog_url: str, replicas: tuple[Service, Service]
) -> None:
    one, other = replicas
    headers = key_in(catalog_url)
    eventually(lambda: known(one, headers), "the key is known")
    with Load(other) as load:
        done = change(one, headers, 74)
        assert done.status_code == 200, done.text
        revision = int(done.headers["x-catalog-revision"])
        eventually(
            lambda: other.ask("GET", "/readyz").json()["catalog_revision"] == revision,
            "the other replica has it",
        )
    assert set(load.seen) == {"200"}
    assert other.ask("GET", T4).json() == done.json()


def test_a_service_of_its_own_draws_charts() -> None:
    with serving(HEADROOM_EMBEDDED_DATABASE="false") as service:
        asked = "model=llama-3.1-8b&accelerator=nvidia-l40s-48gb&format=png"
        drawn = service.ask("GET", f"/v1/charts/memory-breakdown?{asked}")
        assert drawn.status_code == 200, drawn.text
        assert drawn.content.startswith(b"\x89PNG")


def test_a_bad_revision_is_rolled_back_under_load(
    catalog_url: str, replicas: tuple[Service, Service]
) -> None:
    """By the operator's command, while two replicas answer."""
    one, other = replicas
    headers = key_in(catalog_url)
    eventually(lambda: known(one, headers), "the key is known")
    good = one.ask("GET", "/readyz").json()["catalog_revision"]
    before = one.ask("GET", T4).json()
    with Load(one, threads=2) as load, Load(other, threads=2) as load_of_other:
        bad = change(one, headers, 6_999)
        assert bad.status_code == 200, bad.text
        eventually(lambda: other.ask("GET", T4).json() == bad.json(), "both have the bad one")
        subprocess.run(
            [
                *(sys.executable, "-m", "service.cli", "catalog", "rollback", str(good)),
                *("--reason", "watts for milliwatts"),
            ],
            cwd=INSTALLATION,
            env={**os.environ, "DATABASE_URL": catalog_url},
            check=True,
            capture_output=True,
        )
        for service in replicas:
            eventually(
                lambda service=service: service.ask("GET", T4).json() == before,
                "the good one is back",
            )
    assert set(load.seen) == set(load_of_other.seen) == {"200"}


def test_old_replicas_answer_while_a_newer_release_migrates(catalog_url: str) -> None:
    """The newer one adds a table and a column that this one does not know, and takes its time."""
    with serving(DATABASE_URL=catalog_url, HEADROOM_DATABASE_TIMEOUT_S="1") as old:
        headers = key_in(catalog_url)
        eventually(lambda: known(old, headers), "the key is known")
        release = threading.Event()
        # As migrations run: in one transaction, under the lock that all writers wait for.
        migration = held(
            catalog_url,
            f"SELECT pg_advisory_xact_lock({WRITER_LOCK});"  # noqa: S608 - a number of ours
            "CREATE TABLE of_a_newer_release (id bigint PRIMARY KEY);"
            "ALTER TABLE catalog_entry ADD COLUMN of_a_newer_release text;"
            "UPDATE alembic_version SET version_num = 'newer'",
            release,
        )
        try:
            with Load(old, threads=2) as load:
                assert change(old, headers, 81).status_code == 503
                release.set()
                migration.join()
                eventually(
                    lambda: change(old, headers, 82).status_code == 200, "the old one writes again"
                )
            assert set(load.seen) == {"200"}
            # Another old replica that starts now leaves the newer schema alone.
            with serving(DATABASE_URL=catalog_url) as late:
                ready = late.ask("GET", "/readyz").json()
                assert ready["status"] == "ready", ready
                assert late.ask("GET", T4).json() == old.ask("GET", T4).json()
        finally:
            release.set()
            migration.join()
