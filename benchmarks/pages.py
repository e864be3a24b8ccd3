"""``python -m benchmarks.pages``: what pages weigh, and how soon a browser has painted an answer.

Times are ratios to a bare page of the same service in the same browser and run: its form sends the
same question, and shows the answer's text as it comes, without verdict, figures and charts.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import statistics
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Browser, CDPSession, Page, async_playwright
from rich.console import Console
from rich.table import Table
from starlette.responses import HTMLResponse

from service.api.app import create_app
from service.settings import Settings
from tests.api.conftest import served
from tests.node.needs import BROWSER, browser_environment, missing

ROUNDS = 5
#: What pages may weigh [B] and how soon they are to have painted [ms].
BUDGETS = {
    "first_visit_bytes": 150_000,
    "change_bytes": 20_000,
    "change_painted_ms": 250.0,
    "charts_painted_ms": 700.0,
}
_QUESTION = "model=llama-3.1-8b&accelerator=l40s&accelerator_count=1&region=SE&concurrency=4"
_BARE = """<!doctype html><html lang="en"><title>Bare</title><form><input id="output_tokens"></form>
<pre id="answer"></pre><script>
document.getElementById("output_tokens").addEventListener("change", async (event) => {
  const answer = await fetch(`v1/estimates/inference?%s&output_tokens=${event.target.value}`);
  document.getElementById("answer").textContent = await answer.text();
  requestAnimationFrame(() => requestAnimationFrame(() => { window.painted = performance.now(); }));
});</script></html>"""
#: Changes a field as people do, and tells how long it took until the answer was painted.
_CHANGE = """async (value) => {
  const field = document.getElementById("output_tokens");
  const began = performance.now();
  const painted = new Promise((done) => document.addEventListener(
    "answered",
    () => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))),
    {once: true}));
  field.value = value;
  field.dispatchEvent(new Event("input", {bubbles: true}));
  field.form.requestSubmit();
  return (await painted) - began;
}"""
_CHANGE_BARE = """async (value) => {
  const field = document.getElementById("output_tokens");
  const began = performance.now();
  window.painted = 0;
  field.value = value;
  field.dispatchEvent(new Event("change"));
  while (!window.painted) await new Promise((done) => requestAnimationFrame(done));
  return window.painted - began;
}"""
#: Asks for all charts of the page at once, and tells how long until the last is there.
_CHARTS = """async () => {
  const began = performance.now();
  for (const image of document.images) image.loading = "eager";
  await Promise.all([...document.images].map((image) => image.decode().catch(() => {})));
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return performance.now() - began;
}"""


class Transferred:
    """Bytes that came over the wire to a tab, headers and compression included."""

    def __init__(self) -> None:
        self.total_bytes = 0.0
        self.by_address: dict[str, float] = {}
        self._addresses: dict[str, str] = {}

    async def watch(self, session: CDPSession) -> None:
        """Count from now on."""
        session.on("Network.responseReceived", self._named)
        session.on("Network.loadingFinished", self._finished)
        await session.send("Network.enable")

    def _named(self, event: dict[str, Any]) -> None:
        self._addresses[event["requestId"]] = event["response"]["url"]

    def _finished(self, event: dict[str, Any]) -> None:
        size = float(event["encodedDataLength"])
        address = self._addresses.get(event["requestId"], "").partition("?")[0]
        self.total_bytes += size
        self.by_address[address] = self.by_address.get(address, 0.0) + size


@asynccontextmanager
async def _tab(browser: Browser, address: str) -> AsyncIterator[tuple[Page, Transferred]]:
    context = await browser.new_context(viewport={"width": 1280, "height": 900})
    page = await context.new_page()
    counted = Transferred()
    await counted.watch(await context.new_cdp_session(page))
    await page.goto(address)
    await page.wait_for_load_state("networkidle")
    yield page, counted
    await context.close()


def _bare_page() -> HTMLResponse:
    """The yardstick, which may run what stands in it."""
    policy = {"Content-Security-Policy": "default-src 'self' 'unsafe-inline'"}
    return HTMLResponse(_BARE % _QUESTION, headers=policy)


async def measure(rounds: int) -> dict[str, Any]:
    """Weights and times of the page, each the median of the rounds, beside the bare page."""
    path = os.environ[BROWSER]
    application = create_app(Settings(embedded_database=False, log_level="error"))
    application.add_api_route("/bare", _bare_page, include_in_schema=False)
    first, change, changed, bare, charts = [], [], [], [], []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=path,
            args=["--disable-gpu"],
            env={**os.environ, **browser_environment(path)},
        )
        with served(application) as home:
            for at in range(rounds + 1):
                async with _tab(browser, f"{home}/?{_QUESTION}&input_tokens={1000 + at}") as (
                    page,
                    counted,
                ):
                    weight = counted.total_bytes
                    before = counted.total_bytes
                    took_ms = await page.evaluate(_CHANGE, str(300 + at))
                    step = counted.by_address.get(f"{home}/answer", 0.0)
                    drawn_ms = await page.evaluate(_CHARTS)
                async with _tab(browser, f"{home}/bare") as (page, _):
                    bare_ms = await page.evaluate(_CHANGE_BARE, str(600 + at))
                # The first round starts what is started once.
                if at:
                    first.append(weight)
                    change.append(step or counted.total_bytes - before)
                    changed.append(took_ms)
                    bare.append(bare_ms)
                    charts.append(drawn_ms)
        await browser.close()
    bare_ms = statistics.median(bare)
    figures = {
        "first_visit_bytes": statistics.median(first),
        "change_bytes": statistics.median(change),
        "change_painted_ms": statistics.median(changed),
        "charts_painted_ms": statistics.median(charts),
        "bare_change_painted_ms": bare_ms,
    }
    return figures | {
        "change_to_bare_ratio": figures["change_painted_ms"] / bare_ms,
        "charts_to_bare_ratio": figures["charts_painted_ms"] / bare_ms,
        "machine": platform.platform(),
        "processors": os.cpu_count(),
    }


def main() -> None:
    """Measure, and print a table or JSON."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.pages", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="visits, of which medians are")
    given = parser.parse_args()
    for problem in missing().values():
        parser.exit(1, f"{problem}\n")
    figures = asyncio.run(measure(given.rounds))
    if given.json:
        print(json.dumps(figures))
        return
    table = Table("", "measured", "budget", "to the bare page")
    for name, most in BUDGETS.items():
        ratio = figures.get(name.replace("_painted_ms", "_to_bare_ratio"))
        told = f"{ratio:.1f} ×" if isinstance(ratio, float) and ratio != figures[name] else ""
        table.add_row(name.replace("_", " "), f"{figures[name]:,.0f}", f"{most:,.0f}", told)
    Console().print(table)


if __name__ == "__main__":
    main()
