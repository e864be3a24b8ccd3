"""``headroom measurements list``, ``report`` and ``withdraw``, against a service made up here."""

from __future__ import annotations

import json
from functools import partial

import httpx
import pytest

from service.client import remote
from service.client.remote import Server

KEPT = {
    "id": 7,
    "organisation": "acme",
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "figures": [
        {
            "metric": "tpot_s",
            "measured": 0.02,
            "estimate": 0.015,
            "error_ratio": -0.25,
            "implausible": False,
        }
    ],
    "refused": [{"metric": "goodput_requests_per_s", "reason": "goodput needs limits"}],
}


@pytest.fixture
def asked(monkeypatch):
    """What the service was asked; it keeps report 7 and no other."""
    found: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        found.append(request)
        if request.method == "DELETE":
            if request.url.path.endswith("/7"):
                return httpx.Response(204)
            return httpx.Response(404, json={"title": "Not found", "detail": "no such measurement"})
        if request.method == "POST":
            return httpx.Response(201, json=KEPT)
        return httpx.Response(200, json={"items": [KEPT], "next_cursor": None})

    monkeypatch.setattr(remote, "Server", partial(Server, transport=httpx.MockTransport(answer)))
    return found


def test_reports_are_listed_with_their_errors(headroom, asked):
    outcome = headroom("measurements", "list", "--server", "http://there", "--key", "secret")
    assert outcome.status == 0
    for text in ("acme", "tpot_s", "0.02", "-25.0%"):
        assert text in outcome.printed
    assert asked[0].headers["authorization"] == "Bearer secret"
    outcome = headroom("measurements", "list", "--server", "http://there", "--json")
    assert json.loads(outcome.printed) == [KEPT]


def test_a_report_is_sent_once_under_a_key_of_its_own(headroom, asked, tmp_path):
    file = tmp_path / "run.json"
    file.write_text('{"kind": "inference"}')
    for _ in range(2):
        outcome = headroom("measurements", "report", str(file), "--server", "http://there")
        assert outcome.status == 0
    assert "Stored as report 7." in outcome.complaints
    assert "estimated 0.015 (-25.0%)" in outcome.complaints
    assert "goodput needs limits" in outcome.complaints
    first, second = (request.headers["idempotency-key"] for request in asked)
    assert first == second
    assert json.loads(asked[0].content) == {"kind": "inference"}


def test_a_report_is_withdrawn(headroom, asked):
    outcome = headroom("measurements", "withdraw", "7", "--server", "http://there")
    assert (outcome.status, outcome.complaints.strip()) == (0, "Report 7 is withdrawn.")
    outcome = headroom("measurements", "withdraw", "8", "--server", "http://there")
    assert outcome.status == 1
    assert "no such measurement" in outcome.complaints


@pytest.mark.parametrize("words", [("list",), ("withdraw", "7"), ("report", "-")])
def test_reports_are_with_a_service(headroom, words):
    outcome = headroom("measurements", *words, given="{}")
    assert outcome.status == 2
    assert "give --server" in outcome.complaints


def test_an_answer_says_what_reports_did():
    from service.cli.views.parts import footer

    answer = {"catalog_revision": 3, "engine_version": "1", "calibration": {"mode": "published"}}
    assert footer(answer).plain == "\ncatalog revision 3, engine 1"
    own = {"mode": "own", "revision": 2, "summary": "1 report of yours confirmed it."}
    told = footer(answer | {"calibration": own}).plain
    assert told.startswith("\n1 report of yours confirmed it.\n")
    assert told.endswith("your reports at revision 2")
