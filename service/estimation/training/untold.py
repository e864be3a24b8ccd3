"""What a framework does about settings of training that a request says nothing of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from service.core.architecture.model import ModelArchitecture
from service.core.architecture.prediction import can_predict
from service.core.deployment import Accelerator, Parallelism, Precision
from service.core.engines import Engine
from service.core.memory.training.settings import (
    ALL_LINEAR,
    LeftOpen,
    TrainingSettings,
    can_hide_far_experts,
    method_beside,
)
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.kernels import multiplied_precision
from service.core.performance.training.pipeline import usual_virtual_stages
from service.core.recipes import UNTOLD, Recipes
from service.estimation.training.checks import matrix_names
from service.estimation.training.requests import TrainingSettingsRequest

#: What most frameworks do where they are told nothing, beside the format of optimizer states.
_USUAL = TrainingSettings()
USUAL_STATES = "fp32"
_USUAL_FORMATS: Mapping[str, str | None] = {
    "optimizer_state_dtype": USUAL_STATES,
    "adapter_dtype": None,
    "gradient_sum_dtype": "none",
}
#: Optimizers made to train weights of 16 bit as they are, without a copy in 32.
#: Source: Zhao et al., GaLore, 2024, section 5; Zhu et al., APOLLO, 2024, section 5.
_OF_LOW_RANK = ("galore", "apollo")
#: What recipes say of optimizers that make their states like what they train.
_AS_TRAINED = "as-trained"
_HALF = ("bf16", "fp16")
_HALF_BITS = 16.0
#: The optimizer of bitsandbytes whose states have 32 bit whatever it trains.
#: Source: bitsandbytes bitsandbytes/optim/optimizer.py (Optimizer2State.init_state), 2025.
_ALWAYS_WIDE = "paged-adamw"
#: Size of an element of optimizer states and gradients by their formats [B].
STATE_BYTES = {"fp32": 4.0, "bf16": 2.0, "fp16": 2.0}
#: Size of an element on its way by formats, with scales of blocks of ZeRO++ [B].
#: Source: deepspeedai/DeepSpeed deepspeed/runtime/zero/partition_parameters.py (CUDAQuantizer: a
#: scale in 32 bit for a group, of 2,048 elements) and runtime/comm/coalesced_collectives.py, 2025.
SENT_BYTES = {"fp8": 1.0, "int8": 1.0 + 4.0 / 2048.0, "int4": 0.5 + 4.0 / 2048.0}
#: Formats by the names that their sizes have in the core.
_CORE_NAMES = {
    "optimizer_state_dtype": "optimizer_state_bytes",
    "adapter_dtype": "adapter_bytes",
    "gradient_dtype": "gradient_bytes",
    "gradient_sum_dtype": "gradient_sum_bytes",
}
#: Fields of a request that tell what the core calls otherwise.
_TOLD_BY = {"framework_generation": "framework_version"}
#: Share of messages to experts that hides behind computation.
EXPERTS_HIDE = "expert_overlap_ratio"
#: What is divided beside a pipeline at most unless told otherwise: weights would be collected for
#: every micro-batch anew.
_MOST_DIVIDED_IN_PIPELINE = 2


def filled_in(
    asked: TrainingSettingsRequest,
    framework: Engine | None,
    generation: str | None,
    architecture: ModelArchitecture | None,
    weights: str | None,
    activations: str | None = None,
    *,
    zero_stage: int = 0,
) -> TrainingSettingsRequest:
    """What was asked, with what the framework does where it is told nothing.

    ``weights`` and ``activations`` are their number formats; None of weights that are not known.
    ``zero_stage`` is the one that the run has, told or not.
    """
    recipes = Recipes() if framework is None else framework.recipes
    until = None if framework is None else framework.superseded(generation)
    routes = architecture is not None and architecture.routes
    base = NUMBER_FORMATS.get(weights or "")
    method = asked.method if base is None else method_beside(asked.method, base)
    usual = recipes.untold(method, zero_stage, until, routes=routes)
    told = {
        name: _unless_told(name, usual, architecture)
        for name in UNTOLD
        if getattr(asked, name) is None
    }
    if "master_weights" in told and asked.optimizer.startswith(_OF_LOW_RANK):
        told["master_weights"] = False
    if "gradient_sum_dtype" in told and (weights != "bf16" or asked.optimizer_in_backward):
        told["gradient_sum_dtype"] = "none"
    adapter_dtype = cast("str | None", told.get("adapter_dtype", asked.adapter_dtype))
    copies = told.get("master_weights", asked.master_weights)
    if told.get("optimizer_state_dtype") == _AS_TRAINED:
        adapters = adapter_dtype or activations or "bf16"
        trained_format = weights if asked.method == "full" else adapters
        if asked.trained_tensors and asked.method == "lora":
            # What is trained whole is more than its adapters, and as the base is.
            trained_format = weights
        narrow = trained_format in _HALF and not copies and asked.optimizer != _ALWAYS_WIDE
        told["optimizer_state_dtype"] = str(trained_format) if narrow else USUAL_STATES
    whole = asked.activation_checkpointing or told["activation_checkpointing"]
    kept = usual.get("recomputed_inputs", "none") if whole == "full" else "none"
    capped = architecture is not None and architecture.caps_scores
    fuses = framework is None or framework.fuses_attention(generation, capped=capped)
    offload = {"activations": asked.offload.activations or kept}
    trained = 0
    if recipes.predicts and asked.method == "full" and architecture and can_predict(architecture):
        trained = architecture.prediction_layers
    return asked.model_copy(
        update=told
        | {
            "attention": asked.attention or ("flash" if fuses else "eager"),
            "offload": asked.offload.model_copy(update=offload),
            "gradient_dtype": asked.gradient_dtype
            or _gradient_dtype(asked, recipes, weights, adapter_dtype),
            "expert_padding": _padding(asked, recipes),
            "prediction_layers": (
                trained if asked.prediction_layers is None else asked.prediction_layers
            ),
        }
    )


def _padding(asked: TrainingSettingsRequest, recipes: Recipes) -> bool | None:
    """Whether experts are filled up to their capacity, of those that have one."""
    if asked.expert_capacity_factor is None or asked.expert_padding is not None:
        return asked.expert_padding
    return recipes.expert_capacity == "padded"


def _gradient_dtype(
    asked: TrainingSettingsRequest, recipes: Recipes, weights: str | None, adapters: str | None
) -> str:
    """Format of gradients: that of what they are gradients of, or as the framework keeps them.

    A framework that holds weights in 32 bit by itself says how it keeps their gradients.
    """
    if asked.method != "full":
        return (None if asked.trained_tensors else adapters) or recipes.gradient_dtype
    is_own = "weights" in recipes.unless_told
    return "fp32" if weights == "fp32" and not is_own else recipes.gradient_dtype


def _unless_told(
    name: str, usual: Mapping[str, Any], architecture: ModelArchitecture | None
) -> bool | str | tuple[str, ...] | None:
    """What a framework does about a setting that it is told nothing of.

    Frameworks name the matrices that they adapt by models: of their names those count that the
    model has, and every matrix if it has none of them.
    """
    if name in _USUAL_FORMATS:
        found: str | None = usual.get(name, _USUAL_FORMATS[name])
        return found
    if name == "dropout":
        stated = architecture is not None and bool(architecture.dropout)
        return bool(usual.get(name, stated))
    return _of_model(usual.get(name, getattr(_USUAL, name)), architecture)


def _of_model(
    value: bool | str | tuple[str, ...], architecture: ModelArchitecture | None
) -> bool | str | tuple[str, ...]:
    """A value of a setting; of names of matrices those that the model has, or all of them."""
    if isinstance(value, tuple) and architecture is not None:
        names = matrix_names(architecture)
        return tuple(one for one in value if one in names) or (ALL_LINEAR,)
    return value


def products_left_open(
    framework: Engine | None, precision: Precision, accelerator: Accelerator
) -> tuple[LeftOpen, ...]:
    """The choice to run products in 8 bit, of a request that names no format for them.

    People who compute in 8 bit often name the format of weights alone, which stays that of 16 bit.
    """
    if framework is None or precision.weights.bits_per_element < _HALF_BITS:
        return ()
    for name in framework.recipes.also_products:
        computed = NUMBER_FORMATS[name]
        if multiplied_precision(accelerator, computed.matrix_precision) == name:
            return (LeftOpen(("activations",), ((),), computed=computed),)
    return ()


def left_open(
    asked: TrainingSettingsRequest,
    framework: Engine | None,
    generation: str | None,
    architecture: ModelArchitecture | None,
) -> tuple[LeftOpen, ...]:
    """Choices that a request says nothing of, with what else people make of them."""
    if framework is None:
        return ()
    others: dict[tuple[Any, ...], list[tuple[tuple[str, Any], ...]]] = {}
    until = framework.superseded(generation)
    for one in framework.recipes.also_usual:
        told = any(getattr(asked, _TOLD_BY.get(name, name)) is not None for name in one.settings)
        generates = architecture is not None and architecture.generates
        dense = architecture is not None and not architecture.routes
        excluded = (one.encoders and generates) or (one.routed and dense)
        if told or not one.goes_with(until) or excluded:
            continue
        values = ((name, _of_model(value, architecture)) for name, value in one.settings.items())
        found = others.setdefault((tuple(one.settings), one.methods, one.zero_stages), [])
        found.append(tuple(_in_core(*each) for each in values))
    return tuple(
        LeftOpen(names, tuple(found), methods, zero_stages)
        for (names, methods, zero_stages), found in others.items()
    )


def _in_core(name: str, value: Any) -> tuple[str, Any]:
    """A setting by the core's name and value."""
    field = _CORE_NAMES.get(name)
    return (name, value) if field is None else (field, STATE_BYTES.get(value, 0.0))


