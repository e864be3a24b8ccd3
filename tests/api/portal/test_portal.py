"""The page, the frame and the badge as a browser gets them."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from html.parser import HTMLParser
from urllib.parse import parse_qs, urlencode
from xml.etree import ElementTree

import httpx
import pytest
from asgi_lifespan import LifespanManager
from starlette.datastructures import QueryParams

from service.api.app import create_app
from service.api.http.queries import flat_fields, query_request
from service.estimation.inference.requests import InferenceRequest
from service.hub.client import HubAway
from service.hub.files import HubFiles
from service.portal.rendering import ASSETS
from service.portal.training_questions import TrainingPageRequest
from service.settings import INSTALLATION, Settings

SMALL = "/?model=llama-3.1-8b&accelerator=l40s&accelerator_count=1&region=SE"
PAGES = [
    "/",
    SMALL,
    "/?recommend=true",
    "/?model=nope&concurrency=0",
    "/training",
    "/training?zero_stage=0&accelerator_count=2&offload_optimizer=cpu",
    "/training?tokens=0&optimizer=sgdx",
    "/training?recommend=true&days=0.001&max_accelerators=8",
    "/compare",
    "/compare?tensor=4&data=2&weights_2=fp8&model_3=llama-3.1-8b&region_3=nowhere",
    "/compare?concurrency=0",
    "/embed",
    "/embed?model=x",
]
#: What a small model's config.json holds.
CONFIG = json.dumps(
    {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "num_hidden_layers": 32,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
        "tie_word_embeddings": False,
    },
    indent=2,
)
OWN_SCRIPTS = {f"portal/{name}.js" for name in ("page", "picker", "extras", "charts")}
_EMPTY = {"meta", "link", "input", "img", "source", "br"}


class Page(HTMLParser):
    """The elements of a page with their attributes, and whether all were closed in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.well_formed = True
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in _EMPTY:
            self.open.append(tag)

    def handle_endtag(self, tag):
        self.well_formed &= bool(self.open) and self.open.pop() == tag

    def all(self, *tags):
        return [attributes for tag, attributes in self.elements if tag in tags]


def table(response: httpx.Response) -> list[dict[str, str]]:
    """The rows of a file for spreadsheets."""
    return list(csv.DictReader(io.StringIO(response.content.decode("utf-8-sig"))))


@pytest.mark.parametrize("path", PAGES)
async def test_pages_obey_their_own_policy(path, client):
    response = await client.get(path)
    page = Page(response.text)
    assert page.well_formed
    assert not page.open
    policy = response.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    for attributes in (attributes for _, attributes in page.elements):
        assert not [name for name in attributes if name == "style" or name.startswith("on")]
    assert all(script.get("src", "").startswith("portal/") for script in page.all("script"))
    assert not page.all("style", "iframe")
    for attributes in page.all("script", "link", "img", "source"):
        address = attributes.get("src") or attributes.get("href") or attributes.get("srcset") or ""
        assert "//" not in address


@pytest.mark.parametrize("path", PAGES)
async def test_pages_can_be_read_without_seeing_them(path, client):
    page = Page((await client.get(path)).text)
    assert page.all("html")[0]["lang"] == "en"
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    labelled = {label["for"] for label in page.all("label")}
    controls = [c for c in page.all("input", "select", "textarea") if c.get("type") != "hidden"]
    assert {control["id"] for control in controls} == labelled
    # The sign beside the name of the service says nothing more than that name.
    told = [image for image in page.all("img") if "/icon.svg" not in image["src"]]
    assert all((image["alt"] or "").strip() for image in told)
    for name in ("aria-labelledby", "aria-describedby"):
        named = {value for _, a in page.elements if (value := a.get(name))}
        assert named <= set(ids)
    assert len(page.all("main")) == 1


@pytest.fixture(scope="module")
def followed() -> set[str]:
    """Links that pages of this module led to."""
    return set()


