"""What a training run cannot be: settings that the model or the layout has no room for."""

from __future__ import annotations

from collections.abc import Set
from functools import lru_cache
from math import gcd

from service.core.architecture.model import LatentAttention, MixtureOfExperts, ModelArchitecture
from service.core.architecture.prediction import can_predict
from service.core.architecture.sharding import divisors
from service.core.deployment import Parallelism
from service.core.elementwise import Number
from service.core.engines import Engine
from service.core.memory.training.adapters import is_adapted
from service.core.memory.training.settings import ALL_LINEAR, Offload, TrainingSettings
from service.core.performance.training.pipeline import most_virtual_stages
from service.estimation.resolution import Problems
from service.estimation.training.requests import TrainingSettingsRequest
from service.estimation.writing import valued


def check_settings(
    asked: TrainingSettingsRequest, architecture: ModelArchitecture, problems: Problems
) -> None:
    """Note settings that mean nothing for the model."""
    _check_adapter(asked, architecture, problems)
    if asked.optimizer_in_backward:
        _check_optimizer_in_backward(asked, problems)
    if asked.prediction_layers:
        _check_predictions(asked, architecture, problems)
    if asked.method != "full":
        known = matrix_names(architecture) | {ALL_LINEAR}
        _check_names("lora_targets", asked.lora_targets or (), known, problems, needed=True)
        every = {tensor.name for group in architecture.groups for tensor in group.tensors} | {
            tensor.name
            for tensor in architecture.embedding + architecture.head + architecture.other
        }
        _check_names("trained_tensors", asked.trained_tensors, every, problems)
    if asked.sequence_lengths is not None and asked.packed_document_tokens is not None:
        problems.add(
            "/training/sequence_lengths",
            "sequences are either padded or packed; leave out packed_document_tokens",
        )
    if asked.expert_machines is not None and asked.expert_dispatch != "per-machine":
        problems.add(
            "/training/expert_machines",
            "expert_dispatch all-to-all sends a copy to each expert, wherever it is; use "
            "per-machine",
        )
    check_routes(asked.expert_capacity_factor, architecture, problems)
    for name in ("checkpoint_every", "recomputed_layers"):
        if (getattr(asked, name) or 0) > architecture.layer_count:
            problems.add(
                f"/training/{name}", f"the model has only {architecture.layer_count} layers"
            )


def check_routes(
    capacity_factor: float | None, architecture: ModelArchitecture, problems: Problems
) -> None:
    """Note a capacity of experts that the model does not have."""
    if capacity_factor is not None and not architecture.routes:
        problems.add(
            "/training/expert_capacity_factor",
            "the model routes no tokens to experts; leave it out",
        )


def check_capacity(factor: float | None, framework: Engine, problems: Problems) -> None:
    """Note a capacity of experts that a framework cannot limit."""
    if factor is not None and framework.recipes.expert_capacity is None:
        problems.add(
            "/training/expert_capacity_factor",
            f"{framework.name} sends every token to the experts that it chose; leave it out, or "
            "use another framework, such as megatron-lm, deepspeed or maxtext",
        )


@lru_cache(maxsize=256)
def matrix_names(architecture: ModelArchitecture) -> frozenset[str]:
    """Names of the matrices inside the layers, whole and without what comes before the last dot."""
    names = {
        tensor.name for group in architecture.groups for tensor in group.tensors if tensor.is_matrix
    }
    return frozenset(names | {name.split(".")[-1] for name in names})


def _check_predictions(
    asked: TrainingSettingsRequest, architecture: ModelArchitecture, problems: Problems
) -> None:
    """Note layers that predict further ahead where there are none to be trained."""
    if asked.method != "full":
        problems.add(
            "/training/prediction_layers",
            f"method {asked.method} trains adapters alone; use 0, or method full",
        )
    if not can_predict(architecture):
        problems.add(
            "/training/prediction_layers",
            "only decoders with attention have layers that predict further ahead; use 0",
        )


def _check_adapter(
    asked: TrainingSettingsRequest, architecture: ModelArchitecture, problems: Problems
) -> None:
    """Note adapters that the method has none of, or that the model has no place for."""
    if asked.method == "full":
        if asked.adapter != "lora":
            problems.add(
                "/training/adapter",
                f"method full trains all weights, without {asked.adapter}; use method lora, or "
                "qlora for a quantised base",
            )
        return
    groups = architecture.groups
    if asked.adapter == "prefix" and any(
        isinstance(group.mixer, LatentAttention) for group in groups
    ):
        problems.add(
            "/training/adapter",
            "prefix tuning needs keys and values for each head, and the model has latents",
        )
    if asked.adapter == "boft":
        settings = valued(TrainingSettings, asked, offload=Offload())
        inputs = {
            tensor.input_features
            for group in groups
            for tensor in group.tensors
            if is_adapted(tensor, settings)
        }
        common = gcd(*inputs) if inputs else 0
        if common % asked.boft_block_size:
            fitting = [size for size in range(2, 65) if common % size == 0]
            problems.add(
                "/training/boft_block_size",
                f"blocks of {asked.boft_block_size} do not divide the inputs of all targets; use "
                + (f"one of {', '.join(map(str, fitting))}" if fitting else "other lora_targets"),
            )


