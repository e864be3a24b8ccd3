"""Kinds of models that are known not to be computed, with the reason that is told.

A configuration of one of them would give figures that are wrong, or none that means anything.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

#: Model types by the reason why no estimate is made.
_KINDS: Mapping[str, tuple[str, ...]] = {
    "is a diffusion model of text, which makes all tokens of a block at once in many passes": (
        *("llada", "llada2_moe", "llada_moe", "dream", "diffusion_gemma", "sdar", "sdar_moe"),
        *("nemotron_labs_diffusion", "fast_dllm", "wedlm"),
    ),
    "is a recurrent network whose state is that of RWKV, which is not computed": (
        *("rwkv6qwen2", "rwkv_hybrid"),
    ),
    "has linear recurrences of a kind that is not computed": (
        *("xlstm", "retnet", "gla", "hgrn", "hgrn2", "delta_net", "gated_deltanet", "mega"),
        *("gsa", "based", "plamo2", "minicpm_sala", "bailing_moe_linear", "olmo_hybrid"),
    ),
    "uses the same block of attention in several layers, which is not computed": (
        *("zamba", "zamba2", "zaya", "zaya1_vl"),
    ),
    "compresses keys and values along the sequence or chooses blocks of them, and neither is "
    "computed": (
        *("deepseek_v41",),
        *("glm5_next", "qwen4_exp", "qwen4_exp_text"),
    ),
    "shares the weights of layers among each other, which is not computed": (
        *("albert", "hrm_text", "mobilellm", "openelm"),
    ),
    "has layers of a kind that is not computed": (
        *("doge", "jetmoe", "longcat_flash_ngram", "muse_spark", "nanochat", "cpmant"),
        *("openai-gpt", "gpt_neox_japanese"),
        *("switch_transformers", "arctic"),
        *("blt", "nemotron_flash", "gemma4_assistant"),
        *("lfm3", "inkling_text", "inkling_mm_model", "inkling2", "inkling2_text"),
    ),
    "encodes text by attention or embeddings of a kind that is not computed": (
        *("big_bird", "bigbird_pegasus", "canine", "convbert", "deberta", "electra", "esm"),
        *("flaubert", "fnet", "funnel", "ibert", "layoutlm", "layoutlmv2", "layoutlmv3", "lilt"),
        *("longformer", "luke", "markuplm", "megatron-bert", "mobilebert", "mra", "neobert"),
        *("nystromformer", "perceiver", "reformer"),
        *("rembert", "roberta-prelayernorm", "roc_bert"),
        *("roformer", "squeezebert", "tapas", "transfo-xl", "xlm", "xlm-roberta-xl", "xlnet"),
        *("xmod", "yoso", "bert-generation"),
    ),
    "reads or makes sound in a way that is not computed": (
        *(
            "bark",
            "clap",
            "csm",
            "dac",
            "data2vec-audio",
            "dia",
            "encodec",
            "fastspeech2_conformer",
        ),
        *("hubert", "kyutai_speech_to_text", "mctct", "mimi", "moonshine", "moshi", "musicgen"),
        *(
            "musicgen_melody",
            "parakeet_ctc",
            "parler_tts",
            "pop2piano",
            "qwen3_tts",
            "seamless_m4t",
        ),
        *(
            "seamless_m4t_v2",
            "sew",
            "sew-d",
            "speech-encoder-decoder",
            "speech_to_text",
            "speecht5",
        ),
        *("unispeech", "unispeech-sat", "vits"),
        *("wav2vec2", "wav2vec2-bert", "wav2vec2-conformer"),
        *("wavlm", "xcodec"),
    ),
    "sees images and has no language model that writes at length": (
        *("align", "altclip", "beit", "bit"),
        *("blip", "chinese_clip", "clip", "clipseg", "convnext"),
        *("convnextv2", "cvt", "deformable_detr", "deit", "depth_anything", "detr", "dinov2"),
        *("dinov3_vit", "donut-swin", "dpt", "efficientnet", "florence2", "focalnet", "git"),
        *("glpn", "grounding-dino", "hiera", "kosmos-2", "kosmos-2.5", "levit", "mask2former"),
        *("maskformer", "mobilenet_v2", "mobilevit", "nougat", "oneformer", "owlv2", "owlvit"),
        *(
            "pix2struct",
            "poolformer",
            "pvt",
            "regnet",
            "resnet",
            "rt_detr",
            "sam",
            "sam2",
            "segformer",
        ),
        *("siglip", "siglip2", "swin", "swinv2", "timm_backbone", "trocr", "udop", "videomae"),
        *("vilt", "vision-encoder-decoder", "vision-text-dual-encoder", "visual_bert", "vit"),
        *("vit_mae", "vitpose", "vivit", "xclip", "yolos", "zoedepth"),
    ),
    "sees or hears through parts that are not computed; its text_config alone is answered": (
        *("aria", "blip-2", "deepseek_vl_hybrid", "fuyu", "got_ocr2", "idefics2"),
        *("instructblip", "instructblipvideo", "janus", "minicpm_ocr", "ovis2"),
        *("pp_chart2table", "video_llava"),
        *("fun_asr_nano", "granite_speech", "granite_speech_plus", "moss_transcribe_diarize"),
        *("nemo_speechlm", "vibevoice_asr"),
    ),
    "predicts series of numbers, not text": (
        *("autoformer", "chronos", "informer"),
        *("patchtsmixer", "patchtst", "timesfm", "timesfm2_5"),
        *("time_series_transformer",),
    ),
}

_REASONS: Mapping[str, str] = MappingProxyType(
    {model_type: reason for reason, types in _KINDS.items() for model_type in types}
)

#: Files that are taken for a model's configuration, by a key that only they have.
_OTHER_FILES: Mapping[str, str] = {
    "_class_name": "describes a diffusion model of images, video or sound, which is not computed",
    "_diffusers_version": "describes a diffusion model of images, video or sound, not computed",
    "peft_type": "describes an adapter; the configuration of its base model is needed",
    "tokenizer_class": "describes a tokenizer; the config.json of the model is needed",
    "added_tokens_decoder": "describes a tokenizer; the config.json of the model is needed",
    "image_processor_type": "describes a processor of images; the config.json is needed",
    "feature_extractor_type": "describes a processor of sound; the config.json is needed",
    "weight_map": "lists the files of a checkpoint; the config.json of the model is needed",
}


def reason_for(model_type: str) -> str:
    """Why no estimate is made of a kind of models.

    Raises
    ------
    KeyError
        If estimates are made of it.
    """
    return _REASONS[model_type]


def refusal(config: Mapping[str, Any], model_type: str) -> tuple[str, str] | None:
    """Why no estimate is made of a configuration, with the key that says so, or None."""
    reason = _REASONS.get(model_type)
    if reason is not None:
        return "model_type", f"{model_type!r} {reason}"
    if not model_type:
        for key, other in _OTHER_FILES.items():
            if key in config:
                return key, other
    return None
