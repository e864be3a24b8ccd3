"""From a Hugging Face ``config.json``, as a plain mapping, to a `ModelArchitecture`.

A family is data (`family.Family`): defaults, builders of its parts, and which layer has which
part. A model type that is not known is computed from the keys it shares with the known ones, with
a warning saying so; what cannot be understood raises `ConfigNotUnderstood` naming the key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from service.core.architecture.cache_format import cache_format
from service.core.architecture.config.families.audio import AUDIO_ENCODERS, TEXT_DEFAULTS
from service.core.architecture.config.families.refused import refusal
from service.core.architecture.config.families.seq2seq import SEQ2SEQ_MODELS
from service.core.architecture.config.families.vision import read_vision
from service.core.architecture.config.family import assemble
from service.core.architecture.config.fields import MISSING, ConfigNotUnderstood, Fields
from service.core.architecture.config.layouts import usual_layout
from service.core.architecture.config.registry import FAMILIES, UNKNOWN_FAMILY
from service.core.architecture.model import AudioEncoder, ModelArchitecture
from service.core.architecture.prediction import MOST_PREDICTION_LAYERS, PREDICTORS_LEFT_OUT
from service.core.architecture.quantization import checkpoint_format
from service.core.explanation import EstimateWarning

__all__ = ["FAMILIES", "ConfigNotUnderstood", "parse_config"]

#: Keys under which multimodal configurations nest their language model.
_TEXT_SECTIONS = ("text_config", "llm_config", "language_config", "thinker_config")
#: Kinds of models that state the name of another, by that name and the class of their weights.
_MISNAMED = {("git", "Grok1ForCausalLM"): "grok-2"}
#: Keys whose presence says that a checkpoint has parts besides the language model, and what for.
_OTHER_SECTIONS = {
    "vision_config": "images",
    "audio_config": "audio",
    "vision_tower_config": "images",
    "visual": "images",
    "vit_config": "images",
}

#: Keys of parts that make sound, which stand beside the thinking part of omni models.
_SPEECH = {"talker_config": "speech", "token2wav_config": "speech", "code2wav_config": "speech"}


def parse_config(config: Mapping[str, Any]) -> ModelArchitecture:
    """The architecture that a ``config.json`` describes.

    Parameters
    ----------
    config
        The parsed JSON object. Of a multimodal model the language part is read.

    Returns
    -------
    ModelArchitecture
        With warnings about whatever was not certain.

    Raises
    ------
    ConfigNotUnderstood
        If a needed key is missing, of the wrong type or absurd; nothing else is raised.
    """
    if not isinstance(config, Mapping):
        raise ConfigNotUnderstood("", "a configuration must be a JSON object")
    config, outer = usual_layout(config, _outer_type(config))
    text, path = _language_part(config)
    model_type = _model_type(text, config, path)
    for named in dict.fromkeys((model_type, outer if path else model_type)):
        refused = refusal(config, named)
        if refused is not None:
            raise ConfigNotUnderstood(*refused)
    if model_type in SEQ2SEQ_MODELS:
        return _seq2seq(config, text, path, model_type)
    if config.get("is_encoder_decoder") is True:
        raise ConfigNotUnderstood(
            "is_encoder_decoder",
            f"{model_type!r} is not a known encoder–decoder model; these are: "
            + ", ".join(SEQ2SEQ_MODELS),
        )
    family = FAMILIES.get(model_type)
    senses = _with_senses(config)
    hearing = AUDIO_ENCODERS.get(outer) if "audio_config" in senses else None
    known = family is not None
    family = family or UNKNOWN_FAMILY
    fields = Fields(text, {**family.defaults, **TEXT_DEFAULTS.get(outer, {})}, path)
    if "tie_word_embeddings" in config:
        # The whole decides, whatever its language model would do by itself.
        fields = fields.replaced(tie_word_embeddings=config["tie_word_embeddings"])
    try:
        architecture = assemble(family, fields, model_type)
    except ConfigNotUnderstood as fault:
        if family is not UNKNOWN_FAMILY or fault.reason != MISSING:
            raise
        raise ConfigNotUnderstood(fault.field, _unknown_and_missing(model_type)) from fault
    vision = read_vision(senses, outer, architecture.hidden_size)
    audio: AudioEncoder | None = None
    if hearing is not None:
        read, audio_defaults = hearing
        section = Fields(senses, {}).section("audio_config", audio_defaults)
        audio = None if section is None else read(section, architecture.hidden_size)
    counted = {"vision_config"} if vision is not None else set()
    counted |= {"audio_config"} if hearing is not None else set()
    warnings = _warnings(config, senses, text, model_type, counted, known=known)
    stored = checkpoint_format(config, text)
    return replace(
        architecture,
        other=architecture.other
        + (() if vision is None else vision[0])
        + (() if audio is None else audio.tensors),
        native_format=stored.listed_id,
        native_number_format=stored.exact,
        native_cache_format=cache_format(config, text),
        images=None if vision is None else vision[1],
        audio=audio,
        prediction_layers=_prediction_layers(text),
        warnings=(*warnings, *stored.warnings),
    )


def _unknown_and_missing(model_type: str) -> str:
    """Why a key is needed of a kind of model that is not known."""
    if not model_type:
        return "is missing, as is model_type: a config.json of a language model has both"
    return (
        f"is missing, and {model_type[:60]!r} is not a known kind of model: of unknown kinds, "
        "only decoders that state their sizes as Llama does are computed"
    )


def _seq2seq(
    config: Mapping[str, Any], text: Mapping[str, Any], path: str, model_type: str
) -> ModelArchitecture:
    """An encoder–decoder model, which has its sides in one configuration."""
    build, defaults = SEQ2SEQ_MODELS[model_type]
    architecture = build(Fields(text, defaults, path), model_type)
    stored = checkpoint_format(config, text)
    return replace(
        architecture,
        native_format=stored.listed_id,
        native_number_format=stored.exact,
        native_cache_format=cache_format(config, text),
        warnings=stored.warnings,
    )


def _language_part(config: Mapping[str, Any]) -> tuple[Mapping[str, Any], str]:
    """The mapping that describes the language model, and its path with a trailing slash."""
    part, path = config, ""
    # Omni models nest twice: thinker_config, then text_config.
    for _ in range(2):
        for key in _TEXT_SECTIONS:
            nested = part.get(key)
            if isinstance(nested, Mapping) and nested:
                part, path = nested, f"{path}{key}/"
                break
    return part, path


def _with_senses(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """The mapping with the sections for images and audio, which omni models nest."""
    nested = config.get("thinker_config")
    return nested if isinstance(nested, Mapping) else config


def _outer_type(config: Mapping[str, Any]) -> str:
    model_type = config.get("model_type")
    return model_type if isinstance(model_type, str) else ""


def _model_type(text: Mapping[str, Any], config: Mapping[str, Any], path: str) -> str:
    model_type = text.get("model_type", config.get("model_type"))
    if model_type is None:
        return ""
    if not isinstance(model_type, str) or len(model_type) > 100:
        raise ConfigNotUnderstood(f"{path}model_type", "must be a short string")
    classes = config.get("architectures")
    first = classes[0] if isinstance(classes, list) and classes else None
    return _MISNAMED.get((model_type, first), model_type) if isinstance(first, str) else model_type


def _prediction_layers(text: Mapping[str, Any]) -> int:
    """Layers of multi-token prediction that a configuration states [-]."""
    stated = text.get("num_nextn_predict_layers", text.get("mtp_num_hidden_layers"))
    return min(stated, MOST_PREDICTION_LAYERS) if type(stated) is int and stated > 0 else 0


def _warnings(
    config: Mapping[str, Any],
    senses: Mapping[str, Any],
    text: Mapping[str, Any],
    model_type: str,
    counted: set[str],
    *,
    known: bool,
) -> tuple[EstimateWarning, ...]:
    warnings: tuple[EstimateWarning, ...] = ()
    if not known:
        warnings += (
            EstimateWarning(
                "unknown_model_type",
                f"Model type {model_type!r} is not known; its architecture is derived from the "
                "keys it shares with known types, and some of its parts may be missing.",
            ),
        )
    left_out = [
        sense
        for key, sense in _OTHER_SECTIONS.items()
        if isinstance(senses.get(key), Mapping) and key not in counted
    ]
    left_out += [sense for key, sense in _SPEECH.items() if isinstance(config.get(key), Mapping)]
    if left_out:
        warnings += (
            EstimateWarning(
                "modality_left_out",
                f"What handles {' and '.join(dict.fromkeys(left_out))} is not included in the "
                "figures",
            ),
        )
    predicted = _prediction_layers(text)
    if predicted:
        warnings += (
            EstimateWarning(
                PREDICTORS_LEFT_OUT,
                f"The checkpoint's {predicted} multi-token-prediction layers are not counted; they "
                "are used only for speculative decoding."
                if predicted > 1
                else "The checkpoint's multi-token-prediction layer is not counted; it is used "
                "only for speculative decoding.",
            ),
        )
    return warnings