def content(address: str) -> tuple[str, str]:
    """What an address asks for, apart from the colours and the width that it is drawn in."""
    path, _, query = address.partition("?")
    asked = [one for one in query.split("&") if not one.startswith(("theme=", "width_px="))]
    return path, "&".join(asked)


@pytest.mark.parametrize(
    ("path", "least", "in_every_look"),
    [
        ("/?weights=fp8&tensor=4&data=2&region=SE", 18, True),
        (f"/?{urlencode({'config': CONFIG})}&accelerator=nvidia-l40s-48gb&region=SE", 18, False),
        ("/?recommend=true&model=llama-3.1-8b&region=SE", 18, False),
        ("/?model=llama-3.1-8b", 17, False),
        ("/training?tensor=2", 8, False),
        (f"/training?{urlencode({'config': CONFIG})}", 8, False),
        ("/compare?region_3=country/FR", 2, False),
    ],
)
async def test_everything_that_the_page_loads_is_there(
    path, least, in_every_look, client, followed
):
    page = Page((await client.get(path)).text)
    loaded = [a["src"] for a in page.all("script", "img")]
    loaded += [a["href"] for a in page.all("link")] + [a["srcset"] for a in page.all("source")]
    assert len(loaded) >= least
    # A chart is the same in light and in dark, wide and narrow; one page shows that all are drawn.
    for address in loaded if in_every_look else {content(one): one for one in loaded}.values():
        response = await client.get(f"/{address}")
        assert response.status_code == 200, address
        assert response.content
    # What several pages lead to is there for all of them.
    links = {a["href"] for a in page.all("a") if a["href"][:1] not in "#h"} - followed
    followed.update(links)
    for address in links:
        assert (await client.get(f"/{address}")).status_code == 200, address


async def test_the_page_shows_the_figures_of_the_answer(client):
    text = (await client.get(SMALL)).text
    asked = "model=llama-3.1-8b&accelerator=l40s&accelerator_count=1&region=SE"
    # A link without a load asks the same of the page and of the API.
    estimate = (await client.get(f"/v1/estimates/inference?{asked}")).json()
    assert f"{estimate['memory']['total_bytes']['value'] / 1e9:.3g} GB" in text
    assert 'data-value="meta-llama/Llama-3.1-8B"' in text
    assert 'data-value="country/SE" data-text="Sweden"' in text
    assert estimate["warnings"]
    assert all(html.escape(one["message"]) in text for one in estimate["warnings"])


async def test_fields_take_names_and_suggest_what_may_be_meant(client):
    by_name = {"accelerator": "NVIDIA L40S", "region": "Stockholm, AWS eu-north-1"}
    by_id = {"accelerator": "nvidia-l40s-48gb", "region": "aws/eu-north-1"}
    pages = [await client.get("/answer", params=asked) for asked in (by_name, by_id)]
    assert pages[0].status_code == 200
    assert pages[0].text == pages[1].text
    found = (await client.get("/suggestions/accelerators?q=h100")).json()
    assert found[0]["value"] == "nvidia-h100-sxm-80gb"
    assert "3.35 TB/s" in found[0]["detail"]
    places = (await client.get("/suggestions/regions?q=stock")).json()
    assert "aws/eu-north-1" in [one["value"] for one in places]
    hub = (await client.get("/suggestions/models?q=acme/small")).json()
    assert hub[-1]["value"] == "hf:acme/small"
    assert (await client.get("/suggestions/models")).json()
    assert (await client.get("/suggestions/secrets")).status_code == 404


@pytest.mark.parametrize("path", ["", "training-", "compare-"])
async def test_answers_alone_hold_what_pages_hold(path, client):
    whole = {"": "./", "training-": "training", "compare-": "compare"}[path]
    query = "model=llama-3.1-8b&accelerator=h100"
    page, alone = [(await client.get(f"/{one}?{query}")).text for one in (whole, f"{path}answer")]
    result = alone.partition('<div id="results"')[2].partition("</body>")[0]
    assert result.split() == page.partition('<div id="results"')[2].partition("</main>")[0].split()
    assert len(alone) < 0.85 * len(page)
    wrong = await client.get(f"/{path}answer?accelerator_count=0")
    assert wrong.status_code == 422
    assert 'data-field="accelerator_count">must be at least 1</div>' in wrong.text


