"""What ``--model`` takes besides ids."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.catalog.snapshot import CatalogSnapshot
from tests.checkpoints.gguf_files import write_gguf
from tests.checkpoints.test_local import safetensors, tensor

HERE = "meta-llama/Llama-3.2-1B"


@pytest.fixture
def folder(tmp_path: Path, packaged_snapshot: CatalogSnapshot) -> Path:
    config = packaged_snapshot.models[HERE].document["config"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    return tmp_path


def memory(headroom, model: object, *more: str) -> dict:
    outcome = headroom("memory", "-m", str(model), "-a", "nvidia-l40s-48gb", "--json", *more)
    assert outcome.status == 0, outcome.complaints
    answer: dict = json.loads(outcome.printed)
    return answer


def test_a_configuration_a_folder_and_the_catalog_agree(headroom, folder: Path):
    known = memory(headroom, HERE)["weights_bytes"]
    assert memory(headroom, folder / "config.json")["weights_bytes"] == known
    assert memory(headroom, folder)["weights_bytes"] == known


def test_tensors_that_the_configuration_does_not_name_are_counted(headroom, folder: Path):
    # No table of positions, which no file holds, is a weight of this engine's.
    engine = ("--set", "serving.engine=transformers")
    known = memory(headroom, HERE, *engine)["weights_bytes"]["value"]
    more = {"all": tensor("BF16", int(known) // 2), "tower": tensor("BF16", 100_000_000)}
    path = safetensors(folder / "model.safetensors", more)
    answer = memory(headroom, path, *engine)
    assert answer["weights_bytes"]["value"] == known + 200_000_000
    assert "checkpoint_holds_more" in [warning["code"] for warning in answer["warnings"]]


def test_a_gguf_file_brings_its_format(headroom, tmp_path: Path, packaged_snapshot):
    path = write_gguf(tmp_path / "model.gguf", "llama", packaged_snapshot.models[HERE], 15)
    answer = memory(headroom, path, "--set", "serving.engine=llama.cpp")
    # The table of this file is in 16 bits, which makes it a format of its own.
    assert answer["deployment"]["precision"]["weights"] == "gguf-q4_k_m-checkpoint"
    stated = memory(headroom, HERE, "-w", "gguf-q4_k_m", "--set", "serving.engine=llama.cpp")
    value = packaged_snapshot.models[HERE].value
    wider = value.vocab_size * value.hidden_size * (16.0 - 6.5625) / 8.0  # than Q6_K
    expected = stated["weights_bytes"]["value"] + wider
    assert answer["weights_bytes"]["value"] == pytest.approx(expected, rel=0.01)


def test_a_gguf_file_that_is_not_here_is_known_by_its_name(headroom):
    name = "Llama-3.2-1B-Instruct-Q4_K_M.gguf"
    answer = memory(headroom, name, "--set", "serving.engine=llama.cpp")
    stated = memory(headroom, HERE, "-w", "gguf-q4_k_m", "--set", "serving.engine=llama.cpp")
    assert answer["weights_bytes"] == stated["weights_bytes"]
    assert "model_taken_for" in [warning["code"] for warning in answer["warnings"]]


def test_files_serve_comparisons_and_recommendations(headroom, folder: Path):
    asked = ("-m", str(folder), "-a", "nvidia-l40s-48gb", "-r", "country/SE")
    assert "nvidia-l40s-48gb" in headroom("compare", *asked, "-m", "llama-3.1-8b").printed
    assert headroom("recommend", *asked, "--max-accelerators", "2").status == 0


@pytest.mark.parametrize("name", ["nothing.json", "./nothing", "~/nothing.gguf"])
def test_a_path_that_leads_nowhere_is_told(headroom, name):
    outcome = headroom("memory", "-m", name, "-a", "nvidia-l40s-48gb")
    assert outcome.status == 1
    assert "nothing" in outcome.complaints


def test_a_configuration_that_lacks_something_is_told(headroom, tmp_path: Path):
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama"}')
    outcome = headroom("memory", "-m", str(path), "-a", "nvidia-l40s-48gb")
    assert outcome.status == 1
    assert "model.config" in outcome.complaints