def zero_stage_of(
    asked: TrainingSettingsRequest, recipes: Recipes, ranks: int, pipeline: int
) -> int:
    """What ``ranks`` divide of a run beside a pipeline of so many stages, told or not."""
    if asked.zero_stage is not None:
        return asked.zero_stage
    most = _MOST_DIVIDED_IN_PIPELINE if pipeline > 1 else 3
    usual = int(recipes.unless_told.get("zero_stage", _USUAL.zero_stage))
    return min(usual, most) if ranks > 1 else 0


def laid_out(
    asked: TrainingSettingsRequest,
    recipes: Recipes,
    superseded: str | None,
    architecture: ModelArchitecture,
    accelerator: Accelerator,
    parallelism: Parallelism,
) -> TrainingSettingsRequest:
    """What was asked, with what depends on the layout where nobody says.

    States are divided where there are ranks to divide them among and the framework does so by
    itself, and a pipeline is interleaved where those who use the framework interleave it, its
    stages have layers alike and micro-batches come in whole rounds. Messages to experts hide where
    people have the framework's release, ``superseded`` on a day or the newest, hide them.
    """
    ranks = parallelism.data * parallelism.context
    zero_stage = zero_stage_of(asked, recipes, ranks, parallelism.pipeline)
    told: dict[str, Any] = {"zero_stage": zero_stage}
    usual = recipes.untold(asked.method, zero_stage, superseded, routes=architecture.routes)
    if asked.expert_overlap_ratio is None and can_hide_experts(asked, accelerator, parallelism):
        told[EXPERTS_HIDE] = usual.get(EXPERTS_HIDE)
    stages, virtual = parallelism.pipeline, asked.virtual_stages
    usual_virtual = usual_virtual_stages(architecture.layer_count, stages) if stages > 1 else 1
    schedule = asked.pipeline_schedule
    if schedule is None:
        rounds = (asked.gradient_accumulation_steps or 1) % stages == 0
        usual_schedule = usual.get("pipeline_schedule", _USUAL.pipeline_schedule)
        fills = rounds and (usual_virtual if virtual is None else virtual) > 1
        interleaves = usual_schedule == "interleaved" and fills and stages > 1
        schedule = "interleaved" if interleaves or (virtual or 1) > 1 else _USUAL.pipeline_schedule
    told["pipeline_schedule"] = schedule
    if virtual is None:
        told["virtual_stages"] = usual_virtual if schedule == "interleaved" else 1
    return asked.model_copy(update=told)


def can_hide_experts(
    settings: TrainingSettingsRequest | TrainingSettings,
    accelerator: Accelerator,
    parallelism: Parallelism,
) -> bool:
    """Whether messages to experts go beyond fast links and may hide behind other micro-batches."""
    far = parallelism.expert > accelerator.scale_up_domain_accelerators
    kept, schedule = settings.activation_checkpointing, settings.pipeline_schedule
    return far and can_hide_far_experts(kept, schedule, parallelism.pipeline)
