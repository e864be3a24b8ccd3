"""The documentation site builds without a warning and without a network, and is complete."""

from __future__ import annotations

import json
import os
import pkgutil
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml

import service.core

PROJECT_FOLDER = Path(__file__).parents[2]
#: Whoever asks a proxy at this address is told at once that nobody is there.
NO_NETWORK = dict.fromkeys(
    ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9"
)


class Loads(HTMLParser):
    """Addresses that a browser loads by itself, and identifiers that links can point to."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: set[str] = set()
        self.identifiers: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        address = given.get("src") or (
            given.get("href") if tag == "link" and given.get("rel") != "canonical" else None
        )
        if address:
            self.addresses.add(address)
        if given.get("id"):
            self.identifiers.add(str(given["id"]))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    finished = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", folder],
        cwd=PROJECT_FOLDER,
        env={**os.environ, **NO_NETWORK, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return folder


def read(page: Path) -> Loads:
    parser = Loads()
    parser.feed(page.read_text())
    return parser


def test_every_page_is_made(site: Path) -> None:
    kept = {
        path.relative_to(PROJECT_FOLDER / "docs").with_suffix("")
        for path in (PROJECT_FOLDER / "docs").rglob("*.md")
    }
    for page in kept | {Path("reference/api"), Path("data-sources")}:
        folder = page.parent if page.name in ("index", "README") else page
        assert (site / folder / "index.html").is_file(), page


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        elsewhere = {address for address in read(page).addresses if "//" in address}
        assert not elsewhere, page


def test_every_module_of_the_core_is_referred_to(site: Path) -> None:
    pages = (site / "reference" / "core").rglob("index.html")
    identifiers = {identifier for page in pages for identifier in read(page).identifiers}
    modules = {
        module.name
        for module in pkgutil.walk_packages(service.core.__path__, "service.core.")
        if not module.ispkg
    }
    assert modules <= identifiers
    assert "service.core.impacts.processor_time.processor_energy_j" in identifiers


def test_every_source_is_credited(site: Path) -> None:
    page = (site / "data-sources" / "index.html").read_text()
    files = (PROJECT_FOLDER / "hardware_catalog" / "sources").glob("*.yaml")
    sources = [source for file in files for source in yaml.safe_load(file.read_text())]
    assert sources
    for source in sources:
        assert f"<code>{source['id']}</code>" in page
    licences = {source["licence"] for source in sources}
    headings = set(re.findall(r"<h2[^>]*>(.*?)<a", page, re.DOTALL))
    assert len(headings) == len(licences)


def test_every_operation_is_listed(site: Path) -> None:
    page = (site / "reference" / "api" / "index.html").read_text()
    contract = json.loads((site / "openapi.json").read_text())
    listed = [
        (path, operation["operationId"])
        for path, operations in contract["paths"].items()
        for operation in operations.values()
    ]
    assert ("/metrics", "getMetrics") in listed
    for path, operation_id in listed:
        assert path in page
        assert f"<td>{operation_id}</td>" in page
