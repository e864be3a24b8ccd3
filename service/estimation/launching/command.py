"""The command that starts a deployment, by the flags that the catalog lists for its engine."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from service.catalog.entries.entry import Entry
from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Accelerator, Parallelism
from service.core.engines import Engine
from service.core.number_formats import NUMBER_FORMATS
from service.estimation.launching.answers import Start
from service.estimation.launching.kubernetes import manifest

#: Settings that are degrees: one needs no flag.
_DEGREES = ("tensor", "pipeline", "data", "expert")
#: The longest sequence that a server is told is at least this.
_SHORTEST_CONTEXT = 2048
#: Machines whose accelerators no plugin of a cluster hands out: processors alone, and what people
#: carry or build in.
_NO_NODES = frozenset(("server-cpu", "laptop", "phone", "soc-board", "mini-pc"))
#: What names of repositories with files of llama.cpp end in, which their files do not.
_OF_FILES = "-gguf"
#: Formats that every engine reads without being told.
_PLAIN_BITS = 16.0
#: Shares closer than this differ by rounding alone [-].
_ROUNDING = 1e-6


def start_of(
    engine: Entry[Engine],
    estimate: Mapping[str, Any],
    checkpoint: str,
    shipped_weights: str,
    model: ModelArchitecture,
    accelerator: Accelerator,
) -> Start | None:
    """How to start a deployment; None for engines whose flags the catalog does not know.

    Parameters
    ----------
    engine
        The engine that serves.
    estimate
        Of the deployment, which it echoes with every default filled in.
    checkpoint, shipped_weights
        Name of what is loaded, and the number format of its weights.
    model, accelerator
        What is served on what.
    """
    told = engine.document.get("start")
    if told is None:
        return None
    deployment = estimate["deployment"]
    flags: Mapping[str, Any] = told["flags"]
    # An engine takes its whole cache at the start, for all slots or for them to share.
    of_each, memory = "total_tokens" in flags, estimate["memory"]
    room = memory["max_context_tokens" if of_each else "kv_cache_capacity_tokens"]
    limits = [model.max_position_embeddings, None if room is None else room["value"]]
    settings = _settings(deployment, [one for one in limits if one is not None])
    settings["memory_utilization_ratio"] = _share(deployment, memory)
    weights, notes = deployment["precision"]["weights"], list[str]()
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
    layout = Parallelism(**deployment["parallelism"])
    sharing = told.get("sharing", {}) if layout.joined_copies > 1 else {}
    replica = layout.least_accelerators
    machine = float(accelerator.platform.accelerators_of_a_host)
    spans = replica > machine
    if spans:
        notes.append(
            f"a replica takes {replica} accelerators of several machines: start the engine's "
            "cluster (Ray, MPI or its own) first"
        )
    together = _copies_started(told, layout, machine, model)
    settings["data"] = together
    if layout.data > together:
        notes.append(
            f"start {layout.data // together} of these, each on its own accelerators, behind a "
            "load balancer"
        )
    if sharing.get("tensor_counts_copies", False):
        settings["tensor"] = layout.tensor * layout.joined_copies
    notes += [sharing["note"]] if "note" in sharing else []
    notes += _notes_on_build(engine, deployment["serving"].get("backend"))
    notes += _notes_on_serving(deployment["serving"], layout.data)
    file = _file(checkpoint, weights)
    if needs_file and checkpoint.casefold().endswith(_OF_FILES):
        notes.append(f"fetch {file} from {checkpoint}")
    elif needs_file:
        notes.append(f"{file} is the model in {weights}: fetch a published one, or convert it")
    always = frozenset(told.get("always", ()))
    names = {"model": checkpoint, "file": file}
    base = [word.format(**names) for word in told["command"]]
    fixed = (*sharing.get("words", ()), *told.get("fixed", ()))
    words = [*base, *_words(flags, settings, always), *fixed]
    one = [*base, *_words(flags, settings | {"data": layout.joined_copies}, always), *fixed]
    return {
        "engine": engine.id,
        "command": shlex.join(words),
        "kubernetes": None
        if spans
        or accelerator.platform.kind in _NO_NODES
        or (image := told.get("images", {}).get(accelerator.vendor)) is None
        else manifest(
            image,
            told["port"],
            {"args": one[1:]} if told.get("entrypoint", False) else {"command": one},
            replica,
            layout.data // layout.joined_copies,
            accelerator.vendor,
        ),
        "notes": notes,
        "source": told["source"],
    }


def _notes_on_build(engine: Entry[Engine], backend: str | None) -> Iterator[str]:
    """Which of an engine's builds a backend needs."""
    options = engine.document.get("backends", {}).get("options", ())
    build = next((one.get("build") for one in options if one["id"] == backend), None)
    if build is not None:
        yield f"take a build of {engine.value.name} for {backend} ({build})"


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
    if serving.get("memory_tiers") or serving.get("offload"):
        yield (
            "this command keeps the whole model in the accelerators: tell the engine by its own "
            "settings how much of it lies outside"
        )


