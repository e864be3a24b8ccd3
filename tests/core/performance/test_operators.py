"""Operators one by one add up to the step that they are of."""

from __future__ import annotations

import pytest

from service.core.performance.inference.replica import Requests, decode_load, prompt_load
from service.core.performance.operators import ATTENTION_OVER_CONTEXT, step_operators
from service.core.performance.step import step_time
from service.core.performance.work import rank_work
from tests.core.deployments import CALIBRATION, H100, deployment


@pytest.mark.parametrize("model", ["llama-70b", "mixtral-8x7b"])
@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_operators_add_up_to_the_step(model, phase):
    chosen = deployment(model)
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    requests = Requests(2048, 2048, 256)
    loads = {"prefill": prompt_load(requests, 8192), "decode": decode_load(requests, 16)}
    step = step_time(work, loads[phase], H100, chosen.parallelism, CALIBRATION)
    found = step_operators(work, loads[phase], H100, chosen.parallelism, CALIBRATION)
    for name in ("flops", "memory_bytes", "work_s", "compute_bound_s"):
        assert sum(getattr(one, name) for one in found) == pytest.approx(
            float(getattr(step, name)), rel=1e-9
        ), name


def test_longer_contexts_weigh_on_attention_alone():
    chosen = deployment("llama-70b")
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)

    def decode(context):
        load = decode_load(Requests(context, context, 2), 16)
        found = step_operators(work, load, H100, chosen.parallelism, CALIBRATION)
        return {one.name: one.work_s for one in found}

    short, long = decode(1000), decode(9000)
    changed = {name for name in short if long[name] != pytest.approx(short[name])}
    assert changed == {ATTENTION_OVER_CONTEXT}
    assert long[ATTENTION_OVER_CONTEXT] > 5 * short[ATTENTION_OVER_CONTEXT]
