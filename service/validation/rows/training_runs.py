"""Rows about training become the runs that they mean."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Deployment, Precision
from service.core.memory.training.settings import ALL_LINEAR, MicroBatch, TrainingSettings
from service.core.number_formats import NUMBER_FORMATS
from service.core.techniques.setup import TrainingSetup
from service.estimation.requests import ParallelismRequest
from service.estimation.resolution import Problems, resolve_model, resolve_parallelism
from service.validation.rows.tables import Row, RowRefused
from service.validation.rows.vocabulary import Vocabulary, accelerator_of, format_of, model_of

#: DeepSpeed's fp16 runs cast everything, so that the loss is not computed in 32 bit.
#: Source: DeepSpeed configuration, fp16 training options, 2023.
_ALL_IN_FP16 = " + fp16"


#: Products in 8 bit and fewer, by what flags and formats are called.
_NARROW = {"float8": "fp8", "fp8": "fp8", "nvfp4": "nvfp4"}
_MEGATRON = MappingProxyType({"framework": "megatron-lm", "fused_kernels": True})


@dataclass(frozen=True, slots=True)
class Convention:
    """How a framework keeps what it trains, and what its reports count.

    ``settings`` hold for every run of it, ``weights`` is the format that trained weights are kept
    in where that is not the row's. ``counted`` is "process" for all memory, "reserved" for what
    PyTorch's allocator took, "allocated" for what tensors took of that; None where nothing of the
    kind is known.
    """

    counted: str | None
    settings: Mapping[str, Any]
    weights: str | None = None


#: By the name that measurements give the framework. Sources: pytorch/torchtitan (32-bit parameters
#: and gradients under FSDP2), Lightning-AI/litgpt (precision bf16-true: everything in 16 bit),
#: QwenLM/Qwen finetune.py (Hugging Face Trainer), 2023 and 2024; mosaicml/llm-foundry and Composer
#: (32-bit parameters, computed in 16 bit), 2024; NVIDIA/Megatron-LM (16-bit weights and gradients
#: beside a distributed 32-bit copy; fused kernels), 2024; NVIDIA-NeMo/Automodel (FSDP2), 2025;
#: AI-Hypercomputer/maxtext (32-bit parameters, computed in 16 bit), 2024.
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
        "llm-foundry": Convention(
            None,
            {"framework": "llm-foundry", "master_weights": False, "fused_kernels": True},
            weights="fp32",
        ),
        "Megatron-LM": Convention(None, _MEGATRON, weights="bf16"),
        "NeMo": Convention(None, _MEGATRON, weights="bf16"),
        "MaxText": Convention(
            None,
            {"framework": "default", "master_weights": False, "fused_kernels": True},
            weights="fp32",
        ),
        "NeMo AutoModel": Convention(
            None,
            {"framework": "default", "master_weights": False, "fused_kernels": True},
            weights="bf16",
        ),
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
#: llm-foundry's recipes name Lion and AdamW; what they cost differs by what their states move.
_OPTIMIZERS = {"AdamW": "adamw", "DecoupledLionW/AdamW (yaml)": "adamw", "Muon": "muon"}
#: What FSDP divides, by its names.
_SHARDING = {"FULL_SHARD": 3, "SHARD_GRAD_OP": 2}
_LORA_TARGETS = {
    "query/value": ("q_proj", "v_proj"),
    "query/key/value/projection/mlp/head": (ALL_LINEAR,),
    "": (ALL_LINEAR,),
}


def run_of(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> TrainingSetup:
    """The run that a row of ``memory_training`` or ``training_speed`` describes."""
    convention = convention_of(row)
    model = resolve_model(model_of(row, vocabulary, snapshot), snapshot).value
    accelerator = snapshot.accelerators[accelerator_of(row, vocabulary, snapshot)].value
    method, trained = _one_of(_METHODS, row, "method")
    weights = convention.weights or row.text("weight_dtype").removesuffix(_ALL_IN_FP16)
    stored = format_of(weights, vocabulary) or "bf16"
    computed = "fp32" if stored == "fp32" and convention.weights is None else "bf16"
    formats = NUMBER_FORMATS
    precision = Precision(formats[stored], formats["bf16"], formats[computed])
    asked, zero_stage = _layout(row)
    if method == "full":
        zero_stage = max(zero_stage, vocabulary.assumed_zero_stage.get(row.source, 0))
    problems = Problems()
    parallelism = resolve_parallelism(asked, None, model, problems)
    problems.stop_if_any()
    parallelism = problems.resolved(parallelism)
    virtual = _virtual_stages(row)
    micro_batches = row.count("grad_accum")
    sequences = row.needed("micro_batch")
    if parallelism.pipeline > 1 and micro_batches is None:
        # The batch given is that of a data-parallel rank, which the schedule cuts: into as many
        # micro-batches as there are stages.
        micro_batches = parallelism.pipeline * virtual
        sequences = max(sequences / micro_batches, 1.0)
    kept: dict[str, Any] = {"fused_kernels": "torch.compile" in row.text("flags")}
    kept |= convention.settings
    if method == "lora" and zero_stage == 0:
        # Without DeepSpeed nothing keeps a second copy of 16-bit weights, and PyTorch's AdamW
        # keeps its states in their format.
        kept |= {"master_weights": False, "optimizer_state_bytes": 2.0}
    if row.text("weight_dtype").endswith(_ALL_IN_FP16):
        kept["cross_entropy"] = "half-precision"
    settings = TrainingSettings(
        method=method,
        trained_tensors=trained,
        **_adapters(row, method),
        optimizer=_one_of(_OPTIMIZERS, row, "optimizer"),
        activation_checkpointing=_checkpointing(row),
        gradient_accumulation_steps=micro_batches or 1,
        pipeline_schedule="interleaved" if virtual > 1 else "1f1b",
        virtual_stages=virtual,
        zero_stage=zero_stage,
        **kept,
    )
    deployment = Deployment(model, precision, accelerator, parallelism)
    return TrainingSetup(deployment, MicroBatch(sequences, row.needed("seq_len")), settings)


def in_narrow_products(setup: TrainingSetup, row: Row) -> TrainingSetup:
    """The run with its products in the 8 or 4 bits that the row's flags or format name."""
    named = f"{row.text('flags')};{row.text('weight_dtype')}"
    narrow = next((known for name, known in _NARROW.items() if name in named), None)
    if narrow is None:
        return setup
    deployment = setup.deployment
    precision = replace(deployment.precision, activations=NUMBER_FORMATS[narrow])
    return replace(setup, deployment=replace(deployment, precision=precision))


