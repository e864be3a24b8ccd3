"""The command that starts a deployment, by the flags that the catalog lists for its engine."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from service.catalog.entries.entry import Entry
from service.core.engines import Engine
from service.core.number_formats import NUMBER_FORMATS
from service.estimation.launching.answers import Start
from service.estimation.launching.kubernetes import manifest

#: Settings that are degrees: one needs no flag.
_DEGREES = ("tensor", "pipeline", "data", "expert")
#: The longest sequence that a server is told is at least this.
_SHORTEST_CONTEXT = 2048
#: Formats that every engine reads without being told.
_PLAIN_BITS = 16.0


def start_of(
    engine: Entry[Engine],
    deployment: Mapping[str, Any],
    checkpoint: str,
    shipped_weights: str,
    longest_tokens: int | None,
    machine_accelerators: float,
    vendor: str,
) -> Start | None:
    """How to start a deployment; None for engines whose flags the catalog does not know.

    Parameters
    ----------
    engine
        The engine that serves.
    deployment
        The deployment as its estimate echoes it, every default filled in.
    checkpoint, shipped_weights
        Name of what is loaded, and the number format of its weights.
    longest_tokens
        Longest sequence of the model; None if not known.
    machine_accelerators
        Accelerators in a machine.
    vendor
        Who makes the accelerators.
    """
    told = engine.document.get("start")
    if told is None:
        return None
    settings = _settings(deployment, longest_tokens)
    weights, notes = deployment["precision"]["weights"], list[str]()
    flags: Mapping[str, Any] = told["flags"]
    needs_file = any("{file}" in word for word in told["command"])
    if weights != shipped_weights and not needs_file:
        converts = "weights" in flags and weights in flags["weights"]["values"]
        if converts:
            settings["weights"] = weights
        elif NUMBER_FORMATS[weights].bits_per_element < _PLAIN_BITS:
            notes.append(
                f"name a checkpoint in {weights} in place of {checkpoint}: "
                f"{engine.value.name} does not convert one when it starts"
            )
    cache = deployment["precision"]["kv_cache"]
    if NUMBER_FORMATS[cache].bits_per_element < _PLAIN_BITS:
        if "kv_cache" in flags and cache in flags["kv_cache"]["values"]:
            settings["kv_cache"] = cache
        else:
            notes.append(f"set the KV cache to {cache} in the engine's own configuration")
    layout = deployment["parallelism"]
    replica = layout["tensor"] * layout["pipeline"]
    spans = replica > machine_accelerators
    if spans:
        notes.append(
            f"a replica takes {replica} accelerators of several machines: start the engine's "
            "cluster (Ray, MPI or its own) first"
        )
    if layout["data"] > 1 and "data" not in flags:
        notes.append(
            f"start {layout['data']} of these, each on its own accelerators, behind a load balancer"
        )
    notes += _notes_on_serving(deployment["serving"], layout["data"])
    names = {"model": checkpoint, "file": f"{checkpoint.split('/')[-1]}.gguf"}
    base = [word.format(**names) for word in told["command"]]
    words = [*base, *_words(flags, settings), *told.get("fixed", ())]
    one = [*base, *_words(flags, settings | {"data": 1}), *told.get("fixed", ())]
    return {
        "engine": engine.id,
        "command": shlex.join(words),
        "kubernetes": None
        if spans or "image" not in told
        else manifest(told["image"], told["port"], one, replica, layout["data"], vendor),
        "notes": notes,
        "source": told["source"],
    }


def _notes_on_serving(serving: Mapping[str, Any], replicas: int) -> Iterator[str]:
    """What engines are told in files or by programs of their own, which differ by release."""
    pools, drafts = serving.get("disaggregated"), serving.get("speculative")
    if pools is not None:
        prompts = pools.get("prefill_replicas")
        divided = (
            f"of the {replicas} replicas as many compute prompts as balance both pools"
            if prompts is None
            else f"{prompts} replicas compute prompts, {replicas - prompts} decode"
        )
        yield (
            f"{divided}: start them by the engine's disaggregated serving, with a connector that "
            "moves caches and a router before them"
        )
    if drafts is not None:
        drafted = drafts.get("draft_model") or "n-grams or heads of the model's own"
        yield (
            f"turn on speculative decoding by {drafted}, {drafts['draft_tokens']} tokens a step, "
            "in the engine's own configuration"
        )


def _settings(deployment: Mapping[str, Any], longest_tokens: int | None) -> dict[str, Any]:
    """What flags can tell, by the names that the catalog gives it."""
    layout, serving = deployment["parallelism"], deployment["serving"]
    tokens = serving.get("max_model_len") or _context(deployment["workload"], longest_tokens)
    return {name: layout[name] for name in _DEGREES} | {
        "sequence_tokens": tokens,
        "total_tokens": tokens * serving["max_running_sequences"],
        "memory_utilization_ratio": serving["memory_utilization_ratio"],
        "max_running_sequences": serving["max_running_sequences"],
        "chunked_prefill_tokens": serving["chunked_prefill_tokens"],
        "enforce_eager": serving["enforce_eager"],
    }


def _context(workload: Mapping[str, Any], longest_tokens: int | None) -> int:
    """A power of two that holds twice the usual sequence, as far as the model goes."""
    usual = int(workload["input_tokens"] + workload["output_tokens"])
    tokens = max(_SHORTEST_CONTEXT, 1 << (2 * usual - 1).bit_length())
    return tokens if longest_tokens is None else min(tokens, longest_tokens)


def _words(flags: Mapping[str, Any], settings: Mapping[str, Any]) -> Iterator[str]:
    """Flags and their values, in the catalog's order."""
    for name, flag in flags.items():
        value = settings.get(name)
        if value is None or value is False or (name in _DEGREES and value <= 1):
            continue
        if isinstance(flag, str):
            yield flag
            yield f"{value:g}" if isinstance(value, float) else str(value)
        elif "switch" in flag:
            yield flag["switch"]
        else:
            for one in (flag["flag"], *([flag["also"]] if "also" in flag else ())):
                yield one
                yield flag["values"][str(value).lower()]
