"""How a training memory answer came about, from the figures stored in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from service.core.explanation import Formula, Step

if TYPE_CHECKING:
    from service.core.memory.training.memory import TrainingMemory

_ZERO = "Rajbhandari et al., ZeRO, 2019, https://arxiv.org/abs/1910.02054"
_RECOMPUTATION = "Korthikanti et al., 2022, https://arxiv.org/abs/2205.05198"

WEIGHTS = Formula(
    "Weights on the fullest accelerator",
    "Σ over tensors: elements on the rank × stored bits / 8 / ranks (ZeRO 3), less what is "
    "offloaded",
    "B",
    _ZERO,
)
GRADIENTS = Formula(
    "Gradients",
    "trained elements × bytes per gradient / ranks (ZeRO 2 and 3); one bucket with an offloaded "
    "optimizer",
    "B",
    _ZERO,
)
OPTIMIZER = Formula(
    "Optimizer states",
    "Σ over trained tensors: elements × (states + master copy) / ranks (ZeRO 1 to 3), less what "
    "is offloaded or paged out",
    "B",
    _ZERO,
)
STORED = Formula(
    "Activations kept for the backward pass",
    "micro-batches in flight × sequences × Σ over layers: bytes per token × tokens + bytes per "
    "pair × tokens²",
    "B",
    _RECOMPUTATION,
)
WORKING = Formula(
    "Backward pass of the widest layer",
    "sequences × (recomputed results + gradients of the widest results) × tokens",
    "B",
    _RECOMPUTATION,
)
LOGITS = Formula(
    "Logits and loss",
    "tokens × vocabulary on the rank × bytes per logit × measured ratio, on the last stage",
    "B",
    "Order of operations of the cross-entropy in PyTorch, 2024, https://pytorch.org/docs",
)
ACTIVATIONS = Formula(
    "Activations",
    "(kept + what the widest layer's backward pass and whole gradients take beyond the logits' "
    "room) × measured ratio",
    "B",
    _RECOMPUTATION,
)
UPDATE = Formula(
    "Optimizer step",
    "max(updated elements at once × bytes per element × state bytes / 4 − activations − logits, 0)",
    "B",
    "Measured by framework, see the calibration entry",
)
COMMUNICATION = Formula(
    "Gathered parameters and message buffers",
    "layers gathered at once + tensors outside the layers (ZeRO 3), all of them and their "
    "gradients in a pipeline; buckets (ZeRO 1 and 2); a dequantised matrix (QLoRA)",
    "B",
    _ZERO,
)
LIBRARIES = Formula(
    "Libraries",
    "context + collectives",
    "B",
    "Measured distributions by framework, see the calibration entry",
)
UNALLOCATED = Formula(
    "Libraries and fragmentation",
    "libraries + fragmentation × (activations + logits + update + communication)",
    "B",
    "Measured distributions by framework, see the calibration entry",
)
RUNTIME = Formula(
    "Runtime",
    "libraries and fragmentation + update + communication",
    "B",
    "Sum of the parts",
)
TOTAL = Formula(
    "Total",
    "weights + gradients + optimizer + activations + logits + runtime",
    "B",
    "Sum of the parts",
)
HEADROOM = Formula("Headroom", "capacity − total", "B", "Difference of the parts")
SHORTFALL = Formula("Shortfall", "max(−headroom, 0)", "B", "Difference of the parts")
HOST = Formula(
    "Host memory for each accelerator",
    "offloaded or paged optimizer states, gradients, parameters and activations",
    "B",
    "Ren et al., ZeRO-Offload, 2021, https://arxiv.org/abs/2101.06840",
)
NVME = Formula(
    "NVMe for each accelerator",
    "offloaded optimizer states and parameters",
    "B",
    "Rajbhandari et al., ZeRO-Infinity, 2021, https://arxiv.org/abs/2104.07857",
)
MICRO_BATCH = Formula(
    "Largest micro-batch",
    "largest number of sequences whose activations and logits fit beside everything else",
    "sequence",
    "Solution of the total for the micro-batch",
)


def steps(memory: TrainingMemory) -> tuple[Step, ...]:
    """Steps of an answer for a single run, in order of computation."""
    settings, state, framework = memory.settings, memory.state, memory.framework
    batch = memory.micro_batch
    trained: dict[str, float | str] = {
        "trained_elements": state.trainable_elements,
        "zero_stage": settings.zero_stage,
    }
    size: dict[str, float | str] = {"sequences": batch.sequences, "tokens": batch.tokens}
    parts: dict[str, float | str] = {
        "activations_bytes": memory.activations.value,
        "logits_bytes": memory.logits.value,
    }
    passing: dict[str, float | str] = {
        "update_bytes": memory.update.value,
        "communication_bytes": memory.communication.value,
    }
    return (
        Step(
            WEIGHTS,
            {
                "format": memory.deployment.precision.weights.id,
                "stage": state.stage,
                "layers": state.layers,
                "zero_stage": settings.zero_stage,
                "offload": settings.offload.parameters,
            },
            memory.weights.value,
        ),
        Step(
            GRADIENTS,
            {**trained, "gradient_bytes": settings.gradient_bytes},
            memory.gradients.value,
        ),
        Step(
            OPTIMIZER,
            {
                **trained,
                "optimizer": settings.optimizer,
                "master_weights": "yes" if settings.master_weights else "no",
                "offload": settings.offload.optimizer,
            },
            memory.optimizer.value,
        ),
        Step(
            STORED,
            {
                **size,
                "micro_batches_in_flight": memory.in_flight,
                "layers": state.layers,
                "checkpointing": settings.activation_checkpointing,
                "attention": settings.attention,
            },
            memory.stored_activations_bytes,
        ),
        Step(WORKING, size, memory.working_bytes),
        Step(
            LOGITS,
            {
                **size,
                "vocabulary": memory.deployment.architecture.vocab_size,
                "bytes_per_logit": framework.bytes_per_logit,
                "cross_entropy": settings.cross_entropy,
            },
            memory.logits.value,
        ),
        Step(
            ACTIVATIONS,
            {
                "stored_bytes": memory.stored_activations_bytes,
                "working_bytes": memory.working_bytes,
                "activation_ratio": framework.activation_ratio.value,
            },
            memory.activations.value,
        ),
        Step(
            UPDATE,
            {
                "updated_elements": state.updated_elements,
                "elements_at_once": framework.step_elements,
                "bytes_per_element": framework.step_bytes_per_element,
                "optimizer_state_bytes": settings.optimizer_state_bytes,
            },
            memory.update.value,
        ),
        Step(
            COMMUNICATION,
            {
                "layer_elements": state.layer_elements,
                "end_elements": state.end_elements,
                "zero_stage": settings.zero_stage,
                "bucket_elements": settings.bucket_elements,
            },
            memory.communication.value,
        ),
        Step(
            LIBRARIES,
            {
                "context_bytes": framework.context.value,
                "collectives_bytes": memory.libraries.value - framework.context.value,
                "calibration": framework.calibration,
            },
            memory.libraries.value,
        ),
        Step(
            UNALLOCATED,
            {
                **parts,
                **passing,
                "libraries_bytes": memory.libraries.value,
                "fragmentation_ratio": framework.fragmentation_ratio.value,
                "calibration": framework.calibration,
            },
            memory.unallocated.value,
        ),
        Step(
            RUNTIME,
            {**passing, "unallocated_bytes": memory.unallocated.value},
            memory.runtime.value,
        ),
        Step(
            TOTAL,
            {
                "weights_bytes": memory.weights.value,
                "gradients_bytes": memory.gradients.value,
                "optimizer_bytes": memory.optimizer.value,
                **parts,
                "runtime_bytes": memory.runtime.value,
                "low_bytes": memory.total.low,
                "high_bytes": memory.total.high,
            },
            memory.total.value,
        ),
        Step(
            HEADROOM,
            {
                "capacity_bytes": memory.capacity_bytes,
                "total_bytes": memory.total.value,
                "fits": "yes" if memory.fits else "no",
                "fits_certainty": memory.fits_certainty,
            },
            memory.headroom.value,
        ),
        Step(SHORTFALL, {"headroom_bytes": memory.headroom.value}, memory.shortfall.value),
        Step(
            HOST,
            {
                "optimizer": settings.offload.optimizer,
                "parameters": settings.offload.parameters,
                "activations": settings.offload.activations,
            },
            memory.host_bytes,
        ),
        Step(
            NVME,
            {"optimizer": settings.offload.optimizer, "parameters": settings.offload.parameters},
            memory.nvme_bytes,
        ),
        Step(
            MICRO_BATCH,
            {"headroom_bytes": memory.headroom.value, "tokens": batch.tokens},
            memory.max_micro_batch_sequences.value,
        ),
    )
