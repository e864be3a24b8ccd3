"""``headroom plan-fleet``, ``plan-traffic`` and ``plan-site``."""

from __future__ import annotations

import csv
import io
import json

import pytest

from service.estimation.plans.requests import EXAMPLE_UNIT

_FLEET = {
    "years": 2,
    "loads": [{"name": "chat", "deployment": EXAMPLE_UNIT, "requests_per_s": 20.0}],
}
_TRACE = "arrival_s,input_tokens,output_tokens\n" + "".join(
    f"{at * 60},{100 + at % 7},{10 + at % 5}\n" for at in range(1440)
)


@pytest.fixture
def request_file(tmp_path):
    """Writes a request, and says where."""

    def written(body):
        file = tmp_path / "plan.json"
        file.write_text(json.dumps(body), encoding="utf-8")
        return str(file)

    return written


def test_a_fleet_is_told_by_the_year(headroom, request_file):
    outcome = headroom("plan-fleet", "--request", request_file(_FLEET))
    assert outcome.status == 0
    for text in ("chat over 2 years", "in use", "copies of one accelerator by year", "All years"):
        assert text in outcome.printed
    table = headroom("plan-fleet", "--request", request_file(_FLEET), "--csv")
    rows = list(csv.DictReader(io.StringIO(table.printed)))
    assert [(row["load"], row["year"]) for row in rows] == [
        *(("chat", "1"), ("chat", "2"), ("all", "1"), ("all", "2")),
    ]
    assert rows[0]["facility_energy_kwh"] == rows[2]["facility_energy_kwh"]


def test_a_trace_gives_rates_and_lengths(headroom, request_file, tmp_path):
    trace = tmp_path / "requests.csv"
    trace.write_text(_TRACE, encoding="utf-8")
    body = {"deployment": EXAMPLE_UNIT, "scaling": "each-interval"}
    outcome = headroom("plan-traffic", "--request", request_file(body), "--trace", str(trace))
    assert outcome.status == 0
    assert "23:00" in outcome.printed
    assert "1 copies" in outcome.printed
    answer = headroom(
        "plan-traffic", "--request", request_file(body), "--trace", str(trace), "--json"
    )
    intervals = json.loads(answer.printed)["intervals"]
    assert [row["requests_per_s"] for row in intervals] == pytest.approx([1 / 60] * 24)


def test_what_is_missing_is_said(headroom, request_file, tmp_path):
    for command in ("plan-fleet", "plan-traffic", "plan-site"):
        assert "--request FILE" in headroom(command).complaints
    lost = headroom("plan-traffic", "--trace", str(tmp_path / "none.csv"))
    assert lost.status == 2
    assert "none.csv" in lost.complaints
    wrong = headroom("plan-traffic", "--request", request_file({"deployment": 3}), "--trace", "x")
    assert wrong.status == 2
    assert "not an object" in wrong.complaints


def test_a_site_is_told_by_its_hardware(headroom, request_file):
    body = {
        "region": "country/DE",
        "site_kw": 500,
        "racks": 10,
        "rack_kw": 40,
        "options": [{"accelerator": "nvidia-h100-sxm-80gb"}, {"accelerator": "nvidia-gb200-186gb"}],
        "serves": {"model": "meta-llama/Llama-3.1-8B"},
    }
    outcome = headroom("plan-site", "--request", request_file(body))
    assert outcome.status == 0
    for text in ("rack power", "nvidia-gb200-186gb", "serves"):
        assert text in outcome.printed
    table = headroom("plan-site", "--request", request_file(body), "--csv")
    first, second = csv.DictReader(io.StringIO(table.printed))
    assert float(first["requests_per_s_low"]) < float(first["requests_per_s"])
    assert second["requests_per_s"] == ""