def _copies_started(
    told: Mapping[str, Any], layout: Parallelism, machine: float, model: ModelArchitecture
) -> int:
    """Copies that one command starts: those that share experts, or all of a machine.

    Where copies are whole, an engine that always spreads experts over them starts one.
    """
    if layout.joined_copies > 1:
        return layout.joined_copies
    shares = told.get("sharing", {}).get("always", False) and model.routes
    within = layout.replica_accelerators * layout.data <= machine
    return layout.data if "data" in told["flags"] and within and not shares else 1


def _file(checkpoint: str, weights: str) -> str:
    """A file with the weights, as such files are usually called."""
    name, form = checkpoint.split("/")[-1], weights.removeprefix("gguf-")
    if name.casefold().endswith(_OF_FILES):
        name = name[: -len(_OF_FILES)]
    return f"{name}.gguf" if form == weights else f"{name}-{form.upper()}.gguf"


def _settings(deployment: Mapping[str, Any], most_tokens: Sequence[float]) -> dict[str, Any]:
    """What flags can tell, by the names that the catalog gives it."""
    layout, serving = deployment["parallelism"], deployment["serving"]
    workload = deployment["workload"]
    tokens = serving.get("max_model_len") or _context(workload, most_tokens)
    # Sequences for which the whole cache is taken at the start are those that were estimated.
    slots = serving["max_running_sequences"]
    if workload.get("requests_per_s") is None:
        slots = min(slots, ceil(workload["concurrency"] / layout["data"]))
    return {name: layout[name] for name in _DEGREES} | {
        "sequence_tokens": tokens,
        "total_tokens": tokens * slots,
        "slots": slots,
        "max_running_sequences": serving["max_running_sequences"],
        "chunked_prefill_tokens": serving["chunked_prefill_tokens"],
        "enforce_eager": serving["enforce_eager"],
    }


def _share(deployment: Mapping[str, Any], memory: Mapping[str, Any]) -> float:
    """The engine's share of the memory, less what it keeps free beside it by the layout [-]."""
    share: float = deployment["serving"]["memory_utilization_ratio"]
    used: float = memory["usable_bytes"] / memory["capacity_bytes"]
    return round(used, 3) if share - used > _ROUNDING else share


def _context(workload: Mapping[str, Any], most: Sequence[float]) -> int:
    """A power of two that holds twice the usual sequence, as far as model and memory go.

    That of an agent's last call is the usual one of a task.
    """
    grown = workload["context_growth_tokens"] * (workload["calls_per_task"] - 1)
    usual: int = ceil(workload["input_tokens"] + grown + workload["output_tokens"])
    tokens = max(_SHORTEST_CONTEXT, 1 << (2 * usual - 1).bit_length())
    return max(usual, int(min(tokens, *most)))


def _words(
    flags: Mapping[str, Any], settings: Mapping[str, Any], always: frozenset[str]
) -> Iterator[str]:
    """Flags and their values, in the catalog's order; degrees of one only where they are told."""
    for name, flag in flags.items():
        value = settings.get(name)
        if value is None or value is False:
            continue
        if name in _DEGREES and value <= 1 and name not in always:
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