def _check_optimizer_in_backward(asked: TrainingSettingsRequest, problems: Problems) -> None:
    """Note what updates within the backward pass cannot go with."""
    if (asked.gradient_accumulation_steps or 1) > 1:
        problems.add(
            "/training/gradient_accumulation_steps",
            "optimizer_in_backward updates weights after every micro-batch; use 1, or leave "
            "optimizer_in_backward false",
        )
    if asked.gradient_sum_dtype == "fp32":
        problems.add(
            "/training/gradient_sum_dtype",
            "optimizer_in_backward sums no gradients; use none",
        )
    if asked.offload.optimizer != "none":
        problems.add(
            "/training/offload/optimizer",
            "optimizer_in_backward needs optimizer states on the accelerator; use none",
        )


def _check_names(
    field: str, names: tuple[str, ...], known: Set[str], problems: Problems, needed: bool = False
) -> None:
    if needed and not names:
        problems.add(f"/training/{field}", f"name at least one of {', '.join(sorted(known))}")
    for position, name in enumerate(names):
        if name not in known:
            problems.add(
                f"/training/{field}/{position}",
                f"the model has no {name!r}; it has {', '.join(sorted(known))}",
            )


def check_schedule(
    settings: TrainingSettings,
    sequence_tokens: Number,
    architecture: ModelArchitecture,
    parallelism: Parallelism,
    problems: Problems,
) -> None:
    """Note schedules and lengths that the degrees of parallelism do not divide."""
    if sequence_tokens % parallelism.context:
        problems.add(
            "/parallelism/context",
            f"{sequence_tokens:.0f} tokens cannot be divided among {parallelism.context} ranks; "
            f"use a multiple of {parallelism.context}",
        )
    _check_experts(architecture, parallelism, problems)
    if settings.from_both_ends and parallelism.pipeline > 1:
        _check_both_ends(settings.gradient_accumulation_steps, parallelism.pipeline, problems)
    if settings.pipeline_schedule != "interleaved":
        if settings.virtual_stages > 1:
            problems.add(
                "/training/virtual_stages",
                f"the {settings.pipeline_schedule} schedule has one stage per rank; virtual stages "
                "need the interleaved schedule",
            )
        return
    most = most_virtual_stages(architecture.layer_count, parallelism.pipeline)
    if parallelism.pipeline == 1:
        problems.add(
            "/training/pipeline_schedule",
            "an interleaved schedule needs a pipeline of at least 2 stages",
        )
    elif settings.virtual_stages > most:
        problems.add(
            "/training/virtual_stages",
            f"{architecture.layer_count} layers with embedding and head cannot fill "
            f"{settings.virtual_stages} × {parallelism.pipeline} stages; at most {most} per rank "
            "work",
        )


def _check_both_ends(micro_batches: Number, stages: int, problems: Problems) -> None:
    """Note a pipeline that micro-batches cannot enter at both ends.

    References
    ----------
    DeepSeek-AI, DualPipe, dualpipe/dualpipe.py, 2025, https://github.com/deepseek-ai/DualPipe
    """
    if stages % 2:
        problems.add(
            "/parallelism/pipeline",
            f"dualpipe pairs stages, the first with the last; use {stages - 1} or {stages + 1}",
        )
    elif micro_batches % 2 or micro_batches < 2 * stages:
        problems.add(
            "/training/gradient_accumulation_steps",
            f"with dualpipe micro-batches enter {stages} stages at both ends, half of them at each "
            f"and at least {stages}; use an even number from {2 * stages}",
        )


def _check_experts(
    architecture: ModelArchitecture, parallelism: Parallelism, problems: Problems
) -> None:
    """Note it if ranks would hold different numbers of experts, which no framework trains.

    References
    ----------
    NVIDIA/Megatron-LM, megatron/core/transformer/moe/moe_layer.py; deepspeedai/DeepSpeed,
    deepspeed/moe/layer.py, 2025 (experts are divided evenly)
    """
    counts = {
        group.feed_forward.experts
        for group in architecture.groups
        if isinstance(group.feed_forward, MixtureOfExperts)
    }
    for experts in sorted(counts):
        if experts % parallelism.expert:
            ranks = parallelism.tensor * parallelism.data
            working = ", ".join(str(n) for n in divisors(experts) if ranks % n == 0)
            problems.add(
                "/parallelism/expert",
                f"{experts} experts cannot be divided evenly among {parallelism.expert} ranks; "
                f"these degrees work: {working}",
            )
