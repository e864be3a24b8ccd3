from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.core.architecture.config import parse_config
from service.core.architecture.tensors import TensorClass
from service.core.deployment import InferenceWorkload, Parallelism, ServingSettings
from service.core.memory.weights import total_model_bytes
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.attended import attended
from service.core.performance.inference.closed_load import ClosedLoad
from service.core.performance.inference.latency import InferenceLatency, inference_latency
from service.core.performance.inference.replica import overlapping_stages
from service.core.performance.release_kernels import STEPWISE_RATIO
from service.core.performance.step import step_time
from service.core.performance.steps import StepLoad
from service.core.performance.work import rank_work
from tests.core.deployments import CALIBRATION, H100, deployment

SERVING = ServingSettings()
IDEAL = replace(
    CALIBRATION,
    hardware=replace(
        CALIBRATION.hardware,
        matrix_ratio={32: 1.0, 16: 1.0, 8: 1.0, 4: 1.0},
        memory_ratio=1.0,
        attention_matrix_ratio=1.0,
        attention_memory_ratio=1.0,
        overlap_ratio=1.0,
        tile_rows=0.0,
        expert_ratio=1.0,
        link_ratio=1.0,
    ),
    engine=replace(CALIBRATION.engine, step_s=0.0, layer_s=0.0, sequence_s=0.0, collective_s=0.0),
)


def latency(workload: InferenceWorkload, model: str = "llama-70b") -> InferenceLatency:
    return inference_latency(deployment(model), workload, SERVING, CALIBRATION, 500.0)


def decode_step(batch: float, context: float, model: str = "llama-70b", calibration=CALIBRATION):
    chosen = deployment(model)
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    load = StepLoad(0.0, 0.0, 0.0, batch, context)
    return step_time(work, load, H100, chosen.parallelism, calibration)


def test_ideal_decode_of_one_sequence_reads_every_weight_once():
    step = decode_step(1.0, 0.0, calibration=IDEAL)
    chosen = deployment()
    table = chosen.architecture.embedding[0].elements
    weights = 2.0 * (chosen.architecture.total_parameters - table) / 8
    # Norms and activations add well under one percent.
    assert step.memory_bytes == pytest.approx(weights, rel=0.01)
    assert step.work_s == pytest.approx(weights / 3.35e12, rel=0.01)


MAMBA = {
    "model_type": "falcon_mamba",
    "hidden_size": 4096,
    "intermediate_size": 8192,
    "num_hidden_layers": 64,
    "state_size": 16,
    "conv_kernel": 4,
    "time_step_rank": 256,
    "vocab_size": 65024,
    "tie_word_embeddings": False,
}


def with_engine(**figures):
    return replace(CALIBRATION, engine=replace(CALIBRATION.engine, **figures))


def test_a_step_with_prompts_lasts_until_its_kernels_are_issued():
    chosen = deployment()
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    short, long = (StepLoad(tokens, 1.0, 0.0, 0.0, 0.0) for tokens in (8.0, 16384.0))

    def total(load, calibration):
        return step_time(work, load, H100, chosen.parallelism, calibration).total_s

    issued = with_engine(prompt_layer_s=1e-3)
    others_s = CALIBRATION.engine.step_s + CALIBRATION.engine.sequence_s
    assert total(short, issued) == pytest.approx(work.layers * 1e-3 + others_s)
    # Kernels of a long prompt are issued beside its work, and decoding replays its graphs.
    assert total(long, issued) == total(long, CALIBRATION)
    decode = StepLoad(0.0, 0.0, 0.0, 8.0, 512.0)
    assert total(decode, issued) == total(decode, CALIBRATION)


def test_steps_without_graphs_last_until_their_kernels_are_issued():
    workload = InferenceWorkload(64, 64, 1)

    def tpot(*, eager: bool, **figures: float):
        return inference_latency(
            deployment(),
            workload,
            replace(SERVING, enforce_eager=eager),
            with_engine(**{"replays_graphs": True, **figures}),
            500.0,
        ).tpot_s.value

    replayed_s = tpot(eager=False, prompt_layer_s=1e-3)
    others_s = CALIBRATION.engine.step_s + CALIBRATION.engine.sequence_s
    # Issuing 80 layers takes longer than reading their weights on eight cards.
    assert tpot(eager=True, prompt_layer_s=1e-3) == pytest.approx(80e-3 + others_s, rel=1e-3)
    assert replayed_s < 40e-3
    # Kernels that are issued while others run cost nothing, nor does an engine that has no graphs.
    assert tpot(eager=True, prompt_layer_s=1e-5) == tpot(eager=False, prompt_layer_s=1e-5)
    plain = {"prompt_layer_s": 1e-3, "replays_graphs": False}
    assert tpot(eager=True, **plain) == tpot(eager=False, **plain)


def test_a_faster_host_issues_kernels_sooner_but_replays_no_graph_faster():
    def overhead(host_ratio, **figures):
        calibration = with_engine(host_ratio=host_ratio, **figures)
        return decode_step(1.0, 512.0, calibration=calibration).overhead_s

    assert overhead(0.5) == pytest.approx(overhead(1.0) / 2)
    assert overhead(0.5, core_time_ratio=3.0) == pytest.approx(overhead(1.5))
    layers_s = 80 * CALIBRATION.engine.layer_s
    saved_s = overhead(1.0, replays_graphs=True) - overhead(0.5, replays_graphs=True)
    assert saved_s == pytest.approx((overhead(1.0) - layers_s) / 2)


