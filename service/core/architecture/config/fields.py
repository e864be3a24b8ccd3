"""Typed reading of a ``config.json``: every value is checked for type and bounds before use.

A key may be known under several names (``hidden_size``, ``n_embd``, ``d_model``); a value that is
absent falls back to the family's default, and one that makes no sense raises
`ConfigNotUnderstood` naming it. An explicit null counts as a value: configurations use it to say
"none", for instance of a sliding window.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from service.core.errors import InvalidInput

#: A trait that is fixed for a family, or the name of the boolean key that decides it.
Flag: TypeAlias = bool | str

#: Widths of vectors and matrices. The widest published model is far below.
MAX_WIDTH = 1_000_000
MAX_LAYERS = 10_000
MAX_VOCABULARY = 100_000_000
MAX_EXPERTS = 100_000
MAX_POSITIONS = 1_000_000_000

#: What is wrong with a value that is needed and not there.
MISSING = "is missing"

_MISSING = object()

#: Other names of the same quantity, in the order in which they are looked for.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "hidden_size": ("n_embd", "d_model", "dim", "model_dim"),
    "num_hidden_layers": ("n_layer", "n_layers", "num_layers", "num_decoder_layers"),
    "num_attention_heads": ("n_head", "n_heads", "num_heads", "decoder_attention_heads"),
    "num_key_value_heads": (
        "num_kv_heads",
        "n_head_kv",
        "n_kv_heads",
        "multi_query_group_num",
        "num_attention_groups",
    ),
    "head_dim": ("kv_channels", "attention_head_dim"),
    "intermediate_size": (
        "n_inner",
        "ffn_dim",
        "ffn_hidden_size",
        "hidden_dim",
        "ff_intermediate_size",
        "decoder_ffn_dim",
    ),
    "vocab_size": ("padded_vocab_size", "n_vocab"),
    "max_position_embeddings": (
        "n_positions",
        "n_ctx",
        "seq_length",
        "max_seq_len",
        "max_seq_length",
        "max_sequence_length",
        "model_max_length",
    ),
    "sliding_window": ("sliding_window_size", "window_size"),
    "num_experts": ("num_local_experts", "n_routed_experts", "moe_num_experts"),
    "num_experts_per_tok": (
        "num_experts_per_token",
        "moe_top_k",
        "moe_topk",
        "moe_k",
        "top_k",
        "top_k_experts",
    ),
    "moe_intermediate_size": ("expert_ffn_hidden_size", "moe_ffn_hidden_size"),
    "n_shared_experts": ("num_shared_experts", "moe_num_shared_experts", "num_shared_expert"),
    "layer_types": ("layers_block_type", "attention_layers"),
    "state_size": ("mamba_d_state", "ssm_state_size"),
    "conv_kernel": ("mamba_d_conv", "conv_kernel_size"),
    "expand": ("mamba_expand",),
    "time_step_rank": ("mamba_dt_rank",),
    "use_conv_bias": ("mamba_conv_bias",),
    "state_heads": ("mamba_n_heads", "mamba_num_heads", "num_heads"),
    "state_head_dim": ("mamba_d_head", "mamba_head_dim", "head_dim"),
    "n_groups": ("mamba_n_groups",),
    "mamba_ssm_dtype": ("mamba_ssm_cache_dtype",),
}

#: Sections whose keys some families nest (DBRX, MPT).
_NESTED_ALIASES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "attn_pdrop": (("attn_config", "attn_pdrop"),),
    "num_key_value_heads": (("attn_config", "kv_n_heads"),),
    "intermediate_size": (("ffn_config", "ffn_hidden_size"),),
    "num_experts": (("ffn_config", "moe_num_experts"),),
    "spatial_merge_size": (("img_token_compression_config", "spatial_merge_size"),),
    "temporal_patch_size": (("img_token_compression_config", "temporal_patch_size"),),
    "num_experts_per_tok": (("ffn_config", "moe_top_k"),),
}


class ConfigNotUnderstood(InvalidInput):
    """A model configuration that no architecture can be made of.

    Parameters
    ----------
    field
        Key at fault; nested keys are joined by a slash.
    reason
        What is wrong with it, for a person to read.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason

    @property
    def pointer(self) -> str:
        """JSON pointer to the key at fault (RFC 6901)."""
        return "/" + self.field if self.field else ""


