"""Vision towers of multimodal models, as the tensors they add beside the language model.

Only towers whose every parameter is known are listed; for others the caller says that they are
left out. Widths and biases are those of Hugging Face transformers' modelling classes
(https://github.com/huggingface/transformers, 2024–2026).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from service.core.architecture.config.fields import MAX_LAYERS, Fields
from service.core.architecture.config.parts import linear, norm
from service.core.architecture.tensors import Shard, Tensor, TensorClass

#: Reads the vision section, given the language model's hidden size.
VisionBuilder: TypeAlias = Callable[[Fields, int], tuple[Tensor, ...]]

_MAX_IMAGE = 100_000
_CHANNELS = 3


def _projection(
    name: str, inputs: int, outputs: int, *, bias: bool, row: bool = False, copies: int = 1
) -> tuple[Tensor, ...]:
    shard = Shard.ROW if row else Shard.COLUMN
    return linear(name, TensorClass.OTHER, inputs, outputs, shard, bias=bias, copies=copies)


def _vectors(name: str, width: int, copies: int = 1) -> Tensor:
    return Tensor(name, TensorClass.OTHER, 1, width, Shard.REPLICATED, copies)


def _layer_norms(name: str, width: int, copies: int, *, bias: bool) -> tuple[Tensor, ...]:
    weight = Tensor(name, TensorClass.NORM, 1, width, Shard.REPLICATED, copies)
    shift = Tensor(f"{name}.bias", TensorClass.BIAS, 1, width, Shard.REPLICATED, copies)
    return (weight, shift) if bias else (weight,)


def _encoder(
    fields: Fields,
    layers: int,
    *,
    attention_bias: bool,
    mlp_bias: bool,
    gated: bool,
    norm_bias: bool,
) -> tuple[Tensor, ...]:
    """``layers`` encoder layers: four attention projections, a feed-forward part, two norms."""
    width, inner = fields.size("hidden_size"), fields.size("intermediate_size")
    tensors: tuple[Tensor, ...] = ()
    for name in ("q_proj", "k_proj", "v_proj"):
        tensors += _projection(f"vision.{name}", width, width, bias=attention_bias, copies=layers)
    tensors += _projection(
        "vision.o_proj", width, width, bias=attention_bias, row=True, copies=layers
    )
    for name in ("gate_proj", "up_proj") if gated else ("fc1",):
        tensors += _projection(f"vision.{name}", width, inner, bias=mlp_bias, copies=layers)
    down = "down_proj" if gated else "fc2"
    tensors += _projection(f"vision.{down}", inner, width, bias=mlp_bias, row=True, copies=layers)
    return tensors + _layer_norms("vision.norms", width, 2 * layers, bias=norm_bias)


def _patch_elements(fields: Fields) -> int:
    """Elements of one image patch [-]."""
    return _CHANNELS * fields.size("patch_size", _MAX_IMAGE) ** 2


def _grid(fields: Fields) -> int:
    """Patches of an image [-]."""
    return (fields.size("image_size", _MAX_IMAGE) // fields.size("patch_size", _MAX_IMAGE)) ** 2


def siglip_with_projection(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """SigLIP without pooling head, and one projection after a norm (Gemma 3)."""
    width = fields.size("hidden_size")
    layers = fields.size("num_hidden_layers", MAX_LAYERS)
    return (
        *_projection("vision.patch_embedding", _patch_elements(fields), width, bias=True),
        _vectors("vision.position_embedding", _grid(fields) * width),
        *_encoder(fields, layers, attention_bias=True, mlp_bias=True, gated=False, norm_bias=True),
        *norm("vision.post_layernorm", width, bias=True),
        *norm("mm_soft_emb_norm", width),
        *_projection("mm_input_projection", width, text_hidden, bias=False),
    )


def pixtral_with_merger(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Pixtral's tower, merging 2 × 2 patches before two projections (Mistral Small 3.1)."""
    width = fields.size("hidden_size")
    layers = fields.size("num_hidden_layers", MAX_LAYERS)
    return (
        *_projection("vision.patch_conv", _patch_elements(fields), width, bias=False),
        *norm("vision.ln_pre", width),
        *_encoder(
            fields, layers, attention_bias=False, mlp_bias=False, gated=True, norm_bias=False
        ),
        *norm("projector.norm", width),
        *_projection("merging_layer", 4 * width, width, bias=False),
        *_projection("linear_1", width, text_hidden, bias=False),
        *_projection("linear_2", text_hidden, text_hidden, bias=False),
    )


