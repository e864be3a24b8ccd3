"""Formulas of a training step's time and throughput."""

from __future__ import annotations

from service.core.explanation import Formula, paths

_ROOFLINE = "Williams et al., Roofline, 2009, https://doi.org/10.1145/1498765.1498785"
_FLASH = "Dao, FlashAttention-2, 2023, section 3.1, https://arxiv.org/abs/2307.08691"
_RECOMPUTATION = "Korthikanti et al., 2022, https://arxiv.org/abs/2205.05198"
_MEGATRON = "Shoeybi et al., Megatron-LM, 2019, section 3, https://arxiv.org/abs/1909.08053"
_PIPELINE = "Narayanan et al., 2021, section 2.2, https://arxiv.org/abs/2104.04473"
_ZERO = "Rajbhandari et al., ZeRO, 2019, section 7, https://arxiv.org/abs/1910.02054"
_OFFLOAD = "Ren et al., ZeRO-Offload, 2021, https://arxiv.org/abs/2101.06840"
_PALM = "Chowdhery et al., PaLM, 2022, appendix B, https://arxiv.org/abs/2204.02311"
_KAPLAN = "Kaplan et al., 2020, section 2.1, https://arxiv.org/abs/2001.08361"

_SCHEDULE = paths(
    micro_batches="setup.settings.gradient_accumulation_steps",
    stages="setup.deployment.parallelism.pipeline",
)
_PASSES = paths(
    "step.micro_batch.passes",
    recomputed_ratio="step.micro_batch.recomputed_products_ratio",
    checkpointing="setup.settings.activation_checkpointing",
)
_ATTENTION_AGAIN = paths("step.micro_batch.recomputed_attention_ratio")
_BANDWIDTH = paths(
    "setup.deployment.accelerator.memory_bandwidth_bytes_per_s",
    "setup.calibration.performance.hardware.memory_ratio",
    efficiencies="setup.calibration.performance.source",
)
_FLOPS = paths("step.micro_batch.products_flops", "step.micro_batch.attention_flops")
_WORK = paths("step.matrix_products_s", "step.attention_s", "step.elementwise_s")
_PARTS = _WORK | paths(
    "step.exposed_model_messages_s",
    "step.exposed_data_messages_s",
    "step.pipeline_bubble_s",
    "step.optimizer_s",
    "step.offload_stall_s",
    "step.overhead_s",
)
_TIME = paths("step.step_s", "step.peak_flops_per_s")

