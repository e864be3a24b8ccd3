"""Use case: memory of a training run under each ZeRO stage and way to recompute activations."""

from __future__ import annotations

from typing import Any, get_args

from service.catalog.snapshot import CatalogSnapshot
from service.core.memory.training.memory import training_memory
from service.core.memory.training.settings import Checkpointing
from service.estimation.answers import figure
from service.estimation.learning.deployments import learnt_training
from service.estimation.rejection import Rejected
from service.estimation.requests import ParallelismRequest
from service.estimation.resolution import Problems
from service.estimation.training.fitting import HELD
from service.estimation.training.requests import TrainingRequest
from service.estimation.training.setup import ResolvedTraining

ZERO_STAGES = (0, 1, 2, 3)
CHECKPOINTING: tuple[str, ...] = get_args(Checkpointing)


def training_memory_choices(
    request: TrainingRequest, snapshot: CatalogSnapshot
) -> list[dict[str, Any]]:
    """Memory per accelerator of a run with each stage and recomputation, all else as asked.

    What the framework does not run has no ``memory``. All have the layout and the micro-batches of
    the run that is asked about.

    Raises
    ------
    Rejected
        If that cannot be computed.
    """
    request = _as_taken(request, learnt_training(request, snapshot, Problems()))
    return [
        {
            "zero_stage": stage,
            "activation_checkpointing": checkpointing,
            "memory": _memory(request, stage, checkpointing, snapshot),
        }
        for stage in ZERO_STAGES
        for checkpointing in CHECKPOINTING
    ]


def _as_taken(request: TrainingRequest, run: ResolvedTraining) -> TrainingRequest:
    """A request that says of its layout, micro-batches and what it holds what was taken."""
    layout = run.setup.deployment.parallelism
    taken = ("micro_batch_size", "gradient_accumulation_steps", *HELD)
    training = request.training.model_copy(
        update={name: getattr(run.asked, name) for name in taken}
        | {"global_batch_size": None, "global_batch_tokens": None}
    )
    degrees = {name: getattr(layout, name) for name in ParallelismRequest.model_fields}
    return request.model_copy(
        update={"training": training, "parallelism": ParallelismRequest(**degrees)}
    )


def _memory(
    request: TrainingRequest, stage: int, checkpointing: str, snapshot: CatalogSnapshot
) -> dict[str, Any] | None:
    """What a run takes with a stage and a way to recompute; None where they do not go together."""
    training = request.training.model_copy(
        update={"zero_stage": stage, "activation_checkpointing": checkpointing}
    )
    changed = request.model_copy(update={"training": training})
    try:
        resolved = learnt_training(changed, snapshot, Problems())
    except Rejected:
        return None
    setup = resolved.setup
    memory = training_memory(
        setup.deployment, setup.micro_batch, setup.settings, resolved.overheads
    )
    return {
        "total_bytes": figure(memory.total_bytes),
        "fits": bool(memory.fits),
        "fits_certainty": str(memory.fits_certainty),
    }
