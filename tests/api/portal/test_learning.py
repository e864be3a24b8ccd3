"""Pages to read: the catalog, claims, techniques, documentation, and the API reference."""

from __future__ import annotations

import re
from dataclasses import replace
from posixpath import join, normpath
from urllib.parse import urlsplit

import pytest

from service.portal.catalog_pages import entry_page

PAGES = [
    "/learn",
    "/claims",
    "/techniques",
    "/catalog",
    "/catalog/accelerators",
    "/catalog/models?q=llama",
    "/catalog/accelerators/h100",
    "/catalog/models/meta-llama/Llama-3.1-70B",
    "/catalog/regions/aws/eu-north-1",
    "/catalog/rules/sg-dc-cfa2-pue",
    "/catalog/sources/nvidia-h100-datasheet",
    "/docs",
    "/docs/index",
    "/docs/methodology",
    "/docs/how-to/teach",
    "/docs/decisions/README",
    "/docs/api/createInferenceEstimate",
    "/docs/api/getModel",
    "/docs/shapes/InferenceRequest",
]
HTML = {"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"}


@pytest.mark.parametrize("path", PAGES)
async def test_pages_to_read_load_nothing_from_elsewhere_and_lead_on(path, client):
    response = await client.get(path, headers=HTML)
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/html")
    assert "unsafe" not in response.headers["content-security-policy"]
    assert "<script" not in response.text
    ids = re.findall(r' id="([^"]+)"', response.text)
    assert len(ids) == len(set(ids))
    loaded = set(re.findall(r'<(?:link|img)[^>]* (?:href|src)="([^"]+)"', response.text))
    links = set(re.findall(r'<a href="([^"#][^"]*)"', response.text))
    inside = [link for link in links if not urlsplit(link).scheme and "models=fit" not in link]
    # Lists are long and their links alike: the first and the last of each page stand for them.
    for address in [*loaded, *sorted(inside)[:12], *sorted(inside)[-8:]]:
        target = normpath(join(path.partition("?")[0].rpartition("/")[0] + "/", address))
        found = await client.get(target, headers=HTML)
        assert found.status_code == 200, (path, address)


async def test_entries_state_figures_with_their_source_and_offers(client):
    text = (await client.get("/catalog/accelerators/h100")).text
    assert "Peak bandwidth of the device memory" in text
    assert "3.35\N{NO-BREAK SPACE}TB/s" in text
    assert "stated by its maker, 2022" in text
    assert "Where it is rented out" in text


def test_models_that_fit_are_listed(packaged_snapshot):
    few = ("Qwen/Qwen3-8B", "meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B")
    small = replace(packaged_snapshot, models={id_: packaged_snapshot.models[id_] for id_ in few})
    page = entry_page("accelerators", "nvidia-a100-sxm-80gb", small)
    assert "catalog/models/meta-llama/Llama-3.1-8B" in page
    assert "catalog/models/meta-llama/Llama-3.1-70B" not in page
    assert "Models that fit" not in entry_page("models", "meta-llama/Llama-3.1-8B", small)


async def test_claims_are_recomputed_in_words(client):
    text = (await client.get("/claims")).text
    assert "about 52 GB" in text
    assert "107 GB" in text
    assert "right only under unstated conditions" in text


async def test_links_between_documents_lead_to_pages(client):
    for chapter in ("/docs/methodology", "/docs/how-to/teach"):
        slashed = await client.get(f"{chapter}/", follow_redirects=True)
        assert slashed.url.path == chapter
        assert slashed.status_code == 200
    text = (await client.get("/docs/methodology")).text
    assert 'href="../docs/nomenclature"' in text
    assert ".md" not in "".join(re.findall(r'href="(?!http)([^"]*)"', text))
    assert 'id="fitting"' in text


async def test_long_documents_begin_with_their_sections(client):
    text = (await client.get("/docs/methodology")).text
    contents = text.split('class="contents"')[1].split("</nav>")[0]
    anchors = re.findall(r'href="#([^"]+)"', contents)
    assert {"speed", "fitting", "energy"} <= set(anchors)
    for anchor in anchors:
        assert f'<h2 id="{anchor}"' in text
    assert "contents" not in (await client.get("/docs/how-to/teach")).text


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/nope/deep", "There is no such page"),
        ("/catalog/nope", "the catalog has no such list"),
        ("/catalog/models/llama-3.1-70", "did you mean"),
        ("/docs/nope", "docs/index lists all of them"),
        ("/docs/api/nope", "nothing of that name"),
    ],
)
async def test_what_is_not_there_is_a_page_for_people_and_a_problem_for_programs(
    path, words, client
):
    page = await client.get(path, headers=HTML)
    assert page.status_code == 404
    assert words.lower() in page.text.lower()
    up = "../" * (path.count("/") - 1)
    assert f'href="{up}catalog"' in page.text
    problem = await client.get(path)
    assert problem.status_code == 404
    assert problem.headers["content-type"] == "application/problem+json"
    programs = await client.get("/v1/nope", headers=HTML)
    assert programs.headers["content-type"] == "application/problem+json"
