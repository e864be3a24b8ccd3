"""What the pages tell people to paste works, and answers what they say."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import typer
from asgi_lifespan import LifespanManager
from pydantic import SecretStr
from typer.testing import CliRunner

from service.api.app import create_app
from service.cli import app as command_line
from service.settings import Settings
from tests.api.conftest import served
from tests.api.keyed import key_for
from tests.docs.blocks import Block, blocks, call, commands, expected_status

PROJECT_FOLDER = Path(__file__).parents[2]
PAGES = [
    PROJECT_FOLDER / "README.md",
    *sorted((PROJECT_FOLDER / "docs").glob("*.md")),
    *sorted((PROJECT_FOLDER / "docs" / "how-to").glob("*.md")),
]
#: Programs that a page may tell people to run, and that are not for a test to run.
ELSEWHERE = {"kubectl", "npx", "openapi-python-client"}
#: Answers that stay small where nothing is included.
LARGEST_BYTES = {
    "/v1/estimates/inference": 8_000,
    "/v1/recommendations": 25_000,
    "/v1/recommendations/training": 24_000,
}


@pytest.fixture(scope="module")
async def service(catalog_url: str) -> Any:
    """The address of the service on a database, and a key for it."""
    settings = Settings(DATABASE_URL=SecretStr(catalog_url), log_level="error")
    application = create_app(settings)
    async with LifespanManager(application, startup_timeout=None):
        key = await key_for(application, "acme", "own:write")
    with served(create_app(settings)) as address:
        yield address, key


def name(page: Path) -> str:
    return str(page.relative_to(PROJECT_FOLDER))


def differences(said: Any, answered: Any, place: str = "") -> Iterator[str]:
    """Where an answer does not have what a page says; numbers may differ by a percent."""
    if isinstance(said, dict) and isinstance(answered, dict):
        for key, value in said.items():
            if key in answered:
                yield from differences(value, answered[key], f"{place}/{key}")
            else:
                yield f"{place}/{key} is missing"
    elif isinstance(said, list) and isinstance(answered, list):
        if len(answered) < len(said):
            yield f"{place} has {len(answered)} items"
        for index, (one, other) in enumerate(zip(said, answered, strict=False)):
            yield from differences(one, other, f"{place}/{index}")
    elif isinstance(said, float) and isinstance(answered, (int, float)):
        if not math.isclose(said, answered, rel_tol=0.01):
            yield f"{place}: {answered}, not {said}"
    elif said != answered:
        yield f"{place}: {answered!r}, not {said!r}"


def test_differences_are_seen():
    answered = {"a": {"value": 1.0}, "b": [1, 2], "fits": True}
    assert not list(differences({"a": {"value": 1.005}, "b": [1]}, answered))
    said = {"a": {"value": 1.02}, "b": [1, 3], "c": 1, "fits": False}
    assert len(list(differences(said, answered))) == 4


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_curl_answers_what_the_page_says(page: Path, service: tuple[str, str]) -> None:
    address, _ = service
    answered: Any = None
    with httpx.Client(base_url=address, timeout=600) as client:
        for block in blocks(page):
            if block.language == "json":
                assert answered is not None, f"line {block.line}: an answer to nothing"
                assert not list(differences(json.loads(block.text), answered)), block.line
            if block.language not in ("sh", "json"):
                answered = None
            for command in commands(block.text) if block.language == "sh" else ():
                answered = None
                if command[0] == "curl":
                    asked = call(command)
                    response = client.request(
                        asked.method, asked.path, content=asked.body, headers=asked.headers
                    )
                    status = response.status_code
                    assert status == expected_status(block), (block.line, response.text)
                    if "+json" in (kind := response.headers["content-type"]) or "/json" in kind:
                        answered = response.json()
                        most = LARGEST_BYTES.get(asked.path.partition("?")[0], math.inf)
                        assert len(response.content) <= most, (block.line, asked.path)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_python_runs(
    page: Path,
    service: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    address, key = service
    monkeypatch.setenv("HEADROOM_KEY", key)
    names: dict[str, Any] = {}
    try:
        for block in blocks(page):
            if block.language == "python":
                text = block.text.replace("http://127.0.0.1:8000", address)
                # The five seconds that httpx waits by itself are few on a busy machine.
                text = text.replace("httpx.Client(base_url", "httpx.Client(timeout=600, base_url")
                text = text.replace(", timeout=60)", ")")
                # So that a failure is told with its line in the page.
                program = compile("\n" * block.line + text, str(page), "exec")
                exec(program, names)  # noqa: S102 - the pages are ours
    finally:
        for value in names.values():
            if isinstance(value, httpx.Client):
                value.close()


def options_of(command: list[str]) -> set[str]:
    """The options that a ``./headroom`` command knows.

    Raises
    ------
    KeyError
        If there is no such command.
    """
    found = typer.main.get_command(command_line)
    for word in command[1:]:
        if not hasattr(found, "commands"):
            break
        found = found.commands[word]
    return {option for parameter in found.params for option in parameter.opts}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_commands_exist(page: Path) -> None:
    for block in blocks(page):
        if block.language != "sh":
            continue
        for command in commands(block.text):
            words = [word for word in command if not re.match(r"[A-Z_]+=", word)]
            if words[0] == "./headroom":
                used = {word.partition("=")[0] for word in words if word.startswith("--")}
                assert used <= options_of(words), (block.line, words)
            else:
                assert words[0] in ELSEWHERE | {"curl"}, (block.line, words)


#: Commands that answer from the packaged catalog, which a test can let run as they stand.
ANSWERING = {
    "estimate",
    "memory",
    "latency",
    "impacts",
    "recommend",
    "recommend-training",
    "compare",
}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_questions_in_a_terminal_are_answered(page: Path) -> None:
    for block in blocks(page):
        for command in commands(block.text) if block.language == "sh" else ():
            if command[0] == "./headroom" and command[1] in ANSWERING:
                result = CliRunner().invoke(command_line, command[1:], catch_exceptions=False)
                assert result.exit_code == 0, (block.line, command, result.output)
                assert result.stdout


def test_pages_are_found_and_read() -> None:
    read: dict[str, list[Block]] = {name(page): blocks(page) for page in PAGES}
    for page in ("docs/tutorial.md", "docs/how-to/portal.md", "README.md"):
        assert len([block for block in read[page] if block.language in ("sh", "python")]) >= 3
    with pytest.raises(ValueError, match="not understood"):
        call(["curl", "--next", "http://127.0.0.1:8000/livez"])
    assert commands("# e\na 'b\nc' \\\n d\n\nf") == [["a", "b\nc", "d"], ["f"]]
    with pytest.raises(KeyError):
        options_of(["./headroom", "fly"])


# --- The README's first answer

_UNITS = {"GB": 1e9}


def shown(cell: str) -> list[tuple[float, float]]:
    """The numbers in a cell, each with half a unit of its last digit, in base units."""
    unit = next((factor for word, factor in _UNITS.items() if word in cell), 1.0)
    found = []
    for text in re.findall(r"\d[\d,]*\.?\d*", cell):
        digits = len(text.partition(".")[2])
        number = float(text.replace(",", ""))
        found.append((number * unit, 0.5 * 10**-digits * unit))
    return found


async def test_the_first_answer_is_what_the_readme_says(client: httpx.AsyncClient) -> None:
    text = (PROJECT_FOLDER / "README.md").read_text()
    table = text.split("<!-- the-first-answer -->")[1].split("<!-- end -->")[0]
    block = next(one for one in blocks(PAGES[0]) if "/v1/estimates/inference" in one.text)
    [asked] = [call(command) for command in commands(block.text)]
    answer = (await client.post(asked.path, content=asked.body, headers=asked.headers)).json()
    rows = re.findall(r"^\| `([\w.]+)` \| (.+) \| (.+) \|$", table, re.MULTILINE)
    assert len(rows) >= 9
    for path, value, interval in rows:
        figure = answer
        for step in path.split("."):
            figure = figure[step]
        bounds = "" if interval == "exact" else f"{interval} {'GB' if 'GB' in value else ''}"
        told = [shown(value)[0], *shown(bounds)]
        computed = [figure["value"], figure["low"], figure["high"]][: len(told)]
        for (number, slack), exactly in zip(told, computed, strict=True):
            assert abs(exactly - number) <= 1.01 * slack, (path, number, exactly)
