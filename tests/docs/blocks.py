"""Blocks of code in a page, and curl's arguments as requests."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt

_ADDRESS = "http://127.0.0.1:8000"


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, text and line, and the comment before it."""

    language: str
    text: str
    line: int
    remark: str


@dataclass(frozen=True)
class Call:
    """What a curl command asks."""

    method: str
    path: str
    body: str | None
    headers: dict[str, str] = field(default_factory=dict)


def blocks(page: Path) -> list[Block]:
    """All fenced blocks of a page, in order."""
    found, remark = [], ""
    for token in MarkdownIt("commonmark").enable("table").parse(page.read_text()):
        if token.type == "fence":
            line = token.map[0] + 1 if token.map else 0
            found.append(Block(token.info.strip(), token.content, line, remark))
        if token.type == "html_block":
            remark = token.content
        elif token.type == "fence":
            remark = ""
    return found


def commands(text: str) -> list[list[str]]:
    """The commands of a shell block, with continued lines and quotes as a shell reads them."""
    text = re.sub(r"^#.*\n", "", text.replace("\\\n", " "), flags=re.MULTILINE)
    lexer = shlex.shlex(text, posix=True, punctuation_chars="\n")
    lexer.whitespace = " \t"
    lexer.whitespace_split = True
    lexer.commenters = ""
    parts: list[list[str]] = [[]]
    for token in lexer:
        if set(token) == {"\n"}:
            parts.append([])
        else:
            parts[-1].append(token)
    return [part for part in parts if part]


def call(command: list[str]) -> Call:
    """What a curl command of the kinds that the pages use would send.

    Raises
    ------
    ValueError
        If it is not of these kinds.
    """
    headers: dict[str, str] = {}
    url = body = method = None
    arguments = iter(command[1:])
    for argument in arguments:
        if argument == "-s":
            continue
        if argument == "-H":
            name, _, value = next(arguments).partition(":")
            headers[name] = value.strip()
        elif argument == "-d":
            body = next(arguments)
        elif argument == "-X":
            method = next(arguments)
        elif argument == "-o":
            next(arguments)  # where the answer is kept
        elif argument.startswith(_ADDRESS):
            url = argument.removeprefix(_ADDRESS)
        else:
            raise ValueError(f"curl {argument} is not understood here")
    if url is None:
        raise ValueError("no address of the service")
    return Call(method or ("GET" if body is None else "POST"), url, body, headers)


def expected_status(block: Block) -> int:
    """200 unless a comment before the block says ``answers NNN``."""
    said = re.search(r"answers (\d{3})", block.remark)
    return int(said[1]) if said else 200
