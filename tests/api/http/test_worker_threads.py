"""Searches hand their memory back."""

from __future__ import annotations

from typing import Any

from httpx import AsyncClient

from service.api.http import worker_threads


async def test_memory_is_handed_back_after_what_takes_long(
    client: AsyncClient, monkeypatch: Any
) -> None:
    """At most once a second, whether an answer came of it or not."""
    trimmed: list[int] = []
    monkeypatch.setattr(worker_threads.MEMORY, "_trim", trimmed.append)
    monkeypatch.setattr(worker_threads.MEMORY, "_last_s", float("-inf"))
    for _ in range(2):
        answer = await client.post("/v1/recommendations", json={"model": "nobody/knows"})
        assert answer.status_code == 422
        assert len(trimmed) <= 1
    answer = await client.post("/v1/estimates/batch", json={"requests": [{}]})
    assert answer.status_code == 200
    assert trimmed == [0]
