"""Schedules of the next step, made between steps or while the accelerator computes."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from service.core.deployment import Parallelism
from service.core.performance.prompt_launches import (
    eager_prompt_layer_s,
    issues_prompts_eagerly,
)
from service.core.performance.scheduling import schedules_ahead
from service.core.performance.step import rank_steps
from service.core.performance.steps import StepLoad
from service.core.performance.work import rank_work
from tests.core.deployments import CALIBRATION, H100, deployment


def decoding(*, ahead: bool, step_s: float, sequence_s: float, sequences: float = 64.0):
    engine = replace(
        CALIBRATION.engine, step_s=step_s, sequence_s=sequence_s, schedules_ahead=ahead
    )
    one = deployment()
    work = rank_work(one.architecture, one.precision, Parallelism())
    steps = rank_steps(work, H100, Parallelism(), replace(CALIBRATION, engine=engine))
    return steps.time(StepLoad(0.0, 0.0, 0.0, sequences, 1000.0))


def test_a_schedule_made_ahead_is_seen_only_where_it_takes_longer_than_the_step():
    without = decoding(ahead=False, step_s=0.0, sequence_s=0.0)
    between = decoding(ahead=False, step_s=1e-3, sequence_s=2e-5)
    assert between.total_s == pytest.approx(without.total_s + 1e-3 + 64.0 * 2e-5)
    # Hidden as long as the step takes longer.
    hidden = decoding(ahead=True, step_s=1e-3, sequence_s=2e-5)
    assert hidden.total_s == pytest.approx(without.total_s)
    # A host that takes longer than the accelerator sets the pace.
    slow = decoding(ahead=True, step_s=1.0, sequence_s=2e-5)
    assert slow.total_s == pytest.approx(1.0 + 64.0 * 2e-5)


def test_later_releases_schedule_ahead():
    assert schedules_ahead("sglang@overlapped")
    assert not schedules_ahead("sglang@before-0.4")
    # What vLLM leaves between steps is measured of releases that schedule ahead.
    assert not schedules_ahead("vllm@0.17")
    # MLX issues a step before the last one's token is read; llama.cpp, whose times it has, waits.
    assert schedules_ahead("mlx")
    assert not schedules_ahead("llama.cpp@2026")


@pytest.mark.parametrize("step_s", [1e-3, 6e-2, 0.3])
def test_more_tokens_never_make_a_step_shorter_whose_schedule_and_kernels_are_both_ahead(step_s):
    """What lasts until kernels are issued is time in which the next step is scheduled, too."""
    engine = replace(CALIBRATION.engine, step_s=step_s, prompt_layer_s=1e-3, schedules_ahead=True)
    one = deployment()
    work = rank_work(one.architecture, one.precision, Parallelism())
    steps = rank_steps(work, H100, Parallelism(), replace(CALIBRATION, engine=engine))
    times = [
        float(steps.time(StepLoad(float(tokens), 1.0, 0.0, 0.0, 0.0)).total_s)
        for tokens in (1, 8, 64, 128, 512, 1024, 4096)
    ]
    assert all(longer >= (1.0 - 1e-12) * shorter for shorter, longer in pairwise(times))


def test_sglang_issues_prompts_from_python_until_pieces_of_graphs_are_its_default():
    assert issues_prompts_eagerly("sglang@0.5.3")
    assert not issues_prompts_eagerly("sglang@0.5.10")
    assert not issues_prompts_eagerly("vllm@v1")
    taken = eager_prompt_layer_s()
    assert taken.low < taken.value < taken.high
