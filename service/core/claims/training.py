"""Claims about the memory and time of training."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from service.core.architecture.model import ModelArchitecture
from service.core.claims.facts import Facts, Recompute, cache_bytes
from service.core.deployment import Parallelism, Precision
from service.core.memory.training.settings import TrainingSettings
from service.core.memory.training.state import StageState, stage_state
from service.core.number_formats import NUMBER_FORMATS

_GB = 1e9
#: Parameters that the documents mean by 7B.
_PARAMETERS = 7e9


def _state(
    facts: Facts, settings: TrainingSettings, replicas: int = 1, *, wide_tables: bool = False
) -> StageState:
    half = NUMBER_FORMATS["bf16"]
    precision = Precision(half, half, half)
    model: ModelArchitecture = facts.models["7B"]
    return stage_state(model, precision, Parallelism(data=replicas), settings, 0, wide_tables)


def _per_parameter(facts: Facts, settings: TrainingSettings, replicas: int = 1) -> float:
    """Weights, gradients and optimizer on a rank, over the model's parameters [B]."""
    state = _state(facts, settings, replicas)
    total = state.weights_bytes + state.gradients_bytes + state.optimizer_bytes
    return total / facts.models["7B"].total_parameters


_MIXED = TrainingSettings()
_PURE = TrainingSettings(master_weights=False)


def _states_gb(facts: Facts) -> float:
    return _per_parameter(facts, _MIXED) * _PARAMETERS / _GB


def _zero_3_gb(facts: Facts) -> float:
    settings = TrainingSettings(master_weights=False, zero_stage=3)
    return _per_parameter(facts, settings, 8) * _PARAMETERS / _GB


def _zero_1_ratio(facts: Facts) -> float:
    return _per_parameter(facts, _MIXED) / _per_parameter(facts, TrainingSettings(zero_stage=1), 8)


def _zero_2_ratio(facts: Facts) -> float:
    return _per_parameter(facts, _MIXED) / _per_parameter(facts, TrainingSettings(zero_stage=2), 8)


def _zero_3_with_activations(facts: Facts) -> float:
    pure = _per_parameter(facts, _PURE) * _PARAMETERS / _GB
    return (pure + 5.0) / (_zero_3_gb(facts) + 5.0)


def _training_over_inference(facts: Facts) -> float:
    """States with checkpointed activations over weights, caches and activations as stated."""
    return (_per_parameter(facts, _PURE) * _PARAMETERS / _GB + 5.0) / 36.0


def _adam_over_weights(facts: Facts) -> float:
    state = _state(facts, _PURE)
    return state.optimizer_bytes / state.weights_bytes


def _mixed_over_full(facts: Facts) -> float:
    single = NUMBER_FORMATS["fp32"]
    settings = TrainingSettings(master_weights=False, gradient_bytes=4.0)
    precision = Precision(single, single, single)
    state = stage_state(facts.models["7B"], precision, Parallelism(), settings, 0)
    full = state.weights_bytes + state.gradients_bytes + state.optimizer_bytes
    return _per_parameter(facts, _MIXED) * facts.models["7B"].total_parameters / full


def _eight_bit_saving(facts: Facts) -> float:
    """Embeddings keep 32 bits, as the most used trainer has it."""
    narrow = _state(facts, TrainingSettings(optimizer="adamw-8bit"), wide_tables=True)
    return 1.0 - narrow.optimizer_bytes / _state(facts, _MIXED).optimizer_bytes


def _gradient_buffer_gb(facts: Facts) -> float:
    state = _state(facts, _MIXED, replicas=8)
    return state.gradients_bytes / facts.models["7B"].total_parameters * _PARAMETERS / _GB


def _checkpoints_of_13b_gb(facts: Facts) -> float:
    """One 16-bit tensor of 4096 × 5120 for each of 40 layers."""
    model = facts.models["13B"]
    return 4096.0 * model.hidden_size * model.layer_count * 2.0 / _GB


def _constant_for_32_gb(facts: Facts) -> float:
    model = facts.models["7B"]
    return 32.0 * _GB / (model.layer_count * 4096.0 * model.hidden_size * 2.0)


#: What an Adam step on the processor and on the accelerator moves per parameter [B], the host's
#: memory and the link: the claim's own case, a 7B model, an A100 80GB and PCIe 4.0.
_ADAM_BYTES, _HOST_BYTES_PER_S, _LINK_BYTES_PER_S = 28.0, 80e9, 32e9


def _offloaded_step_ratio(facts: Facts) -> float:
    bandwidth = facts.accelerators["nvidia-a100-sxm-80gb"].memory_bandwidth_bytes_per_s
    on_accelerator = _PARAMETERS * _ADAM_BYTES / bandwidth
    on_host = _PARAMETERS * _ADAM_BYTES / _HOST_BYTES_PER_S
    # Gradients go out and weights come back, 16 bit each.
    transfers = _PARAMETERS * 4.0 / _LINK_BYTES_PER_S
    return float((on_host + transfers) / on_accelerator)


def _small_model_gb(facts: Facts) -> float:
    return 760e6 * _per_parameter(facts, _MIXED) / _GB


def _sequences_in_20_gb(facts: Facts) -> float:
    return 20.0 * _GB / cache_bytes(facts.models["7B"], 4096)


TRAINING_CLAIMS: Mapping[str, Recompute] = MappingProxyType(
    {
        "activations-13b": _checkpoints_of_13b_gb,
        "activation-constant": _constant_for_32_gb,
        "states-of-7b": _states_gb,
        "mixed-precision-halves": _mixed_over_full,
        "eight-bit-optimizer": _eight_bit_saving,
        "training-over-inference": _training_over_inference,
        "kv-cache-of-a-session": _sequences_in_20_gb,
        "zero-1-saving": _zero_1_ratio,
        "zero-2-saving": _zero_2_ratio,
        "zero-3-saving": _zero_3_with_activations,
        "zero-3-on-small-accelerators": _zero_3_gb,
        "offloaded-optimizer-step": _offloaded_step_ratio,
        "data-parallel-gradients": _gradient_buffer_gb,
        "adam-over-model-size": _adam_over_weights,
        "760m-in-full-precision": _small_model_gb,
    }
)
