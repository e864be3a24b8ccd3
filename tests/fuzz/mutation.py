"""Bytes that were sound once: what a parser takes at first sight, damaged in ways that hurt."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import strategies as some

#: What parsers trip over: lengths beyond all bounds, openings that are never closed, numbers of a
#: thousand digits, text that is none.
_INTERESTING = (
    *(b"\xff" * 8, b"\0" * 8, b"\0", b"\x7f" + b"\xff" * 7, b"\xff" * 4, b"\0\0\0\x80"),
    *(b"[" * 300, b"{" * 300, b"{a: " * 300, b"- " * 300, b"? " * 300, b'[{"a":' * 300),
    *(b"1" * 5_000, b"1e999", b"-1e-999", b"NaN", b"Infinity", b"-0", b"0x10", b"1_0"),
    *(b'"', b"'", b",", b":", b"\n", b"\r", b"\t", b"*a", b"&a ", b"<<: ", b"!!float ", b"!x "),
    *(b"\xed\xa0\x80", b"\\ud800", b"\xff\xfe", b"\xef\xbb\xbf", "\u2028".encode(), b"=1+1"),
    *(b"<!DOCTYPE a>", b"&b;", b"<a>" * 300, b"null", b"true", b"[]", b"{}"),
)


@some.composite
def damaged(draw: some.DrawFn, sound: Sequence[bytes]) -> bytes:
    """One of some sound contents with up to eight places changed, cut or doubled."""
    content = bytearray(draw(some.sampled_from(sound)))
    for _ in range(draw(some.integers(0, 8))):
        # Heads are where the formats say what follows.
        reach = len(content) if draw(some.booleans()) else min(len(content), 300)
        at = draw(some.integers(0, reach))
        span = draw(some.integers(0, 40))
        match draw(some.sampled_from(["flip", "put", "instead", "cut", "double", "end"])):
            case "flip" if at < len(content):
                content[at] ^= 1 << draw(some.integers(0, 7))
            case "put":
                content[at:at] = draw(some.sampled_from(_INTERESTING) | some.binary(max_size=12))
            case "instead":
                piece = draw(some.sampled_from(_INTERESTING))
                content[at : at + len(piece)] = piece
            case "cut":
                del content[at : at + span]
            case "double":
                content[at:at] = content[at : at + span] * draw(some.integers(1, 50))
            case "end":
                del content[at:]
            case _:
                pass
    return bytes(content)
