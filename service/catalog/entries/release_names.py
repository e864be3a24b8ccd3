"""What a model's name says of how its weights are stored, apart from which model it is.

People name what they downloaded: ``TheBloke/Llama-2-70B-Chat-GPTQ``, ``Qwen3-8B-Q4_K_M.gguf``,
``llama3.1:8b-instruct-q4_K_M``. Such a name is that of a model with endings, which are taken off
one after the other: those of formats, those of how a tool made them, and those of tuning, which
leaves layers as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from service.core.architecture.quantization import checkpoint_format
from service.core.number_formats import NUMBER_FORMATS

_LONGEST_NAME = 300
#: Endings of one name that are taken off.
_MOST_ENDINGS = 8
#: How a folder in the Hub's cache is called: "models--Qwen--Qwen3-8B".
_CACHED = "models--"
_SHARD = re.compile(r"-\d{5}-of-\d{5}$")
_FILE = re.compile(r"\.(?:gguf|ggml|bin|safetensors)$")
#: The organisation within a file's or repository's name: "google_gemma-3-27b-it".
_OWNER_WITHIN = re.compile(r"^([a-z0-9.-]+)_(.+)$")
_SEPARATOR = "[-_:. ]"
#: Endings that say how a tool made weights, or for which kernels, and nothing of their bits.
_MAKING = (
    "dwq|imatrix|i1|ud|preview|mtp|quark|ptpc|kv|amp|sym|asym|inc|auto-?round|marlin|gemm|"
    "g(?:s)?\\d+|\\d+g|4b|v\\d|vortex|gptqmodel|quantized|qat|mlx|gguf|unsloth|dynamic|hi|lm"
)
#: Endings that say how a model was tuned, or what MLPerf wants of it, and leave its layers as they
#: are.
_TUNING = "instruct|chat|it|base|hf|pt|sft|dpo|text|latest|99(?:[.]9)?"
#: The month of a revision, as in DeepSeek-V4-Flash-0731, Qwen3-235B-A22B-2507 or 08-2024.
_REVISED = re.compile(rf"{_SEPARATOR}(?:2\d[01]\d|[01]\d[0-3]\d|[01]\d-20\d\d)$")
_MADE = re.compile(rf"{_SEPARATOR}(?:{_MAKING})$")
_TUNED = re.compile(rf"{_SEPARATOR}(?:{_TUNING})$")


@dataclass(frozen=True, slots=True, eq=False)
class Stored:
    """How a name says that weights are stored.

    ``config`` is what the config.json of such a release has as ``quantization_config``, empty for
    weights that are whole in ``weights``, the listed format. ``is_told`` is false where the name
    tells a kind of file and this is the usual one of them.
    """

    weights: str
    config: Mapping[str, Any]
    is_told: bool = True


@dataclass(frozen=True, slots=True)
class Reading:
    """What a name may mean: the name of a model, in small letters, and how it is stored.

    ``before_tuning`` is the longer name of the same model, if endings of tuning were taken off.
    """

    plain: str
    stored: Stored | None = None
    before_tuning: str | None = None


def _of(config: Mapping[str, Any]) -> Stored:
    """A format by the configuration of a release in it."""
    listed = checkpoint_format({"quantization_config": config}).listed_id
    return Stored(listed, MappingProxyType(dict(config)))


def _whole(format_id: str) -> Stored:
    return Stored(format_id, MappingProxyType({}))


def _integers(bits: int, **more: Any) -> dict[str, Any]:
    """Integers as llm-compressor stores them (compressed-tensors, its schemes W4A16 to W8A8)."""
    weights = {"num_bits": bits, "type": "int", "symmetric": True, **more}
    return {
        "quant_method": "compressed-tensors",
        "config_groups": {"group_0": {"weights": weights}},
    }


def _with_activations(config: dict[str, Any]) -> dict[str, Any]:
    group = config["config_groups"]["group_0"] | {"input_activations": {"num_bits": 8}}
    return {**config, "config_groups": {"group_0": group}}


_GROUP = {"strategy": "group", "group_size": 128}
_AWQ = _of({"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True})
_GPTQ = _of({"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True})
_GPTQ_8 = _of({"quant_method": "gptq", "bits": 8, "group_size": 128, "sym": True})
_HQQ = _of({"quant_method": "hqq", "nbits": 4, "group_size": 64})
_W4A16, _W8A16 = _of(_integers(4, **_GROUP)), _of(_integers(8, strategy="channel"))
_W8A8 = _of(_with_activations(_integers(8, strategy="channel")))
_FP8 = _of({"quant_method": "fp8", "modules_to_not_convert": ["lm_head"]})
#: Scales for caches in 8 bits beside those of weights, as Quark and llm-compressor name them.
_KV_8 = {"kv_cache_scheme": {"num_bits": 8, "type": "float"}}
_FP8_KV = _of({**_FP8.config, **_KV_8})
_FP8_BLOCK = _of({**_FP8.config, "weight_block_size": [128, 128]})
_NVFP4 = _of({"quant_method": "modelopt", "quant_algo": "NVFP4", "exclude_modules": ["lm_head"]})
_MXFP4 = _of({"quant_method": "quark", "quant_algo": "MXFP4", "exclude_modules": ["lm_head"]})
_MXFP4_KV = _of({**_MXFP4.config, **_KV_8})
_NF4 = _of({"quant_method": "bitsandbytes", "bnb_4bit_use_double_quant": True})
_BNB_8 = _of({"quant_method": "bitsandbytes", "load_in_8bit": True})


def _gguf(file_type: str) -> Stored:
    return _of({"quant_method": "gguf", "file_type": f"gguf-{file_type}"})


def _mlx(bits: int) -> Stored:
    return _of({"bits": bits, "group_size": 64})


#: Files of llama.cpp of no stated type: its own downloads take the first (common/arg.cpp, 2025).
_USUAL_FILE = replace(_gguf("q4_k_m"), is_told=False)
_OLD_FILE = replace(_gguf("q4_0"), is_told=False)
_KINDS_OF_FILES: Mapping[str, Stored] = {"gguf": _USUAL_FILE, "ggml": _OLD_FILE}
#: Types of files that are others with a few tensors in more bits (bartowski, Unsloth), or a bare
#: width; llama.cpp's own tool takes Q4_K as Q4_K_M (tools/quantize, 2023-2026).
_NEAR_FILES = {
    "q2_k_l": "q2_k",
    "q2_k_xl": "q2_k",
    "q3_k_xl": "q3_k_l",
    "q3_k": "q3_k_m",
    "q4_k_l": "q4_k_m",
    "q4_k_xl": "q4_k_m",
    "q4_k": "q4_k_m",
    "q4": "q4_k_m",
    "q5_k_l": "q5_k_m",
    "q5_k_xl": "q5_k_m",
    "q5_k": "q5_k_m",
    "q5": "q5_k_m",
    "q6_k_l": "q6_k",
    "q6_k_xl": "q6_k",
    "q6": "q6_k",
    "q8_k_xl": "q8_0",
    "q8": "q8_0",
}
#: What the names of Unsloth's dynamic ones begin with.
_DYNAMIC = re.compile(r"^ud[-_]")
_WIDTHS = {4: "(?:4[-_]?bit|int4|4b)", 8: "(?:8[-_]?bit|int8|8b)"}


def file_format(name: str) -> str | None:
    """The id of the format that a name of a type of llama.cpp's files means; None if it means none.

    Parameters
    ----------
    name
        Such as ``Q4_K_M``, ``q4`` or ``UD-Q4_K_XL``.
    """
    typed = name.strip().casefold().removeprefix("gguf-")
    plain = _DYNAMIC.sub("", typed).replace("-", "_")
    format_id = f"gguf-{_NEAR_FILES.get(plain, plain)}"
    return format_id if format_id in NUMBER_FORMATS else None


def _file_type(name: str) -> str:
    """How a type of llama.cpp's files is written, perhaps as Unsloth's dynamic one."""
    return f"(?:ud[-_])?{name.replace('_', '[-_]?')}"


def _exllama(format_id: str) -> str:
    """How files of ExLlama are named, by generation and mean width, perhaps with the head's."""
    generation, width = map(re.escape, format_id.split("-"))
    return f"{generation}[-_]{width}|{width}(?:[-_]h[68])?[-_]{generation}"