def test_copies_of_the_cache_are_moved_besides_what_attention_reads():
    chosen = deployment()
    [attention] = rank_work(chosen.architecture, chosen.precision, chosen.parallelism).attention

    def moved(**figures):
        calibration = replace(IDEAL, engine=replace(IDEAL.engine, **figures))
        long, none = (decode_step(4.0, context, calibration=calibration) for context in (3e4, 0.0))
        assert long.work_s - none.work_s == pytest.approx(
            (long.memory_bytes - none.memory_bytes) / 3.35e12
        )
        return (long.memory_bytes - none.memory_bytes) / (
            4.0 * 3e4 * attention.cache_bytes_per_token
        )

    assert moved() == pytest.approx(1.0)
    assert moved(regrows_cache=True) == pytest.approx(3.0)
    # Llama 3 70B has eight heads of queries for each of keys: read, written eight times, and read.
    assert moved(repeats_heads=True) == pytest.approx(17.0)
    assert moved(regrows_cache=True, repeats_heads=True) == pytest.approx(19.0)
    assert moved(head_reads_exponent_ratio=1.0) == pytest.approx(8.0)
    # Between once and eight times where heads of a group run at once.
    assert moved(head_reads_exponent_ratio=0.5) == pytest.approx(8.0**0.5)
    # Four sequences: as many blocks of threads read at once, and find in caches what they share.
    assert moved(head_reads_exponent_ratio=1.0, rereads_by_sequence=True) == pytest.approx(2.0)


def test_heads_that_are_as_many_as_those_of_queries_are_not_repeated():
    chosen = deployment("mixtral-8x7b")
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    alike = replace(work.attention[0], heads_per_kv_head=1.0)
    assert alike.moved_bytes_per_token(False, True, False) == alike.cache_bytes_per_token


def test_what_moves_between_products_grows_with_kernels_that_are_not_fused_and_wider_results():
    chosen = deployment()
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    width = 28672 / chosen.parallelism.tensor
    assert work.unfused_bytes_per_token == 80 * (20 * 8192 + 5 * width) * 2.0
    assert work.elementwise_bytes_per_token == 80 * 6 * 8192 * 2.0

    def bytes_per_token(**figures):
        calibration = replace(IDEAL, engine=replace(IDEAL.engine, **figures))
        only = replace(work, products=(), attention=())
        load = StepLoad(1024.0, 1.0, 512.0, 0.0, 0.0)
        step = step_time(only, load, H100, chosen.parallelism, calibration)
        return step.memory_bytes / 1024.0

    assert bytes_per_token() == pytest.approx(work.elementwise_bytes_per_token)
    unfused = bytes_per_token(fuses_elementwise=False)
    assert unfused == pytest.approx(work.unfused_bytes_per_token)
    assert bytes_per_token(fuses_elementwise=False, result_ratio=2.0) == pytest.approx(2 * unfused)


def test_weights_that_are_widened_whole_move_three_times_for_many_rows():
    chosen = deployment(weights="gptq-int4")
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    dense = tuple(item for item in work.products if item.weight_bits < 16 and not item.per_sequence)
    only = replace(work, products=dense, attention=(), elementwise_bytes_per_token=0.0)

    def step(rows, from_rows):
        calibration = with_engine(widened_from_rows=from_rows)
        hardware = replace(calibration.hardware, dequantised_ratio=0.8)
        calibration = replace(calibration, hardware=hardware)
        load = StepLoad(rows, 1.0, 0.0, 0.0, 0.0)
        return step_time(only, load, H100, chosen.parallelism, calibration)

    in_16_bit = sum(item.weight_bytes * item.calls * 16.0 / item.weight_bits for item in dense)
    added = step(64.0, 33.0).memory_bytes - step(64.0, 0.0).memory_bytes
    assert added == pytest.approx(2.0 * in_16_bit)
    assert step(32.0, 33.0).memory_bytes == step(32.0, 0.0).memory_bytes
    assert step(64.0, 33.0).work_s > step(64.0, 0.0).work_s
    # Of many rows, widening is a small part, and the product itself as fast as that of 16 bit.
    assert step(65536.0, 33.0).work_s < step(65536.0, 0.0).work_s


def test_kernels_of_awq_multiply_all_but_long_prompts():
    """Below the limit weights are widened by tiles on their way into products."""
    chosen = deployment(weights="awq-int4")
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)

    def work_s(rows, from_rows):
        calibration = with_engine(many_widened_from_rows=from_rows)
        hardware = replace(calibration.hardware, dequantised_ratio=0.5)
        calibration = replace(calibration, hardware=hardware)
        load = StepLoad(rows, 1.0, 0.0, 0.0, 0.0)
        return step_time(work, load, H100, chosen.parallelism, calibration).work_s

    assert work_s(1023.0, 1024.0) == pytest.approx(work_s(1023.0, 0.0))
    assert work_s(8192.0, 1024.0) < 0.7 * work_s(8192.0, 0.0)


@pytest.mark.parametrize("name", ["gguf-q4_0", "gguf-q4_k_m", "gguf-q3_k_l", "gguf-q2_k"])
def test_a_step_reads_what_files_store_of_each_tensor(name):
    chosen = deployment(weights=name)
    architecture, weights = chosen.architecture, chosen.precision.weights
    work = rank_work(architecture, chosen.precision, Parallelism())
    read = sum(item.weight_bytes * item.calls for item in work.products)
    # All but the table of embeddings, of which a token reads a row, and a few vectors.
    table = architecture.vocab_size * architecture.hidden_size
    stored = total_model_bytes(architecture, weights)
    stored -= table * weights.bits(TensorClass.EMBEDDING) / 8.0
    assert read == pytest.approx(stored, rel=1e-3)


