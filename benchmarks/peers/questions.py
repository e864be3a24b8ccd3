"""The measurements as questions that any estimator can be asked: plain shapes and settings."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import ValidationError

from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import (
    Attention,
    DenseFeedForward,
    MixtureOfExperts,
    ModelArchitecture,
)
from service.estimation.inference.deployment import resolve_deployment
from service.estimation.rejection import Rejected
from service.estimation.requests import LatencyInferenceRequest
from service.estimation.resolution import Problems
from service.validation.rows.latency import speed_request
from service.validation.rows.tables import Row, RowRefused, Tables
from service.validation.rows.training_runs import run_of
from service.validation.rows.vocabulary import Vocabulary, model_of


def questions(
    tables: Tables, vocabulary: Vocabulary, snapshot: CatalogSnapshot
) -> Iterator[dict[str, Any]]:
    """Every measurement of speed and of training memory that the estimates are held against.

    Yields
    ------
    dict
        ``table``, ``row_id`` and ``metric``; ``config`` (a Hugging Face configuration, if there is
        one) and ``shape`` (None for models that are not layers of one kind); accelerator, layout
        and formats; and what was run.
    """
    for table, ask in (
        ("latency_inference", _served),
        ("memory_training", _trained),
        ("training_speed", _trained),
    ):
        for row in tables.rows.get(table, ()):
            if row.confidence == "low":
                continue
            try:
                question = ask(row, vocabulary, snapshot)
            except (RowRefused, Rejected, ValidationError):
                continue
            metric = row.text("metric")
            yield {"table": table, "row_id": row.text("row_id"), "metric": metric} | question


def _served(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> dict[str, Any]:
    fields, _ = speed_request(row, vocabulary, snapshot)
    resolved = resolve_deployment(LatencyInferenceRequest(**fields), snapshot, Problems())
    deployment, workload = resolved.deployment, resolved.workload
    return _placed(row, vocabulary, snapshot, deployment) | {
        "engine": resolved.calibration.performance.source.split("/")[1],
        "input_tokens": float(workload.input_tokens),
        "output_tokens": float(workload.output_tokens),
        "concurrency": float(workload.concurrency) / deployment.parallelism.data,
    }


def _trained(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> dict[str, Any]:
    setup = run_of(row, vocabulary, snapshot)
    settings = setup.settings
    return _placed(row, vocabulary, snapshot, setup.deployment) | {
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


def _placed(
    row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot, deployment: Any
) -> dict[str, Any]:
    model = model_of(row, vocabulary, snapshot)
    config = (
        snapshot.models[model].document.get("config") if isinstance(model, str) else model.config
    )
    layout, precision = deployment.parallelism, deployment.precision
    return {
        "config": config,
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
