from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from service.core.architecture.sharding import trained_layer_counts
from service.core.deployment import Deployment, Parallelism, Precision
from service.core.estimate.training import TrainingSpeedSetup, training_speed
from service.core.interval import Interval
from service.core.memory.training.settings import MicroBatch, Offload, TrainingSettings
from service.core.memory.training.state import stage_state
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.collectives import scale_out
from service.core.performance.spread import Widening
from service.core.performance.training.calibration import TrainingCalibration
from service.core.performance.training.pipeline import (
    most_virtual_stages,
    slowest_stage_ratio,
    usual_virtual_stages,
)
from service.core.performance.training.scaling import expert_kernels
from service.core.performance.training.step import TrainingStep, bottleneck, training_step
from service.core.performance.training.traffic import HostRates, data_messages_s
from service.core.performance.training.work import product_format
from service.core.platform import ALONE, Platform
from tests.core.deployments import CALIBRATION, H100, architecture
from tests.core.memory.memory_models import DEEPSEEK_V3
from tests.core.performance.inference.test_latency import IDEAL

BF16 = Precision(NUMBER_FORMATS["bf16"], NUMBER_FORMATS["bf16"], NUMBER_FORMATS["bf16"])
HOST = HostRates(50e9, 50e9, 7.9e9)
USUAL = TrainingCalibration(
    replace(CALIBRATION, hardware=replace(CALIBRATION.hardware, overlap_ratio=1.0)),
    elementwise_passes=4.0,
    tensor_overlap_ratio=0.25,
    data_overlap_ratio=0.0,
    sharded_layer_s=1e-4,
    routing_s=1e-4,
    dequantised_bytes=6.0,
    log_sigma=0.1,
)
#: A machine as its datasheet has it, on which elementwise kernels cost nothing.
DATASHEET = replace(
    USUAL,
    performance=IDEAL,
    elementwise_passes=0.0,
    tensor_overlap_ratio=0.0,
    data_overlap_ratio=1.0,
    sharded_layer_s=0.0,
    routing_s=0.0,
)


def step(
    settings: TrainingSettings | None = None,
    parallelism: Parallelism | None = None,
    batch: MicroBatch | None = None,
    calibration: TrainingCalibration = USUAL,
    model: str = "llama-70b",
    precision: Precision = BF16,
) -> TrainingStep:
    layout = parallelism or Parallelism(tensor=8)
    deployment = Deployment(architecture(model), precision, H100, layout)
    return training_step(
        deployment, settings or TrainingSettings(), batch or MicroBatch(1, 4096), HOST, calibration
    )


def test_ideal_compute_is_six_flops_per_parameter_and_token_and_attention():
    model = architecture("llama-70b")
    table = model.embedding[0].elements
    ideal = step(calibration=DATASHEET)
    products = 6 * (model.total_parameters - table) * 4096 / 8
    attention = 3 * 80 * 4 * 8192 * 4096 * 2048 / 8
    assert ideal.model_flops == pytest.approx(products + attention, rel=1e-3)
    assert ideal.six_nd_flops == pytest.approx(6 * model.total_parameters * 4096 / 8)
    # Attention's backward pass computes five products for two, of which four count as model work.
    least_s = (products + attention * 3.5 / 3) / 989.4e12
    # The narrow products of keys and values are bound by memory.
    assert least_s < ideal.matrix_products_s + ideal.attention_s < 1.03 * least_s


def test_each_micro_batch_writes_sums_of_gradients_that_all_but_the_first_read():
    model = architecture("llama-70b")
    moved_s = 4 * model.total_parameters / 8 / H100.memory_bandwidth_bytes_per_s
    for micro_batches in (1, 4):
        settings = TrainingSettings(gradient_bytes=4.0, gradient_accumulation_steps=micro_batches)
        # Nothing else that is elementwise costs time on such a machine.
        found = step(settings, calibration=DATASHEET)
        assert found.elementwise_s == pytest.approx((2 * micro_batches - 1) * moved_s, rel=0.01)
    adapters = step(TrainingSettings(method="lora", lora_rank=8), calibration=DATASHEET)
    sums = adapters.micro_batch.gradients_bytes / H100.memory_bandwidth_bytes_per_s
    assert sums < moved_s / 100


def test_tiles_cost_as_much_time_beside_faster_products():
    eight = replace(BF16, weights=NUMBER_FORMATS["fp8"])
    no_tiles = replace(DATASHEET.performance.hardware, tile_rows=0.0)
    tiles = replace(no_tiles, tile_rows=128.0)

    def products_s(hardware, precision):
        measured = replace(DATASHEET.performance, hardware=hardware)
        calibration = replace(DATASHEET, performance=measured)
        return step(calibration=calibration, precision=precision).matrix_products_s

    added = [products_s(tiles, one) - products_s(no_tiles, one) for one in (BF16, eight)]
    assert added[0] > 0
    # Logits stay in 16 bit: their tiles are padded as if they were as fast as the rest.
    assert added[1] == pytest.approx(added[0], rel=0.03)


