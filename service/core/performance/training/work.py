"""The work of a training micro-batch on one rank: products, attention, elementwise traffic."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from service.core.architecture.capacity import at_capacity
from service.core.architecture.model import (
    DenseFeedForward,
    LatentAttention,
    ModelArchitecture,
)
from service.core.architecture.sharding import kv_heads, rank_elements
from service.core.architecture.tensors import Shard, TensorClass
from service.core.deployment import Parallelism, Precision
from service.core.elementwise import Number, where
from service.core.memory.training.activations import layer_savings, raises_latents
from service.core.memory.training.kept import kept_by_layers
from service.core.memory.training.settings import TrainingSettings
from service.core.number_formats import NUMBER_FORMATS, NumberFormat
from service.core.performance.kernels import OPERAND_BITS
from service.core.performance.training.adapters import AdapterWork, adapter_work
from service.core.performance.training.attention import Heads, attention_of, filled, heads_of
from service.core.performance.work import MatrixProduct, RankWork, rank_work

#: Bytes of a logit beside the product that makes it: 16 bit, and 32 bit for the loss; a fused
#: loss keeps them on the chip.
_LOGIT_BYTES = {
    "plain": 6.0,
    "half-precision": 4.0,
    "compiled": 2.0,
    "chunked": 6.0,
    "fused": 2.0,
}


#: What weights can be trained in, with products of fewer than 16 bits.
_TRAINED_NARROW = ("fp8", "fp4")
_HALF_BITS = 16.0
_HALF = NUMBER_FORMATS["bf16"]


@dataclass(frozen=True, slots=True)
class TrainingWork:
    """Work of a forward pass on the ranks of one model copy, over full depth.

    ``products`` has everything but attention and messages to experts, ``attention`` nothing else,
    and ``head`` the products among ``products`` that make logits.
    ``adapters`` have work of their own. There are ``exchanges`` of ``exchanged_bytes_per_token``,
    ``token_copies`` copies of each.
    ``elementwise_bytes_per_token`` and ``_per_pair`` are what the forward pass writes for others
    to read; ``narrowed_elements_per_token`` are narrowed for products of 8 or fewer bits, and
    ``quantised_elements`` those of a base that is turned into 16 bit on every use. ``narrow_ratio``
    is the share of dense products with narrowed operands, ``head_ratio`` that of the head's,
    ``chosen_ratio`` what all would be if experts took just the tokens that chose them, and
    ``ending_ratio`` that of products which end a layer and whose results no gradient needs,
    ``raising_ratio`` that of products which raise latents to heads, ``remade_ratio`` what norms,
    activations and these make of all that layers write, ``logits_ratio`` what logits make of it.
    ``filled_attention``, of ``heads``, and ``filled_ratio`` have what is computed beside: zeros
    that fill up vectors, and blocks that windows cover in part.
    """

    products: RankWork
    head: RankWork
    attention: RankWork
    filled_attention: RankWork
    filled_ratio: float
    matrix_precision: str
    heads: Heads
    elementwise_bytes_per_token: float
    elementwise_bytes_per_pair: float
    narrowed_elements_per_token: float
    quantised_elements: float
    narrow_ratio: float
    head_ratio: float
    chosen_ratio: float
    ending_ratio: float
    raising_ratio: float
    remade_ratio: float
    logits_ratio: float
    adapters: AdapterWork
    exchanges: float
    exchanged_bytes_per_token: float
    token_copies: float


@lru_cache(maxsize=1024)
def training_work(
    architecture: ModelArchitecture,
    precision: Precision,
    parallelism: Parallelism,
    settings: TrainingSettings,
    lanes: float | None = None,
) -> TrainingWork:
    """Work of a forward pass in which the head runs on every token.

    Parameters
    ----------
    architecture, precision, parallelism, settings
        What is trained, and how.
    lanes
        Lanes of a vector or rows of a matrix unit, to whose multiples features of products are
        filled up [-].

    References
    ----------
    Austin et al., How to Scale Your Model, 2025, chapter 2 (dimensions are filled up),
    https://jax-ml.github.io/scaling-book/tpus; jax-ml/jax, splash_attention_kernel.py, 2025 (heads
    of multiples of 128 lanes)
    """
    ratio = settings.taken_copies_ratio
    architecture = at_capacity(architecture, ratio)
    chosen = product_format(precision, settings)
    # Results stay in 16 bit where products run in fewer.
    results = precision.activations if _bits(precision.activations) > _HALF_BITS else _HALF
    computed = replace(precision, weights=chosen, kv_cache=results, activations=results)
    work = rank_work(architecture, computed, parallelism)
    products = tuple(replace(item, per_sequence=False) for item in work.products)
    meeting = max(1.0, parallelism.expert / parallelism.tensor)
    narrow = sum(
        _uses_per_token(item, meeting) * (item.input_features + item.output_features)
        for item in products
        if item.operand_bits <= 8
    )
    forward = replace(settings, method="full", activation_checkpointing="none", trained_tensors=())
    width = results.bytes_per_element
    kept = layer_savings(architecture, parallelism, forward, element_bytes=width)
    leaving = replace(forward, activation_checkpointing="selective-modules")
    lean = layer_savings(architecture, parallelism, leaving, element_bytes=width)
    per_token = kept_by_layers(kept)[0]
    logits = architecture.vocab_size / parallelism.tensor * _LOGIT_BYTES[settings.cross_entropy]
    logits *= 1.0 + architecture.trained_predictions if architecture.generates else 0.0
    quantised = 0.0
    if settings.method != "full" and precision.weights.bits_per_element < _HALF_BITS:
        quantised = sum(
            group.count * rank_elements(tensor, parallelism, kv_heads(group))
            for group in architecture.groups
            for tensor in group.tensors
            if tensor.is_matrix and tensor.tensor_class in precision.weights.quantised_classes
        )
    computed_each = [
        _uses_per_token(item, meeting) * item.input_features * item.output_features
        for item in products
    ]
    asked = sum(computed_each)
    chosen_each = (
        one / ratio if item.experts else one
        for one, item in zip(computed_each, products, strict=True)
    )
    alone = replace(
        work,
        products=(),
        elementwise_bytes_per_token=0.0,
        state_bytes_per_sequence=0.0,
        state_flops_per_token=0.0,
        reductions=0.0,
        exchanges=0.0,
    )
    computed_attention = attention_of(architecture, parallelism, settings, lanes)
    return TrainingWork(
        products=replace(
            work,
            products=products,
            attention=(),
            elementwise_bytes_per_token=0.0,
            state_bytes_per_sequence=0.0,
            exchanges=0.0,
        ),
        head=replace(
            alone, products=tuple(item for item in products if _is_head(item)), attention=()
        ),
        attention=replace(alone, attention=attention_of(architecture, parallelism, settings, None)),
        filled_attention=replace(alone, attention=computed_attention),
        filled_ratio=_filled_ratio(products, meeting, lanes),
        matrix_precision=chosen.matrix_precision,
        heads=heads_of(computed_attention, precision, settings),
        elementwise_bytes_per_token=per_token + logits,
        elementwise_bytes_per_pair=kept_by_layers(kept)[1],
        narrowed_elements_per_token=narrow,
        quantised_elements=quantised,
        narrow_ratio=_narrow_ratio(products),
        head_ratio=_head_ratio(products, meeting),
        chosen_ratio=sum(chosen_each) / asked,
        ending_ratio=_ending_products(architecture, parallelism) / asked,
        raising_ratio=_raising_products(architecture, parallelism) / asked,
        remade_ratio=(per_token - kept_by_layers(lean)[0]) / (per_token + logits),
        logits_ratio=logits / (per_token + logits),
        adapters=adapter_work(
            architecture, parallelism, settings, width, quantised=quantised > 0.0
        ),
        exchanges=work.exchanges,
        exchanged_bytes_per_token=work.exchanges_bytes_per_token,
        token_copies=work.exchanges_bytes_per_token
        / (architecture.hidden_size * work.activation_bytes),
    )


def by_lanes(lanes: Number | None, found: Callable[[float | None], Number]) -> Number:
    """A figure that differs with the lanes that are filled up, for each accelerator of a stack.

    Parameters
    ----------
    lanes
        ``filled_features`` of an accelerator; in stacks NaN where nobody says.
    found
        The figure with so many lanes.
    """
    if not isinstance(lanes, np.ndarray):
        return found(lanes)
    figure = found(None)
    for each in np.unique(lanes[np.isfinite(lanes)]):
        figure = where(lanes == each, found(float(each)), figure)
    return figure


def _uses_per_token(item: MatrixProduct, meeting: float) -> float:
    """Products of a kind on a rank for each of its tokens; at experts, other ranks' meet them."""
    return item.calls * item.copies_per_token * (meeting if item.experts else 1.0)


