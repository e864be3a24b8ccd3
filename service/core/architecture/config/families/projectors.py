"""What stands between a vision tower and a language model, by the kind of the whole.

Widths, biases and defaults are those of the configuration and modelling classes of Hugging Face
transformers (https://github.com/huggingface/transformers, 2024–2026).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from service.core.architecture.config.families.tower_parts import projection, vectors
from service.core.architecture.config.fields import Fields
from service.core.architecture.config.parts import norm
from service.core.architecture.tensors import Tensor

#: Reads the vision section and the whole, given the language model's hidden size.
Projector: TypeAlias = Callable[[Fields, Fields, int], tuple[Tensor, ...]]


@dataclass(frozen=True, slots=True)
class Joined:
    """How a plain tower is joined to a language model.

    ``tower`` is the kind that the vision section has unless it says otherwise, ``defaults`` the
    values of keys of the whole that a configuration may leave out.
    """

    tower: str
    projector: Projector
    defaults: Mapping[str, object]


#: Bound on how many patches are merged along a side.
_MERGED = 64


def _two(
    inputs: int, middle: int, outputs: int, *, bias: bool = True, middle_out: int | None = None
) -> tuple[Tensor, ...]:
    """Two projections, of which the second may read fewer features than the first makes."""
    return (
        *projection("linear_1", inputs, middle, bias=bias),
        *projection("linear_2", middle_out or middle, outputs, bias=bias, row=True),
    )


def _layers_read(whole: Fields) -> int:
    """Layers of the tower whose outputs are joined [-]."""
    if not whole.is_list("vision_feature_layer"):
        return 1
    return max(len(whole.array("vision_feature_layer") or ()), 1)


def _llava(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    inputs = section.size("hidden_size") * _layers_read(whole)
    return _two(inputs, text_hidden, text_hidden, bias=whole.flag("multimodal_projector_bias"))


def _llava_with_rows(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """LLaVA-NeXT: rows of patches end with a learned token."""
    return (*_llava(section, whole, text_hidden), vectors("image_newline", text_hidden))


def _vip_llava(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    inputs = section.size("hidden_size") * _layers_read(whole)
    return (
        *norm("projector_layernorm", inputs, bias=True),
        *_two(inputs, text_hidden, text_hidden),
    )


def _one(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:  # noqa: ARG001
    """One projection (PaliGemma)."""
    return projection("linear", section.size("hidden_size"), text_hidden, bias=True)


def _intern(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """InternVL: neighbouring patches are joined, normed and projected twice."""
    ratio = whole.ratio("downsample_ratio", 1.0) or 1.0
    merged = round(section.size("hidden_size") / ratio**2)
    return (
        *norm("projector.layer_norm", merged, bias=True),
        *_two(merged, text_hidden, text_hidden),
    )


def _shuffled(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Idefics 3 and SmolVLM: neighbouring patches are joined and projected once."""
    merged = section.size("hidden_size") * whole.size("scale_factor", _MERGED) ** 2
    return projection("modality_projection", merged, text_hidden, bias=False)


