"""``./headroom bench plans``: a fleet of models over ten years, and a trace of a million requests.

Processor time of the use cases on the packaged catalog, and of reading the trace from its text.
"""

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.table import Table

from service.catalog.files import packaged_documents
from service.catalog.snapshot import snapshot_from_documents
from service.estimation.plans.requests import FleetPlanRequest, TrafficPlanRequest
from service.estimation.plans.traces import traffic_of
from service.estimation.use_cases import USE_CASES
from service.settings import Settings

ROUNDS = 5
REQUESTS = 1_000_000
_DAY_S = 86_400.0
_YEARS = 10
#: Models of several sizes, each in the layout that the plan chooses for so many accelerators.
_MODELS = {
    "meta-llama/Llama-3.1-8B": 1,
    "meta-llama/Llama-3.1-70B": 4,
    "Qwen/Qwen2.5-7B": 1,
    "mistralai/Mixtral-8x7B-v0.1": 4,
    "Qwen/Qwen3-30B-A3B": 2,
}


def fleet() -> dict[str, Any]:
    """The request for a plan of all models, each load growing at its own rate."""
    return {
        "years": _YEARS,
        "loads": [
            {
                "name": model,
                "deployment": {
                    "model": model,
                    "accelerator": "nvidia-h100-sxm-80gb",
                    "accelerator_count": count,
                    "region": "aws/eu-north-1",
                    "workload": {"input_tokens": 1024, "output_tokens": 256},
                },
                "requests_per_s": 20.0,
                "peak_ratio": 2.0,
                "growth_per_year_ratio": 0.1 * at,
            }
            for at, (model, count) in enumerate(_MODELS.items())
        ],
    }


def trace(requests: int) -> list[str]:
    """A table of requests over a day, with lengths that differ; the same each time."""
    rows = (
        f"{_DAY_S * at / requests:.3f},{16 + at * 7919 % 4081},{8 + at * 104729 % 1017}\n"
        for at in range(requests)
    )
    return ["arrival_s,input_tokens,output_tokens\n", *rows]


def median_cpu_s(action: Callable[[], Any], rounds: int) -> float:
    """Processor time of one call, the median of the rounds [s]."""
    taken = []
    for _ in range(rounds):
        began_s = time.process_time()
        action()
        taken.append(time.process_time() - began_s)
    return statistics.median(taken)


def benchmark(rounds: int, requests: int) -> dict[str, Any]:
    """Measure the plan of a fleet, reading a trace, and the plan of its traffic."""
    snapshot = snapshot_from_documents(packaged_documents(Settings().catalog_directory), revision=0)
    planned = FleetPlanRequest.model_validate(fleet())
    lines = trace(requests)
    traffic = traffic_of(lines).fields
    copy = planned.loads[0].deployment.model_dump(exclude_unset=True)
    day = TrafficPlanRequest.model_validate(
        {**traffic, "deployment": copy | dict(traffic["deployment"])}
    )
    stretches: dict[str, Callable[[], Any]] = {
        "fleet": lambda: USE_CASES["plans/fleet"].respond(planned, snapshot),
        "trace": lambda: traffic_of(lines),
        "traffic": lambda: USE_CASES["plans/traffic"].respond(day, snapshot),
    }
    stretches["fleet"]()
    return {
        **{f"{name}_cpu_s": round(median_cpu_s(it, rounds), 4) for name, it in stretches.items()},
        "models": len(_MODELS),
        "years": _YEARS,
        "requests": requests,
        "rounds": rounds,
        "python": platform.python_version(),
    }


def table(figures: dict[str, Any]) -> Table:
    """The figures for people."""
    shown = Table("", "CPU [s]")
    for name, label in (
        ("fleet", f"a fleet of {figures['models']} models over {figures['years']} years"),
        ("trace", f"reading a trace of {figures['requests']:,} requests"),
        ("traffic", "the plan of a day of its traffic"),
    ):
        shown.add_row(label, f"{figures[f'{name}_cpu_s']:.3f}")
    return shown


def main() -> None:
    """Measure and print, for people or, with ``--json``, for programs."""
    parser = argparse.ArgumentParser(prog="./headroom bench plans", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--requests", type=int, default=REQUESTS)
    asked = parser.parse_args()
    figures = benchmark(asked.rounds, asked.requests)
    if asked.json:
        print(json.dumps(figures, indent=2))
    else:
        Console().print(table(figures))


if __name__ == "__main__":
    main()
