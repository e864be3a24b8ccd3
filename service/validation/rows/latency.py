"""Measured speed of inference deployments, beside the latency answer."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from math import floor
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.inference.estimate import inference_latency_answer, inference_memory_answer
from service.estimation.requests import (
    LatencyInferenceRequest,
    MemoryInferenceRequest,
    WorkloadRequest,
)
from service.validation.former.statistics import Compared
from service.validation.rows.deployments import (
    deployment,
    input_tokens_of,
    parallelism_of,
    serving_of,
    warned,
)
from service.validation.rows.tables import Row, RowRefused
from service.validation.rows.vocabulary import (
    Vocabulary,
    accelerator_of,
    engine_of,
    model_of,
    unit_size,
)

Figure = dict[str, float]

#: llama.cpp computes prompts in micro-batches of this many tokens unless told otherwise.
#: Source: ggml-org/llama.cpp common/common.h, n_ubatch, 2024.
_LLAMA_CPP_UBATCH_TOKENS = 512
#: Most sequences that TensorRT-LLM runs at once by default.
#: Source: NVIDIA/TensorRT-LLM BuildConfig.max_batch_size, version 0.17, 2025.
_TRTLLM_MOST_SEQUENCES = 2048
#: What reports write for "as many requests as the engine takes".
_ALL_AT_ONCE = "max"
#: TensorRT-LLM's share of the memory that is free beside weights and engine, for its cache.
_SHARE_OF_FREE = re.compile(r"kv_cache_free_gpu_mem_fraction[ =](0\.\d+|1(?:\.0*)?)")


def latency_row(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> Compared:
    """Compare one row of ``latency_inference``."""
    metric = row.text("metric")
    if metric not in _METRICS:
        raise RowRefused(f"metric {metric[:40]!r} is not known")
    size = unit_size(row, vocabulary)
    fields, assumptions = speed_request(row, vocabulary, snapshot)
    answer = inference_latency_answer(LatencyInferenceRequest(**fields), snapshot)
    estimate = measured_figure(answer, fields["workload"], row, vocabulary)
    return Compared(
        row=row,
        metric=metric,
        family=snapshot.accelerators[fields["accelerator"]].value.family,
        unit="s" if metric in ("median_itl", "mean_tpot") else "tokens/s",
        measured=row.needed("value") * size,
        value=estimate["value"],
        low=estimate["low"],
        high=estimate["high"],
        warnings=(*assumptions, *warned(answer, "power_not_measured")),
    )


def measured_figure(
    answer: Mapping[str, Any], workload: WorkloadRequest, row: Row, vocabulary: Vocabulary
) -> Figure:
    """The figure of a latency answer that a row measured.

    Parameters
    ----------
    answer
        A latency answer, or as much of it as has times and rates; its figures may be arrays.
    workload
        What was asked.
    row, vocabulary
        Metric and source of the measurement.
    """
    metric = row.text("metric")
    if metric not in _METRICS:
        raise RowRefused(f"metric {metric[:40]!r} is not known")
    return _METRICS[metric](answer, workload, row, vocabulary)


def speed_request(
    row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Fields of a latency request that asks for what the row measured, and what was assumed."""
    accelerator = accelerator_of(row, vocabulary, snapshot)
    engine = engine_of(row, vocabulary, snapshot)
    model = model_of(row, vocabulary, snapshot)
    input_tokens, assumptions = input_tokens_of(row, vocabulary)
    if input_tokens is None:
        raise RowRefused("prompt length is not given")
    output_tokens = row.number("output_len")
    if output_tokens is None:
        raise RowRefused("output length is not given")
    chunk: dict[str, Any] = {}
    if engine == "llama.cpp":
        chunk["chunked_prefill_tokens"] = _LLAMA_CPP_UBATCH_TOKENS
    fields = deployment(row, vocabulary, model, accelerator, parallelism_of(row))
    fields["serving"] = serving_of(row, engine, **chunk)
    fields["workload"] = WorkloadRequest(
        input_tokens=input_tokens, output_tokens=max(round(output_tokens), 1)
    )
    share_of_free = _SHARE_OF_FREE.search(row.text("flags"))
    if share_of_free is not None:
        share = _share_of_all(fields, float(share_of_free[1]), snapshot)
        fields["serving"] = fields["serving"].model_copy(update={"memory_utilization_ratio": share})
    if row.text("concurrency").startswith(_ALL_AT_ONCE):
        return _as_many_as_fit(fields, snapshot), assumptions
    # What ran on average counts, not what was let in.
    running = row.count("batch") or row.count("concurrency") or 1
    fields["workload"] = fields["workload"].model_copy(update={"concurrency": running})
    return fields, assumptions