def _liquid(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """LFM2-VL."""
    merged = section.size("hidden_size") * whole.size("downsample_factor", _MERGED) ** 2
    normed = whole.flag("projector_use_layernorm")
    return (
        *(norm("projector.layer_norm", merged, bias=True) if normed else ()),
        *_two(
            merged,
            whole.size("projector_hidden_size"),
            text_hidden,
            bias=whole.flag("projector_bias"),
        ),
    )


def _cohere(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Command A Vision: a gated projection of joined patches."""
    merged = section.size("hidden_size") * whole.size("downsample_factor", _MERGED) ** 2
    inner = whole.size("alignment_intermediate_size")
    return _two(merged, inner, text_hidden, middle_out=inner // 2)


def _aya(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Aya Vision: as Command A Vision, after a norm of joined patches."""
    merged = section.size("hidden_size") * whole.size("downsample_factor", _MERGED) ** 2
    inner = whole.optional_size("alignment_intermediate_size") or text_hidden
    return (
        *norm("projector.layernorm", merged, bias=True),
        *_two(merged, inner, text_hidden, middle_out=inner // 2),
    )


def _video_llama(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:  # noqa: ARG001
    return _two(section.size("hidden_size"), text_hidden, text_hidden)


def _moon(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:  # noqa: ARG001
    """Kimi: a norm of each patch, then 2 × 2 of them joined and projected twice."""
    width = section.size("hidden_size")
    return (*norm("pre_norm", width, bias=True), *_two(4 * width, 4 * width, text_hidden))


def _minimax(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """MiniMax-M3: two projections of each patch, then two of 2 × 2 joined."""
    merged = 4 * text_hidden
    return (
        *projection("vision.linear_1", section.size("hidden_size"), text_hidden, bias=True),
        *projection("vision.linear_2", text_hidden, text_hidden, bias=True, row=True),
        *_two(merged, whole.size("projector_hidden_size"), text_hidden),
    )


def _nemotron(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """Nemotron Nano Omni: as InternVL's, with an RMS norm and without biases."""
    ratio = whole.ratio("downsample_ratio", 1.0) or 1.0
    merged = round(section.size("hidden_size") / ratio**2)
    return (
        *norm("projector.layer_norm", merged),
        *_two(merged, whole.size("projector_hidden_size"), text_hidden, bias=False),
    )


def _minicpm(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """MiniCPM-V 4.6: ``merger_times`` times 2 × 2 patches are joined and projected twice."""
    width, times = section.size("hidden_size"), whole.size("merger_times", _MERGED)
    merged = 4 * width
    return tuple(
        tensor
        for step in range(times)
        for tensor in (
            *norm("merger.pre_norm", merged, bias=True),
            *_two(merged, merged, text_hidden if step == times - 1 else width),
        )
    )


def _resampled(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """MiniCPM-V 2 to 4.5: learned queries attend to the patches of each slice."""
    queries = whole.size("query_num", 100_000)
    width, copies = section.size("hidden_size"), 2
    return (
        vectors("query", queries * text_hidden),
        *projection("vision.kv_proj", width, text_hidden, bias=False),
        *projection("vision.attn.kv", text_hidden, text_hidden, bias=True, copies=copies),
        *projection("attn.q_and_out", text_hidden, text_hidden, bias=True, copies=copies),
        *norm("ln_q", text_hidden, bias=True),
        *norm("ln_kv", text_hidden, bias=True),
        *norm("ln_post", text_hidden, bias=True),
        *projection("proj", text_hidden, text_hidden, bias=False),
    )


def _deepseek_vl2(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """DeepSeek-VL2: 2 × 2 patches joined and projected twice; learned tokens between tiles."""
    sizes = whole.section("projector_config", _DEEPSEEK_VL2) or Fields({}, _DEEPSEEK_VL2)
    merged = section.size("hidden_size") * sizes.size("downsample_ratio", _MERGED) ** 2
    inner = text_hidden * sizes.size("mlp_ratio", _MERGED)
    return (
        *_two(merged, inner, text_hidden),
        vectors("image_newline", text_hidden),
        vectors("view_seperator", text_hidden),
    )


def _phi4(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:  # noqa: ARG001
    """Phi-4-multimodal: 2 × 2 patches are averaged and projected twice."""
    width = section.size("hidden_size")
    return (
        *_two(width, text_hidden, text_hidden),
        vectors("glb_GN", width),
        vectors("sub_GN", width),
    )


def _colmodern(section: Fields, whole: Fields, text_hidden: int) -> tuple[Tensor, ...]:
    """ModernVBERT: neighbouring patches are joined and projected once."""
    merged = section.size("hidden_size") * whole.size("pixel_shuffle_factor", _MERGED) ** 2
    return projection("modality_projection", merged, text_hidden, bias=False)


_DEEPSEEK_VL2: Mapping[str, object] = {"downsample_ratio": 2, "mlp_ratio": 1}
_QUERIES: Mapping[str, object] = {"query_num": 64}
_LLAVA: Mapping[str, object] = {"multimodal_projector_bias": True}
_INTERN: Mapping[str, object] = {"downsample_ratio": 0.5}
_SHUFFLED: Mapping[str, object] = {"scale_factor": 2}

#: By the ``model_type`` of the whole.
JOINED: Mapping[str, Joined] = {
    "llava": Joined("clip_vision_model", _llava, _LLAVA),
    "llava_next": Joined("clip_vision_model", _llava_with_rows, _LLAVA),
    "llava_next_video": Joined("clip_vision_model", _llava_with_rows, _LLAVA),
    "llava_onevision": Joined("siglip_vision_model", _llava_with_rows, _LLAVA),
    "vipllava": Joined(
        "clip_vision_model",
        _vip_llava,
        {"vision_feature_layer": (-2, -5, -8, -11, 6)},
    ),
    "paligemma": Joined("siglip_vision_model", _one, {}),
    "internvl_chat": Joined("intern_vit_6b", _intern, _INTERN),
    "kimi_vl": Joined("moonvit", _moon, {}),
    "internvl": Joined("internvl_vision", _intern, _INTERN),
    "qianfan_ocr": Joined("internvl_vision", _intern, _INTERN),
    "idefics3": Joined("idefics3_vision", _shuffled, _SHUFFLED),
    "smolvlm": Joined("smolvlm_vision", _shuffled, _SHUFFLED),
    "lfm2_vl": Joined(
        "siglip2_vision_model",
        _liquid,
        {
            "downsample_factor": 2,
            "projector_hidden_size": 2560,
            "projector_bias": True,
            "projector_use_layernorm": True,
        },
    ),
    "cohere2_vision": Joined(
        "siglip_vision_model",
        _cohere,
        {"downsample_factor": 2, "alignment_intermediate_size": 36_864},
    ),
    "aya_vision": Joined("siglip_vision_model", _aya, {"downsample_factor": 2}),
    "video_llama_3": Joined("video_llama_3_vision", _video_llama, {}),
    "deepseek_vl": Joined("siglip_vision_model", _video_llama, {}),
    "kimi_k25": Joined("kimi_k25_vision", _moon, {}),
    "minimax_m3_vl": Joined("minimax_m3_vl_vision", _minimax, {}),
    "nemotron_h_omni": Joined(
        "radio", _nemotron, {"downsample_ratio": 0.5, "projector_hidden_size": 4096}
    ),
    "minicpmv4_6": Joined("minicpmv4_6_vision", _minicpm, {"merger_times": 1}),
    "minicpmv4_7": Joined("minicpmv4_6_vision", _minicpm, {"merger_times": 1}),
    "minicpmv": Joined("siglip_vision_model", _resampled, _QUERIES),
    "minicpmo": Joined("siglip_vision_model", _resampled, _QUERIES),
    "deepseek_vl_v2": Joined("siglip_so400m", _deepseek_vl2, {}),
    "phi4mm": Joined("siglip_so400m_448", _phi4, {}),
    "phi4_multimodal": Joined("siglip_so400m_448", _phi4, {}),
    "modernvbert": Joined("siglip_vision_model", _colmodern, {"pixel_shuffle_factor": 4}),
}
