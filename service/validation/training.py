"""Measured memory of training runs, beside the estimate of a run with the row's settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import InferenceDeployment, Precision
from service.core.interval import Interval, without
from service.core.memory.training import TrainingMemory, training_memory
from service.core.memory.training_runtime import TrainingOverheads, training_overheads
from service.core.memory.training_settings import ALL_LINEAR, MicroBatch, TrainingSettings
from service.core.number_formats import NUMBER_FORMATS
from service.estimation.requests import ParallelismRequest
from service.estimation.resolution import Problems, resolve_model, resolve_parallelism
from service.validation.statistics import Compared
from service.validation.tables import Refused, Row
from service.validation.vocabulary import (
    Vocabulary,
    accelerator_of,
    format_of,
    model_of,
    unit_size,
)

_TOTALS = ("peak_memory_total",)
_METRICS = ("peak_memory_per_gpu", "gpu_memory", "nvidia_smi_used", *_TOTALS)
_CALIBRATION = "memory-training/"
#: DeepSpeed's fp16 runs cast everything, so that the loss is not computed in 32 bit.
#: Source: DeepSpeed configuration, fp16 training options, 2023.
_ALL_IN_FP16 = " + fp16"


@dataclass(frozen=True, slots=True)
class Convention:
    """How a framework keeps what it trains, and what its reports count.

    ``settings`` hold for every run of it, ``weights`` is the format that trained weights are kept
    in where that is not the row's. ``counted`` is "process" for all memory, "reserved" for what
    PyTorch's allocator took, "allocated" for what tensors took of that.
    """

    counted: str
    settings: Mapping[str, Any]
    weights: str | None = None


#: By the name that measurements give the framework. Sources: pytorch/torchtitan (32-bit parameters
#: and gradients under FSDP2), Lightning-AI/litgpt (precision bf16-true: everything in 16 bit),
#: QwenLM/Qwen finetune.py (Hugging Face Trainer), 2023 and 2024.
CONVENTIONS: Mapping[str, Convention] = MappingProxyType(
    {
        "torchtitan": Convention(
            "reserved",
            {"framework": "torchtitan", "master_weights": False, "gradient_bytes": 4.0},
            weights="fp32",
        ),
        "litgpt": Convention(
            "allocated",
            {"framework": "litgpt", "master_weights": False, "optimizer_state_bytes": 2.0},
        ),
        "HF transformers+peft+DeepSpeed": Convention("process", {"framework": "transformers"}),
        "HF Trainer": Convention(
            "process", {"framework": "transformers", "attention": "eager", "gradient_bytes": 4.0}
        ),
    }
)
_METHODS = {
    "pretrain-full": ("full", ()),
    "full": ("full", ()),
    "lora": ("lora", ()),
    "lora+emb+lm_head": ("lora", ("embed_tokens", "lm_head")),
    "qlora": ("qlora", ()),
    "qlora-gptq-int4": ("qlora", ()),
}
_OPTIMIZERS = {"AdamW": "adamw"}
_LORA_TARGETS = {
    "query/value": ("q_proj", "v_proj"),
    "query/key/value/projection/mlp/head": (ALL_LINEAR,),
    "": (ALL_LINEAR,),
}


def training_memory_row(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> Compared:
    """Compare one row of ``memory_training``.

    Raises
    ------
    Refused
        If the row leaves something open that memory depends on, or its metric is not estimated.
    """
    metric = row.text("metric")
    if metric not in _METRICS:
        raise Refused(f"metric {metric[:40]!r} is not known")
    size = unit_size(row, vocabulary)
    accelerator = accelerator_of(row, vocabulary, snapshot)
    found = run_memory(row, vocabulary, snapshot)
    times = found.deployment.parallelism.accelerator_count if metric in _TOTALS else 1
    counted = _counted(found, _convention(row).counted)
    return Compared(
        row=row,
        metric=metric,
        family=snapshot.accelerators[accelerator].value.family,
        unit="bytes",
        measured=row.needed("value") * size,
        value=float(counted.value) * times,
        low=float(counted.low) * times,
        high=float(counted.high) * times,
        cautions=tuple(caution.message for caution in found.deployment.architecture.cautions),
    )


def training_fits(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> bool:
    """Whether the estimate lets a row fit.

    Raises
    ------
    Refused
        If the row leaves something open that memory depends on.
    """
    return bool(run_memory(row, vocabulary, snapshot).fits)


def run_memory(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> TrainingMemory:
    """Memory of the run that the row describes, on its fullest accelerator.

    Raises
    ------
    Refused
        If the row leaves something open that memory depends on.
    Rejected
        If the model cannot be divided so.
    """
    convention = _convention(row)
    model = resolve_model(model_of(row, vocabulary, snapshot), snapshot).value
    accelerator = snapshot.accelerators[accelerator_of(row, vocabulary, snapshot)].value
    method = _method(row)
    weights = convention.weights or row.text("weight_dtype").removesuffix(_ALL_IN_FP16)
    stored = format_of(weights, vocabulary) or "bf16"
    computed = "fp32" if stored == "fp32" and convention.weights is None else "bf16"
    formats = NUMBER_FORMATS
    precision = Precision(formats[stored], formats["bf16"], formats[computed])
    asked, zero_stage = _layout(row)
    problems = Problems()
    parallelism = resolve_parallelism(asked, None, model, problems)
    problems.stop_if_any()
    if parallelism is None:
        raise AssertionError("unreachable: impossible degrees are a noted problem")
    micro_batches = row.count("grad_accum") or 1
    sequences = row.needed("micro_batch")
    if parallelism.pipeline > 1:
        # The batch given is that of a data-parallel rank, which the schedule cuts: into as many
        # micro-batches as there are stages.
        stages = parallelism.pipeline * _virtual_stages(row)
        micro_batches, sequences = stages, max(sequences / stages, 1.0)
    kept = dict(convention.settings)
    if method[0] == "lora" and zero_stage == 0:
        # Without DeepSpeed nothing keeps a second copy of 16-bit weights, and PyTorch's AdamW
        # keeps its states in their format.
        kept |= {"master_weights": False, "optimizer_state_bytes": 2.0}
    if row.text("weight_dtype").endswith(_ALL_IN_FP16):
        kept["cross_entropy"] = "half-precision"
    settings = TrainingSettings(
        method=method[0],
        trained_tensors=method[1],
        **_adapters(row, method[0]),
        optimizer=_one_of(_OPTIMIZERS, row, "optimizer"),
        activation_checkpointing=_checkpointing(row),
        gradient_accumulation_steps=micro_batches,
        pipeline_schedule="interleaved" if _virtual_stages(row) > 1 else "1f1b",
        virtual_stages=_virtual_stages(row),
        fused_kernels="torch.compile" in row.text("flags"),
        zero_stage=zero_stage,
        **kept,
    )
    deployment = InferenceDeployment(model, precision, accelerator, parallelism)
    batch = MicroBatch(sequences, row.needed("seq_len"))
    return training_memory(deployment, batch, settings, _overheads(snapshot))


@lru_cache(maxsize=4)
def _overheads(snapshot: CatalogSnapshot) -> TrainingOverheads:
    return training_overheads(
        entry.document
        for id_, entry in snapshot.calibrations.items()
        if id_.startswith(_CALIBRATION)
    )


def _counted(found: TrainingMemory, counted: str) -> Interval:
    """The part of the whole that a report counts."""
    if counted == "process":
        return found.total
    if counted == "allocated":
        return without(found.total, found.unallocated)
    held, total = found.libraries.value, found.total
    return Interval(total.value - held, total.low - held, total.high - held)


def _convention(row: Row) -> Convention:
    framework = row.text("framework")
    if framework not in CONVENTIONS:
        raise Refused(f"what {framework[:40]!r} keeps and counts is not known")
    return CONVENTIONS[framework]


def _one_of(known: Mapping[str, Any], row: Row, column: str) -> Any:
    name = row.text(column)
    if name not in known:
        raise Refused(f"{column} {name[:40]!r} is not known")
    return known[name]


def _method(row: Row) -> tuple[Any, tuple[str, ...]]:
    found: tuple[Any, tuple[str, ...]] = _one_of(_METHODS, row, "method")
    return found


def _adapters(row: Row, method: str) -> dict[str, Any]:
    if method == "full":
        return {}
    flags = row.text("flags")
    rank = re.search(r"lora_r=(\d{1,4})", flags)
    if rank is None:
        raise Refused("the rank of adapters is not given")
    targets = re.search(r"lora_targets=([\w/]*)", flags)
    named = targets[1] if targets is not None else ""
    if named not in _LORA_TARGETS:
        raise Refused(f"targets of adapters {named[:40]!r} are not known")
    return {"lora_rank": int(rank[1]), "lora_targets": _LORA_TARGETS[named]}


def _checkpointing(row: Row) -> Any:
    text = row.text("activation_checkpointing")
    if text.startswith("yes") or text == "full":
        return "full"
    if text == "selective":
        # torchtitan's default keeps the results of every other matrix product.
        return "selective-operators"
    if text in ("no", "none"):
        return "none"
    raise Refused("activation checkpointing is not given")


def _virtual_stages(row: Row) -> int:
    return 2 if "Interleaved" in row.text("flags") else 1


def _layout(row: Row) -> tuple[ParallelismRequest, int]:
    """Degrees of parallelism and the ZeRO stage.

    Raises
    ------
    Refused
        If they cannot be read or do not make up the number of accelerators.
    """
    text = row.text("parallelism")
    count = row.count("hardware_count") or 1
    degrees = {name: int(size) for name, size in re.findall(r"(FSDP|TP|PP|CP)=(\d{1,6})", text)}
    if "as listed" in text:
        raise Refused("listed for several accelerators, but copied from the run on one")
    zero = re.search(r"ZeRO-(\d)", text)
    if text and text != "single" and not degrees and zero is None:
        raise Refused(f"parallelism {text[:40]!r} is not understood")
    tensor, pipeline, context = (max(degrees.get(name, 1), 1) for name in ("TP", "PP", "CP"))
    data = degrees.get("FSDP", count // (tensor * pipeline * context))
    if data * tensor * pipeline * context != count:
        raise Refused("parallelism does not make up hardware_count")
    stage = 3 if "FSDP" in degrees else int(zero[1]) if zero is not None else 0
    degrees_asked = ParallelismRequest(
        tensor=tensor, pipeline=pipeline, data=max(data, 1), context=context
    )
    return degrees_asked, min(stage, 3)
