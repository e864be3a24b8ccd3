"""The number format a checkpoint ships in, from ``quantization_config`` and ``torch_dtype``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypeAlias

from service.core.architecture.tensors import TensorClass
from service.core.explanation import EstimateWarning
from service.core.number_formats import NUMBER_FORMATS, OF_CHECKPOINT, NumberFormat

_PLAIN = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "float8_e4m3fn": "fp8",
}

#: Largest group and bit width that make sense; beyond, a configuration is not believed.
_MAX_GROUP = 65_536
_MAX_BITS = 16
_MAX_MODULES = 100_000

#: Blocks by a part of their module names, the more special first.
_CONTAINERS = (
    ("linear_attn", TensorClass.STATE),
    ("mamba", TensorClass.STATE),
    ("mixer", TensorClass.STATE),
    ("attn", TensorClass.ATTENTION),
    ("shared_expert", TensorClass.SHARED_EXPERT),
    ("expert", TensorClass.EXPERT),
    ("mlp", TensorClass.DENSE_FFN),
)
#: The same where single modules are listed with their formats.
_LISTED = (
    ("shared_expert", TensorClass.SHARED_EXPERT),
    ("expert", TensorClass.EXPERT),
    ("lm_head", TensorClass.HEAD),
    *_CONTAINERS,
)
#: Kinds of models whose linear attention goes by the name of attention.
_STATES_NAMED_ATTENTION = frozenset({"kimi_linear", "kimi_k3"})
#: A block is taken as left out when the list names it whole or names its last projection.
_OUTPUT_PROJECTIONS = ("o_proj", "out_proj", "down_proj", "down")


@dataclass(frozen=True, slots=True)
class CheckpointFormat:
    """How a checkpoint is stored.

    ``listed_id`` is the listed format that is nearest; ``exact`` is the format itself where it
    departs from the listed one (another group size, classes left out), else None.
    """

    listed_id: str
    exact: NumberFormat | None = None
    warnings: tuple[EstimateWarning, ...] = ()


def checkpoint_format(*configs: Mapping[str, Any]) -> CheckpointFormat:
    """The number format of a checkpoint.

    Parameters
    ----------
    configs
        The ``config.json`` and, of a multimodal model, its language part; the first that says
        something counts.

    Returns
    -------
    CheckpointFormat
        16-bit where nothing is said; an unknown method adds a warning.
    """
    for config in configs:
        quantised = config.get("quantization_config", config.get("compression_config"))
        if isinstance(quantised, Mapping) and quantised:
            layers = next(filter(None, map(_layer_count, reversed(configs))), 1)
            alike = any(one.get("model_type") in _STATES_NAMED_ATTENTION for one in configs)
            # DeepSeek-V4 says beside it in what its experts are.
            stated = {"expert_dtype": config.get("expert_dtype"), **quantised}
            return _quantised(stated, layers, alike)
    for config in configs:
        for key in ("dtype", "torch_dtype"):
            name = config.get(key)
            if isinstance(name, str) and name.removeprefix("torch.") in _PLAIN:
                return CheckpointFormat(_PLAIN[name.removeprefix("torch.")])
    return CheckpointFormat("bf16")


def _layer_count(config: Mapping[str, Any]) -> int | None:
    for key in ("num_hidden_layers", "n_layer", "n_layers", "num_layers"):
        layers = config.get(key)
        if isinstance(layers, int) and layers > 0:
            return layers
    return None


def _quantised(
    config: Mapping[str, Any], layers: int, states_named_attention: bool
) -> CheckpointFormat:
    method = config.get("quant_method", config.get("quant_algo", ""))
    method = method.lower().replace("_", "-") if isinstance(method, str) else ""
    if method in ("compressed-tensors", "modelopt", "fp8", "nvfp4", "quark"):
        stated = _grouped(config) or _by_algorithm(config, method)
    elif not method and {"bits", "group_size"} <= config.keys():
        stated = _mlx(config)
    else:
        stated = _BY_METHOD[method](config) if method in _BY_METHOD else None
    by_layer = _by_layer(config)
    if by_layer is not None:
        return by_layer
    if stated is None:
        warning = EstimateWarning(
            "unknown_quantization",
            f"Quantisation method {method[:60]!r} is not known; weights are assumed to be 16 bit.",
        )
        return CheckpointFormat("bf16", None, (warning,))
    listed_id, exact = stated
    left = _left_out(config, layers)
    if states_named_attention and TensorClass.ATTENTION in left:
        left[TensorClass.STATE] = left[TensorClass.ATTENTION]
    classes = exact.quantised_classes - {class_ for class_, share in left.items() if share >= 1.0}
    mixed = frozenset((class_, share) for class_, share in left.items() if class_ in classes)
    return CheckpointFormat(
        listed_id,
        _departure(
            listed_id,
            exact.bits_per_element,
            classes,
            mixed,
            microscaled_experts=config.get("expert_dtype") == "fp4",
            table_bits=_table_bits(config),
        ),
    )


def _table_bits(config: Mapping[str, Any]) -> float | None:
    """Bits of a table of tokens that a file of GGUF shares with its head, if it says so."""
    bits = config.get("table_bits")
    return float(bits) if bits in (16, 32) else None


def _by_layer(config: Mapping[str, Any]) -> CheckpointFormat | None:
    """The format of a checkpoint that lists its modules, each with its own (ModelOpt).

    A kind of module has the mean width of those that are listed; one of which none is, 16 bit, or
    8 where the checkpoint was in 8 bits before.
    """
    listed = config.get("quantized_layers")
    if not isinstance(listed, Mapping) or config.get("quant_algo") != "MIXED_PRECISION":
        return None
    found: dict[TensorClass, list[tuple[str, float]]] = {}
    plain: set[str] = set()
    for module, how in list(listed.items())[:_MAX_MODULES]:
        class_ = next((one for part, one in _LISTED if part in str(module)), None)
        stated = _by_algorithm(how, "") if isinstance(how, Mapping) else None
        if class_ is None or stated is None:
            continue
        algorithm = str(how["quant_algo"]).lower()
        scales = 8.0 / 32.0 if algorithm == "mxfp8" else 0.0
        found.setdefault(class_, []).append((stated[0], stated[1].bits_per_element + scales))
        if "a16" in algorithm:
            plain.add(stated[0])
    if not found:
        return None
    widths = {class_: sum(bits for _, bits in held) / len(held) for class_, held in found.items()}
    rest = _float8(config) if "weight_block_size" in config else None
    if rest is not None:
        # Some modules of a checkpoint in 8 bits were made narrower; the others stay in 8.
        widths = dict.fromkeys(rest[1].quantised_classes, rest[1].bits_per_element) | widths
    # Most of a model are its experts, or its only feed-forward parts.
    most = next(
        (one for one in (TensorClass.EXPERT, TensorClass.DENSE_FFN) if one in found),
        min(found, key=str),
    )
    listed_id = found[most][0][0]
    return CheckpointFormat(
        listed_id,
        _listed_departure(listed_id, frozenset(widths.items()), multiplied_wide=listed_id in plain),
    )


@lru_cache(maxsize=256)
def _listed_departure(
    listed_id: str, widths: frozenset[tuple[TensorClass, float]], *, multiplied_wide: bool
) -> NumberFormat:
    """A listed format with widths of its own for each kind of module, and 16 bit for the rest."""
    listed = NUMBER_FORMATS[listed_id]
    return replace(
        listed,
        id=f"{listed_id}{OF_CHECKPOINT}",
        matrix_precision="bf16" if multiplied_wide else listed.matrix_precision,
        quantised_classes=frozenset(class_ for class_, _ in widths),
        by_class_bits=MappingProxyType({**listed.by_class_bits, **dict(widths)}),
    )


@lru_cache(maxsize=256)
def _departure(
    listed_id: str,
    bits_per_element: float,
    classes: frozenset[TensorClass],
    mixed: frozenset[tuple[TensorClass, float]],
    *,
    microscaled_experts: bool = False,
    table_bits: float | None = None,
) -> NumberFormat | None:
    """The listed format with what a checkpoint changes, the same object for the same changes.

    ``mixed`` are classes that some of the layers leave as they are, with the share of those;
    ``microscaled_experts`` are of four bits, with a scale of eight for each 32; a table of tokens
    and the head that shares it have ``table_bits``.
    """
    listed = NUMBER_FORMATS[listed_id]
    unchanged = listed.bits_per_element == bits_per_element
    more = mixed or microscaled_experts or table_bits
    if unchanged and listed.quantised_classes == classes and not more:
        return None
    by_class = {
        class_: share * listed.remainder_bits + (1.0 - share) * bits_per_element
        for class_, share in mixed
    }
    if microscaled_experts:
        by_class[TensorClass.EXPERT] = NUMBER_FORMATS["mxfp4"].bits_per_element
    if table_bits is not None:
        by_class |= dict.fromkeys((TensorClass.EMBEDDING, TensorClass.HEAD), table_bits)
    ragged = listed.ragged
    if ragged is not None:
        ragged = replace(
            ragged, by_class_bits=MappingProxyType({**ragged.by_class_bits, **by_class})
        )
    return replace(
        listed,
        id=f"{listed_id}{OF_CHECKPOINT}",
        bits_per_element=bits_per_element,
        quantised_classes=classes,
        by_class_bits=MappingProxyType({**listed.by_class_bits, **by_class}),
        ragged=ragged,
    )


_Found: TypeAlias = tuple[str, NumberFormat] | None


def _integer(config: Mapping[str, Any], default: int, *keys: str) -> int:
    for key in keys:
        value = config.get(key)
        if type(value) is int:
            return value
    return default


def _integers(config: Mapping[str, Any], method: str, default_bits: int = 4) -> _Found:
    """Weight-only integers in groups: a 16-bit scale and, unless symmetric, a zero point each."""
    bits = _integer(config, default_bits, "bits", "w_bit", "num_bits", "nbits")
    group = _integer(config, 128, "group_size", "q_group_size")
    listed_id = f"{method}-int4" if bits <= 6 or method == "awq" else "gptq-int8"
    if method == "awq" and str(config.get("version", "")).lower() == "gemv":
        listed_id = "awq-int4-gemv"
    if not 1 <= bits <= _MAX_BITS or group > _MAX_GROUP:
        return None
    # A group size of -1 means one scale for each output channel: a negligible share.
    scale_bits = 16.0 + (bits if _has_zero_points(config) else 0)
    overhead = scale_bits / group if group > 0 else 0.0
    return listed_id, replace(NUMBER_FORMATS[listed_id], bits_per_element=bits + overhead)


def _has_zero_points(config: Mapping[str, Any]) -> bool:
    # GPTQ packing stores zero points even where they are all alike; compressed-tensors does not.
    return config.get("symmetric") is not True


def _bitsandbytes(config: Mapping[str, Any]) -> _Found:
    if config.get("load_in_8bit") is True:
        return "bnb-int8", NUMBER_FORMATS["bnb-int8"]
    nested = config.get("bnb_4bit_use_double_quant") is True
    # Without double quantisation each 64-element block has a 32-bit scale.
    bits = NUMBER_FORMATS["bnb-nf4"].bits_per_element if nested else 4.0 + 32.0 / 64.0
    return "bnb-nf4", replace(NUMBER_FORMATS["bnb-nf4"], bits_per_element=bits)


def _microscaled(config: Mapping[str, Any]) -> _Found:  # noqa: ARG001 - one shape for all methods
    # The reference quantiser converts expert weights and nothing else.
    experts = frozenset({TensorClass.EXPERT})
    return "mxfp4", replace(NUMBER_FORMATS["mxfp4"], quantised_classes=experts)


def _float8(config: Mapping[str, Any]) -> _Found:
    block = config.get("weight_block_size")
    bits = 8.0  # One scale a tensor or channel is a negligible share.
    if isinstance(block, (list, tuple)) and len(block) == 2:
        rows, columns = block
        if type(rows) is not int or type(columns) is not int or rows < 1 or columns < 1:
            return None
        bits += 32.0 / (rows * columns)
    return "fp8", replace(NUMBER_FORMATS["fp8"], bits_per_element=bits)


def _gguf(config: Mapping[str, Any]) -> _Found:
    """A mix of llama.cpp, by the id of its format."""
    stated = config.get("file_type")
    if (
        not isinstance(stated, str)
        or not stated.startswith("gguf-")
        or stated not in NUMBER_FORMATS
    ):
        return None
    return stated, NUMBER_FORMATS[stated]


def _exllama(config: Mapping[str, Any], generation: int) -> _Found:
    """A mix of ExLlama's by its mean width: as the listed one whose width is nearest."""
    bits = config.get("bits")
    if not isinstance(bits, (int, float)) or not 1.0 <= bits <= _MAX_BITS:
        return None
    listed = min(
        (one for id_, one in NUMBER_FORMATS.items() if id_.startswith(f"exl{generation}-")),
        key=lambda one: abs(one.bits_per_element - bits),
    )
    return listed.id, replace(listed, bits_per_element=float(bits))


