"""What the forward pass of a training step leaves behind for the backward pass, on one rank.

Every kind of layer is reduced to :class:`LayerSavings`: bytes that stay, and bytes that one layer's
backward pass holds beside them, per token and, for attention scores, per pair of tokens. A GPT
layer with dropout and without gates gives the 34·h of Korthikanti et al.; gated feed-forward parts,
grouped heads, latents, experts and frozen weights follow from the same parts.

References
----------
Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models, 2022,
sections 4 and 5, https://arxiv.org/abs/2205.05198; Chen et al., Training Deep Nets with Sublinear
Memory Cost, 2016, https://arxiv.org/abs/1604.06174; Dao et al., FlashAttention, 2022,
https://arxiv.org/abs/2205.14135
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from service.core.architecture.capacity import at_capacity
from service.core.architecture.model import (
    Attention,
    DenseFeedForward,
    LatentAttention,
    LayerGroup,
    MixtureOfExperts,
    ModelArchitecture,
)
from service.core.architecture.sharding import kv_heads, rank_shape
from service.core.architecture.tensors import Shard, Tensor, TensorClass
from service.core.deployment import Parallelism
from service.core.elementwise import Number
from service.core.lightweight import lightweight
from service.core.memory.training.adapters import (
    is_adapted,
    kept_beside,
    kept_of_input,
)
from service.core.memory.training.norms import is_parallel, norms_bytes
from service.core.memory.training.scores import MASK_BYTES, score_bytes
from service.core.memory.training.settings import TrainingSettings

HALF_BYTES = 2.0  # an activation in 16 bit, also where products run in 8
_WIDE = 4.0  # bytes of an element kept in 32 bit by unfused norms and statistics


@dataclass(frozen=True, slots=True)
class LayerSavings:
    """What layers alike keep on a rank, per layer.

    ``stored`` bytes stay until the backward pass; ``working`` bytes are what the backward pass of
    one layer (or checkpointed block) holds beside them: recomputed results and gradients. Attention
    scores take bytes per pair of tokens of one sequence, everything else per token.
    """

    count: int
    stored_bytes_per_token: float
    stored_bytes_per_pair: float
    working_bytes_per_token: float
    working_bytes_per_pair: float

    def working_bytes(self, tokens: Number) -> Number:
        """What the backward pass of one layer holds of a sequence beside what is stored [B]."""
        return (self.working_bytes_per_token + self.working_bytes_per_pair * tokens) * tokens


@lightweight
class LayerMaking:
    """How a framework makes layers, as far as it decides what they keep.

    Products with 4-bit weights keep ``quantised_input_bytes`` per element of their input [B], and
    those with other frozen weights the input itself where the framework ``keeps_inputs``. With
    ``joint_projections`` queries, keys and values come from one matrix, whose adapter has one
    input, and of whose result values remain a part; with ``repeated_heads`` keys and values are
    there once for each head of queries that reads them. Of inputs of matrices that are trained
    ``input_bytes`` an element are kept, if not what the activation has. With ``wide_scores`` the
    softmax of attention that is not fused is computed in 32 bit. What experts put out is kept for
    gradients of their probabilities, unless it ``weighs_activations`` within them. Inputs that
    sequence parallelism gathers are kept whole by one that ``keeps_gathered`` them, and gathered
    again by others.
    """

    quantised_input_bytes: float = 0.0
    joint_projections: bool = False
    repeated_heads: bool = False
    input_bytes: float | None = None
    wide_scores: bool = False
    weighs_activations: bool = False
    keeps_inputs: bool = False
    keeps_gathered: bool = False

    def whole_ratio(self, undivided: float) -> float:
        """Share of an input of products that is kept where ranks hold ``undivided`` of it [-]."""
        return 1.0 if self.keeps_gathered else undivided


_PLAIN = LayerMaking()


@lru_cache(maxsize=1024)
def layer_savings(
    architecture: ModelArchitecture,
    parallelism: Parallelism,
    settings: TrainingSettings,
    making: LayerMaking = _PLAIN,
    element_bytes: float = HALF_BYTES,
) -> tuple[LayerSavings, ...]:
    """What each group of layers keeps on a rank.

    Parameters
    ----------
    architecture
        The model.
    parallelism
        Degrees of parallelism; sequence parallelism divides what tensor parallelism does not.
    settings
        Checkpointing, attention kernel, fusion, dropout and what is trained.
    making
        How the framework makes layers.
    element_bytes
        Size of an activation [B].
    """
    return tuple(
        _group_savings(group, architecture, parallelism, settings, making, element_bytes)
        for group in at_capacity(architecture, settings.taken_copies_ratio).groups
    )


def _group_savings(
    group: LayerGroup,
    architecture: ModelArchitecture,
    parallelism: Parallelism,
    settings: TrainingSettings,
    making: LayerMaking,
    width: float,
) -> LayerSavings:
    hidden = float(architecture.hidden_size)
    ranks = parallelism.tensor
    undivided = 1.0 / ranks if settings.sequence_parallel else 1.0
    mixer, products = _mixer_bytes(group, hidden, undivided, parallelism, settings, making, width)
    part, part_products = _feed_forward_bytes(
        group, hidden, undivided, parallelism, settings, making, width
    )
    norms = norms_bytes(group, hidden, settings, width) * undivided
    adapters = _adapter_bytes(group, parallelism, settings, making, width)
    shared = _shared_input_bytes(group, hidden, undivided, settings, making, width)
    everything = mixer + part + norms + adapters - shared
    if not settings.trains:
        # Nothing stays for a backward pass: one part of a layer at a time holds its results.
        everything = max(mixer, part) + norms
    if making.quantised_input_bytes:
        everything += making.quantised_input_bytes * _input_elements(group, hidden, parallelism)
    gathered = gathered_bytes_per_token(architecture, parallelism, settings, width)
    residual = width * hidden * undivided
    scores = 0.0
    if settings.attention == "eager" and isinstance(group.mixer, Attention | LatentAttention):
        each = score_bytes(
            settings, width, wide=making.wide_scores, capped=architecture.caps_scores
        )
        scores = each * group.mixer.query_heads / ranks
    if not settings.trains:
        return LayerSavings(group.count, 0.0, 0.0, everything + residual + gathered / 2.0, scores)
    match settings.activation_checkpointing:
        case "none":
            stored, again, kept_scores = everything, 0.0, scores
        case "selective":
            stored, again, kept_scores = everything, 0.0, 0.0
        case "selective-modules":
            again = _made_of_others(group, hidden, undivided, parallelism, settings, making, width)
            again -= shared
            stored, kept_scores = everything - again, scores
        case "selective-operators":
            # Every other matrix product is kept, and attention; the rest is recomputed.
            stored = (
                residual + (products + part_products) / 2.0 + _attended_bytes(group, ranks, width)
            )
            again, kept_scores = everything, 0.0
        case "full":
            part = settings.recomputed_layers_ratio
            stored = part * residual / settings.checkpoint_every + (1.0 - part) * everything
            kept_scores = (1.0 - part) * scores
            # Layers that are kept are through, and leave room, before those that are not come.
            again = everything * settings.checkpoint_every if part == 1.0 else 0.0
    return LayerSavings(
        count=group.count,
        stored_bytes_per_token=stored,
        stored_bytes_per_pair=kept_scores,
        # Gradients of the widest results and of the residual stream stand beside what they need.
        working_bytes_per_token=again + part_products + residual + gathered,
        working_bytes_per_pair=scores,
    )


def gathered_bytes_per_token(
    architecture: ModelArchitecture,
    parallelism: Parallelism,
    settings: TrainingSettings,
    element_bytes: float = HALF_BYTES,
) -> float:
    """Whole input and its whole gradient, gathered around a product by sequence parallelism [B].

    References
    ----------
    Korthikanti et al., 2022, section 4.2.2, https://arxiv.org/abs/2205.05198
    """
    if parallelism.tensor == 1 or not settings.sequence_parallel:
        return 0.0
    return 2.0 * element_bytes * architecture.hidden_size


def _input_elements(group: LayerGroup, hidden: float, parallelism: Parallelism) -> float:
    """Elements per token that enter matrix products: what a part reads and what it writes from."""
    heads = kv_heads(group)
    elements = 0.0
    for part in (group.mixer, group.feed_forward):
        if part is None:
            continue
        chosen = part.copies_per_token if isinstance(part, MixtureOfExperts) else 1
        elements += 0.0 if elements and is_parallel(group, hidden) else hidden
        for tensor in _writing(part.tensors):
            rows = rank_shape(tensor, parallelism, heads)[1]
            elements += rows * (chosen if tensor.shard is Shard.EXPERT_ROW else 1)
    return elements


def _adapter_bytes(
    group: LayerGroup,
    parallelism: Parallelism,
    settings: TrainingSettings,
    making: LayerMaking,
    width: float,
) -> float:
    """Bytes per token that adapters keep beside the inputs that matrices share.

    Parts of one matrix, which have one name, have one adapter, and one input of it.
    """
    if settings.method == "full":
        return 0.0
    kept = 0.0
    for part in (group.mixer, group.feed_forward):
        adapted = set()
        for tensor in () if part is None else part.tensors:
            _, rows, columns = rank_shape(tensor, parallelism, kv_heads(group))
            if is_adapted(tensor, settings):
                joint = settings.adapter_kernels == "joint" or (
                    making.joint_projections and isinstance(part, Attention)
                )
                reads = joint and tensor.shard not in _WRITING
                matrix = tensor.tensor_class.value if reads else tensor.name
                rows = 0.0 if matrix in adapted else rows
                adapted.add(matrix)
            uses = 1.0
            if isinstance(part, MixtureOfExperts) and tensor.tensor_class is TensorClass.EXPERT:
                uses = part.copies_per_token / parallelism.tensor
            kept += uses * kept_beside(tensor, settings, rows, columns, width)
    return kept


def _mixer_bytes(
    group: LayerGroup,
    hidden: float,
    undivided: float,
    parallelism: Parallelism,
    settings: TrainingSettings,
    making: LayerMaking,
    width: float,
) -> tuple[float, float]:
    """Bytes per token that a mixer keeps, and those of its matrix products' results."""
    mixer = group.mixer
    if mixer is None:
        return 0.0, 0.0
    ranks = parallelism.tensor
    heads = kv_heads(group)
    inner = sum(rank_shape(tensor, parallelism, heads)[2] for tensor in _reading(mixer.tensors))
    input_width = _input_width(settings, making, width)
    inputs = _input_bytes(mixer.tensors, hidden, settings, making, input_width)
    kept = inputs * making.whole_ratio(undivided)
    kept += width * inner
    if isinstance(mixer, Attention):
        kept += width * _repeated_elements(mixer, making) / ranks
    if isinstance(mixer, LatentAttention) and not group.beside:
        # Latents are kept before and after their norms, and keys are joined with rotary parts.
        kept += width * (mixer.kv_lora_rank + (mixer.q_lora_rank or 0))
        key = mixer.qk_nope_head_dim + mixer.qk_rope_head_dim
        kept += width * mixer.query_heads * key / ranks
    kept += _attended_bytes(group, ranks, width)
    if input_width != width:
        # Attention keeps what it puts out, and the product after it the narrowed input.
        kept += _attended_bytes(group, ranks, input_width)
    if "residual" in settings.dropout:
        kept += MASK_BYTES * hidden * undivided
    return kept, width * (inner + hidden * undivided)