def _share_of_all(fields: dict[str, Any], share_of_free: float, snapshot: CatalogSnapshot) -> float:
    """Share of all memory that leaves the same for caches as a share of what else is free."""
    serving = fields["serving"].model_copy(update={"memory_utilization_ratio": 1.0})
    request = MemoryInferenceRequest(**(fields | {"serving": serving}))
    answer = inference_memory_answer(request, snapshot)
    free = max(float(answer["kv_cache_budget_bytes"]["value"]), 0.0)
    return 1.0 - (1.0 - share_of_free) * free / float(answer["capacity_bytes"])


def _as_many_as_fit(fields: dict[str, Any], snapshot: CatalogSnapshot) -> dict[str, Any]:
    """The same with as many requests in flight as memory and engine take."""
    serving = fields["serving"]
    if serving.engine == "tensorrt-llm" and serving.max_running_sequences is None:
        most = _TRTLLM_MOST_SEQUENCES
        serving = serving.model_copy(update={"max_running_sequences": most})
    running = 1
    # What fits depends on how many are computed at once; the second look settles it.
    for _ in range(2):
        workload = fields["workload"].model_copy(update={"concurrency": running})
        fields = fields | {"serving": serving, "workload": workload}
        fitting = inference_memory_answer(MemoryInferenceRequest(**fields), snapshot)[
            "max_concurrency"
        ]
        running = max(floor(fitting["value"]), 1) if fitting else 1
        if serving.max_running_sequences is not None:
            running = min(running, serving.max_running_sequences)
    return fields | {"workload": fields["workload"].model_copy(update={"concurrency": running})}


def _decode_rate(
    answer: Mapping[str, Any], workload: WorkloadRequest, row: Row, vocabulary: Vocabulary
) -> Figure:
    if row.source in vocabulary.speed_includes_prefill:
        return _rate(workload.output_tokens, answer["e2e_s"])
    return _rate(1.0, answer["tpot_s"])


def _prefill_rate(
    answer: Mapping[str, Any], workload: WorkloadRequest, _row: Row, _vocabulary: Vocabulary
) -> Figure:
    return _rate(workload.input_tokens, answer["ttft_s"])


def _throughput(
    answer: Mapping[str, Any], _workload: WorkloadRequest, _row: Row, _vocabulary: Vocabulary
) -> Figure:
    return dict(answer["output_tokens_per_s"])


def _mean_tpot(
    answer: Mapping[str, Any], _workload: WorkloadRequest, _row: Row, _vocabulary: Vocabulary
) -> Figure:
    return dict(answer["tpot_s"])


def _median_itl(
    answer: Mapping[str, Any], _workload: WorkloadRequest, _row: Row, _vocabulary: Vocabulary
) -> Figure:
    """A step without prompts in it: most steps are such, so that it is the median gap."""
    step_s, mean = answer["decode"]["step_s"], answer["tpot_s"]
    return {end: step_s * mean[end] / mean["value"] for end in ("value", "low", "high")}


_METRICS: Mapping[str, Callable[[Mapping[str, Any], WorkloadRequest, Row, Vocabulary], Figure]] = {
    "decode_tokens_per_s": _decode_rate,
    "prefill_tokens_per_s": _prefill_rate,
    "output_tokens_per_s_total": _throughput,
    "median_itl": _median_itl,
    "mean_tpot": _mean_tpot,
}


def _rate(amount: float, time_s: Figure) -> Figure:
    return {
        "value": amount / time_s["value"],
        "low": amount / time_s["high"],
        "high": amount / time_s["low"],
    }
