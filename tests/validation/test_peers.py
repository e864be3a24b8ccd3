from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.peers.environments import NAMES, requirement
from benchmarks.peers.questions import questions, shape_of
from service.core.architecture.config import parse_config
from service.validation.packaged import packaged_lines
from service.validation.report.peers import COLUMNS, Peer, read_peers, write_peers
from service.validation.report.statistics import accuracy
from tests.core.deployments import LLAMA_70B
from tests.validation.conftest import CATALOG


def test_recorded_answers_are_about_figures_that_are_compared(packaged, assessed):
    assert {peer.name for peer in packaged.peers} == set(NAMES)
    for peer in packaged.peers:
        assert peer.version == requirement(peer.name).partition("==")[2]
        beside = peer.beside(assessed.figures)
        # A model that was added since would leave figures out, never the other way round.
        assert len(beside) > 0.9 * len(peer.values)


def test_on_the_figures_that_peers_answered_the_estimates_are_nearer(packaged, assessed):
    trains = {"accelerate", "deepspeed"}
    for kind, names in (("inference", set(NAMES) - trains), ("training", trains)):
        asked = [entry for entry in assessed.figures if entry.kind == kind]
        for peer in packaged.peers:
            if peer.name in names:
                beside = peer.beside(asked)
                ours = accuracy([entry.compared for entry in beside])
                its = accuracy([entry.as_peer for entry in beside])
                assert ours.median_error_ratio < its.median_error_ratio, peer.name


def test_what_is_recorded_is_read_again(tmp_path: Path):
    path = tmp_path / "peers.csv"
    peers = (
        Peer("a", "1.0", "2026-01-02", {("x-1", "tpot_s"): 0.125}),
        Peer("b", "2.0", "2026-01-03", {("x-1", "process_bytes"): 7e10}),
    )
    write_peers(path, peers[::-1])
    written = path.read_bytes()
    assert read_peers(path) == peers
    write_peers(path, read_peers(path))
    assert path.read_bytes() == written


@pytest.mark.parametrize(
    "content",
    [
        "peer,value\n",
        ",".join(COLUMNS) + "\na,1,2026-01-01,x-1,tpot_s,nan\n",
        ",".join(COLUMNS) + "\na,1,2026-01-01,x-1,tpot_s,-1\n",
        ",".join(COLUMNS) + "\na,1,2026-01-01,x-1,tpot_s,much\n",
    ],
)
def test_what_was_not_written_so_is_refused(tmp_path: Path, content: str):
    path = tmp_path / "peers.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"peers\.csv|could not convert"):
        read_peers(path)


def test_a_question_holds_what_was_measured(snapshot):
    lines = packaged_lines(CATALOG, snapshot)
    asked = list(questions({"one": lines["qwen25-speed-benchmark.jsonl"]}, snapshot))
    assert {question["kind"] for question in asked} == {"inference"}
    assert {question["quantity"] for question in asked} == {"request_tokens_per_s"}
    first = asked[0]
    assert first["shape"]["layers"] == 24
    assert first["accelerator"] == "nvidia-a100-sxm-80gb"
    assert first["concurrency"] == 1.0
    assert first["output_tokens"] == 2048.0
    trained = list(questions({"one": lines["torchtitan-h100-benchmarks.jsonl"]}, snapshot))
    assert {question["kind"] for question in trained} == {"training"}
    assert "reserved_bytes" in {question["quantity"] for question in trained}
    eight = next(question for question in trained if question["shape"]["layers"] == 32)
    assert eight["parameters"] == pytest.approx(8.03e9, rel=1e-3)
    assert eight["largest_layer_parameters"] == 128256 * 4096


def test_the_shape_of_a_model_is_what_its_card_says():
    shape = shape_of(parse_config(LLAMA_70B))
    assert shape == {
        "layers": 80,
        "hidden": 8192,
        "heads": 64,
        "kv_heads": 8,
        "head_dim": 128,
        "window": None,
        "vocab": 128256,
        "gated": True,
        "intermediate": 28672,
        "experts": 1,
        "experts_per_token": 1,
    }
