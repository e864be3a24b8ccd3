"""Measured memory of inference deployments, beside the memory answer."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.inference.estimate import inference_memory_answer
from service.estimation.requests import MemoryInferenceRequest, ParallelismRequest, WorkloadRequest
from service.validation.former.statistics import Compared
from service.validation.rows.deployments import deployment, parallelism_of, serving_of, warned
from service.validation.rows.tables import Row, RowRefused
from service.validation.rows.vocabulary import (
    Vocabulary,
    accelerator_of,
    engine_of,
    model_of,
    size_of,
    unit_size,
)

Figure = dict[str, float]

#: Weights on disk do not depend on the accelerator; the request needs one all the same.
_ANY_ACCELERATOR = "nvidia-h200-sxm-141gb"
_ON_DISK = "weights_file_size"
#: Workspaces as flags state them.
_WORKSPACE = re.compile(r"(\d{1,6}(?:\.\d{1,6})?) (GB|GiB) workspace")
_TOTALS = ("gpu_memory_total", "nvidia_smi_used_after_load")
_REFUSED = {
    "kv_blocks_old": "counted by code that its own authors corrected",
    "total_gpu_memory": "a property of the accelerator or of settings, not an estimate",
}


def memory_row(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> Compared:
    """Compare one row of ``memory_inference``."""
    metric = row.text("metric")
    if metric in _REFUSED:
        raise RowRefused(f"{metric}: {_REFUSED[metric]}")
    size = unit_size(row, vocabulary)
    on_disk = metric == _ON_DISK
    accelerator = _ANY_ACCELERATOR if on_disk else accelerator_of(row, vocabulary, snapshot)
    parallelism = ParallelismRequest() if on_disk else parallelism_of(row)
    answer = _answer(row, vocabulary, snapshot, accelerator, parallelism)
    if metric in _TOTALS:
        estimate = _total(row, vocabulary, snapshot, accelerator, parallelism, answer)
    else:
        estimate = _component(metric, answer)
    family = "storage" if on_disk else snapshot.accelerators[accelerator].value.family
    return Compared(
        row=row,
        metric=metric,
        family=family,
        unit="tokens" if metric in ("kv_cache_tokens", "kv_blocks") else "bytes",
        measured=row.needed("value") * size,
        value=estimate["value"],
        low=estimate["low"],
        high=estimate["high"],
        warnings=warned(answer, "efficiency_not_measured", "power_not_measured", "assumed_figure"),
    )


def fits(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> bool:
    """Whether the estimate lets a row fit, for rows that ran out of memory or did not."""
    accelerator = accelerator_of(row, vocabulary, snapshot)
    answer = _answer(row, vocabulary, snapshot, accelerator, parallelism_of(row))
    # Ran out means all memory, whatever share a server would have limited itself to.
    return bool(answer["total_bytes"]["value"] <= answer["capacity_bytes"])


def _answer(
    row: Row,
    vocabulary: Vocabulary,
    snapshot: CatalogSnapshot,
    accelerator: str,
    parallelism: ParallelismRequest,
) -> Mapping[str, Any]:
    loaded_only = row.text("metric") in (_ON_DISK, "nvidia_smi_used_after_load")
    sequences = row.count("batch") or row.count("concurrency") or 1
    request = MemoryInferenceRequest(
        **deployment(
            row, vocabulary, model_of(row, vocabulary, snapshot), accelerator, parallelism
        ),
        workload=WorkloadRequest(
            input_tokens=1 if loaded_only else row.count("input_len") or 1,
            output_tokens=1 if loaded_only else row.count("output_len") or 1,
            concurrency=sequences,
        ),
        serving=serving_of(
            row,
            engine_of(row, vocabulary, snapshot),
            reserved_bytes=_workspace_bytes(row, vocabulary),
        ),
    )
    return inference_memory_answer(request, snapshot)


def _workspace_bytes(row: Row, vocabulary: Vocabulary) -> float:
    """What flags set aside on each accelerator [B]."""
    stated = _WORKSPACE.search(row.text("flags"))
    return 0.0 if stated is None else float(stated[1]) * size_of(row, stated[2], vocabulary)


def _component(metric: str, answer: Mapping[str, Any]) -> Figure:
    """The part of the answer that a metric of one accelerator measures."""
    figures: dict[str, Figure] = {
        "weights_per_gpu": answer["weights_bytes"],
        _ON_DISK: answer["weights_bytes"],
        "activation_peak_per_gpu": answer["activations_bytes"],
        "non_torch_per_gpu": answer["libraries_bytes"],
        "kv_cache_per_gpu": answer["kv_cache_budget_bytes"],
        "k_cache_per_gpu": _times(answer["kv_cache_budget_bytes"], 0.5),
        "v_cache_per_gpu": _times(answer["kv_cache_budget_bytes"], 0.5),
        "kv_cache_tokens": answer["kv_cache_capacity_tokens"],
        "kv_blocks": answer["kv_cache_capacity_tokens"],
    }
    if metric not in figures:
        raise RowRefused(f"metric {metric[:40]!r} is not known")
    return figures[metric]


def _total(
    row: Row,
    vocabulary: Vocabulary,
    snapshot: CatalogSnapshot,
    accelerator: str,
    parallelism: ParallelismRequest,
    answer: Mapping[str, Any],
) -> Figure:
    """Memory over all accelerators of the row."""
    count = parallelism.tensor * parallelism.pipeline * parallelism.data
    allocated = row.source in vocabulary.memory_is_allocated
    parts = ("activations_bytes",) if allocated else ("activations_bytes", "runtime_bytes")
    around = [_times(answer[name], count) for name in parts]
    if parallelism.pipeline > 1 and parallelism.tensor == 1:
        # The answer is about the fullest stage; stages together hold one model and its caches.
        whole = _answer(
            row, vocabulary, snapshot, accelerator, ParallelismRequest(data=parallelism.data)
        )
        held = [_times(whole[name], parallelism.data) for name in _HELD]
    elif allocated:
        held = [_times(answer[name], count) for name in _HELD]
    else:
        return _times(answer["total_bytes"], count)
    return {end: sum(part[end] for part in (*held, *around)) for end in ("value", "low", "high")}


_HELD = ("weights_bytes", "kv_cache_bytes")


def _times(figure: Figure, factor: float) -> Figure:
    return {end: value * factor for end, value in figure.items()}
