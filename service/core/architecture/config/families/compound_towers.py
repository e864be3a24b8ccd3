"""Vision towers of several parts, or with convolutions after them: DeepSeek-OCR, ERNIE and Step.

Widths and biases are those of Hugging Face transformers' modelling classes
(https://github.com/huggingface/transformers, 2024–2026) or, for DeepSeek-OCR and Step3, of the
modelling code published with their checkpoints.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

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
from service.core.architecture.tensors import Tensor

#: Elements that a convolution of 3 × 3 reads of each channel.
_NINE = 9
#: Patches along a side of the windows of SAM's layers that do not see the whole (ImageEncoderViT).
_SAM_WINDOW = 14
#: Channels of SAM's neck.
_SAM_NECK = 256
_CLIP = replace(TOWERS["clip_vision_model"], outer_norms=1)
_SAM: Mapping[str, object] = {
    "image_size": 1024,
    "patch_size": 16,
    "width": 768,
    "layers": 12,
    "heads": 12,
    "global_attn_indexes": (2, 5, 8, 11),
    "downsample_channels": (512, 1024),
}
_CLIP_LARGE: Mapping[str, object] = {
    "image_size": 224,
    "patch_size": 14,
    "hidden_size": 1024,
    "num_hidden_layers": 24,
}
#: DeepSeek-OCR's configuration names both of its towers by these.
SAM_KEY, CLIP_KEY = "sam_vit_b", "clip-l-14-224"


def _sam(fields: Fields) -> tuple[tuple[Tensor, ...], int]:
    """SAM's encoder and the convolutions after it, and their width out."""
    width, layers = fields.size("width"), fields.size("layers", MAX_LAYERS)
    heads = fields.size("heads")
    if width % heads:
        raise fields.fault("heads", f"must divide the width {width:,}")
    side = fields.size("image_size", MAX_IMAGE) // fields.size("patch_size", MAX_IMAGE)
    whole = len(fields.indices("global_attn_indexes", layers) or ())
    head = width // heads
    sized = fields.replaced(hidden_size=width, intermediate_size=4 * width)
    tensors: tuple[Tensor, ...] = (
        *projection("vision.sam.patch_embed", patch_elements(fields), width, bias=True),
        vectors("vision.sam.pos_embed", grid(fields) * width),
        *encoder(sized, layers, attention_bias=True, mlp_bias=True, gated=False, norm_bias=True),
    )
    for count, reach in ((layers - whole, _SAM_WINDOW), (whole, side)):
        if count:
            # Relative positions along both sides.
            tensors += (vectors("vision.sam.rel_pos", 2 * (2 * reach - 1) * head, count),)
    tensors += (
        *projection("vision.sam.neck.0", width, _SAM_NECK, bias=False),
        *layer_norms("vision.sam.neck.norms", _SAM_NECK, 2, bias=True),
        *projection("vision.sam.neck.2", _NINE * _SAM_NECK, _SAM_NECK, bias=False),
    )
    channels = _SAM_NECK
    for name, made in enumerate(fields.array("downsample_channels") or (), 2):
        if type(made) is not int or not 1 <= made <= MAX_IMAGE:
            raise fields.fault("downsample_channels", "must hold integers")
        tensors += projection(f"sam.net_{name}", _NINE * channels, made, bias=False)
        channels = made
    return tensors, channels


def deepseek_ocr_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """DeepSeek-OCR: SAM, then CLIP on what it makes; both are joined and projected once.

    References
    ----------
    DeepSeek-AI, DeepSeek-OCR, 2025, section 3.2, https://arxiv.org/abs/2510.18234
    """
    sam = fields.section(SAM_KEY, _SAM)
    clip = fields.section(CLIP_KEY, _CLIP_LARGE)
    if sam is None or clip is None:
        raise fields.fault(SAM_KEY if sam is None else CLIP_KEY, "is missing")
    if clip.has("width"):
        clip = clip.replaced(hidden_size=clip.size("width"))
    if clip.has("layers"):
        clip = clip.replaced(num_hidden_layers=clip.size("layers", MAX_LAYERS))
    width = clip.size("hidden_size")
    first, made = _sam(sam)
    return (
        *first,
        *_CLIP.tensors(clip.replaced(intermediate_size=4 * width)),
        *projection("projector", made + width, text_hidden, bias=True),
        vectors("image_newline", text_hidden),
        vectors("view_seperator", text_hidden),
    )


