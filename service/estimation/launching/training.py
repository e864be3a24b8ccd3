"""The command that starts a training run, by the flags that the catalog lists for its framework."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping
from math import ceil
from types import MappingProxyType
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.sharding import trained_layer_counts
from service.core.deployment import Accelerator
from service.core.engines import Engine
from service.estimation.launching.answers import ConfigurationFile, RunStart

#: Settings that need no flag where they are this.
_UNSAID: Mapping[str, Any] = MappingProxyType(
    dict.fromkeys(
        ("tensor", "pipeline", "context", "expert", "virtual_stages", "replicate", "shard"), 1
    )
    | {"offload_optimizer": "none", "pipeline_schedule": "1f1b", "weights": "bf16"}
    | {"embedding_as_layers": False, "sequence_parallel": False, "method": "full"}
    | {"activation_checkpointing": "none", "zero_stage": 0, "optimizer": "adamw"}
    | {"fp8_recipe": None, "prediction_layers": 0, "pipeline_layout": None}
    | {"shard_groups": 1, "shard_degree": None}
    | {"expert_capacity_factor": None, "expert_padding": False}
    | dict.fromkeys(("secondary_shard_degree", "narrow_gathers", "narrow_scatters"))
)
#: Kinds of parallelism that not every framework has.
_DEGREES = ("tensor", "pipeline", "context", "expert")
#: What a reader is told of a setting that a framework has no flag for.
_NAMED: Mapping[str, str] = MappingProxyType(
    {
        "tensor": "tensor parallelism",
        "pipeline": "pipeline stages",
        "context": "context parallelism",
        "expert": "expert parallelism",
        "virtual_stages": "virtual stages of a pipeline rank",
        "offload_optimizer": "where optimizer states lie",
        "pipeline_schedule": "the pipeline's schedule",
        "weights": "the format of products",
        "method": "the method",
        "activation_checkpointing": "what is recomputed",
        "zero_stage": "the ZeRO stage",
        "shard_groups": "copies of what data-parallel ranks divide",
        "optimizer": "the optimizer",
        "expert_capacity_factor": "the capacity of experts",
        "secondary_shard_degree": "groups of ranks that hold a second copy of weights",
        "narrow_gathers": "the format in which weights are gathered",
        "narrow_scatters": "the format in which gradients are scattered",
        "fp8_recipe": "the scaling of 8-bit operands",
        "prediction_layers": "layers of multi-token prediction",
        "pipeline_layout": "layers of each pipeline stage",
    }
)

#: What a run on several machines takes, where a framework has no launcher of its own.
_SEVERAL = "run it on each of {machines} machines, with the address of the first"


def run_start_of(
    framework: str,
    run: Mapping[str, Any],
    layers: int,
    global_batch_size: int,
    accelerator: Accelerator,
    snapshot: CatalogSnapshot,
) -> RunStart | None:
    """How to start a run; None where the catalog knows no framework's flags for it.

    Parameters
    ----------
    framework
        Id of the framework. One that stands for others is started as the one of them that can be
        told most of the settings.
    run
        The run as its estimate echoes it, every default filled in.
    layers
        Layers of the model.
    global_batch_size
        Sequences of an optimizer step.
    accelerator
        What it runs on, in its machine.
    snapshot
        The catalog.
    """
    engine = snapshot.engines.get(framework)
    if engine is None:
        return None
    named = [engine.id, *engine.document.get("started_as", ())]
    machine = float(accelerator.platform.accelerators_of_a_host)
    settings = _settings(run, layers, global_batch_size, machine)
    starts = [
        _start(snapshot.engines[one], settings)
        for one in named
        if "starts_training" in snapshot.engines[one].document
        and _runs_there(snapshot.engines[one], settings, accelerator, snapshot)
        and _is_able(snapshot.engines[one], settings)
    ]
    return min(starts, key=lambda start: len(start["notes"]), default=None)


def _runs_there(
    engine: Entry[Engine],
    settings: Mapping[str, Any],
    accelerator: Accelerator,
    snapshot: CatalogSnapshot,
) -> bool:
    """Whether a framework, and what divides states for it, runs on the hardware."""
    sharded_by = engine.document["starts_training"].get("sharded_by")
    needed = [engine]
    if sharded_by is not None and settings["zero_stage"] > 0:
        needed.append(snapshot.engines[sharded_by])
    return all(one.value.runs_on(accelerator.hardware) for one in needed)


def _is_able(engine: Entry[Engine], settings: Mapping[str, Any]) -> bool:
    """Whether a framework's program trains so: one that names methods has no others."""
    recipes, method = engine.value.recipes, settings["method"]
    divided = {name for name in _DEGREES if settings[name] > 1}
    degrees, stages = recipes.tried_degrees(method), recipes.zero_stages
    methods = engine.document["starts_training"]["flags"].get("method")
    return (
        (methods is None or _can_tell(methods, method))
        and (not degrees or divided <= degrees)
        and (not stages or settings["zero_stage"] in stages)
    )