async def test_a_deployment_that_does_not_fit_is_told_what_would(client):
    text = (await client.get("/?accelerator=nvidia-l40s-48gb&accelerator_count=2")).text
    assert "It does not fit" in text
    assert "What would make it fit" in text
    assert "store the weights in" in text


async def test_a_recommendation_links_to_the_same_page(client):
    page = Page((await client.get("/?recommend=true&model=llama-3.1-8b")).text)
    links = [a["href"] for a in page.all("a") if a["href"].startswith("./?")]
    assert links
    assert (await client.get(links[0][1:])).status_code == 200


async def test_what_is_wrong_is_said_at_its_field(client):
    response = await client.get("/?model=lama-3.1-70b&accelerator=nvidia-h100-sxm-80gb")
    assert response.status_code == 422
    page = Page(response.text)
    model = next(a for a in page.all("input") if a["id"] == "model")
    assert model["aria-invalid"] == "true"
    said = response.text.partition('id="model-wrong">')[2].partition("</span>")[0]
    assert response.text.count("the catalog has nothing called") == 1
    # What may have been meant is a link that asks so.
    repair = Page(said).all("a")[0]["href"]
    assert parse_qs(repair[1:])["model"] == ["meta-llama/Llama-3.1-70B"]
    assert (await client.get(f"/{repair}")).status_code == 200
    many = Page((await client.get("/?concurrency=0&weights=bf17&tensor=x")).text)
    wrong = {a["id"] for a in many.all("input", "select") if "aria-invalid" in a}
    assert wrong == {"concurrency", "weights", "tensor"}
    unknown = await client.get("/?nonsense=1")
    assert unknown.status_code == 422
    assert "unknown parameter" in unknown.text


@pytest.mark.parametrize(
    "query",
    [
        "model=%3Cscript%3Ealert(1)%3C/script%3E",
        "region=%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E",
        "concurrency=%22%20autofocus%20onfocus=alert(1)%20x=%22",
        "%3Cb%3E=1",
    ],
)
@pytest.mark.parametrize("path", ["/", "/training", "/compare", "/embed", "/estimate.csv"])
async def test_hostile_text_stays_text(path, query, client):
    response = await client.get(f"{path}?{query}")
    assert response.status_code == 422
    if response.headers["content-type"].startswith("text/html"):
        page = Page(response.text)
        assert {a["src"].partition("?")[0] for a in page.all("script")} <= OWN_SCRIPTS
        for _, attributes in page.elements:
            assert not [name for name in attributes if name.startswith("on")]


async def test_a_pasted_configuration_is_a_model(client):
    query = {"accelerator": "nvidia-l40s-48gb", "accelerator_count": 1}
    text = (await client.get("/?" + urlencode(query | {"config": CONFIG}))).text
    same = (await client.get("/?" + urlencode(query | {"model": "llama-3.1-8b"}))).text
    assert "Your llama config.json" in text
    verdict = re.compile(r'<h1 id="verdict"[^>]*>([^<]*)<')
    assert verdict.findall(text) == verdict.findall(same)
    assert "v1/estimates/inference" not in text
    links = [a["href"] for a in Page(text).all("a") if a["href"].startswith("estimate.csv")]
    rows = table(await client.get(f"/{links[0]}"))
    assert any(row["figure"] == "memory.total_bytes" for row in rows)


