"""A family of models as data, and how an architecture is put together from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from service.core.architecture.config.dropout import dropout_of
from service.core.architecture.config.fields import (
    MAX_LAYERS,
    MAX_POSITIONS,
    MAX_VOCABULARY,
    Fields,
    Flag,
)
from service.core.architecture.config.parts import (
    FeedForwardBuilder,
    MixerBuilder,
    dense,
    grouped_attention,
    linear,
    norm,
)
from service.core.architecture.config.schedules import Schedule, every
from service.core.architecture.model import LayerGroup, ModelArchitecture
from service.core.architecture.tensors import Shard, Tensor, TensorClass

PRE_NORMS = ("input_layernorm", "post_attention_layernorm")


@dataclass(frozen=True, slots=True)
class Family:
    """What the models of a family have in common beyond the sizes in their configurations.

    Attributes
    ----------
    defaults
        Values of keys that a configuration may leave out, as its reference implementation has
        them.
    mixers, feed_forwards
        Builders by the kind that the schedules name.
    mixer_schedule, feed_forward_schedule
        Kind of each layer's parts.
    norms
        Names of a layer's norms over the hidden size, fixed or read from the configuration.
    norm_weight, norm_bias
        Whether norms have a weight and a bias.
    final_norm
        Whether there is a norm after the last layer.
    learned_positions
        Reads the rows of a learned position table, 0 for none.
    token_types
        Reads the rows of a token-type table (BERT), 0 for none.
    embedding_norm
        Whether the embeddings are normed.
    head
        Whether there is an output matrix at all (embedding models have none).
    head_bias
        Whether the output matrix has a bias.
    widens_logits
        Whether its reference implementation turns logits to 32 bit.
    causal
        Whether tokens attend only to those before them; encoders' do not.
    extra_tensors
        Reads tensors outside embedding, layers and head.
    beside
        Builds a second mixer that every layer has beside its first (Falcon-H1).
    groups
        Builds the layers of a family whose configurations describe each by itself, in place of
        mixers, feed-forward parts and their schedules.
    """

    defaults: Mapping[str, object] = field(default_factory=dict)
    mixers: Mapping[str, MixerBuilder] = field(default_factory=grouped_attention)
    feed_forwards: Mapping[str, FeedForwardBuilder] = field(
        default_factory=lambda: {"dense": dense()}
    )
    mixer_schedule: Schedule = field(default_factory=lambda: every("full"))
    feed_forward_schedule: Schedule = field(default_factory=lambda: every("dense"))
    norms: tuple[str, ...] | Callable[[Fields], tuple[str, ...]] = PRE_NORMS
    norm_weight: bool = True
    norm_bias: Flag = False
    final_norm: Flag = True
    learned_positions: Callable[[Fields], int] = lambda fields: 0  # noqa: ARG005
    token_types: Callable[[Fields], int] = lambda fields: 0  # noqa: ARG005
    embedding_norm: Flag = False
    head: bool = True
    head_bias: Flag = False
    widens_logits: bool = True
    causal: bool = True
    extra_tensors: Callable[[Fields], tuple[Tensor, ...]] = lambda fields: ()  # noqa: ARG005
    beside: MixerBuilder | None = None
    groups: Callable[[Fields, int], tuple[LayerGroup, ...]] | None = None


def assemble(family: Family, fields: Fields, model_type: str) -> ModelArchitecture:
    """Put an architecture together from a family and the sizes of one configuration.

    Raises
    ------
    ConfigNotUnderstood
        If a needed key is missing or absurd.
    """
    hidden = fields.size("hidden_size")
    vocabulary = fields.size("vocab_size", maximum=MAX_VOCABULARY)
    tied = fields.flag("tie_word_embeddings")
    return ModelArchitecture(
        model_type=model_type,
        hidden_size=hidden,
        vocab_size=vocabulary,
        max_position_embeddings=fields.optional_size("max_position_embeddings", MAX_POSITIONS),
        tied_embeddings=tied,
        groups=_groups(family, fields, hidden),
        embedding=_embedding(family, fields, hidden, vocabulary),
        head=_head(family, fields, hidden, vocabulary, tied),
        other=family.extra_tensors(fields),
        causal=family.causal and not _sees_both_ways(fields),
        generates=family.head,
        widens_logits=family.widens_logits,
        position_tables=_position_tables(fields),
        dropout=dropout_of(fields),
        caps_scores=fields.is_above_zero("attn_logit_softcapping"),
        caps_logits=fields.is_above_zero("final_logit_softcapping"),
    )


def _position_tables(fields: Fields) -> float:
    """Tables of all positions that a model needs: one, or more where positions are stretched.

    Stretched evenly, each has places between that of its neighbours; layers with a window keep a
    table of their own (Gemma 3).
    """
    scaling = fields.section("rope_scaling", {}) if fields.has("rope_scaling") else None
    if scaling is None or "linear" not in (scaling.text("rope_type"), scaling.text("type")):
        return 1.0
    stretched = scaling.ratio("factor") or 1.0
    return stretched + (1.0 if fields.has("sliding_window") else 0.0)


def _sees_both_ways(fields: Fields) -> bool:
    """Whether a decoder was made an encoder of text (EmbeddingGemma); Gemma 4 is of images only."""
    key = "use_bidirectional_attention"
    return fields.text(key) == "all" if fields.is_text(key) else fields.flag(key)


def _layer_count(fields: Fields) -> int:
    """Layers: stated, or as many as are listed by kind [-]."""
    if not fields.has("num_hidden_layers"):
        listed = fields.array("layer_types")
        if listed and len(listed) <= MAX_LAYERS:
            return len(listed)
    return fields.size("num_hidden_layers", maximum=MAX_LAYERS)


def _groups(family: Family, fields: Fields, hidden: int) -> tuple[LayerGroup, ...]:
    layers = _layer_count(fields)
    if family.groups is not None:
        return family.groups(fields, layers)
    mixer_kinds = family.mixer_schedule(fields, layers)
    part_kinds = family.feed_forward_schedule(fields, layers)
    names = family.norms if isinstance(family.norms, tuple) else family.norms(fields)
    norms: tuple[Tensor, ...] = ()
    if family.norm_weight:
        bias = fields.flag(family.norm_bias)
        norms = tuple(tensor for name in names for tensor in norm(name, hidden, bias=bias))
    groups = []
    if family.beside is not None:
        groups.append(LayerGroup(layers, family.beside(fields), None, (), beside=True))
    for (mixer_kind, part_kind), count in Counter(
        zip(mixer_kinds, part_kinds, strict=True)
    ).items():
        mixer = part = None
        if mixer_kind is not None:
            if mixer_kind not in family.mixers:
                raise fields.fault("layer_types", f"{mixer_kind} layers are not supported")
            mixer = family.mixers[mixer_kind](fields)
        if part_kind is not None:
            part = family.feed_forwards[part_kind](fields)
        groups.append(LayerGroup(count, mixer, part, norms))
    return tuple(groups)


def _embedding_width(fields: Fields, hidden: int) -> int:
    return fields.optional_size("word_embed_proj_dim") or hidden


def _embedding(family: Family, fields: Fields, hidden: int, vocabulary: int) -> tuple[Tensor, ...]:
    width = _embedding_width(fields, hidden)
    table = TensorClass.EMBEDDING
    tensors: tuple[Tensor, ...] = (
        Tensor("embed_tokens", table, width, vocabulary, Shard.VOCABULARY),
    )
    for name, rows in (
        ("embed_positions", family.learned_positions(fields)),
        ("token_type_embeddings", family.token_types(fields)),
    ):
        if rows:
            tensors += (Tensor(name, table, hidden, rows, Shard.REPLICATED),)
    if width != hidden:
        tensors += linear("project_in", TensorClass.OTHER, width, hidden, Shard.REPLICATED)
    if fields.flag(family.embedding_norm):
        tensors += norm("embedding_norm", hidden, bias=fields.flag(family.norm_bias))
    return tensors


def _head(
    family: Family, fields: Fields, hidden: int, vocabulary: int, tied: bool
) -> tuple[Tensor, ...]:
    tensors: tuple[Tensor, ...] = ()
    if fields.flag(family.final_norm) and family.norm_weight:
        tensors += norm("norm", hidden, bias=fields.flag(family.norm_bias))
    if not family.head:
        return tensors
    width = _embedding_width(fields, hidden)
    if width != hidden:
        tensors += linear("project_out", TensorClass.OTHER, hidden, width, Shard.REPLICATED)
    if not tied:
        tensors += (Tensor("lm_head", TensorClass.HEAD, width, vocabulary, Shard.VOCABULARY),)
    if fields.flag(family.head_bias):
        tensors += (Tensor("lm_head.bias", TensorClass.BIAS, 1, vocabulary, Shard.VOCABULARY),)
    return tensors
