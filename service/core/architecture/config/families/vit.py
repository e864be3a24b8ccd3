"""Plain vision transformers, which many multimodal models have, by the kind of their section.

Widths, biases and defaults are those of the configuration and modelling classes of Hugging Face
transformers (https://github.com/huggingface/transformers, 2024–2026).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from service.core.architecture.config.families.tower_parts import (
    encoder,
    grid,
    layer_norms,
    patch_elements,
    projection,
    vectors,
)
from service.core.architecture.config.fields import MAX_LAYERS, Fields, Flag
from service.core.architecture.tensors import Tensor

_MOST_POSITIONS = 10**7
#: Bounds on how many patches are merged along a side, and on frames that make one patch.
_MERGED = 64


@dataclass(frozen=True, slots=True)
class VisionTransformer:
    """What the towers of one kind have.

    Attributes
    ----------
    defaults
        Values of keys that a section may leave out.
    extra_tokens
        Reads how many tokens stand beside the patches (class tokens).
    extra_positions
        Whether these have rows of the position table, too.
    positions
        Reads the rows of the position table for patches, 0 without one.
    norm_kind
        Key that says whether norms are RMS norms, which have no bias.
    qk_norm
        Whether queries and keys are normed over all heads together.
    outer_norms
        Norms before the first layer and after the last.
    layer_scale
        Whether both parts of each layer end with a learned scale.
    pooling_head
        Whether there is an attention-pooled head, which language models do not read (SigLIP).
    frames
        Key of how many frames one patch spans, "" for images only.
    video_frames
        The same for patches of films, where they have a projection of their own.
    merger
        Whether a block after some layer joins 2 × 2 patches (MiniCPM-V 4.6).
    """

    defaults: Mapping[str, object]
    patch_bias: bool = True
    extra_tokens: Callable[[Fields], int] = lambda fields: 0  # noqa: ARG005
    extra_positions: bool = True
    positions: Callable[[Fields], int] = grid
    attention_bias: Flag = True
    output_bias: Flag | None = None
    mlp_bias: Flag = True
    gated: bool = False
    norm_bias: bool = True
    norm_kind: str = ""
    qk_norm: Flag = False
    outer_norms: int = 1
    layer_scale: bool = False
    pooling_head: Flag = False
    frames: str = ""
    video_frames: str = ""
    merger: bool = False

    def tensors(self, fields: Fields) -> tuple[Tensor, ...]:
        """All tensors of a tower of these sizes.

        Raises
        ------
        ConfigNotUnderstood
            If a size is missing or absurd.
        """
        width = fields.size("hidden_size")
        layers = fields.size("num_hidden_layers", MAX_LAYERS)
        frames = fields.size(self.frames, _MERGED) if self.frames else 1
        rows, extra = self.positions(fields), self.extra_tokens(fields)
        bias = fields.flag(self.attention_bias)
        shifted = self.norm_bias
        if self.norm_kind and fields.text(self.norm_kind) == "rms_norm":
            shifted = False
        tensors = projection(
            "vision.patch_embedding",
            frames * patch_elements(fields),
            width,
            bias=self.patch_bias,
        )
        if self.video_frames:
            elements = fields.size(self.video_frames, _MERGED) * patch_elements(fields)
            tensors += projection("video_patches", elements, width, bias=self.patch_bias)
        if rows:
            rows += extra if self.extra_positions else 0
            tensors += (vectors("vision.position_embedding", rows * width),)
        if extra:
            tensors += (vectors("vision.class_embedding", extra * width),)
        tensors += encoder(
            fields,
            layers,
            attention_bias=bias,
            output_bias=bias if self.output_bias is None else fields.flag(self.output_bias),
            mlp_bias=fields.flag(self.mlp_bias),
            gated=self.gated,
            norm_bias=shifted,
        )
        if fields.flag(self.qk_norm):
            tensors += layer_norms("vision.qk_norms", width, 2 * layers, bias=False)
        if self.outer_norms:
            tensors += layer_norms("vision.outer", width, self.outer_norms, bias=shifted)
        if self.layer_scale:
            tensors += (vectors("vision.layer_scale", width, 2 * layers),)
        if self.merger:
            tensors += _merger(fields)
        if fields.flag(self.pooling_head):
            tensors += (vectors("vision.head", _pooling_head(fields)),)
        return tensors


def _pooling_head(fields: Fields) -> int:
    """Parameters of SigLIP's head: a probe, attention, a norm and a feed-forward part [-]."""
    width, inner = fields.size("hidden_size"), fields.size("intermediate_size")
    return width + 4 * width * (width + 1) + 2 * width + 2 * width * inner + inner + width


def _merger(fields: Fields) -> tuple[Tensor, ...]:
    """MiniCPM-V 4.6's block inside of the tower: attention, then 2 × 2 patches become one."""
    width = fields.size("hidden_size")
    joined, inner = 4 * width, 4 * fields.size("intermediate_size")
    return (
        *projection("vision.merger.attention", width, width, bias=True, copies=4),
        *layer_norms("vision.merger.norm", width, 1, bias=True),
        *layer_norms("vision.merger.pre_norm", joined, 1, bias=True),
        *projection("merger.linear_1", joined, inner, bias=True),
        *projection("merger.linear_2", inner, width, bias=True, row=True),
    )


def _one_token(fields: Fields) -> int:  # noqa: ARG001 - same shape as the others
    return 1


def _radio_tokens(fields: Fields) -> int:
    """Class and register tokens of C-RADIO [-]."""
    return fields.count("num_cls_tokens") + fields.count("num_registers")


