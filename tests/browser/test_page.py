"""The page as people use it: with a mouse, with a keyboard, without scripts."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

from playwright.async_api import Browser, Page, expect

from benchmarks.pages import BUDGETS, Transferred
from tests.browser.conftest import NARROW, Visit, show_everything

FRAME = "/embed?model=llama-3.1-8b&accelerator=l40s&accelerator_count=1&region=SE"
SMALL = "/?model=llama-3.1-8b&accelerator=l40s&accelerator_count=1&region=SE"


async def pick(page: Page, field: str, typed: str, name: str) -> None:
    """Choose a suggestion with the keyboard."""
    await page.locator(field).fill(typed)
    option = page.locator(f"{field}-options").get_by_role("option").filter(has_text=name).first
    await option.wait_for()
    while await option.get_attribute("aria-selected") != "true":
        await page.keyboard.press("ArrowDown")
    await page.keyboard.press("Enter")


def asked(page: Page) -> dict[str, str]:
    """What the address of a tab asks."""
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


async def test_choosing_is_answered_in_place(visit: Visit) -> None:
    async with visit("/?accelerator_count=4") as page:
        verdict = page.locator("#verdict")
        await expect(verdict).to_contain_text("It fits")
        await page.evaluate("document.stayed = true")
        await pick(page, "#accelerator", "L4 24", "NVIDIA L4")
        await expect(verdict).to_contain_text("It does not fit")
        await expect(page.get_by_role("heading", name="What would make it fit")).to_be_visible()
        await expect(page.get_by_role("status")).to_contain_text("It does not fit")
        await expect(page).to_have_title(re.compile("It does not fit"))
        assert asked(page)["accelerator"] == "nvidia-l4-24gb"
        await pick(page, "#model", "llama-3.1-8b", "meta-llama/Llama-3.1-8B")
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
        await expect(page.locator(".tiles")).to_contain_text(f"{gigabytes:.3g} GB")
        row = page.get_by_role("row", name=re.compile("^Total "))
        await expect(row).to_contain_text(f"{gigabytes:.3g} GB")


async def test_charts_are_drawn_and_said_in_words(visit: Visit) -> None:
    looks = [(SMALL, 5, None, 380), (FRAME, 1, None, 600), (FRAME, 1, NARROW, 380)]
    for address, least, viewport, width_px in looks:
        async with visit(address, **({"viewport": viewport} if viewport else {})) as page:
            await show_everything(page)
            charts = await page.evaluate(
                "[...document.querySelectorAll('figure img')]"
                ".map((one) => [one.currentSrc, one.naturalWidth, one.alt])"
            )
            assert len(charts) >= least
            for source, drawn_px, words in charts:
                assert drawn_px > 100, source
                assert f"width_px={width_px}" in source
                assert len(words) > 40
            words = page.locator("figcaption p").first
            await expect(words).to_contain_text("GB")


async def test_a_recommendation_leads_to_its_estimate(visit: Visit) -> None:
    async with visit(SMALL) as page:
        await page.get_by_role("link", name="Find better options").click()
        await expect(page.locator("#advice + p")).to_contain_text("were evaluated")
        # Options of an earlier question stay, and say so.
        await page.locator("#output_tokens").fill("300")
        await page.locator("#output_tokens").press("Tab")
        await expect(page.locator(".outdated .old-note")).to_contain_text("previous question")
        choice = page.locator("#results table.advised a").first
        name = (await choice.inner_text()).partition(" × ")[2]
        await choice.click()
        await page.wait_for_url(re.compile("accelerator="))
        await expect(page.locator("#verdict")).to_contain_text("It fits")
        await expect(page.locator("#accelerator")).to_have_value(re.compile(re.escape(name)))


async def test_a_recommended_run_leads_to_its_page(visit: Visit) -> None:
    async with visit("/training?model=llama-3.1-8b") as page:
        days = page.get_by_label("Deadline [days]")
        await days.fill("20")
        # In the fields of a search, Enter searches.
        await days.press("Enter")
        await page.wait_for_url(re.compile("recommend=true"))
        await expect(page.locator("#advice")).to_be_visible()
        choice = page.locator("#results table.advised a").first
        name = (await choice.inner_text()).partition(" × ")[2]
        await choice.click()
        await expect(page.locator("#accelerator")).to_have_value(re.compile(re.escape(name)))
        await expect(page.locator("#verdict")).to_contain_text("It fits")
        await expect(page.locator("#advice")).to_have_count(0)


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
        headlines = await page.locator(".tiles").inner_text()
    async with visit(link) as shared:
        assert await shared.locator(".tiles").inner_text() == headlines
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
        assert await focused(page) == "First token"
        # A term says what it means, and a figure why it is so; Escape closes both.
        for opened in ("#term-first-token", "#why-first-token"):
            await page.keyboard.press("Enter")
            await expect(page.locator(opened)).to_be_visible()
            await page.keyboard.press("Escape")
            await expect(page.locator(opened)).to_be_hidden()
            await page.keyboard.press("Tab")

        await page.goto(page.url.partition("#")[0])
        order = []
        while not order or order[-1] != "recommend":
            await page.keyboard.press("Tab")
            order.append(await focused(page))
            assert len(order) < 60, order
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
        await page.locator("#accelerator").fill("NVIDIA L4")
        await page.get_by_role("button", name="Show").click()
        await expect(page.locator("#verdict")).to_contain_text("It does not fit")
        await page.get_by_role("button", name="Why: First token").click()
        await expect(page.locator("#why-first-token")).to_contain_text("in nine cases out of ten")
        await expect(page.get_by_role("button", name="Copy link")).to_be_hidden()


async def test_what_cannot_be_reached_is_said(browser: Browser, visit: Visit, address: str) -> None:
    context = await browser.new_context()
    page = await context.new_page()
    await page.goto(address + SMALL)
    await context.set_offline(True)
    await page.locator("#concurrency").fill("")
    note = page.locator("#results .old-note")
    await expect(note).to_contain_text("This is the answer to your previous question.")
    await page.locator("#concurrency").fill("3")
    await expect(page.get_by_role("status")).to_contain_text("The service cannot be reached.")
    await context.set_offline(False)
    await page.get_by_role("button", name="Try again").click()
    await expect(note).to_have_count(0)
    await page.wait_for_url(re.compile("concurrency=3"))
    await context.close()


async def test_a_chart_tells_what_its_marks_are(visit: Visit) -> None:
    asked = "model=llama-3.1-8b&accelerator=l40s&accelerator_count=1&region=SE&concurrency=8"
    async with visit(f"/charts/throughput-latency?{asked}") as page:
        drawn = page.locator(".drawn")
        await drawn.wait_for()
        await page.locator(".drawn svg path[aria-roledescription=point]").last.hover(force=True)
        await expect(page.locator("#vg-tooltip-element")).to_contain_text("time to first token")
        await drawn.focus()
        await page.keyboard.press("ArrowRight")
        await expect(page.get_by_role("status")).to_contain_text("of: ")
        await expect(page.get_by_role("button", name="Copy data")).to_be_visible()
    async with visit(f"/charts/impacts-map?{asked}") as page:
        picture = page.locator(".drawn svg")
        await picture.wait_for()
        whole = await picture.get_attribute("viewBox")
        await page.get_by_role("button", name="Zoom in").click()
        assert await picture.get_attribute("viewBox") != whole
        await page.get_by_role("button", name="Whole map").click()
        assert await picture.get_attribute("viewBox") == whole


async def test_scenarios_are_kept_and_compared(visit: Visit) -> None:
    async with visit(SMALL) as page:
        await page.get_by_role("button", name="Keep as a scenario").click()
        await page.locator("#weights").select_option("fp8")
        await page.wait_for_url(re.compile("weights=fp8"))
        await expect(page.locator("#scenarios")).to_contain_text("BF16")
        # What differs in its load alone is no other plan: all are compared under the load of now.
        await page.get_by_role("button", name="Keep as a scenario").click()
        await page.locator("#concurrency").fill("4")
        await page.wait_for_url(re.compile("concurrency=4"))
        await page.get_by_role("link", name="Compare side by side, all with 4 at once").click()
        await expect(page.locator("table.compared thead th")).to_have_count(3)
        await expect(page.locator("#concurrency")).to_have_value("4")
        rows = page.locator("table.compared tr.differs")
        await expect(rows.first).to_contain_text("Weights")
        await expect(rows.first).to_contain_text("FP8")


async def test_on_a_phone_the_verdict_stays_in_view_while_choosing(visit: Visit) -> None:
    async with visit("/", viewport={"width": 390, "height": 844}) as page:
        await expect(page.locator("#question")).to_be_hidden()
        await page.get_by_role("link", name="Change the question").click()
        slider = page.get_by_label("Requests at once, slider")
        await slider.focus()
        await page.keyboard.press("End")
        await expect(page.locator("#concurrency")).to_have_value("1024")
        await expect(page.locator("#verdict")).to_contain_text("does not fit")
        await expect(page.locator("#verdict")).to_be_in_viewport()
        await page.get_by_role("link", name="Done").click()
        await expect(page.locator("#question")).to_be_hidden()


async def test_at_twice_the_size_everything_is_there(visit: Visit) -> None:
    # A window of 1,280 pixels that is zoomed to 200 % has half as many of them.
    zoomed = {"viewport": {"width": 640, "height": 450}, "device_scale_factor": 2}
    async with visit(SMALL, **zoomed) as page:
        wider = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
        assert wider == 0
        await expect(page.locator("#verdict")).to_be_in_viewport()
        await page.get_by_role("link", name="Change the question").click()
        await page.locator("#concurrency").fill("3")
        await page.wait_for_url(re.compile("concurrency=3"))
        await expect(page.locator("#verdict")).to_be_in_viewport()
        cut = await page.evaluate(
            """() => [...document.querySelectorAll("main *")].filter((one) => {
                const { overflowX } = getComputedStyle(one);
                return overflowX === "visible" && one.scrollWidth > one.clientWidth + 1
                    && one.clientWidth > 0 && one.checkVisibility() && !one.closest(".quiet");
            }).map((one) => one.outerHTML.slice(0, 80))"""
        )
        assert not cut


async def test_a_search_tells_how_far_it_is_and_can_be_cancelled(visit: Visit) -> None:
    async with visit(SMALL) as page:
        # An answer that never comes.
        await page.route(re.compile(r"/answer\?.*recommend"), lambda _: None)
        await page.get_by_role("link", name="Find better options").click()
        bar = page.get_by_role("progressbar", name="Searching")
        await expect(bar).to_be_visible()
        assert 0.0 < float(str(await bar.get_attribute("value"))) < 1.0
        await expect(page.locator("#notice")).to_contain_text(re.compile("left|longer than usual"))
        await page.get_by_role("button", name="Cancel").click()
        note = page.locator("#results .old-note")
        await expect(note).to_contain_text("The new one was cancelled.")
        # What is asked next is answered, and the note goes.
        await page.unroute_all(behavior="ignoreErrors")
        await page.locator("#concurrency").fill("3")
        await page.wait_for_url(re.compile("concurrency=3"))
        await expect(note).to_have_count(0)


async def test_pages_weigh_little(visit: Visit) -> None:
    async with visit("/learn") as page:
        counted = Transferred()
        await counted.watch(await page.context.new_cdp_session(page))
        await page.goto(page.url.replace("/learn", SMALL))
        await page.wait_for_load_state("networkidle")
        assert 5_000 < counted.total_bytes <= BUDGETS["first_visit_bytes"]
        await page.locator("#output_tokens").fill("300")
        await page.wait_for_url(re.compile("output_tokens=300"))
        await page.wait_for_load_state("networkidle")
        answers = [size for at, size in counted.by_address.items() if at.endswith("/answer")]
        assert 1_000 < sum(answers) <= BUDGETS["change_bytes"]


async def test_hardware_is_suggested_with_a_picture(visit: Visit) -> None:
    async with visit(SMALL) as page:
        await page.locator("#accelerator").fill("H100")
        options = page.locator("#accelerator-options [role=option]")
        await options.first.wait_for()
        pictures = page.locator("#accelerator-options svg.hardware")
        assert await pictures.count() == await options.count()
        assert await pictures.first.evaluate("(one) => one.getBoundingClientRect().width") > 20
