"""Vision towers of multimodal models, as the tensors they add beside the language model.

Only towers whose every parameter is known are listed; for others the caller says that they are
left out. Widths and biases are those of Hugging Face transformers' modelling classes
(https://github.com/huggingface/transformers, 2024–2026).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from service.core.architecture.config.families.compound_towers import (
    ERNIE_VISION,
    STEP3_VISION,
    STEP37_VISION,
    deepseek_ocr_vision,
    ernie_vision,
    step3_vision,
    step37_vision,
)
from service.core.architecture.config.families.images import IMAGES
from service.core.architecture.config.families.projectors import JOINED
from service.core.architecture.config.families.tower_parts import (
    MAX_IMAGE,
    encoder,
    grid,
    layer_norms,
    patch_elements,
    projection,
    vectors,
)
from service.core.architecture.config.families.vit import TOWERS
from service.core.architecture.config.fields import MAX_LAYERS, Fields
from service.core.architecture.config.parts import norm
from service.core.architecture.model import ImageEncoder
from service.core.architecture.tensors import Tensor

#: Reads the vision section, given the language model's hidden size.
VisionBuilder: TypeAlias = Callable[[Fields, int], tuple[Tensor, ...]]

#: What names of tensors begin with that each patch of an image is multiplied by.
_OF_TOWER = "vision."


def siglip_with_projection(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """SigLIP and one projection after a norm (Gemma 3)."""
    return (
        *TOWERS["siglip_vision_model"].tensors(fields),
        *norm("mm_soft_emb_norm", fields.size("hidden_size")),
        *projection("mm_input_projection", fields.size("hidden_size"), text_hidden, bias=False),
    )


def pixtral_with_merger(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Pixtral's tower, merging 2 × 2 patches before two projections (Mistral Small 3.1)."""
    width = fields.size("hidden_size")
    return (
        *TOWERS["pixtral"].tensors(fields),
        *norm("projector.norm", width),
        *projection("merging_layer", 4 * width, width, bias=False),
        *projection("linear_1", width, text_hidden, bias=False),
        *projection("linear_2", text_hidden, text_hidden, bias=False),
    )


def qwen2_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Qwen2-VL's tower, whose ``hidden_size`` is that of the language model."""
    width = fields.size("hidden_size")
    layers = fields.size("depth", MAX_LAYERS)
    frames = fields.size("temporal_patch_size", MAX_IMAGE)
    merged = fields.size("spatial_merge_size", 64) ** 2 * width
    return (
        *projection("vision.patch_embed", frames * patch_elements(fields), width, bias=False),
        *encoder(fields, layers, attention_bias=True, mlp_bias=True, gated=False, norm_bias=True),
        *norm("merger.ln_q", width, bias=True),
        *projection("merger.mlp.0", merged, merged, bias=True),
        *projection("merger.mlp.2", merged, text_hidden, bias=True, row=True),
    )


def qwen25_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Qwen2.5-VL's tower: gated parts, RMS norms, 2 × 2 patches merged.

    Keys and values may have fewer heads than queries (EXAONE 4.5).
    """
    width = fields.size("hidden_size")
    groups = fields.optional_size("num_key_value_heads")
    heads = fields.size("num_heads") if groups else 1
    if width % heads:
        raise fields.fault("num_heads", f"must divide the width {width:,}")
    layers = fields.size("depth", MAX_LAYERS)
    frames = fields.size("temporal_patch_size", MAX_IMAGE)
    merged = fields.size("spatial_merge_size", 64) ** 2 * width
    return (
        *projection("vision.patch_embed", frames * patch_elements(fields), width, bias=False),
        *encoder(
            fields,
            layers,
            attention_bias=True,
            mlp_bias=True,
            gated=True,
            norm_bias=False,
            kv_width=groups * (width // heads) if groups else None,
        ),
        *norm("merger.ln_q", width),
        *projection("merger.mlp.0", merged, merged, bias=True),
        *projection("merger.mlp.2", merged, text_hidden, bias=True, row=True),
    )


def qwen3_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Qwen3-VL's tower, whose features also enter some of the language model's layers."""
    width = fields.size("hidden_size")
    layers = fields.size("depth", MAX_LAYERS)
    frames = fields.size("temporal_patch_size", MAX_IMAGE)
    merged = fields.size("spatial_merge_size", 64) ** 2 * width
    deep = len(fields.indices("deepstack_visual_indexes", layers) or ())
    return (
        *projection("vision.patch_embed", frames * patch_elements(fields), width, bias=True),
        vectors("vision.pos_embed", fields.size("num_position_embeddings", 10**7) * width),
        *encoder(fields, layers, attention_bias=True, mlp_bias=True, gated=False, norm_bias=True),
        *norm("merger.norm", width, bias=True),
        *projection("merger.linear_fc1", merged, merged, bias=True, copies=1 + deep),
        *projection("merger.linear_fc2", merged, text_hidden, bias=True, row=True, copies=1 + deep),
        *(layer_norms("deepstack.norm", merged, deep, bias=True) if deep else ()),
    )


