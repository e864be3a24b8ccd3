"""Model architecture as data: groups of like layers, each a mixer and a feed-forward part.

Dense, grouped-query, multi-query, latent, windowed, hybrid state-space and mixture-of-experts
models are compositions of the parts below; nothing anywhere depends on a model's name.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import Literal, TypeAlias

from service.core.architecture.tensors import Shard, Tensor, TensorClass
from service.core.explanation import EstimateWarning
from service.core.number_formats import NumberFormat

#: Where training has dropout: on attention's weights, and on what a layer's parts add to the
#: residual stream.
DropoutSite: TypeAlias = Literal["attention", "residual"]


class Span(Enum):
    """Which earlier tokens an attention layer sees."""

    FULL = "full"
    SLIDING = "sliding"
    """The last ``window_tokens`` tokens."""
    CHUNKED = "chunked"
    """Tokens of the own chunk of ``window_tokens`` tokens (Llama 4)."""


@dataclass(frozen=True, slots=True)
class Attention:
    """Multi-head attention with its own keys and values: MHA, GQA and MQA.

    ``head_dim`` is that of queries and keys, ``value_head_dim`` that of values.
    ``window_tokens`` is None exactly when ``span`` is FULL. ``shares_kv`` marks a layer that
    reads the cache of an earlier layer and keeps none (Gemma 3n, cross-layer KV sharing).
    Of a layer that chooses blocks of keys, ``chosen_tokens`` is how many tokens each query attends
    to at most, and ``index_head_dim`` the width of the key that it keeps of every token, whole on
    each tensor-parallel rank, to choose by (MiniMax-M3).
    """

    query_heads: int
    kv_heads: int
    head_dim: int
    value_head_dim: int
    span: Span
    window_tokens: int | None
    shares_kv: bool
    tensors: tuple[Tensor, ...]
    chosen_tokens: int | None = None
    index_head_dim: int | None = None


@dataclass(frozen=True, slots=True)
class LatentAttention:
    """Multi-head latent attention (MLA): one compressed latent per token is cached.

    The cache holds ``kv_lora_rank + qk_rope_head_dim`` elements a token and layer, whole on every
    tensor-parallel rank. With ``indexer_head_dim`` (DeepSeek sparse attention) the cache also
    holds one index key of that many elements, which ``indexer_heads`` compare with queries of all
    tokens, whole on each rank, and at most ``indexer_top_k`` tokens are attended;
    a layer with the latter alone attends to the tokens that an earlier one has chosen.
    With ``tokens_per_entry`` above one, each entry sums up a run of so many tokens, and the index
    chooses entries; with ``window_tokens`` only the last tokens are kept. Either stands beside the
    other in DeepSeek-V4, whose entries are keys and values of all heads as they are.
    ``shares_kv`` marks a layer that reads the latents of an earlier one and keeps none but an
    index's (Mistral Large 4).

    References
    ----------
    DeepSeek-AI, DeepSeek-V2, 2024, section 2.1, https://arxiv.org/abs/2405.04434
    """

    query_heads: int
    q_lora_rank: int | None
    kv_lora_rank: int
    qk_nope_head_dim: int
    qk_rope_head_dim: int
    v_head_dim: int
    indexer_head_dim: int | None
    indexer_top_k: int | None
    tensors: tuple[Tensor, ...]
    indexer_heads: int = 0
    tokens_per_entry: int = 1
    window_tokens: int | None = None
    shares_kv: bool = False

    @property
    def attended_tokens(self) -> int | None:
        """Tokens that a query attends to at most, by themselves or summed up, or None."""
        if self.indexer_top_k is None:
            return self.window_tokens
        return self.indexer_top_k * self.tokens_per_entry

    @property
    def expanded_key_dim(self) -> int:
        """Elements of a head's key that is made from a latent, its part with positions included."""
        return self.qk_nope_head_dim + self.qk_rope_head_dim

    @property
    def expands(self) -> bool:
        """Whether training makes keys and values of each head from what is kept."""
        return self.tokens_per_entry == 1 and self.window_tokens is None


