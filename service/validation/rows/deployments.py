"""The parts of a request that all rows about inference share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from service.core.number_formats import NUMBER_FORMATS
from service.estimation.references import ModelConfig
from service.estimation.requests import ParallelismRequest, PrecisionRequest, ServingRequest
from service.validation.rows.tables import Row, RowRefused
from service.validation.rows.vocabulary import Vocabulary, format_of, version_of

#: SGLang's name for the share of memory that weights and cache may take.
_STATIC_SHARE = "mem_fraction_static"


def parallelism_of(row: Row) -> ParallelismRequest:
    """How the row's model is divided over its accelerators.

    Raises
    ------
    RowRefused
        If the degrees given do not make up the number of accelerators.
    """
    count = row.count("hardware_count") or 1
    tensor, pipeline = row.count("tp"), row.count("pp") or 1
    expert = row.count("ep") or 1
    if tensor is None:
        tensor = max(count // pipeline, 1)
    if expert > 1 and tensor == 1 and pipeline * expert == count:
        # Experts lie where the attention's tensor-parallel ranks are.
        tensor = expert
    if count % (tensor * pipeline):
        raise RowRefused("tp and pp do not divide hardware_count")
    return ParallelismRequest(
        tensor=tensor, pipeline=pipeline, expert=expert, data=count // (tensor * pipeline)
    )


def precision_of(row: Row, vocabulary: Vocabulary) -> PrecisionRequest:
    """Number formats of weights and cache.

    Raises
    ------
    RowRefused
        If one of them is not known.
    """
    weights = format_of(row.text("weight_dtype"), vocabulary)
    cache = format_of(row.text("kv_dtype"), vocabulary)
    plain = weights is not None and NUMBER_FORMATS[weights].bits_per_element == 32.0
    return PrecisionRequest(weights=weights, kv_cache=cache, activations=weights if plain else None)


def serving_of(row: Row, engine: str, **settings: Any) -> ServingRequest:
    """Engine settings from the row's columns and the flags it was started with.

    Raises
    ------
    RowRefused
        If one of them is no number.
    """
    flags = dict(re.findall(r"(\w+)=(\d+(?:\.\d+)?)", row.text("flags")))
    share = row.number("gpu_memory_utilization") or float(flags.get(_STATIC_SHARE, 0.0))
    if 0.0 < share <= 1.0:
        settings["memory_utilization_ratio"] = share
    running = flags.get("max_num_seqs")
    return ServingRequest(
        **settings,
        engine=engine,
        engine_version=version_of(row),
        max_model_len=row.count("max_model_len"),
        max_running_sequences=None if running is None else max(round(float(running)), 1),
    )


def input_tokens_of(row: Row, vocabulary: Vocabulary) -> tuple[int | None, tuple[str, ...]]:
    """Prompt length of the row, or the one assumed for its source, which is warned about."""
    given = row.number("input_len")
    if given is not None:
        return max(round(given), 1), ()
    assumed = vocabulary.assumed_input_tokens.get(row.source)
    if assumed is None:
        return None, ()
    return assumed, (f"prompt length not published; {assumed} tokens assumed",)


def deployment(
    row: Row,
    vocabulary: Vocabulary,
    model: str | ModelConfig,
    accelerator: str,
    parallelism: ParallelismRequest,
) -> dict[str, Any]:
    """Fields that every request about an inference deployment needs."""
    return {
        "model": model,
        "accelerator": accelerator,
        "precision": precision_of(row, vocabulary),
        "parallelism": parallelism,
    }


def warned(answer: Mapping[str, Any], *irrelevant: str) -> tuple[str, ...]:
    """Messages of an answer's warnings, but for those with the given codes."""
    return tuple(
        warning["message"] for warning in answer["warnings"] if warning["code"] not in irrelevant
    )
