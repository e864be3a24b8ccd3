"""What deployments have in common with others, for what is measured of one to tell of others."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from typing import Any

from service.catalog.entries.entry import Entry
from service.core.deployment import Precision
from service.core.estimate.inference import InferenceEstimate
from service.core.learning import Kin
from service.estimation.inference.deployment import ResolvedDeployment
from service.estimation.resolution import UNNAMED
from service.estimation.training.setup import ResolvedTraining


def kin_of_deployment(resolved: ResolvedDeployment, estimate: InferenceEstimate) -> Kin:
    """Kin of an inference deployment; replicas of a layout stand side by side and are alike."""
    layout, serving = resolved.deployment.parallelism, resolved.serving
    drafted = serving.speculation
    return Kin(
        model=name_of(resolved.model),
        hardware=name_of(resolved.accelerator),
        engine=serving.engine,
        deployment=_told(
            _formats(resolved.deployment.precision),
            replace(layout, data=1),
            serving.engine_generation,
            serving.backend,
            None if drafted is None else (drafted.draft_tokens, drafted.architecture is None),
            serving.disaggregation is not None,
        ),
        sequences=float(estimate.latency.running_sequences_per_replica),
        tokens=float(resolved.workload.input_tokens + resolved.workload.output_tokens),
    )


def kin_of_training(resolved: ResolvedTraining) -> Kin:
    """Kin of a training run."""
    deployment, settings = resolved.setup.deployment, resolved.setup.settings
    batch = resolved.setup.micro_batch
    return Kin(
        model=name_of(resolved.model),
        hardware=name_of(resolved.accelerator),
        engine=settings.framework,
        deployment=_told(
            _formats(deployment.precision),
            deployment.parallelism,
            settings.framework_generation,
            settings.method,
            settings.optimizer,
            settings.zero_stage,
            settings.data_parallel_shard_degree,
            settings.secondary_shard_degree,
            settings.offload,
            settings.activation_checkpointing,
        ),
        sequences=float(batch.sequences * settings.gradient_accumulation_steps),
        tokens=float(batch.tokens),
    )


def _formats(precision: Precision) -> tuple[str, ...]:
    return precision.weights.id, precision.kv_cache.id, precision.activations.id


def name_of(entry: Entry[Any]) -> str:
    """An entry's id; of one that was described in the request, what it is."""
    return _told(entry.value) if entry.id == UNNAMED else entry.id


def _told(*parts: object) -> str:
    return sha256(repr(parts).encode()).hexdigest()