#: Endings that say a format, each as a pattern; of several that match, the longest counts.
_FORMATS: Mapping[str, Stored] = {
    **{
        _file_type(id_.removeprefix("gguf-")): _of({"quant_method": "gguf", "file_type": id_})
        for id_ in NUMBER_FORMATS
        if id_.startswith("gguf-") and id_ != "gguf-mxfp4"
    },
    **{_file_type(name): _gguf(listed) for name, listed in _NEAR_FILES.items()},
    **{
        _exllama(id_): _of({"quant_method": id_[:4], "bits": NUMBER_FORMATS[id_].bits_per_element})
        for id_ in NUMBER_FORMATS
        if id_.startswith("exl")
    },
    **{f"mlx[-_]?{bits}[-_]?bit|{bits}[-_]?bit[-_]mlx": _mlx(bits) for bits in (2, 3, 4, 5, 6, 8)},
    **_KINDS_OF_FILES,
    f"awq(?:[-_]?(?:{_WIDTHS[4]}|w4a16))?|{_WIDTHS[4]}[-_]awq": _AWQ,
    f"gptq(?:[-_]?{_WIDTHS[4]})?|{_WIDTHS[4]}[-_]gptq": _GPTQ,
    f"gptq[-_]?{_WIDTHS[8]}|{_WIDTHS[8]}[-_]gptq": _GPTQ_8,
    "hqq(?:[-_]?4bit)?": _HQQ,
    f"(?:quantized[.])?w4a16|{_WIDTHS[4]}": _W4A16,
    "(?:quantized[.])?w8a16": _W8A16,
    f"(?:quantized[.])?w8a8(?:[-_]int8)?|{_WIDTHS[8]}": _W8A8,
    "(?:w8a8[-_])?fp8(?:[-_](?:dynamic|static|w8a8))*[-_]kv(?:[-_]?fp8)?": _FP8_KV,
    "(?:w8a8[-_])?fp8(?:[-_](?:dynamic|static|w8a8))*|float8": _FP8,
    "fp8[-_]block": _FP8_BLOCK,
    "(?:nv)?fp4(?:a16)?": _NVFP4,
    "(?:mxfp4|w-?mxfp4(?:fp8)?-a-?(?:mxfp4|fp8)+)(?:-amp)?-kv-?fp8": _MXFP4_KV,
    "mxfp4(?:[-_]q[48])?|w-?mxfp4(?:fp8)?-a-?(?:mxfp4|fp8)+(?:-amp)?": _MXFP4,
    "(?:unsloth[-_])?bnb[-_](?:4bit|nf4)|nf4": _NF4,
    "bnb[-_](?:8bit|int8)": _BNB_8,
    "bf16|bfloat16": _whole("bf16"),
    "fp16|f16|float16": _whole("fp16"),
    "fp32|f32": _whole("fp32"),
}
_ENDINGS = tuple(
    (re.compile(rf"{_SEPARATOR}(?:{pattern})$"), stored) for pattern, stored in _FORMATS.items()
)
#: In files of llama.cpp a format of experts leaves all else in 8 bits.
_IN_FILES = {"mxfp4": _gguf("mxfp4")}
#: What owners mean by a bare width, where that is not what most mean.
_OF_OWNER: Mapping[tuple[str, str], Stored] = {
    ("qwen", "int4"): _GPTQ,
    ("qwen", "int8"): _GPTQ_8,
    **{("mlx-community", f"{bits}bit"): _mlx(bits) for bits in (2, 3, 4, 5, 6, 8)},
}
_BARE_WIDTH = re.compile(rf"{_SEPARATOR}(int[48]|[2-8]bit)$")