@pytest.mark.parametrize("weights", ["bf16", "fp8"])
@pytest.mark.parametrize("model", ["llama-70b", "mixtral-8x7b"])
@pytest.mark.parametrize("tokens", [128.0, 4096.0, 131072.0])
def test_no_run_beats_the_datasheet(weights, model, tokens):
    precision = replace(BF16, activations=NUMBER_FORMATS[weights])
    found = step(
        TrainingSettings(activation_checkpointing="full"),
        batch=MicroBatch(1, tokens),
        calibration=DATASHEET,
        model=model,
        precision=precision,
    )
    assert found.mfu_ratio < found.hfu_ratio <= 1.0
    assert found.step_s * 3.35e12 >= found.memory_bytes * 0.5


def test_full_recomputation_costs_a_third_more_and_shows_in_hfu():
    plain = step(calibration=DATASHEET)
    again = step(TrainingSettings(activation_checkpointing="full"), calibration=DATASHEET)
    assert again.model_flops == plain.model_flops
    assert again.hardware_flops / plain.hardware_flops == pytest.approx(4 / 3, rel=0.02)
    assert again.compute_s / plain.compute_s == pytest.approx(4 / 3, rel=0.03)
    assert again.recompute_s == pytest.approx(again.compute_s - plain.compute_s)
    assert again.mfu_ratio < plain.mfu_ratio


def test_the_head_is_recomputed_by_nobody_and_what_ends_a_layer_not_by_all():
    # Llama 3 70B: 80 layers of q, o 8192², k, v 8192 by 1024, and three times 8192 by 28672.
    layer = 2 * 8192**2 + 2 * 8192 * 1024 + 3 * 8192 * 28672
    head, last = 8192 * 128256, 8192 * 28672
    full = TrainingSettings(activation_checkpointing="full")

    def again(settings):
        micro = step(settings, calibration=DATASHEET).micro_batch
        return micro.recomputed_products_ratio, micro.recomputed_layers_ratio

    whole = 80 * layer + head
    assert again(full) == pytest.approx((80 * layer / whole, 1.0))
    stopping = replace(full, recomputes_last_product=False)
    assert again(stopping) == pytest.approx((80 * (layer - last) / whole, 1 - last / layer))
    blocks = replace(stopping, checkpoint_every=4)
    assert again(blocks) == pytest.approx((80 * (layer - last / 4) / whole, 1 - last / layer / 4))


def test_some_layers_are_recomputed_for_their_part_of_what_all_take():
    full = TrainingSettings(activation_checkpointing="full")
    none, whole = step(calibration=DATASHEET), step(full, calibration=DATASHEET)
    quarter = step(replace(full, recomputed_layers_ratio=0.25), calibration=DATASHEET)
    added = whole.compute_s - none.compute_s
    assert quarter.compute_s - none.compute_s == pytest.approx(added / 4)
    assert quarter.recompute_s == pytest.approx(added / 4)
    assert quarter.model_flops == none.model_flops


def test_modules_are_recomputed_by_no_products_but_those_that_raise_latents():
    modules = TrainingSettings(activation_checkpointing="selective-modules")
    none, dense, operators = (
        step(TrainingSettings(activation_checkpointing=one))
        for one in ("none", "selective-modules", "selective-operators")
    )
    assert dense.matrix_products_s == none.matrix_products_s
    assert none.elementwise_s < dense.elementwise_s < operators.elementwise_s
    deployment = Deployment(DEEPSEEK_V3, BF16, H100, Parallelism())
    latent = training_step(deployment, modules, MicroBatch(1, 4096), HOST, USUAL).micro_batch
    # 1,536 and 512 latents raised for 128 heads, of 37 billion parameters that a token uses.
    raised = 61 * (1536 * 128 * 192 + 512 * 128 * 256)
    assert latent.recomputed_products_ratio == pytest.approx(raised / 37e9, rel=0.05)


def test_experts_are_recomputed_as_their_weights_need_what_they_put_out():
    stopping = TrainingSettings(activation_checkpointing="full", recomputes_last_product=False)
    again = step(stopping, model="mixtral-8x7b").micro_batch.recomputed_layers_ratio
    assert again == pytest.approx(1.0)


def test_attention_in_8_bit_takes_the_time_that_flash_attention_3_measured():
    narrow, usual = step(TrainingSettings(attention="flash-fp8")), step()
    assert narrow.attention_s / usual.attention_s == pytest.approx(740 / 1200)
    assert narrow.model_flops == usual.model_flops


def test_the_first_flash_attention_is_as_much_slower_as_its_successor_is_faster():
    # Dao, FlashAttention-2, 2023, section 4.1: 1.7 to 3.0 times as fast as kernels of CUDA, 1.3 to
    # 2.5 times as those of Triton. All else, and what the model asks for, stays the same.
    first, second = step(TrainingSettings(attention="flash-1")), step()
    assert 1.7 <= first.attention_s / second.attention_s <= 2.5
    assert first.matrix_products_s == second.matrix_products_s
    assert first.model_flops == second.model_flops
    assert first.hardware_flops == second.hardware_flops


