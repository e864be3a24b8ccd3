"""Questions that differ in their load alone get the answers that each would get by itself."""

from __future__ import annotations

from collections.abc import Mapping
from threading import Event
from typing import Any

import orjson
import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.estimation import loads
from service.estimation.bodies import parsed
from service.estimation.loads import answer_bytes, answers_bytes
from service.estimation.rejection import Rejected
from service.estimation.use_cases import USE_CASES, UseCase

MAIN = {"model": "llama-3.1-70b", "accelerator": "nvidia-h100-sxm-80gb", "accelerator_count": 8}
#: Questions of one kind each: layouts to choose among, queues, agents, words with figures in them.
KINDS: Mapping[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "copies": ("estimates/inference", {"region": "aws/eu-north-1"}, {"concurrency": 32}),
    "queue": (
        "estimates/inference",
        {"explain": True, "serving": {"engine_version": "0.21"}},
        {"requests_per_s": 0.5},
    ),
    "stages": (
        "latency/inference",
        {"parallelism": {"pipeline": 4, "tensor": 2}, "include": ["deployment"]},
        {"concurrency": 64},
    ),
    "agent": (
        "estimates/inference",
        {"include": ["provenance", "deployment", "latency.breakdown"]},
        {"calls_per_task": 5, "context_growth_tokens": 300, "tool_s": 2.0},
    ),
    "too large": ("memory/inference", {"accelerator_count": 1}, {"concurrency": 8}),
    "own machine": (
        "estimates/inference",
        {"model": "qwen3-8b", "accelerator": "apple-m3-max-64gb", "accelerator_count": 1},
        {"concurrency": 1},
    ),
}


class Counting:
    """A use case that counts how often it computes."""

    def __init__(self, use_case: UseCase) -> None:
        self.use_case = use_case
        self.calls = 0

    def __call__(self, request: Any, snapshot: CatalogSnapshot) -> Mapping[str, Any]:
        self.calls += 1
        return self.use_case.respond(request, snapshot)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loads, "ANSWERED_BEFORE", 1)


def wait_for_code() -> None:
    """Until what was to be made so far is there: one is made after the other."""
    loads.CODING.submit(int).result()


def asked(path: str, body: dict[str, Any], workload: dict[str, Any]) -> Any:
    question = MAIN | body | {"workload": workload}
    return parsed(USE_CASES[path].request, orjson.dumps(question))


@pytest.mark.parametrize("kind", KINDS)
def test_code_answers_as_each_question_is_answered(
    packaged_snapshot: CatalogSnapshot, kind: str
) -> None:
    path, body, workload = KINDS[kind]
    respond = Counting(USE_CASES[path])
    repeated = 0
    for step in range(8):
        varied = workload | {"input_tokens": 1500 + 211 * step, "output_tokens": 200 + 7 * step}
        request = asked(path, body, varied)
        before = respond.calls
        answer = answer_bytes(respond, request, packaged_snapshot)
        repeated += respond.calls == before
        wait_for_code()
        assert answer == orjson.dumps(USE_CASES[path].respond(request, packaged_snapshot))
    assert repeated >= 2