def _made_of_others(
    group: LayerGroup,
    hidden: float,
    undivided: float,
    parallelism: Parallelism,
    settings: TrainingSettings,
    making: LayerMaking,
    width: float,
) -> float:
    """Bytes per token of what norms, activations and up-projections of latents make.

    References
    ----------
    DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 3.2.3,
    https://arxiv.org/abs/2412.19437; NVIDIA/Megatron-LM, megatron/core/transformer/
    transformer_config.py (recompute_modules: layernorm, moe_act, mla_up_proj), 2025
    """
    made, input_width = 0.0, _input_width(settings, making, width)
    for part in (group.mixer, group.feed_forward):
        if part is not None:
            inputs = _input_bytes(part.tensors, hidden, settings, making, input_width)
            made += inputs * making.whole_ratio(undivided)
    match group.feed_forward:
        case DenseFeedForward() as dense if _needs_product(dense.tensors, settings, making):
            made += input_width * dense.intermediate_size / parallelism.tensor
        case MixtureOfExperts() as routed if _needs_product(routed.tensors, settings, making):
            inner = routed.copies_per_token * routed.expert_intermediate_size
            made += input_width * (inner + routed.shared_intermediate_size) / parallelism.tensor
        case _:
            pass
    latent = group.mixer
    if isinstance(latent, LatentAttention) and not group.beside:
        raised = sum(
            rank_shape(tensor, parallelism, kv_heads(group))[2]
            for tensor in latent.tensors
            if raises_latents(tensor, latent)
        )
        key = latent.qk_nope_head_dim + latent.qk_rope_head_dim
        made += width * (raised + latent.query_heads * key / parallelism.tensor)
        made += width * (latent.kv_lora_rank + (latent.q_lora_rank or 0))
    return made