def test_matrices_in_few_bits_are_read_at_their_own_share_of_the_bandwidth():
    def work_s(weights, ratio):
        chosen = deployment(weights=weights)
        work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
        only = replace(
            work,
            products=tuple(item for item in work.products if not item.per_sequence),
            attention=(),
            elementwise_bytes_per_token=0.0,
        )
        calibration = replace(IDEAL, engine=replace(IDEAL.engine, packed_memory_ratio=ratio))
        load = StepLoad(0.0, 0.0, 0.0, 1.0, 0.0)
        return step_time(only, load, H100, chosen.parallelism, calibration).work_s

    assert work_s("awq-int4", 0.5) == pytest.approx(2.0 * work_s("awq-int4", 1.0))
    assert work_s("bf16", 0.5) == work_s("bf16", 1.0)


def test_weight_only_engines_do_not_narrow_activations_for_experts():
    chosen = deployment("mixtral-8x7b", weights="int8")
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    load = StepLoad(0.0, 0.0, 0.0, 1.0, 64.0)

    def total_s(weight_only, narrow_experts_s):
        calibration = with_engine(weight_only=weight_only)
        hardware = replace(calibration.hardware, narrow_experts_s=narrow_experts_s)
        calibration = replace(calibration, hardware=hardware)
        return step_time(work, load, H100, chosen.parallelism, calibration).total_s

    assert total_s(False, 1e-4) - total_s(False, 0.0) == pytest.approx(32 * 1e-4)
    assert total_s(True, 1e-4) == total_s(True, 0.0)


def test_constants_in_arrays_give_what_plain_ones_do():
    chosen = deployment(weights="gptq-int4")
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    load = StepLoad(64.0, 1.0, 32.0, 4.0, 512.0)

    def work_s(memory_ratio, from_rows):
        calibration = with_engine(widened_from_rows=from_rows)
        hardware = replace(calibration.hardware, memory_ratio=memory_ratio)
        calibration = replace(calibration, hardware=hardware)
        return step_time(work, load, H100, chosen.parallelism, calibration).work_s

    for from_rows in (0.0, 33.0):
        many = work_s(np.array([0.8, 0.85]), from_rows)
        assert many == pytest.approx([work_s(0.8, from_rows), work_s(0.85, from_rows)])


def test_products_of_experts_one_by_one_take_a_time_each_in_steps_with_prompts():
    chosen = deployment("mixtral-8x7b")
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    apart = with_engine(prompt_product_s=1e-5, loops_experts=True)
    together = with_engine(prompt_product_s=1e-5)

    def total(load, calibration):
        return step_time(work, load, H100, chosen.parallelism, calibration).total_s

    prompt, decode = StepLoad(512.0, 1.0, 256.0, 0.0, 0.0), StepLoad(0.0, 0.0, 0.0, 64.0, 256.0)
    products = sum(item.calls * item.copies for item in work.products if item.experts)
    added_s = total(prompt, apart) - total(prompt, CALIBRATION)
    assert added_s == pytest.approx(1e-5 * products, rel=1e-3)
    assert total(decode, apart) == total(decode, CALIBRATION)
    assert total(prompt, together) == total(prompt, CALIBRATION)


def test_weights_in_super_blocks_wait_for_units_that_unpack_them():
    chosen = deployment("mixtral-8x7b")
    precision = replace(chosen.precision, weights=NUMBER_FORMATS["gguf-q4_k_m"])
    decode = StepLoad(0.0, 0.0, 0.0, 1.0, 256.0)

    def total(weights, **figures):
        formats = replace(precision, weights=NUMBER_FORMATS[weights])
        work = rank_work(chosen.architecture, formats, chosen.parallelism)
        return step_time(work, decode, H100, chosen.parallelism, with_engine(**figures)).total_s

    assert total("gguf-q4_k_m", unpacking_operations=64.0) > 1.5 * total("gguf-q4_k_m")
    few = total("gguf-q4_k_m", unpacking_operations=1.0)
    assert few == pytest.approx(total("gguf-q4_k_m"), rel=0.01)
    assert total("gguf-q4_0", unpacking_operations=64.0) == total("gguf-q4_0")


def test_weights_that_wait_for_loads_are_read_no_faster_than_these_bring_them():
    chosen = deployment("mixtral-8x7b")
    decode = StepLoad(0.0, 0.0, 0.0, 1.0, 256.0)

    def memory_s(weights, **figures):
        precision = replace(chosen.precision, weights=NUMBER_FORMATS[weights])
        work = rank_work(chosen.architecture, precision, chosen.parallelism)
        return step_time(work, decode, H100, chosen.parallelism, with_engine(**figures)).work_s

    limited = {"loaded_bits": 15.0, "loading_lane_count": 128.0, "cycle_read_bytes": 1.0}
    cycles_per_s = H100.peak_flops_per_s["fp32"] / 2.0 / 128.0
    slowdown = H100.memory_bandwidth_bytes_per_s / cycles_per_s
    assert memory_s("gguf-q8_0", **limited) > 0.5 * slowdown * memory_s("gguf-q8_0")
    assert memory_s("fp16", **limited) == memory_s("fp16")
    many = limited | {"cycle_read_bytes": 1e3}
    assert memory_s("gguf-q8_0", **many) == pytest.approx(memory_s("gguf-q8_0"), rel=1e-3)
    unknown = limited | {"cycle_read_bytes": 0.0}
    assert memory_s("gguf-q8_0", **unknown) == memory_s("gguf-q8_0")


def test_fused_attention_without_matrix_units_is_slower_for_prompts():
    chosen = deployment("mixtral-8x7b")
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    prompt = StepLoad(4096.0, 1.0, 2048.0, 0.0, 0.0)
    on_vectors = with_engine(vector_attention=True, vector_attention_ratio=0.05)

    def compute_s(calibration):
        return step_time(work, prompt, H100, chosen.parallelism, calibration).compute_s

    assert compute_s(on_vectors) > 1.2 * compute_s(CALIBRATION)