class Fields:
    """A configuration with a family's defaults behind it."""

    __slots__ = ("_defaults", "_path", "_values")

    def __init__(
        self, values: Mapping[str, object], defaults: Mapping[str, object], path: str = ""
    ) -> None:
        self._values = values
        self._defaults = defaults
        self._path = path

    def _find(self, name: str) -> tuple[str, object]:
        values = self._values
        if name in values:
            return name, values[name]
        for key in ALIASES.get(name, ()):
            if key in values:
                return key, values[key]
        for section, key in _NESTED_ALIASES.get(name, ()):
            nested = values.get(section)
            if isinstance(nested, Mapping) and key in nested:
                return f"{section}/{key}", nested[key]
        return name, self._defaults.get(name, _MISSING)

    def fault(self, name: str, reason: str) -> ConfigNotUnderstood:
        """The exception for a value at fault, under the name the configuration gives it."""
        return ConfigNotUnderstood(self._path + self._find(name)[0], reason)

    def has(self, name: str) -> bool:
        """Whether the configuration itself, or a default, gives a value other than null."""
        return self._find(name)[1] not in (None, _MISSING)

    def optional_size(self, name: str, maximum: int = MAX_WIDTH, minimum: int = 1) -> int | None:
        """An integer within bounds, or None where it is absent or null [-].

        Raises
        ------
        ConfigNotUnderstood
            If the value is no integer or out of bounds.
        """
        value = self._find(name)[1]
        if value is None or value is _MISSING:
            return None
        if isinstance(value, (list, tuple)) and value:
            # Some configurations state what all layers have in common once for each.
            if len(value) > MAX_LAYERS or any(one != value[0] for one in value):
                raise self.fault(name, "must be an integer, or a list that has the same for all")
            value = value[0]
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int:
            raise self.fault(name, f"must be an integer, not {_kind(value)}")
        if not minimum <= value <= maximum:
            raise self.fault(name, f"must be between {minimum:,} and {maximum:,}")
        return value

    def size(self, name: str, maximum: int = MAX_WIDTH, minimum: int = 1) -> int:
        """An integer within bounds that must be there [-].

        Raises
        ------
        ConfigNotUnderstood
            If the value is missing, no integer or out of bounds.
        """
        value = self.optional_size(name, maximum, minimum)
        if value is None:
            raise self.fault(name, MISSING)
        return value

    def automatic_size(self, name: str) -> int | None:
        """An integer within bounds, or None where it is absent, null or "auto" [-]."""
        return None if self._find(name)[1] == "auto" else self.optional_size(name)

    def count(self, name: str, maximum: int = MAX_EXPERTS) -> int:
        """An integer that may be zero; zero where it is absent or null [-]."""
        return self.optional_size(name, maximum, minimum=0) or 0

    def flag(self, flag: Flag) -> bool:
        """A fixed trait as it is, or the boolean key it names; an absent key is false."""
        if isinstance(flag, bool):
            return flag
        value = self._find(flag)[1]
        if value is None or value is _MISSING:
            return False
        if type(value) is bool:
            return value
        # Some early configurations write 0 and 1.
        if type(value) is int and value in (0, 1):
            return bool(value)
        raise self.fault(flag, f"must be true or false, not {_kind(value)}")

    def text(self, name: str) -> str | None:
        """A string, or None where it is absent or null."""
        value = self._find(name)[1]
        if value is None or value is _MISSING:
            return None
        if isinstance(value, str):
            return value
        raise self.fault(name, f"must be a string, not {_kind(value)}")

    def ratio(self, name: str, maximum: float = 1e4) -> float | None:
        """A positive number, or None where it is absent or null [-]."""
        value = self._find(name)[1]
        if value is None or value is _MISSING:
            return None
        if type(value) not in (int, float):
            raise self.fault(name, f"must be a number, not {_kind(value)}")
        if not 0 < value <= maximum:  # type: ignore[operator]  # a number by the line above
            raise self.fault(name, f"must be above 0 and at most {maximum:g}")
        return float(value)  # type: ignore[arg-type]

    def is_above_zero(self, name: str) -> bool:
        """Whether a key holds a number above zero; what it holds otherwise does not matter."""
        value = self._find(name)[1]
        return type(value) in (int, float) and value > 0  # type: ignore[operator]  # by its type

    def array(self, name: str, length: int | None = None) -> Sequence[object] | None:
        """A list, or None where it is absent or null.

        Raises
        ------
        ConfigNotUnderstood
            If the value is no list or has not the given length.
        """
        value = self._find(name)[1]
        if value is None or value is _MISSING:
            return None
        if not isinstance(value, (list, tuple)):
            raise self.fault(name, f"must be a list, not {_kind(value)}")
        if length is not None and len(value) != length:
            raise self.fault(name, f"must have {length:,} entries, one a layer, not {len(value):,}")
        return value

    def is_text(self, name: str) -> bool:
        """Whether a key holds a string."""
        return isinstance(self._find(name)[1], str)

    def is_list(self, name: str) -> bool:
        """Whether a value is a list."""
        return isinstance(self._find(name)[1], (list, tuple))

    def indices(self, name: str, below: int) -> frozenset[int] | None:
        """A list of layer numbers, or None where it is absent or null."""
        values = self.array(name)
        if values is None:
            return None
        if len(values) > MAX_LAYERS:
            raise self.fault(name, f"must have at most {MAX_LAYERS:,} entries")
        numbers: set[int] = set()
        for value in values:
            if type(value) is not int or not 0 <= value < below:
                raise self.fault(name, f"must hold integers from 0 to {below - 1:,}")
            numbers.add(value)
        return frozenset(numbers)

    def replaced(self, **values: object) -> Fields:
        """The same configuration with other values of some keys."""
        return Fields({**self._values, **values}, self._defaults, self._path)

    def section(self, name: str, defaults: Mapping[str, object]) -> Fields | None:
        """A nested configuration, or None where it is absent or null."""
        value = self._find(name)[1]
        if value is None or value is _MISSING:
            return None
        if not isinstance(value, Mapping):
            raise self.fault(name, f"must be an object, not {_kind(value)}")
        return Fields(value, defaults, f"{self._path}{name}/")


def _kind(value: object) -> str:
    return {bool: "a boolean", int: "an integer", float: "a number", str: "a string"}.get(
        type(value), f"a {type(value).__name__}"
    )
