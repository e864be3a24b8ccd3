"""Answers are compressed for those who accept it, and caches can tell the forms apart."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import pytest
from starlette.responses import Response, StreamingResponse

from service.api.http.compression import Compression, accepts_gzip, plain_tag
from service.api.http.repeated import RepeatedAnswers
from tests.api.conftest import MAIN

PATH = "/v1/estimates/inference"
LINK = "/v1/memory/inference?model=llama-3.1-8b&accelerator=nvidia-l40s-48gb"
PLAIN = {"Accept-Encoding": "identity"}
PACKED = {"Accept-Encoding": "gzip"}


async def sent_by(app: Any, accept: str = "gzip") -> tuple[dict[bytes, bytes], list[bytes]]:
    """Headers and pieces of what an application sends."""
    headers: dict[bytes, bytes] = {}
    pieces: list[bytes] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        headers.update(message.get("headers", ()))
        if "body" in message:
            pieces.append(message["body"])

    scope: dict[str, Any] = {"type": "http", "method": "GET", "path": "/a"}
    scope |= {
        "query_string": b"",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
    }
    await app(scope | {"headers": [(b"accept-encoding", accept.encode())]}, receive, send)
    return headers, pieces


@pytest.mark.parametrize(
    ("accept", "accepted"),
    [
        ("gzip", True),
        ("deflate, GZIP;q=0.5, br", True),
        ("br,x-gzip", True),
        ("gzip;q=0", False),
        ("br, gzip; q=0.0, zstd", False),
        ("gzipped", False),
        ("identity", False),
        ("", False),
    ],
)
def test_who_accepts_gzip(accept: str, accepted: bool) -> None:
    assert accepts_gzip({"headers": [(b"accept-encoding", accept.encode())]}) is accepted


async def test_compressed_answers_say_the_same_in_half_the_bytes(client) -> None:
    async with client.stream("POST", PATH, json=MAIN, headers=PACKED) as response:
        packed = b"".join([piece async for piece in response.aiter_raw()])
    plain = await client.post(PATH, json=MAIN, headers=PLAIN)
    assert response.headers["content-encoding"] == "gzip"
    assert int(response.headers["content-length"]) == len(packed) < len(plain.content) / 2
    assert gzip.decompress(packed) == plain.content
    assert "content-encoding" not in plain.headers
    for headers in (response.headers, plain.headers):
        assert "Accept-Encoding" in headers["vary"].split(", ")
    small = await client.get("/livez", headers=PACKED)
    assert "content-encoding" not in small.headers


async def test_each_form_has_its_own_tag_and_either_confirms(client) -> None:
    packed = await client.get(LINK, headers=PACKED)
    plain = await client.get(LINK, headers=PLAIN)
    tags = [answer.headers["etag"] for answer in (packed, plain)]
    assert tags[0] != tags[1] == plain_tag(tags[0])
    for tag in tags:
        held = await client.get(LINK, headers=PACKED | {"If-None-Match": f'"other", W/{tag}'})
        assert (held.status_code, held.headers["etag"]) == (304, tag)
        assert "Accept-Encoding" in held.headers["vary"].split(", ")


async def test_forms_are_kept_apart_and_compressed_once() -> None:
    asked = 0

    async def inner(scope: Any, receive: Any, send: Any) -> None:
        nonlocal asked
        asked += 1
        await Response(b"x" * 5_000, media_type="application/json")(scope, receive, send)

    basis = object()
    app = RepeatedAnswers(Compression(inner), ["/a"], lambda: basis, 100_000)
    for _ in range(2):
        packed = await sent_by(app)
        plain = await sent_by(app, "identity")
        assert gzip.decompress(packed[1][0]) == plain[1][0] == b"x" * 5_000
    assert asked == 2


@pytest.mark.parametrize(
    ("kind", "headers", "packed"),
    [
        ("text/event-stream", {}, False),
        ("application/pdf", {}, False),
        ("application/vnd.apache.parquet", {}, False),
        ("text/javascript", {"Content-Encoding": "br", "ETag": '"a"'}, False),
        ("text/csv", {}, True),
    ],
)
async def test_streams(kind: str, headers: dict[str, str], packed: bool) -> None:
    """Each piece leaves when it is there, compressed or not."""
    pieces = [bytes([letter]) * 2_000 for letter in b"abc"]

    async def stream() -> Any:
        for piece in pieces:
            yield piece

    got, bodies = await sent_by(
        Compression(StreamingResponse(stream(), media_type=kind, headers=headers))
    )
    if packed:
        unpack = zlib.decompressobj(31)
        assert [unpack.decompress(body) for body in bodies[:3]] == pieces
        assert got[b"content-encoding"] == b"gzip"
    else:
        assert bodies[:3] == pieces
        assert got.get(b"content-encoding", b"").decode() == headers.get("Content-Encoding", "")
        assert got.get(b"etag", b"").decode() == headers.get("ETag", "")
