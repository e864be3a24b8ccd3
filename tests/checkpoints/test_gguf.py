"""GGUF files of catalog models, as llama.cpp's library writes them, give the catalog's models."""

from __future__ import annotations

import struct
from pathlib import Path

import gguf
import pytest
from hypothesis import given
from hypothesis import strategies as some

from service.catalog.snapshot import CatalogSnapshot
from service.checkpoints.gguf_header import BLOCKS, read_gguf_header
from service.checkpoints.local import local_model
from service.checkpoints.reading import CheckpointUnreadable
from service.core.architecture.config import parse_config
from service.estimation.references import ModelConfig
from service.estimation.resolution import resolve_model
from tests.checkpoints.gguf_files import write_gguf

LATENT = {
    "rope.dimension_count": 64,
    "attention.key_length_mla": 192,
    "attention.value_length_mla": 128,
    "attention.key_length": 576,
    "attention.value_length": 512,
}
MODELS = [
    ("meta-llama/Llama-3.1-8B", "llama", {}, ()),
    ("meta-llama/Llama-3.2-1B", "llama", {}, ()),
    ("mistralai/Mistral-Nemo-Instruct-2407", "llama", {}, ()),
    ("mistralai/Mixtral-8x7B-v0.1", "llama", {}, ()),
    ("Qwen/Qwen2.5-7B", "qwen2", {}, ("blk.0.attn_q.bias",)),
    ("Qwen/Qwen1.5-MoE-A2.7B", "qwen2moe", {}, ()),
    ("Qwen/Qwen3-0.6B", "qwen3", {}, ("blk.0.attn_q_norm.weight",)),
    ("Qwen/Qwen3-30B-A3B", "qwen3moe", {}, ()),
    ("google/gemma-2-9b-it", "gemma2", {}, ()),
    ("google/gemma-3-1b-it", "gemma3", {}, ()),
    ("microsoft/phi-4", "phi3", {}, ()),
    ("CohereForAI/c4ai-command-r-plus", "command-r", {}, ("blk.0.attn_q_norm.weight",)),
    ("CohereForAI/c4ai-command-r7b-12-2024", "cohere2", {}, ()),
    ("bigcode/starcoder2-15b", "starcoder2", {}, ()),
    ("openai/gpt-oss-20b", "gpt-oss", {}, ("blk.0.attn_q.bias",)),
    ("deepseek-ai/DeepSeek-V2", "deepseek2", LATENT, ()),
    ("deepseek-ai/DeepSeek-V2-Lite", "deepseek2", LATENT, ()),
    ("deepseek-ai/DeepSeek-V3", "deepseek2", LATENT, ("blk.3.exp_probs_b.bias",)),
    ("allenai/OLMo-2-1124-7B-Instruct", "olmo2", {}, ()),
    ("allenai/OLMoE-1B-7B-0924", "olmoe", {}, ()),
    ("ibm-granite/granite-3.3-8b-instruct", "granite", {}, ()),
    ("ibm-granite/granite-3.0-3b-a800m-base", "granitemoe", {}, ()),
    ("ByteDance-Seed/Seed-OSS-36B-Instruct", "seed_oss", {}, ("blk.0.attn_q.bias",)),
    ("HuggingFaceTB/SmolLM3-3B", "smollm3", {}, ()),
]


@pytest.mark.parametrize(("id_", "architecture", "extra", "tensors"), MODELS)
def test_a_file_gives_the_model_that_it_was_made_from(
    tmp_path: Path, packaged_snapshot: CatalogSnapshot, id_, architecture, extra, tensors
):
    model = packaged_snapshot.models[id_]
    path = write_gguf(tmp_path / "model.gguf", architecture, model, extra=extra, tensors=tensors)
    found = parse_config(local_model(path)["config"])
    assert found.total_parameters == model.value.total_parameters
    assert found.tied_embeddings == model.value.tied_embeddings
    assert [group.mixer for group in found.groups] == [group.mixer for group in model.value.groups]


@pytest.mark.parametrize("kind", gguf.GGMLQuantizationType)
def test_blocks_are_as_large_as_the_library_says(kind):
    known = BLOCKS.get(kind.value)
    # Intermediate results of products, and a format that no file type of ours has.
    assert known == gguf.GGML_QUANT_SIZES[kind] or kind.name in ("Q8_1", "Q1_0")


