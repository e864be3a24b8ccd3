"""Every view can be used by everyone: axe-core, widths, schemes."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.async_api import Page

from tests.browser.conftest import NARROW, WIDE, Visit, show_everything
from tests.node.needs import PACKAGES

#: The linter, which is to look into frames of other sites as well.
AXE = (PACKAGES / "axe-core" / "axe.min.js").read_text() + (
    "; axe.configure({allowedOrigins: ['<unsafe_all_origins>']});"
)
#: WCAG 2.2, levels A and AA, and what axe-core advises beyond.
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
#: Those about colours, which take as long as all others: a page has the same at each width.
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}}
BUT_COLOURS = RULES | {"rules": {one: {"enabled": False} for one in COLOURS["runOnly"]["values"]}}

SMALL = "model=llama-3.1-8b&accelerator=l40s&accelerator_count=1&region=SE"
VIEWS = {
    "page": "/",
    "does-not-fit": "/?accelerator=nvidia-l40s-48gb&accelerator_count=2",
    "recommendation": f"/?recommend=true&{SMALL}",
    "training-recommendation": "/training?recommend=true&model=llama-3.1-8b&max_accelerators=16",
    "no-run": "/training?recommend=true&model=llama-3.1-8b&days=0.001&max_accelerators=16",
    "compare": "/compare",
    "refused": "/?concurrency=0&weights=bf17",
    "refused-limits": "/?model=llama-3.1-8b&accelerator=groq-lpu-v1",
    "frame": f"/embed?{SMALL}",
    "refused-frame": "/embed?model=nope",
    "share": f"/share?{SMALL}",
    "refused-chart": "/charts/roofline?model=lama-3.1-8b",
    "chart": f"/charts/throughput-latency?{SMALL}",
}


async def faults(page: Page, rules: dict[str, Any] = RULES) -> list[str]:
    """What axe-core finds in a tab by some rules, frames included, and where."""
    for frame in page.frames:
        if not await frame.evaluate("'axe' in window"):
            await frame.evaluate(AXE)
    options = rules | {"resultTypes": ["violations"]}
    found = await page.evaluate("options => axe.run(document, options)", options)
    return [
        f"{one['id']} at {[node['target'] for node in one['nodes']]}: {one['help']}"
        for one in found["violations"]
    ]


async def sideways_px(page: Page) -> int:
    """By how much the document is wider than the window [px]."""
    wider: int = await page.evaluate("document.documentElement.scrollWidth - innerWidth")
    return wider


@pytest.mark.parametrize("view", VIEWS)
async def test_views_can_be_used_by_everyone(view: str, visit: Visit) -> None:
    async with visit(VIEWS[view], view.startswith("refused"), color_scheme="light") as page:
        await show_everything(page)
        assert not await faults(page)
        assert await sideways_px(page) == 0
        await page.set_viewport_size(NARROW)
        await show_everything(page)
        assert not await faults(page, BUT_COLOURS)
        assert await sideways_px(page) == 0
        await page.set_viewport_size(WIDE)
        await page.emulate_media(color_scheme="dark")
        await show_everything(page)
        assert not await faults(page, COLOURS)
        assert await sideways_px(page) == 0


async def test_the_example_of_a_portal_can_be_used_by_everyone(portal: str, visit: Visit) -> None:
    looks = (("light", WIDE, RULES), ("light", NARROW, BUT_COLOURS), ("dark", WIDE, COLOURS))
    async with visit(portal, color_scheme="light") as page:
        await page.locator("headroom-estimate a").nth(1).wait_for()
        for scheme, viewport, rules in looks:
            await page.emulate_media(color_scheme=scheme)
            await page.set_viewport_size(viewport)
            await show_everything(page)
            assert not await faults(page, rules)
            assert await sideways_px(page) == 0


async def test_faults_would_be_found(visit: Visit) -> None:
    async with visit(f"/embed?{SMALL}") as page:
        await page.evaluate(
            """() => {
                document.querySelector("img").removeAttribute("alt");
                document.querySelector("dt").style.color = "gray";
                document.querySelector("main").style.width = "3000px";
            }"""
        )
        found = " ".join(await faults(page))
        assert "image-alt" in found
        assert "color-contrast" in found
        assert await sideways_px(page) > 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_the_page_takes_on_the_readers_scheme(scheme: str, visit: Visit) -> None:
    async with visit(f"/?{SMALL}", color_scheme=scheme) as page:
        await show_everything(page)
        background = await page.evaluate("getComputedStyle(document.body).backgroundColor")
        lightness = sum(int(part) for part in background[4:-1].split(",")) / 3
        assert (lightness > 128) == (scheme == "light")
        shown = await page.evaluate(
            "[...document.querySelectorAll('figure img')].map((one) => one.currentSrc)"
        )
        assert shown
        assert all(f"theme={scheme}" in source for source in shown)


#: Pages to read, which have the same in light and in dark, one of each kind.
READ = (
    "/learn",
    "/fleet",
    "/traffic",
    "/site",
    "/claims",
    "/techniques",
    "/catalog",
    "/catalog/accelerators",
    "/catalog/accelerators/h100",
    "/docs",
    "/docs/methodology",
    "/docs/api/createInferenceEstimate",
    "/docs/shapes/InferenceRequest",
    f"/places?{SMALL}",
    f"/steps?{SMALL}",
)


async def test_pages_to_read_can_be_used_by_everyone(visit: Visit) -> None:
    async with visit("/learn") as page:
        home = page.url.removesuffix("/learn")
        for at, path in enumerate(READ):
            await page.emulate_media(color_scheme="dark" if at % 2 else "light")
            await page.set_viewport_size(WIDE)
            await page.goto(f"{home}{path}")
            await show_everything(page)
            assert not await faults(page), path
            await page.set_viewport_size(NARROW)
            assert await sideways_px(page) == 0, path