def ernie_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """ERNIE 4.5 VL: 2 × 2 patches of one frame or two are joined, each by a part of its own."""
    width, layers = fields.size("hidden_size"), fields.size("depth", MAX_LAYERS)
    joined = fields.size("spatial_merge_size", 64) ** 2 * width
    frames = fields.size("temporal_merge_size", 64)
    tensors: tuple[Tensor, ...] = (
        *projection("vision.patch_embed", patch_elements(fields), width, bias=False),
        *encoder(fields, layers, attention_bias=True, mlp_bias=True, gated=False, norm_bias=True),
        *layer_norms("vision.ln", width, 1, bias=True),
    )
    for name, inputs in (("spatial", joined), ("temporal", frames * joined)):
        tensors += (
            *projection(f"{name}_linear.fc1", inputs, joined, bias=True),
            *projection(f"{name}_linear.fc2", joined, joined, bias=True, row=True),
            *norm(f"{name}_linear.ln", joined, bias=True),
        )
    return (
        *tensors,
        *projection("mlp", joined, text_hidden, bias=True),
        *norm("after_norm", text_hidden),
    )


def step37_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Step 3.7: two convolutions of 3 × 3 leave a sixteenth of the patches, projected once."""
    width, layers = fields.size("hidden_size"), fields.size("num_hidden_layers", MAX_LAYERS)
    return (
        *projection("vision.patch_embedding", patch_elements(fields), width, bias=False),
        vectors("vision.position_embedding", grid(fields) * width),
        *encoder(fields, layers, attention_bias=True, mlp_bias=True, gated=False, norm_bias=True),
        vectors("vision.layer_scale", width, 2 * layers),
        *layer_norms("vision.pre_layernorm", width, 1, bias=True),
        *projection("downsampler1", _NINE * width, 2 * width, bias=True),
        *projection("downsampler2", _NINE * 2 * width, 4 * width, bias=True),
        *projection("multi_modal_projector", 4 * width, text_hidden, bias=False),
    )


def step3_vision(fields: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Step3: convolutions of 2 × 2 and 3 × 3 leave a sixteenth of the patches, projected once."""
    width, layers = fields.size("hidden_size"), fields.size("num_hidden_layers", MAX_LAYERS)
    made = fields.size("output_hidden_size")
    return (
        *projection("vision.patch_embedding", patch_elements(fields), width, bias=True),
        vectors("vision.position_embedding", (grid(fields) + 1) * width),
        vectors("vision.class_embedding", width),
        *encoder(fields, layers, attention_bias=True, mlp_bias=True, gated=False, norm_bias=True),
        *projection("downsampler", 4 * width, made, bias=True),
        *projection("downsampler2", _NINE * made, 2 * made, bias=True),
        *projection("vit_large_projector", 2 * made, text_hidden, bias=False),
    )


ERNIE_VISION: Mapping[str, object] = {
    "depth": 32,
    "hidden_size": 1280,
    "intermediate_size": 5120,
    "patch_size": 14,
    "spatial_merge_size": 2,
    "temporal_merge_size": 2,
}
STEP37_VISION: Mapping[str, object] = {
    "hidden_size": 1536,
    "mlp_ratio": 8960 / 1536,
    "num_hidden_layers": 47,
    "image_size": 728,
    "patch_size": 14,
}
STEP3_VISION: Mapping[str, object] = {
    "hidden_size": 1792,
    "output_hidden_size": 4096,
    "intermediate_size": 15360,
    "num_hidden_layers": 63,
    "image_size": 728,
    "patch_size": 14,
}