@dataclass(frozen=True, slots=True)
class StateMixer:
    """A layer with a state of constant size per sequence: Mamba, gated delta net, linear attention.

    ``recurrent_state_elements`` is the matrix state and ``convolution_state_elements`` the short
    convolution's tail, both per sequence and layer before sharding. ``heads`` bounds how far
    tensor parallelism can divide the state. The state is ``wide``, in 32 bit, wherever its
    checkpoint or its kernels ask for that; others are as engines hold them.
    """

    kind: str
    heads: int
    recurrent_state_elements: int
    convolution_state_elements: int
    recurrent_flops_per_token: float
    tensors: tuple[Tensor, ...]
    wide: bool = False


#: generate: token after token; embed: a vector of a sequence; rerank: a score of a query with a
#: document.
Task: TypeAlias = Literal["generate", "embed", "rerank"]

Mixer: TypeAlias = Attention | LatentAttention | StateMixer


@dataclass(frozen=True, slots=True)
class DenseFeedForward:
    """A feed-forward block: two matrices, or three when gated (SwiGLU, GeGLU)."""

    intermediate_size: int
    gated: bool
    tensors: tuple[Tensor, ...]


@dataclass(frozen=True, slots=True)
class MixtureOfExperts:
    """Routed experts, of which each token uses ``experts_per_token``, and shared ones used by all.

    ``shared_intermediate_size`` is the width of all shared experts together, 0 without any.
    ``capacity_ratio`` is what experts take of the tokens that chose them where they have a limit,
    with what fills them up to it [-].
    """

    experts: int
    experts_per_token: int
    expert_intermediate_size: int
    shared_intermediate_size: int
    gated: bool
    tensors: tuple[Tensor, ...]
    capacity_ratio: float = 1.0

    @property
    def copies_per_token(self) -> float:
        """Copies of a token that experts take [-]."""
        return self.experts_per_token * self.capacity_ratio


FeedForward: TypeAlias = DenseFeedForward | MixtureOfExperts


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """``count`` layers alike. A part that a layer lacks is None; ``norms`` are its norm weights.

    ``cross`` is attention to the features of the model's encoder. ``beside`` marks parts that stand
    in the layers of another group (the second mixers of Falcon-H1, the experts of LongCat-Flash),
    and so are no layers of their own.
    """

    count: int
    mixer: Mixer | None
    feed_forward: FeedForward | None
    norms: tuple[Tensor, ...]
    cross: Attention | None = None
    beside: bool = False

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors of one layer of the group."""
        mixer = self.mixer.tensors if self.mixer is not None else ()
        cross = self.cross.tensors if self.cross is not None else ()
        feed_forward = self.feed_forward.tensors if self.feed_forward is not None else ()
        return mixer + cross + feed_forward + self.norms

    @property
    def features_read(self) -> tuple[Tensor, ...]:
        """Tensors that make keys and values of the encoder's features, once for each of them."""
        cross = self.cross.tensors if self.cross is not None else ()
        return tuple(tensor for tensor in cross if tensor.shard is Shard.KV_HEADS)


