"""Explanation of a training step's time, from the figures the estimate itself holds."""

from __future__ import annotations

from service.core.deployment import Deployment
from service.core.explanation import Formula, Step
from service.core.memory.training.settings import TrainingSettings
from service.core.performance.training.calibration import TrainingCalibration
from service.core.performance.training.step import TrainingStep

_ROOFLINE = "Williams et al., Roofline, 2009, https://doi.org/10.1145/1498765.1498785"
_FLASH = "Dao, FlashAttention-2, 2023, section 3.1, https://arxiv.org/abs/2307.08691"
_RECOMPUTATION = "Korthikanti et al., 2022, https://arxiv.org/abs/2205.05198"
_PIPELINE = "Narayanan et al., 2021, section 2.2, https://arxiv.org/abs/2104.04473"
_ZERO = "Rajbhandari et al., ZeRO, 2019, section 7, https://arxiv.org/abs/1910.02054"
_PALM = "Chowdhery et al., PaLM, 2022, appendix B, https://arxiv.org/abs/2204.02311"
_KAPLAN = "Kaplan et al., 2020, section 2.1, https://arxiv.org/abs/2001.08361"

MATRIX = Formula(
    "matrix_products_s",
    "micro-batches / stages · (3 + recomputed) · Σ products max(FLOPs / (peak · efficiency), "
    "bytes / bandwidth); 2 in place of 3 for adapters",
    "s",
    _ROOFLINE,
)
ATTENTION = Formula(
    "attention_s",
    "micro-batches / stages · (1 + 2.5 + recomputed) · FLOPs / (peak · efficiency)",
    "s",
    _FLASH,
)
ELEMENTWISE = Formula(
    "elementwise_s",
    "micro-batches / stages · kept bytes · passes · (1 + 0.4 · recomputed) / bandwidth",
    "s",
    _RECOMPUTATION,
)
MODEL_MESSAGES = Formula(
    "exposed_model_messages_s",
    "micro-batches / stages · (sums, exchanges and sends forward and backward) · (1 − overlap)",
    "s",
    "Shoeybi et al., Megatron-LM, 2019, section 3, https://arxiv.org/abs/1909.08053",
)
DATA_MESSAGES = Formula(
    "exposed_data_messages_s",
    "max(gradients and gathered weights / bandwidth − what computation hides, 0)",
    "s",
    _ZERO,
)
BUBBLE = Formula(
    "pipeline_bubble_s", "(stages − 1) / virtual stages · micro-batch / stages", "s", _PIPELINE
)
OPTIMIZER = Formula("optimizer_s", "bytes of states, gradients and weights / bandwidth", "s", _ZERO)
OFFLOAD = Formula(
    "offload_stall_s",
    "update on the host + max(transfers − computation, 0)",
    "s",
    "Ren et al., ZeRO-Offload, 2021, https://arxiv.org/abs/2101.06840",
)
OVERHEAD = Formula(
    "overhead_s",
    "step + micro-batches / stages · (routing + max(issuing kernels − working, 0))",
    "s",
    "Measured by framework, see the calibration entry",
)
STEP = Formula("step_s", "sum of the parts", "s", "Sum of the parts")
TOKENS = Formula(
    "tokens_per_step",
    "sequences · tokens · micro-batches · data-parallel ranks",
    "token",
    "definition",
)
RATE = Formula("tokens_per_s", "tokens_per_step / step_s", "1/s", "definition")
MODEL_FLOPS = Formula(
    "model_flops", "operators forward and backward, without recomputation", "FLOP", _PALM
)
SIX_ND = Formula("six_nd_flops", "6 · active parameters · tokens", "FLOP", _KAPLAN)
MFU = Formula("mfu_ratio", "model_flops / (step_s · peak)", "1", _PALM)
HFU = Formula("hfu_ratio", "hardware_flops / (step_s · peak)", "1", _PALM)


