"""``headroom sweep``: a design space as a table."""

from __future__ import annotations

import csv
import io
import json

SERVING = {
    "models": ["llama-3.1-8b"],
    "space": {
        "accelerators": ["l40s"],
        "precisions": ["bf16"],
        "concurrencies": [1, 16],
        "regions": ["aws/us-east-1"],
        "max_accelerators": 1,
    },
    "keep": "candidates",
}
TRAINING = {
    "model": "llama-3.1-8b",
    "training": {"tokens": 1e9},
    "search": {
        "accelerators": ["h100-sxm"],
        "accelerator_counts": [8],
        "regions": ["aws/eu-north-1"],
    },
}


def test_rows_go_to_a_file_or_to_standard_output(headroom, tmp_path):
    request, table = tmp_path / "sweep.json", tmp_path / "rows.csv"
    request.write_text(json.dumps(SERVING), encoding="utf-8")
    shown = headroom("sweep", str(request))
    assert shown.status == 0
    assert shown.complaints == ""
    rows = list(csv.DictReader(io.StringIO(shown.printed)))
    # A conversion of the cache beside bf16, with two loads each.
    assert {row["concurrency_per_replica"] for row in rows} == {"1", "16"}
    assert headroom("sweep", "-", "--output", str(table), given=json.dumps(TRAINING)).status == 0
    runs = list(csv.DictReader(io.StringIO(table.read_text(encoding="utf-8"))))
    assert runs
    assert all(row["meets_limits"] == "true" for row in runs)
    assert float(runs[0]["days_low"]) < float(runs[0]["days"]) < float(runs[0]["days_high"])


def test_what_is_refused_leaves_the_rows_of_another_sweep(headroom, tmp_path):
    table = tmp_path / "rows.csv"
    table.write_text("rows of yesterday")
    wrong = json.dumps(SERVING | {"models": ["no-such-model"]})
    assert headroom("sweep", "-", "--output", str(table), given=wrong).status == 1
    assert table.read_text() == "rows of yesterday"


def test_what_is_wrong_is_told(headroom, tmp_path):
    refused = headroom("sweep", "-", given=json.dumps(SERVING | {"models": ["llama-9"]}))
    assert refused.status == 1
    assert "models.0" in refused.complaints
    lost = headroom("sweep", str(tmp_path / "none.json"))
    assert lost.status == 2
    nowhere = headroom(
        "sweep", "-", "--output", str(tmp_path / "no" / "rows.csv"), given=json.dumps(SERVING)
    )
    assert nowhere.status == 2
    away = headroom("sweep", "-", "--server", "http://127.0.0.1:9", given=json.dumps(SERVING))
    assert away.status == 3