def raises_latents(tensor: Tensor, mixer: LatentAttention) -> bool:
    """Whether a matrix makes queries, keys or values of heads from latents."""
    latents = (mixer.kv_lora_rank, mixer.q_lora_rank)
    return tensor.is_matrix and tensor.shard not in _WRITING and tensor.input_features in latents


def _attended_bytes(group: LayerGroup, ranks: int, width: float) -> float:
    """Bytes per token of what attention puts out, with the statistics of its softmax."""
    match group.mixer:
        case Attention() as mixer:
            return (width * mixer.value_head_dim * mixer.query_heads) / ranks
        case LatentAttention() as latent if not group.beside:
            return (width * latent.v_head_dim * latent.query_heads) / ranks
        case _:
            return 0.0


def _feed_forward_bytes(
    group: LayerGroup,
    hidden: float,
    undivided: float,
    parallelism: Parallelism,
    settings: TrainingSettings,
    making: LayerMaking,
    width: float,
) -> tuple[float, float]:
    """Bytes per token that a feed-forward part keeps, and those of its products' results."""
    part = group.feed_forward
    if part is None:
        return 0.0, 0.0
    ranks = parallelism.tensor
    input_width = _input_width(settings, making, width)
    inputs = _input_bytes(part.tensors, hidden, settings, making, input_width)
    kept = inputs * making.whole_ratio(undivided)
    inner = width * _wide_elements(part.gated, settings)
    if _needs_product(part.tensors, settings, making):
        inner += input_width
    if isinstance(part, DenseFeedForward):
        kept += inner * part.intermediate_size / ranks
        products = (2.0 if part.gated else 1.0) * part.intermediate_size / ranks
    else:
        # Routed tokens are copied once for each of their experts, in and out; ranks share them.
        chosen = part.copies_per_token / ranks
        kept += chosen * (input_width + (0.0 if making.weighs_activations else width)) * hidden
        kept += inner * (chosen * part.expert_intermediate_size)
        kept += inner * part.shared_intermediate_size / ranks
        products = (2.0 if part.gated else 1.0) * (
            chosen * part.expert_intermediate_size + part.shared_intermediate_size / ranks
        )
    if "residual" in settings.dropout:
        kept += MASK_BYTES * hidden * undivided
    return kept, width * (products + hidden * undivided)


