"""The ``config.json`` that a GGUF file's metadata amount to.

References
----------
ggml-org/llama.cpp gguf-py/gguf/constants.py (keys and file types) and convert_hf_to_gguf.py (which
key of a configuration each was made from), 2026.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from service.checkpoints.gguf_header import GgufHeader, PassedOver
from service.checkpoints.reading import CheckpointUnreadable

#: ``model_type`` by ``general.architecture``.
_MODEL_TYPES: Mapping[str, str] = {
    "llama": "llama",
    "mistral3": "ministral3",
    "qwen2": "qwen2",
    "qwen2moe": "qwen2_moe",
    "qwen3": "qwen3",
    "qwen3moe": "qwen3_moe",
    "gemma": "gemma",
    "gemma2": "gemma2",
    "gemma3": "gemma3_text",
    "phi3": "phi3",
    "command-r": "cohere",
    "cohere2": "cohere2",
    "starcoder2": "starcoder2",
    "gpt-oss": "gpt_oss",
    "deepseek2": "deepseek_v2",
    "olmo2": "olmo2",
    "olmoe": "olmoe",
    "glm4": "glm4",
    "granite": "granite",
    "granitemoe": "granitemoe",
    "smollm3": "smollm3",
    "internlm2": "internlm2",
    "stablelm": "stablelm",
    "exaone4": "exaone4",
    "seed_oss": "seed_oss",
    "arcee": "arcee",
    "apertus": "apertus",
}
#: Keys of a configuration by those of a file, which stand below the architecture's name.
_KEYS: Mapping[str, str] = {
    "embedding_length": "hidden_size",
    "block_count": "num_hidden_layers",
    "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings",
    "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads",
    "attention.key_length": "head_dim",
    "attention.sliding_window": "sliding_window",
    "expert_used_count": "num_experts_per_tok",
    "expert_feed_forward_length": "moe_intermediate_size",
    "expert_shared_feed_forward_length": "shared_expert_intermediate_size",
    "expert_shared_count": "n_shared_experts",
    "leading_dense_block_count": "first_k_dense_replace",
    "attention.q_lora_rank": "q_lora_rank",
    "attention.kv_lora_rank": "kv_lora_rank",
}
#: Tensors whose presence tells what a configuration says by a flag.
_TELLING_TENSORS = {
    "blk.0.attn_q.bias": "attention_bias",
    "blk.0.attn_q_norm.weight": "use_qk_norm",
}
#: Where a family keeps its number of experts, if not in ``num_experts``.
_EXPERT_KEYS = {
    "mixtral": "num_local_experts",
    "gpt_oss": "num_local_experts",
    "granitemoe": "num_local_experts",
    "deepseek_v2": "n_routed_experts",
    "deepseek_v3": "n_routed_experts",
}
#: What ``general.file_type`` means: a type of plain numbers, or one of our formats.
_PLAIN_FILE_TYPES = {0: "float32", 1: "float16", 32: "bfloat16"}
_FILE_TYPES = {
    2: "q4_0",
    3: "q4_1",
    7: "q8_0",
    8: "q5_0",
    9: "q5_1",
    10: "q2_k",
    11: "q3_k_s",
    12: "q3_k_m",
    13: "q3_k_l",
    14: "q4_k_s",
    15: "q4_k_m",
    16: "q5_k_s",
    17: "q5_k_m",
    18: "q6_k",
    19: "iq2_xxs",
    20: "iq2_xs",
    21: "q2_k_s",
    22: "iq3_xs",
    23: "iq3_xxs",
    24: "iq1_s",
    25: "iq4_nl",
    26: "iq3_s",
    27: "iq3_m",
    28: "iq2_s",
    29: "iq2_m",
    30: "iq4_xs",
    31: "iq1_m",
}
_MIXTURE_OF_MXFP4 = 38
#: Bits of types of tensors that are plain numbers.
_PLAIN_TENSOR_BITS = {0: 32, 1: 16, 30: 16}
#: File types by that of most of the bytes, for files that do not say.
_BY_TENSOR_TYPE = {
    0: 0,
    1: 1,
    2: 2,
    3: 3,
    6: 8,
    7: 9,
    8: 7,
    10: 10,
    11: 12,
    12: 15,
    13: 17,
    14: 18,
    16: 19,
    17: 20,
    18: 23,
    19: 24,
    20: 25,
    21: 26,
    22: 28,
    23: 30,
    29: 31,
    30: 32,
    39: _MIXTURE_OF_MXFP4,
}


def config_of_gguf(header: GgufHeader) -> dict[str, Any]:
    """The configuration of the model in a file.

    Raises
    ------
    CheckpointUnreadable
        If the architecture or the number format is not known, or metadata contradict themselves.
    """
    architecture = header.metadata.get("general.architecture")
    if not isinstance(architecture, str) or architecture not in _MODEL_TYPES:
        known = ", ".join(sorted(_MODEL_TYPES))
        raise CheckpointUnreadable(
            f"its architecture {str(architecture)[:60]!r} is not known (known: {known}); give the "
            "config.json of the original model, and its format with --weights"
        )
    if "split.count" in header.metadata and header.metadata["split.count"] != 1:
        raise CheckpointUnreadable(
            "it is one of several parts; merge them (llama-gguf-split --merge), or give the "
            "config.json of the original model"
        )
    found = {
        key: header.metadata[f"{architecture}.{name}"]
        for name, key in _KEYS.items()
        if f"{architecture}.{name}" in header.metadata
    }
    config: dict[str, Any] = {key: _alike(value, key) for key, value in found.items()}
    model_type = _MODEL_TYPES[architecture]
    experts = _alike(header.metadata.get(f"{architecture}.expert_count", 0), "expert_count")
    if model_type == "llama" and experts:
        model_type = "mixtral"
    if model_type == "deepseek_v2":
        model_type = _latent(config, header, architecture)
    if experts:
        config[_EXPERT_KEYS.get(model_type, "num_experts")] = experts
    config["model_type"] = model_type
    config["vocab_size"] = _vocabulary(header)
    config["tie_word_embeddings"] = "output.weight" not in header.tensors
    for tensor, key in _TELLING_TENSORS.items():
        if tensor in header.tensors:
            config[key] = True
    return config | _format(header)


def stored_bytes(header: GgufHeader) -> int:
    """Bytes of all tensors in a file [B]."""
    return sum(tensor.stored_bytes for tensor in header.tensors.values())


def _alike(value: Any, key: str) -> int:
    """A number that a file may state layer by layer, where all layers have the same."""
    listed = value if isinstance(value, list) else [value]
    if any(type(number) is not int for number in listed):
        raise CheckpointUnreadable(f"its {key} is not a whole number")
    if len(set(listed)) != 1:
        raise CheckpointUnreadable(
            f"its layers differ in {key}; give the config.json of the original model, and its "
            "format with --weights"
        )
    return int(listed[0])


def _latent(config: dict[str, Any], header: GgufHeader, architecture: str) -> str:
    """The family of a DeepSeek file, after its head sizes have been put into the configuration."""

    def stated(name: str) -> Any:
        of_heads = header.metadata.get(f"{architecture}.{name}_mla")
        return of_heads or header.metadata.get(f"{architecture}.{name}")

    turned = header.metadata.get(f"{architecture}.rope.dimension_count")
    key, value = stated("attention.key_length"), stated("attention.value_length")
    if not all(type(size) is int for size in (turned, key, value)):
        raise CheckpointUnreadable("it does not state the size of its heads")
    config |= {
        "qk_rope_head_dim": turned,
        "qk_nope_head_dim": key - turned,
        "v_head_dim": value,
        # Files made for latent attention keep one head for all; the model has as many as queries.
        "num_key_value_heads": config.get("num_attention_heads"),
    }
    config.pop("head_dim", None)
    config.setdefault("q_lora_rank", None)
    corrected = any(name.endswith("exp_probs_b.bias") for name in header.tensors)
    return "deepseek_v3" if corrected else "deepseek_v2"


def _vocabulary(header: GgufHeader) -> int:
    table = header.tensors.get("token_embd.weight")
    if table is not None and len(table.shape) == 2:
        return table.shape[1]
    tokens = header.metadata.get("tokenizer.ggml.tokens")
    if isinstance(tokens, PassedOver):
        return tokens.length
    if isinstance(tokens, list):
        return len(tokens)
    raise CheckpointUnreadable("it has neither an embedding table nor a list of tokens")


def _format(header: GgufHeader) -> dict[str, Any]:
    stated = header.metadata.get("general.file_type")
    if stated not in (*_PLAIN_FILE_TYPES, *_FILE_TYPES, _MIXTURE_OF_MXFP4):
        sizes: Counter[int] = Counter()
        for tensor in header.tensors.values():
            sizes[tensor.type] += tensor.stored_bytes
        most = sizes.most_common(1)
        stated = _BY_TENSOR_TYPE.get(most[0][0]) if most else None
    if stated in _PLAIN_FILE_TYPES:
        return {"torch_dtype": _PLAIN_FILE_TYPES[stated]}
    if stated == _MIXTURE_OF_MXFP4:
        return {"quantization_config": {"quant_method": "mxfp4"}}
    if stated not in _FILE_TYPES:
        raise CheckpointUnreadable("the number format of its weights is not known")
    found: dict[str, Any] = {"quant_method": "gguf", "file_type": f"gguf-{_FILE_TYPES[stated]}"}
    table = header.tensors.get("token_embd.weight")
    if table is not None and "output.weight" not in header.tensors:
        bits = _PLAIN_TENSOR_BITS.get(table.type)
        found |= {} if bits is None else {"table_bits": bits}
    return {"quantization_config": found}