@pytest.mark.parametrize(
    ("file_type", "format_id"),
    [
        (gguf.LlamaFileType.MOSTLY_Q4_K_M, "gguf-q4_k_m"),
        (gguf.LlamaFileType.MOSTLY_IQ2_XXS, "gguf-iq2_xxs"),
        (gguf.LlamaFileType.MOSTLY_BF16, "bf16"),
        (gguf.LlamaFileType.MOSTLY_MXFP4_MOE, "mxfp4"),
        (gguf.LlamaFileType.MOSTLY_TQ1_0, "fp16"),  # told by its tensors
        (None, "fp16"),
    ],
)
def test_the_file_type_is_the_format(
    tmp_path: Path, packaged_snapshot: CatalogSnapshot, file_type, format_id
):
    model = packaged_snapshot.models["meta-llama/Llama-3.2-1B"]
    path = write_gguf(tmp_path / "model.gguf", "llama", model, file_type)
    assert parse_config(local_model(path)["config"]).native_format == format_id


def test_the_tensors_of_the_file_are_counted(tmp_path: Path, packaged_snapshot: CatalogSnapshot):
    model = packaged_snapshot.models["meta-llama/Llama-3.1-8B"]
    told = local_model(write_gguf(tmp_path / "model.gguf", "llama", model))
    assert told["safetensors_index"]["metadata"]["total_size"] == 2 * model.value.total_parameters
    resolved = resolve_model(ModelConfig(**told), packaged_snapshot)
    assert not [warning for warning in resolved.value.warnings if "checkpoint" in warning.code]
    assert resolved.value.native_format == "fp16"


@pytest.fixture(scope="module")
def sound(tmp_path_factory, packaged_snapshot: CatalogSnapshot) -> bytes:
    model = packaged_snapshot.models["meta-llama/Llama-3.2-1B"]
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    return write_gguf(path, "llama", model).read_bytes()


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", "truncated"),
        (b"nothing", "not a GGUF"),
        (b"GGUF" + struct.pack("<I", 1), "version 1"),
        (b"GGUF" + struct.pack(">I", 3), "version 50331648"),
        (b"GGUF" + struct.pack("<IQQ", 3, 2**63, 0), "tensors"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 2**63), "keys"),
        (b"GGUF" + struct.pack("<IQQQ", 3, 0, 1, 2**62), "a text of"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 0, 1, 1, b"a", 77), "type 77"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"a", 9, 0, 2**60), "too large"),
        (b"GGUF" + struct.pack("<IQQQ1sIIQ", 3, 0, 1, 1, b"a", 9, 9, 1), "type 9"),
        (b"GGUF" + struct.pack("<IQQQ1sI", 3, 1, 0, 1, b"a", 9), "9 dimensions"),
        (b"GGUF" + struct.pack("<IQQQ1sIQIQ", 3, 1, 0, 1, b"a", 1, 33, 12, 0), "impossible"),
        (b"GGUF" + struct.pack("<IQQQ1sIQIQ", 3, 1, 0, 1, b"a", 1, 32, 4, 0), "type 4"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 0), "architecture 'None'"),
    ],
)
def test_unsound_files_are_refused(tmp_path: Path, content, complaint):
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(CheckpointUnreadable, match=complaint):
        local_model(path)


@given(data=some.data())
def test_damaged_files_are_refused_or_read(tmp_path_factory, sound: bytes, data):
    content = bytearray(sound[: data.draw(some.integers(0, len(sound)))])
    for _ in range(data.draw(some.integers(0, 4))):
        if content:
            at = data.draw(some.integers(0, min(len(content), 1_000) - 1))
            content[at] = data.draw(some.integers(0, 255))
    path = tmp_path_factory.getbasetemp() / "damaged.gguf"
    path.write_bytes(content)
    try:
        told = local_model(path)
    except CheckpointUnreadable:
        return
    assert told["config"]["model_type"]


def test_layers_that_differ_are_refused(tmp_path: Path):
    path = tmp_path / "model.gguf"
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_head_count_kv([8, 4])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    assert read_gguf_header(path).metadata["llama.attention.head_count_kv"] == [8, 4]
    with pytest.raises(CheckpointUnreadable, match="layers differ in num_key_value_heads"):
        local_model(path)


def test_a_part_of_a_model_is_refused(tmp_path: Path, packaged_snapshot: CatalogSnapshot):
    model = packaged_snapshot.models["meta-llama/Llama-3.2-1B"]
    path = tmp_path / "model.gguf"
    write_gguf(path, "llama", model)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_uint16("split.count", 3)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    with pytest.raises(CheckpointUnreadable, match="several parts"):
        local_model(path)


def test_a_table_in_plain_numbers_is_told_where_the_head_shares_it(
    tmp_path: Path, packaged_snapshot: CatalogSnapshot
):
    kind = gguf.LlamaFileType.MOSTLY_Q4_0
    for name, bits in (("meta-llama/Llama-3.2-1B", 16), ("meta-llama/Llama-3.1-8B", None)):
        path = write_gguf(tmp_path / "model.gguf", "llama", packaged_snapshot.models[name], kind)
        assert local_model(path)["config"]["quantization_config"].get("table_bits") == bits
