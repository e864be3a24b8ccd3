"""Configurations that say what others say in other places, in the usual ones.

Where a kind was published by several teams with one ``model_type``, or keeps its sections under
names of its own, this is where it becomes like the others. What is not known stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

#: The mapping with the usual sections, and the kind of the whole.
Layout: TypeAlias = tuple[Mapping[str, Any], str]

#: Language models of MiniCPM-V and MiniCPM-o by version (modeling_minicpmv.py of each).
_MINICPM_TEXT: Mapping[str, str] = {
    "2": "minicpm",
    "2.5": "llama",
    "2.6": "qwen2",
    "4": "minicpm",
    "4.5": "qwen3",
}
#: Names of the conformer's sizes in Phi-4-multimodal's first configuration.
_PHI_AUDIO: Mapping[str, str] = {
    "attention_dim": "hidden_size",
    "attention_heads": "num_attention_heads",
    "linear_units": "intermediate_size",
    "num_blocks": "num_blocks",
    "ext_pw_out_channel": "ext_pw_out_channel",
    "kernel_size": "kernel_size",
    "input_size": "input_size",
    "time_reduction": "time_reduction",
}


def usual_layout(config: Mapping[str, Any], outer: str) -> Layout:
    """The configuration with its sections where other kinds have them.

    Parameters
    ----------
    config
        The parsed JSON object.
    outer
        Its ``model_type``.

    Returns
    -------
    tuple
        A configuration of the same meaning, and the kind of the whole.
    """
    change = _LAYOUTS.get(outer)
    return (config, outer) if change is None else change(config, outer)


def _minicpm(config: Mapping[str, Any], outer: str) -> Layout:
    """MiniCPM-V and -o: the keys of the language model stand outside, which one the version says.

    Their towers have no pooling head, and some leave out the last layer.
    """
    version = config.get("version")
    name = f"{version:g}" if type(version) in (int, float) else str(version)
    text = _MINICPM_TEXT.get(name.removesuffix(".0"))
    vision = config.get("vision_config")
    if text is None or isinstance(config.get("text_config"), Mapping):
        return config, outer
    changed: dict[str, Any] = {**config, "model_type": text}
    if isinstance(vision, Mapping):
        tower: dict[str, Any] = {
            **vision,
            "model_type": "siglip_vision_model",
            "vision_use_head": False,
        }
        layers = vision.get("num_hidden_layers")
        if config.get("drop_vision_last_layer") is True and type(layers) is int:
            tower["num_hidden_layers"] = layers - 1
        changed["vision_config"] = tower
    return changed, outer


def _phi(config: Mapping[str, Any], outer: str) -> Layout:
    """Phi-4-multimodal as first published, whose tower and conformer are described by name."""
    changed: dict[str, Any] = dict(config)
    if isinstance(config.get("embd_layer"), Mapping):
        changed.setdefault("vision_config", {})
    processor = config.get("audio_processor")
    sizes = processor.get("config") if isinstance(processor, Mapping) else None
    if isinstance(sizes, Mapping):
        audio = {usual: sizes[name] for name, usual in _PHI_AUDIO.items() if name in sizes}
        for section, name, usual in (
            ("nemo_conv_settings", "conv_channels", "nemo_conv_channels"),
            ("relative_attention_bias_args", "t5_bias_max_distance", "bias_max_distance"),
        ):
            nested = sizes.get(section)
            if isinstance(nested, Mapping) and name in nested:
                audio[usual] = nested[name]
        changed.setdefault("audio_config", audio)
    return changed, outer


def _deepseek_vl2(config: Mapping[str, Any], outer: str) -> Layout:
    """DeepSeek-VL2 and -OCR have one ``model_type``; the latter has a tower for each name."""
    vision = config.get("vision_config")
    towers = vision.get("width") if isinstance(vision, Mapping) else None
    if not isinstance(vision, Mapping):
        return config, outer
    if not isinstance(towers, Mapping):
        return {
            **config,
            "vision_config": {**vision, "model_type": "siglip_so400m"},
        }, outer
    if set(towers) != {"sam_vit_b", "clip-l-14-224"}:
        return config, f"{outer}_other"
    return {**config, "vision_config": dict(towers)}, "deepseek_ocr"


def _step_audio(config: Mapping[str, Any], outer: str) -> Layout:
    """Step-Audio 2 calls its encoder's section otherwise."""
    section = config.get("audio_encoder_config")
    return ({**config, "audio_config": section} if section is not None else config), outer


_LAYOUTS: Mapping[str, Callable[[Mapping[str, Any], str], Layout]] = MappingProxyType(
    {
        "minicpmv": _minicpm,
        "minicpmo": _minicpm,
        "phi4mm": _phi,
        "deepseek_vl_v2": _deepseek_vl2,
        "step_audio_2": _step_audio,
    }
)