def readings(name: str) -> tuple[Reading, ...]:
    """What a name may mean, the most literal first; the name itself without an owner is one.

    Parameters
    ----------
    name
        As people write it: a name on the Hub, a file, its path, or a registry's tag.
    """
    return _readings(name[:_LONGEST_NAME].strip().casefold())


@lru_cache(maxsize=1024)
def _readings(name: str) -> tuple[Reading, ...]:
    if name.startswith(_CACHED):
        name = name.removeprefix(_CACHED).replace("--", "/")
    *folders, last = re.split(r"[/\\]", name.rstrip("/\\"))
    return tuple(dict.fromkeys(_read(folders[-1] if folders else "", last)))


def _read(owner: str, name: str) -> Iterator[Reading]:
    plain = _SHARD.sub("", _FILE.sub("", name))
    stored = _KINDS_OF_FILES.get(name.rpartition(".")[2])
    yield from _spelt(plain, stored)
    for _ in range(_MOST_ENDINGS):
        short, found = _without_ending(owner, plain)
        if short is None:
            break
        plain = short
        if found is not None and stored is None:
            stored = found
        elif found is not None and stored is not None and not stored.is_told:
            # A kind of file, and before it the type of it.
            stored = _IN_FILES.get(found.weights, found)
        if stored is not None:
            yield from _spelt(plain, stored)


def _without_ending(owner: str, name: str) -> tuple[str | None, Stored | None]:
    """A name without its last ending, with the format that it says; None where it has none."""
    bare = _BARE_WIDTH.search(name)
    if bare is not None and (owner, bare[1]) in _OF_OWNER:
        return name[: bare.start()], _OF_OWNER[owner, bare[1]]
    matches = [(end.start(), stored) for ending, stored in _ENDINGS if (end := ending.search(name))]
    if matches:
        start, stored = min(matches, key=lambda one: one[0])
        return name[:start], stored
    made = _MADE.search(name)
    return (name[: made.start()], None) if made is not None else (None, None)


def _spelt(name: str, stored: Stored | None) -> Iterator[Reading]:
    """Names that a name is a spelling of: with its owner within, and without words of tuning."""
    within = _OWNER_WITHIN.match(name)
    names = [name] if within is None else [name, f"{within[1]}/{within[2]}", within[2]]
    for each in [*names, *(one.removeprefix("meta-") for one in names)]:
        yield Reading(each, stored)
    plain = name
    for _ in range(_MOST_ENDINGS):
        tuned = _TUNED.search(plain) or _revised(plain)
        if tuned is None:
            return
        plain = plain[: tuned.start()]
        yield Reading(plain, stored, name)


def _revised(name: str) -> re.Match[str] | None:
    """The month at the end of a name that says without it which model it is, by a number."""
    found = _REVISED.search(name)
    return found if found is not None and any(map(str.isdigit, name[: found.start()])) else None
