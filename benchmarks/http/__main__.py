"""``./headroom bench http``: processor time, rate and latency of an estimate beside the yardsticks.

The figure to watch is a ratio of processor times taken in the same minute on the same machine:
absolute rates say more about the machine than about the program. Rounds are interleaved, so that a
machine that slows down meanwhile slows all of them down; every figure is the median of the rounds.

All of it takes about ten minutes, most of which the questions that fill a worker's memory take
(``--distinct`` and ``--recommendations`` ask fewer).
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
from benchmarks.http.load import VARIED, Load, varied
from benchmarks.http.server import Server, running
from service.estimation.loads import ANSWERED_BEFORE

ESTIMATE_PATH = "/v1/estimates/inference"
BATCH_PATH = "/v1/estimates/batch"
RECOMMENDATION_PATH = "/v1/recommendations"
BATCH_ITEMS = 1_000
PERFORMANCE_PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
CONNECTIONS = 16
CROWD = 1_000
ROUNDS = 5
ROUND_S = 1.5
#: What a worker has answered before its memory is looked at.
DISTINCT = 100_000
RECOMMENDATIONS = 100

#: Most of each ratio, and of bytes: what the service promises itself.
LIMITS = {
    "estimate_to_bare_cpu_ratio": 1.3,
    "estimate_to_trivial_get_cpu_ratio": 3.0,
    "repeated_to_trivial_get_cpu_ratio": 1.2,
    "repeated_packed_to_trivial_get_cpu_ratio": 1.2,
    "batch_to_trivial_get_cpu_ratio": 1.0,
    "estimate_p99_to_p50_ratio": 3.0,
    "crowd_p99_to_p50_ratio": 10.0,
    "estimate_answer_bytes": 8_000,
    "worker_resident_bytes": 220_000_000,
}

#: Lengths that make each question another one.
_MARKED = dict(zip(("input_tokens", "output_tokens"), map(int, VARIED), strict=True))

#: Questions of a round about deployments of which none was asked about before.
ANEW = 300

LABELS = (
    ("estimate", "inference estimate"),
    ("anew", "one of another deployment each"),
    ("packed", "the same, compressed"),
    ("repeated", "the same once more"),
    ("repeated_packed", "once more, compressed"),
    ("crowd", f"the same, {CROWD:,} connections"),
    ("batch", f"each of {BATCH_ITEMS:,} in a batch"),
    ("bare", "bare FastAPI, same bodies"),
    ("trivial_get", "trivial FastAPI GET"),
)

PAGE = """\
# Performance

Written by `./headroom bench http --write-docs`; run it on your machine rather than trusting ours.
What holds on any machine are the ratios, taken in the same minute:

- an estimate costs **{estimate:.2f} ×** the processor time of a bare FastAPI endpoint that takes
  and gives the same bytes and computes nothing,
- one of a deployment that nobody asked about before **{anew:.2f} ×**: after {before} questions the
  arithmetic for other loads of the same deployment is known,
- a question that was asked before **{repeated:.2f} ×**,
- that bare endpoint itself {bare:.1f} × a trivial `GET`.

| | processor time [µs] | requests/s | p50 [ms] | p99 [ms] | answer [byte] |
| --- | ---: | ---: | ---: | ---: | ---: |
{rows}

One worker on a core of its own, {connections} connections unless said otherwise, medians of
{rounds} interleaved rounds of {round_s} s; {cpu_count} cores, shared with others, Python {python},
{versions}. In a batch the time is of one of its estimates, the rest of the row of the whole
request.

What the service promises itself, measured in the same run:

| | measured | at most | |
| --- | ---: | ---: | --- |
{limits}

The trivial `GET` stands for the machine: 3.00 times its processor time are 300 µs where it costs
100. Memory is that of the worker after {distinct_questions:,} questions of which none is asked
twice, and {recommendations:,} recommendations. Percentiles need a machine that does nothing else.

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
    packed: bool = False
    distinct: int | None = None


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
    batch_file, anew_file = folder / "batch.json", folder / "anew.json"
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
        asked = json.dumps(question | {"workload": question["workload"] | _MARKED}).encode()
        items = b",".join(varied(asked, number) for number in range(BATCH_ITEMS))
        batch_file.write_bytes(b'{"requests": [%s]}' % items)
        # Periods are no load: each is a question of another kind.
        anew = {"period": {"days": _MARKED["input_tokens"]}}
        anew_file.write_text(json.dumps(question | anew))
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
            Target("anew", headroom, ESTIMATE_PATH, anew_file, distinct=ANEW),
            Target("packed", headroom, ESTIMATE_PATH, request_file, packed=True),
            Target("repeated", remembering, ESTIMATE_PATH, request_file),
            Target("repeated_packed", remembering, ESTIMATE_PATH, request_file, packed=True),
            Target("batch", headroom, BATCH_PATH, batch_file, 1, BATCH_ITEMS),
            Target("crowd", remembering, ESTIMATE_PATH, request_file, CROWD),
            Target("bare", bare, "/bare", request_file),
            Target("trivial_get", bare, "/trivial", None),
        ]


