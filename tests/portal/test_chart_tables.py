"""Figures of charts as tables, in the units of the pictures."""

from __future__ import annotations

import json
import re

import pytest

from service.charts.frame import style_of
from service.charts.rendering import rendered
from service.estimation.charts.kinds import CHART_KINDS
from service.portal.chart_tables import chart_table
from service.portal.charts import PictureRequest, chart_request, shown_kinds


def _shown(kind, snapshot, **asked):
    request = PictureRequest(model="llama-3.1-8b", accelerator="l40s", accelerator_count=1, **asked)
    wanted = chart_request(kind, request)
    return wanted[0].findings(wanted[1], snapshot)


def test_latency_is_told_in_the_unit_of_the_picture_and_the_load_once(packaged_snapshot):
    findings = _shown("throughput-latency", packaged_snapshot, concurrency=4)
    table = chart_table("throughput-latency", findings)
    assert table.heads[:2] == ["Requests at once", "Time to first token [ms]"]
    [(name, rows)] = table.groups
    assert name == ""
    here = next(point for point in findings["series"][0]["points"] if point["label"] == "4")
    told = next(row for row in rows if row[0] == "4 (you are here)")
    assert float(told[1].split()[0]) == pytest.approx(1e3 * here["x"]["value"], rel=0.005)
    assert len(rows) == len(findings["series"][0]["points"])


def test_parts_of_a_bar_are_columns_with_names_for_people(packaged_snapshot):
    table = chart_table("memory-breakdown", _shown("memory-breakdown", packaged_snapshot))
    assert table.measure == "Memory per accelerator [GB]"
    assert table.heads[:3] == ["Phase", "Weights", "KV cache"]
    [(_, [row])] = table.groups
    assert len(row) == len(table.heads)
    assert row[0] == "inference"


def test_lines_are_groups_and_long_tables_are_folded(packaged_snapshot):
    roofline = chart_table("roofline", _shown("roofline", packaged_snapshot))
    assert [name for name, _ in roofline.groups][-2:] == ["Prefill", "Decode"]
    assert not re.search(r"e\+|\d,\d{3},\d{3}", str(roofline.groups))
    world = chart_table("impacts-map", _shown("impacts-map", packaged_snapshot, region="SE"))
    assert world.folded
    assert not roofline.folded


def test_every_chart_of_pages_has_a_table(packaged_snapshot):
    for kind in shown_kinds(PictureRequest):
        table = chart_table(kind, _shown(kind, packaged_snapshot, region="SE"))
        assert table.count > 0, kind
        assert all(len(row) == len(table.heads) for _, rows in table.groups for row in rows)


def test_pictures_are_as_wide_as_asked_and_drawn_at_about_that_width(packaged_snapshot):
    for kind in ("throughput-latency", "impacts-by-region"):
        findings = _shown(kind, packaged_snapshot, region="SE")
        drawn = json.dumps(CHART_KINDS[kind].draw(findings, style_of("light", 600, None)))
        svg = rendered(drawn, "svg", "A title", "What it shows", 600, 1.0).decode()
        width, box = re.search(r' width="(\d+)".*? viewBox="0 0 ([\d.]+)', svg).groups()
        assert width == "600"
        assert float(box) == pytest.approx(600, rel=0.05)