def test_recomputation_is_what_it_adds():
    for again in ("selective", "selective-modules", "selective-operators", "full"):
        added = step(TrainingSettings(activation_checkpointing=again))
        assert added.recompute_s == pytest.approx(added.compute_s - step().compute_s)


def test_adapters_leave_out_the_weight_gradients_but_move_more():
    full, lora = step(), step(TrainingSettings(method="lora"))
    assert lora.matrix_products_s / full.matrix_products_s == pytest.approx(2 / 3, rel=0.03)
    assert lora.elementwise_s > full.elementwise_s


def test_a_quantised_base_is_turned_into_16_bit_on_every_pass():
    four = replace(BF16, weights=NUMBER_FORMATS["bnb-nf4"])
    lora = step(TrainingSettings(method="lora"))
    qlora = step(TrainingSettings(method="qlora"), precision=four)
    elements = sum(
        group.count * tensor.elements
        for group in architecture("llama-70b").groups
        for tensor in group.tensors
        if tensor.is_matrix
    )
    added = qlora.elementwise_s - lora.elementwise_s
    assert added == pytest.approx(2 * 6.0 * elements / 8 / (3.35e12 * 0.85), rel=0.01)
    assert qlora.matrix_products_s == lora.matrix_products_s


def test_products_run_in_the_narrower_of_what_can_be_trained():
    eight, wide = NUMBER_FORMATS["fp8"], NUMBER_FORMATS["fp32"]
    full, adapters = TrainingSettings(), TrainingSettings(method="qlora")
    assert product_format(replace(BF16, weights=eight), full).id == "fp8"
    assert product_format(replace(BF16, activations=eight), full).id == "fp8"
    assert product_format(replace(BF16, weights=wide), full).id == "bf16"
    for base in ("bnb-nf4", "bnb-int8", "fp8"):
        frozen = replace(BF16, weights=NUMBER_FORMATS[base])
        assert product_format(frozen, adapters).id == "bf16"
    narrow = step(precision=replace(BF16, activations=eight))
    assert narrow.matrix_products_s < 0.65 * step().matrix_products_s
    # Converting operands costs traffic that 16-bit products do not have.
    assert narrow.elementwise_s > step().elementwise_s


def test_32_bit_runs_attend_in_32_bit():
    wide = NUMBER_FORMATS["fp32"]
    found = step(precision=Precision(wide, wide, wide), calibration=DATASHEET)
    peaks = H100.peak_flops_per_s
    assert found.attention_s / step(calibration=DATASHEET).attention_s == pytest.approx(
        peaks["bf16"] / peaks["fp32"]
    )


def test_32_bit_runs_move_twice_as_much():
    wide = NUMBER_FORMATS["fp32"]
    fused = TrainingSettings(cross_entropy="fused")
    found = step(replace(fused, gradient_bytes=4.0), precision=Precision(wide, wide, wide))
    assert found.elementwise_s == pytest.approx(2 * step(fused).elementwise_s, rel=0.05)


def test_the_pipeline_bubble_is_the_published_share_where_stages_are_alike():
    settings = TrainingSettings(gradient_accumulation_steps=8)
    result = step(settings, Parallelism(tensor=1, pipeline=4))
    alike_s = result.micro_batch.total_s / 4
    assert result.pipeline_bubble_s / alike_s == pytest.approx(
        3.0 + 8.0 * (result.slowest_stage_ratio - 1.0), rel=1e-9
    )


@pytest.mark.parametrize(
    ("layers", "stages", "head_ratio", "slowest"),
    [
        # Embedding and head count as layers where that makes 126 of them fill 16 stages: 8 of 126.
        (126, 16, 0.005, 16 * 8 * 0.995 / 126),
        # 80 layers divide by 8, so that the last stage has the head besides.
        (80, 8, 0.02, 8 * (10 * 0.98 / 80 + 0.02)),
        # 61 layers fill 16 stages in no way: the last has one beside the head, all others four.
        (61, 16, 0.025, 16 * 4 * 0.975 / 61),
        # 13 layers leave nothing to the last of eight stages: five stages have two.
        (13, 8, 0.0, 8 * 2 / 13),
        (61, 1, 0.3, 1.0),
    ],
)
def test_a_pipeline_waits_for_its_slowest_stage(layers, stages, head_ratio, slowest):
    counts = trained_layer_counts(layers, stages)
    assert slowest_stage_ratio(counts, head_ratio) == pytest.approx(slowest, rel=1e-12)


