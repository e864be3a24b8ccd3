"""Messages of steps whose experts lie on several machines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.deployment import Parallelism
from service.core.performance.messages import HALVED_TOKENS, hidden_ratio, token_message
from service.core.performance.step import rank_steps
from service.core.performance.steps import StepLoad
from service.core.performance.work import rank_work
from tests.core.deployments import CALIBRATION, H100, deployment

#: All ranks in one machine.
RACK = replace(H100, scale_up_domain_accelerators=72)


def shared(ranks: int):
    """Work of copies of the attention that share experts, two of which each token is sent to."""
    layout = Parallelism(tensor=1, data=ranks, expert=ranks)
    chosen = deployment("mixtral-8x7b", tensor=1)
    return rank_work(chosen.architecture, chosen.precision, layout), layout


def steps(ranks: int, accelerator=H100):
    work, layout = shared(ranks)
    return rank_steps(work, accelerator, layout, CALIBRATION)


def decoding(sequences: float) -> StepLoad:
    return StepLoad(0.0, 0.0, 0.0, sequences, 0.0)


def test_tokens_of_prompts_go_once_to_each_machine_and_are_passed_on_there():
    work, layout = shared(16)
    alone, of_prompts = (
        token_message(work, H100, layout, CALIBRATION, prompts) for prompts in (False, True)
    )
    # Of two machines either expert is on the other one half of the time: three quarters of tokens
    # go there once, where one copy a token did.
    assert of_prompts.byte_s == pytest.approx(0.75 * alone.byte_s, rel=0.1)
    # Inside a machine nothing is saved.
    work, layout = shared(8)
    inside = [token_message(work, H100, layout, CALIBRATION, each) for each in (False, True)]
    assert inside[0] == inside[1]


def test_halves_of_a_step_hide_messages_behind_each_others_work_between_machines():
    work, layout = shared(16)
    message = token_message(work, H100, layout, CALIBRATION)
    few, many = steps(16).time(decoding(HALVED_TOKENS - 1.0)), steps(16).time(decoding(4096.0))
    assert few.interconnect_s == message.fixed_s + message.byte_s * (HALVED_TOKENS - 1.0)
    sent_s = message.fixed_s + message.byte_s * 4096.0
    hidden_s = hidden_ratio(work, H100, layout) * min(sent_s, many.work_s)
    assert many.interconnect_s == pytest.approx(sent_s - hidden_s)
    assert 0.0 < hidden_s < sent_s


@pytest.mark.parametrize(("ranks", "accelerator"), [(8, H100), (16, RACK)])
def test_no_step_is_divided_where_links_inside_a_machine_carry_all(ranks, accelerator):
    work, layout = shared(ranks)
    assert hidden_ratio(work, accelerator, layout) == 0.0
    message = token_message(work, accelerator, layout, CALIBRATION)
    step = steps(ranks, accelerator).time(decoding(4096.0))
    assert step.interconnect_s == message.fixed_s + message.byte_s * 4096.0


def test_ranks_that_share_no_experts_divide_no_steps():
    chosen = deployment("llama-70b", tensor=16)
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    assert hidden_ratio(work, H100, chosen.parallelism) == 0.0
