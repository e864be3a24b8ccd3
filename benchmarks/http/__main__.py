"""``./headroom bench http``: processor time, rate and latency of an estimate beside the yardsticks.

The figure to watch is a ratio of processor times taken in the same minute on the same machine:
absolute rates say more about the machine than about the program. Rounds are interleaved, so that a
machine that slows down meanwhile slows all of them down; every figure is the median of the rounds.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from benchmarks.http import yardstick
from benchmarks.http.load import Load
from benchmarks.http.server import Server, running

ESTIMATE_PATH = "/v1/estimates/inference"
CONNECTIONS = 16
ROUNDS = 5
ROUND_S = 1.5


@dataclass(frozen=True, slots=True)
class Target:
    """One request to measure: whom to ask what."""

    name: str
    server: Server
    path: str
    body: Path | None


def example_request(openapi: dict[str, Any], path: str) -> Any:
    """The first example that an OpenAPI document gives for the JSON body of a POST."""
    content = openapi["paths"][path]["post"]["requestBody"]["content"]["application/json"]
    if "examples" in content:
        return next(iter(content["examples"].values()))["value"]
    schema = content["schema"]
    if "$ref" in schema:
        schema = openapi["components"]["schemas"][schema["$ref"].rsplit("/", 1)[-1]]
    return content["example"] if "example" in content else schema["examples"][0]


@contextmanager
def targets(folder: Path) -> Iterator[list[Target]]:
    """Headroom and the yardstick, running; the yardstick mimics a real answer of Headroom."""
    request_file, answer_file = folder / "request.json", folder / "answer.json"
    with ExitStack() as servers:
        # One that computes each answer, and one that may remember it.
        headroom, remembering = (
            servers.enter_context(
                running(
                    [sys.executable, "-m", "service.cli", "serve", "--port", "{port}"],
                    probe="/readyz",
                    environment=environment,
                )
            )
            for environment in ({"HEADROOM_ANSWER_CACHE_BYTES": "0"}, {})
        )
        openapi = json.loads(headroom.ask("GET", "/openapi.json"))
        request_file.write_text(json.dumps(example_request(openapi, ESTIMATE_PATH)))
        answer_file.write_bytes(headroom.ask("POST", ESTIMATE_PATH, request_file.read_bytes()))
        bare = servers.enter_context(
            running(
                [
                    *(sys.executable, "-m", "uvicorn", "benchmarks.http.yardstick:create_app"),
                    *("--factory", "--no-access-log", "--port", "{port}"),
                    *("--loop", "uvloop", "--http", "httptools"),
                ],
                probe="/trivial",
                environment={
                    yardstick.REQUEST_FILE_VARIABLE: str(request_file),
                    yardstick.ANSWER_FILE_VARIABLE: str(answer_file),
                },
            )
        )
        yield [
            Target("estimate", headroom, ESTIMATE_PATH, request_file),
            Target("repeated", remembering, ESTIMATE_PATH, request_file),
            Target("bare", bare, "/bare", request_file),
            Target("trivial_get", bare, "/trivial", None),
        ]


def measure(target: Target, duration_s: float) -> tuple[Load, float]:
    """One round on one target: what the load saw, and the processor time per request [µs]."""
    before_s = target.server.cpu_s()
    load = target.server.load(target.path, target.body, CONNECTIONS, duration_s)
    if load.refused:
        raise RuntimeError(
            f"{target.name}: {load.refused} of {load.requests} were not answered 200"
        )
    return load, (target.server.cpu_s() - before_s) / load.requests * 1e6


def benchmark(rounds: int, round_s: float) -> dict[str, Any]:
    """Measure every target in interleaved rounds; the medians, flat, ready for JSON."""
    with tempfile.TemporaryDirectory() as folder, targets(Path(folder)) as measured:
        for target in measured:  # the first requests fill caches; nobody counts them
            measure(target, round_s / 2)
        taken: dict[str, list[tuple[Load, float]]] = {target.name: [] for target in measured}
        for _ in range(rounds):
            for target in measured:
                taken[target.name].append(measure(target, round_s))
        request_bytes = (Path(folder) / "request.json").stat().st_size

    figures: dict[str, Any] = {}
    for name, results in taken.items():
        loads = [load for load, _ in results]
        figures |= {
            f"{name}_cpu_us_per_request": statistics.median(cpu_us for _, cpu_us in results),
            f"{name}_requests_per_s": statistics.median(load.requests_per_s for load in loads),
            f"{name}_p50_ms": statistics.median(load.p50_s for load in loads) * 1e3,
            f"{name}_p99_ms": statistics.median(load.p99_s for load in loads) * 1e3,
            f"{name}_answer_bytes": loads[-1].answer_bytes,
        }
    return {
        "estimate_to_bare_cpu_ratio": figures["estimate_cpu_us_per_request"]
        / figures["bare_cpu_us_per_request"],
        "repeated_to_bare_cpu_ratio": figures["repeated_cpu_us_per_request"]
        / figures["bare_cpu_us_per_request"],
        "bare_to_trivial_get_cpu_ratio": figures["bare_cpu_us_per_request"]
        / figures["trivial_get_cpu_us_per_request"],
        **{key: round(value, 3) for key, value in figures.items()},
        "request_bytes": request_bytes,
        "connections": CONNECTIONS,
        "rounds": rounds,
        "round_s": round_s,
        "cpu_count": os.cpu_count(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in ("fastapi", "pydantic", "uvicorn", "uvloop")},
    }


def table(figures: dict[str, Any]) -> Table:
    """The figures for people."""
    shown = Table("", "CPU [µs/request]", "requests/s", "p50 [ms]", "p99 [ms]", "answer [bytes]")
    for column in shown.columns[1:]:
        column.justify = "right"
    for name, label in (
        ("estimate", "inference estimate"),
        ("repeated", "the same once more"),
        ("bare", "bare FastAPI, same bodies"),
        ("trivial_get", "trivial FastAPI GET"),
    ):
        shown.add_row(
            label,
            f"{figures[f'{name}_cpu_us_per_request']:.0f}",
            f"{figures[f'{name}_requests_per_s']:.0f}",
            f"{figures[f'{name}_p50_ms']:.2f}",
            f"{figures[f'{name}_p99_ms']:.2f}",
            f"{figures[f'{name}_answer_bytes']}",
        )
    shown.caption = (
        f"An estimate costs {figures['estimate_to_bare_cpu_ratio']:.2f} × the processor time of "
        f"a bare endpoint, a repeated one {figures['repeated_to_bare_cpu_ratio']:.2f} ×: medians "
        f"of {figures['rounds']} rounds, {CONNECTIONS} connections."
    )
    return shown


def main() -> None:
    """Measure and print, for people or, with ``--json``, for programs."""
    parser = argparse.ArgumentParser(prog="./headroom bench http", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--round-seconds", type=float, default=ROUND_S)
    asked = parser.parse_args()
    figures = benchmark(asked.rounds, asked.round_seconds)
    if asked.json:
        print(json.dumps(figures, indent=2))
    else:
        Console().print(table(figures))


if __name__ == "__main__":
    main()
