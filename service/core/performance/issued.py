"""What of a step is issued, and how often: layers, experts, messages, activations narrowed."""

from __future__ import annotations

from service.core.deployment import Accelerator, Parallelism
from service.core.performance.calibration import EngineOverhead
from service.core.performance.expert_tiles import narrowing_ratio
from service.core.performance.kernels import OPERAND_BITS, engine_precision
from service.core.performance.layer_kernels import FUSED_CALL_LAYERS
from service.core.performance.products import is_batched, is_unrouted, widened_whole
from service.core.performance.release_kernels import STEPWISE_RATIO
from service.core.performance.work import MatrixProduct, RankWork


def fused_layers(work: RankWork, engine: EngineOverhead) -> float:
    """Dense layers of fused kernels that have as many kernels as all layers.

    Engines without graphs have a time for each expert, and kernels for each operation. Where one
    call multiplies narrow experts, layers have fewer kernels.
    """
    saved = FUSED_CALL_LAYERS * work.routed_layers * _calls_once(work, engine)
    stepwise = work.model_type in engine.stepwise_state_models
    layers = work.layers + (STEPWISE_RATIO - 1.0) * work.state_layers * stepwise
    return layers + (work.added_layers - saved) * engine.replays_graphs


def _calls_once(work: RankWork, engine: EngineOverhead) -> bool:
    """Whether one call multiplies all experts of a layer."""
    return engine.fuses_experts and any(
        item.experts and item.weight_bits < 16.0 for item in work.products
    )


def replays(work: RankWork, parallelism: Parallelism, engine: EngineOverhead) -> bool:
    """Whether steps with one token are graphs, where an engine issues others kernel by kernel."""
    accelerators = parallelism.tensor * parallelism.pipeline * parallelism.context
    if accelerators > engine.replayed_accelerators:
        return False
    return not (work.held_experts and engine.loops_experts)


def looped_experts(work: RankWork, engine: EngineOverhead) -> float:
    """Experts that an engine may loop over: one a layer where all are one product."""
    batched = any(is_batched(item, engine) for item in work.products if item.experts)
    return work.routed_layers if batched else work.held_experts


def apart_reductions(work: RankWork, engine: EngineOverhead) -> float:
    """How often ranks of tensor parallelism add up results of experts beyond once for a layer.

    Experts that multiply all tokens one after the other each add up their own (DeepSpeed,
    auto_tp.py, 2026: ways down are ``LinearAllreduce``, among them ``w2`` of Mixtral's experts).
    """
    below = engine.unrouted_below_bits
    looped = any(item.experts and item.weight_bits < below for item in work.products)
    return (work.held_experts - work.routed_layers) * looped


def narrow_expert_layers(work: RankWork, accelerator: Accelerator, engine: EngineOverhead) -> float:
    """Layers of routed experts in formats that ask for activations as narrow as their weights.

    Kernels of formats whose weights are narrower than what they meet (MXFP4) narrow activations
    where they load them. Where no units multiply such operands, kernels that widen weights sort
    rows and apply scales all the same: they are charged alike, for nobody has measured them.
    Experts that are not routed narrow all activations again, each in its turn. Where one call
    multiplies all of them, fewer kernels narrow.
    """
    expert = narrowing_expert(work, engine)
    if expert is None:
        return 0.0
    if is_unrouted(expert, engine):
        return work.held_experts
    return work.routed_layers * narrowing_ratio(expert, accelerator, engine)


def narrowing_expert(work: RankWork, engine: EngineOverhead) -> MatrixProduct | None:
    """A product of experts that ask for activations as narrow as their weights, if they do."""
    expert = next((item for item in work.products if item.experts), None)
    if expert is None:
        return None
    bits = OPERAND_BITS[engine_precision(expert.matrix_precision, engine)]
    return None if bits >= 16 or bits > expert.weight_bits else expert


def prompt_launch_count(work: RankWork, engine: EngineOverhead) -> float:
    """Kernels that a step with prompts issues; zero where nobody counted them."""
    if not engine.prompt_layer_kernel_count:
        return 0.0
    widened = sum(item.calls for item in work.products if widened_whole(item, engine))
    return engine.prompt_layer_kernel_count * work.layers + widened