def test_attention_on_vectors_takes_as_long_for_a_score_of_a_narrow_head_and_of_a_masked_pair():
    chosen = deployment("mixtral-8x7b")
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    (layer,) = work.attention
    narrow = replace(layer, flops_per_pair=layer.flops_per_pair / 2.0)
    on_vectors = with_engine(vector_attention=True, vector_attention_ratio=0.01)

    def attention_s(attention, calibration):
        prompt = StepLoad(512.0, 1.0, 256.0, 0.0, 0.0)
        work_with, without = (replace(work, attention=one) for one in ((attention,), ()))
        times = (
            step_time(one, prompt, H100, chosen.parallelism, calibration).compute_s
            for one in (work_with, without)
        )
        return next(times) - next(times)

    # Sums over lanes take longest, and heads of 128 features or fewer have as many of them.
    assert attention_s(narrow, on_vectors) == pytest.approx(attention_s(layer, on_vectors))
    assert attention_s(narrow, CALIBRATION) == pytest.approx(attention_s(layer, CALIBRATION) / 2.0)
    # All pairs of the 512 tokens of a causal prompt are computed.
    flops_per_s = 0.01 * H100.peak_flops_per_s["fp32"]
    expected_s = 512.0 * 512.0 * layer.scores_per_pair * 512.0 / flops_per_s
    assert attention_s(layer, on_vectors) == pytest.approx(expected_s)


def test_whole_products_compute_what_windows_take_away_within_what_is_kept():
    work = rank_work((chosen := deployment()).architecture, chosen.precision, chosen.parallelism)
    layer = replace(work.attention[0], window_tokens=128)
    prompt = StepLoad(512.0, 1.0, 256.0, 0.0, 0.0)
    skipped = attended(layer, prompt, 1)[0]
    whole = attended(layer, prompt, 1, skips_masked=False)[0]
    # Until the window is full, a token attends to those before it.
    assert skipped == (512.0 - 128.0) * 128.0 + 128.0 * 128.0 / 2.0
    # The cache keeps a window and the tokens of the step.
    assert whole == 512.0 * 512.0
    later = attended(layer, replace(prompt, prefill_context_tokens=4096.0), 1, False)[0]
    assert later == 512.0 * (128.0 + 512.0)
    # A step that decodes has nothing masked.
    decode = StepLoad(0.0, 0.0, 0.0, 1.0, 4096.0)
    assert attended(layer, decode, 1, False) == attended(layer, decode, 1)


def test_experts_fill_tiles_alone_where_tiles_are_chosen_by_the_tokens_of_a_step():
    chosen = deployment("mixtral-8x7b")
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)

    def compute_s(tokens, **figures):
        calibration = with_engine(**figures)
        calibration = replace(calibration, hardware=replace(calibration.hardware, tile_rows=64.0))
        load = StepLoad(tokens, 1.0, tokens / 2.0, 0.0, 0.0)
        return step_time(work, load, H100, chosen.parallelism, calibration).compute_s

    assert compute_s(64.0, whole_expert_tiles=True) > 1.5 * compute_s(64.0)
    assert compute_s(8.0, whole_expert_tiles=True) == compute_s(8.0)


def test_experts_that_are_not_routed_are_all_read_and_multiply_every_token():
    chosen = deployment("mixtral-8x7b")
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    routed = [item for item in work.products if item.experts]
    one = StepLoad(0.0, 0.0, 0.0, 1.0, 0.0)

    def step(**figures):
        return step_time(work, one, H100, chosen.parallelism, with_engine(**figures))

    narrow, wide = step(unrouted_below_bits=17.0), step(unrouted_below_bits=16.0)
    # Weights are of 16 bits: six of eight experts more.
    weights = sum(item.weight_bytes * item.calls for item in routed)
    flops = sum(2.0 * item.input_features * item.output_features * item.calls for item in routed)
    assert wide == step()
    assert narrow.flops - wide.flops == pytest.approx(6.0 * flops)
    assert narrow.memory_bytes - wide.memory_bytes == pytest.approx(6.0 * weights, rel=1e-3)


def test_ranks_add_up_what_each_expert_puts_out_where_all_are_looped_over():
    chosen = deployment("mixtral-8x7b", tensor=2)
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)

    def messages_s(tokens, **figures):
        load = StepLoad(0.0, 0.0, 0.0, tokens, 0.0)
        found = step_time(work, load, H100, chosen.parallelism, with_engine(**figures))
        return found.interconnect_s

    def byte_s(**figures):
        return messages_s(2.0, **figures) - messages_s(1.0, **figures)

    # Attention once, and eight experts instead of one; only bytes count, as others multiply.
    looped = {"unrouted_below_bits": 17.0}
    assert byte_s(**looped) == pytest.approx(9.0 / 2.0 * byte_s())
    latency_s = messages_s(1.0) - byte_s()
    assert messages_s(1.0, **looped) - byte_s(**looped) == pytest.approx(latency_s)


def test_experts_in_one_batch_are_all_read_and_none_is_waited_for():
    chosen = deployment("mixtral-8x7b")
    one = StepLoad(0.0, 0.0, 0.0, 1.0, 0.0)

    def step(weights="bf16", models=frozenset({"mixtral"})):
        precision = replace(chosen.precision, weights=NUMBER_FORMATS[weights])
        work = rank_work(chosen.architecture, precision, chosen.parallelism)
        engine = with_engine(batched_expert_models=models, expert_s=1e-5)
        return work, step_time(work, one, H100, chosen.parallelism, engine)

    work, batched = step()
    _, routed = step(models=frozenset({"other"}))
    weights = sum(item.weight_bytes * item.calls for item in work.products if item.experts)
    assert batched.memory_bytes - routed.memory_bytes == pytest.approx(6.0 * weights, rel=1e-3)
    # One product of eight experts takes as long to be issued as one expert.
    assert routed.overhead_s - batched.overhead_s == pytest.approx(7e-5 * work.layers)
    # In fewer bits they are not a batch of matrices.
    assert step("fp8")[1] == step("fp8", frozenset({"other"}))[1]


