"""The benchmarks run and their figures hang together; what they come to is no matter here."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from httpx import ASGITransport, AsyncClient

from benchmarks.http.__main__ import example_request
from benchmarks.http.load import varied
from benchmarks.http.yardstick import create_yardstick

PROJECT_FOLDER = Path(__file__).parents[2]


def measured(module: str, round_s: float, *options: str) -> dict[str, Any]:
    command = [sys.executable, "-m", module, "--json", "--rounds", "1", *options]
    finished = subprocess.run(
        [*command, "--round-seconds", str(round_s)],
        cwd=PROJECT_FOLDER,
        env={**os.environ, "HEADROOM_EMBEDDED_DATABASE": "false"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    figures: dict[str, Any] = json.loads(finished.stdout)
    return figures


def test_an_estimate_over_http_is_compared_with_equal_bodies() -> None:
    few = ("--distinct", "20", "--recommendations", "1")
    figures = measured("benchmarks.http", 0.3, *few)
    ratio = figures["estimate_cpu_us_per_request"] / figures["bare_cpu_us_per_request"]
    assert figures["estimate_to_bare_cpu_ratio"] == pytest.approx(ratio, rel=1e-3)
    assert figures["bare_answer_bytes"] == pytest.approx(figures["estimate_answer_bytes"], rel=0.02)
    for target in ("estimate", "bare", "trivial_get"):
        assert figures[f"{target}_requests_per_s"] > 0
        assert 0 < figures[f"{target}_p50_ms"] <= figures[f"{target}_p99_ms"]
    assert figures["packed_answer_bytes"] < figures["estimate_answer_bytes"] / 2
    for limit in figures["limits"]:
        assert limit["value"] == figures[limit["figure"]]
        assert limit["kept"] is (limit["value"] <= limit["most"])


def test_no_question_of_a_soak_is_asked_twice() -> None:
    body = b'{"input_tokens": 1000001, "output_tokens": 1000002}'
    asked = {varied(body, number) for number in range(3_000)}
    assert len(asked) == 3_000
    assert min(asked) == b'{"input_tokens": 1000, "output_tokens": 64}'


def test_the_core_benchmark_measures_every_stretch() -> None:
    figures = measured("benchmarks.core", 0.05)
    for stretch in ("bytes_to_bytes", "use_case", "computation"):
        assert figures[f"{stretch}_cpu_us"] > 0
    assert figures["answer_bytes"] > 1000


def test_the_benchmark_of_plans_reads_a_trace_and_plans_its_traffic() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.plans", "--json", "--rounds", "1", "--requests", "500"],
        cwd=PROJECT_FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    figures = json.loads(finished.stdout)
    assert (figures["models"], figures["years"], figures["requests"]) == (5, 10, 500)
    for stretch in ("fleet", "trace", "traffic"):
        assert figures[f"{stretch}_cpu_s"] > 0


def test_the_sweep_benchmark_measures_a_core() -> None:
    finished = subprocess.run(
        [
            sys.executable,
            "-m",
            "benchmarks.sweeps",
            "--json",
            "--chunks",
            "1",
            *("--rounds", "1", "--most-accelerators", "8", "--workers"),
        ],
        cwd=PROJECT_FOLDER,
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    figures = json.loads(finished.stdout)
    assert 0 < figures["packed_configurations_per_s"] < figures["evaluated_configurations_per_s"]
    assert 0 < figures["kept_ratio"] < 1
    assert figures["sweeps"] == []
    assert figures["candidates_per_s"] > 0
    for limit in figures["limits"]:
        assert limit["value"] == figures[limit["figure"]] > 0
        assert limit["kept"] is (limit["value"] <= limit["most"])


async def test_the_yardstick_reads_and_writes_the_given_shapes() -> None:
    request = {"model": "m", "parallelism": {"tensor": 8, "pipeline": None}, "sizes": [1, 2]}
    answer = {
        "memory": {"total_bytes": {"value": 1.5, "low": 1.0, "high": 2.0}, "fits": True},
        "steps": [{"name": "a", "inputs": {"x": 1.0}}, {"name": "b", "inputs": {"y": 2.0}}],
        "warnings": [{"code": "a", "message": "b"}, {"code": "c", "message": "d"}],
        "cost": None,
        "nothing": [],
    }
    transport = ASGITransport(create_yardstick(request, answer))
    async with AsyncClient(transport=transport, base_url="http://yardstick") as client:
        assert (await client.post("/bare", json=request)).json() == answer
        rejected = await client.post("/bare", json={**request, "sizes": "many"})
        assert rejected.status_code == 422
        assert (await client.get("/trivial")).status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        {"schema": {}, "examples": {"first": {"value": {"a": 1}}}},
        {"schema": {}, "example": {"a": 1}},
        {"schema": {"examples": [{"a": 1}, {"a": 2}]}},
        {"schema": {"$ref": "#/components/schemas/Asked"}},
    ],
)
def test_the_example_of_a_request_is_found_wherever_openapi_allows_it(body: dict[str, Any]) -> None:
    document = {
        "paths": {"/x": {"post": {"requestBody": {"content": {"application/json": body}}}}},
        "components": {"schemas": {"Asked": {"examples": [{"a": 1}]}}},
    }
    assert example_request(document, "/x") == {"a": 1}
