"""Configurations, folders and safetensors files on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.checkpoints.local import local_model
from service.checkpoints.reading import CheckpointUnreadable

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "vocab_size": 100,
}


def safetensors(path: Path, header: object, length: int | None = None) -> Path:
    content = header if isinstance(header, bytes) else json.dumps(header).encode()
    size = len(content) if length is None else length
    path.write_bytes(size.to_bytes(8, "little") + content + b"\0" * 8)
    return path


def tensor(dtype: str, *shape: int) -> dict:
    return {"dtype": dtype, "shape": list(shape), "data_offsets": [0, 0]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    return tmp_path


def test_a_configuration_by_itself(folder: Path):
    assert local_model(folder / "config.json") == {"config": CONFIG}


def test_infinities_become_null(tmp_path: Path):
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "mamba2", "time_step_limit": [0.0, Infinity], "x": NaN}')
    config = local_model(path)["config"]
    assert config == {"model_type": "mamba2", "time_step_limit": [0.0, None], "x": None}


def test_a_folder_with_an_index_keeps_its_size_alone(folder: Path):
    index = {"metadata": {"total_size": 1234}, "weight_map": {"a": "model-1.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    told = {"config": CONFIG, "safetensors_index": {"metadata": {"total_size": 1234}}}
    assert local_model(folder) == told
    shard = safetensors(folder / "model-00001-of-00002.safetensors", {"a": tensor("F16", 2)})
    assert local_model(shard) == told


def test_the_headers_of_all_shards_are_summed_up(folder: Path):
    safetensors(folder / "a.safetensors", {"x": tensor("BF16", 3, 4), "__metadata__": {"k": "v"}})
    second = safetensors(folder / "b.safetensors", {"y": tensor("BF16", 5), "z": tensor("F32")})
    both = {"config": CONFIG, "safetensors_index": {"parameters": {"BF16": 17, "F32": 1}}}
    assert local_model(folder) == both
    assert local_model(second)["safetensors_index"] == {"parameters": {"BF16": 5, "F32": 1}}


@pytest.mark.parametrize(
    ("header", "length", "complaint"),
    [
        (b"", None, "not valid JSON"),
        (b"[]", None, "not a JSON object"),
        (b"{", None, "not valid JSON"),
        (b"[" * 100_000, None, "not valid JSON"),
        (b"{}", 1_000_000_000, "too large"),
        (b"{}", 5_000, "truncated"),
        ({"a": 1}, None, "no dtype"),
        ({"a": {"dtype": "F16"}}, None, "no shape"),
        ({"a": tensor("F16", -1)}, None, "impossible shape"),
        ({"a": tensor("F16", 10**40)}, None, "impossible shape"),
        ({"a": {"dtype": "F16", "shape": [1.5]}}, None, "impossible shape"),
    ],
)
def test_unsound_tensors_are_refused_by_name(folder: Path, header, length, complaint):
    path = safetensors(folder / "model.safetensors", header, length)
    with pytest.raises(CheckpointUnreadable, match=complaint) as refused:
        local_model(folder)
    assert str(path) in str(refused.value)


def test_shapes_without_an_architecture_are_refused(tmp_path: Path):
    path = safetensors(tmp_path / "model.safetensors", {"a": tensor("F16", 2)})
    with pytest.raises(CheckpointUnreadable, match=r"put its config\.json in the same folder"):
        local_model(path)


@pytest.mark.parametrize("name", ["nothing.json", "nothing.gguf", "nothing.safetensors"])
def test_what_is_not_there_is_told(folder: Path, name):
    (folder / "config.json").unlink()
    with pytest.raises(CheckpointUnreadable, match=name):
        local_model(folder / name)
    with pytest.raises(CheckpointUnreadable, match=r"has no config\.json"):
        local_model(folder)


def test_an_index_is_no_configuration(folder: Path):
    path = folder / "model.safetensors.index.json"
    path.write_text(json.dumps({"metadata": {}, "weight_map": {}}))
    with pytest.raises(CheckpointUnreadable, match="give its folder"):
        local_model(path)


def test_a_huge_configuration_is_refused(tmp_path: Path):
    path = tmp_path / "config.json"
    path.write_bytes(b'{"a": "' + b"x" * 5_000_000 + b'"}')
    with pytest.raises(CheckpointUnreadable, match="larger than 5 MB"):
        local_model(path)
