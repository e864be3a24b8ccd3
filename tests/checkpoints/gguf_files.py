"""GGUF files of catalog models, written by llama.cpp's own library, without the weights."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

import gguf
import numpy as np

from service.catalog.entries.entry import Entry
from service.core.architecture.model import ModelArchitecture

#: How llama.cpp's converter names what a configuration says.
KEYS = {
    "hidden_size": gguf.GGUFWriter.add_embedding_length,
    "num_hidden_layers": gguf.GGUFWriter.add_block_count,
    "intermediate_size": gguf.GGUFWriter.add_feed_forward_length,
    "max_position_embeddings": gguf.GGUFWriter.add_context_length,
    "num_attention_heads": gguf.GGUFWriter.add_head_count,
    "num_key_value_heads": gguf.GGUFWriter.add_head_count_kv,
    "head_dim": gguf.GGUFWriter.add_key_length,
    "num_local_experts": gguf.GGUFWriter.add_expert_count,
    "num_experts": gguf.GGUFWriter.add_expert_count,
    "n_routed_experts": gguf.GGUFWriter.add_expert_count,
    "num_experts_per_tok": gguf.GGUFWriter.add_expert_used_count,
    "moe_intermediate_size": gguf.GGUFWriter.add_expert_feed_forward_length,
    "shared_expert_intermediate_size": gguf.GGUFWriter.add_expert_shared_feed_forward_length,
    "n_shared_experts": gguf.GGUFWriter.add_expert_shared_count,
    "first_k_dense_replace": gguf.GGUFWriter.add_leading_dense_block_count,
    "q_lora_rank": gguf.GGUFWriter.add_q_lora_rank,
    "kv_lora_rank": gguf.GGUFWriter.add_kv_lora_rank,
    "sliding_window": gguf.GGUFWriter.add_sliding_window,
}


def write_gguf(
    path: Path,
    architecture: str,
    model: Entry[ModelArchitecture],
    file_type: int | None = gguf.LlamaFileType.MOSTLY_F16,
    extra: Mapping[str, int] | None = None,
    tensors: tuple[str, ...] = (),
) -> Path:
    """Write the header of a model's file: metadata, a long vocabulary, and a few tensors.

    The rest of the weights stands as one tensor, so that the file counts as many as the model.
    """
    config = model.document["config"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        writer = gguf.GGUFWriter(None, architecture)
    for key, add in KEYS.items():
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool):
            add(writer, value)
    for key, value in (extra or {}).items():
        writer.add_uint32(f"{architecture}.{key}", value)
    if file_type is not None:
        writer.add_file_type(file_type)
    writer.add_token_list([f"token {at}" for at in range(5_000)])
    writer.add_token_scores([0.5] * 5_000)
    value = model.value
    shapes: dict[str, tuple[int, ...]] = {
        "token_embd.weight": (value.vocab_size, value.hidden_size),
        **dict.fromkeys(tensors, (32,)),
    }
    if not value.tied_embeddings:
        shapes["output.weight"] = (value.vocab_size, value.hidden_size)
    held = sum(int(np.prod(shape)) for shape in shapes.values())
    rest = value.total_parameters - held
    shapes["blk.0.rest.weight"] = (rest,)
    for name, shape in shapes.items():
        size = int(np.prod(shape)) * 2
        writer.add_tensor_info(name, shape, np.dtype(np.float16), size)
    writer.write_header_to_file(path)
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    return path