def _start(engine: Entry[Engine], settings: Mapping[str, Any]) -> RunStart:
    told: Mapping[str, Any] = engine.document["starts_training"]
    alone: Mapping[str, Any] | None = told.get("alone")
    if alone is not None and settings["accelerators"] == 1:
        told = {**told, **alone, "flags": {**told["flags"], **alone["flags"]}}
    names = {name: str(settings[name]) for name in ("machines", "ranks", "accelerators")}
    environment = [
        word
        for name, flag in told.get("environment", {}).items()
        for word in _words(flag, settings[name], False)
    ]
    words = [*environment, *(word.format(**names) for word in told["command"])]
    flags: Mapping[str, Any] = told["flags"]
    entries: Mapping[str, str] = told["file"]["entries"] if "file" in told else {}
    if "pipeline_layout" not in flags and not settings["prediction_layers"]:
        # Who is not told divides what is uneven by itself.
        settings = {**settings, "pipeline_layout": None}
    elif settings["pipeline_layout"] is not None:
        # It says how many stages each rank has.
        settings = {**settings, "virtual_stages": 1}
    for name, flag in flags.items():
        words += _words(flag, settings[name], settings[name] == _UNSAID.get(name))
    words += told.get("fixed", ())
    notes = [
        f"set {said} to {settings[name]} in {engine.value.name}'s own configuration"
        for name, said in _NAMED.items()
        if settings[name] != _UNSAID[name]
        and name not in entries.values()
        and not (name in flags and _can_tell(flags[name], settings[name]))
    ]
    if settings["machines"] > 1:
        notes.append(told.get("several", _SEVERAL).format(**names))
    return {
        "engine": engine.id,
        "command": shlex.join(words),
        "file": _file(told["file"], settings) if "file" in told else None,
        "notes": [*notes, *told.get("notes", ())],
        "source": told["source"],
    }


