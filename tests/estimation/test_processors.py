"""Processors and other hardware that nobody measured by the interface that drives it."""

from __future__ import annotations

import pytest

from service.core.backends import backends_on
from service.estimation.inference.estimate import inference_latency_answer
from service.estimation.requests import LatencyInferenceRequest


def asked(snapshot, accelerator, **serving):
    request = LatencyInferenceRequest.model_validate(
        {
            "model": "meta-llama/Llama-3.1-8B",
            "accelerator": accelerator,
            "serving": {"engine": "llama.cpp", "engine_version": "2026"} | serving,
            "precision": {"weights": "gguf-q4_k_m"},
            "workload": {"input_tokens": 512, "output_tokens": 128},
        }
    )
    return inference_latency_answer(request, snapshot)


def width(time):
    return time["high"] / time["low"]


@pytest.mark.parametrize("alone", ["amd-epyc-9654", "intel-arc-b580-12gb"])
def test_ranges_are_wider_where_nobody_measured_kernels_of_an_interface(packaged_snapshot, alone):
    # No constant is fitted to RDNA 2 either, but to others that the same interface drives.
    alike = asked(packaged_snapshot, "amd-rx-6800-16gb", backend="hip")
    for time in ("ttft_s", "tpot_s"):
        assert width(asked(packaged_snapshot, alone)[time]) > 1.05 * width(alike[time])


def test_matrix_units_of_processors_help_prompts_less_than_their_peak_says(packaged_snapshot):
    xeon, epyc = "intel-xeon-platinum-8480plus", "amd-epyc-9654"
    peaks = [
        packaged_snapshot.accelerators[id_].value.peak_flops_per_s["int8"] for id_ in (xeon, epyc)
    ]
    times = [asked(packaged_snapshot, id_)["ttft_s"]["value"] for id_ in (xeon, epyc)]
    assert 1.0 < times[1] / times[0] < 0.5 * peaks[0] / peaks[1]


def test_rates_of_vectors_are_known_where_quantised_products_wait_for_them(packaged_snapshot):
    engine = packaged_snapshot.engines["llama.cpp"].value
    unknown = [
        id_
        for id_, entry in packaged_snapshot.accelerators.items()
        if backends_on(engine.backends, entry.value.hardware)
        and "int8" in entry.value.peak_flops_per_s
        and "fp32" not in entry.value.peak_flops_per_s
    ]
    assert not unknown