def test_states_that_are_carried_on_step_by_step_wait_for_more_kernels():
    chosen = deployment()
    mamba = parse_config(MAMBA)
    work = rank_work(mamba, chosen.precision, Parallelism())
    one = StepLoad(0.0, 0.0, 0.0, 1.0, 0.0)

    def overhead_s(*models):
        engine = with_engine(stepwise_state_models=frozenset(models))
        return step_time(work, one, H100, Parallelism(), engine).overhead_s

    more_s = (STEPWISE_RATIO - 1.0) * CALIBRATION.engine.layer_s * work.state_layers
    assert work.state_layers == work.layers
    assert overhead_s(work.model_type) - overhead_s("other") == pytest.approx(more_s)


def test_experts_that_are_not_routed_narrow_activations_one_by_one():
    chosen = deployment("mixtral-8x7b")
    precision = replace(chosen.precision, weights=NUMBER_FORMATS["fp8"])
    work = rank_work(chosen.architecture, precision, chosen.parallelism)
    one = StepLoad(0.0, 0.0, 0.0, 1.0, 256.0)

    def narrowing_s(**figures):
        calibration = with_engine(**figures)
        hardware = replace(calibration.hardware, narrow_experts_s=1e-5)
        known = replace(calibration, hardware=hardware)
        return step_time(work, one, H100, chosen.parallelism, known).narrowing_s

    assert narrowing_s() == pytest.approx(1e-5 * work.layers)
    assert narrowing_s(unrouted_below_bits=16.0) == pytest.approx(8e-5 * work.layers)


def test_a_token_is_chosen_from_the_whole_vocabulary_on_every_rank():
    chosen = replace(deployment(), parallelism=Parallelism(tensor=2))
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)

    def moved(batch, **figures):
        load = StepLoad(0.0, 0.0, 0.0, batch, 512.0)
        return step_time(work, load, H100, chosen.parallelism, with_engine(**figures)).memory_bytes

    added = moved(64.0, sampled_bytes=300.0) - moved(64.0)
    assert added == pytest.approx(64.0 * 300.0 * chosen.architecture.vocab_size)


def test_no_step_ends_before_its_tokens_are_told():
    chosen = deployment()
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)

    def total(batch, told_s):
        load = StepLoad(0.0, 0.0, 0.0, batch, 512.0)
        calibration = with_engine(told_s=told_s)
        return step_time(work, load, H100, chosen.parallelism, calibration).total_s

    assert total(1024.0, 1e-3) == pytest.approx(1.024)
    # Where steps take longer, tokens are told beside them.
    assert total(1.0, 1e-5) == total(1.0, 0.0)


def test_kernels_that_narrow_activations_of_experts_keep_accelerators_at_work():
    chosen = replace(deployment(), parallelism=Parallelism(tensor=4))
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    load = StepLoad(0.0, 0.0, 0.0, 8.0, 512.0)
    dense = step_time(work, load, H100, chosen.parallelism, CALIBRATION)
    assert dense.waiting_s == dense.interconnect_s + dense.overhead_s
    narrowing = replace(dense, narrowing_s=0.25 * dense.overhead_s).slowed(2.0)
    assert narrowing.waiting_s == pytest.approx(
        2.0 * (dense.interconnect_s + 0.75 * dense.overhead_s)
    )


def test_steps_wait_for_the_server_for_other_ranks_and_for_prompts_to_start():
    chosen = replace(deployment(), parallelism=Parallelism(tensor=4))
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    decoding, prompt = StepLoad(0.0, 0.0, 0.0, 8.0, 512.0), StepLoad(512.0, 1.0, 256.0, 0.0, 0.0)

    def added(load, **figures):
        plain, slower = with_engine(), with_engine(**figures)
        return (
            step_time(work, load, H100, chosen.parallelism, slower).overhead_s
            - step_time(work, load, H100, chosen.parallelism, plain).overhead_s
        )

    assert added(decoding, served_s=4e-3) == pytest.approx(4e-3)
    assert added(decoding, ranks_s=1e-3) == pytest.approx(3e-3)
    assert added(decoding, prompts_s=1e-2) == 0.0
    assert added(prompt, prompts_s=1e-2) == pytest.approx(1e-2)


def test_programs_of_fixed_lengths_read_all_of_their_caches():
    chosen = deployment()
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)

    def moved(context, bucket_ratio):
        load = StepLoad(0.0, 0.0, 0.0, 8.0, context)
        calibration = with_engine(bucket_ratio=bucket_ratio)
        return step_time(work, load, H100, chosen.parallelism, calibration).memory_bytes

    assert moved(1000.0, 1.5) == pytest.approx(moved(1500.0, 1.0))


def test_links_deliver_memory_outside_whatever_share_kernels_reach():
    inside = replace(CALIBRATION, outside_ratio=0.0)
    half, beyond = replace(inside, outside_ratio=0.5), replace(inside, outside_ratio=1.0)
    assert inside.reached_ratio(0.8) == 0.8
    # Half of the time at 80 %, half of it at what packets carry.
    carried = 128.0 / 152.0
    assert half.reached_ratio(0.8) == pytest.approx(1.0 / (0.5 / 0.8 + 0.5 / carried))
    assert beyond.reached_ratio(0.8) == pytest.approx(carried)