def _is_head(item: MatrixProduct) -> bool:
    return item.tensor_class is TensorClass.HEAD


def _head_ratio(products: tuple[MatrixProduct, ...], meeting: float) -> float:
    """Share of all products of a token that are those of the head [-]."""
    by_head = {True: 0.0, False: 0.0}
    for item in products:
        flops = _uses_per_token(item, meeting) * item.input_features * item.output_features
        by_head[_is_head(item)] += flops
    return by_head[True] / (by_head[True] + by_head[False])


def _ending_products(architecture: ModelArchitecture, parallelism: Parallelism) -> float:
    """Elements of matrices that end a layer: no gradient needs what a sum alone reads.

    Norms after them need it, as weights of experts do.
    """
    ending = 0.0
    for group in architecture.groups:
        normed = any(norm.name.startswith("post_feedforward") for norm in group.norms)
        if group.beside or normed or not isinstance(group.feed_forward, DenseFeedForward):
            continue
        ending += group.count * sum(
            rank_elements(tensor, parallelism, kv_heads(group))
            for tensor in group.feed_forward.tensors
            if tensor.is_matrix and tensor.shard is Shard.ROW
        )
    return ending


def _raising_products(architecture: ModelArchitecture, parallelism: Parallelism) -> float:
    """Elements of matrices that raise latents to queries, keys and values of heads."""
    return sum(
        group.count * rank_elements(tensor, parallelism, kv_heads(group))
        for group in architecture.groups
        if isinstance(group.mixer, LatentAttention)
        for tensor in group.mixer.tensors
        if raises_latents(tensor, group.mixer)
    )


