"""The component, the frame and the badge in pages of other sites."""

from __future__ import annotations

from playwright.async_api import Browser, expect

from tests.api.conftest import served
from tests.browser.conftest import Visit, site


async def test_the_example_shows_all_three(portal: str, address: str, visit: Visit) -> None:
    async with visit(portal) as page:
        estimates = page.locator("headroom-estimate")
        assert await estimates.count() == 2
        for estimate in await estimates.all():
            await expect(estimate.get_by_role("heading")).to_contain_text("It fits")
            await expect(estimate).to_contain_text("Each next token")
            await expect(estimate).to_contain_text("32 at once, 2,048 + 256 tokens")
        link = await estimates.first.get_by_role("link").get_attribute("href")
        assert link
        assert link.startswith(f"{address}/?")
        frame = page.frame_locator("iframe")
        await expect(frame.get_by_role("heading", level=1)).to_contain_text("It fits")
        await expect(frame.get_by_role("img")).to_be_visible()
        badge = page.locator("main > p > img")
        assert await badge.evaluate("async (one) => (await one.decode(), one.naturalWidth)") > 100


async def test_the_component_tells_the_page_and_follows_it(portal: str, visit: Visit) -> None:
    async with visit(portal) as page:
        estimate = page.locator("headroom-estimate").first
        await estimate.get_by_role("link").wait_for()
        answered = page.evaluate(
            """() => new Promise((resolve) => {
                const one = document.querySelector("headroom-estimate");
                document.addEventListener("headroom-answer", (event) => resolve(event.detail));
                one.setAttribute("accelerator-count", "1");
                one.setAttribute("theme", "dark");
            })"""
        )
        answer = await answered
        assert answer["deployment"]["accelerator_count"] == 1
        await expect(estimate.get_by_role("heading")).to_contain_text("It does not fit")
        background = await estimate.evaluate(
            "(one) => getComputedStyle(one.shadowRoot.querySelector('section')).backgroundColor"
        )
        assert background == "rgb(23, 24, 28)"


async def test_the_component_says_what_is_wrong(address: str, browser: Browser) -> None:
    text = (
        f'<script type="module" src="{address}/portal/headroom-estimate.js"></script>'
        '<headroom-estimate model="lama-3.1-70b" accelerator="h100" region="SE">'
        "</headroom-estimate>"
    )
    with served(site(text)) as elsewhere:
        page = await browser.new_page()
        await page.goto(elsewhere)
        estimate = page.locator("headroom-estimate")
        await expect(estimate.get_by_role("heading")).to_have_text("This cannot be answered")
        await expect(estimate).to_contain_text("Llama-3.1-70B")
        await page.close()


async def test_the_component_keeps_its_looks_on_any_site(address: str, browser: Browser) -> None:
    asked = 'model="llama-3.1-8b" accelerator="l40s" accelerator-count="1" region="SE"'
    element = f"<headroom-estimate {asked}></headroom-estimate>"
    text = (
        "<style>html { font-size: 8px } .loud * { text-transform: uppercase; letter-spacing: 4px;"
        "  line-height: 3; text-align: center; white-space: nowrap; color: red; font-size: 30px }"
        "  .narrow { width: 170px }</style>"
        f'<script type="module" src="{address}/portal/headroom-estimate.js"></script>'
        f'<div class="plain">{element}</div><div class="loud">{element}</div>'
        f'<div class="narrow">{element}</div>'
    )
    looks = """(one) => {
        const shown = one.shadowRoot.querySelector("section");
        const of = (part) => ["color", "fontSize", "letterSpacing", "textTransform", "whiteSpace"]
            .map((name) => getComputedStyle(part)[name]);
        return [of(shown), of(shown.querySelector("h2")), shown.querySelector("dt").innerText,
            shown.getBoundingClientRect().height];
    }"""
    with served(site(text)) as elsewhere:
        page = await browser.new_page()
        await page.goto(elsewhere)
        await expect(page.get_by_role("link")).to_have_count(3)
        plain = await page.locator(".plain headroom-estimate").evaluate(looks)
        assert await page.locator(".loud headroom-estimate").evaluate(looks) == plain
        narrow = await page.locator(".narrow headroom-estimate").evaluate(looks)
        assert narrow[:-1] == plain[:-1]
        # Words stay whole where they stand in a narrow column.
        assert narrow[-1] < 3 * plain[-1]
        inside = "(one) => one.shadowRoot.lastChild.scrollWidth <= one.offsetWidth"
        assert await page.locator(".narrow headroom-estimate").evaluate(inside)
        await page.close()


async def test_a_frame_leads_to_the_page(portal: str, address: str, visit: Visit) -> None:
    async with visit(portal) as page:
        await page.frame_locator("iframe").get_by_role("link", name="Open in Headroom").click()
        await page.wait_for_url(f"{address}/?**")
        await expect(page.locator("#verdict")).to_contain_text("It fits")


async def test_the_page_itself_is_not_framed(address: str, browser: Browser) -> None:
    with served(site(f'<iframe src="{address}/" title="page"></iframe>')) as elsewhere:
        page = await browser.new_page()
        refusals: list[str] = []
        page.on("console", lambda message: refusals.append(message.text))
        await page.goto(elsewhere)
        await page.wait_for_load_state("networkidle")
        assert await page.frame_locator("iframe").locator("form").count() == 0
        assert any("frame-ancestors" in text for text in refusals), refusals
        await page.close()