def test_the_head_is_waited_for_by_its_time_rather_than_its_operations():
    """What layers wait for makes it a smaller part of a step, and narrow layers a larger one."""
    pipeline = Parallelism(pipeline=8)

    def slowest(**how):
        return step(TrainingSettings(gradient_accumulation_steps=8), pipeline, **how)

    usual = slowest(calibration=DATASHEET)
    # Half the operations in half the time: logits alone stay in 16 bit.
    narrow = slowest(calibration=DATASHEET, precision=replace(BF16, weights=NUMBER_FORMATS["fp8"]))
    late = replace(DATASHEET, performance=replace(IDEAL, engine=replace(IDEAL.engine, layer_s=1.0)))
    by_host = slowest(calibration=late)
    assert 1.0 < usual.slowest_stage_ratio < narrow.slowest_stage_ratio
    assert by_host.slowest_stage_ratio == pytest.approx(1.0, abs=0.01)
    assert usual.micro_batch.head_s == pytest.approx(by_host.micro_batch.head_s)


@pytest.mark.parametrize(("layers", "stages", "most"), [(126, 16, 8), (80, 8, 10), (61, 16, 3)])
def test_stages_of_a_rank_count_embedding_and_head(layers, stages, most):
    assert most_virtual_stages(layers, stages) == most


@pytest.mark.parametrize(
    ("layers", "stages", "virtual"),
    [
        (80, 8, 5),  # two layers each
        (126, 16, 4),  # with embedding and loss as layers
        (61, 16, 2),  # 61 layers, embedding and loss on 32 stages of two (DeepSeek-V3's recipe)
        (61, 8, 4),
        (13, 8, 1),  # stages of two layers each would leave a rank one
    ],
)
def test_people_choose_stages_that_layers_fill_or_nearly_fill(layers, stages, virtual):
    assert usual_virtual_stages(layers, stages) == virtual


def test_a_zero_bubble_schedule_waits_a_third():
    usual = step(TrainingSettings(gradient_accumulation_steps=8), Parallelism(pipeline=4))
    filled = step(
        TrainingSettings(gradient_accumulation_steps=8, pipeline_schedule="zero-bubble"),
        Parallelism(pipeline=4),
    )
    assert usual.filling_ratio == 3.0
    assert filled.filling_ratio == 1.0
    saved_s = usual.pipeline_bubble_s - filled.pipeline_bubble_s
    assert saved_s == pytest.approx(2.0 / 4.0 * usual.micro_batch.total_s)


def test_micro_batches_from_both_ends_wait_for_half_the_stages():
    """DeepSeek-V3 Technical Report, table 2: (PP / 2 - 1) x (F&B + B - 3W), F&B being F + B."""
    settings = TrainingSettings(gradient_accumulation_steps=16, pipeline_schedule="dualpipe")
    assert step(settings, Parallelism(pipeline=8)).filling_ratio == pytest.approx(2.0)
    assert step(settings, Parallelism(pipeline=2)).filling_ratio == 0.0
    # Of 10 layers on 4 stages the ranks with the first and the last have 3 + 2, and the head.
    assert slowest_stage_ratio((3, 3, 2, 2), 0.2, from_both_ends=True) == pytest.approx(
        2 * (5 * 0.08 + 0.2)
    )


def test_packed_documents_attend_within_themselves():
    whole = step(batch=MicroBatch(1, 8192))
    packed = step(TrainingSettings(packed_document_tokens=1024.0), batch=MicroBatch(1, 8192))
    assert packed.attention_s / whole.attention_s == pytest.approx(1 / 8, rel=0.02)
    assert packed.matrix_products_s == whole.matrix_products_s
    longer = step(TrainingSettings(packed_document_tokens=1e6), batch=MicroBatch(1, 8192))
    assert longer.step_s == whole.step_s


def test_products_take_no_more_power_than_there_is():
    limited = replace(USUAL.performance.hardware, matrix_flops_per_joule=2e11)
    throttled = replace(USUAL, performance=replace(USUAL.performance, hardware=limited))
    # 700 W times 2e11 FLOP/J: products can reach 140 TFLOP/s and no more.
    result = step(calibration=throttled)
    assert result.matrix_products_s > 3.0 * step().matrix_products_s
    flops = result.micro_batch.products_flops * result.micro_batch.passes
    assert flops / result.matrix_products_s < 700.0 * 2e11


def test_adapters_and_unpacked_bases_take_their_time():
    slow_host = replace(
        USUAL,
        performance=replace(
            USUAL.performance, engine=replace(USUAL.performance.engine, layer_s=0.01)
        ),
    )
    batch, frozen = MicroBatch(1, 64), TrainingSettings(method="lora", lora_targets=("none",))
    bare = step(frozen, batch=batch, calibration=slow_host).micro_batch.issue_s

    def kernels(*targets, **told):
        """Kernels beside the thirty of a layer."""
        settings = TrainingSettings(method="lora", lora_targets=targets, **told)
        found = step(settings, batch=batch, calibration=slow_host).micro_batch.issue_s
        return pytest.approx(30 * (found / bare - 1))

    # Two products, a factor and a sum; dropout; casts there and back.
    assert kernels("q_proj") == 4
    assert kernels("all-linear") == 7 * 4
    assert kernels("q_proj", adapter_dropout=True) == 5
    assert kernels("q_proj", adapter_bytes=4.0) == 6
    # One matrix makes queries, keys and values, another gates and what they let through.
    assert kernels("all-linear", adapter_kernels="joint") == 4 * 4
    assert kernels("all-linear", adapter_kernels="within-products") == 7 * 2
    settings = TrainingSettings(method="qlora")
    half = NUMBER_FORMATS["bf16"]
    by_blocks = step(settings, precision=Precision(NUMBER_FORMATS["bnb-nf4"], half, half))
    by_words = step(settings, precision=Precision(NUMBER_FORMATS["gptq-int4"], half, half))
    assert by_words.micro_batch.dequantised_bytes > 3 * by_blocks.micro_batch.dequantised_bytes


