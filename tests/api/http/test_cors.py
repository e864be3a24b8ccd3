"""Pages of other origins may read answers; caches keep theirs apart from those of others."""

from __future__ import annotations

from httpx import AsyncClient

from service.api.http.cors import add_vary

ASKED = "/v1/workloads"


async def test_answers_vary_with_the_origin_whether_one_is_named_or_not(
    client: AsyncClient,
) -> None:
    plain = await client.get(ASKED)
    named = await client.get(ASKED, headers={"Origin": "https://a.example"})
    assert "access-control-allow-origin" not in plain.headers
    assert named.headers["access-control-allow-origin"] in ("*", "https://a.example")
    assert plain.content == named.content
    for part in ("Accept-Encoding", "Origin"):
        assert plain.headers.get_list("vary", split_commas=True).count(part) == 1


def test_a_header_that_answers_vary_with_joins_those_that_are_there() -> None:
    headers = [(b"vary", b"Accept"), (b"etag", b'"1"')]
    add_vary(headers, b"Origin")
    assert headers == [(b"vary", b"Accept, Origin"), (b"etag", b'"1"')]
    add_vary(new := [], b"Origin")
    assert new == [(b"vary", b"Origin")]
