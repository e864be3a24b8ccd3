"""What the core computes of a deployment or a training run, as quantities read it."""

from __future__ import annotations

from collections.abc import Mapping

from service.catalog.snapshot import CatalogSnapshot
from service.core.memory.training.memory import training_memory
from service.estimation.inference.deployment import ComputedDeployment
from service.estimation.measurements.quantities import Served, Trained
from service.estimation.training.batches import tells_batch
from service.estimation.training.requests import TrainingRequest
from service.estimation.training.setup import ResolvedTraining
from service.estimation.training.speed import resolved_speed


def served(found: ComputedDeployment, limits: Mapping[str, float] | None = None) -> Served:
    """A computed deployment as quantities read it."""
    return Served(
        estimate=found.estimate,
        infrastructure=found.resolved.calibration.infrastructure,
        limits=limits or {},
    )


def trained(
    resolved: ResolvedTraining, request: TrainingRequest, snapshot: CatalogSnapshot
) -> Trained:
    """A resolved training run as quantities read it."""
    setup = resolved.setup
    figures = resolved.figures(snapshot)
    memory = training_memory(
        setup.deployment, setup.micro_batch, setup.settings, resolved.overheads
    )
    return Trained(
        memory=memory,
        speed=resolved_speed(setup, figures, memory, request),
        infrastructure=figures.infrastructure,
        told_batch=tells_batch(request.training, float(setup.settings.gradient_accumulation_steps)),
    )
