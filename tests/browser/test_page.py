"""The page as people use it: with a mouse, with a keyboard, without scripts."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from playwright.async_api import Browser, Page, expect

from tests.browser.conftest import NARROW, Visit, show_everything

SMALL = "/?model=llama-3.1-8b&accelerator=l40s&accelerator_count=1&region=SE"


def asked(page: Page) -> dict[str, str]:
    """What the address of a tab asks."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


async def test_choosing_is_answered_in_place(visit: Visit) -> None:
    async with visit("/?accelerator_count=4") as page:
        verdict = page.locator("#verdict")
        await expect(verdict).to_contain_text("It fits")
        await page.evaluate("document.stayed = true")
        await page.locator("#accelerator").select_option("nvidia-l4-24gb")
        await expect(verdict).to_contain_text("It does not fit")
        await expect(page.get_by_role("heading", name="What would make it fit")).to_be_visible()
        await expect(page.get_by_role("status")).to_contain_text("It does not fit")
        await expect(page).to_have_title(re.compile("It does not fit"))
        assert asked(page)["accelerator"] == "nvidia-l4-24gb"
        await page.locator("#model").select_option("meta-llama/Llama-3.1-8B")
        await expect(verdict).to_contain_text("It fits")
        assert await page.evaluate("document.stayed")
        await page.go_back()
        await expect(verdict).to_contain_text("It does not fit")
        await expect(page.locator("#model")).to_have_value("meta-llama/Llama-3.1-70B")


async def test_it_looks_the_same_when_it_comes_from_the_cache(visit: Visit) -> None:
    async with visit(SMALL) as page:
        colours = "getComputedStyle(document.querySelector('#verdict')).color"
        first = await page.evaluate(colours)
        async with page.expect_response(lambda one: one.url == page.url) as reloaded:
            await page.reload()
        assert (await reloaded.value).status in (200, 304)
        assert await page.evaluate(colours) == first


async def test_figures_are_those_of_the_api(visit: Visit) -> None:
    async with visit(SMALL) as page:
        link = await page.get_by_role("link", name="JSON").get_attribute("href")
        answer = await page.evaluate("link => fetch(link).then((one) => one.json())", link)
        gigabytes = answer["memory"]["total_bytes"]["value"] / 1e9
        await expect(page.locator("#verdict")).to_contain_text(f"{gigabytes:.3g} GB of")
        row = page.get_by_role("row", name=re.compile("^Total "))
        await expect(row).to_contain_text(f"{gigabytes:.3g} GB")


async def test_charts_are_drawn_and_said_in_words(visit: Visit) -> None:
    for viewport, width_px in ((None, 600), (NARROW, 340)):
        async with visit(SMALL, **({"viewport": viewport} if viewport else {})) as page:
            await show_everything(page)
            charts = await page.evaluate(
                "[...document.images].map((one) => [one.currentSrc, one.naturalWidth, one.alt])"
            )
            assert len(charts) >= 5
            for source, drawn_px, words in charts:
                assert drawn_px > 100, source
                assert f"width_px={width_px}" in source
                assert len(words) > 40
            words = page.locator("figcaption p").first
            await expect(words).to_contain_text("GB")


async def test_a_recommendation_leads_to_its_estimate(visit: Visit) -> None:
    async with visit(SMALL) as page:
        await page.get_by_role("button", name="Recommend").click()
        await expect(page.get_by_role("heading", name="Recommendation")).to_be_visible()
        await expect(page.locator("#advice + p")).to_contain_text("were evaluated")
        choice = page.locator("#results table a").first
        name = (await choice.inner_text()).partition(" × ")[2]
        await choice.click()
        await page.wait_for_url(re.compile(f"accelerator={re.escape(name)}"))
        await expect(page.locator("#verdict")).to_contain_text("It fits")
        await expect(page.locator("#accelerator")).to_have_value(name)


async def test_a_recommended_run_leads_to_its_page(visit: Visit) -> None:
    async with visit("/training?model=llama-3.1-8b") as page:
        days = page.get_by_label("Deadline [days]")
        await days.fill("20")
        # In the fields of a search, Enter searches.
        await days.press("Enter")
        await page.wait_for_url(re.compile("recommend=true"))
        await expect(page.get_by_role("heading", name="Recommendation")).to_be_visible()
        choice = page.locator("#results table.advised a").first
        name = (await choice.inner_text()).partition(" × ")[2]
        await choice.click()
        await page.wait_for_url(re.compile(f"accelerator={re.escape(name)}"))
        await expect(page.locator("#accelerator")).to_have_value(name)
        await expect(page.locator("#verdict")).to_contain_text("It fits")
        await expect(page.get_by_role("heading", name="Recommendation")).to_have_count(0)


