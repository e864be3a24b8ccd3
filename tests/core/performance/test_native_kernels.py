"""Which units of hardware llama.cpp's kernels reach, and what they wait for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.performance.kernels import driven
from service.core.performance.native_kernels import (
    attends_on_vectors,
    converting_operations,
    loops_experts,
    multiplies_integers,
    reaches_matrix_units,
    records_ahead,
    warp_ratio,
    widening_operations,
)
from service.core.performance.products import product_rates
from service.core.performance.release_kernels import widened_from_rows
from service.core.performance.work import MatrixProduct
from tests.core.deployments import CALIBRATION, H100

CARD = replace(H100, peak_flops_per_s={"bf16": 1e14, "fp16": 1e14, "int8": 4e14, "fp32": 2e13})
PRODUCT = MatrixProduct(
    *(1.0, 4096, 4096, 4096.0 * 4096.0 * 4.5 / 8.0, "bf16", 16), weight_bits=4.5
)


def rate(item=PRODUCT, card=CARD, **figures):
    engine = replace(CALIBRATION.engine, **figures)
    return product_rates(item, card, replace(CALIBRATION, engine=engine))[0]


@pytest.mark.parametrize(
    ("release", "family", "backend", "reached"),
    [
        ("llama.cpp@2024", "nvidia-ada", "vulkan", False),
        ("llama.cpp@2024", "nvidia-ada", "cuda", True),
        ("llama.cpp@2025", "nvidia-turing", "vulkan", True),
        ("llama.cpp@2025", "nvidia-volta", "vulkan", False),
        ("llama.cpp@2025", "nvidia-volta", None, True),
        ("llama.cpp@2025", "amd-cdna3", "vulkan", False),
        ("llama.cpp@2025", "amd-cdna3", "hip", True),
        ("llama.cpp@2025", "amd-rdna2", "vulkan-amdvlk", False),
        ("llama.cpp@2025", "amd-rdna4", "vulkan", True),
        ("llama.cpp@2025", "intel-xe-hpg", "vulkan", False),
        ("llama.cpp@2025", "intel-xe-hpg", "sycl", True),
        ("llama.cpp@2025", "intel-xe2-hpg", "vulkan", True),
        ("mlc-llm@0.1", "amd-rdna2", "vulkan", True),
    ],
)
def test_vulkan_reaches_matrix_units_where_drivers_have_cooperative_matrices(
    release, family, backend, reached
):
    assert reaches_matrix_units(release, family, backend) is reached


@pytest.mark.parametrize(
    ("release", "family", "backend", "recorded"),
    [
        ("llama.cpp@2025", "nvidia-ada", "vulkan", True),
        ("llama.cpp@2026", "amd-rdna4", "vulkan-amdvlk", True),
        ("llama.cpp@2024", "amd-rdna3", "vulkan", False),  # recorded whole, then submitted
        ("llama.cpp@2025", "nvidia-ada", "cuda", False),  # graphs of one token alone
        ("llama.cpp@2025", "amd-rdna4", "hip", False),
        ("llama.cpp@2024", "apple-silicon", "metal", True),
        ("llama.cpp@2024", "apple-silicon", None, True),
        ("exllama@v2", "nvidia-ada", None, False),
    ],
)
def test_kernels_are_recorded_while_the_accelerator_works_where_buffers_are_submitted_in_parts(
    release, family, backend, recorded
):
    assert records_ahead(release, family, backend) is recorded


def test_a_slow_host_holds_up_no_layer_that_was_recorded_ahead():
    """What is recorded later runs as a graph does: gaps are the accelerator's alone."""
    issued = replace(CALIBRATION.engine, replays_graphs=False, core_time_ratio=2.0, host_ratio=1.0)
    recorded = replace(issued, records_ahead=True)
    assert issued.layer_ratio == 2.0
    assert recorded.layer_ratio == replace(recorded, core_time_ratio=1.0).layer_ratio == 1.0
    # What the host does between steps still takes its time.
    assert recorded.waited_ratio == 2.0


@pytest.mark.parametrize("family", ["nvidia-pascal", "amd-gcn", "amd-rdna2", "intel-xe-hpg"])
def test_vulkan_multiplies_bytes_in_fours_where_it_has_no_cooperative_matrices(family):
    assert multiplies_integers("llama.cpp@2025", family, "vulkan")
    assert not reaches_matrix_units("llama.cpp@2025", family, "vulkan")


@pytest.mark.parametrize("family", ["amd-rdna3", "amd-rdna3.5", "amd-rdna4"])
def test_hip_takes_matrix_units_of_radeon_for_integers_and_attention_since_the_end_of_2025(family):
    older, newer = "llama.cpp@2025", "llama.cpp@2026"
    assert multiplies_integers(newer, family, "hip")
    assert not multiplies_integers(older, family, "hip")
    for left_to_others in (attends_on_vectors, widened_from_rows, loops_experts):
        assert left_to_others(older, family, "hip")
        assert not left_to_others(newer, family, "hip")
    # By Vulkan nothing is otherwise.
    assert not multiplies_integers(newer, family, "vulkan")


