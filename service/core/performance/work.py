"""The work of one forward step on one rank: matrix products, attention, states, messages.

A :class:`RankWork` is made once per architecture, precision and parallelism, and then evaluated
for any number of tokens, sequences and context lengths.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from service.core.architecture.model import (
    FeedForward,
    LatentAttention,
    LayerGroup,
    MixtureOfExperts,
    ModelArchitecture,
    StateMixer,
)
from service.core.architecture.sharding import kv_heads, rank_shape
from service.core.architecture.tensors import Shard, Tensor, TensorClass
from service.core.deployment import Parallelism, Precision
from service.core.elementwise import Number
from service.core.number_formats import NumberFormat
from service.core.performance.attended import AttentionWork, attention_work, indexing_work
from service.core.performance.kernels import OPERAND_BITS
from service.core.performance.layer_kernels import added_layers
from service.core.performance.release_kernels import launches_ratio

#: Hidden states that a layer moves between products for each token: norms and sums in one kernel
#: read and write about six.
_FUSED_STATES = 6.0
#: The same where every operation is a kernel: two norms, normalised and scaled (8), rotations of
#: queries and keys (4), two sums (6), attention's result put in order (2); and elements between the
#: products of the feed-forward block, for its activation (2) and gate (3).
_UNFUSED_STATES, _UNFUSED_WIDTHS = 20.0, 5.0
#: What each expert of a token adds: its copy of the hidden state is written beside those that go to
#: the same expert, and what comes of it is read again to be summed (Gale et al., MegaBlocks, 2022,
#: section 5: padded gather and scatter).
_ROUTED_STATES = 2.0
#: Ranks of a machine, all of which gather all tokens for their experts and scatter the sums: what
#: vLLM does unless told otherwise (``allgather_reducescatter``, Expert parallel deployment, 2025),
#: SGLang (``--moe-a2a-backend none``, 2025) and TensorRT-LLM between GPUs of one host (fused_moe,
#: 2025). Over machines tokens are sent to their experts alone (DeepEP), and popular experts have
#: copies.
MACHINE_RANKS = 8


@dataclass(frozen=True, slots=True, eq=False)
class MatrixProduct:
    """Matrix products of one kind over the whole depth of the model, on one rank.

    ``calls`` per step; each multiplies tokens by an ``input_features`` × ``output_features``
    matrix of ``weight_bytes``. For routed experts ``copies`` matrices are held, of which a token
    uses ``copies_per_token`` on this rank on average, out of ``experts`` in the whole layer with
    ``experts_per_token``. ``per_sequence`` products run once a sequence (the output head).
    ``weight_bits`` are those of a stored element; ``expert_elements`` is the size of one routed
    expert's matrix on this rank, zero of other products. Matrices of a ``widened_whole`` format may
    be written in 16 bit before they multiply, those of one ``widened_for_many`` before they
    multiply many rows, those of ``super_blocks`` take many operations to unpack, and those with
    ``row_operations`` are multiplied row by row on lanes. Experts are those of a ``model_type``.
    Each is equal to itself alone.
    """

    calls: float
    input_features: float
    output_features: float
    weight_bytes: float
    matrix_precision: str
    operand_bits: int
    copies: float = 1.0
    copies_per_token: float = 1.0
    experts: int = 0
    experts_per_token: int = 0
    per_sequence: bool = False
    weight_bits: float = 16.0
    expert_elements: float = 0.0
    widened_whole: bool = False
    widened_for_many: bool = False
    super_blocks: bool = False
    tensor_class: TensorClass = TensorClass.OTHER
    model_type: str = ""
    row_operations: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class RankWork:
    """All work of a forward step on the ranks of one tensor-parallel group, over full depth.

    Compared by identity, as models are.

    ``encoder`` is the work on what an encoder reads, once for each request, ``images`` that on the
    patches of its images, ``audio`` that on the positions of its audio. ``held_experts`` are the
    routed experts of all layers on the rank, ``launches_ratio`` the kernels of a layer beside those
    of one with 16-bit weights; ``state_layers`` carry on states, as models of a ``model_type`` do;
    dense layers and ``added_layers`` of them have as many kernels as layers have.
    Between products a token moves ``elementwise_bytes_per_token`` where kernels are fused, and
    ``unfused_bytes_per_token`` where every operation is one. A token that is told is chosen from
    ``chosen_from`` entries of the vocabulary, on every rank.
    """

    layers: int
    hidden_size: int
    activation_bytes: float
    products: tuple[MatrixProduct, ...]
    attention: tuple[AttentionWork, ...]
    state_bytes_per_sequence: float
    state_flops_per_token: float
    elementwise_bytes_per_token: float
    unfused_bytes_per_token: float
    reductions: float
    exchanges_bytes_per_token: float
    exchanges: float
    routed_layers: float
    held_experts: float = 0.0
    launches_ratio: float = 1.0
    chosen_from: int = 0
    state_layers: int = 0
    added_layers: float = 0.0
    model_type: str = ""
    encoder: RankWork | None = None
    images: RankWork | None = None
    audio: RankWork | None = None

    def moved_between(self, fused: bool) -> float:
        """What a token moves between products, by whether kernels are fused [B]."""
        return self.elementwise_bytes_per_token if fused else self.unfused_bytes_per_token

    def attending_to(self, encoded_tokens: Number) -> RankWork:
        """The work where an encoder makes so many features for each request."""
        if self.encoder is None:
            return self
        attention = tuple(
            replace(one, encoded_tokens=encoded_tokens) if one.encoded else one
            for one in self.attention
        )
        return replace(self, attention=attention)

    def attending_sparsely(self, density_ratio: float) -> RankWork:
        """The work where layers that see everything attend to a share of it only.

        Windows, selections of a model's own and encoders' features stay as they are.
        """
        if density_ratio == 1.0:
            return self
        attention = tuple(
            one
            if one.encoded or one.window_tokens is not None
            else replace(one, density_ratio=density_ratio)
            for one in self.attention
        )
        return replace(self, attention=attention)


@lru_cache(maxsize=2048)
def rank_work(
    architecture: ModelArchitecture, precision: Precision, parallelism: Parallelism
) -> RankWork:
    """Collect the work of a forward step on one rank, over all pipeline stages together.

    References
    ----------
    Operator shapes follow the transformer definition, Vaswani et al., 2017,
    https://arxiv.org/abs/1706.03762; MLA: DeepSeek-V2, 2024, https://arxiv.org/abs/2405.04434.
    """
    products: list[MatrixProduct] = []
    attention: list[AttentionWork] = []
    activation_bytes = precision.activations.bytes_per_element
    elementwise = 0.0
    unfused = 0.0
    reductions = 0.0
    routed_layers = 0.0
    held_experts = 0.0
    state_bytes = 0.0
    state_flops = 0.0
    state_layers = 0
    added = 0.0
    for group in architecture.groups:
        heads = kv_heads(group)
        moe = group.feed_forward if isinstance(group.feed_forward, MixtureOfExperts) else None
        products += [
            _product(
                *(tensor, group.count, precision.weights, parallelism, heads, moe),
                architecture.model_type,
            )
            for tensor in group.tensors
            if tensor.is_matrix and tensor not in group.features_read
        ]
        elementwise += group.count * _FUSED_STATES * architecture.hidden_size * activation_bytes
        width = _passed_width(group.feed_forward) / parallelism.tensor
        elements = _UNFUSED_STATES * architecture.hidden_size + _UNFUSED_WIDTHS * width
        unfused += group.count * elements * activation_bytes
        reductions += group.count * (_is_reduced(group) + (group.feed_forward is not None))
        added += added_layers(group)
        if moe is not None:
            copied = _ROUTED_STATES * _copies_on_rank(moe, parallelism) * architecture.hidden_size
            elementwise += group.count * copied * activation_bytes
            unfused += group.count * copied * activation_bytes
            routed_layers += group.count
            held_experts += group.count * moe.experts / max(parallelism.expert, 1)
        if group.cross is not None:
            reductions += group.count
            features = attention_work(group.cross, group.count, precision.kv_cache, parallelism)
            attention.append(replace(features, encoded=True))
        mixer = group.mixer
        if isinstance(mixer, StateMixer):
            share = max(1.0, min(parallelism.tensor, mixer.heads))
            state_layers += group.count
            state_bytes += (
                group.count
                * 2.0  # read and written back every step
                * (mixer.recurrent_state_elements * 4.0 + mixer.convolution_state_elements * 2.0)
                / share
            )
            state_flops += group.count * mixer.recurrent_flops_per_token / share
        elif mixer is not None:
            layers = attention_work(mixer, group.count, precision.kv_cache, parallelism)
            attention.append(layers if architecture.causal else replace(layers, causal=False))
            if isinstance(mixer, LatentAttention) and mixer.indexer_head_dim is not None:
                attention.append(indexing_work(mixer, group.count))
    head = _head_shape(architecture) if architecture.generates else None
    if head is not None:
        products.append(_head_product(head, precision.weights, parallelism, architecture))
    exchanges = 0.0
    exchange_bytes = 0.0
    if parallelism.expert > parallelism.tensor:
        exchanges = 2.0 * routed_layers
        per_token: float = max(
            (
                group.feed_forward.copies_per_token
                for group in architecture.groups
                if isinstance(group.feed_forward, MixtureOfExperts)
            ),
            default=0,
        )
        replicas = parallelism.expert / parallelism.tensor
        if parallelism.expert <= MACHINE_RANKS:
            per_token = max(per_token, replicas)
        exchange_bytes = float(per_token * architecture.hidden_size * activation_bytes)
    return RankWork(
        layers=architecture.layer_count,
        hidden_size=architecture.hidden_size,
        activation_bytes=activation_bytes,
        products=tuple(products),
        attention=tuple(attention),
        state_bytes_per_sequence=state_bytes,
        state_flops_per_token=state_flops,
        elementwise_bytes_per_token=elementwise,
        unfused_bytes_per_token=unfused,
        reductions=reductions,
        exchanges_bytes_per_token=exchange_bytes,
        exchanges=exchanges,
        routed_layers=routed_layers,
        held_experts=held_experts,
        launches_ratio=launches_ratio(precision.weights),
        chosen_from=0 if head is None else architecture.vocab_size,
        state_layers=state_layers,
        added_layers=added,
        model_type=architecture.model_type,
        encoder=_encoder_work(architecture, precision, parallelism),
        images=_image_work(architecture, precision, parallelism),
        audio=_audio_work(architecture, precision, parallelism),
    )


def _copies_on_rank(moe: MixtureOfExperts, parallelism: Parallelism) -> float:
    """Copies that experts of a rank take of each token that its own copy of the model has [-]."""
    ranks = max(parallelism.expert, 1)
    return moe.copies_per_token / ranks * max(1.0, ranks / parallelism.tensor)


def _is_reduced(group: LayerGroup) -> bool:
    """Whether ranks add up what a mixer puts out; one beside another may share its output."""
    if group.mixer is None or not group.beside:
        return group.mixer is not None
    return any(tensor.shard is Shard.ROW for tensor in group.mixer.tensors)


def _audio_work(
    architecture: ModelArchitecture, precision: Precision, parallelism: Parallelism
) -> RankWork | None:
    """The work of an audio encoder by positions, and of the projection of what is pooled."""
    audio = architecture.audio
    if audio is None:
        return None
    # No layer of the language model reads its features beside the prompt.
    work = _encoder_work(replace(architecture, encoder=audio.encoder), precision, parallelism)
    if work is None:
        return None
    projected = _shared_products(audio.projector, 1.0 / audio.pooled, precision, parallelism)
    return replace(work, products=work.products + projected)


def _shared_products(
    tensors: tuple[Tensor, ...], share: float, precision: Precision, parallelism: Parallelism
) -> tuple[MatrixProduct, ...]:
    """Products of a share of the rows, of weights that are read all the same."""
    products = (
        _product(tensor, tensor.copies, precision.weights, parallelism, 1, None)
        for tensor in tensors
        if tensor.is_matrix
    )
    return tuple(
        replace(one, calls=one.calls * share, weight_bytes=one.weight_bytes / share)
        for one in products
    )


def _image_work(
    architecture: ModelArchitecture, precision: Precision, parallelism: Parallelism
) -> RankWork | None:
    """The work of a vision tower by patches; tokens, of which there are fewer, by their share."""
    images = architecture.images
    if images is None or images.grid is None:
        return None
    tokens_each = images.grid.unit_tokens / images.grid.unit_patches
    products = _shared_products(images.tower, 1.0, precision, parallelism)
    products += _shared_products(images.projector, tokens_each, precision, parallelism)
    width_here = images.width / parallelism.tensor
    activation_bytes = precision.activations.bytes_per_element
    full = images.layers - images.windowed_layers
    return RankWork(
        layers=images.layers,
        hidden_size=images.width,
        activation_bytes=activation_bytes,
        products=products,
        attention=tuple(
            AttentionWork(
                layers=layers,
                flops_per_pair=layers * 4.0 * width_here,
                cache_bytes_per_token=layers * 2.0 * width_here * activation_bytes,
                window_tokens=window,
                chunked=False,
                causal=False,
            )
            for layers, window in ((full, None), (images.windowed_layers, images.window_patches))
            if layers
        ),
        state_bytes_per_sequence=0.0,
        state_flops_per_token=0.0,
        elementwise_bytes_per_token=images.layers * _FUSED_STATES * images.width * activation_bytes,
        unfused_bytes_per_token=images.layers
        * (_UNFUSED_STATES + _UNFUSED_WIDTHS * 4.0)
        * images.width
        * activation_bytes,
        reductions=2.0 * images.layers,
        exchanges_bytes_per_token=0.0,
        exchanges=0.0,
        routed_layers=0.0,
    )


def _encoder_work(
    architecture: ModelArchitecture, precision: Precision, parallelism: Parallelism
) -> RankWork | None:
    """The work of an encoder, and of keys and values that the decoder makes of its features."""
    encoder = architecture.encoder
    if encoder is None:
        return None
    layers = replace(
        architecture,
        hidden_size=encoder.hidden_size,
        groups=encoder.groups,
        causal=False,
        generates=False,
        encoder=None,
        images=None,
        audio=None,
    )
    work = rank_work(layers, precision, parallelism)
    read = [(1, 1, tensor) for tensor in encoder.stem]
    read += [
        (group.count, kv_heads(group), tensor)
        for group in architecture.groups
        for tensor in group.features_read
    ]
    products = tuple(
        _product(tensor, count, precision.weights, parallelism, heads, None)
        for count, heads, tensor in read
        if tensor.is_matrix
    )
    return replace(work, products=work.products + products)


def _product(
    tensor: Tensor,
    layers: int,
    weights: NumberFormat,
    parallelism: Parallelism,
    kv_head_count: int,
    moe: MixtureOfExperts | None,
    model_type: str = "",
) -> MatrixProduct:
    copies, rows, columns = rank_shape(tensor, parallelism, kv_head_count)
    bits = weights.tensor_bits(tensor)
    quantised = tensor.tensor_class in weights.quantised_classes
    matrix_precision = weights.matrix_precision if quantised else "bf16"
    routed = moe is not None and tensor.tensor_class is TensorClass.EXPERT
    experts = moe.experts if moe is not None and routed else 0
    per_token = moe.experts_per_token if moe is not None and routed else 0
    taken = moe.copies_per_token if moe is not None and routed else 0.0
    return MatrixProduct(
        calls=layers,
        input_features=rows,
        output_features=columns,
        weight_bytes=rows * columns * bits / 8.0,
        matrix_precision=matrix_precision,
        operand_bits=OPERAND_BITS[matrix_precision],
        copies=copies,
        copies_per_token=taken * copies / experts if experts else 1.0,
        experts=experts,
        experts_per_token=per_token,
        weight_bits=bits,
        expert_elements=rows * columns * 1.0 if experts else 0.0,
        widened_whole=weights.widened_whole,
        widened_for_many=weights.widened_for_many,
        super_blocks=weights.super_blocks,
        tensor_class=tensor.tensor_class,
        model_type=model_type,
        row_operations=weights.row_operations if quantised else 0.0,
    )


def _passed_width(feed_forward: FeedForward | None) -> float:
    """Elements between the two products of a feed-forward block that a token passes through."""
    if feed_forward is None:
        return 0.0
    if isinstance(feed_forward, MixtureOfExperts):
        routed = feed_forward.copies_per_token * feed_forward.expert_intermediate_size
        return float(routed + feed_forward.shared_intermediate_size)
    return float(feed_forward.intermediate_size)


def _head_shape(architecture: ModelArchitecture) -> Tensor | None:
    for tensor in architecture.head:
        if tensor.is_matrix:
            return tensor
    if architecture.tied_embeddings:
        return next(
            (t for t in architecture.embedding if t.tensor_class is TensorClass.EMBEDDING), None
        )
    return None


def _head_product(
    tensor: Tensor, weights: NumberFormat, parallelism: Parallelism, architecture: ModelArchitecture
) -> MatrixProduct:
    bits = weights.bits(tensor.tensor_class)
    columns = architecture.vocab_size / parallelism.tensor
    precision = "bf16" if OPERAND_BITS[weights.matrix_precision] < 16 else weights.matrix_precision
    return MatrixProduct(
        calls=1.0 + architecture.trained_predictions,
        input_features=tensor.input_features,
        output_features=columns,
        weight_bytes=tensor.input_features * columns * bits / 8.0,
        matrix_precision=precision,
        operand_bits=OPERAND_BITS[precision],
        per_sequence=True,
        weight_bits=bits,
        widened_whole=weights.widened_whole,
        widened_for_many=weights.widened_for_many,
        super_blocks=weights.super_blocks,
        tensor_class=TensorClass.HEAD,
    )