def llama4_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Llama 4's tower with pixel shuffle and one projection."""
    width = fields.size("hidden_size")
    layers = fields.size("num_hidden_layers", MAX_LAYERS)
    projected = fields.size("projector_output_dim")
    output = fields.size("vision_output_dim")
    return (
        vectors("vision.class_embedding", width),
        vectors("vision.positional_embedding", (grid(fields) + 1) * width),
        *projection("vision.patch_embedding", patch_elements(fields), width, bias=False),
        *layer_norms("vision.layernorms", width, 2, bias=True),
        *encoder(fields, layers, attention_bias=True, mlp_bias=True, gated=False, norm_bias=True),
        *projection("vision_adapter.fc1", fields.size("intermediate_size"), projected, bias=False),
        *projection("vision_adapter.fc2", projected, projected, bias=False, row=True),
        *projection("multi_modal_projector", output, text_hidden, bias=False),
    )


def mllama_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Llama 3.2 Vision's tower: local layers, gated global ones, embeddings for tiles."""
    width = fields.size("hidden_size")
    local = fields.size("num_hidden_layers", MAX_LAYERS)
    world = fields.size("num_global_layers", MAX_LAYERS)
    tiles = fields.size("max_num_tiles", 1000)
    ratios = fields.array("supported_aspect_ratios")
    kinds = 1 + (len(ratios) if ratios is not None else 8)
    tokens = grid(fields) + 1
    tensors: tuple[Tensor, ...] = (
        vectors("vision.class_embedding", width),
        *projection("vision.patch_embedding", patch_elements(fields), width, bias=False),
        vectors("vision.position_embedding", tokens * width),
        vectors("vision.tile_embedding", kinds * tiles * tokens * width),
        vectors("vision.tile_positions", kinds * tiles * width, copies=2),
        # One gate for each of the three embeddings, two for each global layer.
        vectors("vision.gates", 3 + 2 * world),
        *layer_norms("vision.layernorms", width, 2, bias=True),
    )
    tensors += encoder(
        fields, local + world, attention_bias=False, mlp_bias=True, gated=False, norm_bias=True
    )
    output = fields.size("vision_output_dim")
    return tensors + projection("multi_modal_projector", output, text_hidden, bias=True)


def gemma4_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Gemma 4's tower: gated parts, norms on both sides, patches pooled before one projection."""
    width, inner = fields.size("hidden_size"), fields.size("intermediate_size")
    layers = fields.size("num_hidden_layers", MAX_LAYERS)
    heads, groups = fields.size("num_attention_heads"), fields.size("num_key_value_heads")
    head = fields.size("head_dim")
    tensors: tuple[Tensor, ...] = (
        *projection("vision.patch_embedding", patch_elements(fields), width, bias=False),
        vectors("vision.positions", 2 * fields.size("position_embedding_size", 10**7) * width),
    )
    for name, inputs, outputs in (
        ("q_proj", width, heads * head),
        ("k_proj", width, groups * head),
        ("v_proj", width, groups * head),
        ("gate_proj", width, inner),
        ("up_proj", width, inner),
    ):
        tensors += projection(f"vision.{name}", inputs, outputs, bias=False, copies=layers)
    for name, inputs in (("o_proj", heads * head), ("down_proj", inner)):
        tensors += projection(f"vision.{name}", inputs, width, bias=False, row=True, copies=layers)
    tensors += layer_norms("vision.norms", width, 4 * layers, bias=False)
    tensors += layer_norms("vision.qk_norms", head, 2 * layers, bias=False)
    if fields.flag("standardize"):
        tensors += (vectors("vision.standard", 2 * width),)
    if fields.flag("use_clipped_linears"):
        # Bounds of what goes into and comes out of seven matrices a layer.
        tensors += (vectors("vision.bounds", 4 * 7, copies=layers),)
    return tensors + projection("embed_vision", width, text_hidden, bias=False)


