"""Answers cut down to what an assistant needs: the figures with their intervals, and the warnings.

A whole answer takes ten thousand tokens of a context, most of it provenance.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: What the digests read beyond the usual, by the question that is asked.
INCLUDED: Mapping[str, tuple[str, ...]] = {
    "memory/inference": ("provenance", "deployment", "memory.by_class", "remedies"),
    "memory/training": ("provenance", "deployment", "remedies"),
    "latency/inference": ("provenance", "latency.breakdown"),
    "latency/training": ("provenance",),
    "impacts": ("provenance", "deployment", "impacts.breakdown"),
    "recommendations": ("provenance",),
}

_MEMORY = (
    "weights_bytes",
    "gradients_bytes",
    "optimizer_bytes",
    "kv_cache_bytes",
    "activations_bytes",
    "logits_bytes",
    "runtime_bytes",
    "total_bytes",
    "process_bytes",
    "capacity_bytes",
    "headroom_bytes",
    "shortfall_bytes",
    "fits",
    "fits_certainty",
    "max_concurrency",
    "max_context_tokens",
    "max_micro_batch_size",
)
_SPEED = (
    "ttft_s",
    "tpot_s",
    "e2e_s",
    "output_tokens_per_s",
    "output_tokens_per_s_per_user",
    "input_tokens_per_s",
    "requests_per_s",
    "saturation_requests_per_s",
    "step_s",
    "tokens_per_s",
    "mfu_ratio",
    "model_tflops_per_accelerator",
    "bottleneck",
    "run",
)
_FOOTPRINT = (
    "facility_energy_kwh",
    "accelerator_hours",
    "carbon",
    "water",
    "e_waste_kg",
    "primary_energy_mj",
)
_CHOSEN = (
    "model",
    "accelerator",
    "accelerator_count",
    "region",
    "precision",
    "parallelism",
    "concurrency_per_replica",
    "score_ratio",
)
_BASES = ("per_request", "per_1k_tokens", "per_year")
_MOST_SOURCES = 12


def memory_and_speed(memory: Mapping[str, Any], latency: Mapping[str, Any]) -> dict[str, Any]:
    """Whether something fits, how fast it is, and, if it does not fit, what would help."""
    digest: dict[str, Any] = {
        "deployment": memory["deployment"],
        "memory_per_accelerator": _fields(memory, _MEMORY),
        "speed": _fields(latency, _SPEED),
    }
    for phase in ("prefill", "decode"):
        if latency.get(phase) is not None:
            digest["speed"][f"{phase}_bottleneck"] = latency[phase]["bottleneck"]
    for over in ("load", "in_flight"):
        if latency.get(over) is not None:
            digest["speed"][over] = latency[over]
    if latency.get("burst") is not None:
        digest["speed"]["burst"] = latency["burst"]
    if not memory["fits"]:
        digest["plans_that_would_make_it_fit"] = [
            {
                "keeps": plan["reach"],
                "fits": plan["fits"],
                "time_ratio": plan["time_ratio"],
                "steps": [step["change"] for step in plan["steps"]],
            }
            for plan in memory["plans"]
        ]
    return digest | _close(memory, latency)


def impacts(answer: Mapping[str, Any]) -> dict[str, Any]:
    """Energy, carbon, water and waste per request, token and year; of plain energy, in all."""
    bases = [name for name in _BASES if answer["impacts"].get(name)] or ["period"]
    return {
        "deployment": answer.get("deployment"),
        "region": answer["region"],
        "energy": _fields(
            answer.get("energy") or {}, ("it_power_w", "it_energy_per_request_wh", "busy_ratio")
        ),
        "impacts": {basis: _footprint(answer["impacts"][basis]) for basis in bases},
        **_close(answer),
    }


def choices(answer: Mapping[str, Any]) -> dict[str, Any]:
    """The choices, what each is best for, and what the limits excluded."""
    return {
        "searched": answer["searched"],
        "choices": [_choice(choice) for choice in answer["choices"]],
        "excluded": answer["excluded"],
        "least_violating": answer["least_violating"],
        **_close(answer),
    }


def _choice(choice: Mapping[str, Any]) -> dict[str, Any]:
    candidate, figures = choice["candidate"], choice["figures"]
    return {
        "best_for": choice["priorities"],
        "against": choice["against"],
        "start": (choice.get("start") or {}).get("command"),
        **_fields(candidate, _CHOSEN),
        **_fields(figures, ("ttft_s", "tpot_s", "output_tokens_per_s")),
        "total_bytes_per_accelerator": figures["total_bytes"],
        "total_gco2e_per_1k_tokens": figures["gco2e_per_1k_tokens"],
        "total_l_per_1k_tokens": figures["l_per_1k_tokens"],
        "usd_per_million_output_tokens": candidate["metrics"].get("cost"),
        "usd_per_month": candidate["usd_per_month"],
        "robust_share_ratio": choice["robustness"]["share_ratio"],
    }


def _footprint(told: Mapping[str, Any]) -> dict[str, Any]:
    """What is known of a footprint, whose parts may be sections of their own."""
    return {
        name: _fields(value, value) if "value" not in value else value
        for name, value in _fields(told, _FOOTPRINT).items()
    }


def _fields(section: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {name: section[name] for name in names if section.get(name) is not None}


def _close(*answers: Mapping[str, Any]) -> dict[str, Any]:
    """Warnings and sources of answers, each once, and what repeats them."""
    warnings = {item["message"]: None for answer in answers for item in answer["warnings"]}
    sources = {
        source["id"]: {"title": source["title"], "url": source["url"]}
        for answer in answers
        for entry in answer["provenance"]["entries"]
        for source in entry["sources"]
    }
    return {
        "warnings": list(warnings),
        "sources": list(sources.values())[:_MOST_SOURCES],
        "catalog_revision": answers[0]["catalog_revision"],
        "engine_version": answers[0]["engine_version"],
    }
