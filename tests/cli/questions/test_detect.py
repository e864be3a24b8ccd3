"""What ``headroom detect`` says of this machine, and of others by what their tools wrote."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from service.cli.questions import detect
from tests.estimation.detection import samples


def test_another_machine_is_read_from_files(headroom, tmp_path: Path):
    gpus = tmp_path / "gpus.csv"
    gpus.write_text(samples.DGX_H100)
    outcome = headroom("detect", "--read", f"nvidia-smi={gpus}", "--json")
    assert outcome.status == 0, outcome.complaints
    found = json.loads(outcome.printed)
    assert found["request"]["accelerator"] == "nvidia-h100-sxm-80gb"
    told = headroom("detect", "--read", f"nvidia-smi={gpus}")
    assert json.loads(told.printed.splitlines()[-1]) == found["request"]
    assert "platform: nvidia-dgx-h100" in told.printed


def test_names_with_brackets_are_told_as_they_are(headroom, tmp_path: Path):
    gpus = tmp_path / "gpus.csv"
    gpus.write_text("index, name, memory.total [MiB]\n0, NVIDIA [/red] X, 81559 MiB\n")
    outcome = headroom("detect", "--read", f"nvidia-smi={gpus}")
    assert outcome.status == 1, outcome.complaints
    assert "NVIDIA [/red] X" in outcome.printed
    assert "NVIDIA [/red] X" in outcome.complaints


def test_a_machine_without_any_tool(headroom, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(detect, "_here", dict)
    outcome = headroom("detect", "--json")
    assert outcome.status == 1
    assert json.loads(outcome.printed)["request"] is None


def test_this_machine_is_read_and_nothing_fails(headroom):
    outcome = headroom("detect", "--json")
    assert outcome.status in {0, 1}
    found = json.loads(outcome.printed)
    assert (found["request"] is None) == (outcome.status == 1)


def test_tools_that_do_not_answer_are_left_out(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PATH", "/nowhere")
    assert not {"nvidia-smi", "amd-smi", "lscpu"} & set(detect._here())


@pytest.mark.parametrize("told", ["nvidia-smi", "spectacles=x", "lscpu=/no/such/file"])
def test_what_is_not_a_tool_and_a_file_is_refused(headroom, told: str):
    assert headroom("detect", "--read", told).status == 2
