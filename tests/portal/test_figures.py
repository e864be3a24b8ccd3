"""Figures in words, in tables and in the badge are those of the estimate."""

from __future__ import annotations

import shlex

import pytest

from service.core.backends import BACKENDS
from service.core.years import HOURS_PER_MONTH
from service.estimation.formatting import duration, gigabytes, money, number, range_words
from service.estimation.inference.estimate import inference_estimate
from service.estimation.verdict.figures import days, emissions
from service.estimation.verdict.verdict import inference_verdict
from service.portal import options
from service.portal.badge import badge, refused_badge
from service.portal.figures import grams, litres, power, rate, sections, table, verdict
from service.portal.questions import PageRequest
from service.portal.rendering import by_option


@pytest.fixture(scope="module")
def estimate(packaged_snapshot):
    return inference_estimate(PageRequest().estimate, packaged_snapshot)


@pytest.fixture(scope="module")
def too_large(packaged_snapshot):
    return inference_estimate(PageRequest(accelerator_count=1).estimate, packaged_snapshot)


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (0.1084, "0.108"),
        (99.99, "100"),
        (1234567.0, "1,230,000"),
        (0.00012345, "0.000123"),
        (2e-9, "2e-09"),
        (-3.456, "−3.46"),
        (3e15, "3e+15"),
    ],
)
def test_numbers_have_three_digits(value, written):
    assert number(value) == written


@pytest.mark.parametrize(
    ("words", "value", "low", "high", "written"),
    [
        (duration, 0.3, 0.08, 1.2, "80 … 1,200 ms"),
        (duration, 1.2, 0.3, 4.0, "0.3 … 4 s"),
        (emissions, 9e5, 7e5, 1.1e6, "700 … 1,100 kg CO₂e"),
        (grams, 0.9, 0.5, 2.0, "500 … 2,000 mg CO₂e"),
        (power, 42.0, 28.0, 65.0, "28 … 65 W"),
        (litres, 730.0, 291.0, 1110.0, "291 … 1,110 L"),
        (rate, 0.04, 0.03, 0.05, "1.8 … 3 a minute"),
        (days, 1.5, 0.05, 3.0, "1.2 … 72 hours"),
        (gigabytes, 1e12, 9e11, 1.1e12, "900 … 1,100 GB"),
        (number, 2.0, 2.0, 2.0, ""),
    ],
)
def test_ends_of_a_range_are_in_the_unit_of_its_value(words, value, low, high, written):
    assert range_words(words, value, low, high) == written


def test_a_command_breaks_between_its_options_alone():
    command = """serve org/Model-8B --max-num-seqs 32 -tp 2 --with '{"a": 1, "b --c": -2}'"""
    written = by_option(command)
    assert written.splitlines() == [
        "serve org/Model-8B \\",
        "  --max-num-seqs 32 \\",
        "  -tp 2 \\",
        """  --with '{"a": 1, "b --c": -2}'""",
    ]
    # A shell takes a line that ends so together with the next.
    assert shlex.split(written.replace("\\\n", "")) == shlex.split(command)


def test_units_are_those_that_people_read():
    assert gigabytes(84_943_715_697) == "84.9 GB"
    assert duration(0.0302) == "30.2 ms"
    assert duration(7.84) == "7.84 s"


def test_the_verdict_names_what_is_needed_and_what_is_missing(estimate, too_large):
    memory = estimate["memory"]
    needed, there = gigabytes(memory["total_bytes"]["value"]), gigabytes(memory["capacity_bytes"])
    assert verdict(memory) == f"It fits: {needed} of {there} per accelerator."
    assert verdict(too_large["memory"]).startswith("It does not fit: ")


def test_every_line_says_a_figure_of_the_estimate(estimate):
    lines = {line.name: line for section in sections(estimate) for line in section.lines}
    weights = estimate["memory"]["weights_bytes"]
    assert lines["Weights"].value == gigabytes(weights["value"])
    assert lines["Weights"].interval.endswith(f" … {number(weights['high'] / 1e9)}")
    low, high = (estimate["latency"]["tpot_s"][end] for end in ("low", "high"))
    assert lines["Each next token"].interval == f"{number(low * 1e3)} … {number(high * 1e3)}"


def test_what_is_not_known_is_not_zero(estimate):
    unpriced = estimate | {"cost": {"rented": None, "owned": None}, "impacts": None}
    lines = {line.name: line for section in sections(unpriced) for line in section.lines}
    assert lines["Per hour"].value == "not known"
    assert lines["Emissions per request"].value == "not known"


def test_where_no_rent_is_known_it_is_what_owning_costs(packaged_snapshot):
    at_home = PageRequest(
        model="llama-3.1-8b", accelerator="l40s", accelerator_count=1, region="SE"
    )
    estimate = inference_estimate(at_home.estimate, packaged_snapshot)
    owned = estimate["cost"]["owned"]
    costs = sections(estimate)[-1]
    assert costs.title == "Cost, owned: hardware and electricity"
    assert costs.lines[0].value == money(owned["usd_per_hour"]["value"])
    said = inference_verdict(estimate, packaged_snapshot)
    assert "The price is that of owning it" in said.text
    shown = next(one for one in said.figures if one.id == "cost")
    assert shown.value == owned["usd_per_hour"]["value"] * HOURS_PER_MONTH


def test_the_table_holds_every_interval_of_the_answer(estimate):
    def intervals(found):
        if isinstance(found, dict):
            own = found.keys() == {"value", "low", "high"}
            return own or sum(intervals(inner) for inner in found.values())
        return 0

    rows = table(estimate)
    assert len({row["figure"] for row in rows}) == len(rows)
    parts = {name: estimate[name] for name in ("memory", "latency", "energy", "impacts", "cost")}
    assert sum(row["low"] != "" for row in rows) == intervals(parts)
    tpot = next(row for row in rows if row["figure"] == "latency.tpot_s")
    assert {end: tpot[end] for end in ("value", "low", "high")} == estimate["latency"]["tpot_s"]


def test_the_badge_says_the_verdict_and_the_load(estimate, too_large, packaged_snapshot):
    fits, short = (
        badge(inference_verdict(one, packaged_snapshot), one) for one in (estimate, too_large)
    )
    token = duration(estimate["latency"]["tpot_s"]["value"])
    assert fits.message.startswith(f"fits · {token}/token · ")
    assert fits.label == "headroom · 32 at once, 2,048 + 256 tokens"
    assert short.message.startswith("does not fit · ")
    assert short.colour != fits.colour
    assert refused_badge("x" * 500).message_px < 800


def test_every_backend_can_be_chosen_by_its_name():
    assert {one.value for one in options.BACKENDS} == set(BACKENDS)