def test_hip_multiplies_integers_on_instinct_whose_matrix_units_are_faster_than_its_library():
    newest, older = "llama.cpp@2026", "llama.cpp@2025"
    assert multiplies_integers(newest, "amd-cdna3", "hip")
    assert not widened_from_rows(newest, "amd-cdna3", "hip")
    # Until then, and on those before, the library multiplies what was widened.
    for release, family in ((older, "amd-cdna3"), (newest, "amd-cdna2")):
        assert not multiplies_integers(release, family, "hip")
        assert widened_from_rows(release, family, "hip")


def test_sycl_leaves_prompts_to_a_library_in_16_bit_expert_by_expert():
    for release in ("llama.cpp@2025", "llama.cpp@2026"):
        assert widened_from_rows(release, "intel-xe2-hpg", "sycl") > 8.0
        assert loops_experts(release, "intel-xe2-hpg", "sycl")
        # By Vulkan one kernel does it, which widens tiles.
        assert not widened_from_rows(release, "intel-xe2-hpg", "vulkan")
        assert not loops_experts(release, "intel-xe2-hpg", "vulkan")


@pytest.mark.parametrize("family", ["cpu-x86", "cpu-arm"])
def test_processors_multiply_integers_since_weights_are_interleaved_for_them(family):
    assert multiplies_integers("llama.cpp@2026", family, "cpu")
    assert not multiplies_integers("llama.cpp@2024", family, "cpu")


def test_tiles_of_processors_wait_for_vectors_that_scale_sums():
    vectors = {"bf16": 2e13, "int8": 4e13, "fp32": 1e13}
    tiles = vectors | {"bf16": 1.6e14, "int8": 3.2e14}
    slow, fast = (
        rate(card=replace(CARD, peak_flops_per_s=peaks), multiplies_integers=True)
        for peaks in (vectors, tiles)
    )
    # Eight times the rate of products is far less of a gain, for vectors have as much to do.
    assert slow < fast < 4.0 * slow


def test_without_matrix_units_vectors_multiply_halves_in_pairs_and_bytes_in_fours():
    vectors = driven(CARD, replace(CALIBRATION.engine, reaches_matrix_units=False))
    assert vectors.peak_flops_per_s == {"fp16": 4e13, "int8": 8e13, "fp32": 2e13}
    # What vectors of an accelerator do not pack is no faster for want of matrix units.
    plain = replace(CARD, peak_flops_per_s={"fp16": 2e13, "fp32": 2e13})
    engine = replace(CALIBRATION.engine, reaches_matrix_units=False)
    assert driven(plain, engine).peak_flops_per_s == {"fp16": 2e13, "fp32": 2e13}
    assert driven(CARD, CALIBRATION.engine) is CARD


def test_widening_by_tiles_waits_for_lanes_the_longer_the_more_matrix_units_there_are_for_each():
    operations = widening_operations("llama.cpp@2025", "nvidia-ampere", "vulkan")
    assert operations > 0.0
    assert not widening_operations("llama.cpp@2025", "nvidia-ampere", "cuda")
    wide = replace(PRODUCT, weight_bits=16.0)
    assert rate(wide, widening_operations=operations) == rate(wide)

    def kept(peak):
        card = replace(CARD, peak_flops_per_s={"bf16": peak, "fp32": 2e13})
        return rate(card=card, widening_operations=operations) / rate(wide, card)

    # A weight is widened once for all rows of a tile, whatever multiplies it.
    assert 1.0 > kept(1e14) > kept(2e14) > kept(4e14)
    lanes_s = operations / 2.0 / (1e13 * CALIBRATION.hardware.matrix_ratio[32])
    assert 1.0 / rate(widening_operations=operations) == pytest.approx(1.0 / rate(wide) + lanes_s)


def test_instructions_of_one_warp_fall_short_of_hoppers_peak_alone():
    assert warp_ratio("llama.cpp@2025", "nvidia-hopper", "cuda") < 1.0
    assert warp_ratio("llama.cpp@2025", "nvidia-hopper", "vulkan") < 1.0
    assert warp_ratio("llama.cpp@2025", "nvidia-ada", "cuda") == 1.0
    # Matrices were widened whole in 2024, and multiplied by NVIDIA's library.
    assert warp_ratio("llama.cpp@2024", "nvidia-hopper", "cuda") == 1.0
    assert rate(warp_ratio=0.5) == pytest.approx(rate() / 2.0)
    wide = replace(PRODUCT, weight_bits=16.0)
    assert rate(wide, warp_ratio=0.5) == rate(wide)


def test_multiprocessors_with_half_the_lanes_convert_sums_at_their_full_rate():
    assert converting_operations("nvidia-ampere") == converting_operations("nvidia-turing") == 1.0
    assert converting_operations("nvidia-ampere-ga10x") == converting_operations("amd-rdna4") == 2.0
    slower = rate(multiplies_integers=True, converting_operations=2.0)
    assert rate(multiplies_integers=True, converting_operations=1.0) > slower
