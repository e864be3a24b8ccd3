"""A few hundred recorded questions, and what the service answers them today.

``python -m tests.answers.asked FOLDER`` writes every answer into a file of its own, so that two
states of the code can be compared with ``diff -r``.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import httpx
from asgi_lifespan import LifespanManager

from service import ENGINE_VERSION
from service.api.app import create_app
from service.settings import Settings
from tests.answers.whole import whole_body, whole_path

QUESTIONS = Path(__file__).parent / "questions.jsonl"

#: Digits that two processors' libraries of mathematics agree on.
_DIGITS = 6
#: What names a state of the code or of the catalog, and no figure.
_STATES = frozenset({"engine_version", "catalog_revision", "revision", "created_at", "instance"})
_NUMBER = re.compile(r"-?\d+\.\d+(?:[eE][-+]?\d+)?")


def questions() -> list[dict[str, Any]]:
    """Method, path, body and accepted form of each question."""
    return [json.loads(line) for line in QUESTIONS.read_text().splitlines()]


async def answers(
    client: httpx.AsyncClient, asked_for: Iterable[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Status and content of each answer, in the order of the questions."""
    found = []
    for asked in asked_for:
        response = await client.request(
            asked["method"],
            whole_path(asked["method"], asked["path"]),
            json=whole_body(asked.get("body"), asked["path"]),
            headers={"Accept": asked["accept"]} if "accept" in asked else None,
        )
        content: Any = response.text
        if "json" in response.headers.get("content-type", ""):
            content = response.json()
        found.append({"status": response.status_code, "answer": content})
    return found


def digest(answered: Any) -> str:
    """A digest of answers, blind to the last digits and to names of states."""
    canonical = json.dumps(_rounded(answered), sort_keys=True)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items() if name not in _STATES}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, str):
        value = value.replace(ENGINE_VERSION, "")
        return _NUMBER.sub(lambda found: f"{float(found[0]):.{_DIGITS - 2}g}", value)
    return value


async def ask_all(asked_for: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ask a service of this process, on the packaged catalog."""
    application = create_app(Settings(embedded_database=False, log_level="error"))
    async with LifespanManager(application, startup_timeout=None):
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(
            transport=transport, base_url="http://test", timeout=120
        ) as client:
            return await answers(client, asked_for)


def main() -> None:
    """Write the answers down."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    every = questions()
    for at, (asked, answered) in enumerate(zip(every, asyncio.run(ask_all(every)), strict=True)):
        name = re.sub(r"[^a-z0-9]+", "-", asked["path"].lower())[:60].strip("-")
        written = json.dumps({"question": asked} | answered, indent=1, sort_keys=True)
        (folder / f"{at:03d}-{name}.json").write_text(written + "\n")


if __name__ == "__main__":
    main()