@pytest.mark.parametrize(
    ("config", "detail"),
    [
        ('{"model_type": "llama",', "is not valid JSON"),
        ("{" + ",".join(f'"k{n}":{n}' for n in range(600)) + "}", "too large"),
        ('{"a":' + "[" * 900 + "]" * 900 + "}", "too deeply nested"),
        ("[1]", "is not a config.json"),
        ('{"model_type":"llama","hidden_size":"x"}', "hidden_size"),
        ('{"model_type":"llama","x":"' + "x" * 20_000 + '"}', "send it to POST"),
    ],
)
@pytest.mark.parametrize("path", ["/", "/training"])
async def test_what_is_wrong_with_a_pasted_configuration_is_said_there(
    path, config, detail, client
):
    response = await client.get(path, params={"config": config})
    assert response.status_code == 422
    assert detail in response.text.partition('id="config-wrong">')[2].partition("<")[0]
    area = Page(response.text).all("textarea")[0]
    assert area["aria-invalid"] == "true"


@pytest.mark.parametrize("name", ["nobody/nothing", "https://huggingface.co/nobody/nothing"])
async def test_a_hub_that_is_away_is_said_at_its_field(name, client, monkeypatch):
    async def away(self, name):
        raise HubAway("does not answer")

    monkeypatch.setattr("service.hub.hub.Hub.files", away)
    response = await client.get("/", params={"hub": name})
    assert response.status_code == 503
    assert response.headers["retry-after"]
    assert "below instead" in response.text.partition('id="hub-wrong">')[2].partition("<")[0]


async def test_a_model_of_the_hub_is_fetched(client, monkeypatch):
    async def files(self, name):
        assert str(name) == "acme/small"
        found = HubFiles(
            repository="acme/small",
            commit="a" * 40,
            url="https://hub.example/acme/small",
            year=2026,
            config=json.loads(CONFIG),
            elements_by_type=None,
            confirmed_at=0.0,
        )
        return found, False

    monkeypatch.setattr("service.hub.hub.Hub.files", files)
    text = (await client.get("/", params={"hub": "https://huggingface.co/acme/small"})).text
    assert "acme/small in BF16" in text
    assert "hidden_size" not in text.partition("</form>")[0]
    beside = (await client.get("/compare", params={"model_2": "hf:acme/small"})).text
    assert 'data-value="hf:acme/small"' in beside
    page = Page(text)
    assert any("hub=acme%2Fsmall" in image["src"] for image in page.all("img"))
    assert any("hub=acme%2Fsmall" in a["href"] for a in page.all("a"))
    assert (await client.get(f"/{page.all('img')[0]['src']}")).status_code == 200


async def test_training_is_shown_with_what_each_technique_would_take(client):
    query = "model=llama-3.1-8b&accelerator=nvidia-h100-sxm-80gb&accelerator_count=8"
    text = (await client.get(f"/training?{query}&zero_stage=0&tokens=1e9")).text
    memory = (await client.get(f"/v1/memory/training?{query}&zero_stage=0")).json()
    assert "It does not fit" in text
    assert "What would make it fit" in text
    assert f"{memory['total_bytes']['value'] / 1e9:.3g} GB</a>" in text
    grid = text.partition('<table class="grid cards">')[2].partition("</table>")[0]
    cells = [a["href"] for a in Page(grid).all("a")]
    assert len(cells) == 4 * 5
    assert 'value="1000000000"' in text
    whole = (await client.get(f"/{cells[-1]}")).text
    assert "It fits" in whole


async def test_deployments_stand_side_by_side(client):
    query = "model=llama-3.1-8b&accelerator=nvidia-l40s-48gb&accelerator_count=1&weights_2=fp8"
    response = await client.get(f"/compare?{query}&model_3=llama-3.1-70b")
    text = response.text
    assert "Only the first and the second fit" in text
    page = Page(text)
    columns = list(dict.fromkeys(a["href"] for a in page.all("a") if a["href"].startswith("./?")))
    assert len(columns) == 3
    assert "weights=fp8" in columns[1]
    assert "Llama-3.1-70B" in columns[2]
    rows = table(await client.get(f"/compare.csv?{query}"))
    assert {row["deployment"] for row in rows} == {"1", "2"}
    weights = [float(r["value"]) for r in rows if r["figure"] == "memory.weights_bytes"]
    assert weights[1] < weights[0]