def test_fully_sharded_traffic_is_one_and_a_half_times_that_of_an_all_reduce():
    layout = Parallelism(tensor=8, data=4)
    reduced = step(TrainingSettings(zero_stage=0), layout)
    sharded = step(TrainingSettings(zero_stage=3), layout)
    assert sharded.exposed_data_messages_s / reduced.exposed_data_messages_s == pytest.approx(1.5)
    assert step(TrainingSettings(zero_stage=1), layout).exposed_data_messages_s == pytest.approx(
        reduced.exposed_data_messages_s
    )


def test_frozen_weights_are_gathered_as_well():
    layout = Parallelism(tensor=8, data=4)
    adapters = TrainingSettings(method="lora", zero_stage=3)
    held = architecture("llama-70b").total_parameters * 2 / 8
    wanted = 2 * held * 3 / 4 / (50e9 * 0.6)
    assert step(adapters, layout).exposed_data_messages_s == pytest.approx(wanted, rel=0.02)


def test_a_ring_over_domains_uses_the_links_of_all_its_ranks_there():
    one_each = step(TrainingSettings(zero_stage=3), Parallelism(tensor=8, data=16))
    all_eight = step(TrainingSettings(zero_stage=3), Parallelism(tensor=1, data=16))
    # Eight times the weights a rank, over eight times the links.
    assert all_eight.exposed_data_messages_s == pytest.approx(
        one_each.exposed_data_messages_s, rel=0.02
    )


def test_rings_wait_for_each_machine_on_their_way_however_little_they_send():
    hop_s = 1e-5
    waiting = replace(USUAL, ring_hop_s=hop_s)

    def waits_s(settings, layout):
        return (
            step(settings, layout, calibration=waiting).exposed_data_messages_s
            - step(settings, layout).exposed_data_messages_s
        )

    sharded = TrainingSettings(zero_stage=3)
    # Of 80 layers, weights are gathered twice and gradients scattered once.
    for machines in (2, 16):
        found = waits_s(sharded, Parallelism(tensor=1, data=8 * machines))
        assert found == pytest.approx(80 * 3 * (machines - 1) * hop_s)
    # Inside a machine there is nothing to wait for; one rank in each passes fewer steps there.
    assert waits_s(sharded, Parallelism(tensor=1, data=8)) == 0.0
    one_each = waits_s(sharded, Parallelism(tensor=8, data=16))
    assert 0.0 < one_each < waits_s(sharded, Parallelism(tensor=1, data=128))
    # Sums of whole gradients go by trees.
    assert waits_s(TrainingSettings(zero_stage=0), Parallelism(tensor=8, data=16)) == 0.0


def test_messages_hide_behind_computation_as_far_as_they_can():
    layout = Parallelism(tensor=8, data=4)
    overlapping = replace(USUAL, data_overlap_ratio=0.5)
    settings = TrainingSettings(zero_stage=3)
    seen, hidden = step(settings, layout), step(settings, layout, calibration=overlapping)
    assert hidden.exposed_data_messages_s < seen.exposed_data_messages_s
    assert hidden.exposed_data_messages_s + hidden.hidden_data_messages_s == pytest.approx(
        seen.exposed_data_messages_s
    )
    assert hidden.step_s < seen.step_s
    assert seen.hidden_tensor_messages_s == pytest.approx(seen.exposed_model_messages_s / 3)


