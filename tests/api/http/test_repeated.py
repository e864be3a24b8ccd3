"""Answers that are kept: the same bytes, as long as the catalog is the same."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from service.api.http.repeated import RepeatedAnswers


class Counting:
    """An application that says how often it was asked."""

    def __init__(self, size: int = 10, status: int = 200) -> None:
        self.asked = 0
        self.size = size
        self.status = status

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await Request(scope, receive).body()
        self.asked += 1
        scope["route"] = "the route"
        answer = body + str(self.asked).encode() + b"x" * self.size
        await Response(answer, self.status)(scope, receive, send)


async def ask(
    app: Any, body: bytes = b"{}", method: str = "POST", path: str = "/a", **headers: str
) -> tuple[bytes, Any]:
    messages = [
        {"type": "http.request", "body": body[:1], "more_body": True},
        {"type": "http.request", "body": body[1:], "more_body": False},
    ]
    if headers.pop("parts", "") != "two":
        messages = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[Any] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            message["headers"].append((b"x-added", b"outside"))
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": headers.pop("query", "").encode(),
        "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in headers.items()],
    }
    await app(scope, receive, send)
    assert [name for name, _ in sent[0]["headers"]].count(b"x-added") == 1
    assert scope["route"] == "the route"
    return sent[1]["body"], sent[0]


@pytest.fixture
def basis() -> list[object]:
    return [object()]


async def test_the_same_question_is_computed_once(basis: list[object]) -> None:
    inner = Counting()
    app = RepeatedAnswers(inner, ["/a"], lambda: basis[0], 10_000)
    first = await ask(app)
    assert await ask(app) == first
    assert inner.asked == 1
    for other in ({"body": b"[]"}, {"method": "GET"}, {"content_type": "text/csv"}):
        await ask(app, **other)  # type: ignore[arg-type]
    assert inner.asked == 4


async def test_a_new_catalog_makes_all_of_them_old(basis: list[object]) -> None:
    inner = Counting()
    app = RepeatedAnswers(inner, ["/a"], lambda: basis[0], 10_000)
    await ask(app)
    basis[0] = object()
    await ask(app)
    assert inner.asked == 2


async def test_an_answer_that_a_new_catalog_overtook_is_not_kept(basis: list[object]) -> None:
    class Overtaken(Counting):
        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            basis[0] = object()
            await super().__call__(scope, receive, send)

    inner = Overtaken()
    app = RepeatedAnswers(inner, ["/a"], lambda: basis[0], 10_000)
    await ask(app)
    await ask(app)
    assert inner.asked == 2


@pytest.mark.parametrize(
    "how",
    [
        {"path": "/b"},
        {"authorization": "Bearer x"},
        {"if_none_match": '"x"'},
        {"parts": "two"},
        {"body": b"x" * 40_000},
        {"body": b'{"model": "hf:acme/tiny"}'},
        {"body": b'{"model": {"hub": "acme/tiny"}}'},
    ],
)
async def test_what_is_left_to_the_application(basis: list[object], how: Any) -> None:
    inner = Counting()
    app = RepeatedAnswers(inner, ["/a"], lambda: basis[0], 10_000)
    await ask(app, **how)
    await ask(app, **how)
    assert inner.asked == 2


async def test_errors_and_huge_answers_are_not_kept(basis: list[object]) -> None:
    for inner in (Counting(status=422), Counting(size=300_000)):
        app = RepeatedAnswers(inner, ["/a"], lambda: basis[0], 10_000_000)
        await ask(app)
        await ask(app)
        assert inner.asked == 2


async def test_memory_is_bounded_and_the_longest_unasked_gives_way(basis: list[object]) -> None:
    inner = Counting(size=1_000)
    app = RepeatedAnswers(inner, ["/a"], lambda: basis[0], 7_000)
    for number in (1, 2, 1, 3, 1, 4, 1):
        await ask(app, body=str(number).encode())
    assert inner.asked == 4
    assert app._answers.currsize <= 7_000
    await ask(app, body=b"2")
    assert inner.asked == 5


async def test_long_types_and_queries_count_as_memory(basis: list[object]) -> None:
    """A question of a few bytes may come under a name of thousands."""
    app = RepeatedAnswers(Counting(size=10), ["/a"], lambda: basis[0], 50_000)
    for number in range(30):
        await ask(
            app, body=b"1", **{"content-type": "application/json;" + "x" * 5_000 + str(number)}
        )
        await ask(app, body=b"1", query="a=" + "0" * 5_000 + str(number))
    held = sum(sum(map(len, key)) + len(answer.body) for key, answer in app._answers.items())
    assert 40_000 < held < app._answers.currsize <= 50_000
    inner = Counting(size=10)
    app = RepeatedAnswers(inner, ["/a"], lambda: basis[0], 10_000_000)
    for _ in range(2):
        await ask(app, body=b"1", query="a=" + "0" * 40_000)
    assert inner.asked == 2


async def test_the_service_answers_the_same_again(client) -> None:
    body = {"model": "llama-3.1-8b", "accelerator": "nvidia-l40s-48gb"}
    first = await client.post("/v1/memory/inference", json=body)
    second = await client.post("/v1/memory/inference", json=body)
    assert second.content == first.content
    assert second.headers["content-type"] == first.headers["content-type"]
    assert second.headers["x-request-id"] != first.headers["x-request-id"]
    link = "/v1/memory/inference?model=llama-3.1-8b&accelerator=nvidia-l40s-48gb"
    third, fourth = await client.get(link), await client.get(link)
    assert fourth.headers["etag"] == third.headers["etag"]
    held = await client.get(link, headers={"If-None-Match": third.headers["etag"]})
    assert held.status_code == 304