async def test_a_wrong_deployment_leaves_the_others(client):
    response = await client.get("/compare?accelerator_2=h1oo&weights_3=fp8")
    assert response.status_code == 200
    page = Page(response.text)
    wrong = [a["id"] for a in page.all("input") if "aria-invalid" in a]
    assert wrong == ["accelerator_2"]
    assert "NVIDIA H100" in response.text.partition('id="accelerator_2-wrong">')[2][:900]


async def test_a_recommendation_can_be_taken_away(client):
    query = "model=llama-3.1-8b&input_tokens=512"
    text = (await client.get(f"/?recommend=true&{query}")).text
    links = [a["href"] for a in Page(text).all("a") if a["href"].startswith("recommendation.")]
    assert len(links) == 2
    report = await client.get(f"/{links[0]}")
    assert report.headers["content-type"] == "application/pdf"
    assert report.content.startswith(b"%PDF")
    rows = table(await client.get(f"/{links[1]}"))
    assert {"balanced", "lowest_carbon", "cheapest"} <= {
        one for row in rows for one in row["priorities"].split()
    }
    assert all(float(row["ttft_s"]) > 0 and row["precision_weights"] for row in rows)


RUN = "model=llama-3.1-8b&tokens=2e9&days=3&max_accelerators=64&search_in=anywhere"


def choices_of(text: str) -> str:
    """The table of options of a page."""
    return text.partition('class="cards advised"')[2].partition("</table>")[0]


async def test_options_stand_against_the_plan_within_what_the_form_asks(client):
    place = "&region=aws/eu-north-1"
    query = f"model=llama-3.1-8b&accelerator=h100&accelerator_count=2{place}&concurrency=16"
    limits = "&ttft_s=2&tpot_s=0.05&usd_per_month=6000&weight_bits_at_least=8&search_in=nordics"
    text = (await client.get(f"/?recommend=true&{query}{limits}")).text
    table = choices_of(text)
    rows = [row.partition("</tr>")[0] for row in table.split("<tr")[2:]]
    assert "Your plan" in rows[0]
    assert "BF16" in rows[0]
    assert len(rows) >= 2
    assert any("cheaper" in row for row in rows[1:])
    for row in rows[1:]:
        link = Page(row).all("a")[0]["href"]
        own = (await client.get(f"/{link}")).text
        # Opening a choice shows the figures that the table tells.
        told = re.findall(r'<td data-label="([^"]+)"><span class="\w*">([^<]+)</span>', row)
        figures = {name: text.replace("\N{NO-BREAK SPACE}", " ") for name, text in told}
        assert len(figures) == 5
        for name in ("Cost a month", "First token", "Each token"):
            assert f"<b>{figures[name]}</b>" in own, (name, link)
        assert "misses" not in own.partition('id="verdict"')[2].partition("</h1>")[0]
    assert "could cost" in text or "Cheaper: " in text


async def test_recommended_runs_lead_to_their_own_pages(client):
    text = (await client.get(f"/training?recommend=true&{RUN}")).text
    assert "configurations of" in text
    assert "length of the run 3 d" in text
    links = [a["href"] for a in Page(choices_of(text)).all("a")]
    assert len(links) >= 2
    body = {
        "model": "llama-3.1-8b",
        "training": {"tokens": 2e9, "sequence_length": 4096},
        "limits": {"days": 3},
        "search": {"max_accelerators": 64},
        "include": ["estimates"],
    }
    answer = (await client.post("/v1/recommendations/training", json=body)).json()
    candidate = answer["choices"][0]["candidate"]
    asked = parse_qs(links[0].partition("?")[2])
    assert asked["accelerator"] == [candidate["accelerator"]]
    assert asked["zero_stage"] == [str(candidate["training"]["zero_stage"])]
    # The page of a choice shows that very run.
    estimate = (await client.get(f"/v1/estimates/training?{training_query(links[0])}")).json()
    chosen = answer["choices"][0]["estimate"]
    for path in (("memory", "total_bytes"), ("latency", "step_s")):
        assert estimate[path[0]][path[1]] == chosen[path[0]][path[1]]
    own = await client.get(f"/{links[0]}")
    assert own.status_code == 200
    assert f"{chosen['memory']['total_bytes']['value'] / 1e9:.3g} GB" in own.text