def _mlx(config: Mapping[str, Any]) -> _Found:
    """MLX's own format, which names no method: a scale and a bias of 16 bit a group."""
    bits, group = _integer(config, 0, "bits"), _integer(config, 0, "group_size")
    listed = NUMBER_FORMATS.get(f"mlx-{bits}bit")
    if listed is None or group < 1:
        return None
    return listed.id, replace(listed, bits_per_element=bits + 32.0 / group)


_BY_METHOD: Mapping[str, Callable[[Mapping[str, Any]], _Found]] = {
    "awq": lambda config: _integers(config, "awq"),
    "gptq": lambda config: _integers(config, "gptq"),
    "auto-round": lambda config: _integers(config, "gptq"),
    "hqq": lambda config: _integers(config, "gptq"),
    "bitsandbytes": _bitsandbytes,
    "gguf": _gguf,
    "exl2": lambda config: _exllama(config, 2),
    "exl3": lambda config: _exllama(config, 3),
    "mxfp4": _microscaled,
    "fbgemm-fp8": _float8,
    "eetq": lambda config: ("int8", NUMBER_FORMATS["int8"]),  # noqa: ARG005
}


def _grouped(config: Mapping[str, Any]) -> _Found:
    """Format of the first of ``config_groups`` (compressed-tensors and ModelOpt)."""
    groups = config.get("config_groups")
    if not isinstance(groups, Mapping):
        return None
    group = next(iter(groups.values()), None)
    weights = group.get("weights") if isinstance(group, Mapping) else None
    if not isinstance(group, Mapping) or not isinstance(weights, Mapping):
        return None
    bits = _integer(weights, 0, "num_bits")
    if weights.get("type") == "float":
        four = "mxfp4" if _packs_microscaled(config, group) else "nvfp4"
        return _by_algorithm(config, four if bits == 4 else "fp8") if bits in (4, 8) else None
    if bits == 8 and isinstance(group.get("input_activations"), Mapping):
        return "int8", NUMBER_FORMATS["int8"]
    return _integers({"group_size": -1, **weights}, "gptq") if bits else None