def test_many_questions_get_the_answers_that_each_would_get_by_itself(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    """Of several kinds, with and without code, some of which are refused."""
    use_case = USE_CASES["memory/inference"]
    respond = Counting(use_case)
    requests = [
        asked(
            "memory/inference",
            {"accelerator_count": 8 if step % 5 else 4},
            {"input_tokens": 900 + 32 * step, "concurrency": 8},
        )
        for step in range(90)
    ]
    requests[7] = asked("memory/inference", {"model": "nobody"}, {"input_tokens": 9})
    expected = []
    for request in requests:
        try:
            expected.append(orjson.dumps(use_case.respond(request, packaged_snapshot)))
        except Rejected as rejected:
            expected.append(rejected.errors)
    for _ in range(3):
        wait_for_code()
        respond.calls = 0
        found = list(answers_bytes(respond, requests, packaged_snapshot))
        assert [one.errors if isinstance(one, Rejected) else one for one in found] == expected
    assert respond.calls < len(requests) / 2


def test_what_is_refused_stays_refused(packaged_snapshot: CatalogSnapshot) -> None:
    respond = Counting(USE_CASES["estimates/inference"])
    request = asked("estimates/inference", {"region": "nowhere"}, {"input_tokens": 100})
    for _ in range(3):
        with pytest.raises(Rejected):
            answer_bytes(respond, request, packaged_snapshot)


def test_kinds_are_told_apart_by_all_but_the_numbers_of_their_load(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    """A field that is left out is no field that holds its default."""
    respond = Counting(USE_CASES["memory/inference"])
    questions = [
        asked("memory/inference", body, workload)
        for body, workload in (
            ({}, {"input_tokens": 700}),
            ({}, {"input_tokens": 700, "output_tokens": 256}),
            ({"fields": ["total_bytes"]}, {"input_tokens": 700}),
            ({"accelerator_count": 4}, {"input_tokens": 700}),
            ({}, {"input_tokens": {"mean": 700.0, "p95": 900.0}, "concurrency": 2}),
        )
    ]
    for request in questions * 2:
        told = answer_bytes(respond, request, packaged_snapshot)
        wait_for_code()
        assert told == orjson.dumps(respond.use_case.respond(request, packaged_snapshot))


def test_no_answer_waits_for_code(packaged_snapshot: CatalogSnapshot) -> None:
    """Nor is the same code made twice."""
    respond = Counting(USE_CASES["memory/inference"])
    going_on = Event()
    loads.CODING.submit(going_on.wait)
    for tokens in range(3):
        request = asked("memory/inference", {"accelerator_count": 6}, {"input_tokens": 40 + tokens})
        answer_bytes(respond, request, packaged_snapshot)
    assert respond.calls == 3
    going_on.set()
    wait_for_code()
    answer_bytes(respond, request, packaged_snapshot)
    assert respond.calls == 3 + 1  # once more to note what is computed, and never again


def test_questions_without_a_load_are_answered_as_ever(packaged_snapshot: CatalogSnapshot) -> None:
    use_case = USE_CASES["memory/inference"]
    request = parsed(use_case.request, orjson.dumps(MAIN))
    expected = orjson.dumps(use_case.respond(request, packaged_snapshot))
    assert answer_bytes(use_case.respond, request, packaged_snapshot) == expected


def test_what_code_cannot_repeat_is_computed_each_time(packaged_snapshot: CatalogSnapshot) -> None:
    """A use case that turns its load into something else is no worse off."""
    calls = 0

    def respond(request: Any, _: CatalogSnapshot) -> Mapping[str, Any]:
        nonlocal calls
        calls += 1
        return {"twice": 2 * int(request.workload.input_tokens)}

    for tokens in range(100, 105):
        request = asked("memory/inference", {"accelerator_count": 3}, {"input_tokens": tokens})
        answer = answer_bytes(respond, request, packaged_snapshot)
        wait_for_code()
        assert orjson.loads(answer) == {"twice": 2 * tokens}
    assert calls == 5 + 1  # one attempt to note what it does


def test_searches_within_an_estimate_are_not_written_out(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    respond = Counting(USE_CASES["estimates/inference"])
    for tokens in (500, 501, 502):
        request = asked(
            "estimates/inference",
            {"limits": {"ttft_p99_s": 2.0}},
            {"input_tokens": tokens, "requests_per_s": 0.5},
        )
        answer_bytes(respond, request, packaged_snapshot)
        wait_for_code()
    assert respond.calls == 3 + 1  # one attempt, which ends early


def test_each_type_of_request_belongs_to_one_question() -> None:
    """Code is kept by the type of the request."""
    kinds = [use_case.request for use_case in USE_CASES.values()]
    assert len(set(kinds)) == len(kinds)
