"""What the framework decides of a training run whose form leaves it open, in words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from service.estimation.verdict.names import format_name

if TYPE_CHECKING:
    from service.portal.training_questions import TrainingPageRequest

#: What a form says where it leaves a setting to the framework.
AS_THE_FRAMEWORK = "as the framework does"
_DIVIDED = (
    "nothing divided among copies (ZeRO stage 0)",
    "optimizer states divided among copies (ZeRO stage 1)",
    "optimizer states and gradients divided among copies (ZeRO stage 2)",
    "weights, gradients and optimizer states divided among copies (ZeRO stage 3)",
)
_AGAIN = {
    "none": "nothing recomputed",
    "selective": "attention scores recomputed",
    "selective-modules": "norms and activations recomputed",
    "selective-operators": "every other matrix product recomputed",
    "full": "whole layers recomputed",
}
_SCHEDULES = {
    "1f1b": "a 1F1B pipeline",
    "gpipe": "a GPipe pipeline",
    "zero-bubble": "a zero-bubble pipeline",
    "dualpipe": "a DualPipe pipeline",
}
_ATTENTION = {
    "eager": "attention that keeps its scores",
    "flash": "FlashAttention",
    "flash-1": "FlashAttention of before version 2",
    "flash-fp8": "FlashAttention in FP8",
}
_LOSSES = {
    "plain": "the loss from 32-bit logits",
    "half-precision": "the loss in 16 bit",
    "compiled": "the loss from 16-bit logits by a compiler",
    "chunked": "the loss in parts",
    "fused": "the loss fused with the output matrix",
}


def settled(request: TrainingPageRequest, run: Mapping[str, Any]) -> str:
    """What the framework decides of a run, as an estimate echoes it, in one sentence."""
    return f"The framework decides: {', '.join(_decided(request, run))}."


def _decided(request: TrainingPageRequest, run: Mapping[str, Any]) -> Iterator[str]:
    training = run["training"]
    if request.zero_stage is None:
        yield _DIVIDED[training["zero_stage"]]
    if request.activation_checkpointing is None:
        some = training.get("recomputed_layers")
        again = _AGAIN[training["activation_checkpointing"]]
        yield f"{some} layers of each stage recomputed" if some else again
    if run["parallelism"]["pipeline"] > 1 and request.pipeline_schedule is None:
        yield _SCHEDULES.get(
            training["pipeline_schedule"],
            f"a pipeline interleaved in {training['virtual_stages']} parts per stage",
        )
    yield _ATTENTION[training["attention"]]
    yield f"norms and activations {'' if training['fused_kernels'] else 'not '}fused"
    yield _LOSSES[training["cross_entropy"]]
    yield f"gradients in {format_name(training['gradient_dtype'])}"
    yield f"optimizer states in {format_name(training['optimizer_state_dtype'])}"
    if request.method == "full" and run["precision"]["weights"] != "fp32":
        yield f"{'' if training['master_weights'] else 'no '}32-bit copies of weights"