def test_prefill_flops_are_twice_the_matrix_parameters_per_token():
    chosen = deployment()
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    step = step_time(work, StepLoad(1024.0, 1.0, 0.0, 0.0, 0.0), H100, chosen.parallelism, IDEAL)
    tables = 2 * chosen.architecture.embedding[0].elements
    expected = 2.0 * (chosen.architecture.total_parameters - tables) * 1024 / 8
    assert step.flops == pytest.approx(expected, rel=0.001)


def test_nothing_beats_peak_compute_or_bandwidth():
    for batch in (1.0, 16.0, 256.0):
        step = decode_step(batch, 4096.0)
        assert step.flops / step.total_s < 989.4e12
        assert step.memory_bytes / step.total_s < 3.35e12


def test_decode_is_bound_by_memory_and_long_prefill_by_compute():
    result = latency(InferenceWorkload(4096, 256, 1))
    assert result.decode.bottleneck == "memory_bandwidth"
    assert result.prefill.bottleneck == "compute"
    decode, prefill = result.decode, result.prefill
    assert decode.arithmetic_intensity_flop_per_byte < decode.ridge_point_flop_per_byte
    assert prefill.arithmetic_intensity_flop_per_byte > prefill.ridge_point_flop_per_byte


def test_ridge_points_follow_from_the_datasheet():
    result = latency(InferenceWorkload(128, 16, 1))
    assert result.decode.ridge_point_flop_per_byte == pytest.approx(989.4e12 / 3.35e12)


@pytest.mark.parametrize(("batch", "experts"), [(1, 2.0), (2, 3.5), (4, 5.46875)])
def test_experts_read_in_a_decode_step_are_the_expected_distinct_ones(batch, experts):
    chosen = deployment("mixtral-8x7b")
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    routed = [item for item in work.products if item.experts]
    load = StepLoad(0.0, 0.0, 0.0, float(batch), 0.0)
    only_experts = replace(
        work,
        products=tuple(routed),
        attention=(),
        elementwise_bytes_per_token=0.0,
        activation_bytes=0.0,
    )
    step = step_time(only_experts, load, H100, chosen.parallelism, IDEAL)
    one_expert_each_layer = sum(item.weight_bytes * item.calls for item in routed)
    assert step.memory_bytes == pytest.approx(experts * one_expert_each_layer)


@settings(max_examples=60)
@given(
    batch=st.integers(1, 400),
    more=st.integers(1, 100),
    input_tokens=st.integers(1, 30_000),
    output_tokens=st.integers(2, 2_000),
)
def test_more_load_is_never_faster_for_a_user(batch, more, input_tokens, output_tokens):
    few = latency(InferenceWorkload(input_tokens, output_tokens, batch))
    many = latency(InferenceWorkload(input_tokens, output_tokens, batch + more))
    longer = latency(InferenceWorkload(input_tokens + 1000, output_tokens, batch))
    assert many.tpot_s.value >= few.tpot_s.value * (1 - 1e-9)
    assert longer.e2e_s.value >= few.e2e_s.value * (1 - 1e-9)


@settings(max_examples=60)
@given(batch=st.integers(1, 900), input_tokens=st.integers(1, 9000), out=st.integers(1, 900))
def test_littles_law_holds_in_the_closed_loop(batch, input_tokens, out):
    result = latency(InferenceWorkload(input_tokens, out, batch))
    assert isinstance(result.replica, ClosedLoad)
    differing = result.replica.differing
    assert differing is not None
    for load in (result.replica, differing):
        each_s = load.mean_ttft_s + (out - 1) * load.state.tpot_s
        assert load.requests_per_s * each_s == pytest.approx(batch, rel=1e-7)


def test_intervals_hold_their_value_and_definitions_agree():
    result = latency(InferenceWorkload(2048, 256, 32))
    for figure in (result.ttft_s, result.tpot_s, result.e2e_s, result.output_tokens_per_s):
        assert 0 < figure.low < figure.value < figure.high
    assert result.e2e_s.value == pytest.approx(result.ttft_s.value + 255 * result.tpot_s.value)


def test_arrays_and_floats_agree():
    batches = np.array([1.0, 8.0, 32.0, 256.0])
    inputs = np.array([100.0, 2048.0, 16_000.0, 700.0])
    together = latency(InferenceWorkload(inputs, 256.0, batches))
    for index, (batch, tokens) in enumerate(zip(batches, inputs, strict=True)):
        alone = latency(InferenceWorkload(float(tokens), 256.0, float(batch)))
        assert together.tpot_s.value[index] == pytest.approx(alone.tpot_s.value, rel=1e-9)
        assert together.ttft_s.high[index] == pytest.approx(alone.ttft_s.high, rel=1e-9)
        assert together.requests_per_s.value[index] == pytest.approx(
            alone.requests_per_s.value, rel=1e-9
        )


def test_a_rate_within_capacity_is_served_as_it_comes():
    result = latency(InferenceWorkload(1024, 256, 1, requests_per_s=2.0))
    assert result.load is not None
    assert not result.load.saturated
    assert result.requests_per_s.value == pytest.approx(2.0)
    assert result.load.ttft_s.p50 <= result.load.ttft_s.p95 <= result.load.ttft_s.p99
    assert result.load.utilisation_ratio == pytest.approx(
        2.0 / result.saturation_requests_per_s.value
    )


def test_a_rate_past_saturation_is_an_answer_with_the_rate_that_holds():
    result = latency(InferenceWorkload(1024, 256, 1, requests_per_s=1e4))
    assert result.load is not None
    assert result.load.saturated
    assert result.load.ttft_s.p50 == result.ttft_s.value == result.e2e_s.low == float("inf")
    assert result.waiting_requests == float("inf")
    assert result.tpot_s.value < 1.0
    assert result.requests_per_s.value == pytest.approx(result.saturation_requests_per_s.value)


