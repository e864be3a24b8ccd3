"""Names as tools write them: models, number formats, GGUF types.

What a tool calls a model is its path, its name on the Hub, or the name of a file. Endings that say
how it was tuned or quantised do not change its shape.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from service.catalog.entries.references import UnknownReference
from service.catalog.named_models import model_named
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.number_formats import NUMBER_FORMATS

_LONGEST_NAME = 300
_LLAMA_TYPE = re.compile(r"\b(IQ\d_[A-Z]+|Q\d_K|Q\d_\d|BF16|F16|F32|MXFP4)\b(?: - (\w+))?")
#: Words for formats as tools' options have them, beside those of types.
_QUANTISED = {
    "awq": "awq-int4",
    "awq-int4": "awq-int4",
    "gptq": "gptq-int4",
    "gptq-int4": "gptq-int4",
    "gptq-int8": "gptq-int8",
    "int4": "gptq-int4",
    "w4a16": "gptq-int4",
    "quantized.w4a16": "gptq-int4",
    "w8a16": "gptq-int8",
    "quantized.w8a16": "gptq-int8",
    "w8a8": "int8",
    "quantized.w8a8": "int8",
    "int8": "int8",
    "fp8": "fp8",
    "fp8-dynamic": "fp8",
    "fp8-kv": "fp8",
    "nvfp4": "nvfp4",
    "fp4": "nvfp4",
    "mxfp4": "mxfp4",
    "bnb-4bit": "bnb-nf4",
    "bf16": "bf16",
}
_DTYPES = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "f16": "fp16",
    "f32": "fp32",
    "e4m3": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
    "fp8_block_scales": "fp8",
    "fp8_qdq": "fp8",
    "fp4": "nvfp4",
    "awq_marlin": "awq-int4",
    "gptq_marlin": "gptq-int4",
    "w4a16_awq": "awq-int4",
    "w4a16_gptq": "gptq-int4",
    "w8a8_sq_per_channel": "int8",
    "w8a8_int8": "int8",
    "w8a16": "int8",
    "modelopt": "fp8",
    "modelopt_fp4": "nvfp4",
    "bitsandbytes": "bnb-nf4",
    "mxfp4_moe": "gguf-mxfp4",
}
_CACHES = {"q8_0": "gguf-q8_0", "q4_0": "gguf-q4_0", "q4_1": "gguf-q4_1", "q5_0": "gguf-q5_0"}
_SIZES = {"small": "s", "medium": "m", "large": "l"}


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model of the catalog that a name means.

    ``weights`` is the number format that the name says, or None; ``exact`` tells a name of the
    catalog from one without its endings.
    """

    id: str
    weights: str | None
    exact: bool


def number_format(told: Any) -> str | None:
    """The number format that a tool's word for one means; None where it names none ("auto")."""
    if not isinstance(told, str):
        return None
    plain = told.strip().casefold().removeprefix("torch.")[:40]
    for known in (plain, _DTYPES.get(plain), _QUANTISED.get(plain.replace("_", "-"))):
        if known in NUMBER_FORMATS:
            return known
    return None


def cache_format(told: str) -> str | None:
    """The number format of llama.cpp's name for the type of a cache."""
    plain = told.strip().casefold()
    return _CACHES.get(plain) or number_format(plain)


def gguf_format(described: str) -> str | None:
    """The number format in llama.cpp's description of a model, such as "llama 8B Q4_K - Medium"."""
    found = _LLAMA_TYPE.search(described)
    if found is None:
        return None
    size = _SIZES.get((found[2] or "").casefold(), "")
    plain = found[1].casefold()
    candidates = (f"gguf-{plain}_{size}" if size else "", f"gguf-{plain}", plain)
    return next((one for one in candidates if one in NUMBER_FORMATS), number_format(plain))


def find_model(snapshot: CatalogSnapshot, told: str) -> KnownModel | None:
    """The model that a path, a name on the Hub or a file name means; None where it is none.

    Also None where only a part of the name is known that several models share. A release that is no
    entry is its base model in a format, unless it leaves more as it is than others in that format.
    """
    name = told[:_LONGEST_NAME].strip()
    try:
        entry = model_named(name, snapshot)
    except UnknownReference:
        return None
    base = entry.document.get("base_model")
    if entry.id in snapshot.models:
        return KnownModel(entry.id, None, entry is snapshot.models[entry.id])
    if base is None or _leaves_more(entry.value):
        return KnownModel(entry.id, None, exact=False)
    return KnownModel(str(base), entry.value.native_format, exact=False)


def _leaves_more(architecture: ModelArchitecture) -> bool:
    """Whether a release leaves kinds of matrices as they are that its format usually narrows."""
    own, listed = architecture.native_number_format, NUMBER_FORMATS[architecture.native_format]
    return own is not None and own.quantised_classes != listed.quantised_classes


def models_of_size(
    snapshot: CatalogSnapshot, parameters: float, rounded_to: float | None = None
) -> list[str]:
    """Ids of the models with so many parameters, without releases of them in other formats.

    Parameters
    ----------
    snapshot
        The catalog.
    parameters, rounded_to
        Their number, and the unit of its last digit; None for a full count, which may hold a few
        constants that files store beside the parameters.
    """
    most = 1e-6 * parameters if rounded_to is None else rounded_to / 2.0
    return [
        id_
        for id_, entry in snapshot.models.items()
        if "base_model" not in entry.document
        and abs(entry.value.total_parameters - parameters) <= most
    ]
