"""Products of routed experts: which are read, how unevenly, and what small ones reach."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from service.core.deployment import InferenceWorkload, Parallelism, ServingSettings
from service.core.estimate.inference import InferenceSetup, estimate_inference
from service.core.performance.products import expert_products, product_costs, work_sizes
from service.core.performance.step import step_time
from service.core.performance.steps import StepLoad
from service.core.performance.work import MatrixProduct, rank_work
from tests.core.calibrations import packaged_overheads
from tests.core.deployments import CALIBRATION, H100, deployment


def routed(popularity: float, expert: int, experts: int = 128, per_token: int = 8):
    """Products of routed experts, of which ranks hold equal parts."""
    item = MatrixProduct(
        calls=1.0,
        input_features=2048.0,
        output_features=768.0,
        weight_bytes=3e6,
        matrix_precision="bf16",
        operand_bits=16,
        experts=experts,
        copies=experts / expert,
        copies_per_token=per_token / expert,
        experts_per_token=per_token,
        expert_elements=2048.0 * 768.0,
    )
    sizes = work_sizes((item,), 2.0).experts
    known = replace(CALIBRATION.hardware, popularity_ratio=popularity)
    calibration = replace(CALIBRATION, hardware=known)
    return expert_products(sizes, H100, Parallelism(tensor=expert, expert=expert), calibration)[0]


@pytest.mark.parametrize("popularity", [0.0, 0.8, 1.6])
@pytest.mark.parametrize("tokens", [1.0, 8.0, 200.0])
def test_experts_that_are_popular_leave_others_unread(popularity, tokens):
    read, _ = routed(popularity, 1).load(tokens)
    assert read == pytest.approx(8.0) if tokens == 1.0 else read < 128.0
    # How often each is chosen is drawn from a gamma distribution, given that one token did not.
    once = -np.log1p(-8.0 / 128.0)
    shape = 1.0 / popularity**2 if popularity else 1e6
    met = np.random.default_rng(3).gamma(shape, once / shape, 100_000)
    missed = np.exp(-met * tokens).mean() / np.exp(-met).mean() * np.exp(-once)
    assert read == pytest.approx(128.0 * (1.0 - missed), rel=0.02)


@pytest.mark.parametrize("popularity", [0.0, 0.8])
def test_ranks_wait_for_the_one_whose_experts_are_most_popular(popularity):
    tokens, ranks = 512.0, 8
    _, rows = routed(popularity, ranks).load(tokens)
    generator = np.random.default_rng(5)
    mean = tokens * 8.0 / 128.0
    shape = 1.0 / popularity**2 if popularity else 1e6
    drawn = generator.poisson(generator.gamma(shape, mean / shape, (4_000, ranks, 16)))
    by_rank = drawn.sum(axis=2)
    highest = (by_rank.max(axis=1) / by_rank.mean(axis=1)).mean() * tokens * 8.0 / ranks
    assert rows == pytest.approx(highest, rel=0.05)


@pytest.mark.parametrize("tokens", [1.0, 8.0, 512.0])
def test_the_average_rank_does_its_share_of_the_work(tokens):
    read, rows = routed(0.8, 8).mean_load(tokens)
    all_read, all_rows = routed(0.8, 1).load(tokens)
    assert read * 8.0 == pytest.approx(all_read)
    assert rows * 8.0 == pytest.approx(all_rows)
    busiest_read, busiest_rows = routed(0.8, 8).load(tokens)
    assert busiest_read > read
    assert busiest_rows > rows


def test_ranks_that_wait_for_the_busiest_move_and_compute_less():
    def step(expert):
        chosen = deployment("mixtral-8x7b")
        layout = Parallelism(tensor=8, expert=expert)
        work = rank_work(chosen.architecture, chosen.precision, layout)
        load = StepLoad(0.0, 0.0, 0.0, 4.0, 500.0)
        return step_time(work, load, H100, layout, CALIBRATION)

    split, spread = step(1), step(8)
    assert (split.uneven_s, split.uneven_bytes, split.idle_compute_s) == (0.0, 0.0, 0.0)
    assert split.mean_bytes == split.memory_bytes
    # Eight ranks hold an expert each, of which four tokens choose five or six.
    assert spread.mean_bytes < 0.9 * spread.memory_bytes
    assert spread.mean_compute_s < spread.compute_s
    assert 0.0 < spread.uneven_s < spread.work_s
    assert spread.waiting_s > spread.interconnect_s + spread.overhead_s


def test_popular_experts_have_copies_where_ranks_are_of_several_machines():
    even, uneven = (routed(popularity, 16).load(4096.0)[1] for popularity in (0.0, 1.6))
    assert even < uneven < 1.1 * even
    on_one = (routed(popularity, 8).load(4096.0)[1] for popularity in (0.0, 1.6))
    assert next(on_one) * 1.3 < next(on_one)


def test_narrowed_tokens_are_sent_to_other_machines_and_come_back_whole():
    def interconnect_s(weights, ranks):
        chosen = deployment("mixtral-8x7b", weights=weights)
        layout = Parallelism(tensor=1, data=ranks, expert=ranks)
        work = rank_work(chosen.architecture, chosen.precision, layout)
        # Messages are long, so that their fixed times count for nothing.
        load = StepLoad(1e9, 1.0, 0.0, 0.0, 0.0)
        return step_time(work, load, H100, layout, CALIBRATION).interconnect_s

    assert interconnect_s("fp8", 16) == pytest.approx(0.75 * interconnect_s("bf16", 16), rel=1e-3)
    assert interconnect_s("fp8", 8) == interconnect_s("bf16", 8)


def test_copies_that_wait_for_each_other_are_less_sure():
    def log_sigma(expert):
        layout = Parallelism(tensor=1, data=8, expert=expert)
        chosen = replace(deployment("mixtral-8x7b", tensor=1), parallelism=layout)
        load = InferenceWorkload(1024.0, 256.0, 16.0)
        setup = InferenceSetup(chosen, load, ServingSettings(), packaged_overheads(), CALIBRATION)
        calibration = estimate_inference(setup).calibration
        return calibration.added_log_sigma("decode"), calibration.added_log_sigma("prefill")

    # Beside what is unsure of kernels, however much wider that is where nobody measured them.
    assert log_sigma(1) == (0.0, 0.0)
    assert log_sigma(8) == (0.125, 0.0)


def test_small_experts_are_read_as_fast_as_large_ones_and_multiplied_more_slowly():
    def cost(half_elements):
        known = replace(CALIBRATION.hardware, expert_half_elements=half_elements)
        calibration = replace(CALIBRATION, hardware=known)
        return product_costs([routed(0.0, 1).size], H100, calibration)[0]

    whole, half = cost(0.0), cost(2048.0 * 768.0)
    assert half.weights_s == whole.weights_s
    assert half.padded_row_s == pytest.approx(2.0 * whole.padded_row_s)


@pytest.mark.parametrize(
    ("model", "ranks", "copies"), [("mixtral-8x7b", 8, 8), ("mixtral-8x7b", 16, 2)]
)
def test_ranks_of_a_machine_gather_all_tokens(model, ranks, copies):
    chosen = deployment(model)
    layout = Parallelism(tensor=1, data=ranks, expert=ranks)
    work = rank_work(chosen.architecture, chosen.precision, layout)
    assert work.exchanges_bytes_per_token == copies * work.hidden_size * work.activation_bytes