async def test_a_link_shares_what_is_seen(visit: Visit) -> None:
    permissions = ["clipboard-read", "clipboard-write"]
    async with visit("/", permissions=permissions) as page:
        await page.locator("#concurrency").fill("3")
        await page.locator("#concurrency").press("Enter")
        await page.wait_for_url(re.compile("concurrency=3"))
        button = page.get_by_role("button", name="Copy link")
        await button.click()
        await expect(page.get_by_role("button", name="Link copied")).to_be_visible()
        link = await page.evaluate("navigator.clipboard.readText()")
        headlines = await page.locator(".headlines").inner_text()
    async with visit(link) as shared:
        assert await shared.locator(".headlines").inner_text() == headlines
        await expect(shared.locator("#concurrency")).to_have_value("3")


async def test_figures_can_be_taken_away(visit: Visit) -> None:
    async with visit(SMALL, accept_downloads=True) as page:
        async with page.expect_download() as started:
            await page.get_by_role("link", name="Download CSV").click()
        download = await started.value
        assert download.suggested_filename == "estimate.csv"
        text = (await download.path()).read_text()
        assert "memory.total_bytes" in text


async def focused(page: Page) -> str:
    """The id or text of what has the focus, which has to be seen to have it."""
    found = await page.evaluate(
        """() => {
            const one = document.activeElement;
            const { outlineStyle, outlineWidth } = getComputedStyle(one);
            const { left, right } = one.getBoundingClientRect();
            return {
                name: one.id || one.textContent.trim(),
                seen: outlineStyle !== "none" && parseFloat(outlineWidth) >= 2 && right > 0,
            };
        }"""
    )
    assert found["seen"] or found["name"] == "results", found
    return str(found["name"])


async def test_a_keyboard_is_enough(visit: Visit) -> None:
    async with visit(SMALL) as page:
        await page.keyboard.press("Tab")
        assert await focused(page) == "Skip to the result"
        await page.keyboard.press("Enter")
        assert await page.evaluate("document.activeElement.id") == "results"
        await page.keyboard.press("Tab")
        assert await focused(page) == "Download CSV"

        await page.goto(page.url.partition("#")[0])
        order = []
        while not order or order[-1] != "recommend":
            await page.keyboard.press("Tab")
            order.append(await focused(page))
            assert len(order) < 40, order
        fields = await page.evaluate(
            "[...document.querySelectorAll('form :is(select, input)')]"
            ".filter((one) => one.checkVisibility()).map((one) => one.id)"
        )
        assert len(fields) >= 9
        assert [name for name in order if name in fields] == fields

        await page.goto(page.url)
        while await page.evaluate("document.activeElement.id") != "accelerator_count":
            await page.keyboard.press("Tab")
        await page.keyboard.type("2")
        await page.keyboard.press("Enter")
        await page.wait_for_url(re.compile("accelerator_count=2"))
        await expect(page.get_by_role("status")).to_contain_text("It fits")
        # Where one was is where one is.
        assert await page.evaluate("document.activeElement.id") == "accelerator_count"


async def test_what_is_wrong_is_led_to(visit: Visit) -> None:
    async with visit("/?concurrency=0&weights=bf17", refused=True) as page:
        await expect(page.get_by_role("heading", level=1)).to_have_text("This cannot be answered")
        alert = page.get_by_role("alert")
        await alert.locator("[href='#concurrency']").click()
        field = page.locator("#concurrency")
        await expect(field).to_be_focused()
        assert await field.get_attribute("aria-invalid") == "true"
        await page.locator("#weights").select_option("bf16")
        await field.fill("4")
        await field.press("Enter")
        await expect(page.locator("#verdict")).to_contain_text("It fits")
        await expect(page.get_by_role("alert")).to_have_count(0)
        assert await page.locator("[aria-invalid]").count() == 0


async def test_it_works_without_scripts(visit: Visit) -> None:
    async with visit("/?accelerator_count=4", java_script_enabled=False) as page:
        await page.locator("#accelerator").select_option("nvidia-l4-24gb")
        await page.get_by_role("button", name="Estimate").click()
        await expect(page.locator("#verdict")).to_contain_text("It does not fit")
        await expect(page.get_by_role("button", name="Copy link")).to_be_hidden()


async def test_what_cannot_be_reached_is_said(browser: Browser, visit: Visit, address: str) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(address + SMALL)
    await context.set_offline(True)
    await page.locator("#concurrency").fill("3")
    await page.locator("#concurrency").press("Enter")
    await expect(page.get_by_role("status")).to_have_text(
        "The service cannot be reached. Nothing has changed; try again."
    )
    await context.close()


async def test_the_reference_runs_on_its_own(visit: Visit) -> None:
    async with visit("/docs") as page:
        await expect(page.locator("#operations-tag-estimates")).to_be_visible()
        await page.get_by_text("/v1/estimates/inference", exact=True).first.click()
        await expect(page.get_by_role("button", name="Execute")).to_have_count(0)
        await page.get_by_role("button", name="Try it out").first.click()
        await page.get_by_role("button", name="Execute").first.click()
        await expect(page.get_by_text("catalog_revision").first).to_be_visible()
