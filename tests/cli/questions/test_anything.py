"""Any question of the service, as people ask it in a terminal."""

from __future__ import annotations

import csv
import io


def test_a_question_is_asked_by_its_path_and_fields(headroom):
    asked = ("ask", "social-licence", "--set", "region=aws/us-east-1")
    rows = csv.DictReader(io.StringIO(headroom(*asked, "--csv").printed))
    told = {row["figure"]: row for row in rows}
    assert 0.0 < float(told["index"]["low"]) < float(told["index"]["value"]) < 100.0
    assert told["parts.water.source"]["value"] == "wri-aqueduct-4.0"
    assert "parts.moratoria.concern_ratio" in headroom(*asked).printed


def test_an_unknown_question_is_wrong_usage(headroom):
    outcome = headroom("ask", "weather")
    assert outcome.status == 2
    assert "social-licence" in outcome.complaints