def convention_of(row: Row) -> Convention:
    """How the row's framework keeps what it trains.

    Raises
    ------
    RowRefused
        If the framework is not known.
    """
    framework = row.text("framework")
    if framework not in CONVENTIONS:
        raise RowRefused(f"what {framework[:40]!r} keeps and counts is not known")
    return CONVENTIONS[framework]


def _one_of(known: Mapping[str, Any], row: Row, column: str) -> Any:
    name = row.text(column)
    if name not in known:
        raise RowRefused(f"{column} {name[:40]!r} is not known")
    return known[name]


def _adapters(row: Row, method: str) -> dict[str, Any]:
    if method == "full":
        return {}
    flags = row.text("flags")
    rank = re.search(r"lora_r=(\d{1,4})", flags)
    if rank is None:
        raise RowRefused("the rank of adapters is not given")
    targets = re.search(r"lora_targets=([\w/]*)", flags)
    named = targets[1] if targets is not None else ""
    if named not in _LORA_TARGETS:
        raise RowRefused(f"targets of adapters {named[:40]!r} are not known")
    return {"lora_rank": int(rank[1]), "lora_targets": _LORA_TARGETS[named]}


def _checkpointing(row: Row) -> Any:
    text = row.text("activation_checkpointing")
    if text.startswith("yes") or text == "full":
        return "full"
    if text in ("selective", "per-op selective"):
        # torchtitan's default keeps the results of every other matrix product.
        return "selective-operators"
    if text in ("no", "none"):
        return "none"
    raise RowRefused("activation checkpointing is not given")


def _virtual_stages(row: Row) -> int:
    given = re.search(r"VP=(\d{1,4})", row.text("parallelism"))
    if given is not None:
        return max(int(given[1]), 1)
    return 2 if "Interleaved" in row.text("flags") else 1


def _layout(row: Row) -> tuple[ParallelismRequest, int]:
    """Degrees of parallelism and the ZeRO stage.

    Raises
    ------
    RowRefused
        If they cannot be read or do not make up the number of accelerators.
    """
    text = row.text("parallelism")
    count = row.count("hardware_count") or 1
    degrees = {
        name: int(size) for name, size in re.findall(r"(FSDP|DP|TP|PP|CP|EP)=(\d{1,6})", text)
    }
    if "as listed" in text:
        raise RowRefused("listed for several accelerators, but copied from the run on one")
    zero = re.search(r"ZeRO-(\d)", text)
    sharding = next((stage for name, stage in _SHARDING.items() if name in text), None)
    if text and text != "single" and not degrees and zero is None and sharding is None:
        raise RowRefused(f"parallelism {text[:40]!r} is not understood")
    tensor, pipeline, context = (max(degrees.get(name, 1), 1) for name in ("TP", "PP", "CP"))
    data = degrees.get("FSDP", count // (tensor * pipeline * context))
    if data * tensor * pipeline * context != count:
        raise RowRefused("parallelism does not make up hardware_count")
    stage = 3 if "FSDP" in degrees else int(zero[1]) if zero is not None else sharding or 0
    degrees_asked = ParallelismRequest(
        tensor=tensor,
        pipeline=pipeline,
        expert=max(degrees.get("EP", 1), 1),
        data=max(data, 1),
        context=context,
    )
    return degrees_asked, min(stage, 3)