def hyperclovax_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Qwen2.5-VL's tower with its own width out, and one projection (HyperCLOVA X SEED)."""
    out = fields.size("out_hidden_size")
    return (
        *qwen25_vision(fields, out),
        *projection("projector", out, text_hidden, bias=True),
    )


def _glm_merger(fields: Fields, inner: int) -> tuple[Tensor, ...]:
    """GLM's way out of the tower: a convolution over 2 × 2 patches, then a gated part."""
    width, out = fields.size("hidden_size"), fields.size("out_hidden_size")
    merged = fields.size("spatial_merge_size", 64) ** 2 * width
    return (
        *projection("downsample", merged, out, bias=True),
        *projection("merger.proj", out, out, bias=False),
        *norm("merger.post_projection_norm", out, bias=True),
        *projection("merger.gate_proj", out, inner, bias=False),
        *projection("merger.up_proj", out, inner, bias=False),
        *projection("merger.down_proj", inner, out, bias=False, row=True),
    )


def _glm_patches(fields: Fields) -> tuple[Tensor, ...]:
    frames = fields.size("temporal_patch_size", MAX_IMAGE)
    width = fields.size("hidden_size")
    return projection("vision.patch_embed", frames * patch_elements(fields), width, bias=True)


def glm4v_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:  # noqa: ARG001 - as the others
    """GLM-4.1V's tower, whose feed-forward parts are as wide as the language model."""
    width, layers = fields.size("hidden_size"), fields.size("depth", MAX_LAYERS)
    bias = fields.flag("attention_bias")
    inner = fields.size("out_hidden_size")
    return (
        *_glm_patches(fields),
        vectors("vision.position_embedding", grid(fields) * width),
        *encoder(
            fields.replaced(intermediate_size=inner),
            layers,
            attention_bias=bias,
            output_bias=False,
            mlp_bias=False,
            gated=True,
            norm_bias=False,
        ),
        *norm("vision.post_conv_layernorm", width),
        *norm("vision.post_layernorm", width),
        *_glm_merger(fields, fields.size("intermediate_size")),
    )


