"""Clients in TypeScript that well-known generators make: complete, typed, and they work."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgi_lifespan import LifespanManager
from pydantic import SecretStr

from service.api.app import create_app
from service.settings import Settings
from tests.api.conftest import served
from tests.api.keyed import key_for
from tests.api.sweeps.test_sweeps import SMALL
from tests.docs.blocks import blocks
from tests.docs.test_examples import PAGES
from tests.faults.processes import working
from tests.node.needs import PACKAGES, node

PROGRAM = Path(__file__).parent / "typescript"
#: Generators beside the first, each with its default options, and where they write to.
OTHERS = (
    ("openapi-typescript/bin/cli.js", "--output", "schema.d.ts"),
    ("oazapfts/dist/cli.js", "oazapfts.ts"),
)


@pytest.fixture(scope="module")
async def service(catalog_url: str) -> AsyncIterator[tuple[str, str]]:
    """The address of the service on a database, and a key for it."""
    settings = Settings(DATABASE_URL=SecretStr(catalog_url), log_level="error")
    application = create_app(settings)
    async with LifespanManager(application, startup_timeout=None):
        key = await key_for(application, "acme", "own:write")
    with served(create_app(settings)) as address:
        yield address, key


@pytest.fixture(scope="module")
def generated(
    service: tuple[str, str], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """The folder with the program and the client, and what the generator told."""
    folder = tmp_path_factory.mktemp("typescript") / "program"
    shutil.copytree(PROGRAM, folder)
    for page in PAGES:
        text = "".join(block.text for block in blocks(page) if block.language == "ts")
        if text:
            written = text.replace("http://127.0.0.1:8000", service[0])
            (folder / f"page-{page.stem}.ts").write_text(written)
    (folder / "node_modules").symlink_to(PACKAGES)
    generator = str(PACKAGES / "@hey-api" / "openapi-ts" / "bin" / "run.js")
    (folder / "openapi.json").write_bytes(
        httpx.get(f"{service[0]}/openapi.json", timeout=600).content
    )
    told = node(generator, "--input", "openapi.json", cwd=folder)
    assert told.returncode == 0, told.stdout
    for other, *arguments in OTHERS:
        made = node(str(PACKAGES / other), "openapi.json", *arguments, cwd=folder)
        assert made.returncode == 0, made.stdout
    return folder, told


def test_nothing_of_the_contract_is_left_out(generated: Any, service: Any) -> None:
    folder, told = generated
    assert not re.search("warn|error", told.stdout, re.IGNORECASE), told.stdout
    document = httpx.get(f"{service[0]}/openapi.json", timeout=600).json()
    operations = {
        operation["operationId"]
        for item in document["paths"].values()
        for operation in item.values()
    }
    made = re.findall(
        r"^export const (\w+) =", (folder / "headroom" / "sdk.gen.ts").read_text(), re.MULTILINE
    )
    assert len(operations) > 60
    assert set(made) == operations


@pytest.fixture(scope="module")
def compiled(generated: Any) -> Path:
    folder, _ = generated
    checked = node(str(PACKAGES / "typescript" / "bin" / "tsc"), "--project", ".", cwd=folder)
    assert checked.returncode == 0, checked.stdout
    return folder / "built"


def test_its_types_hold(compiled: Path) -> None:
    assert (compiled / "use.js").exists()


def test_what_the_pages_say_works(compiled: Path) -> None:
    programs = sorted(compiled.glob("page-*.js"))
    assert programs
    for program in programs:
        used = node(str(program), cwd=compiled.parent)
        assert used.returncode == 0, used.stdout[-3000:]


@pytest.mark.parametrize("program", ["use-openapi-fetch", "use-oazapfts"])
def test_clients_of_other_generators_ask_it_too(
    compiled: Path, service: tuple[str, str], program: str
) -> None:
    used = node(str(compiled / f"{program}.js"), service[0], cwd=compiled.parent)
    assert used.stdout.strip() == "works", used.stdout[-3000:]


def test_it_asks_a_running_service(
    compiled: Path, service: tuple[str, str], catalog_url: str
) -> None:
    address, key = service
    sweep = httpx.post(f"{address}/v1/sweeps", json=SMALL).raise_for_status().json()
    with working(catalog_url):
        used = node(str(compiled / "use.js"), address, key, sweep["id"], cwd=compiled.parent)
    assert used.stdout.strip() == "works", used.stdout[-3000:]