def _radio_positions(fields: Fields) -> int:
    """Rows of C-RADIO's table, for the largest image [-]."""
    return (fields.size("max_img_size", 100_000) // fields.size("patch_size", 100_000)) ** 2


def _stated_positions(name: str) -> Callable[[Fields], int]:
    return lambda fields: fields.size(name, _MOST_POSITIONS)


def _no_positions(fields: Fields) -> int:  # noqa: ARG001 - same shape as the others
    return 0


def _moon_positions(fields: Fields) -> int:
    """Rows of MoonViT's table, which is resized to the image [-]."""
    return fields.size("pos_emb_height", 10_000) * fields.size("pos_emb_width", 10_000)


def _first_moon_positions(fields: Fields) -> int:
    """The same under the names of Kimi-VL [-]."""
    rows = fields.size("init_pos_emb_height", 10_000)
    return rows * fields.size("init_pos_emb_width", 10_000)


_VIT_BASE: Mapping[str, object] = {
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
}
_SMALL_IMAGE: Mapping[str, object] = {**_VIT_BASE, "image_size": 224}
_SIGLIP_DEFAULTS = {**_SMALL_IMAGE, "patch_size": 16, "vision_use_head": True}
_SO400M: Mapping[str, object] = {
    "hidden_size": 1152,
    "intermediate_size": 4304,
    "num_hidden_layers": 27,
    "image_size": 384,
    "patch_size": 14,
    "vision_use_head": True,
}
_MINICPM = VisionTransformer({**_SMALL_IMAGE, "patch_size": 16}, merger=True)
_IDEFICS3 = VisionTransformer({**_SMALL_IMAGE, "hidden_size": 1152, "patch_size": 32})

#: Towers by the ``model_type`` of their section.
TOWERS: Mapping[str, VisionTransformer] = {
    "clip_vision_model": VisionTransformer(
        {**_SMALL_IMAGE, "patch_size": 32},
        patch_bias=False,
        extra_tokens=_one_token,
        outer_norms=2,
    ),
    "siglip_vision_model": VisionTransformer(_SIGLIP_DEFAULTS, pooling_head="vision_use_head"),
    "siglip_so400m": VisionTransformer(_SO400M, pooling_head="vision_use_head"),
    "siglip_so400m_448": VisionTransformer(
        {**_SO400M, "image_size": 448}, pooling_head="vision_use_head"
    ),
    "siglip2_vision_model": VisionTransformer(
        {**_SIGLIP_DEFAULTS, "num_patches": 256},
        positions=_stated_positions("num_patches"),
        pooling_head="vision_use_head",
    ),
    "idefics3_vision": _IDEFICS3,
    "smolvlm_vision": _IDEFICS3,
    "minicpmv4_6_vision": _MINICPM,
    "minicpmv4_7_vision": _MINICPM,
    "internvl_vision": VisionTransformer(
        {
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 24,
            "image_size": 448,
            "patch_size": 14,
            "attention_bias": False,
        },
        extra_tokens=_one_token,
        attention_bias="attention_bias",
        output_bias=True,
        norm_kind="norm_type",
        qk_norm="use_qk_norm",
        outer_norms=0,
        layer_scale=True,
    ),
    "intern_vit_6b": VisionTransformer(
        {
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 24,
            "image_size": 448,
            "patch_size": 14,
            "qkv_bias": False,
        },
        extra_tokens=_one_token,
        attention_bias="qkv_bias",
        output_bias=True,
        norm_kind="norm_type",
        qk_norm="qk_normalization",
        outer_norms=0,
        layer_scale=True,
    ),
    "pixtral": VisionTransformer(
        {
            "hidden_size": 1024,
            "intermediate_size": 4096,
            "num_hidden_layers": 24,
            "image_size": 1024,
            "patch_size": 16,
        },
        patch_bias=False,
        positions=_no_positions,
        attention_bias=False,
        mlp_bias=False,
        gated=True,
        norm_bias=False,
    ),
    "video_llama_3_vision": VisionTransformer(
        {**_VIT_BASE, "patch_size": 16}, positions=_no_positions
    ),
    "kimi_k25_vision": VisionTransformer(
        {
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_hidden_layers": 27,
            "patch_size": 14,
            "pos_emb_height": 64,
            "pos_emb_width": 64,
        },
        positions=_moon_positions,
    ),
    "moonvit": VisionTransformer(
        {
            "hidden_size": 1152,
            "intermediate_size": 4304,
            "num_hidden_layers": 27,
            "patch_size": 14,
            "init_pos_emb_height": 64,
            "init_pos_emb_width": 64,
        },
        positions=_first_moon_positions,
    ),
    "minimax_m3_vl_vision": VisionTransformer(
        {
            "hidden_size": 1280,
            "intermediate_size": 5120,
            "num_hidden_layers": 32,
            "patch_size": 14,
            "temporal_patch_size": 2,
            "spatial_merge_size": 2,
        },
        patch_bias=False,
        positions=_no_positions,
        frames="temporal_patch_size",
    ),
    "radio": VisionTransformer(
        {
            "hidden_size": 1280,
            "mlp_ratio": 4.0,
            "num_hidden_layers": 32,
            "patch_size": 16,
            "max_img_size": 2048,
            "num_cls_tokens": 3,
            "num_registers": 7,
            "video_temporal_patch_size": 2,
            "qkv_bias": True,
        },
        patch_bias=False,
        extra_tokens=_radio_tokens,
        extra_positions=False,
        positions=_radio_positions,
        attention_bias="qkv_bias",
        output_bias=True,
        outer_norms=0,
        layer_scale=True,
        video_frames="video_temporal_patch_size",
    ),
}
