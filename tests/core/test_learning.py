"""What own measurements say of estimates, and what they do not."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.core.interval import Interval, exact
from service.core.learning import (
    IMPLAUSIBLE_RATIO,
    NO_CORRECTION,
    Correction,
    Kin,
    Lessons,
    Likeness,
    Observation,
    Report,
    alike,
)

LIKENESS = Likeness(
    deployment_ratio=0.3,
    load_ratio=0.15,
    model_hardware_ratio=0.15,
    model_ratio=0.1,
    hardware_engine_ratio=0.12,
    organisation_ratio=0.03,
    row_ratio=0.15,
)
SHARES = dict.fromkeys(("decode", "prefill"), LIKENESS)
HERE = Kin("llama-70b", "h100", "vllm", "bf16, tensor 8", 16.0, 1024.0)
SIGMA = {"decode": 0.2, "prefill": 0.3}

kins = st.builds(
    Kin,
    model=st.sampled_from(("llama-70b", "qwen-7b")),
    hardware=st.sampled_from(("h100", "l4")),
    engine=st.sampled_from(("vllm", "sglang")),
    deployment=st.sampled_from(("bf16, tensor 8", "fp8, tensor 4")),
    sequences=st.floats(1.0, 512.0),
    tokens=st.floats(1.0, 32_768.0),
)
observations = st.builds(
    Observation,
    quantity=st.sampled_from(("tpot_s", "output_tokens_per_s")),
    log_ratio=st.floats(-3.0, 3.0),
    elasticity_ratio=st.fixed_dictionaries(
        {"decode": st.floats(-1.0, 1.0), "prefill": st.floats(-1.0, 1.0)}
    ),
)
runs = st.lists(st.tuples(kins, observations), max_size=6)


def reported(found: list[tuple[Kin, Observation]]) -> list[Report]:
    return [Report(id_, kin, SIGMA, (seen,)) for id_, (kin, seen) in enumerate(found, 1)]


def run(id_: int, kin: Kin, ratio: float) -> Report:
    return Report(id_, kin, SIGMA, (Observation("tpot_s", log(ratio), {"decode": 1.0}),))


def decode(reports: list[Report], kin: Kin = HERE) -> Correction:
    taught = Lessons(reports, SHARES).about(kin, "decode", SIGMA["decode"])
    return NO_CORRECTION if taught is None else taught.correction


def test_without_reports_nothing_changes():
    assert Lessons((), SHARES).about(HERE, "decode", 0.2) is None


@given(runs, kins)
def test_nothing_is_ever_wider_than_published(found, kin):
    taught = Lessons(reported(found), SHARES).about(kin, "decode", 0.2)
    if taught is not None:
        assert 0.0 < taught.correction.spread_ratio <= 1.0
        assert taught.correction.ratio > 0.0


@given(runs, st.tuples(kins, observations), kins)
def test_one_more_report_never_widens(found, more, kin):
    before, after = (decode(reported(each), kin) for each in (found, [*found, more]))
    assert after.spread_ratio <= before.spread_ratio + 1e-6


@given(runs.flatmap(lambda found: st.tuples(st.just(found), st.permutations(range(len(found))))))
def test_the_order_of_reports_does_not_matter(drawn):
    found, order = drawn
    reports = reported(found)
    assert decode([reports[place] for place in order]) == decode(reports)


@given(runs, kins, st.sampled_from((1.0, -1.0)), st.floats(1.01, 1e6))
def test_nonsense_is_named_and_moves_nothing(found, kin, side, beyond):
    reports = reported(found)
    wild = run(99, kin, (IMPLAUSIBLE_RATIO * beyond) ** side)
    lessons = Lessons([*reports, wild], SHARES)
    assert lessons.nonsense == (99,)
    assert lessons.about(HERE, "decode", 0.2) == Lessons(reports, SHARES).about(HERE, "decode", 0.2)


@given(runs, st.tuples(kins, observations))
def test_without_a_withdrawn_report_all_is_as_before_it(found, more):
    with_it = reported([*found, more])
    assert decode([each for each in with_it if each.id != len(with_it)]) == decode(reported(found))


def test_what_is_more_alike_is_corrected_more():
    report = [run(1, HERE, 2.0)]
    near = [
        HERE,
        replace(HERE, sequences=64.0),
        replace(HERE, sequences=512.0, tokens=8192.0),
        replace(HERE, deployment="fp8, tensor 4"),
        replace(HERE, model="qwen-7b"),
        replace(HERE, model="qwen-7b", hardware="l4"),
    ]
    found = [decode(report, kin) for kin in near]
    ratios = [each.ratio for each in found]
    spreads = [each.spread_ratio for each in found]
    assert ratios == sorted(ratios, reverse=True)
    assert spreads == sorted(spreads)
    assert ratios[0] > 1.7
    assert 1.0 < ratios[-1] < 1.1


def test_what_shares_nothing_is_left_alone():
    apart = replace(LIKENESS, organisation_ratio=0.0)
    lessons = Lessons([run(1, HERE, 2.0)], {"decode": apart})
    assert lessons.about(replace(HERE, model="a", hardware="b"), "decode", 0.2) is None
    assert lessons.about(HERE, "power", 0.2) is None


def test_a_report_against_many_is_believed_less_than_they_are():
    agreeing = [run(id_, HERE, 1.2) for id_ in (1, 2, 3, 4)]
    odd = run(5, HERE, 12.0)
    taught = Lessons([*agreeing, odd], SHARES).about(HERE, "decode", 0.2)
    assert taught is not None
    assert taught.weight_ratio[5] < 0.1 < 0.9 < taught.weight_ratio[1]
    assert taught.correction.ratio == pytest.approx(1.2, rel=0.05)


def test_a_figure_teaches_as_far_as_a_channel_moves_it():
    mixed = Observation("e2e_s", log(1.5), {"decode": 0.8, "prefill": 0.2})
    both = Lessons([Report(1, HERE, SIGMA, (mixed,))], SHARES)
    decode_, prefill = (both.about(HERE, name, SIGMA[name]) for name in ("decode", "prefill"))
    assert decode_ is not None
    assert prefill is not None
    assert decode_.correction.ratio > prefill.correction.ratio > 1.0
    inverse = Observation("output_tokens_per_s", -log(1.5), {"decode": -1.0})
    assert decode([Report(1, HERE, SIGMA, (inverse,))]) == decode([run(1, HERE, 1.5)])
    fixed = Observation("process_bytes", log(1.5), {"decode": 0.01})
    assert decode([Report(1, HERE, SIGMA, (fixed,))]) == NO_CORRECTION


@given(st.lists(kins, min_size=1, max_size=8))
def test_likeness_is_a_covariance(found):
    together = alike(found, found, LIKENESS)
    assert np.linalg.eigvalsh(together).min() > -1e-9
    assert together.max() <= 1.0 - LIKENESS.row_ratio + 1e-9


def test_a_correction_keeps_what_is_exact_and_narrows_the_rest():
    half = Correction(ratio=2.0, spread_ratio=0.5)
    assert half.of(exact(3.0)) == exact(6.0)
    assert half.of(Interval(4.0, 2.0, 8.0)) == Interval(8.0, 6.0, 12.0)


def test_the_posterior_of_one_report_is_that_of_two_normal_variables():
    lessons = Lessons([run(1, HERE, 1.3)], SHARES)
    taught = lessons.about(HERE, "decode", 0.2)
    assert taught is not None
    known = 0.2**2 * (1.0 - LIKENESS.row_ratio)
    kept = known / (0.2**2 + 0.01**2)
    assert taught.correction.ratio == pytest.approx(exp(kept * log(1.3)), rel=1e-5)
    spread = (1.0 - kept * known / 0.2**2) ** 0.5
    assert taught.correction.spread_ratio == pytest.approx(spread, rel=1e-5)