def qwen25_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Qwen2.5-VL's tower: gated parts, RMS norms, 2 × 2 patches merged."""
    width = fields.size("hidden_size")
    layers = fields.size("depth", MAX_LAYERS)
    frames = fields.size("temporal_patch_size", _MAX_IMAGE)
    merged = fields.size("spatial_merge_size", 64) ** 2 * width
    return (
        *_projection("vision.patch_embed", frames * _patch_elements(fields), width, bias=False),
        *_encoder(fields, layers, attention_bias=True, mlp_bias=True, gated=True, norm_bias=False),
        *norm("merger.ln_q", width),
        *_projection("merger.mlp.0", merged, merged, bias=True),
        *_projection("merger.mlp.2", merged, text_hidden, bias=True, row=True),
    )


def qwen3_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Qwen3-VL's tower, whose features also enter some of the language model's layers."""
    width = fields.size("hidden_size")
    layers = fields.size("depth", MAX_LAYERS)
    frames = fields.size("temporal_patch_size", _MAX_IMAGE)
    merged = fields.size("spatial_merge_size", 64) ** 2 * width
    deep = len(fields.indices("deepstack_visual_indexes", layers) or ())
    return (
        *_projection("vision.patch_embed", frames * _patch_elements(fields), width, bias=True),
        _vectors("vision.pos_embed", fields.size("num_position_embeddings", 10**7) * width),
        *_encoder(fields, layers, attention_bias=True, mlp_bias=True, gated=False, norm_bias=True),
        *norm("merger.norm", width, bias=True),
        *_projection("merger.linear_fc1", merged, merged, bias=True, copies=1 + deep),
        *_projection(
            "merger.linear_fc2", merged, text_hidden, bias=True, row=True, copies=1 + deep
        ),
        *(_layer_norms("deepstack.norm", merged, deep, bias=True) if deep else ()),
    )


def llama4_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Llama 4's tower with pixel shuffle and one projection."""
    width = fields.size("hidden_size")
    layers = fields.size("num_hidden_layers", MAX_LAYERS)
    projected = fields.size("projector_output_dim")
    output = fields.size("vision_output_dim")
    return (
        _vectors("vision.class_embedding", width),
        _vectors("vision.positional_embedding", (_grid(fields) + 1) * width),
        *_projection("vision.patch_embedding", _patch_elements(fields), width, bias=False),
        *_layer_norms("vision.layernorms", width, 2, bias=True),
        *_encoder(fields, layers, attention_bias=True, mlp_bias=True, gated=False, norm_bias=True),
        *_projection("vision_adapter.fc1", fields.size("intermediate_size"), projected, bias=False),
        *_projection("vision_adapter.fc2", projected, projected, bias=False, row=True),
        *_projection("multi_modal_projector", output, text_hidden, bias=False),
    )


def mllama_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Llama 3.2 Vision's tower: local layers, gated global ones, embeddings for tiles."""
    width = fields.size("hidden_size")
    local = fields.size("num_hidden_layers", MAX_LAYERS)
    world = fields.size("num_global_layers", MAX_LAYERS)
    tiles = fields.size("max_num_tiles", 1000)
    ratios = fields.array("supported_aspect_ratios")
    kinds = 1 + (len(ratios) if ratios is not None else 8)
    tokens = _grid(fields) + 1
    tensors: tuple[Tensor, ...] = (
        _vectors("vision.class_embedding", width),
        *_projection("vision.patch_embedding", _patch_elements(fields), width, bias=False),
        _vectors("vision.position_embedding", tokens * width),
        _vectors("vision.tile_embedding", kinds * tiles * tokens * width),
        _vectors("vision.tile_positions", kinds * tiles * width, copies=2),
        # One gate for each of the three embeddings, two for each global layer.
        _vectors("vision.gates", 3 + 2 * world),
        *_layer_norms("vision.layernorms", width, 2, bias=True),
    )
    tensors += _encoder(
        fields, local + world, attention_bias=False, mlp_bias=True, gated=False, norm_bias=True
    )
    output = fields.size("vision_output_dim")
    return tensors + _projection("multi_modal_projector", output, text_hidden, bias=True)


