"""Questions about one deployment, as people ask them in a terminal."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import pytest

from service.cli.status import MISUSED

MAIN = ("-m", "meta-llama/Llama-3.1-70B", "-a", "nvidia-h100-sxm-80gb", "-n", "8", "-w", "bf16")
LOAD = ("-i", "2048", "-o", "256", "-c", "32")


def test_an_estimate_tells_memory_speed_energy_impacts_and_cost(headroom):
    outcome = headroom("estimate", *MAIN, *LOAD, "-r", "aws/eu-north-1")
    assert (outcome.status, outcome.complaints) == (0, "")
    for text in (
        "meta-llama/Llama-3.1-70B · bf16 · 8 × nvidia-h100-sxm-80gb (tensor 4, data 2)"
        " · aws/eu-north-1",
        "35.3 GB",
        "fits",
        "time to first token",
        "first token, 95 %",
        "prefill is limited by compute",
        "IT power",
        "carbon, total",
        "rented, per hour",
        "Warnings",
    ):
        assert text in outcome.printed


@pytest.mark.parametrize("flag", ["-n", "-c"])
def test_zero_is_said_and_refused(headroom, flag):
    """It equals False, as options that nobody gave are."""
    outcome = headroom("memory", "-m", "llama-3.1-8b", "-a", "l40s", flag, "0")
    assert outcome.status == 1
    assert "must be at least 1" in outcome.complaints


def test_json_is_the_answer_of_the_operation(headroom):
    outcome = headroom("memory", *MAIN, *LOAD, "--json", "--set", "include=deployment")
    answer = json.loads(outcome.printed)
    assert answer["weights_bytes"]["value"] == pytest.approx(35.28e9, rel=1e-3)
    assert answer["deployment"]["workload"]["concurrency"] == 32
    assert answer["provenance"].keys() == {"sources", "assumed"}
    outcome = headroom("memory", *MAIN, *LOAD, "--json", "--set", "fields=total_bytes.value")
    assert json.loads(outcome.printed).keys() == {"total_bytes"}
    assert headroom("memory", *MAIN, *LOAD, "--set", "fields=fits").status == MISUSED


def test_csv_has_a_line_a_figure_with_its_interval(headroom):
    outcome = headroom("latency", *MAIN, *LOAD, "--csv")
    rows = {row["figure"]: row for row in csv.DictReader(io.StringIO(outcome.printed))}
    assert float(rows["ttft_s"]["low"]) < float(rows["ttft_s"]["value"])
    assert rows["decode.bottleneck"]["value"] == "memory_bandwidth"


def test_an_option_of_training_asks_about_training(headroom):
    outcome = headroom(
        "memory",
        *MAIN[:4],
        "-n",
        "64",
        "--zero-stage",
        "3",
        "--json",
        "--set",
        "include=deployment",
    )
    assert json.loads(outcome.printed)["deployment"]["training"]["zero_stage"] == 3


def test_a_training_run_is_told_with_its_length_and_emissions(headroom):
    outcome = headroom(
        *("estimate", "-m", "llama-3.1-8b", "-a", "nvidia-h100-sxm-80gb", "-n", "8"),
        *("-r", "aws/eu-north-1", "--zero-stage", "3", "--tokens", "1e12"),
    )
    assert outcome.status == 0
    assert "The whole run" in outcome.printed
    assert "optimizer" in outcome.printed


def test_training_and_serving_are_not_mixed(headroom):
    outcome = headroom("memory", *MAIN, "--zero-stage", "3", "-c", "4")
    assert outcome.status == 2
    assert "--concurrency" in outcome.complaints


def test_what_does_not_fit_is_told_with_what_would_help(headroom):
    asked = ("memory", "-m", "llama-3.1-70b", "-a", "nvidia-l40s-48gb")
    outcome = headroom(*asked)
    assert outcome.status == 0
    assert "does not fit" in outcome.printed
    assert "What would make it fit" in outcome.printed
    assert headroom(*asked, "--must-fit").status == 4
    assert headroom("memory", *MAIN, "--must-fit").status == 0


def test_an_unknown_id_is_told_with_the_nearest_ones(headroom):
    outcome = headroom("memory", "-m", "lama-3.1-70b", "-a", "nvidia-h100-sxm-80gb")
    assert (outcome.status, outcome.printed) == (1, "")
    assert "model: unknown id 'lama-3.1-70b'" in outcome.complaints
    assert "meta-llama/Llama-3.1-70B" in outcome.complaints


def test_everything_that_is_missing_is_told_at_once(headroom):
    outcome = headroom("estimate")
    assert outcome.status == 1
    for place in ("model:", "accelerator:"):
        assert place in outcome.complaints


def test_any_field_can_be_set(headroom, tmp_path: Path):
    request = tmp_path / "request.json"
    asked = {"model": "llama-3.1-8b", "accelerator": "nvidia-l40s-48gb"}
    request.write_text(json.dumps(asked | {"workload": {"concurrency": 3, "input_tokens": 7}}))
    outcome = headroom(
        *("memory", "--request", str(request), "-i", "9", "--json", "--set", "include=deployment"),
        *("--set", "workload.output_tokens=11", "--set", "serving.engine=sglang"),
    )
    deployment = json.loads(outcome.printed)["deployment"]
    workload = deployment["workload"]
    assert [workload[f"{name}_tokens"] for name in ("input", "output")] == [9, 11]
    assert workload["concurrency"] == 3
    assert deployment["serving"]["engine"] == "sglang"


def test_a_request_is_read_from_standard_input(headroom):
    asked = json.dumps({"model": "llama-3.1-8b", "accelerator": "nvidia-l40s-48gb"})
    assert headroom("memory", "--request", "-", given=asked).status == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--set", "nonsense"), "FIELD=VALUE"),
        (("--set", "model.x=1"), "model is not an object"),
        (("--request", "/no/such/file"), "No such file"),
        (("--request", "-"), "not valid JSON"),
        (("--json", "--csv"), "exclude each other"),
        (("--concurrency", "many"), "not a valid"),
    ],
)
def test_wrong_usage_is_told(headroom, arguments, complaint):
    outcome = headroom("memory", "-m", "llama-3.1-8b", *arguments, given="{")
    assert outcome.status == 2
    assert complaint in outcome.complaints


def test_impacts_of_plain_energy(headroom):
    outcome = headroom("impacts", "--energy-kwh", "1000", "-r", "country/SE")
    assert outcome.status == 0
    assert "carbon, operation" in outcome.printed


def test_formulas_are_shown_when_asked(headroom):
    outcome = headroom("memory", *MAIN, "--explain")
    assert "How it was computed" in outcome.printed
    assert re.search(
        r"^ *Weights on the fullest accelerator +1\.76\d\d\de\+10 +B ",
        outcome.printed,
        re.MULTILINE,
    )


def test_a_server_that_is_not_there_is_told(headroom):
    outcome = headroom("memory", *MAIN, "--server", "http://127.0.0.1:1")
    assert outcome.status == 3
    assert "http://127.0.0.1:1 cannot be reached" in outcome.complaints


def test_an_unsound_catalog_is_told(headroom, tmp_path: Path, monkeypatch):
    (tmp_path / "accelerators").mkdir()
    (tmp_path / "accelerators" / "one.yaml").write_text("name: no id\n")
    monkeypatch.setenv("HEADROOM_CATALOG_DIRECTORY", str(tmp_path))
    outcome = headroom("memory", *MAIN)
    assert outcome.status == 3
    assert "every entry needs an id" in outcome.complaints