def training_query(link: str) -> str:
    """The same run as a link to the API, as the page leads to it."""
    request = query_request(QueryParams(link.partition("?")[2]), TrainingPageRequest)
    return request.api_link()


async def test_what_comes_closest_is_said_where_no_run_meets_the_limits(client):
    text = (await client.get("/training?recommend=true&model=llama-3.1-8b&days=0.001")).text
    advice = html.unescape(text.partition('id="advice"')[2])
    assert "None of the candidates meets all limits" in advice
    assert "What comes closest" in advice
    assert "length of the run is" in advice
    assert "training-recommendation.pdf?" in advice
    assert "training-recommendation.csv?" not in advice


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("days", "-1", "greater than 0"),
        ("usd", "much", "number"),
        ("max_accelerators", "0", "at least 1"),
        ("global_batch_size", "1.5", "whole number"),
    ],
)
async def test_what_is_wrong_with_a_search_is_said_at_its_field(client, name, value, said):
    response = await client.get(f"/training?recommend=true&{name}={value}")
    assert response.status_code == 422
    assert said in html.unescape(response.text.partition(f'id="{name}-wrong">')[2][:300])


async def test_recommended_runs_can_be_taken_away(client):
    query = f"{RUN}&{urlencode({'config': CONFIG})}".replace("model=llama-3.1-8b&", "")
    text = (await client.get(f"/training?recommend=true&{query}")).text
    links = [a["href"] for a in Page(text).all("a") if a["href"].startswith("training-rec")]
    assert len(links) == 2
    report = await client.get(f"/{links[0]}")
    assert report.content.startswith(b"%PDF")
    rows = table(await client.get(f"/{links[1]}"))
    assert {"balanced", "fastest", "cheapest"} <= {
        one for row in rows for one in row["priorities"].split()
    }
    assert all(row["model"] == "inline" and float(row["days"]) <= 3.0 for row in rows)


async def test_a_run_can_be_taken_away_as_an_estimate_can(client):
    text = (await client.get(f"/training?{RUN}")).text
    page = Page(text)
    links = {a["href"].partition("?")[0]: a["href"] for a in page.all("a") if "href" in a}
    headline = re.search(r'<h1 id="verdict"[^>]*>([^<]+)<', text)[1]
    report = await client.get(f"/{links['training.pdf']}")
    assert report.content.startswith(b"%PDF")
    shared = (await client.get(f"/{links['training-share']}")).text
    assert headline in shared
    assert Page(shared).well_formed
    asked = re.search(r"curl &#39;http://test/(v1/estimates/training\?[^&]*.*?)&#39;", shared)[1]
    assert (await client.get(f"/{html.unescape(asked)}")).status_code == 200
    assert 'id="start"' in shared
    preview = re.search(r'og:image" content="http://test/([^"]+)', text)[1]
    picture = await client.get(f"/{html.unescape(preview)}")
    assert picture.headers["content-type"] == "image/png"


@pytest.mark.parametrize("path", ["/pictures/pareto-front", "/training/pictures/roofline"])
async def test_pictures_that_no_page_shows_are_not_drawn(path, client):
    assert (await client.get(path)).status_code == 404


