"""Formulas of a training run's memory."""

from __future__ import annotations

from service.core.explanation import Formula, paths

_ZERO = "Rajbhandari et al., ZeRO, 2019, https://arxiv.org/abs/1910.02054"
_RECOMPUTATION = "Korthikanti et al., 2022, https://arxiv.org/abs/2205.05198"
_FRAMEWORK = "Measured distributions by framework, see the calibration entry"
_PARTS = "Sum of the parts"
_DIFFERENCE = "Difference of the parts"

_BATCH = paths(
    "micro_batch.sequences", "micro_batch.tokens", context_ranks="deployment.parallelism.context"
)
_RATIO = paths("framework.activation_ratio", "framework.calibration")
_FRAGMENTATION = paths("framework.fragmentation_ratio", "framework.calibration")
_ORDER = "Order of operations of a step in PyTorch, 2025, https://pytorch.org/docs"
_MOMENTS = paths(
    "moments.stored_bytes",
    "moments.working_bytes",
    loss_bytes="moments.logits_bytes",
)
_APART = paths(
    "settings.zero_stage",
    data_ranks="deployment.parallelism.data",
    context_ranks="deployment.parallelism.context",
)

#: Paths start at a ``TrainingMemory``.
MEMORY = (
    Formula(
        "Weights on the fullest accelerator",
        '(sum(weights_bytes) if offload == "none" else fixed_bytes) + held_beside_bytes',
        _ZERO,
        "weights_bytes",
        paths(
            "state.fixed_bytes",
            weights_bytes="state.weights_by_class_bytes",
            offload="settings.offload.parameters",
            format="deployment.precision.weights.id",
            held_beside_bytes="beside.held_bytes",
        ),
    ),
    Formula(
        "All gradients",
        "(gradient_bytes + gradient_sum_bytes) * gradient_elements",
        _ZERO,
        "state.gradients_bytes",
        paths(
            "settings.gradient_bytes",
            "settings.gradient_sum_bytes",
            "state.gradient_elements",
        ),
    ),
    Formula(
        "Gradients",
        "min(largest_tensor_elements * gradient_bytes, all_bytes) if in_backward else"
        ' (min(all_bytes, gradient_bytes * bucket_elements) if offload != "none"'
        " and zero_stage >= 2 else all_bytes)",
        _ZERO,
        "gradients_bytes",
        paths(
            "settings.gradient_bytes",
            "settings.bucket_elements",
            "settings.zero_stage",
            all_bytes="state.gradients_bytes",
            largest_tensor_elements="state.largest_trained_elements",
            in_backward="settings.optimizer_in_backward",
            offload="settings.offload.optimizer",
        ),
    ),
    Formula(
        "Optimizer states",
        "(min(sum(optimizer_bytes), max(usable_bytes - other_bytes, 0)) if paged"
        ' else sum(optimizer_bytes)) if offload == "none" else 0',
        _ZERO,
        "optimizer_bytes",
        paths(
            "settings.paged",
            "settings.optimizer",
            optimizer_bytes="state.optimizer_by_class_bytes",
            other_bytes="without_optimizer_bytes",
            offload="settings.offload.optimizer",
        ),
    ),
    Formula(
        "Activations kept for the backward pass",
        "micro_batches_in_flight * sequences * layers / model_layers * (bytes_per_token"
        " + bytes_per_pair_of_tokens * tokens) * tokens / context_ranks"
        ' * (min(1, 2 / (layers * micro_batches_in_flight)) if offload != "none" else 1)',
        _RECOMPUTATION,
        "stored_activations_bytes",
        _BATCH
        | paths(
            "state.layers",
            model_layers="deployment.architecture.layer_count",
            bytes_per_token="stored_bytes_per_token",
            bytes_per_pair_of_tokens="stored_bytes_per_pair",
            offload="settings.offload.activations",
            checkpointing="settings.activation_checkpointing",
        )
        | paths("settings.attention"),
    ),
    Formula(
        "Backward pass of the widest layer",
        "sequences * (bytes_per_token + bytes_per_pair_of_tokens * tokens) * tokens"
        " / context_ranks",
        _RECOMPUTATION,
        "working_bytes",
        _BATCH
        | paths(
            bytes_per_token="widest_layer.working_bytes_per_token",
            bytes_per_pair_of_tokens="widest_layer.working_bytes_per_pair",
        ),
    ),
    Formula(
        "Loss by its formula",
        "bytes_per_token * sequences * tokens / context_ranks + chunk_bytes",
        "Order of operations of the cross-entropy in PyTorch, 2024, https://pytorch.org/docs",
        "moments.logits_bytes",
        _BATCH
        | paths(
            "settings.cross_entropy",
            bytes_per_token="logits_bytes_per_token",
            chunk_bytes="room.loss_chunk_bytes",
        ),
    ),
    Formula(
        "Gradients that come after the loss",
        "0 if keeps_gradients or accumulation_steps > 1"
        " or zero_stage == 3 and data_ranks * context_ranks > 1 else gradients_bytes",
        _ORDER,
        "moments.late_bytes",
        _APART
        | paths(
            "gradients_bytes",
            keeps_gradients="framework.keeps_gradients",
            accumulation_steps="settings.gradient_accumulation_steps",
        ),
    ),
    Formula(
        "Room that they take over from activations and logits",
        "min(late_bytes, activation_ratio * (stored_bytes + loss_bytes"
        " + max(working_bytes - loss_bytes, 0) - working_bytes))",
        _ORDER,
        "moments.reused_bytes",
        _RATIO | _MOMENTS | paths(late_bytes="moments.late_bytes"),
    ),
    Formula(
        "Gradients of a stream of their own, which could take over such room",
        "min(0 if keeps_gradients or accumulation_steps > 1 else gradients_bytes,"
        " activation_ratio * (stored_bytes + loss_bytes + max(working_bytes - loss_bytes, 0)"
        " - working_bytes)) if zero_stage == 3 and data_ranks * context_ranks > 1 else 0",
        _ORDER,
        "reused_bytes",
        _RATIO
        | _MOMENTS
        | _APART
        | paths(
            "gradients_bytes",
            keeps_gradients="framework.keeps_gradients",
            accumulation_steps="settings.gradient_accumulation_steps",
        ),
    ),
    Formula(
        "Logits and loss, beyond that room",
        "max(activation_ratio * loss_bytes - taken_over_bytes, 0)",
        _ORDER,
        "logits_bytes",
        _RATIO | paths(loss_bytes="moments.logits_bytes", taken_over_bytes="moments.reused_bytes"),
    ),
    Formula(
        "Activations, beyond that room",
        "activation_ratio * (stored_bytes + max(working_bytes - loss_bytes, 0))"
        " - max(taken_over_bytes - activation_ratio * loss_bytes, 0)",
        _RECOMPUTATION,
        "activations_bytes",
        _RATIO | _MOMENTS | paths(taken_over_bytes="moments.reused_bytes"),
    ),
    Formula(
        "Optimizer step by its formula",
        '0 if offload != "none" else (0 if (0 if keeps_gradients else in_place) else max('
        "min(updated_elements, elements_at_once,"
        " largest_trained_elements if (0 if keeps_gradients else one_by_one) else updated_elements)"
        " * bytes_per_element * optimizer_state_bytes / 4, projection_bytes))",
        "Measured by framework, see the calibration entry",
        "moments.step_bytes",
        paths(
            "state.updated_elements",
            "state.largest_trained_elements",
            "state.projection_bytes",
            "settings.optimizer_state_bytes",
            "framework.keeps_gradients",
            offload="settings.offload.optimizer",
            in_place="settings.updates_in_place",
            one_by_one="settings.updates_one_by_one",
            elements_at_once="framework.step_elements",
            bytes_per_element="framework.step_bytes_per_element",
        ),
    ),
    Formula(
        "Optimizer step, beyond activations and logits",
        "step_bytes if flat_step else max(step_bytes - activations_bytes - logits_bytes, 0)",
        _ORDER,
        "update_bytes",
        paths("moments.step_bytes", "moments.flat_step"),
    ),
    Formula(
        "Gathered parameters and message buffers",
        "sum(bytes)",
        _ZERO,
        "communication_bytes",
        paths(bytes="communication_parts_bytes"),
    ),
    Formula(
        "Libraries",
        "context_bytes + collectives_bytes * kinds_of_groups",
        _FRAMEWORK,
        "libraries_bytes",
        paths(
            "context_bytes",
            "framework.collectives_bytes",
            "framework.calibration",
            kinds_of_groups="kinds_of_groups_count",
        ),
    ),
    Formula(
        "Libraries and fragmentation",
        "libraries_bytes + fragmentation_ratio"
        " * (activations_bytes + logits_bytes + update_bytes + communication_bytes)",
        _FRAMEWORK,
        "unallocated_bytes",
        _FRAGMENTATION,
    ),
    Formula(
        "Runtime", "unallocated_bytes + update_bytes + communication_bytes", _PARTS, "runtime_bytes"
    ),
    Formula(
        "Total",
        "weights_bytes + gradients_bytes + optimizer_bytes + activations_bytes + logits_bytes"
        " + runtime_bytes",
        _PARTS,
        "total_bytes",
    ),
    Formula(
        "Reserved by the allocator",
        "total_bytes - libraries_bytes - (optimizer_bytes if paged else 0)",
        _DIFFERENCE,
        "reserved_bytes",
        paths("settings.paged"),
    ),
    Formula(
        "Allocated to tensors",
        "total_bytes - unallocated_bytes - reused_bytes - (optimizer_bytes if paged else 0)",
        _DIFFERENCE,
        "allocated_bytes",
        paths("settings.paged"),
    ),
    Formula(
        "Headroom",
        "capacity_bytes * (1 - memory_reserve_ratio) - total_bytes",
        _DIFFERENCE,
        "headroom_bytes",
        paths("settings.memory_reserve_ratio", "fits_certainty"),
    ),
    Formula("Shortfall", "max(-headroom_bytes, 0)", _DIFFERENCE, "shortfall_bytes"),
    Formula(
        "Host memory for each accelerator",
        "sum(bytes)",
        "Ren et al., ZeRO-Offload, 2021, https://arxiv.org/abs/2101.06840",
        "host_bytes",
        paths(bytes="host_parts_bytes"),
    ),
    Formula(
        "NVMe for each accelerator",
        "sum(bytes)",
        "Rajbhandari et al., ZeRO-Infinity, 2021, https://arxiv.org/abs/2104.07857",
        "nvme_bytes",
        paths(bytes="nvme_parts_bytes"),
    ),
    Formula(
        "Memory tier for each accelerator",
        "sum(bytes)",
        "Ren et al., ZeRO-Offload, 2021, https://arxiv.org/abs/2101.06840",
        "tier_bytes",
        paths(bytes="tier_parts_bytes", tier="settings.offload.tier.id"),
    ),
    Formula(
        "Room for temporary tensors",
        "(usable_bytes - (weights_bytes + gradients_bytes + lasting_bytes)"
        " - (0 if paged else optimizer_bytes) - libraries_bytes"
        " - lasting_bytes * fragmentation_ratio) / (1 + fragmentation_ratio)",
        _DIFFERENCE,
        "room.room_bytes",
        _FRAGMENTATION | paths("settings.paged", lasting_bytes="room.communication_bytes"),
    ),
    Formula(
        "Largest micro-batch on the fullest stage",
        "max(floor(min(((room_bytes + late_bytes) / activation_ratio - whole_gradients_bytes)"
        " / backward_bytes,"
        " ((room_bytes + late_bytes) / activation_ratio - loss_chunk_bytes) / loss_bytes,"
        " (room_bytes / activation_ratio - whole_gradients_bytes) / working_bytes)), 0)"
        " if room_bytes >= update_bytes else 0",
        "Solution of the total for the micro-batch",
        "room.sequences",
        _RATIO
        | paths(
            "room.room_bytes",
            "room.whole_gradients_bytes",
            "room.backward_bytes",
            "room.loss_chunk_bytes",
            "room.loss_bytes",
            "room.update_bytes",
            "room.late_bytes",
            "room.working_bytes",
        ),
    ),
    Formula(
        "Largest micro-batch",
        "min(sequences)",
        "Solution of the total for the micro-batch",
        "max_micro_batch_size",
        paths(sequences="stage_sequences"),
        unit="sequence",
    ),
)
