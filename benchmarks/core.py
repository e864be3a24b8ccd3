"""``./headroom bench core``: what an estimate costs inside one process, without HTTP.

Three stretches of the same way: from the bytes of a request to those of its answer, the use case
alone, and the pure computation of a deployment whose layout is known. And the array path: the same
computation for many configurations at once; and what loading the catalog takes.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table

from benchmarks.grid import grid, single
from benchmarks.peers.rates import peer_costs_us
from service.catalog.files import packaged_documents
from service.catalog.snapshot import snapshot_from_documents
from service.estimation.inference.deployment import resolve_deployment
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.resolution import Problems
from service.settings import Settings

ROUNDS = 7
ROUND_S = 0.5
#: As many as a search computes at once: accelerators times sequences that run. Of several times as
#: many each takes longer, as the C library gives their memory back to the system between two calls.
GRID_CONFIGURATIONS = 4_000
#: Processor time in which a catalog whose files have been read before is to be loaded [µs].
MOST_CATALOG_LOAD_US = 250_000


def cpu_us_per_call(action: Callable[[], Any], rounds: int, round_s: float) -> float:
    """Processor time of one call, the median of the rounds [µs]."""
    action()
    taken_us = []
    for _ in range(rounds):
        calls = 0
        began_s = time.process_time()
        while (spent_s := time.process_time() - began_s) < round_s:
            action()
            calls += 1
        taken_us.append(spent_s / calls * 1e6)
    return statistics.median(taken_us)


def benchmark(rounds: int, round_s: float) -> dict[str, Any]:
    """Measure the three stretches on the example that the documentation uses throughout."""
    folder = Settings().catalog_directory
    documents = packaged_documents(folder)
    snapshot = snapshot_from_documents(documents, revision=0)
    body = orjson.dumps(InferenceRequest.model_json_schema()["examples"][0])
    request = InferenceRequest.model_validate_json(body)
    resolved = resolve_deployment(request, snapshot, Problems())
    region = snapshot.find("regions", "aws/eu-north-1").value
    compute = single(resolved)

    def bytes_to_bytes() -> bytes:
        asked = InferenceRequest.model_validate_json(body)
        return orjson.dumps(inference_estimate(asked, snapshot))

    stretches: dict[str, Callable[[], Any]] = {
        "bytes_to_bytes": bytes_to_bytes,
        "use_case": lambda: inference_estimate(request, snapshot),
        "computation": lambda: compute(region),
        # As a command line or a service does it once it has read the files before.
        "catalog_load": lambda: snapshot_from_documents(
            packaged_documents(folder), 0, checked=True
        ),
    }
    figures: dict[str, Any] = {}
    for name, action in stretches.items():
        cost_us = cpu_us_per_call(action, rounds, round_s)
        figures |= {f"{name}_cpu_us": round(cost_us, 2), f"{name}_per_s": round(1e6 / cost_us, 1)}
    evaluate = grid(resolved, GRID_CONFIGURATIONS)
    grid_us = cpu_us_per_call(lambda: evaluate(region), rounds, round_s)
    return figures | {
        "grid_configurations_per_s": round(GRID_CONFIGURATIONS / grid_us * 1e6),
        "answer_bytes": len(bytes_to_bytes()),
        "peers_cpu_us": {
            name: round(cost_us, 1)
            for name, cost_us in peer_costs_us(Settings().catalog_directory, round_s).items()
        },
        "most_catalog_load_cpu_us": MOST_CATALOG_LOAD_US,
        "rounds": rounds,
        "round_s": round_s,
        "python": platform.python_version(),
    }


def table(figures: dict[str, Any]) -> Table:
    """The figures for people."""
    shown = Table("", "CPU [µs]", "per second and core")
    for name, label in (
        ("bytes_to_bytes", "bytes of a request to bytes of the answer"),
        ("use_case", "use case: resolve, compute, assemble"),
        ("computation", "pure computation"),
        (
            "catalog_load",
            f"loading the catalog, its files unchanged (at most {MOST_CATALOG_LOAD_US})",
        ),
    ):
        shown.add_row(label, f"{figures[f'{name}_cpu_us']:.0f}", f"{figures[f'{name}_per_s']:.0f}")
    per_s = figures["grid_configurations_per_s"]
    shown.add_row("one configuration of a grid of arrays", f"{1e6 / per_s:.2f}", f"{per_s:.0f}")
    for name, cost_us in figures["peers_cpu_us"].items():
        shown.add_row(f"{name}: one estimate of speed", f"{cost_us:.0f}", f"{1e6 / cost_us:.1f}")
    return shown


def main() -> None:
    """Measure and print, for people or, with ``--json``, for programs."""
    parser = argparse.ArgumentParser(prog="./headroom bench core", description=__doc__)
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
