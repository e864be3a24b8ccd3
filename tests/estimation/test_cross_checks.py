"""What must hold whatever the constants: checks of estimates against each other."""

from __future__ import annotations

from typing import Any

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.core.estimate.inference import InferenceEstimate, inference_energy
from service.estimation.inference.deployment import compute_deployment, resolve_deployment
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import Problems

#: Cards of one maker, each with at least the memory, the bandwidth and the peaks of those before.
LADDERS = {
    "cards": ["nvidia-rtx-3090-24gb", "nvidia-rtx-4090-24gb", "nvidia-rtx-5090-32gb"],
    "nvidia": [
        "nvidia-a100-sxm-80gb",
        "nvidia-h100-sxm-80gb",
        "nvidia-h200-sxm-141gb",
        "nvidia-b200-sxm-180gb",
    ],
    "amd": [
        "amd-mi250x-gcd-64gb",
        "amd-mi300x-192gb",
        "amd-mi325x-256gb",
        "amd-mi350x-288gb",
        "amd-mi355x-288gb",
    ],
}


def estimated(
    snapshot: CatalogSnapshot, model: str, accelerator: str, weights: str, **others: Any
) -> tuple[InferenceEstimate, Any]:
    """An estimate on one accelerator, and the constants around it."""
    body = {
        "model": model,
        "accelerator": accelerator,
        "accelerator_count": 1,
        "parallelism": {"tensor": 1},
        "precision": {"weights": weights},
        "workload": {"input_tokens": 1024, "output_tokens": 128, "concurrency": 1},
    }
    request = DeploymentRequest.model_validate(body | others)
    computed = compute_deployment(resolve_deployment(request, snapshot, Problems()))
    return computed.estimate, computed.resolved.calibration.infrastructure


@pytest.mark.parametrize("ladder", LADDERS)
@pytest.mark.parametrize(
    ("model", "weights"),
    [
        ("openai/gpt-oss-20b", "mxfp4"),
        ("Qwen/Qwen3-8B", "bf16"),
        ("Qwen/Qwen3-8B", "fp8"),
        ("Qwen/Qwen3-8B", "awq-int4"),
    ],
)
def test_a_better_card_decodes_no_slower(packaged_snapshot, ladder, model, weights):
    found = [
        float(
            estimated(packaged_snapshot, model, name, weights, serving={"engine": "vllm"})[
                0
            ].latency.tpot_s.value
        )
        for name in LADDERS[ladder]
    ]
    assert found == sorted(found, reverse=True)


@pytest.mark.parametrize("ladder", LADDERS)
def test_fine_experts_in_mxfp4_are_no_dearer_where_units_scale_blocks(packaged_snapshot, ladder):
    # Kernels that widen weights run on every one of these cards, so that none has to be slower.
    for concurrency in (1, 16):
        load = {"input_tokens": 1024, "output_tokens": 128, "concurrency": concurrency}
        found = [
            float(
                estimated(packaged_snapshot, "openai/gpt-oss-20b", name, "mxfp4", workload=load)[
                    0
                ].latency.tpot_s.value
            )
            for name in LADDERS[ladder]
        ]
        assert found == sorted(found, reverse=True)


def test_a_single_sequence_of_a_dense_model_is_bound_by_memory_on_every_gpu(packaged_snapshot):
    found = 0
    for name, entry in packaged_snapshot.accelerators.items():
        accelerator = entry.value
        if not accelerator.family.startswith(
            ("nvidia-", "amd-rdna", "amd-cdna", "intel-xe", "apple-")
        ):
            continue
        if accelerator.memory_bytes < 12e9 or "bf16" not in accelerator.peak_flops_per_s:
            continue
        load = {"input_tokens": 256, "output_tokens": 64, "concurrency": 1}
        engine = {"engine": "llama.cpp"}
        decode = estimated(
            *(packaged_snapshot, "Qwen/Qwen3-8B", name, "gguf-q4_k_m"),
            workload=load,
            serving=engine,
        )[0].latency.decode
        assert decode.memory_bound_s > decode.compute_bound_s, name
        found += 1
    assert found > 100


@pytest.mark.parametrize("concurrency", [1, 8, 64, 256])
@pytest.mark.parametrize(
    ("accelerator", "model", "weights"),
    [
        ("nvidia-h100-sxm-80gb", "Qwen/Qwen3-8B", "bf16"),
        ("nvidia-h100-sxm-80gb", "Qwen/Qwen3-8B", "fp8"),
        ("nvidia-a10-24gb", "Qwen/Qwen3-8B", "awq-int4"),
        ("amd-mi300x-192gb", "Qwen/Qwen3-32B", "bf16"),
    ],
)
def test_no_bottleneck_contradicts_the_roofline(
    packaged_snapshot, accelerator, model, weights, concurrency
):
    # Kernels reach less of a peak than of the bandwidth, so that the ridge of what they reach lies
    # lower than that of the datasheet, and never by more than an order of magnitude.
    load = {"input_tokens": 1024, "output_tokens": 128, "concurrency": concurrency}
    latency = estimated(packaged_snapshot, model, accelerator, weights, workload=load)[0].latency
    for phase in (latency.prefill, latency.decode):
        intensity = phase.arithmetic_intensity_flop_per_byte
        ridge = phase.ridge_point_flop_per_byte
        if phase.bottleneck == "compute":
            assert intensity > 0.1 * ridge
        if phase.bottleneck == "memory_bandwidth":
            assert intensity < ridge


@pytest.mark.parametrize("rate", [None, 0.5])
def test_energy_is_power_times_time(packaged_snapshot, rate):
    load: dict[str, Any] = {"input_tokens": 1024, "output_tokens": 128}
    load |= {"concurrency": 8} if rate is None else {"requests_per_s": rate}
    estimate, around = estimated(
        packaged_snapshot, "Qwen/Qwen3-8B", "nvidia-h100-sxm-80gb", "bf16", workload=load
    )
    energy = inference_energy(estimate, around)
    joules = float(energy.request.it_wh.value) * 3600.0
    power_w = float(energy.power.it_power_w.value)
    assert joules * float(energy.requests_per_s.value) == pytest.approx(power_w, rel=1e-9)


def test_attention_that_is_not_fused_costs_the_more_the_longer_a_prompt_is(packaged_snapshot):
    def times(tokens: int, fused: bool) -> float:
        load = {"input_tokens": tokens, "output_tokens": 1, "concurrency": 1}
        serving = {"engine": "llama.cpp", "flash_attention": fused}
        estimate, _ = estimated(
            *(packaged_snapshot, "meta-llama/Llama-3.1-8B", "nvidia-rtx-4090-24gb", "gguf-q4_k_m"),
            workload=load,
            serving=serving,
        )
        return float(estimate.latency.ttft_s.value)

    short, long = (times(tokens, False) / times(tokens, True) for tokens in (512, 16_384))
    assert 1.0 < short < 1.3
    assert long > 1.5 * short
