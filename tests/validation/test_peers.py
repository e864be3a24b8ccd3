from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from benchmarks.peers.environments import NAMES, requirement
from benchmarks.peers.questions import questions, shape_of
from service.core.architecture.config import parse_config
from service.settings import Settings
from service.validation.packaged import read_measurements
from service.validation.report.peers import COLUMNS, Peer, read_peers, write_peers
from tests.core.deployments import LLAMA_70B


def test_recorded_answers_are_about_rows_that_were_compared(bench, outcomes):
    rows = {
        (table, entry.row.text("row_id")): entry
        for table, outcome in outcomes.items()
        for entry in outcome.compared
    }
    assert {peer.name for peer in bench.peers} == set(NAMES)
    for peer in bench.peers:
        assert peer.version == requirement(peer.name).partition("==")[2]
        beside = peer.beside(rows.values())
        # A model that was added since would leave rows out, never the other way round.
        assert len(beside) > 0.9 * len(peer.values)


def test_on_the_rows_that_peers_answered_the_estimates_are_nearer(bench, outcomes):
    compared = outcomes["latency_inference"].compared
    for peer in bench.peers:
        beside = peer.beside(compared)
        ours = sorted(abs(entry.compared.error_ratio) for entry in beside)
        its = sorted(abs(entry.peer_error_ratio) for entry in beside)
        assert ours[len(ours) // 2] < its[len(its) // 2], peer.name


def test_what_is_recorded_is_read_again(tmp_path: Path):
    path = tmp_path / "peers" / "answers.csv"
    peers = (
        Peer("a", "1.0", "2026-01-02", {("latency_inference", "x-1"): 0.125}),
        Peer("b", "2.0", "2026-01-03", {("memory_training", "x-1"): 7e10}),
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
        ",".join(COLUMNS) + "\na,1,2026-01-01,latency_inference,x-1,nan\n",
        ",".join(COLUMNS) + "\na,1,2026-01-01,latency_inference,x-1,-1\n",
        ",".join(COLUMNS) + "\na,1,2026-01-01,latency_inference,x-1,much\n",
    ],
)
def test_what_was_not_written_so_is_refused(tmp_path: Path, content: str):
    path = tmp_path / "answers.csv"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"answers\.csv|could not convert"):
        read_peers(path)


def test_a_question_holds_what_was_measured(bench):
    tables = read_measurements(Settings().catalog_directory, None)
    asked = itertools.islice(questions(tables, bench.vocabulary, bench.snapshot), 3)
    for question in asked:
        assert question["table"] == "latency_inference"
        assert question["shape"]["layers"] == 24
        assert question["accelerator"] == "nvidia-a100-sxm-80gb"
        assert question["concurrency"] == 1.0
        assert question["output_tokens"] == 2048.0


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
