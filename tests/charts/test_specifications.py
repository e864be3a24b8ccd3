"""What is drawn is what was computed."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest

from service.charts import rendering
from service.charts.frame import shown_unit, style_of
from service.charts.maps import land
from service.charts.rendering import rendered
from service.estimation.charts.kinds import CHART_KINDS as KINDS
from service.estimation.plans.fleet import fleet_plan_answer
from service.estimation.plans.requests import FleetPlanRequest
from service.estimation.rejection import Rejected
from service.estimation.training.estimate import training_latency_answer
from service.estimation.training.requests import LatencyTrainingRequest

#: The pareto front takes more than a second; its own test below asks for less.
QUICK = [kind for kind in KINDS if kind != "pareto-front"]


def shown(kind: str, snapshot, **changes: Any) -> dict[str, Any]:
    example = KINDS[kind].request.model_json_schema()["examples"][0] | changes
    return KINDS[kind].use_case(KINDS[kind].request.model_validate(example), snapshot)


def drawn(kind: str, answer: dict[str, Any], theme: str = "light", width_px: int = 640):
    return KINDS[kind].draw(answer, style_of(theme, width_px, None))


def data_rows(layer: Any) -> list[dict[str, Any]]:
    """All rows of data in a specification."""
    if isinstance(layer, list):
        return [row for item in layer for row in data_rows(item)]
    if not isinstance(layer, dict):
        return []
    own = layer.get("data", {}).get("values", [])
    return own + [
        row for name, inner in layer.items() if name != "data" for row in data_rows(inner)
    ]


@pytest.mark.parametrize("kind", QUICK)
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_images_are_drawn_and_described(kind, theme, packaged_snapshot):
    answer = shown(kind, packaged_snapshot)
    written = json.dumps(drawn(kind, answer, theme))
    svg = rendered(written, "svg", answer["title"], answer["description"], 640, 1.0).decode()
    assert svg.startswith('<svg role="img" aria-labelledby=')
    assert "<title id=" in svg
    assert answer["description"].split(".")[0].replace("&", "&amp;") in svg
    background = {"light": "#ffffff", "dark": "#12161c"}[theme]
    assert background in svg
    assert "http" not in svg.replace("http://www.w3.org/", "")
    assert "NaN" not in svg


def test_a_png_has_the_pixels_asked_for(packaged_snapshot):
    answer = shown("memory-breakdown", packaged_snapshot)
    written = json.dumps(drawn("memory-breakdown", answer, width_px=400))
    png = rendered(written, "png", "", "", 400, 2.0)
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    assert int.from_bytes(png[16:20], "big") == 800


def test_parts_of_memory_add_up_to_the_total(packaged_snapshot):
    answer = shown("memory-breakdown", packaged_snapshot, phases="both")
    rows = data_rows(drawn("memory-breakdown", answer)["layer"])
    totals = {
        point["label"]: point["y"]["value"]
        for line in answer["series"]
        if line["name"] == "total"
        for point in line["points"]
    }
    assert set(totals) == {"inference", "training"}
    for phase, total in totals.items():
        ends = [row["end"] for row in rows if row.get("label") == phase and "end" in row]
        assert max(ends) * 1e9 == pytest.approx(total, rel=1e-6)


def test_regions_are_ranked_and_hold_the_one_asked_about(packaged_snapshot):
    answer = shown(
        "impacts-by-region", packaged_snapshot, regions="", region="aws/ap-south-1", shown=5
    )
    totals = next(line for line in answer["series"] if line["name"] == "total")["points"]
    values = [point["y"]["value"] for point in totals]
    assert values == sorted(values)
    assert len(totals) == 5
    assert totals[-1]["label"] == "aws/ap-south-1"


def test_water_is_least_where_it_is_plentiful(packaged_snapshot):
    asked = {"regions": "", "region": "aws/eu-north-1", "shown": 60}
    weighted = shown("impacts-by-region", packaged_snapshot, impact="water", **asked)
    litres = shown("impacts-by-region", packaged_snapshot, impact="water-volume", **asked)
    ranks = [
        [point["label"] for point in one["series"][-1]["points"]].index("aws/il-central-1")
        for one in (weighted, litres)
    ]
    assert ranks[0] > 10 > ranks[1]
    assert "weighted by stress" in weighted["title"]


def test_the_best_under_the_limit_is_the_fastest_that_keeps_it(packaged_snapshot):
    answer = shown("throughput-latency", packaged_snapshot, latency="tpot_s", limit_s=0.03)
    curve, best, here = answer["series"]
    within = [p["y"]["value"] for p in curve["points"] if p["x"]["value"] <= 0.03]
    assert best["points"][0]["y"]["value"] == max(within)
    assert len(within) < len(curve["points"])
    assert here["points"][0]["label"] == "32"
    assert here["points"][0] in curve["points"]
    none = shown("throughput-latency", packaged_snapshot, latency="tpot_s", limit_s=0.001)
    assert [line["name"] for line in none["series"]][1:] == ["you are here"]
    assert "None of them meets the limit" in none["description"]


def test_training_is_a_level_with_the_use_of_the_peak(packaged_snapshot):
    asked = {
        "model": "meta-llama/Llama-3.1-8B",
        "phases": "both",
        "training": {"zero_stage": 3, "activation_checkpointing": "full"},
    }
    answer = shown("throughput-latency", packaged_snapshot, **asked)
    level = next(one for one in answer["limits"] if one["axis"] == "y")
    run = LatencyTrainingRequest(
        model=asked["model"],
        precision={"weights": "bf16"},
        accelerator="nvidia-h100-sxm-80gb",
        accelerator_count=8,
        training=asked["training"],
    )
    trained = training_latency_answer(run, packaged_snapshot)
    assert level["at"] == trained["tokens_per_s_per_accelerator"]
    assert level["name"] == f"training, MFU {trained['mfu_ratio']['value']:.0%}"
    rows = data_rows(drawn("throughput-latency", answer)["layer"])
    assert any(row.get("name") == level["name"] for row in rows)
    plain = shown("throughput-latency", packaged_snapshot)
    assert all(one["axis"] == "x" for one in plain["limits"])


def test_speeds_of_what_does_not_fit_are_marked(packaged_snapshot):
    answer = shown("throughput-latency", packaged_snapshot, accelerator_count=1)
    assert answer["title"].startswith("Does not fit")
    assert answer["description"].startswith("It does not fit")


def test_the_map_shows_each_region_where_it_is(packaged_snapshot):
    asked = {"regions": "", "region": "country/SE"}
    answer = shown("impacts-map", packaged_snapshot, **asked)
    points = answer["series"][0]["points"]
    clouds = {entry.id: entry.document for entry in packaged_snapshot.regions.values()}
    assert len(points) > 100
    for point in points:
        document = clouds[point["label"]]
        place = {"latitude_deg": document["latitude"], "longitude_deg": document["longitude"]}
        assert point["location"] == place
    assert "Sweden" in answer["warnings"][-1]["message"]
    assert "Not on the map: Sweden," in answer["description"]
    rows = data_rows(drawn("impacts-map", answer)["layer"][2])
    assert {row["label"] for row in rows} == {point["name"] for point in points}


def test_a_map_of_nowhere_is_refused(packaged_snapshot):
    with pytest.raises(Rejected):
        shown("impacts-map", packaged_snapshot, regions="country/NO", region="country/SE")


def test_places_are_on_land_or_near_it(packaged_snapshot):
    """Coordinates far out at sea, or swapped, are wrong; the outline is coarse."""
    corners = [
        corner for polygon in land()["coordinates"] for ring in polygon for corner in _dense(ring)
    ]
    clouds = [e for e in packaged_snapshot.regions.values() if "longitude" in e.document]
    assert len(clouds) > 150
    for entry in clouds:
        at = entry.document["longitude"], entry.document["latitude"]
        inside = sum(_crosses(ring, at) for polygon in land()["coordinates"] for ring in polygon)
        nearest = min(abs(at[0] - x) + abs(at[1] - y) for x, y in corners)
        assert inside % 2 or nearest < 3.0, entry.id


def _dense(ring):
    """The corners of a ring and points between them."""
    for (x0, y0), (x1, y1) in itertools.pairwise(ring):
        for step in range(8):
            yield x0 + (x1 - x0) * step / 8.0, y0 + (y1 - y0) * step / 8.0


def _crosses(ring, at):
    """How often a ray to the east crosses a ring."""
    return sum(
        (y0 > at[1]) != (y1 > at[1]) and at[0] < x0 + (at[1] - y0) * (x1 - x0) / (y1 - y0)
        for (x0, y0), (x1, y1) in itertools.pairwise(ring)
    )


@pytest.mark.parametrize("kind", QUICK)
def test_titles_say_what_is_found_and_of_what(kind, packaged_snapshot):
    finding, _, subject = shown(kind, packaged_snapshot)["title"].partition(": ")
    assert subject
    assert re.search(
        r"fits|lacks|under the|at once|as much|times those|most, by|emitted as much", finding
    )


def test_names_of_points_do_not_run_into_each_other(packaged_snapshot):
    near = {"concurrency": 31, "input_tokens": 2048, "output_tokens": 256}  # 32 stands beside it
    answer = shown("throughput-latency", packaged_snapshot, workload=near)
    layer = drawn("throughput-latency", answer)["layer"]
    texts = [one for one in layer if one.get("mark", {}).get("type") == "text"]
    named = [row["label"] for one in texts for row in one["data"]["values"]]
    points = [point["label"] for point in answer["series"][0]["points"]]
    assert named[0] == "31"
    assert "32" in points
    assert "32" not in named
    assert points[-1] in named
    assert "you are here" in str(layer)
    assert 3 < len(set(named)) < len(points)


def test_operators_stand_under_the_roof(packaged_snapshot):
    answer = shown("roofline", packaged_snapshot)
    roof = next(line for line in answer["series"] if line["name"] == "roof, datasheet")
    peak = max(point["y"]["value"] for point in roof["points"])
    per_byte = min(p["y"]["value"] / p["x"]["value"] for p in roof["points"][:2])
    phases = [line for line in answer["series"] if line["name"] in ("prefill", "decode")]
    for point in (point for line in phases for point in line["points"]):
        assert point["y"]["value"] <= 1.001 * min(peak, per_byte * point["x"]["value"])


def test_a_roofline_says_what_it_leaves_out(packaged_snapshot):
    plain = shown("roofline", packaged_snapshot)
    drafted = shown("roofline", packaged_snapshot, serving={"speculative": {"draft_tokens": 3}})
    codes = [{warning["code"] for warning in one["warnings"]} for one in (plain, drafted)]
    assert "plain_steps" not in codes[0]
    assert "plain_steps" in codes[1]


def test_inference_crosses_training_where_the_line_says(packaged_snapshot):
    answer = shown("impact-over-time", packaged_snapshot)
    at = answer["limits"][0]["at"]["value"]
    training, inference, total = (line["points"] for line in answer["series"])
    crossed = [
        i["x"]["value"]
        for t, i in zip(training, inference, strict=True)
        if i["y"]["value"] > t["y"]["value"]
    ]
    assert crossed[0] >= at > crossed[0] - 20
    for parts in zip(training, inference, total, strict=True):
        spent, added, summed = (part["y"] for part in parts)
        assert summed["value"] == pytest.approx(spent["value"] + added["value"])
        assert spent["low"] + added["low"] <= summed["low"] <= summed["value"]
        assert summed["value"] <= summed["high"] <= spent["high"] + added["high"]
    never = shown("impact-over-time", packaged_snapshot, growth_per_year_ratio=-10.0)
    assert never["limits"] == []
    drawn("impact-over-time", never)


def test_sensitivity_ranks_what_moves_the_figure(packaged_snapshot):
    answer = shown("sensitivity", packaged_snapshot, figure="tpot_s")
    low, high = (line["points"] for line in answer["series"])
    spans = [abs(b["y"]["value"] - a["y"]["value"]) for a, b in zip(low, high, strict=True)]
    assert spans == sorted(spans, reverse=True)
    names = {point["label"] for point in low}
    assert "memory bandwidth reached" in names
    assert not names & {"PUE", "grid intensity", "manufacturing"}
    bandwidth = next(p for p in zip(low, high, strict=True) if "bandwidth" in p[0]["label"])
    assert bandwidth[0]["y"]["value"] > bandwidth[1]["y"]["value"]
    groups = {point["label"]: point["group"] for point in low}
    assert set(groups.values()) == {"90 % interval"}
    assert "output length" not in names
    changed = shown("sensitivity", packaged_snapshot, figure="tpot_s", change_ratio=0.2)
    low, high = (line["points"] for line in changed["series"])
    assert {"output length", "memory bandwidth reached"} <= {one["label"] for one in low}
    assert {one["group"] for one in low} == {"±20%"}
    assert all(
        high_one["x"]["value"] / low_one["x"]["value"] == pytest.approx(1.5, rel=0.05)
        for low_one, high_one in zip(low, high, strict=True)
        if low_one["x"]["value"] > 100
    )


def test_the_front_on_two_metrics_is_beaten_by_nothing(packaged_snapshot):
    answer = shown(
        "pareto-front",
        packaged_snapshot,
        search={"accelerators": "nvidia-l4-24gb,nvidia-h100-nvl-94gb"},
        model="meta-llama/Llama-3.1-8B",
    )
    front, unbeaten, choices = (line["points"] for line in answer["series"])
    at = [(p["x"]["value"], p["y"]["value"]) for p in unbeaten]
    assert at
    for point in (*front, *choices):
        x, y = point["x"]["value"], point["y"]["value"]
        assert not any(x < a and y < b for a, b in at)
        assert any(a <= x and b <= y for a, b in at)
    assert drawn("pareto-front", answer)["layer"]


def test_units_suit_the_figures():
    assert shown_unit("s", 0.02).label == "ms"
    assert shown_unit("s", 3.0).label == "s"
    assert shown_unit("gCO2e", 4e6).label == "t CO₂e"
    assert shown_unit("no such unit", 4e6).label == "no such unit"


def test_optimizers_fill_training_and_caches_long_inference(packaged_snapshot):
    """ZeRO (Rajbhandari et al., 2019): 12 of 16 bytes a parameter are the optimizer's; with
    multi-head attention the cache outweighs the weights from W / KV = 25,700 tokens on."""
    asked = {
        "model": "meta-llama/Llama-2-7b-hf",
        "precision": {"weights": "bf16"},
        "accelerator": "nvidia-h200-sxm-141gb",
        "accelerator_count": 1,
        "phases": "both",
        "training": {"activation_checkpointing": "full"},
    }

    def largest(input_tokens):
        load = {"input_tokens": input_tokens, "output_tokens": 1, "concurrency": 1}
        answer = shown("memory-breakdown", packaged_snapshot, **asked, workload=load)
        parts = [
            (point["label"], point["y"]["value"], line["name"])
            for line in answer["series"]
            if line["name"] != "total"
            for point in line["points"]
        ]
        return {
            phase: max(part[1:] for part in parts if part[0] == phase)[1] for phase, *_ in parts
        }

    assert largest(24_000) == {"inference": "weights", "training": "optimizer"}
    assert largest(27_000) == {"inference": "kv_cache", "training": "optimizer"}


@pytest.mark.parametrize(
    ("shows", "figures"),
    [
        (
            "carbon",
            {
                "operation": "operational_location_kgco2e",
                "share of the manufacturing": "embodied_kgco2e",
            },
        ),
        ("hardware", {"in use": "accelerators"}),
        ("power", {"mean of the equipment": "mean_it_power_w"}),
        ("money", {"rented": "rented_usd"}),
    ],
)
def test_a_fleet_is_drawn_as_it_is_planned(packaged_snapshot, shows, figures):
    answer = shown("fleet-over-years", packaged_snapshot, shows=shows)
    example = FleetPlanRequest.model_json_schema()["examples"][0]
    plan = fleet_plan_answer(FleetPlanRequest.model_validate(example), packaged_snapshot)
    lines = {line["name"]: line["points"] for line in answer["series"]}
    for name, figure in figures.items():
        planned = [year[figure] for year in plan["years"]]
        values = [one if isinstance(one, int) else one["value"] for one in planned]
        assert [one["y"]["value"] for one in lines[name]] == pytest.approx(values)
        assert [one["x"]["value"] for one in lines[name]] == [
            year["year"] for year in plan["years"]
        ]
    drawn("fleet-over-years", answer)


def test_a_script_that_the_renderers_fonts_lack_brings_those_of_the_machine(monkeypatch):
    brought = []
    monkeypatch.setattr(rendering, "_add_fonts_of_the_machine", lambda: brought.append(True))
    for text, wanted in (("g CO₂e → Québec, Ελλάδα 3 × 10⁻³", 0), ("東京", 1)):
        size = 'xmlns="http://www.w3.org/2000/svg" width="9" height="9"'
        svg = f"<svg {size}><text>{text}</text></svg>"
        assert rendering.as_png(svg).startswith(b"\x89PNG")
        assert len(brought) == wanted