def _settings(
    run: Mapping[str, Any], layers: int, global_batch_size: int, machine_accelerators: float
) -> dict[str, Any]:
    """What flags can tell, by the names that the catalog gives it."""
    layout, training = run["parallelism"], run["training"]
    count, data, pipeline = run["accelerator_count"], layout["data"], layout["pipeline"]
    ranks = int(min(max(machine_accelerators, 1.0), count))
    micro, accumulated = training["micro_batch_size"], training["gradient_accumulation_steps"]
    stages = pipeline * training["virtual_stages"]
    predictions = training.get("prediction_layers") or 0
    fully_sharded = training["zero_stage"] >= 2
    degree = training.get("data_parallel_shard_degree") or data
    groups = data // degree if training["zero_stage"] > 0 else 1
    tokens = training.get("tokens") or 0.0
    samples = ceil(tokens / training["sequence_length"])
    some = training.get("recomputed_layers")
    return {
        "accelerators": count,
        "machines": ceil(count / ranks),
        "ranks": ranks,
        "tensor": layout["tensor"],
        "pipeline": pipeline,
        "context": layout["context"],
        "expert": layout["expert"],
        "shard": degree if fully_sharded else 1,
        "replicate": groups if fully_sharded else data,
        "shard_groups": groups,
        "shard_degree": degree if groups > 1 else None,
        "secondary_shard_degree": training.get("secondary_shard_degree"),
        "narrow_gathers": True if training.get("weight_gather_dtype") else None,
        "narrow_scatters": True if training.get("gradient_scatter_dtype") else None,
        "expert_capacity_factor": training.get("expert_capacity_factor"),
        "expert_padding": bool(training.get("expert_padding")),
        "micro_batch_size": micro,
        # A pipeline takes the micro-batches of a step together.
        "rank_batch_size": micro * (accumulated if pipeline > 1 else 1),
        "global_batch_size": global_batch_size,
        "gradient_accumulation_steps": accumulated,
        "sequence_tokens": training["sequence_length"],
        "samples": samples,
        "steps": max(ceil(samples / global_batch_size), 1),
        "virtual_stages": training["virtual_stages"],
        "pipeline_schedule": training["pipeline_schedule"],
        # Embedding and head fill the stages as layers do where layers alone do not.
        "embedding_as_layers": not predictions
        and layers % stages != 0
        and (layers + 2) % stages == 0,
        "pipeline_layout": _pipeline_layout(layers, stages, predictions),
        "prediction_layers": predictions,
        "gradient_dtype": training["gradient_dtype"],
        "activation_checkpointing": "layers" if some else training["activation_checkpointing"],
        # Of each stage of a rank, of which it may have several.
        "recomputed_layers": some and ceil(some / training["virtual_stages"]),
        "zero_stage": training["zero_stage"],
        "groups_of_whole_weights": layout["tensor"] * layout["context"] > 1 and not fully_sharded,
        "sequence_parallel": training["sequence_parallel"] and layout["tensor"] > 1,
        "weights": run["precision"]["weights"],
        "fp8_recipe": training.get("fp8_recipe"),
        "method": training["method"],
        "optimizer": training["optimizer"],
        "lora_rank": None if training["method"] == "full" else training["lora_rank"],
        "offload_optimizer": training["offload"]["optimizer"],
    }


def _pipeline_layout(layers: int, stages: int, predictions: int) -> str | None:
    """Which layers a stage has, where they fill no stages alike or the last predicts ahead.

    References
    ----------
    NVIDIA/Megatron-LM megatron/training/arguments.py, --pipeline-model-parallel-layout, 2025
    (embedding, transformer layers, multi-token prediction and loss as E, t, m and L)
    """
    alike = layers % stages == 0 or (layers + 2) % stages == 0
    if stages == 1 or (alike and not predictions):
        return None
    counts = trained_layer_counts(layers + predictions, stages, predictions)
    decoders = (*counts[:-1], counts[-1] - predictions)
    told = "|".join("t" * count for count in decoders)
    return f"E{told}{'m' * predictions}L"


def _can_tell(flag: Any, value: Any) -> bool:
    return isinstance(flag, str) or str(value).lower() in flag["words"]


def _words(flag: Any, value: Any, unsaid: bool) -> Iterator[str]:
    """A flag with its value: ``--flag value``, ``key=value``, or the words of the value."""
    if isinstance(flag, str):
        if value is None or unsaid:
            return
        if flag.endswith("="):
            yield f"{flag}{value}"
        else:
            yield from (flag, str(value))
        return
    yield from flag["words"].get(str(value).lower(), ())


def _file(told: Mapping[str, Any], settings: Mapping[str, Any]) -> ConfigurationFile:
    """The framework's configuration as JSON; what is not used is left out."""
    content: dict[str, Any] = {}
    for path, value in (
        *told.get("fixed", {}).items(),
        *((path, settings[name]) for path, name in told["entries"].items()),
    ):
        if value in (None, "none"):
            continue
        *outer, last = path.split(".")
        inner = content
        for name in outer:
            inner = inner.setdefault(name, {})
        inner[last] = value
    return {"name": told["name"], "content": json.dumps(content, indent=2)}