def glm_ocr_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:  # noqa: ARG001 - as the others
    """GLM-OCR's tower, with norms on queries and keys and without a table of positions."""
    width, layers = fields.size("hidden_size"), fields.size("depth", MAX_LAYERS)
    bias, heads = fields.flag("attention_bias"), fields.size("num_heads")
    if width % heads:
        raise fields.fault("num_heads", f"must divide the width {width:,}")
    return (
        *_glm_patches(fields),
        *encoder(fields, layers, attention_bias=bias, mlp_bias=bias, gated=True, norm_bias=False),
        *layer_norms("vision.qk_norms", width // heads, 2 * layers, bias=False),
        *norm("vision.post_layernorm", width),
        *_glm_merger(fields, fields.size("out_hidden_size") * fields.size("in_channels")),
    )


_GEMMA3_VISION: Mapping[str, object] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "image_size": 896,
    "patch_size": 14,
    "vision_use_head": False,
}
_PIXTRAL: Mapping[str, object] = {
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 24,
    "image_size": 1540,
    "patch_size": 14,
}
_QWEN2_VISION: Mapping[str, object] = {
    "embed_dim": 1280,
    "mlp_ratio": 4,
    "depth": 32,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "spatial_merge_size": 2,
}
_QWEN25_VISION: Mapping[str, object] = {
    "hidden_size": 1280,
    "intermediate_size": 3420,
    "depth": 32,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "spatial_merge_size": 2,
    "window_size": 112,
    "fullatt_block_indexes": (7, 15, 23, 31),
}
_GLM_VISION: Mapping[str, object] = {
    "hidden_size": 1536,
    "intermediate_size": 13_696,
    "out_hidden_size": 4096,
    "depth": 24,
    "num_heads": 12,
    "in_channels": 3,
    "image_size": 336,
    "patch_size": 14,
    "temporal_patch_size": 2,
    "spatial_merge_size": 2,
    "attention_bias": False,
}
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
    "gemma3": (siglip_with_projection, _GEMMA3_VISION),
    "shieldgemma2": (siglip_with_projection, _GEMMA3_VISION),
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
        _PIXTRAL,
    ),
    "mistral_large4": (
        pixtral_with_merger,
        {**_PIXTRAL, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 30},
    ),
    "qwen2_5_vl": (
        qwen25_vision,
        _QWEN25_VISION,
    ),
    "qwen2_vl": (qwen2_vision, _QWEN2_VISION),
    "exaone4_5": (
        qwen25_vision,
        {**_QWEN25_VISION, "hidden_size": 3584, "num_heads": 16, "num_key_value_heads": 8},
    ),
    "hyperclovax_vision_v2": (hyperclovax_vision, {**_QWEN25_VISION, "out_hidden_size": 3584}),
    "lighton_ocr": (pixtral_with_merger, _PIXTRAL),
    "glm4v": (glm4v_vision, _GLM_VISION),
    "glm4v_moe": (glm4v_vision, _GLM_VISION),
    "glm46v": (glm4v_vision, _GLM_VISION),
    "glmga": (glm4v_vision, _GLM_VISION),
    "glm_ocr": (
        glm_ocr_vision,
        {
            **_GLM_VISION,
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_heads": 16,
            "out_hidden_size": 1536,
            "attention_bias": True,
        },
    ),
    "qwen2_5_omni": (qwen25_vision, _QWEN25_VISION),
    "qwen2_5_omni_thinker": (qwen25_vision, _QWEN25_VISION),
    "qwen3_omni_moe": (qwen3_vision, _QWEN3_VISION),
    "qwen3_omni_moe_thinker": (qwen3_vision, _QWEN3_VISION),
    "qwen3_vl": (qwen3_vision, _QWEN3_VISION),
    "cosmos3_omni": (qwen3_vision, _QWEN3_VISION),
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
    "deepseek_ocr": (deepseek_ocr_vision, {}),
    "ernie4_5_moe_vl": (ernie_vision, ERNIE_VISION),
    "ernie4_5_vl_moe": (ernie_vision, ERNIE_VISION),
    "step3p7": (step37_vision, STEP37_VISION),
    "step3_vl": (step3_vision, STEP3_VISION),
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


def _plain(fields: Fields) -> Fields:
    """The section with the tower's own widths under the usual keys, where it has other ones."""
    for name in ("embed_dim", "width"):
        if fields.has(name):
            fields = fields.replaced(hidden_size=fields.size(name))
    if fields.has("layers"):
        fields = fields.replaced(num_hidden_layers=fields.size("layers", MAX_LAYERS))
    ratio = fields.ratio("mlp_ratio", 64.0)
    if ratio is None:
        return fields
    return fields.replaced(intermediate_size=round(fields.size("hidden_size") * ratio))


def read_vision(
    config: Mapping[str, Any], outer: str, text_hidden: int
) -> tuple[tuple[Tensor, ...], ImageEncoder | None] | None:
    """The tensors of a model's vision part and what it makes of images.

    Parameters
    ----------
    config
        The whole configuration, with the section ``vision_config``.
    outer
        Its ``model_type``.
    text_hidden
        Hidden size of the language model.

    Returns
    -------
    tuple
        Tensors, and the encoder where it is known what becomes of images; None if the parts are
        not known.

    Raises
    ------
    ConfigNotUnderstood
        If a size is missing or absurd.
    """
    whole = Fields(config, JOINED[outer].defaults if outer in JOINED else {})
    if outer in VISION_TOWERS:
        build, defaults = VISION_TOWERS[outer]
        section = whole.section("vision_config", defaults)
        if section is None:
            return None
        section = _plain(section)
        tensors = build(section, text_hidden)
    elif outer in JOINED:
        joined = JOINED[outer]
        named = whole.section("vision_config", {"model_type": joined.tower})
        tower = None if named is None else TOWERS.get(named.text("model_type") or joined.tower)
        section = None if tower is None else whole.section("vision_config", tower.defaults)
        if tower is None or section is None:
            return None
        section = _plain(section)
        tensors = (*tower.tensors(section), *joined.projector(section, whole, text_hidden))
    else:
        return None
    if outer not in IMAGES:
        return tensors, None
    of_tower = tuple(one for one in tensors if one.name.startswith(_OF_TOWER))
    images = replace(
        IMAGES[outer](section),
        tower=of_tower,
        projector=tuple(one for one in tensors if one not in of_tower),
    )
    return tensors, images
