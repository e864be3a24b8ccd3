"""The commands that mind the catalog and the keys, on a real database."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import yaml
from click.testing import Result
from typer.testing import CliRunner

from service.access.keyring import Keyring
from service.access.keys import KeyRefused
from service.catalog.database.connection import create_engine
from service.cli import app
from tests.catalog.examples import accelerator, small_catalog, write_catalog

SOURCE = "sources:\n- {id: own/q, title: Q, publisher: A, year: 2026, url: 'https://example.org/q',"
SOURCE += " licence: secret, retrieved: '2026-11-20', kind: primary}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_catalog(tmp_path / "catalog", small_catalog())


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, postgres_url: str, folder: Path) -> Iterator[object]:
    monkeypatch.setenv("DATABASE_URL", postgres_url)
    monkeypatch.setenv("HEADROOM_CATALOG_DIRECTORY", str(folder))
    monkeypatch.setenv("COLUMNS", "200")
    runner = CliRunner()

    def command(*arguments: str) -> Result:
        # In a thread of its own, because the tests' event loop may be running in this one.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(runner.invoke, app, list(arguments)).result()

    return command


def test_what_the_files_hold(run, folder):
    told = run("catalog", "validate", str(folder))
    assert told.exit_code == 0
    assert "1 accelerators" in told.stdout
    table = run("catalog", "stats")
    assert table.exit_code == 0
    row = next(line for line in table.stdout.splitlines() if "regions" in line)
    assert [cell.strip() for cell in row.split("│")[1:4]] == ["regions", "2", "4"]


def test_what_is_past_its_shelf_life(run):
    told = run("catalog", "staleness", "--year", "2028", "--strict")
    assert told.exit_code == 1
    assert "country/SE" in told.stdout
    assert "grid_gco2e_per_kwh" in told.stdout, "names are whole where no terminal is"
    assert run("catalog", "staleness", "--year", "2024", "--strict").exit_code == 0
    assert run("catalog", "staleness", "--year", "12").exit_code == 2


def test_bringing_in_a_file_and_looking_at_the_difference(run, tmp_path, folder):
    file = tmp_path / "new.yaml"
    file.write_text(SOURCE)
    refused = run("catalog", "import", str(file), "--reason", "a quote")
    assert refused.exit_code == 1
    assert "line 2, column" in refused.stderr
    own = ("--organisation", "acme")
    dry = run("catalog", "import", str(file), "--reason", "a quote", "--dry-run", *own)
    assert (dry.exit_code, dry.stdout) == (0, "added sources own/q\n")
    done = run("catalog", "import", str(file), "--reason", "a quote", *own)
    assert "revision" in done.stderr
    assert run("catalog", "import", str(file), "--reason", "again", *own).stdout == ""
    assert run("catalog", "diff", "newest").stdout == ""

    other = small_catalog()
    other["accelerators"]["acme-one-80gb"] = accelerator(
        memory_bytes={"value": 79e9, "year": 2024, "source": "sheet", "kind": "datasheet"}
    )
    changed = write_catalog(tmp_path / "changed", other)
    told = run("catalog", "diff", str(folder), str(changed))
    assert told.stdout.splitlines() == [
        "changed accelerators acme-one-80gb",
        "  /figures/memory_bytes/value: 80000000000 -> 79000000000",
    ]


def test_a_bad_revision_is_rolled_back(run, tmp_path):
    file = tmp_path / "entries.yaml"

    def brought_in(*entries) -> str:
        """The number of the revision that holds these accelerators."""
        file.write_text(yaml.safe_dump({"accelerators": list(entries)}))
        done = run("catalog", "import", str(file), "--reason", "news")
        assert done.exit_code == 0, done.stderr
        return done.stderr.split("revision ")[1].strip(".\n")

    another = accelerator() | {"id": "acme-other", "name": "Other", "aliases": []}
    slip = accelerator(
        memory_bytes={"value": 8e9, "year": 2024, "source": "sheet", "kind": "datasheet"}
    )
    good = brought_in(another)
    held = run("catalog", "export", good).stdout
    bad = brought_in(slip, another | {"id": "acme-third", "name": "Third"})
    why = ("--reason", "8 GB was a slip")
    dry = run("catalog", "rollback", good, *why, "--dry-run")
    assert "removed accelerators acme-third" in dry.stdout
    assert "changed accelerators acme-one-80gb" in dry.stdout
    assert run("catalog", "diff", bad, "newest").stdout == ""
    done = run("catalog", "rollback", good, *why)
    assert done.exit_code == 0, done.stderr
    assert "Created revision" in done.stderr
    assert run("catalog", "export", "newest").stdout == held
    assert "acme-third" in run("catalog", "export", bad).stdout
    assert run("catalog", "rollback", good, *why).stdout == ""
    assert run("catalog", "rollback", "4711", *why).exit_code == 1


@pytest.mark.parametrize("form", ["yaml", "json", "csv"])
def test_what_is_exported_can_be_imported(run, tmp_path, form):
    file = tmp_path / f"accelerators.{form}"
    told = run(
        *("catalog", "export", "--collection", "accelerators"),
        *("--format", form, "--output", str(file)),
    )
    assert told.exit_code == 0, told.stderr
    name = ("--collection", "accelerators") if form == "csv" else ()
    done = run("catalog", "import", str(file), "--reason", "round trip", *name)
    assert done.exit_code == 0, done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("diff", "no-such-folder"), 2),
        (("diff", "4711"), 1),
        (("export", "--format", "xml"), 2),
        (("export", "--format", "csv"), 2),
        (("export", "--collection", "cars"), 2),
        (("import", "nothing.yaml", "--reason", "none"), 2),
    ],
)
def test_commands_that_make_no_sense(run, arguments, status):
    assert run("catalog", *arguments).exit_code == status


def holder(url: str, text: str) -> str | None:
    """Whose key it is, None for one that opens nothing."""

    async def ask() -> str | None:
        engine = create_engine(url)
        ring = Keyring()
        async with engine.connect() as connection:
            await ring.refresh(connection)
        await engine.dispose()
        try:
            return ring.caller(text).organisation
        except KeyRefused:
            return None

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, ask()).result()


def test_the_first_key(run, postgres_url):
    made = run("keys", "create", "--organisation", "acme", "--name", "ci", "--scope", "own:write")
    assert made.exit_code == 0, made.stderr
    text = made.stdout.strip()
    assert holder(postgres_url, text) == "acme"
    key_id = text.split("_")[1]
    listed = run("keys", "list", "--organisation", "acme").stdout
    assert key_id in listed
    assert text not in listed
    assert run("keys", "revoke", key_id).exit_code == 0
    assert holder(postgres_url, text) is None
    assert run("keys", "revoke", "never-was").exit_code == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ("--organisation", "Not Good", "--name", "x"),
        ("--organisation", "acme", "--name", "x", "--scope", "all"),
    ],
)
def test_keys_that_make_no_sense(run, arguments):
    assert run("keys", "create", *arguments).exit_code == 2


def test_a_database_that_is_not_there(run, monkeypatch):
    monkeypatch.setenv("DATABASE_URL", "postgresql://u@127.0.0.1:9/d")
    told = run("catalog", "diff", "newest")
    assert told.exit_code == 3
    assert "cannot be used" in told.stderr


def test_a_provider_without_a_list_cannot_be_refreshed(headroom):
    outcome = headroom("catalog", "refresh", "prices", "--provider", "hetzner")
    assert outcome.status == 2
    assert "no price list to ask" in outcome.complaints
    assert "known are aws" in " ".join(outcome.complaints.split())
