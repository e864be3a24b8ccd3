"""The measurements as questions that any estimator can be asked: plain shapes and settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import (
    Attention,
    DenseFeedForward,
    MixtureOfExperts,
    ModelArchitecture,
)
from service.core.deployment import Deployment
from service.estimation.inference.deployment import ResolvedDeployment, resolve_deployment
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.rejection import Rejected
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import Problems
from service.estimation.training.requests import TrainingRequest
from service.estimation.training.resolve import resolve_training
from service.estimation.training.setup import ResolvedTraining
from service.validation.reading import Line

#: Quantities of inference that estimators of speed know.
_SERVED = frozenset(
    (
        *("itl_p50_s", "tpot_s", "tpot_p50_s", "decode_tokens_per_s", "request_tokens_per_s"),
        *("output_tokens_per_s", "prefill_tokens_per_s"),
    )
)
_DOUBTFUL = "low"


def questions(
    lines: Mapping[str, Sequence[Line]], snapshot: CatalogSnapshot
) -> Iterator[dict[str, Any]]:
    """Every measurement of speed and of training memory that the estimates are held against.

    Yields
    ------
    dict
        ``id``, ``kind`` and ``quantity``; ``config`` (a Hugging Face configuration, if there is
        one) and ``shape`` (None for models that are not layers of one kind); accelerator, layout
        and formats; and what was run.
    """
    for document in (line.document for listed in lines.values() for line in listed):
        if document is None or document.confidence == _DOUBTFUL:
            continue
        try:
            asked = _asked(document, snapshot)
        except Rejected:
            continue
        for quantity in document.figures:
            if asked is not None and (document.kind == "training" or quantity in _SERVED):
                yield {"id": document.id, "kind": document.kind, "quantity": quantity} | asked


def _asked(document: MeasurementDocument, snapshot: CatalogSnapshot) -> dict[str, Any] | None:
    request = document.request
    if isinstance(request, TrainingRequest):
        return _trained(resolve_training(request, snapshot, Problems()))
    if isinstance(request, DeploymentRequest):
        return _served(resolve_deployment(request, snapshot, Problems()))
    return None


def _served(resolved: ResolvedDeployment) -> dict[str, Any]:
    deployment, workload = resolved.deployment, resolved.workload
    return _placed(resolved.model, deployment) | {
        "engine": resolved.serving.engine,
        "input_tokens": float(workload.input_tokens),
        "output_tokens": float(workload.output_tokens),
        "concurrency": float(workload.concurrency) / deployment.parallelism.data,
    }


def _trained(resolved: ResolvedTraining) -> dict[str, Any]:
    setup = resolved.setup
    settings = setup.settings
    architecture = setup.deployment.architecture
    tables = (*architecture.embedding, *architecture.head)
    return _placed(resolved.model, setup.deployment) | {
        "parameters": architecture.total_parameters,
        "largest_layer_parameters": max(tensor.elements for tensor in tables),
        "method": settings.method,
        "optimizer": settings.optimizer,
        "master_weights": settings.master_weights,
        "checkpointing": settings.activation_checkpointing,
        "flash": settings.attention == "flash",
        "zero_stage": settings.zero_stage,
        "accumulation": settings.gradient_accumulation_steps,
        "sequences": float(setup.micro_batch.sequences),
        "tokens": float(setup.micro_batch.tokens),
    }


def _placed(model: Entry[ModelArchitecture], deployment: Deployment) -> dict[str, Any]:
    layout, precision = deployment.parallelism, deployment.precision
    return {
        "config": model.document.get("config"),
        "shape": shape_of(deployment.architecture),
        "accelerator": deployment.accelerator.id,
        "tensor": layout.tensor,
        "pipeline": layout.pipeline,
        "expert": layout.expert,
        "data": layout.data,
        "weights": precision.weights.id,
        "kv_cache": precision.kv_cache.id,
    }


def shape_of(architecture: ModelArchitecture) -> dict[str, Any] | None:
    """The few numbers that simple estimators describe a model by; None if its layers differ."""
    if len(architecture.groups) != 1:
        return None
    (group,) = architecture.groups
    attention, feed_forward = group.mixer, group.feed_forward
    if not isinstance(attention, Attention) or feed_forward is None:
        return None
    routed = feed_forward if isinstance(feed_forward, MixtureOfExperts) else None
    if routed is not None and routed.shared_intermediate_size:
        return None
    return {
        "layers": group.count,
        "hidden": architecture.hidden_size,
        "heads": attention.query_heads,
        "kv_heads": attention.kv_heads,
        "head_dim": attention.head_dim,
        "window": attention.window_tokens,
        "vocab": architecture.vocab_size,
        "gated": feed_forward.gated,
        "intermediate": (
            feed_forward.intermediate_size
            if isinstance(feed_forward, DenseFeedForward)
            else feed_forward.expert_intermediate_size
        ),
        "experts": 1 if routed is None else routed.experts,
        "experts_per_token": 1 if routed is None else routed.experts_per_token,
    }
