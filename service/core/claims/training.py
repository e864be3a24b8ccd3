"""Claims about the memory and time of training."""

from __future__ import annotations

from service.core.architecture.model import ModelArchitecture
from service.core.claims.claim import Claim, Facts, cache_bytes
from service.core.deployment import Parallelism, Precision
from service.core.memory.training.settings import TrainingSettings
from service.core.memory.training.state import StageState, stage_state
from service.core.number_formats import NUMBER_FORMATS

_GB = 1e9
#: Parameters that the documents mean by 7B.
_PARAMETERS = 7e9


def _state(facts: Facts, settings: TrainingSettings, replicas: int = 1) -> StageState:
    half = NUMBER_FORMATS["bf16"]
    precision = Precision(half, half, half)
    model: ModelArchitecture = facts.models["7B"]
    return stage_state(model, precision, Parallelism(data=replicas), settings, 0)


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
    narrow = _state(facts, TrainingSettings(optimizer="adamw-8bit"))
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


TRAINING_CLAIMS: tuple[Claim, ...] = (
    Claim(
        "activations-13b",
        ("002",),
        "Activations of a 13B model at 4096 tokens",
        "1.6 GB a layer, 64 GB in all",
        "GB",
        "wrong",
        "The product already holds all 40 layers: one 16-bit tensor for each takes 1.68 GB "
        "together, which is what full checkpointing stores. Without it, 28.5 GB with "
        "FlashAttention and 162.7 GB with stored scores.",
        _checkpoints_of_13b_gb,
    ),
    Claim(
        "activation-constant",
        ("001",),
        "Activations as a constant of 10 to 20 times layers, batch, length and hidden size",
        "about 32 GB for a 7B model",
        "-",
        "conditional",
        "At 4096 tokens and 2 bytes a constant of about 30 is needed. Length, batch and kind of "
        "attention decide; 2048 tokens with stored scores come to 30.6 GB.",
        _constant_for_32_gb,
    ),
    Claim(
        "states-of-7b",
        ("001",),
        "Weights, gradients and Adam states of a 7B model",
        "84 GB",
        "GB",
        "conditional",
        "84 GB leave out the 32-bit copy of the weights that mixed precision keeps.",
        _states_gb,
    ),
    Claim(
        "mixed-precision-halves",
        ("001",),
        "What mixed precision saves of weights, gradients and activations",
        "50 %",
        "-",
        "conditional",
        "Only activations and messages halve: states take 16 bytes a parameter with a master copy "
        "and in 32 bit alike. The figure is the ratio of the two.",
        _mixed_over_full,
    ),
    Claim(
        "eight-bit-optimizer",
        ("001",),
        "What 8-bit optimizers save",
        "75 %",
        "share",
        "conditional",
        "75 % of the two moments; with a master copy, half of the optimizer's part.",
        _eight_bit_saving,
    ),
    Claim(
        "training-over-inference",
        ("001",),
        "Memory of training over that of inference",
        "3 to 5 times",
        "-",
        "internal",
        "The document's own rows give 89/36 = 2.5 to 116/20 = 5.8 times.",
        _training_over_inference,
    ),
    Claim(
        "kv-cache-of-a-session",
        ("001",),
        "KV cache of a 7B model in use",
        "5 to 20 GB",
        "sequences",
        "internal",
        "20 GB hold this many sequences of 4096 tokens.",
        _sequences_in_20_gb,
    ),
    Claim(
        "zero-1-saving",
        ("001",),
        "What ZeRO stage 1 saves",
        "4 times",
        "-",
        "conditional",
        "The limit of many ranks with 16 bytes a parameter. The figure is for 8 ranks.",
        _zero_1_ratio,
    ),
    Claim(
        "zero-2-saving",
        ("001",),
        "What ZeRO stage 2 saves",
        "8 times",
        "-",
        "conditional",
        "The limit of many ranks with 16 bytes a parameter. The figure is for 8 ranks.",
        _zero_2_ratio,
    ),
    Claim(
        "zero-3-saving",
        ("001",),
        "What ZeRO stage 3 saves",
        "5 to 7 times, up to N, and 8 times",
        "-",
        "internal",
        "5.7 to 6.9 times where 2 to 5 GB of activations are not divided; N times the states "
        "alone. Both are right with a different scope.",
        _zero_3_with_activations,
    ),
    Claim(
        "zero-3-on-small-accelerators",
        ("001",),
        "States of a 7B model under ZeRO stage 3 on 8 accelerators",
        "10.5 GB, so that accelerators below 16 GB will do",
        "GB",
        "conditional",
        "The states are right; with 2 to 5 GB of activations and gathered layers 16 GB are "
        "marginal.",
        _zero_3_gb,
    ),
    Claim(
        "offloaded-optimizer-step",
        ("001",),
        "How much slower an optimizer step on the host is",
        "50 to 100 times",
        "-",
        "wrong",
        "About 35 times for a 7B model with an A100 80GB and PCIe 4.0, transfers included, and "
        "1.2 to 3.2 times the whole step, depending on accumulation.",
        _offloaded_step_ratio,
    ),
    Claim(
        "data-parallel-gradients",
        ("001",),
        "What data parallelism divides",
        "activations and gradients",
        "GB",
        "wrong",
        "Only activations fall with the local batch: every rank holds the whole gradient before "
        "it is reduced. The figure is that of a 7B model.",
        _gradient_buffer_gb,
    ),
    Claim(
        "adam-over-model-size",
        ("000",),
        "Adam states beside the model",
        "typically twice the model size",
        "-",
        "internal",
        "Four times 16-bit weights (two 32-bit moments), six with a master copy; twice only where "
        "everything is 32 bit.",
        _adam_over_weights,
    ),
    Claim(
        "accumulation",
        ("003",),
        "Gradient accumulation",
        "nothing changes mathematically",
        None,
        "conditional",
        "If the loss is normalised over the whole accumulated batch and no layer depends on it.",
    ),
    Claim(
        "760m-in-full-precision",
        ("002",),
        "A model of 760 million parameters trained on an RTX 4070",
        "constrained",
        "GB",
        "right",
        "States alone take this much, more than the card's 12 GB.",
        _small_model_gb,
    ),
)