@dataclass(frozen=True, slots=True)
class Encoder:
    """Layers that read an input of their own, once, for the decoder's layers to attend to.

    ``stem`` comes before and after them: convolutions, tables, norms. Audio is read in windows of
    ``window_s`` seconds, each of ``window_positions`` positions however much of it is silence.
    """

    hidden_size: int
    groups: tuple[LayerGroup, ...]
    stem: tuple[Tensor, ...]
    window_positions: int | None = None
    window_s: float | None = None

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, those of all layers together."""
        layers = tuple(
            replace(tensor, copies=tensor.copies * group.count)
            for group in self.groups
            for tensor in group.tensors
        )
        return layers + self.stem


@dataclass(frozen=True, slots=True)
class AudioEncoder:
    """What turns audio into tokens of the prompt.

    Of ``pooled`` positions of the ``encoder`` the language model reads one, which the matrices of
    the ``projector`` multiply.
    """

    encoder: Encoder
    pooled: int
    projector: tuple[Tensor, ...]

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """All tensors, those of all layers together."""
        return self.encoder.tensors + self.projector


@dataclass(frozen=True, slots=True)
class ImageGrid:
    """How an image is cut into squares, and what becomes of each.

    An image is made smaller until no side is longer than ``longest_px`` and it has at most
    ``most_units`` squares of ``unit_px``, to whole ones (to the ``nearest``, else filled up).
    Without a ``unit_px`` it becomes one square, whatever its size. A square has ``unit_patches``
    and ``unit_tokens``, each row of them ``row_tokens`` more; with an ``overview`` the whole image
    comes once more beside several squares. Patches attend to those of the image, or of their square
    where these stand ``apart``.
    """

    unit_px: int | None
    unit_patches: int
    unit_tokens: int
    most_units: int | None = None
    longest_px: int | None = None
    row_tokens: int = 0
    nearest: bool = False
    overview: bool = False
    apart: bool = False


@dataclass(frozen=True, slots=True)
class ImageEncoder:
    """The tower that turns images into what the language model reads.

    ``width`` and ``intermediate_size`` are those of its layers, ``most_patches`` the patches of the
    largest image that its processor lets through, and ``most_tokens`` what the language model reads
    of such an image. The outputs of ``kept_layers`` are joined to the last one at the end. Of a
    model that is ``cross_attended``, the language model's layers look at the features instead of
    reading them among the tokens of the prompt.

    Each patch is multiplied by the matrices of the ``tower``, each token by those of the
    ``projector``. Of the ``layers``, ``windowed_layers`` attend to ``window_patches`` only.
    ``grid`` is None where it is not known what becomes of an image.
    """

    width: int
    intermediate_size: int
    gated: bool
    most_patches: int
    most_tokens: int
    kept_layers: int = 0
    cross_attended: bool = False
    layers: int = 0
    windowed_layers: int = 0
    window_patches: int | None = None
    grid: ImageGrid | None = None
    tower: tuple[Tensor, ...] = ()
    projector: tuple[Tensor, ...] = ()


@dataclass(frozen=True, eq=False)
class ModelArchitecture:
    """Everything about a model that its memory and speed depend on.

    Compared by identity, so that figures derived from one can be cached by it at no cost.

    ``embedding`` and ``head`` are the tensors before and after the layers; with tied embeddings
    the output matrix is absent from ``head`` and the input table serves as both. ``other`` holds
    tensors outside the language model's layers: a vision tower, whose shape ``images`` tells where
    it is known, an ``encoder``, or that of ``audio``. ``native_format`` is the id of the listed
    number format that the checkpoint ships in; where its layout departs from the listed one
    (another group size, classes left in 16 bit), ``native_number_format`` is the layout itself;
    ``native_cache_format`` is that of the caches that it has scales for, if it has any.
    A model that is not ``causal`` lets every token attend to those after it, too; one that does not
    ``generate`` reads a sequence once, keeps nothing of it and has no output matrix (embedding and
    reranking). ``made_for`` is what its publisher trained it for. ``prediction_layers`` are those
    of multi-token prediction that its checkpoint has beside the ``groups``; of the layers in
    ``groups`` the last ``trained_predictions`` are such, and pass the head once more each.
    ``dropout`` is where its configuration has dropout in training. With ``caps_scores`` and
    ``caps_logits`` attention's scores and logits go through a hyperbolic tangent. Its reference
    implementation ``widens_logits`` to 32 bit. Angles of all its positions fill ``position_tables``
    as long as ``max_position_embeddings``. ``warnings`` says what the parser was not sure
    about.
    """

    model_type: str
    hidden_size: int
    vocab_size: int
    max_position_embeddings: int | None
    tied_embeddings: bool
    groups: tuple[LayerGroup, ...]
    embedding: tuple[Tensor, ...]
    head: tuple[Tensor, ...]
    other: tuple[Tensor, ...] = ()
    native_format: str = "bf16"
    native_number_format: NumberFormat | None = None
    native_cache_format: str | None = None
    causal: bool = True
    generates: bool = True
    made_for: Task = "generate"
    prediction_layers: int = 0
    trained_predictions: int = 0
    images: ImageEncoder | None = None
    encoder: Encoder | None = None
    audio: AudioEncoder | None = None
    dropout: frozenset[DropoutSite] = frozenset()
    caps_scores: bool = False
    caps_logits: bool = False
    widens_logits: bool = True
    position_tables: float = 1.0
    warnings: tuple[EstimateWarning, ...] = field(default=())

    @cached_property
    def layer_count(self) -> int:
        """Number of layers."""
        return sum(group.count for group in self.groups if not group.beside)

    @cached_property
    def query_head_counts(self) -> frozenset[int]:
        """Query heads of its attention layers, each of which tensor parallelism must divide."""
        groups = self.groups + (() if self.encoder is None else self.encoder.groups)
        groups += () if self.audio is None else self.audio.encoder.groups
        return frozenset(
            mixer.query_heads
            for group in groups
            for mixer in (group.mixer, group.cross)
            if isinstance(mixer, Attention | LatentAttention)
        )

    @cached_property
    def position_elements(self) -> float:
        """Cosines and sines of all its positions, where layers turn queries and keys by them [-].

        None where positions are learned or layers with states tell them; where a part of each head
        is turned and nothing says so, as many as if all of it were.
        """
        learned = any(tensor.name == "embed_positions" for tensor in self.embedding)
        mixers = [group.mixer for group in self.groups]
        if learned or not self.causal or any(isinstance(mixer, StateMixer) for mixer in mixers):
            return 0.0
        widths = [mixer.head_dim for mixer in mixers if isinstance(mixer, Attention)]
        widths += [mixer.qk_rope_head_dim for mixer in mixers if isinstance(mixer, LatentAttention)]
        positions = float(self.max_position_embeddings or 0)
        return self.position_tables * positions * max(widths, default=0)

    @cached_property
    def kv_head_counts(self) -> frozenset[int]:
        """Heads of keys and values of its attention layers, where several queries may share one."""
        return frozenset(
            mixer.kv_heads
            for group in self.groups
            for mixer in (group.mixer, group.cross)
            if isinstance(mixer, Attention)
        )

    @cached_property
    def routes(self) -> bool:
        """Whether layers send tokens to experts of their own."""
        return any(isinstance(group.feed_forward, MixtureOfExperts) for group in self.groups)

    @cached_property
    def total_parameters(self) -> int:
        """All parameters, tied tensors counted once."""
        layers = sum(
            group.count * sum(tensor.elements for tensor in group.tensors) for group in self.groups
        )
        return layers + sum(tensor.elements for tensor in self.embedding + self.head + self.other)

    @cached_property
    def active_parameters(self) -> int:
        """Parameters used for one token: of the routed experts only those a token is sent to.

        The embedding table is counted whole, as model cards do.
        """
        idle = 0
        for group in self.groups:
            moe = group.feed_forward
            if isinstance(moe, MixtureOfExperts):
                routed = sum(t.elements for t in moe.tensors if t.copies > 1)
                idle += group.count * routed * (moe.experts - moe.experts_per_token) // moe.experts
        # Experts for images (ERNIE 4.5 VL) see no other tokens.
        idle += sum(one.elements for one in self.other if one.tensor_class is TensorClass.EXPERT)
        return self.total_parameters - idle
