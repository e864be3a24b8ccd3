"""Corrections by own measurements go through everything that follows from what they correct."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from service.core.deployment import (
    InferenceWorkload,
    LengthSpread,
    Parallelism,
    ServingSettings,
)
from service.core.estimate.inference import InferenceSetup, estimate_inference, inference_energy
from service.core.estimate.training import TrainingSpeedSetup, run_energy, training_speed
from service.core.learning import NO_CORRECTIONS, Correction, Corrections
from service.core.memory.training.memory import training_memory
from service.core.memory.training.settings import MicroBatch, TrainingSettings
from tests.core.calibrations import packaged_overheads, packaged_training_overheads
from tests.core.deployments import CALIBRATION, H100, INFRASTRUCTURE, deployment
from tests.core.performance.training.test_step import HOST, USUAL

RUNTIME = packaged_overheads()
FRAMEWORKS = packaged_training_overheads()
SETUP = InferenceSetup(
    deployment(), InferenceWorkload(1024.0, 256.0, 16.0), ServingSettings(), RUNTIME, CALIBRATION
)


def corrected(corrections: Corrections, setup: InferenceSetup = SETUP) -> InferenceSetup:
    return replace(setup, calibration=setup.calibration.corrected(corrections))


def test_no_correction_changes_nothing():
    same = estimate_inference(corrected(replace(NO_CORRECTIONS, decode=Correction()))).latency
    published = estimate_inference(SETUP).latency
    assert same.replica == published.replica
    for name in ("ttft_s", "tpot_s", "e2e_s", "requests_per_s", "saturation_requests_per_s"):
        assert getattr(same, name) == getattr(published, name)


@pytest.mark.parametrize("requests_per_s", [None, 2.0])
def test_time_of_both_phases_scales_all_times_and_rates(requests_per_s):
    asked = replace(SETUP.workload, requests_per_s=requests_per_s)
    setup = replace(SETUP, workload=asked)
    slower = Correction(ratio=1.25)
    published = estimate_inference(setup).latency
    own = estimate_inference(corrected(Corrections(decode=slower, prefill=slower), setup)).latency
    for step in ("prefill", "decode"):
        before, after = getattr(published, step), getattr(own, step)
        if requests_per_s is None:
            assert after.step_s == pytest.approx(1.25 * before.step_s)
            assert after.flops == before.flops
        assert after.step_s == pytest.approx(
            after.compute_bound_s + after.memory_bound_s + after.interconnect_s + after.overhead_s
        )
    saturated = own.saturation_requests_per_s.value
    assert saturated == pytest.approx(published.saturation_requests_per_s.value / 1.25)
    if requests_per_s is None:
        assert own.tpot_s.value == pytest.approx(1.25 * published.tpot_s.value)
        assert own.ttft_s.value == pytest.approx(1.25 * published.ttft_s.value)
        rate = own.output_tokens_per_s.value
        assert rate == pytest.approx(published.output_tokens_per_s.value / 1.25)


def test_slower_decoding_leaves_prompts_and_narrows_its_own_interval():
    # Lengths are told, so that steps alone are unsure.
    told = replace(SETUP.workload, output_spread=LengthSpread(1.3, 0.9, 1.8, 2.6))
    setup = replace(SETUP, workload=told)
    published = estimate_inference(setup).latency
    corrections = Corrections(decode=Correction(ratio=2.0, spread_ratio=0.5))
    own = estimate_inference(corrected(corrections, setup)).latency
    assert own.prefill == published.prefill
    assert own.decode.step_s == pytest.approx(2.0 * published.decode.step_s)
    assert own.tpot_s.value > 1.7 * published.tpot_s.value
    before, after = (np.log(figure.high / figure.low) for figure in (published.tpot_s, own.tpot_s))
    assert after == pytest.approx(before / 2.0)


def test_slower_prompts_delay_the_first_token_and_those_who_decode_beside_them():
    published = estimate_inference(SETUP).latency
    own = estimate_inference(corrected(Corrections(prefill=Correction(ratio=2.0)))).latency
    assert own.decode == published.decode
    assert own.ttft_s.value > 1.5 * published.ttft_s.value
    assert own.tpot_s.value > published.tpot_s.value


def test_floats_and_arrays_agree():
    ratios = np.array([0.8, 1.0, 1.6])
    together = estimate_inference(
        corrected(Corrections(decode=Correction(ratio=ratios), prefill=Correction(ratio=ratios)))
    ).latency
    for place, ratio in enumerate(ratios):
        one = Correction(ratio=float(ratio))
        alone = estimate_inference(corrected(Corrections(decode=one, prefill=one))).latency
        for name in ("tpot_s", "ttft_s", "requests_per_s"):
            both = getattr(together, name).value[place]
            assert both == pytest.approx(getattr(alone, name).value, rel=1e-12)


def test_energy_of_a_request_follows_its_time_and_the_power():
    slower = Correction(ratio=1.5)
    both = Corrections(decode=slower, prefill=slower)
    published, own, hungry = (
        inference_energy(estimate_inference(corrected(each)), INFRASTRUCTURE)
        for each in (NO_CORRECTIONS, both, Corrections(power=Correction(ratio=0.8)))
    )
    assert own.request.it_wh.value == pytest.approx(
        1.5
        * published.request.it_wh.value
        * own.power.it_power_w.value
        / published.power.it_power_w.value
    )
    above_idle = [each.power.busy_power_w.value - 70.0 for each in (published, hungry)]
    assert above_idle[1] == pytest.approx(0.8 * above_idle[0])


def test_memory_beside_weights_and_cache_is_corrected():
    published = estimate_inference(SETUP).memory
    runtime = RUNTIME.corrected(SETUP.serving.engine, Correction(ratio=1.5, spread_ratio=0.5))
    own = estimate_inference(replace(SETUP, runtime=runtime)).memory
    assert own.weights_bytes == published.weights_bytes
    assert own.kv_cache_bytes == published.kv_cache_bytes
    assert own.activations_bytes.value == pytest.approx(1.5 * published.activations_bytes.value)
    assert own.runtime_bytes.value == pytest.approx(1.5 * published.runtime_bytes.value)
    assert own.kv_cache_capacity_tokens.value < published.kv_cache_capacity_tokens.value


def test_training_steps_are_corrected_with_all_that_follows():
    setup = TrainingSpeedSetup(
        replace(deployment(), parallelism=Parallelism(tensor=8)),
        MicroBatch(1, 4096),
        TrainingSettings(),
        USUAL,
        HOST,
    )
    half = Corrections(step=Correction(ratio=1.25, spread_ratio=0.5))
    published = training_speed(setup)
    own = training_speed(replace(setup, calibration=USUAL.corrected(half)))
    assert own.step_s.value == pytest.approx(1.25 * published.step_s.value)
    assert own.tokens_per_s.value == pytest.approx(published.tokens_per_s.value / 1.25)
    assert own.mfu_ratio.value == pytest.approx(published.mfu_ratio.value / 1.25)
    assert own.step.published_step_s == published.step.step_s
    assert published.step.own_correction_ratio is None
    assert own.step.own_correction_ratio == pytest.approx(1.25)
    before, after = (np.log(each.step_s.high / each.step_s.low) for each in (published, own))
    assert after == pytest.approx(before / 2.0)
    energy = [run_energy(each, INFRASTRUCTURE) for each in (published, own)]
    assert energy[1].step_kwh.value == pytest.approx(
        1.25
        * energy[0].step_kwh.value
        * energy[1].power.it_power_w.value
        / energy[0].power.it_power_w.value
    )


def test_memory_of_training_beside_its_states_is_corrected():
    settings = TrainingSettings(framework="default")
    placed = replace(deployment(), accelerator=H100)
    published, own = (
        training_memory(placed, MicroBatch(1, 2048), settings, overheads)
        for overheads in (
            FRAMEWORKS,
            FRAMEWORKS.corrected("default", Correction(ratio=1.5, spread_ratio=0.5)),
        )
    )
    assert own.weights_bytes == published.weights_bytes
    assert own.optimizer_bytes == published.optimizer_bytes
    assert own.activations_bytes.value == pytest.approx(1.5 * published.activations_bytes.value)
    assert own.libraries_bytes.value == pytest.approx(1.5 * published.libraries_bytes.value)