def measure(target: Target, duration_s: float) -> tuple[Load, float]:
    """One round on one target: what the load saw, and the processor time per request [µs]."""
    before_s = target.server.cpu_s()
    load = target.server.load(
        *(target.path, target.body, target.connections, duration_s),
        packed=target.packed,
        distinct=target.distinct,
    )
    if load.refused:
        raise RuntimeError(
            f"{target.name}: {load.refused} of {load.requests} were not answered 200"
        )
    answers = load.requests * target.answers_per_request
    return load, (target.server.cpu_s() - before_s) / answers * 1e6


def soak(folder: Path, server: Server, distinct: int, recommendations: int) -> int:
    """Memory of a worker that was asked so much, of which nothing twice [byte]."""
    question = json.loads((folder / "request.json").read_bytes())
    asked = {
        ESTIMATE_PATH: (question | {"workload": question["workload"] | _MARKED}, distinct),
        RECOMMENDATION_PATH: (
            {"model": "llama-3.1-8b", "workload": _MARKED | {"requests_per_s": 2.0}},
            recommendations,
        ),
    }
    for path, (body, number) in asked.items():
        file = folder / "varied.json"
        file.write_text(json.dumps(body))
        load = server.load(path, file, 2, distinct=number)
        if load.refused:
            raise RuntimeError(f"{path}: {load.refused} of {load.requests} were not answered 200")
    return server.resident_bytes()


def benchmark(
    rounds: int, round_s: float, distinct: int = DISTINCT, recommendations: int = RECOMMENDATIONS
) -> dict[str, Any]:
    """Measure every target in interleaved rounds; the medians, flat, ready for JSON."""
    with tempfile.TemporaryDirectory() as folder, targets(Path(folder)) as measured:
        for target in measured:  # the first requests fill caches; nobody counts them
            measure(target, round_s / 2)
        taken: dict[str, list[tuple[Load, float]]] = {target.name: [] for target in measured}
        for _ in range(rounds):
            for target in measured:
                taken[target.name].append(measure(target, round_s))
        request_bytes = (Path(folder) / "request.json").stat().st_size
        remembering = next(one.server for one in measured if one.name == "repeated")
        resident_bytes = soak(Path(folder), remembering, distinct, recommendations)

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
    ratios = {
        f"{name}_to_{beside}_cpu_ratio": figures[f"{name}_cpu_us_per_request"]
        / figures[f"{beside}_cpu_us_per_request"]
        for name, beside in (
            *(("estimate", "bare"), ("repeated", "bare"), ("bare", "trivial_get")),
            *((name, "trivial_get") for name in ("estimate", "repeated", "repeated_packed")),
            ("anew", "bare"),
            ("batch", "trivial_get"),
        )
    }
    ratios |= {
        f"{name}_p99_to_p50_ratio": figures[f"{name}_p99_ms"] / figures[f"{name}_p50_ms"]
        for name in ("estimate", "crowd")
    }
    figures = {
        **ratios,
        **{key: round(value, 3) for key, value in figures.items()},
        "worker_resident_bytes": resident_bytes,
    }
    return {
        **figures,
        "limits": [
            {"figure": name, "value": figures[name], "most": most, "kept": figures[name] <= most}
            for name, most in LIMITS.items()
        ],
        "request_bytes": request_bytes,
        "distinct_questions": distinct,
        "recommendations": recommendations,
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


def limits_table(figures: dict[str, Any]) -> Table:
    """What the service promises itself, and whether it keeps it."""
    shown = Table("", "measured", "at most", "")
    for column in shown.columns[1:3]:
        column.justify = "right"
    for one in figures["limits"]:
        name = one["figure"].replace("_", " ")
        shown.add_row(name, _number(one["value"]), _number(one["most"]), _kept(one))
    return shown


def _number(value: float) -> str:
    return f"{value:,.0f}" if value > _LARGE else f"{value:.2f}"


#: Numbers beyond are shown without a fraction.
_LARGE = 1_000


def _kept(limit: dict[str, Any]) -> str:
    return "kept" if limit["kept"] else "missed"


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
        anew=figures["anew_to_bare_cpu_ratio"],
        before=ANSWERED_BEFORE,
        repeated=figures["repeated_to_bare_cpu_ratio"],
        bare=figures["bare_to_trivial_get_cpu_ratio"],
        limits="\n".join(
            f"| {one['figure'].replace('_', ' ')} | {_number(one['value'])} "
            f"| {_number(one['most'])} | {_kept(one)} |"
            for one in figures["limits"]
        ),
        **{
            name: figures[name]
            for name in (
                *("connections", "rounds", "round_s", "cpu_count", "python"),
                *("distinct_questions", "recommendations"),
            )
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
    parser.add_argument("--distinct", type=int, default=DISTINCT, help="questions, none twice")
    parser.add_argument("--recommendations", type=int, default=RECOMMENDATIONS)
    asked = parser.parse_args()
    figures = benchmark(asked.rounds, asked.round_seconds, asked.distinct, asked.recommendations)
    if asked.write_docs:
        PERFORMANCE_PAGE.write_text(page(figures), encoding="utf-8")
    if asked.json:
        print(json.dumps(figures, indent=2))
    else:
        Console().print(table(figures), limits_table(figures))


if __name__ == "__main__":
    main()
