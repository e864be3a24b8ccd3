"""What hosts do beside the accelerator, and what it waits for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.performance.step import step_time
from service.core.performance.steps import StepLoad
from service.core.performance.work import rank_work
from tests.core.deployments import CALIBRATION, H100, deployment

#: Eight sequences of a model whose weights take milliseconds to read.
LOAD = StepLoad(0.0, 0.0, 0.0, 8.0, 500.0)


def step(**figures):
    chosen = deployment("llama-70b")
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    known = {"launch_bound": True, "step_s": 0.0, "sequence_s": 0.0, "layer_s": 1e-6}
    engine = replace(CALIBRATION.engine, **(known | figures))
    calibration = replace(CALIBRATION, engine=engine)
    return step_time(work, LOAD, H100, chosen.parallelism, calibration)


def test_kernels_are_issued_while_the_accelerator_computes():
    hidden, seen = step(), step(layer_s=1e-3)
    assert hidden.overhead_s == 0.0
    assert seen.overhead_s == pytest.approx(80 * 1e-3 - seen.work_s)


@pytest.mark.parametrize(
    ("figures", "added_s"),
    [
        ({"step_s": 2e-3}, 2e-3),
        ({"sequence_s": 2e-4}, 8 * 2e-4),
        ({"served_s": 4e-3}, 4e-3),
        ({"ranks_s": 1e-3}, 7 * 1e-3),
    ],
)
def test_the_accelerator_waits_for_what_follows_from_tokens_of_the_step_before(figures, added_s):
    assert step(**figures).total_s == pytest.approx(step().total_s + added_s)
    # Kernels are issued no sooner, and take no less time beside the work.
    issued = {"layer_s": 1e-3}
    assert step(**figures, **issued).total_s == pytest.approx(step(**issued).total_s + added_s)


def test_drafted_tokens_are_checked_in_graphs_and_have_logits_each():
    chosen = deployment("llama-70b")
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    slow = {"prompt_layer_s": 1e-3, "prompts_s": 2e-3, "replays_graphs": True}

    def time(load: StepLoad, **figures: float) -> float:
        known = {"launch_bound": False, "step_s": 0.0, "sequence_s": 0.0, "layer_s": 1e-6}
        engine = replace(CALIBRATION.engine, **(known | figures))
        calibration = replace(CALIBRATION, engine=engine)
        return step_time(work, load, H100, chosen.parallelism, calibration).total_s

    # Three drafts for each of eight sequences, of no prompt: engines capture steps that check them.
    check = StepLoad(24.0, 0.0, 500.0, 8.0, 500.0)
    assert time(check, **slow) == time(check)
    prompt = replace(check, prefill_sequences=1.0)
    assert time(prompt, **slow) > time(prompt)
    # Each is chosen from the whole vocabulary, where of a prompt the last token is.
    sampled = {"sampled_bytes": 400.0}
    sorted_s = time(check, **sampled) - time(check)
    plain = StepLoad(0.0, 0.0, 0.0, 8.0, 500.0)
    assert sorted_s == pytest.approx(4.0 * (time(plain, **sampled) - time(plain)))