def test_waiting_for_a_slot_shows_as_time_to_first_token():
    def with_room_for(sequences: float) -> InferenceLatency:
        load = InferenceWorkload(1024, 256, 400)
        return inference_latency(deployment(), load, SERVING, CALIBRATION, sequences)

    roomy, tight = with_room_for(400.0), with_room_for(40.0)
    assert tight.waiting_requests == pytest.approx(360)
    assert tight.ttft_s.value > 5 * roomy.ttft_s.value
    assert tight.decode.bottleneck == "capacity"


def test_prefix_cache_hits_shorten_the_first_token_only():
    cold = latency(InferenceWorkload(8000, 100, 1))
    warm = latency(InferenceWorkload(8000, 100, 1, prefix_cached_ratio=0.9))
    assert warm.ttft_s.value < 0.3 * cold.ttft_s.value
    assert warm.tpot_s.value == pytest.approx(cold.tpot_s.value, rel=0.01)


def test_data_parallel_replicas_multiply_throughput_and_leave_latency():
    one = latency(InferenceWorkload(1024, 256, 32))
    chosen = replace(deployment(), parallelism=Parallelism(tensor=8, data=4))
    four = inference_latency(chosen, InferenceWorkload(1024, 256, 128), SERVING, CALIBRATION, 500.0)
    assert four.requests_per_s.value == pytest.approx(4 * one.requests_per_s.value)
    assert four.tpot_s.value == pytest.approx(one.tpot_s.value)


def test_chunks_of_a_prompt_follow_each_other_through_the_stages():
    staged = replace(deployment(), parallelism=Parallelism(tensor=2, pipeline=4))
    short, long = (
        inference_latency(
            staged,
            InferenceWorkload(tokens, 1, 1),
            replace(SERVING, chunked_prefill_tokens=512),
            CALIBRATION,
            500.0,
        )
        for tokens in (512, 8192)
    )
    # Sixteen chunks leave the last of four stages in nineteen turns of a stage.
    turns = 1.0 + 15.0 / 4.0
    assert long.ttft_s.value == pytest.approx(long.prefill.step_s * turns)
    assert short.ttft_s.value == pytest.approx(short.prefill.step_s)


def prefill_step(flops_per_joule: float, power_w: float | None = 700.0):
    chosen = deployment()
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    limited = replace(
        IDEAL, hardware=replace(IDEAL.hardware, matrix_flops_per_joule=flops_per_joule)
    )
    card = replace(H100, thermal_design_power_w=power_w)
    load = StepLoad(4096.0, 1.0, 0.0, 0.0, 0.0)
    return step_time(work, load, card, chosen.parallelism, limited).compute_s


def test_power_limits_products_of_matrices_only_where_it_is_known_and_short():
    free = prefill_step(float("inf"))
    assert prefill_step(1e11, power_w=None) == free
    assert prefill_step(1e14) == pytest.approx(free, rel=1e-3)
    # Far below the chip's own rate, the rate is watts times FLOPs per joule.
    scarce = prefill_step(1e11)
    assert scarce == pytest.approx(free * 989.4e12 / (700.0 * 1e11), rel=0.02)
    assert prefill_step(1e11, power_w=350.0) == pytest.approx(2.0 * scarce, rel=0.02)
    # Where both allow the same, clocks have begun to fall.
    assert free < prefill_step(989.4e12 / 700.0) < 1.25 * free


def test_stages_of_a_pipeline_overlap_by_the_measured_share():
    chosen = replace(deployment(), parallelism=Parallelism(pipeline=4))
    workload = InferenceWorkload(8192, 1, 1)
    chunked = ServingSettings(chunked_prefill_tokens=512)

    def ttft(ratio: float, added: float = 0.0, kernels: float = 0.0):
        engine = replace(
            CALIBRATION.engine,
            pipelined_ratio=ratio,
            pipelined_log_sigma=added,
            prompt_layer_kernel_count=kernels,
        )
        calibration = replace(CALIBRATION, engine=engine)
        return inference_latency(chosen, workload, chunked, calibration, 500.0).ttft_s

    # Sixteen chunks pass a full pipeline as (16 + 3) quarter steps, an empty one as 16 whole ones.
    assert ttft(0.0).value / ttft(1.0).value == pytest.approx(16 / (1 + 15 / 4))
    assert ttft(1.0).value < ttft(0.5).value < ttft(0.0).value
    # With 50 kernels in each of 80 layers, a thousand launches are what a stage has of a chunk: the
    # last of four has begun with it before the host issues the next.
    assert ttft(1.0, kernels=50.0).value == pytest.approx(ttft(1.0 / 9.0).value)
    assert ttft(1.0, kernels=5.0).value == ttft(1.0).value
    plain, spread = ttft(0.5), ttft(0.5, added=0.2)
    assert spread.value == plain.value
    assert spread.high / spread.low > plain.high / plain.low
    # Nothing is unsure about stages that never work at the same time.
    assert ttft(0.0, added=0.2) == ttft(0.0)


def test_how_well_stages_overlap_is_unsure_only_of_prompts_in_several_parts():
    engine = replace(CALIBRATION.engine, pipelined_log_sigma=0.2, pipelined_ratio=0.5)
    known = replace(CALIBRATION, engine=engine)
    alone = known.prefill_log_sigma()
    assert known.prefill_log_sigma(pipeline=4) == alone
    assert known.prefill_log_sigma(chunks=16.0) == alone
    assert known.prefill_log_sigma(4, 16.0) == pytest.approx((alone**2 + 0.1**2) ** 0.5)