def _repeated_elements(mixer: Attention, making: LayerMaking) -> float:
    """Elements per token of queries, keys and values that are there a second time, or oftener."""
    shared = mixer.query_heads - mixer.kv_heads
    if shared and making.repeated_heads:
        return float(shared * (mixer.head_dim + mixer.value_head_dim))
    if making.joint_projections:
        # Turned queries and keys are new, and values keep the whole result that they are part of.
        return float((mixer.query_heads + mixer.kv_heads) * mixer.head_dim)
    return 0.0


def _shared_input_bytes(
    group: LayerGroup,
    hidden: float,
    undivided: float,
    settings: TrainingSettings,
    making: LayerMaking,
    width: float,
) -> float:
    """Bytes per token of an input that both parts of a layer keep, and that is there once."""
    if group.mixer is None or group.feed_forward is None or not is_parallel(group, hidden):
        return 0.0
    each = _input_width(settings, making, width)
    parts = (group.mixer.tensors, group.feed_forward.tensors)
    shared = min(_input_bytes(part, hidden, settings, making, each) for part in parts)
    return shared * making.whole_ratio(undivided)


def _input_bytes(
    tensors: tuple[Tensor, ...],
    hidden: float,
    settings: TrainingSettings,
    making: LayerMaking,
    width: float,
) -> float:
    """Bytes per token of the input that matrix products share, if a weight gradient needs it."""
    reading = _reading(tensors)
    if _holds_inputs(settings, making) or any(_is_shared(tensor, settings) for tensor in reading):
        return width * hidden
    return 0.0


def _holds_inputs(settings: TrainingSettings, making: LayerMaking) -> bool:
    """Whether inputs of products are there: for gradients of weights, or while they are read."""
    return settings.method in ("full", "forward") or making.keeps_inputs


def _is_shared(tensor: Tensor, settings: TrainingSettings) -> bool:
    """Whether an adapter needs the input as it is: dropout makes one of its own for each."""
    return kept_of_input(tensor, settings) and not settings.adapter_dropout


def _input_width(settings: TrainingSettings, making: LayerMaking, width: float) -> float:
    """Bytes that are kept of an element of the input of a matrix that is trained [B]."""
    if settings.method != "full" or making.input_bytes is None:
        return width
    return making.input_bytes


def _needs_product(
    tensors: tuple[Tensor, ...], settings: TrainingSettings, making: LayerMaking
) -> bool:
    """Whether what the activation makes is kept as the input of the matrix after it."""
    down = _writing(tensors)
    return _holds_inputs(settings, making) or any(_is_shared(tensor, settings) for tensor in down)


def _wide_elements(gated: bool, settings: TrainingSettings) -> float:
    """Results of intermediate width that are kept before and within the activation."""
    if not gated:
        return 1.0
    return 2.0 if settings.fused_kernels else 3.0


def _reading(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Matrices that read the layer's input, and latents made of it."""
    return tuple(tensor for tensor in tensors if tensor.is_matrix and tensor.shard not in _WRITING)


def _writing(tensors: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Matrices that write a part's output."""
    return tuple(tensor for tensor in tensors if tensor.is_matrix and tensor.shard in _WRITING)


_WRITING = frozenset({Shard.ROW, Shard.EXPERT_ROW})
