"""Pages that are asked for events tell how far their search is, and end it when nobody waits."""

import asyncio
import threading

import orjson

from service.api.portal.watching import _events, _Watch

EVENTS = {"Accept": "text/event-stream"}


def read(text):
    """Events of a stream: their names and data."""
    found = []
    for block in text.split("\n\n"):
        lines = dict(line.partition(": ")[::2] for line in block.splitlines())
        if "data" in lines:
            found.append((lines["event"], orjson.loads(lines["data"])))
    return found


async def test_a_search_tells_how_far_it_is_and_ends_with_the_page(client):
    path = "/answer?recommend=true&model=llama-3.1-8b&region=SE"
    answer = await client.get(path, headers=EVENTS)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    *progress, (last, page) = read(answer.text)
    ratios = [data["done_ratio"] for _, data in progress]
    assert {name for name, _ in progress} == {"progress"}
    assert ratios == sorted(ratios)
    assert 0.0 <= ratios[0] < ratios[-1] <= 1.0
    assert (last, page["status"]) == ("finished", 200)
    plain = await client.get(path)
    assert plain.headers["vary"].split(", ").count("Accept") == 1
    assert page["html"] == plain.text


async def test_what_is_refused_during_a_search_is_refused_in_its_last_event(client):
    query = "/answer?recommend=true&model=bge-m3"
    name, page = read((await client.get(query, headers=EVENTS)).text)[-1]
    plain = await client.get(query)
    assert (name, page["status"]) == ("finished", plain.status_code) == ("finished", 422)
    assert page["html"] == plain.text


async def test_a_search_that_fails_is_told_of_in_its_last_event(client, monkeypatch, caplog):
    """The stream has begun by then, so that nothing else could tell."""

    def fail(*_):
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr("service.api.portal.pages._in_units", fail)
    query = "/answer?recommend=true&model=llama-3.1-8b&region=SE"
    name, page = read((await client.get(query, headers=EVENTS)).text)[-1]
    assert (name, page["status"]) == ("finished", 500)
    assert "has been logged" in page["html"]
    assert [record.message for record in caplog.records if record.exc_info] == ["a search failed"]


async def test_without_a_search_the_page_comes_as_it_is(client):
    answer = await client.get("/answer?model=llama-3.1-8b", headers=EVENTS)
    assert answer.headers["content-type"].startswith("text/html")


async def test_a_search_ends_when_nobody_waits_for_it():
    watch, ended = _Watch(), threading.Event()

    def search():
        try:
            while True:
                watch.told(0.5)
        finally:
            ended.set()

    events = _events(asyncio.to_thread(search), watch)
    assert b'"done_ratio":0.5' in await anext(events)
    await events.aclose()
    assert await asyncio.to_thread(ended.wait, 600.0)
