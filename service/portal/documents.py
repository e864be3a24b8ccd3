"""The documentation as pages: Markdown of the installation's ``docs`` folder."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from service.portal.rendering import rendered
from service.settings import INSTALLATION

if TYPE_CHECKING:
    from markdown_it.token import Token

DOCUMENTS = INSTALLATION / "docs"
#: Chapters that are made when the documentation site is built, and the pages that hold the same.
_ELSEWHERE = {
    "data-sources": "catalog/sources",
    "reference/api": "docs",
    "reference/figures": "catalog",
    "reference/core/index": "docs/methodology",
    "reference/exceptions": "docs",
}
_OUTSIDE = re.compile(r"[a-z]+:|//|#")
#: Sections from which on a document begins with a list of them.
_MANY_SECTIONS = 8


def document_names() -> frozenset[str]:
    """Names of the documents there are, as their addresses end."""
    return _names(DOCUMENTS)


@lru_cache(maxsize=2)
def _names(folder: Path) -> frozenset[str]:
    return frozenset(
        path.relative_to(folder).with_suffix("").as_posix() for path in folder.rglob("*.md")
    )


@lru_cache(maxsize=64)
def document_page(name: str) -> str:
    """A document as a page.

    Parameters
    ----------
    name
        One of :func:`document_names`.

    Raises
    ------
    KeyError
        If there is no such document.
    """
    if name not in document_names():
        raise KeyError(name)
    up = "../" * (1 + name.count("/"))
    markdown = (DOCUMENTS / f"{name}.md").read_text(encoding="utf-8")
    title, sections, text = _as_html(markdown, name, up)
    heading, closed, below = text.partition("</h1>")
    trail: tuple[tuple[str, str], ...] = (("learn", "How we know"),)
    if name != "index":
        trail += (("docs/index", "Documentation"),)
    return rendered(
        "document.html",
        up=up,
        here="How we know",
        title=title,
        trail=trail,
        sections=sections if len(sections) >= _MANY_SECTIONS else (),
        heading=heading + closed,
        text=below,
    )


def _as_html(markdown: str, name: str, up: str) -> tuple[str, list[tuple[str, str]], str]:
    """Title, sections (anchor and name) and text of a document.

    Links are as they are between pages.
    """
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark").enable("table")
    tokens = parser.parse(markdown)
    title = name
    headings: dict[str, int] = {}
    sections: list[tuple[str, str]] = []
    tables = 0
    shown: list[Token] = []
    for at, token in enumerate(tokens):
        if token.type == "heading_open":
            words = _plain(tokens[at + 1])
            anchor = _anchor(words, headings)
            if token.tag == "h1":
                title = words
            elif token.tag == "h2":
                sections.append((anchor, words))
            token.attrSet("id", anchor)
        for inner in token.children or ():
            if inner.type == "link_open":
                inner.attrSet("href", _link(str(inner.attrs.get("href", "")), name, up))
            elif inner.type == "image":
                inner.attrSet("src", str(inner.attrs.get("src", "")))
        if token.type in ("th_open", "td_open") and "text-align:right" in str(
            token.attrGet("style")
        ):
            token.attrSet("class", "figure")
        # Pages of this service take no style that stands in their text.
        token.attrs.pop("style", None)
        if token.type == "th_open" and not tokens[at + 1].content:
            # A cell above row headings has nothing to say, and is none of the headings.
            token.tag = tokens[at + 2].tag = "td"
        if token.type == "table_open":
            tables += 1
            shown.append(_opening(f"Table {tables}"))
        shown.append(token)
        if token.type == "table_close":
            shown.append(_closing())
    return title, sections, parser.renderer.render(shown, parser.options, {})


def _opening(name: str) -> Token:
    """What a wide table scrolls in, which the keyboard has to reach."""
    from markdown_it.token import Token

    words = f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">\n'
    return Token("html_block", "", 0, content=words)


def _closing() -> Token:
    from markdown_it.token import Token

    return Token("html_block", "", 0, content="</div>\n")


def _plain(inline: Token) -> str:
    """Words of a heading without their markup."""
    return "".join(one.content for one in inline.children or ())


def _anchor(words: str, taken: dict[str, int]) -> str:
    """The name of a heading in addresses, as the documentation site gives it."""
    name = re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", words.casefold()).strip())
    name = name.encode("ascii", "ignore").decode() or "part"
    taken[name] = taken.get(name, -1) + 1
    return f"{name}_{taken[name]}" if taken[name] else name


def _link(address: str, name: str, up: str) -> str:
    """An address of a file of the folder as one of a page."""
    if _OUTSIDE.match(address):
        return address
    target, _, place = address.partition("#")
    anchor = f"#{place}" if place else ""
    if not target.endswith(".md"):
        inside = _joined(name, target)
        return f"{up}openapi.json" if inside == "openapi.json" else f"{up}docs/index"
    inside = _joined(name, target.removesuffix(".md"))
    if inside in document_names():
        return f"{up}docs/{inside}{anchor}"
    return f"{up}{_ELSEWHERE.get(inside, 'docs/index')}"


def _joined(name: str, target: str) -> str:
    """A relative address as seen from the folder."""
    parts = name.split("/")[:-1]
    for part in target.split("/"):
        if part == "..":
            parts = parts[:-1]
        elif part not in ("", "."):
            parts.append(part)
    return "/".join(parts)