async def test_the_page_is_kept_by_caches(client):
    first = await client.get(SMALL)
    again = await client.get(SMALL, headers={"If-None-Match": first.headers["etag"]})
    assert again.status_code == 304
    assert "content-security-policy" not in again.headers  # it would replace the page's
    assert (await client.get("/?model=x")).headers["cache-control"] == "no-store"


async def test_the_figures_can_be_downloaded(client):
    response = await client.get("/estimate.csv?model=llama-3.1-8b&accelerator=l40s")
    assert response.headers["content-type"].startswith("text/csv")
    rows = {row["figure"]: row for row in table(response)}
    assert float(rows["latency.tpot_s"]["low"]) < float(rows["latency.tpot_s"]["value"])
    assert rows["deployment.model"]["value"] == "meta-llama/Llama-3.1-8B"


async def test_assets_are_listed_and_nothing_else(client):
    for name, media_type in ASSETS.items():
        response = await client.get(f"/portal/{name}")
        assert response.headers["content-type"].startswith(media_type)
        assert response.headers["cache-control"] == "public, max-age=3600"
        named = await client.get(f"/portal/{name}?v=1")
        assert "immutable" in named.headers["cache-control"]
    assert (await client.get("/portal/views.py")).status_code == 404


async def test_the_badge_is_an_image_for_any_site(client):
    response = await client.get(
        "/v1/badges/inference?model=llama-3.1-8b&accelerator=l40s&region=SE",
        headers={"Origin": "https://example.org"},
    )
    assert response.headers["content-type"] == "image/svg+xml"
    assert response.headers["access-control-allow-origin"] == "*"
    assert response.headers["etag"]
    root = ElementTree.fromstring(response.text)  # noqa: S314 - our own text
    assert root.attrib["role"] == "img"
    assert "ms/token" in root.attrib["aria-label"]
    unknown = await client.get("/v1/badges/inference?model=nope&accelerator=l40s&region=SE")
    assert unknown.status_code == 422


async def test_who_may_frame_is_a_setting(client):
    open_policy = (await client.get("/embed")).headers["content-security-policy"]
    assert open_policy.endswith("frame-ancestors *")
    page_policy = (await client.get("/")).headers["content-security-policy"]
    assert page_policy.endswith("frame-ancestors 'none'")
    for origins, allowed in (
        (("https://a.example", "https://b.example"), "https://a.example https://b.example"),
        ((), "'none'"),
    ):
        app = create_app(
            Settings(embedded_database=False, log_level="error", embed_origins=origins)
        )
        async with LifespanManager(app, startup_timeout=None):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as other:
                policy = (await other.get("/embed")).headers["content-security-policy"]
        assert policy.endswith(f"frame-ancestors {allowed}")


async def test_a_frame_can_choose_its_looks(client):
    dark = (await client.get("/embed?theme=dark")).text
    assert 'data-theme="dark"' in dark
    assert "theme=dark" in dark
    assert "theme=light" not in dark
    assert "data-theme" not in (await client.get("/embed")).text


async def test_links_to_the_page_are_shown_as_frames(client):
    link = "http://test/?model=llama-3.1-8b&accelerator=nvidia-l40s-48gb&concurrency=8"
    told = (await client.get("/oembed", params={"url": link, "maxwidth": "500"})).json()
    assert (told["type"], told["version"], told["width"]) == ("rich", "1.0", 500)
    frame = ElementTree.fromstring(told["html"].replace("></iframe>", "/>"))  # noqa: S314
    assert frame.tag == "iframe"
    shown = await client.get(frame.attrib["src"])
    assert shown.status_code == 200
    assert "llama-3.1-8b" in shown.text.lower()
    page = (await client.get(link)).text
    discovery = html.unescape(page.split('type="application/json+oembed" href="')[1].split('"')[0])
    assert (await client.get(f"/{discovery}")).json()["title"] == told["title"].replace(
        "llama-3.1-8b", "meta-llama/Llama-3.1-8B"
    )