@pytest.mark.parametrize("overlap", [0.0, 0.6, 1.0])
def test_longer_sequences_never_make_a_step_shorter(overlap):
    # Short ones wait for the host, which issues as many kernels for them; messages hide behind that
    # wait as behind the computation that takes its place.
    slow = replace(USUAL.performance.engine, layer_s=2e-3, launch_bound=True)
    calibration = replace(
        USUAL,
        data_overlap_ratio=overlap,
        performance=replace(USUAL.performance, engine=slow),
    )
    times = [
        step(
            TrainingSettings(zero_stage=3),
            Parallelism(data=64),
            MicroBatch(1, tokens),
            calibration,
        ).step_s
        for tokens in (64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
    ]
    assert all(longer >= shorter * (1 - 1e-9) for shorter, longer in pairwise(times))


def test_a_host_that_nearly_holds_kernels_back_makes_a_step_less_sure():
    # How long it issues is known to within a third: what does not show with these constants may.
    def found(layer_s: float) -> TrainingStep:
        host = replace(USUAL.performance.engine, layer_s=layer_s, step_s=0.0)
        calibration = replace(USUAL, performance=replace(USUAL.performance, engine=host))
        return step(calibration=calibration)

    working_s = found(0.0).micro_batch.working_s
    each = working_s / (found(1e-9).micro_batch.issue_s / 1e-9)
    far, near, late = found(0.5 * each), found(0.9 * each), found(4.0 * each)
    assert far.unsure_overhead_s == 0.0
    assert near.overhead_s == 0.0
    assert 0.0 < near.unsure_overhead_s < near.step_s
    # Where nothing else decides, a step is as unsure as the host is.
    assert late.unsure_overhead_s == pytest.approx(late.micro_batch.issue_s, rel=0.02)
    widening = Widening(waiting_spread_ratio=2.5)
    sure, unsure = (widening.ratio(one.shares, routed=False) for one in (far, near))
    assert unsure > sure


@pytest.mark.parametrize("stage", [1, 2, 3])
def test_nothing_that_ranks_send_hides_where_zero_is_not_to_overlap(stage):
    layout = Parallelism(data=64)
    settings = TrainingSettings(zero_stage=stage)
    hiding = step(settings, layout, calibration=DATASHEET)
    waiting = step(replace(settings, overlaps_zero=False), layout, calibration=DATASHEET)
    assert waiting.moved_data_messages_s == pytest.approx(hiding.moved_data_messages_s)
    assert waiting.hidden_data_messages_s == 0.0 < hiding.hidden_data_messages_s
    # Whole copies sum their gradients by PyTorch's hooks, whatever ZeRO is set to.
    whole = TrainingSettings(overlaps_zero=False)
    assert step(whole, layout, calibration=DATASHEET).hidden_data_messages_s > 0.0


def test_gradients_hide_behind_the_last_backward_pass_only():
    layout, overlapping = Parallelism(tensor=8, data=4), replace(USUAL, data_overlap_ratio=1.0)
    once = step(parallelism=layout, calibration=overlapping)
    often = step(TrainingSettings(gradient_accumulation_steps=8), layout, calibration=overlapping)
    # The last of several also reads the sums of those before, which the only one has not to.
    assert often.hidden_data_messages_s == pytest.approx(once.hidden_data_messages_s, rel=0.02)


def test_context_ranks_pass_keys_and_values_on():
    layout = Parallelism(tensor=2, context=4)
    slow = replace(H100, scale_up=replace(H100.scale_up, bandwidth_bytes_per_s=1e9))
    deployment = Deployment(architecture("llama-70b"), BF16, slow, layout)
    found = training_step(deployment, TrainingSettings(), MicroBatch(1, 32768), HOST, USUAL)
    near = step(parallelism=layout, batch=MicroBatch(1, 32768))
    assert near.exposed_model_messages_s < found.exposed_model_messages_s
    assert bottleneck(found) == "interconnect"


def test_states_that_are_paged_out_cross_the_link_twice():
    settings = TrainingSettings(optimizer="paged-adamw")
    deployment = Deployment(architecture("llama-70b"), BF16, H100, Parallelism(tensor=8))
    batch = MicroBatch(1, 4096)
    here = training_step(deployment, settings, batch, HOST, USUAL)
    away = training_step(deployment, settings, batch, HOST, USUAL, paged_bytes=30e9)
    assert here.offload_stall_s == 0
    assert away.offload_stall_s == pytest.approx(2 * 30e9 / HOST.link_bytes_per_s)
    assert away.step_s - here.step_s == pytest.approx(away.offload_stall_s)


def test_an_optimizer_on_the_host_is_seen_as_stall():
    here, there = step(), step(TrainingSettings(offload=Offload(optimizer="cpu")))
    assert here.offload_stall_s == 0
    assert there.optimizer_s == 0
    assert there.offload_stall_s > 10 * here.optimizer_s
    storage = step(TrainingSettings(offload=Offload(optimizer="nvme")))
    assert storage.offload_stall_s > there.offload_stall_s
    assert bottleneck(storage) == "offload"


def test_accelerators_of_a_run_share_their_hosts_memory_with_each_other_alone():
    # Processors of an idle machine update the states of the one accelerator that works in it.
    peak = Interval(600e9, 400e9, 800e9)
    server = replace(ALONE, accelerators=8.0, host_memory_bandwidth_bytes_per_s=peak)
    host = replace(HOST, memory_ratio=0.65)

    def rate(count: int, platform: Platform = server) -> float:
        accelerator = replace(H100, platform=platform)
        layout = Parallelism(data=count)
        deployment = Deployment(architecture("llama-70b"), BF16, accelerator, layout)
        return float(host.shared_memory_bytes_per_s(deployment))

    assert rate(1) == pytest.approx(390e9)
    assert rate(2) == pytest.approx(195e9)
    # What many have of several machines is the same; none has less than is usual.
    assert rate(8) == rate(64) == HOST.memory_bytes_per_s
    unknown = replace(server, host_memory_bandwidth_bytes_per_s=None)
    assert rate(1, unknown) == HOST.memory_bytes_per_s


def test_transfers_stall_where_they_take_longer_than_computation():
    short, long = MicroBatch(1, 64), MicroBatch(1, 65536)
    away = TrainingSettings(offload=Offload(parameters="cpu"), zero_stage=3)
    assert step(away, batch=short).offload_stall_s > 0
    assert step(away, batch=long).offload_stall_s == 0
    kept = TrainingSettings(offload=Offload(activations="cpu"))
    assert step(kept).offload_stall_s >= 0
    narrow = replace(HOST, link_bytes_per_s=1e9)
    deployment = Deployment(architecture("llama-70b"), BF16, H100, Parallelism(tensor=8))
    stalled = training_step(deployment, kept, MicroBatch(1, 4096), narrow, USUAL)
    assert stalled.offload_stall_s > step(kept).offload_stall_s


def test_unfused_attention_moves_its_scores():
    eager, flash = step(TrainingSettings(attention="eager")), step()
    assert eager.elementwise_s > flash.elementwise_s
    assert eager.attention_s == pytest.approx(2 * flash.attention_s)


def test_short_steps_wait_for_the_host():
    tiny = step(batch=MicroBatch(1, 1))
    assert bottleneck(tiny) in ("overhead", "memory_bandwidth")
    slow = replace(
        USUAL, performance=replace(USUAL.performance, engine=replace(CALIBRATION.engine, layer_s=1))
    )
    waiting = step(calibration=slow)
    assert bottleneck(waiting) == "overhead"
    assert waiting.step_s == pytest.approx(2 * 80, rel=0.01)
    sharded = step(TrainingSettings(zero_stage=3), Parallelism(tensor=4, data=2), calibration=slow)
    assert sharded.overhead_s > 2 * 80 - sharded.compute_s - sharded.exposed_model_messages_s


def test_routing_takes_time_in_every_layer_with_experts():
    free = replace(USUAL, routing_s=0.0)
    experts = step(model="mixtral-8x7b"), step(model="mixtral-8x7b", calibration=free)
    assert experts[0].step_s - experts[1].step_s == pytest.approx(32 * 2 * 1e-4)
    assert step(calibration=free).step_s == step().step_s


def test_a_host_that_issues_kernels_for_each_expert_makes_small_micro_batches_wait():
    slow = replace(USUAL, expert_kernel_s=1e-2)
    layout = Parallelism(tensor=1, data=8, expert=8)

    def moe(tokens=256, parallelism=layout, calibration=slow, **settings):
        return step(
            TrainingSettings(**settings),
            parallelism,
            MicroBatch(1, tokens),
            calibration,
            model="mixtral-8x7b",
        )

    # Of 32 layers one expert each: two products forward, four for both gradients.
    assert moe().micro_batch.issue_s == pytest.approx(
        moe(calibration=USUAL).micro_batch.issue_s + 32 * 6 * 1e-2
    )
    assert moe().step_s == pytest.approx(moe(tokens=512).step_s, rel=0.05)
    whole = Parallelism(tensor=1, data=8)
    assert moe(parallelism=whole).micro_batch.issue_s > 7 * moe().micro_batch.issue_s
    frozen = moe(method="lora", lora_targets=("q_proj",)).micro_batch.issue_s
    assert frozen < moe().micro_batch.issue_s
    again = moe(activation_checkpointing="full").micro_batch.issue_s
    assert again > moe().micro_batch.issue_s + 32 * 2 * 1e-2


def test_products_of_small_experts_are_slower():
    hardware = USUAL.performance.hardware
    of_rank = 4096 * 14336 / 8
    halved = replace(
        USUAL,
        performance=replace(
            USUAL.performance, hardware=replace(hardware, expert_half_elements=of_rank)
        ),
    )
    usual, slower = (
        step(model="mixtral-8x7b", calibration=one).matrix_products_s for one in (USUAL, halved)
    )
    assert 1.5 * usual < slower < 2.0 * usual
    assert step(calibration=halved).step_s == step().step_s


def test_narrow_operands_of_experts_are_kernels_of_their_own():
    wide = expert_kernels(None, narrow=False, trained=True)
    blocks = expert_kernels("mxfp8", narrow=True, trained=True)
    whole = expert_kernels("tensorwise", narrow=True, trained=True)
    assert wide == (2, 4)
    assert blocks == (4, 6)
    assert whole == (8, 10)
    assert expert_kernels(None, narrow=True, trained=True) == whole


def test_accumulation_spreads_the_update_over_more_tokens():
    one, many = step(), step(TrainingSettings(gradient_accumulation_steps=16))
    assert many.tokens_per_step == 16 * one.tokens_per_step
    assert many.tokens_per_s > one.tokens_per_s


@pytest.mark.parametrize(
    "layout",
    [
        Parallelism(tensor=8),
        Parallelism(tensor=4, data=2),
        Parallelism(tensor=8, pipeline=4),
        Parallelism(tensor=4, context=2),
        Parallelism(data=16),
    ],
)
def test_work_is_the_same_however_it_is_divided(layout):
    # Eight ranks or thirty-two, a token takes the operations of the whole model.
    settings = TrainingSettings(gradient_accumulation_steps=8, sequence_parallel=True)
    divided = step(settings, layout, MicroBatch(2, 4096))
    whole = step(TrainingSettings(), Parallelism(), MicroBatch(1, 4096))

    def of_a_token(one: TrainingStep, accelerators: int) -> float:
        return one.model_flops * accelerators / one.tokens_per_step

    assert of_a_token(divided, layout.accelerator_count) == pytest.approx(
        of_a_token(whole, 1), rel=1e-6
    )
    assert divided.mfu_ratio <= divided.hfu_ratio < 1.0


def test_more_sequences_at_once_are_never_slower_for_each_token():
    # Fewer tiles that are half empty, launches and sums of gradients for the same tokens.
    for settings in (TrainingSettings(), TrainingSettings(zero_stage=3)):
        speeds = [
            step(settings, Parallelism(data=8), MicroBatch(sequences, 1024)).tokens_per_s
            for sequences in (1, 2, 4, 8, 16, 64)
        ]
        assert speeds == sorted(speeds)


def test_more_replicas_wait_longer_for_each_other_but_do_the_same_work():
    # Where nothing is divided among them: a smaller update for each is what they gain otherwise.
    speeds = [
        step(TrainingSettings(), Parallelism(tensor=8, data=replicas)).tokens_per_s_per_accelerator
        for replicas in (1, 2, 4, 16, 64, 1024)
    ]
    assert all(fewer >= more * (1 - 1e-9) for fewer, more in pairwise(speeds))


def test_parts_add_up_to_the_step():
    found = step(
        TrainingSettings(
            gradient_accumulation_steps=8, zero_stage=3, activation_checkpointing="full"
        ),
        Parallelism(tensor=4, pipeline=2, data=4),
    )
    parts = (
        found.compute_s
        + found.exposed_model_messages_s
        + found.exposed_data_messages_s
        + found.pipeline_bubble_s
        + found.optimizer_s
        + found.offload_stall_s
        + found.overhead_s
    )
    assert found.step_s == pytest.approx(parts)


def test_arrays_and_floats_agree():
    sequences = np.array([1.0, 2.0, 8.0])
    together = step(batch=MicroBatch(sequences, 4096.0), parallelism=Parallelism(8, data=2))
    for index, count in enumerate(sequences):
        alone = step(batch=MicroBatch(float(count), 4096.0), parallelism=Parallelism(8, data=2))
        assert together.step_s[index] == pytest.approx(alone.step_s, rel=1e-9)
        assert together.mfu_ratio[index] == pytest.approx(alone.mfu_ratio, rel=1e-9)


def test_experts_exchange_gradients_over_their_own_links():
    settings = TrainingSettings(zero_stage=1)
    model = architecture("mixtral-8x7b")
    deployment = Deployment(model, BF16, H100, Parallelism(data=64, expert=8))
    state = stage_state(model, BF16, deployment.parallelism, settings.structural, 0)
    calibration = replace(
        DATASHEET,
        performance=replace(IDEAL, hardware=replace(IDEAL.hardware, link_ratio=1.0)),
    )
    found = data_messages_s(deployment, settings, state, calibration)
    near, far = H100.scale_up.bandwidth_bytes_per_s, scale_out(H100).bandwidth_bytes_per_s
    experts = state.trainable_expert_elements
    dense = state.trainable_elements - experts
    # Each of the eight experts of a machine is on one of its accelerators, with one link to the
    # seven other machines; what all accelerators hold goes over the links of all eight.
    assert found == pytest.approx(
        4.0 * dense * 63 / 64 / min(near, 8 * far) + 4.0 * experts * 7 / 8 / far
    )
    assert experts > 3 * dense


def test_messages_make_the_time_of_a_step_less_certain():
    widening = Widening(waiting_spread_ratio=8.0)
    known = replace(USUAL, performance=replace(USUAL.performance, widening=widening))
    alone, apart = (
        TrainingSpeedSetup(
            Deployment(architecture("llama-70b"), BF16, H100, layout),
            settings=TrainingSettings(),
            micro_batch=MicroBatch(1, 4096),
            calibration=known,
            host=HOST,
        )
        for layout in (Parallelism(tensor=1), Parallelism(tensor=8))
    )
    quiet, talking = training_speed(alone), training_speed(apart)
    share, none = talking.step.shares.waiting, quiet.step.shares.waiting
    assert none < 0.1 * share
    width = np.log(talking.step_s.high / talking.step_s.low) / 2.0
    narrow = np.log(quiet.step_s.high / quiet.step_s.low) / 2.0
    assert width / narrow == pytest.approx(
        ((1.0 + (8.0 * share) ** 2) / (1.0 + (8.0 * none) ** 2)) ** 0.5
    )