def speed_steps(
    step: TrainingStep,
    deployment: Deployment,
    settings: TrainingSettings,
    calibration: TrainingCalibration,
) -> tuple[Step, ...]:
    """The formulas applied, in order, with the figures that went in and came out.

    Parameters
    ----------
    step
        The estimate to explain, of one configuration (not arrays).
    deployment, settings, calibration
        What it was computed from.
    """
    parallelism, hardware = deployment.parallelism, calibration.performance.hardware
    schedule: dict[str, float | str] = {
        "micro_batches": settings.gradient_accumulation_steps,
        "stages": parallelism.pipeline,
        "checkpointing": settings.activation_checkpointing,
    }
    parts: dict[str, float | str] = {
        "matrix_products_s": step.matrix_s,
        "attention_s": step.attention_s,
        "elementwise_s": step.elementwise_s,
        "exposed_model_messages_s": step.tensor_messages_s,
        "exposed_data_messages_s": step.data_messages_s,
        "pipeline_bubble_s": step.bubble_s,
        "optimizer_s": step.optimizer_s,
        "offload_stall_s": step.offload_s,
        "overhead_s": step.overhead_s,
    }
    utilisation: dict[str, float | str] = {
        "step_s": step.step_s,
        "peak_flops_per_s": step.peak_flops_per_s,
    }
    return (
        Step(
            MATRIX,
            {
                **schedule,
                "matrix_16bit_ratio": hardware.matrix_ratio[16],
                "matrix_8bit_ratio": hardware.matrix_ratio[8],
                "efficiencies": calibration.performance.source,
            },
            step.matrix_s,
        ),
        Step(
            ATTENTION,
            {**schedule, "attention_matrix_ratio": hardware.attention_matrix_ratio},
            step.attention_s,
        ),
        Step(
            ELEMENTWISE,
            {
                **schedule,
                "elementwise_passes": calibration.elementwise_passes,
                "memory_ratio": hardware.memory_ratio,
            },
            step.elementwise_s,
        ),
        Step(
            MODEL_MESSAGES,
            {
                "tensor": parallelism.tensor,
                "expert": parallelism.expert,
                "context": parallelism.context,
                "hidden_s": step.hidden_tensor_messages_s,
                "link_ratio": hardware.link_ratio,
                "tensor_overlap_ratio": calibration.tensor_overlap_ratio,
            },
            step.tensor_messages_s,
        ),
        Step(
            DATA_MESSAGES,
            {
                "data": parallelism.data,
                "zero_stage": settings.zero_stage,
                "hidden_s": step.hidden_data_messages_s,
                "data_overlap_ratio": calibration.data_overlap_ratio,
            },
            step.data_messages_s,
        ),
        Step(
            BUBBLE,
            {"stages": parallelism.pipeline, "virtual_stages": settings.virtual_stages},
            step.bubble_s,
        ),
        Step(
            OPTIMIZER,
            {"optimizer": settings.optimizer, "offload": settings.offload.optimizer},
            step.optimizer_s,
        ),
        Step(
            OFFLOAD,
            {
                "optimizer": settings.offload.optimizer,
                "parameters": settings.offload.parameters,
                "activations": settings.offload.activations,
            },
            step.offload_s,
        ),
        Step(
            OVERHEAD,
            {
                "step_overhead_s": calibration.performance.engine.step_s,
                "layer_s": calibration.performance.engine.layer_s,
                "sharded_layer_s": calibration.sharded_layer_s,
                "routing_s": calibration.routing_s,
            },
            step.overhead_s,
        ),
        Step(STEP, parts, step.step_s),
        Step(
            TOKENS,
            {
                "micro_batches": settings.gradient_accumulation_steps,
                "data": parallelism.data,
            },
            step.tokens_per_step,
        ),
        Step(
            RATE,
            {"tokens_per_step": step.tokens_per_step, "step_s": step.step_s},
            step.tokens_per_s,
        ),
        Step(MODEL_FLOPS, {"hardware_flops": step.hardware_flops}, step.model_flops),
        Step(
            SIX_ND,
            {
                "active_parameters": deployment.architecture.active_parameters,
                "tokens_per_step": step.tokens_per_step,
                "accelerators": parallelism.accelerator_count,
            },
            step.six_nd_flops,
        ),
        Step(MFU, {"model_flops": step.model_flops, **utilisation}, step.mfu_ratio),
        Step(HFU, {"hardware_flops": step.hardware_flops, **utilisation}, step.hfu_ratio),
    )