@pytest.mark.parametrize(
    ("url", "status"),
    [
        ("https://elsewhere.example/?model=llama-3.1-8b", 404),
        ("http://test/v1/models", 404),
        ("http://[", 422),
        ("", 422),
        ("/?colour=green", 422),
        ('/?model="><script>', 200),
    ],
)
async def test_other_links_are_not_shown(client, url, status):
    told = await client.get("/oembed", params={"url": url})
    assert told.status_code == status, told.text
    assert "<script" not in told.json().get("html", "")


async def test_the_component_is_small_and_stands_alone(client):
    script = (await client.get("/portal/headroom-estimate.js")).text
    assert len(script) < 15_000
    assert "import " not in script.replace("import.meta", "")
    assert "innerHTML" not in script
    example = (INSTALLATION / "docs" / "portal-example.html").read_text()
    assert "/portal/headroom-estimate.js" in example
    for attribute in re.findall(r"<headroom-estimate([^>]*)>", example):
        names = re.findall(r"([a-z-]+)=", attribute)
        known = flat_fields(InferenceRequest)
        assert {name.replace("-", "_") for name in names} - {"server", "theme"} <= set(known)


async def test_charts_have_pages_of_their_own_and_data_to_take(client):
    for address in ("/charts/throughput-latency", "/training/charts/memory-breakdown"):
        page = Page((await client.get(f"{address}?model=llama-3.1-8b")).text)
        assert page.well_formed
        assert page.all("figure")[0]["data-chart"].startswith("../")
    rows = await client.get("/pictures/throughput-latency?format=csv&concurrency=24")
    # Excel takes text for UTF-8 only with this mark before it.
    assert rows.content.startswith(b"\xef\xbb\xbf")
    found = table(rows)
    here = [row for row in found if row["series"] == "you are here"]
    assert [row["label"] for row in here] == ["24"]
    text = (await client.get("/charts/throughput-latency?concurrency=24")).text
    assert "you are here" in text
    assert "With 24 at once" in text
    assert (await client.get("/charts/pareto-front")).status_code == 404


async def test_what_pages_without_a_form_cannot_answer_leads_to_the_question(client):
    assert "How many: " in (await client.get("/places?accelerator_count=0")).text
    for path in ("/charts/roofline", "/training/charts/memory-breakdown", "/share"):
        assert "How many: " in (await client.get(f"{path}?accelerator_count=0")).text
        refused = await client.get(f"{path}?model=lama-3.1-8b")
        assert refused.status_code == 422
        page = Page(refused.text)
        assert page.well_formed
        assert "Model: " in refused.text
        links = [link["href"] for link in page.all("a")]
        assert any(link.startswith("?") and "Llama-3.1-8B" in link for link in links)
        asked = "training?" if path.startswith("/training") else "./?"
        assert any(f"{asked}model=lama" in link for link in links)


async def test_without_a_place_the_sensitivity_of_energy_is_shown(client):
    shown = await client.get("/charts/sensitivity?model=llama-3.1-8b")
    assert shown.status_code == 200
    assert "energy per request" in shown.text


async def test_a_link_with_a_region_draws_charts_that_need_none(client):
    asked = "model=llama-3.1-8b&accelerator=l40s&region=SE"
    for kind in ("memory-breakdown", "roofline", "throughput-latency"):
        assert (await client.get(f"/v1/charts/{kind}?{asked}")).status_code == 200
    wrong = await client.get(f"/v1/charts/memory-breakdown?{asked}&regoin=SE")
    assert wrong.status_code == 422


async def test_the_library_that_draws_charts_is_the_locked_packages(client):
    vl_convert = pytest.importorskip("vl_convert")
    licence = (INSTALLATION / "service/portal/static/LICENSE.vega").read_text()
    for version in (vl_convert.__version__, vl_convert.get_vega_version()):
        assert version in licence
    assert vl_convert.get_vega_embed_version() in licence
    packed = await client.get("/portal/vega.js", headers={"Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "vegaEmbed" in packed.text
