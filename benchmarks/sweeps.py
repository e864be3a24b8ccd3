"""``./headroom bench sweeps``: what searches take, and how many configurations sweeps evaluate.

Searches as :mod:`benchmarks.searches` asks for them. Of sweeps, two stretches in this process by
processor time, each containing the one before: figures with intervals, and the same packed to be
kept; then whole sweeps by clock, from asking to the last chunk kept, on an embedded Postgres that
workers of their own processes share.
"""

import argparse
import asyncio
import json
import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from uuid import UUID

from rich.console import Console
from rich.table import Table

from benchmarks.searches import MOST_ACCELERATORS, searches
from service import ENGINE_VERSION
from service.catalog.database.store import CatalogStore
from service.catalog.files import packaged_documents
from service.catalog.snapshot import snapshot_from_documents
from service.estimation.sweeps.chunks import evaluate_chunk
from service.estimation.sweeps.plan import Study, resolve_study
from service.estimation.sweeps.requests import SweepRequest
from service.jobs import repository
from service.jobs.content import packed
from service.jobs.queue import enqueue
from service.settings import INSTALLATION, Settings

#: All accelerators, usual formats and layouts, in all cloud regions.
STUDY = {
    "models": ["meta-llama/Llama-3.1-70B"],
    "space": {"max_accelerators": 16},
    "limits": {"ttft_s": 2.0, "tpot_s": 0.05},
}
_LOOK_EVERY_S = 0.1


def of_a_core(study: Study, chunks: int) -> dict[str, Any]:
    """Configurations a second of processor time, over chunks spread evenly through a study."""
    step = max(len(study.chunks) // chunks, 1)
    chosen = study.chunks[step // 2 :: step][:chunks]
    evaluate_chunk(study, chosen[0])
    configurations = rows = size = 0
    evaluated_s = packed_s = 0.0
    for chunk in chosen:
        began_s = time.process_time()
        found = evaluate_chunk(study, chunk)
        evaluated_s += (middle_s := time.process_time()) - began_s
        size += len(packed(found))
        packed_s += time.process_time() - middle_s
        configurations += chunk.configurations
        rows += len(found)
    return {
        "evaluated_configurations_per_s": round(configurations / evaluated_s),
        "packed_configurations_per_s": round(configurations / (evaluated_s + packed_s)),
        "kept_ratio": round(rows / configurations, 4),
        "bytes_per_row": round(size / rows, 1),
        "chunk_s": round((evaluated_s + packed_s) / len(chosen), 3),
    }


def together(request: SweepRequest, workers: int) -> dict[str, Any]:
    """A whole sweep by clock, with so many worker processes at it from the start."""
    with tempfile.TemporaryDirectory(prefix="headroom-bench-") as folder:
        # Postgres does not run as root but as a user of its own, who has to come this way.
        Path(folder).chmod(0o755)
        settings = Settings(data_directory=Path(folder) / "data", log_level="error")
        return asyncio.run(_together(settings, request, workers))


async def _together(settings: Settings, request: SweepRequest, workers: int) -> dict[str, Any]:
    store = CatalogStore(settings)
    await store.start()
    environment = os.environ | {
        "HEADROOM_DATA_DIRECTORY": str(settings.data_directory),
        "HEADROOM_LOG_LEVEL": "error",
    }
    processes = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "service.cli", "worker"),
            cwd=INSTALLATION,
            env=environment,
            stdout=asyncio.subprocess.PIPE,
        )
        for _ in range(workers)
    ]
    try:
        for process in processes:
            assert process.stdout  # noqa: S101 - it was asked for
            await process.stdout.readline()
        return await _timed(store, request)
    finally:
        for process in processes:
            process.terminate()
            await process.wait()
        await store.stop()


async def _timed(store: CatalogStore, request: SweepRequest) -> dict[str, Any]:
    study = resolve_study(request, store.snapshot)
    began_s = time.monotonic()
    new = repository.NewSweep(
        request=request.model_dump_json(exclude_defaults=True).encode(),
        catalog_revision=store.snapshot.revision,
        engine_version=ENGINE_VERSION,
        configurations=study.configurations,
        chunks=len(study.chunks),
    )
    async with store.transaction() as connection:
        id_, _ = await repository.add(connection, new, None)
        await enqueue(connection, id_, new.chunks)
    kept = await _finished(store, id_)
    taken_s = time.monotonic() - began_s
    return {
        "configurations": study.configurations,
        "rows": kept["rows"],
        "taken_s": round(taken_s, 2),
        "configurations_per_s": round(study.configurations / taken_s),
    }


async def _finished(store: CatalogStore, id_: UUID) -> dict[str, Any]:
    while True:
        async with store.transaction() as connection:
            kept = await repository.one(connection, id_)
        if kept is not None and kept["finished_at"] is not None:
            if kept["status"] != "succeeded":
                raise SystemExit(f"the sweep has {kept['status']}: {kept['problem']}")
            return kept
        await asyncio.sleep(_LOOK_EVERY_S)


def benchmark(
    chunks: int, workers: list[int], rounds: int, most_accelerators: int = MOST_ACCELERATORS
) -> dict[str, Any]:
    """Measure searches, one core, and sweeps with so many workers each."""
    request = SweepRequest.model_validate(STUDY)
    documents = packaged_documents(Settings().catalog_directory)
    snapshot = snapshot_from_documents(documents, revision=0)
    study = resolve_study(request, snapshot)
    return {
        **searches(snapshot, rounds, most_accelerators),
        **of_a_core(study, chunks),
        "sweeps": [{"workers": count, **together(request, count)} for count in workers],
        "processors": os.cpu_count(),
        "python": platform.python_version(),
    }


def table(figures: dict[str, Any]) -> Table:
    """Rates for people."""
    shown = Table("", "configurations per second")
    shown.add_row("one core: evaluated", f"{figures['evaluated_configurations_per_s']:,}")
    shown.add_row("one core: evaluated and packed", f"{figures['packed_configurations_per_s']:,}")
    for one in figures["sweeps"]:
        label = f"whole sweep, {one['workers']} worker(s), {one['taken_s']} s by clock"
        shown.add_row(label, f"{one['configurations_per_s']:,}")
    return shown


def limits_table(figures: dict[str, Any]) -> Table:
    """What searches take, beside what the service promises itself."""
    shown = Table("", "CPU [s]", "at most [s]", "")
    for one in figures["limits"]:
        name = one["figure"].removesuffix("_s").replace("_", " ")
        kept = "kept" if one["kept"] else "missed"
        shown.add_row(name, f"{one['value']:.2f}", f"{one['most']:.1f}", kept)
    return shown


def main() -> None:
    """Measure and print, for people or, with ``--json``, for programs."""
    parser = argparse.ArgumentParser(prog="./headroom bench sweeps", description=__doc__)
    parser.add_argument("--json", action="store_true", help="print the figures as one JSON object")
    parser.add_argument("--chunks", type=int, default=20, help="chunks measured on one core")
    parser.add_argument("--workers", type=int, nargs="*", default=[1, 2])
    parser.add_argument("--rounds", type=int, default=3, help="times each search is asked for")
    parser.add_argument(
        "--most-accelerators",
        type=int,
        default=MOST_ACCELERATORS,
        help="how far the large search goes",
    )
    asked = parser.parse_args()
    figures = benchmark(asked.chunks, asked.workers, asked.rounds, asked.most_accelerators)
    if asked.json:
        print(json.dumps(figures, indent=2))
    else:
        Console().print(limits_table(figures), table(figures))


if __name__ == "__main__":
    main()
