"""Memory and money in what people read, and times that hold for a share of requests."""

from __future__ import annotations

import re

from service.portal.training_questions import TrainingPageRequest

_ASKED = "/?model=llama-3.1-8b&accelerator=l40s&accelerator_count=1&region=aws/us-east-1"


def _figure(text: str, name: str) -> str:
    """A key figure of a page."""
    found = re.search(rf">{name}</button></span>\s*<b>([^<]+)</b>", text)
    assert found, name
    return found[1]


def _amount(text: str) -> float:
    return float(text.split()[0].replace(",", ""))


async def test_memory_and_money_come_in_what_was_asked(client):
    usual = (await client.get(_ASKED)).text
    chosen = (await client.get(f"{_ASKED}&memory_unit=GiB&currency=eur&per_usd=0.5")).text
    money = [_figure(text, "Cost a month") for text in (usual, chosen)]
    memory = [_figure(text, "Memory used, each") for text in (usual, chosen)]
    assert [one.split()[1] for one in (*money, *memory)] == ["USD", "EUR", "GB", "GiB"]
    assert abs(_amount(money[1]) / _amount(money[0]) - 0.5) < 0.01
    assert abs(_amount(memory[1]) / _amount(memory[0]) - 1e9 / 2**30) < 0.01
    # The next page is again in what is usual, and links keep the choice.
    assert _figure((await client.get(f"{_ASKED}&output_tokens=255")).text, "Cost a month").endswith(
        "USD"
    )
    assert "memory_unit=GiB" in chosen
    links = re.findall(r'href="(v1/[^"]+)"', chosen)
    assert links
    assert not any("memory_unit" in link or "per_usd" in link for link in links)


async def test_charts_say_memory_as_their_pictures_do(client):
    asked = f"{_ASKED}&output_tokens=222"
    chosen, usual = [(await client.get(f"{asked}{more}")).text for more in ("&memory_unit=GiB", "")]
    assert re.search(r"<h3>Inference fits with [\d.]+ GB ", chosen)
    assert re.search(r"<h3>Inference fits with [\d.]+ GB ", usual)


async def test_a_currency_needs_a_rate(client):
    answer = await client.get(f"{_ASKED}&currency=EUR")
    assert answer.status_code == 422
    assert "say how many EUR you get for 1 USD" in answer.text
    assert 'id="per_usd-wrong"' in answer.text


async def test_times_hold_for_a_share_of_requests_that_arrive(client):
    rate = f"{_ASKED}&requests_per_s=1.5&ttft_s=5"
    mean = (await client.get(rate)).text
    slowest = (await client.get(f"{rate}&percentile=p99")).text
    told = [re.search(r"first token takes ([^;]+);", text, re.I)[1] for text in (mean, slowest)]
    assert told[0] != told[1]
    assert "1.5 requests a second" in mean
    refused = await client.get(f"{_ASKED}&ttft_s=5&percentile=p95")
    assert refused.status_code == 422
    assert 'id="percentile-wrong"' in refused.text


def test_training_may_be_anything_that_the_api_can_recommend(packaged_snapshot):
    usual = TrainingPageRequest(weights="bf16").recommendation(packaged_snapshot)
    assert usual.trained.methods == ["full"]
    assert usual.trained.optimizers == ["adamw"]
    free = TrainingPageRequest(
        any_method=True, any_optimizer=True, any_format=False, weights="bf16", it_power_kw=20.0
    ).recommendation(packaged_snapshot)
    assert free.trained.methods == ["full", "lora", "qlora"]
    assert len(free.trained.optimizers) > len(usual.trained.optimizers)
    assert (usual.search.precisions, free.search.precisions) == (None, ["bf16"])
    assert free.limits.it_power_w == 20_000.0


async def test_a_place_is_chosen_on_a_map(client):
    text = (await client.get("/places?accelerator=l40s&concurrency=4&view=europe")).text
    dots = set(re.findall(r'data-region="([^"]+)"', text))
    assert "aws/eu-north-1" in dots
    assert "aws/us-east-1" not in dots
    links = dict(re.findall(r'<a href="([^"]+)" data-place="([^"]+)"', text))
    assert set(links.values()) == dots
    link = next(link for link, region in links.items() if region == "aws/eu-north-1")
    chosen = (await client.get(link.replace("&amp;", "&").removeprefix("."))).text
    assert 'value="Stockholm, AWS eu-north-1"' in chosen
    assert 'name="concurrency"' in chosen
    assert (await client.get("/training-places")).status_code == 200


async def test_the_list_of_places_tells_the_figure_of_a_grid_once(client):
    text = (await client.get("/places?accelerator=l40s&view=europe")).text
    sweden = text[text.index("<h3>Sweden</h3>") : text.index("<h3>Switzerland</h3>")]
    assert sweden.count("36\u00a0g\u00a0CO₂e/kWh") == 1
    assert sweden.count("<li>Stockholm: ") == 2
    assert 'aria-label="Stockholm, AWS"' in sweden
    assert ">CUDO Compute</a>, " in sweden
    # Two of a cloud in one town are told apart.
    assert 'aria-label="Frankfurt, OVHcloud DE1"' in text


async def test_better_options_are_for_as_many_requests_as_fit(client):
    asked = "model=llama-3.1-8b&accelerator=l40s&region=SE&concurrency=max&power_limit_w=300"
    page = (await client.get(f"/answer?{asked}&recommend=true")).text
    held = re.search(r"With ([\d,]+) requests at once", page)[1].replace(",", "")
    advised = re.search(r'<table class="cards advised">.*?</table>', page, re.DOTALL)[0]
    links = re.findall(r'<a href="\./\?([^"]+)">', advised)
    assert links
    # Opening an option changes no figure: it is for the same load, and at its full power.
    for link in links:
        assert f"concurrency={held}&" in link
        assert "power_limit_w" not in link
    assert "L40S at 300 W" in page


async def test_a_comparison_keeps_what_its_form_has_no_fields_for(client):
    asked = "model=llama-3.1-8b&accelerator=l40s&requests_per_s=2&engine=sglang"
    money = "currency=EUR&per_usd=0.9"
    page = (await client.get(f"/compare?{asked}&{money}&accelerator_2=h100")).text
    held = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]+)"', page))
    assert held == {"requests_per_s": "2", "engine": "sglang", "currency": "EUR", "per_usd": "0.9"}
    assert "2 requests a second" in page