#: Paths start at a ``TrainingSpeed``.
SPEED = (
    Formula(
        "matrix_products_s",
        "micro_batches / stages * forward_products_s * (passes + recomputed_ratio"
        " + adapters_ratio)",
        _ROOFLINE,
        "step.matrix_products_s",
        _SCHEDULE
        | _PASSES
        | paths(
            "step.micro_batch.forward_products_s",
            "step.micro_batch.adapters_ratio",
            efficiencies="setup.calibration.performance.source",
        ),
    ),
    Formula(
        "attention_s",
        "micro_batches / stages * forward_attention_s * (1 + 2.5 + recomputed_attention_ratio)",
        _FLASH,
        "step.attention_s",
        _SCHEDULE
        | _ATTENTION_AGAIN
        | paths(
            "step.micro_batch.forward_attention_s",
            checkpointing="setup.settings.activation_checkpointing",
        ),
    ),
    Formula(
        "elementwise_s",
        "(micro_batches / stages * (moved_bytes * (1 + 0.4 * recomputed_elementwise_ratio)"
        " + adapters_bytes + dequantised_bytes * (2 + recomputed_layers_ratio)"
        " + normed_bytes * (1 + recomputed_layers_ratio) + gradients_bytes)"
        " + narrowed_messages_bytes) / (memory_bandwidth_bytes_per_s * memory_ratio)"
        " + micro_batches / stages * short_kernels_s",
        _RECOMPUTATION,
        "step.elementwise_s",
        _SCHEDULE
        | _BANDWIDTH
        | paths(
            "step.micro_batch.moved_bytes",
            "step.micro_batch.recomputed_elementwise_ratio",
            "step.micro_batch.dequantised_bytes",
            "step.micro_batch.normed_bytes",
            "step.micro_batch.adapters_bytes",
            "step.micro_batch.short_kernels_s",
            "step.narrowed_messages_bytes",
            "step.micro_batch.gradients_bytes",
            "step.micro_batch.recomputed_layers_ratio",
        ),
    ),
    Formula(
        "exposed_model_messages_s",
        "micro_batches / stages * (sent_s * (1 - tensor_overlap_ratio) + exposed_experts_s"
        " + max(ring_s - attention_s, 0))",
        _MEGATRON,
        "step.exposed_model_messages_s",
        _SCHEDULE
        | paths(
            "step.micro_batch.sent_s",
            "step.micro_batch.exposed_experts_s",
            "setup.calibration.tensor_overlap_ratio",
            "step.micro_batch.ring_s",
            "step.micro_batch.attention_s",
        ),
    ),
    Formula(
        "exposed_data_messages_s",
        "moved_s - (data_overlap_ratio if overlaps_zero or zero_stage == 0 else 0) * min(moved_s,"
        " (1 if zero_stage == 3 else 2 / 3 / micro_batches)"
        " * (matrix_products_s + attention_s + elementwise_s + exposed_model_messages_s"
        " + micro_batches / stages * waiting_s))",
        _ZERO,
        "step.exposed_data_messages_s",
        _SCHEDULE
        | _WORK
        | paths(
            "setup.settings.zero_stage",
            "setup.settings.overlaps_zero",
            "setup.calibration.data_overlap_ratio",
            "step.exposed_model_messages_s",
            "step.micro_batch.waiting_s",
            moved_s="step.moved_data_messages_s",
        ),
    ),
    Formula(
        "pipeline_bubble_s",
        "(filling_ratio + micro_batches * (slowest_stage_ratio - 1)) * micro_batch_s / stages",
        _PIPELINE,
        "step.pipeline_bubble_s",
        _SCHEDULE
        | paths(
            "step.filling_ratio",
            "step.slowest_stage_ratio",
            micro_batch_s="step.micro_batch.total_s",
        ),
    ),
    Formula(
        "optimizer_s",
        "(2 * optimizer_bytes + updated_elements * (gradient_bytes + 2))"
        ' / (memory_bandwidth_bytes_per_s * memory_ratio) if offload == "none" else 0',
        _ZERO,
        "step.optimizer_s",
        _BANDWIDTH
        | paths(
            "step.state.optimizer_bytes",
            "step.state.updated_elements",
            "setup.settings.gradient_bytes",
            "setup.settings.optimizer",
            offload="setup.settings.offload.optimizer",
        ),
    ),
    Formula(
        "offload_stall_s",
        "host_update_s + max(transfers_s - (matrix_products_s + attention_s + elementwise_s), 0)"
        " + 2 * paged_bytes / host_link_bytes_per_s",
        _OFFLOAD,
        "step.offload_stall_s",
        _WORK
        | paths(
            "step.host_update_s",
            "step.transfers_s",
            "setup.paged_bytes",
            host_link_bytes_per_s="setup.host.link_bytes_per_s",
        ),
    ),
    Formula(
        "overhead_s",
        "step_overhead_s + micro_batches / stages * (routing_s + max(issue_s - working_s, 0))",
        "Measured by framework, see the calibration entry",
        "step.overhead_s",
        _SCHEDULE
        | paths(
            "step.micro_batch.routing_s",
            "step.micro_batch.issue_s",
            "step.micro_batch.working_s",
            step_overhead_s="setup.calibration.performance.engine.step_s",
        ),
    ),
    Formula("step_s", " + ".join(_PARTS), "Sum of the parts", "step.published_step_s", _PARTS),
    Formula(
        "own_step_s",
        "published_step_s * own_correction_ratio",
        "Own measurements, see the block calibration, or training.mfu_ratio",
        "step.step_s",
        paths("step.published_step_s", "step.own_correction_ratio"),
    ),
    Formula(
        "tokens_per_step",
        "sequences * tokens * micro_batches * data_ranks",
        "definition",
        "step.tokens_per_step",
        paths(
            "setup.micro_batch.sequences",
            "setup.micro_batch.tokens",
            micro_batches="setup.settings.gradient_accumulation_steps",
            data_ranks="setup.deployment.parallelism.data",
        ),
        unit="token",
    ),
    Formula(
        "tokens_per_s",
        "tokens_per_step / step_s",
        "definition",
        "step.tokens_per_s",
        paths("step.tokens_per_step", "step.step_s"),
    ),
    Formula(
        "model_flops",
        "micro_batches / stages"
        " * (chosen_ratio * products_flops * passes + unmasked_attention_flops * 3)",
        _PALM,
        "step.model_flops",
        _SCHEDULE
        | paths(
            "step.micro_batch.chosen_ratio",
            "step.micro_batch.products_flops",
            "step.micro_batch.unmasked_attention_flops",
            "step.micro_batch.passes",
        ),
    ),
    Formula(
        "hardware_flops",
        "micro_batches / stages * (products_flops * (passes + recomputed_ratio + adapters_ratio)"
        " + attention_flops * (3 + recomputed_attention_ratio))",
        _PALM,
        "step.hardware_flops",
        _SCHEDULE | _FLOPS | _PASSES | _ATTENTION_AGAIN | paths("step.micro_batch.adapters_ratio"),
    ),
    Formula(
        "six_nd_flops",
        "6 * active_parameters * tokens_per_step / accelerators",
        _KAPLAN,
        "step.six_nd_flops",
        paths(
            "setup.deployment.architecture.active_parameters",
            "step.tokens_per_step",
            accelerators="setup.deployment.parallelism.accelerator_count",
        ),
    ),
    Formula(
        "mfu_ratio",
        "model_flops / (step_s * peak_flops_per_s)",
        _PALM,
        "step.mfu_ratio",
        _TIME | paths("step.model_flops"),
    ),
    Formula(
        "hfu_ratio",
        "hardware_flops / (step_s * peak_flops_per_s)",
        _PALM,
        "step.hfu_ratio",
        _TIME | paths("step.hardware_flops"),
    ),
    Formula(
        "model_tflops_per_accelerator",
        "model_flops / step_s / 10 ** 12",
        _PALM,
        "model_tflops_per_accelerator",
        paths("step.model_flops", "step.step_s"),
        unit="TFLOP/s",
    ),
    Formula(
        "hardware_tflops_per_accelerator",
        "hardware_flops / step_s / 10 ** 12",
        _PALM,
        "hardware_tflops_per_accelerator",
        paths("step.hardware_flops", "step.step_s"),
        unit="TFLOP/s",
    ),
)