def _filled_ratio(
    products: tuple[MatrixProduct, ...], meeting: float, lanes: float | None
) -> float:
    """What filled vectors make of all products over what is asked of them [-]."""
    asked = computed = 0.0
    for item in products:
        uses = _uses_per_token(item, meeting)
        asked += uses * item.input_features * item.output_features
        computed += uses * filled(item.input_features, lanes) * filled(item.output_features, lanes)
    return computed / asked


def _narrow_ratio(products: tuple[MatrixProduct, ...]) -> float:
    """Share of dense products whose operands have 8 or fewer bits [-]."""
    narrow = wide = 0.0
    for item in products:
        flops = 0.0 if item.experts else item.calls * item.input_features * item.output_features
        if item.operand_bits <= 8:
            narrow += flops
        else:
            wide += flops
    return narrow / (narrow + wide) if narrow else 0.0


def product_format(precision: Precision, settings: TrainingSettings) -> NumberFormat:
    """Format that matrix products run in: that of activations, or of narrower trained weights.

    A frozen base of few bits is turned into the activations' format on every use.
    """
    weights, activations = precision.weights, precision.activations
    trained = settings.method == "full" and weights.matrix_precision in _TRAINED_NARROW
    return weights if trained and _bits(weights) < _bits(activations) else activations


def _bits(number_format: NumberFormat) -> int:
    return OPERAND_BITS[number_format.matrix_precision]