def test_stages_without_a_request_of_their_own_wait_for_the_others():
    """One token passes the stages one after the other: each has work for its share of the time."""
    chosen, asked = deployment(), InferenceWorkload(256, 256, 1)

    def used(stages: int, concurrency: float):
        staged = replace(chosen, parallelism=Parallelism(pipeline=stages))
        load = replace(asked, concurrency=concurrency)
        return inference_latency(staged, load, SERVING, CALIBRATION, concurrency).usage

    alone, four = used(1, 1.0), used(4, 1.0)
    assert four.phases[-1].kernel_ratio < 0.3 * alone.phases[-1].kernel_ratio
    assert four.memory_utilisation_ratio < 0.3 * alone.memory_utilisation_ratio
    # As many requests as stages keep all at work.
    assert used(4, 4.0).phases[-1].kernel_ratio > 0.8 * alone.phases[-1].kernel_ratio
    # So do those that come all at once.
    asked = replace(asked, arrivals="at_once")
    assert used(4, 4.0).phases[-1].kernel_ratio > 0.8 * alone.phases[-1].kernel_ratio
    assert used(4, 1.0).phases[-1].kernel_ratio < 0.3 * alone.phases[-1].kernel_ratio


@pytest.mark.parametrize(
    ("pipeline", "launches", "stages"),
    [
        (1, 4000.0, 1.0),  # nothing to overlap
        (4, 0.0, 4.0),  # nobody counted
        (4, 8000.0, 4 / 3.5),  # the second half of a chunk is issued to its last stage as it runs
        (2, 4000.0, 4 / 3),
        (4, 3200.0, 8 / 3.75),  # one chunk waits, and a quarter of the next
        (4, 100.0, 4.0),
        (8, 100.0, 4.0),  # no more than four chunks are under way
    ],
)
def test_a_host_that_waits_for_launches_keeps_stages_from_overlapping(pipeline, launches, stages):
    assert overlapping_stages(pipeline, launches) == pytest.approx(stages)


def test_logits_cross_the_link_of_a_host_that_chooses_tokens():
    """Native code samples on the host: a vocabulary of 32-bit floats for each sequence."""
    chosen = deployment()
    work = rank_work(chosen.architecture, chosen.precision, chosen.parallelism)
    load = StepLoad(0.0, 0.0, 0.0, 2.0, 256.0)
    narrow = replace(H100, host_link_bandwidth_bytes_per_s=1e9)

    def copied_s(accelerator):
        own, other = (
            step_time(work, load, accelerator, chosen.parallelism, with_engine(native=native))
            for native in (True, False)
        )
        return own.total_s - other.total_s

    logits_bytes = 2 * 4 * chosen.architecture.vocab_size
    assert copied_s(narrow) == pytest.approx(logits_bytes / (1e9 * 128 / 152), rel=1e-6)
    assert copied_s(H100) < copied_s(narrow) / 20


def test_kernels_of_prompts_are_issued_while_others_run():
    """Native code issues kernels without waiting for them: with many rows each runs longer than
    the next takes to be issued, and what is left is what a graph leaves."""
    chosen = deployment("llama-70b")
    work = rank_work(chosen.architecture, chosen.precision, Parallelism())
    known = {"layer_s": 1e-4, "host_ratio": 1.5, "replayed_ratio": 0.4, "native": True}
    queued, recorded = with_engine(**known), with_engine(**known, records_ahead=True)

    def overhead_s(load, calibration):
        return step_time(work, load, H100, Parallelism(), calibration).overhead_s

    prompt, token = StepLoad(512.0, 1.0, 256.0, 0.0, 0.0), StepLoad(0.0, 0.0, 0.0, 2.0, 256.0)
    layers = chosen.architecture.layer_count
    less_s = overhead_s(token, queued) - overhead_s(prompt, queued)
    assert less_s == pytest.approx(layers * 1e-4 * (1.5 - 0.4), rel=0.02)
    # What was recorded ahead needs no more for a token than for a prompt.
    assert overhead_s(token, recorded) == pytest.approx(overhead_s(prompt, recorded), rel=0.02)
    assert overhead_s(token, recorded) < overhead_s(token, queued)


def test_a_graph_of_one_token_saves_what_its_kernels_take_to_be_issued():
    chosen = deployment("llama-70b")
    model = (chosen.architecture, chosen.precision)
    issued = with_engine(layer_s=1e-4, host_ratio=1.5)
    alone = with_engine(layer_s=1e-4, host_ratio=1.5, replayed_accelerators=1.0, replayed_ratio=0.4)
    one, two = Parallelism(), Parallelism(pipeline=2)

    def saved_s(load, layout):
        work = rank_work(*model, layout)
        return step_time(work, load, H100, layout, issued).total_s - (
            step_time(work, load, H100, layout, alone).total_s
        )

    token, several = StepLoad(0.0, 0.0, 0.0, 1.0, 256.0), StepLoad(0.0, 0.0, 0.0, 2.0, 256.0)
    layers = chosen.architecture.layer_count
    assert saved_s(token, one) == pytest.approx(layers * 1e-4 * (1.5 - 0.4), rel=1e-6)
    assert saved_s(several, one) == saved_s(token, two) == 0.0
    # Experts that are looped over keep a graph from being captured.
    mixture = deployment("mixtral-8x7b")
    work = rank_work(mixture.architecture, mixture.precision, one)
    looped = replace(alone, engine=replace(alone.engine, loops_experts=True))
    without = step_time(work, token, H100, one, issued).total_s
    assert step_time(work, token, H100, one, looped).total_s == without
    assert step_time(work, token, H100, one, alone).total_s < without