def gemma4_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Gemma 4's tower: gated parts, norms on both sides, patches pooled before one projection."""
    width, inner = fields.size("hidden_size"), fields.size("intermediate_size")
    layers = fields.size("num_hidden_layers", MAX_LAYERS)
    heads, groups = fields.size("num_attention_heads"), fields.size("num_key_value_heads")
    head = fields.size("head_dim")
    tensors: tuple[Tensor, ...] = (
        *_projection("vision.patch_embedding", _patch_elements(fields), width, bias=False),
        _vectors("vision.positions", 2 * fields.size("position_embedding_size", 10**7) * width),
    )
    for name, inputs, outputs in (
        ("q_proj", width, heads * head),
        ("k_proj", width, groups * head),
        ("v_proj", width, groups * head),
        ("gate_proj", width, inner),
        ("up_proj", width, inner),
    ):
        tensors += _projection(f"vision.{name}", inputs, outputs, bias=False, copies=layers)
    for name, inputs in (("o_proj", heads * head), ("down_proj", inner)):
        tensors += _projection(f"vision.{name}", inputs, width, bias=False, row=True, copies=layers)
    tensors += _layer_norms("vision.norms", width, 4 * layers, bias=False)
    tensors += _layer_norms("vision.qk_norms", head, 2 * layers, bias=False)
    if fields.flag("standardize"):
        tensors += (_vectors("vision.standard", 2 * width),)
    if fields.flag("use_clipped_linears"):
        # Bounds of what goes into and comes out of seven matrices a layer.
        tensors += (_vectors("vision.bounds", 4 * 7, copies=layers),)
    return tensors + _projection("embed_vision", width, text_hidden, bias=False)


_QWEN3_VISION: Mapping[str, object] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "depth": 27,
    "patch_size": 16,
    "temporal_patch_size": 2,
    "spatial_merge_size": 2,
    "num_position_embeddings": 2304,
    "deepstack_visual_indexes": (8, 16, 24),
}
_QWEN35_VISION = {**_QWEN3_VISION, "deepstack_visual_indexes": ()}

#: Vision towers by the ``model_type`` of the whole, with the defaults of their sections.
VISION_TOWERS: Mapping[str, tuple[VisionBuilder, Mapping[str, object]]] = {
    "gemma3": (
        siglip_with_projection,
        {
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_hidden_layers": 27,
            "image_size": 896,
            "patch_size": 14,
        },
    ),
    "gemma4": (
        gemma4_vision,
        {
            "hidden_size": 768,
            "intermediate_size": 3072,
            "num_hidden_layers": 16,
            "num_attention_heads": 12,
            "num_key_value_heads": 12,
            "head_dim": 64,
            "patch_size": 16,
            "pooling_kernel_size": 3,
            "position_embedding_size": 10_240,
        },
    ),
    "mistral3": (
        pixtral_with_merger,
        {
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 24,
            "image_size": 1540,
            "patch_size": 14,
        },
    ),
    "qwen2_5_vl": (
        qwen25_vision,
        {
            "hidden_size": 1280,
            "intermediate_size": 3420,
            "depth": 32,
            "patch_size": 14,
            "temporal_patch_size": 2,
            "spatial_merge_size": 2,
            "window_size": 112,
            "fullatt_block_indexes": (7, 15, 23, 31),
        },
    ),
    "qwen3_vl": (qwen3_vision, _QWEN3_VISION),
    "qwen3_vl_moe": (qwen3_vision, _QWEN3_VISION),
    "qwen3_5": (qwen3_vision, _QWEN35_VISION),
    "qwen3_5_moe": (qwen3_vision, _QWEN35_VISION),
    "llama4": (
        llama4_vision,
        {
            "hidden_size": 1408,
            "intermediate_size": 5632,
            "num_hidden_layers": 34,
            "image_size": 336,
            "patch_size": 14,
            "projector_output_dim": 4096,
            "vision_output_dim": 4096,
        },
    ),
    "mllama": (
        mllama_vision,
        {
            "hidden_size": 1280,
            "intermediate_size": 5120,
            "num_hidden_layers": 32,
            "num_global_layers": 8,
            "image_size": 448,
            "patch_size": 14,
            "max_num_tiles": 4,
            "vision_output_dim": 7680,
        },
    ),
}
