"""Reported measurements in the format that validation reads: one row is one number."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: Tables that reports of inference fill, with the metric and unit that each figure has there.
TABLES: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "memory_inference": {
        "process_bytes": ("gpu_memory_total", "B"),
        "weights_bytes": ("weights_per_gpu", "B"),
        "kv_cache_capacity_tokens": ("kv_cache_tokens", "tokens"),
    },
    "latency_inference": {
        "tpot_s": ("mean_tpot", "s"),
        "output_tokens_per_s": ("output_tokens_per_s_total", "tok/s"),
    },
}
#: Figures of one accelerator that the table gives for all.
_SUMMED = frozenset({"gpu_memory_total"})


def measurement_rows(table: str, reports: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Rows of a table, of the reports whose model and accelerator the catalog has by name."""
    return [
        row for report in reports if report["model"] != "inline" for row in _rows(table, report)
    ]


def _rows(table: str, report: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    known = TABLES[table]
    deployment = report["deployment"]
    for figure in report["figures"]:
        if figure["metric"] not in known:
            continue
        metric, unit = known[figure["metric"]]
        count = deployment["accelerator_count"]
        workload = deployment["workload"]
        yield {
            "row_id": f"measurement-{report['id']}-{figure['metric']}",
            "model": report["model"],
            "hardware": report["accelerator"],
            "hardware_count": count,
            "tp": deployment["parallelism"]["tensor"],
            "pp": deployment["parallelism"]["pipeline"],
            "weight_dtype": deployment["precision"]["weights"],
            "kv_dtype": deployment["precision"]["kv_cache"],
            **(
                {
                    "batch": workload["concurrency"],
                    "max_model_len": deployment["serving"]["max_model_len"] or "",
                    "gpu_memory_utilization": deployment["serving"]["memory_utilization_ratio"],
                }
                if table == "memory_inference"
                else {"concurrency": workload["concurrency"]}
            ),
            "input_len": workload["input_tokens"],
            "output_len": workload["output_tokens"],
            "metric": metric,
            "value": figure["measured"] * (count if metric in _SUMMED else 1),
            "unit": unit,
            "framework": deployment["serving"]["engine"],
            "source_id": "reported",
            "source_locator": f"measurement {report['id']}",
            "confidence": "high",
        }
