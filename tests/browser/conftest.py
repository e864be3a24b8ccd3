"""A real browser, and pages in it that nothing may go wrong in."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    Request,
    async_playwright,
    expect,
)
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from service.api.app import create_app
from service.settings import INSTALLATION, Settings
from tests.api.conftest import served
from tests.node.needs import BROWSER, browser_environment

WIDE = {"width": 1280, "height": 900}
#: The width at which text has to flow anew without scrolling sideways (WCAG 2.2, 1.4.10).
NARROW = {"width": 320, "height": 640}

#: Nothing of these asks for what the tests look at; they keep the browser from talking to others.
_ARGUMENTS = [
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-gpu",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
]

# What is expected comes when it comes: a machine that is busy elsewhere is no fault.
expect.set_options(timeout=600_000)

Visit = Callable[..., AbstractAsyncContextManager[Page]]


@dataclass
class Record:
    """What happened in a tab beside what it shows."""

    complaints: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)

    def watch(self, page: Page) -> None:
        """Write down errors, breaches of the content policy, and requests to other machines."""
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.text} ({message.location.get('url')})")

    def _request(self, request: Request) -> None:
        address = urlsplit(request.url)
        if address.scheme not in ("blob", "data") and address.hostname != "127.0.0.1":
            self.elsewhere.append(request.url)


@pytest.fixture(scope="session")
async def browser() -> AsyncIterator[Browser]:
    path = os.environ[BROWSER]
    async with async_playwright() as playwright:
        started = await playwright.chromium.launch(
            executable_path=path,
            args=_ARGUMENTS,
            env={**os.environ, **browser_environment(path)},
        )
        yield started
        await started.close()


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """The service on the packaged catalog."""
    application = create_app(Settings(embedded_database=False, log_level="error"))
    with served(application) as found:
        yield found


def site(text: str) -> Any:
    """Another site, with one page."""
    icon = Route("/favicon.ico", lambda _: Response(status_code=204))
    return Starlette(routes=[Route("/", lambda _: HTMLResponse(text)), icon])


@pytest.fixture(scope="session")
def portal(address: str) -> Iterator[str]:
    """The example page of a portal, on a server of its own."""
    example = (INSTALLATION / "docs" / "portal-example.html").read_text()
    with served(site(example.replace("http://127.0.0.1:8000", address))) as found:
        yield found


@pytest.fixture
def visit(browser: Browser, address: str) -> Visit:
    """Opens a tab at a path of the service, or at a whole address, and looks after it."""

    @asynccontextmanager
    async def opened(path: str, refused: bool = False, **context: Any) -> AsyncIterator[Page]:
        """A tab; ``refused`` where the service is to answer that it cannot."""
        made: BrowserContext = await browser.new_context(**{"viewport": WIDE} | context)
        record = Record()
        page = await made.new_page()
        record.watch(page)
        answer = await page.goto(path if "//" in path else address + path)
        assert answer is not None
        assert answer.status == (422 if refused else 200)
        try:
            yield page
            await page.wait_for_load_state("networkidle")
        finally:
            await made.close()
        # The browser itself remarks that a page was answered with 422.
        complaints = [one for one in record.complaints if not (refused and "422" in one)]
        assert not complaints
        assert not record.elsewhere

    return opened


async def show_everything(page: Page) -> None:
    """Open what is folded and wait for images that load when they are looked at."""
    await page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
    # A picture may make room for a drawn chart meanwhile.
    await page.evaluate("for (const one of document.images) one.loading = 'eager'")
    await page.wait_for_function("() => [...document.images].every((one) => one.complete)")
    await page.evaluate("scrollTo(0, 0)")
