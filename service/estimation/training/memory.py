"""Memory of a training run, as it goes over the wire, and what to say about it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.core.elementwise import floor, plain
from service.core.explanation import EstimateWarning
from service.core.interval import Interval, exact
from service.core.memory.training.memory import TrainingMemory, training_stages
from service.core.memory.training.state import trained_parameters
from service.estimation.answers import figure
from service.estimation.detail import WHOLE, Detail
from service.estimation.training import answers
from service.estimation.training.mitigations import training_mitigations
from service.estimation.training.setup import ResolvedTraining
from service.estimation.writing import written

#: Stages that are listed one by one; of longer pipelines only the fullest is.
_MOST_STAGES = 128
#: What is said of choices that a request leaves open, by the first setting that would tell.
CHOICES = {
    "micro_batch_size": "how many sequences a micro-batch has",
    "gradient_accumulation_steps": "how many micro-batches fill the pipeline",
    "activations": "in which format products run",
    "lora_targets": "which matrices get an adapter",
    "cross_entropy": "how the loss is computed",
    "fused_kernels": "whether norms and activations are fused",
    "adapter_dtype": "in which format adapters are trained",
    "attention": "how attention is computed",
    "gradient_dtype": "in which format gradients are held and exchanged",
    "gradient_sum_dtype": "in which format gradients of micro-batches are summed",
    "master_weights": "in which format weights and states are updated",
    "optimizer_state_dtype": "in which format optimizer states are held",
    "pipeline_schedule": "by which schedule the pipeline runs",
    "activation_checkpointing": "what is recomputed",
    "zero_stage": "what data-parallel ranks divide",
    "data_parallel_shard_degree": "how many data-parallel ranks divide it",
    "expert_overlap_ratio": "whether messages to experts hide behind computation",
    "framework_version": "which release of the framework runs",
}
#: Smallest change of the whole memory that is told of a choice [-].
_WORTH_TELLING = 0.02


def memory_figures(
    resolved: ResolvedTraining,
    memory: TrainingMemory,
    snapshot: CatalogSnapshot,
    detail: Detail = WHOLE,
) -> answers.TrainingMemory:
    """The memory of a training run, as it goes over the wire."""
    told: Any = {
        **written(memory, answers.TrainingParts),
        "capacity_bytes": float(memory.capacity_bytes),
        **written(memory, answers.MemoryVerdict),
        "host_bytes": figure(exact(memory.host_bytes)),
        "nvme_bytes": figure(exact(memory.nvme_bytes)),
        "tier_bytes": figure(exact(memory.tier_bytes)),
        "max_micro_batch_size": figure(memory.max_micro_batch_size),
        "trained_parameters": trained_parameters(memory.deployment.architecture, memory.settings),
        "fullest_stage": memory.state.stage,
    }
    if detail.has("memory.by_class"):
        told |= written(memory, answers.RuntimeParts)
    if detail.has("memory.stages"):
        told["stages"] = [_stage(stage) for stage in _stages(resolved, memory)]
    if detail.has("remedies"):
        host_bytes = resolved.asked.offload.host_memory_bytes
        told |= training_mitigations(memory, resolved.overheads, snapshot, host_bytes)
    found: answers.TrainingMemory = told
    return found


def fit_warnings(
    resolved: ResolvedTraining, memory: TrainingMemory, sequences_each: float = 1.0
) -> Iterable[EstimateWarning]:
    """What to say about a run that does not fit, or only narrowly.

    A micro-batch counts what has ``sequences_each``: sequences, or pairs of them.
    """
    host_bytes = resolved.asked.offload.host_memory_bytes
    if host_bytes is not None and memory.host_bytes > host_bytes:
        yield EstimateWarning(
            "host_memory_short",
            f"the run needs {memory.host_bytes / 1e9:,.1f} GB of host memory for each "
            f"accelerator, but only {host_bytes / 1e9:,.1f} GB are available",
        )
    tier = memory.settings.offload.tier
    if tier is not None and not memory.tier_suffices:
        yield EstimateWarning(
            "memory_tier_short",
            f"the run needs {memory.tier_bytes / 1e9:,.1f} GB of {tier.id} for each accelerator, "
            f"but its share is {tier.capacity_bytes / 1e9:,.1f} GB",
        )
    if memory.shortfall_bytes.value > 0.0:
        missing = memory.shortfall_bytes.value / 1e9
        fitting = largest_micro_batch(memory, sequences_each).value
        yield EstimateWarning(
            "does_not_fit",
            f"the run needs {missing:,.1f} GB more memory per accelerator than there is"
            + (
                f"; micro-batches of up to {fitting:,.0f} fit"
                if fitting >= 1
                else "; no micro-batch fits"
            ),
        )
    elif memory.fits and memory.fits_certainty != "yes":
        yield EstimateWarning(
            "fits_narrowly", "the upper end of the memory interval exceeds the accelerator's memory"
        )
    yield from left_open_warnings(memory)


def left_open_warnings(memory: TrainingMemory) -> Iterable[EstimateWarning]:
    """What to say about choices that nobody told and that memory depends on."""
    usual = _total(memory)
    for choice, others in memory.otherwise.items():
        found = max(
            (plain(one.total_bytes.value) for one in others), key=lambda one: abs(one - usual)
        )
        if abs(found - usual) > _WORTH_TELLING * usual:
            name = choice.names[0]
            yield EstimateWarning(
                "left_open",
                f"the request does not say {CHOICES[name]}: with the usual choice the run takes "
                f"{usual / 1e9:.1f} GB per accelerator, with another common one "
                f"{found / 1e9:.1f} GB. The range covers both; state it to narrow the range",
                about=told_by(name),
            )


def told_by(name: str) -> str:
    """Path of the setting of a request that tells a choice."""
    return f"precision.{name}" if name == "activations" else f"training.{name}"


def _total(memory: TrainingMemory) -> float:
    return plain(memory.total_bytes.value)


def largest_micro_batch(memory: TrainingMemory, sequences_each: float) -> Interval:
    """Largest micro-batch that fits, of what has so many sequences each [-]."""
    most = memory.max_micro_batch_size
    return Interval(*(floor(end / sequences_each) for end in (most.value, most.low, most.high)))


def _stages(resolved: ResolvedTraining, memory: TrainingMemory) -> tuple[TrainingMemory, ...]:
    pipeline = memory.deployment.parallelism.pipeline
    if pipeline == 1 or pipeline > _MOST_STAGES:
        return (memory,)
    return training_stages(
        memory.deployment, memory.micro_batch, memory.settings, resolved.overheads
    )


def _stage(memory: TrainingMemory) -> answers.TrainingStage:
    return {
        "stage": memory.state.stage,
        "layers": memory.state.layers,
        "micro_batches_in_flight": float(memory.micro_batches_in_flight),
        **written(memory, answers.TrainingParts),
        "fits": bool(memory.fits),
    }