def _packs_microscaled(*sections: Mapping[str, Any]) -> bool:
    """Whether four-bit floats are packed with a power of two for each 32 of them."""
    return any(str(section.get("format", "")).startswith("mxfp4") for section in sections)


def _by_algorithm(config: Mapping[str, Any], method: str) -> _Found:
    algorithm = config.get("quant_algo")
    name = algorithm.lower() if isinstance(algorithm, str) else method
    if "nvfp4" in name:
        return "nvfp4", NUMBER_FORMATS["nvfp4"]
    if "mxfp4" in name:
        return "mxfp4", NUMBER_FORMATS["mxfp4"]
    if "fp8" in name:
        return _float8(config)
    return None


def _left_out(config: Mapping[str, Any], layers: int) -> dict[TensorClass, float]:
    """Shares of the layers whose tensors of a class stay in 16 bit, by the unconverted modules.

    A class that is named without a layer number is left out everywhere.
    """
    listed_layers: dict[TensorClass, set[str]] = {}
    everywhere = set()
    for key in ("modules_to_not_convert", "ignore", "exclude_modules", "ignored_layers"):
        modules = config.get(key)
        for module in modules[:_MAX_MODULES] if isinstance(modules, (list, tuple)) else ():
            if not isinstance(module, str):
                continue
            tensor_class = _module_class(module)
            if tensor_class is None:
                continue
            layer = next((part for part in module.split(".") if part.isdigit()), None)
            if layer is None:
                everywhere.add(tensor_class)
            else:
                listed_layers.setdefault(tensor_class, set()).add(layer)
    shares = {class_: min(len(held) / layers, 1.0) for class_, held in listed_layers.items()}
    return shares | dict.fromkeys(everywhere, 1.0)


def _module_class(module: str) -> TensorClass | None:
    """The class that a whole block, or its output projection, belongs to; else None."""
    for container, tensor_class in _CONTAINERS:
        before, separator, rest = module.rpartition(container)
        if separator:
            rest = rest.strip("s.*$\\")
            whole = not rest or any(name in rest for name in _OUTPUT_PROJECTIONS)
            return tensor_class if whole and (before or separator == module) else None
    return None
