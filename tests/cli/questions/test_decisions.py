"""Questions about many deployments, as people ask them in a terminal."""

from __future__ import annotations

import csv
import io

COMPARED = (
    *("compare", "-m", "llama-3.1-8b", "-n", "2", "-r", "country/SE", "-r", "country/FR"),
    *("-a", "nvidia-h100-sxm-80gb", "-a", "nvidia-l40s-48gb", "-w", "bf16", "-w", "fp8"),
)
SOUGHT = (
    *("recommend", "-m", "llama-3.1-8b", "-a", "nvidia-h100-sxm-80gb", "-a", "nvidia-l40s-48gb"),
    *("-r", "aws/eu-north-1", "--requests-per-s", "2", "--max-accelerators", "4"),
)


def test_a_comparison_has_a_row_a_combination(headroom):
    outcome = headroom(*COMPARED, "--csv")
    rows = list(csv.DictReader(io.StringIO(outcome.printed)))
    assert len(rows) == 8
    assert {row["weights"] for row in rows} == {"bf16", "fp8"}
    assert all(float(row["total_bytes_low"]) <= float(row["total_bytes"]) for row in rows)


def test_a_comparison_names_what_differs(headroom):
    outcome = headroom(*COMPARED)
    assert outcome.printed.startswith("meta-llama/Llama-3.1-8B\n")
    assert outcome.printed.count("2 × nvidia-l40s-48gb country/SE") == 2


def test_limits_are_explained_with_their_units(headroom):
    told = " ".join(headroom("compare", "--help").printed.split())
    assert "Time to first token, at most [s]." in told
    assert "Power of the IT equipment, at most [W]." in told


def test_refused_rows_are_told_once(headroom):
    outcome = headroom(*COMPARED, "-a", "no-such")
    assert outcome.status == 0
    assert outcome.printed.count("unknown id 'no-such'") == 1
    assert "4 rows refused: accelerator" in outcome.printed


def test_a_comparison_of_nothing_is_wrong_usage(headroom):
    outcome = headroom("compare", "-m", "llama-3.1-8b")
    assert outcome.status == 2
    assert "accelerators" in outcome.complaints


def test_a_comparison_needs_no_place(headroom):
    outcome = headroom("compare", "-m", "llama-3.1-8b", "-a", "l40s", "-a", "l4")
    assert outcome.status == 0
    assert outcome.printed.startswith("meta-llama/Llama-3.1-8B · bf16\n")


def test_a_recommendation_names_a_choice_a_priority_and_why(headroom):
    outcome = headroom(*SOUGHT)
    assert outcome.status == 0
    for text in (
        "balanced",
        "lowest carbon",
        "aws/eu-north-1",
        "What the limits excluded",
        "Ratios are to",
    ):
        assert text in outcome.printed


def test_a_recommendation_as_a_table(headroom):
    rows = list(csv.DictReader(io.StringIO(headroom(*SOUGHT, "--csv").printed)))
    assert "balanced" in rows[0]["priorities"]
    assert float(rows[0]["ttft_s_low"]) <= float(rows[0]["ttft_s"])


def test_what_no_cloud_offers_is_told(headroom):
    outcome = headroom(
        *("recommend", "-m", "llama-3.1-8b", "--max-accelerators", "1", "--requests-per-s", "1")
    )
    assert outcome.status == 0
    printed = " ".join(outcome.printed.split())
    assert "no place searched rents them out" in printed
    assert "search.include_unmeasured takes them in" in printed
    assert "limits.implied: false for none" in printed


TRAINED = (
    *(
        "recommend-training",
        "-m",
        "llama-3.1-8b",
        "-a",
        "nvidia-h100-sxm-80gb",
        "-r",
        "gcp/europe-west4",
    ),
    *("--tokens", "1e9", "--method", "full", "--method", "lora", "--max-accelerators", "16"),
)


def test_a_recommendation_of_training(headroom):
    outcome = headroom(*TRAINED, "--days", "3")
    assert outcome.status == 0
    for text in ("llm-training", "balanced", "days", "16 × nvidia-h100-sxm-80gb"):
        assert text in outcome.printed
    rows = list(csv.DictReader(io.StringIO(headroom(*TRAINED, "--days", "3", "--csv").printed)))
    assert "balanced" in rows[0]["priorities"]
    assert rows[0]["method"] in ("full", "lora")
    assert float(rows[0]["days_low"]) <= float(rows[0]["days"]) <= 3.0
    assert float(rows[0]["usd"]) > 0.0


def test_where_no_run_is_left_the_nearest_are_told(headroom):
    outcome = headroom(*TRAINED, "--usd", "0.01")
    assert outcome.status == 0
    assert "No candidate meets all limits" in outcome.printed
    assert "limits.usd were" in outcome.printed


def test_where_nothing_is_left_the_nearest_are_told(headroom):
    outcome = headroom(*SOUGHT, "--ttft-s", "1e-6")
    assert outcome.status == 0
    assert "No candidate meets all limits" in outcome.printed
    assert "limits.ttft_s were" in outcome.printed
