"""Which kind of mixer and of feed-forward part each layer has.

A schedule reads the configuration and names the kind of every layer, in order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from service.core.architecture.config.fields import MAX_LAYERS, MAX_WIDTH, Fields, Flag

LayerKinds: TypeAlias = tuple[str | None, ...]
Schedule: TypeAlias = Callable[[Fields, int], LayerKinds]

#: What ``layer_types`` calls the kinds of mixers.
_LAYER_TYPES: Mapping[str, str] = {
    "full_attention": "full",
    "attention": "full",
    "global_attention": "full",
    "global": "full",
    "local": "sliding",
    "sliding_attention": "sliding",
    "local_attention": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "linear",
    "mamba": "mamba",
    "mamba2": "mamba",
    "conv": "conv",
}


def every(kind: str) -> Schedule:
    """All layers alike."""
    return lambda fields, layers: (kind,) * layers  # noqa: ARG005 - a schedule takes both


def windowed(enabled: Flag = True) -> Schedule:
    """All layers sliding if a window is given and enabled, else full."""

    def schedule(fields: Fields, layers: int) -> LayerKinds:
        slides = fields.has("sliding_window") and fields.flag(enabled)
        return ("sliding" if slides else "full",) * layers

    return schedule


def every_nth_full(period: int | str, other: str = "sliding") -> Schedule:
    """Each ``period``-th layer full, the rest of another kind; the period may be a key's name."""

    def schedule(fields: Fields, layers: int) -> LayerKinds:
        if other == "sliding" and not fields.has("sliding_window"):
            return ("full",) * layers
        step = fields.size(period, MAX_LAYERS) if isinstance(period, str) else period
        return tuple("full" if (layer + 1) % step == 0 else other for layer in range(layers))

    return schedule


def each_nth_starts_full(period: int) -> Schedule:
    """The first of each ``period`` layers full, the others sliding (Granite with windows)."""

    def schedule(fields: Fields, layers: int) -> LayerKinds:  # noqa: ARG001 - a schedule takes both
        return tuple("sliding" if layer % period else "full" for layer in range(layers))

    return schedule


def late_windows(enabled: str) -> Schedule:
    """Layers from ``max_window_layers`` on sliding, if enabled (Qwen2)."""

    def schedule(fields: Fields, layers: int) -> LayerKinds:
        if not fields.flag(enabled) or not fields.has("sliding_window"):
            return ("full",) * layers
        first = fields.count("max_window_layers", MAX_WIDTH)
        return tuple("sliding" if layer >= first else "full" for layer in range(layers))

    return schedule


def layer_types(otherwise: Schedule) -> Schedule:
    """As the list ``layer_types`` says, or by another schedule where there is none."""

    def schedule(fields: Fields, layers: int) -> LayerKinds:
        types = fields.array("layer_types", layers)
        if types is None:
            return otherwise(fields, layers)
        kinds: list[str] = []
        for type_ in types:
            kind = _LAYER_TYPES.get(type_) if isinstance(type_, str) else None
            if kind is None:
                raise fields.fault("layer_types", f"has an unknown kind of layer: {type_!r:.60}")
            kinds.append(kind)
        return tuple(kinds)

    return schedule


def listed_parts(otherwise: Schedule) -> Schedule:
    """As the list ``mlp_layer_types`` says, or by another schedule where there is none."""

    def schedule(fields: Fields, layers: int) -> LayerKinds:
        listed = fields.array("mlp_layer_types", layers)
        if listed is None:
            return otherwise(fields, layers)
        if any(kind not in ("dense", "sparse") for kind in listed):
            raise fields.fault("mlp_layer_types", "must hold dense and sparse")
        return tuple("experts" if kind == "sparse" else "dense" for kind in listed)

    return schedule


def dense_first(fields: Fields, layers: int) -> LayerKinds:
    """``first_k_dense_replace`` dense layers, then experts every ``moe_layer_freq`` (DeepSeek).

    Some list for each layer whether it has experts (MiMo-V2, and what newer libraries save).
    """
    return listed_parts(_dense_first)(fields, layers)


def _dense_first(fields: Fields, layers: int) -> LayerKinds:
    if fields.is_list("moe_layer_freq"):
        listed = fields.array("moe_layer_freq", layers) or ()
        if any(type(one) is not int or one not in (0, 1) for one in listed):
            raise fields.fault("moe_layer_freq", "must hold 1 for layers with experts, else 0")
        return tuple("experts" if one else "dense" for one in listed)
    first = fields.count("first_k_dense_replace", MAX_WIDTH)
    step = fields.optional_size("moe_layer_freq", MAX_LAYERS) or 1
    return tuple(
        "experts" if layer >= first and layer % step == 0 else "dense" for layer in range(layers)
    )


def sparse_steps(fields: Fields, layers: int) -> LayerKinds:
    """Experts each ``decoder_sparse_step`` layers but not in ``mlp_only_layers`` (Qwen2-MoE)."""
    return listed_parts(_sparse_steps)(fields, layers)


def _sparse_steps(fields: Fields, layers: int) -> LayerKinds:
    step = fields.optional_size("decoder_sparse_step", MAX_LAYERS) or 1
    dense = fields.indices("mlp_only_layers", layers) or frozenset()
    return tuple(
        "experts" if layer not in dense and (layer + 1) % step == 0 else "dense"
        for layer in range(layers)
    )


def periodic(kind: str, other: str, period: str, offset: str) -> Schedule:
    """``kind`` where the layer number modulo a period is an offset, both given by keys (Jamba)."""

    def schedule(fields: Fields, layers: int) -> LayerKinds:
        step = fields.size(period, MAX_LAYERS)
        start = fields.count(offset, MAX_LAYERS)
        return tuple(kind if layer % step == start else other for layer in range(layers))

    return schedule
