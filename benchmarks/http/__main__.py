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
BATCH_PATH = "/v1/estimates/batch"
BATCH_ITEMS = 100
PERFORMANCE_PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
CONNECTIONS = 16
CROWD = 1_000
ROUNDS = 5
ROUND_S = 1.5


LABELS = (
    ("estimate", "inference estimate"),
    ("repeated", "the same once more"),
    ("crowd", f"the same, {CROWD:,} connections"),
    ("batch", f"each of {BATCH_ITEMS} in a batch"),
    ("bare", "bare FastAPI, same bodies"),
    ("trivial_get", "trivial FastAPI GET"),
)

PAGE = """\
# Performance

Written by `./headroom bench http --write-docs`; run it on your machine rather than trusting ours.
What holds on any machine are the ratios, taken in the same minute:

- an estimate costs **{estimate:.2f} ×** the processor time of a bare FastAPI endpoint that takes
  and gives the same bytes and computes nothing,
- a question that was asked before **{repeated:.2f} ×**,
- that bare endpoint itself {bare:.1f} × a trivial `GET`.

| | processor time [µs] | requests/s | p50 [ms] | p99 [ms] | answer [byte] |
| --- | ---: | ---: | ---: | ---: | ---: |
{rows}

One worker on a core of its own, {connections} connections unless said otherwise, medians of
{rounds} interleaved rounds of {round_s} s; {cpu_count} cores, shared with others, Python {python},
{versions}. In a batch the time is of one of its estimates, the rest of the row of the whole
request. The worker held {resident:.0f} MB after all that.

How many configurations a second recommendations and sweeps go through, and how that grows with
processes and hosts, is in [scaling](scaling.md); `./headroom bench core` measures the computation
without HTTP, beside other estimators where they are installed.
"""


@dataclass(frozen=True, slots=True)
class Target:
    """One request to measure: whom to ask what."""

    name: str
    server: Server
    path: str
    body: Path | None
    connections: int = CONNECTIONS
    answers_per_request: int = 1


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
    batch_file = folder / "batch.json"
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
        question = json.loads(request_file.read_bytes())
        batch_file.write_text(json.dumps({"requests": [question] * BATCH_ITEMS}))
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
            Target("batch", headroom, BATCH_PATH, batch_file, 2, BATCH_ITEMS),
            Target("crowd", remembering, ESTIMATE_PATH, request_file, CROWD),
            Target("bare", bare, "/bare", request_file),
            Target("trivial_get", bare, "/trivial", None),
        ]


def measure(target: Target, duration_s: float) -> tuple[Load, float]:
    """One round on one target: what the load saw, and the processor time per request [µs]."""
    before_s = target.server.cpu_s()
    load = target.server.load(target.path, target.body, target.connections, duration_s)
    if load.refused:
        raise RuntimeError(
            f"{target.name}: {load.refused} of {load.requests} were not answered 200"
        )
    answers = load.requests * target.answers_per_request
    return load, (target.server.cpu_s() - before_s) / answers * 1e6


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
        resident_bytes = max(target.server.resident_bytes() for target in measured[:2])

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
        "resident_bytes": resident_bytes,
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
    for name, label in LABELS:
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


def page(figures: dict[str, Any]) -> str:
    """The figures as a page of the documentation."""
    rows = "\n".join(
        f"| {label} | {figures[f'{name}_cpu_us_per_request']:.0f} "
        f"| {figures[f'{name}_requests_per_s']:.0f} | {figures[f'{name}_p50_ms']:.1f} "
        f"| {figures[f'{name}_p99_ms']:.1f} | {figures[f'{name}_answer_bytes']:,} |"
        for name, label in LABELS
    )
    return PAGE.format(
        rows=rows,
        estimate=figures["estimate_to_bare_cpu_ratio"],
        repeated=figures["repeated_to_bare_cpu_ratio"],
        bare=figures["bare_to_trivial_get_cpu_ratio"],
        resident=figures["resident_bytes"] / 1e6,
        **{
            name: figures[name]
            for name in ("connections", "rounds", "round_s", "cpu_count", "python")
        },
        versions=", ".join(f"{name} {number}" for name, number in figures["versions"].items()),
    )


def main() -> None:
    """Measure and print, for people or, with ``--json``, for programs."""
    parser = argparse.ArgumentParser(prog="./headroom bench http", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument("--write-docs", action="store_true", help="write docs/performance.md")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--round-seconds", type=float, default=ROUND_S)
    asked = parser.parse_args()
    figures = benchmark(asked.rounds, asked.round_seconds)
    if asked.write_docs:
        PERFORMANCE_PAGE.write_text(page(figures), encoding="utf-8")
    if asked.json:
        print(json.dumps(figures, indent=2))
    else:
        Console().print(table(figures))


if __name__ == "__main__":
    main()
