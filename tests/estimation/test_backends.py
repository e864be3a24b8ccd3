"""What drives an accelerator: which backends exist where, which is usual, and what each does."""

from __future__ import annotations

import pytest

from service.catalog.entries.documents import DocumentInvalid
from service.catalog.entries.engine_backends import backends_from
from service.core.backends import BACKENDS, interface_of, is_of_maker
from service.estimation.inference.deployment import compute_deployment, resolve_deployment
from service.estimation.rejection import Rejected
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import Problems

STRIX_HALO = "amd-ryzen-ai-max-395-128gb"
LOAD = {"input_tokens": 512, "output_tokens": 128, "concurrency": 1}


def computed(snapshot, accelerator=STRIX_HALO, model="meta-llama/Llama-2-7b-hf", **serving):
    body = {
        "model": model,
        "accelerator": accelerator,
        "accelerator_count": 1,
        "precision": {"weights": "gguf-q4_0"},
        "workload": LOAD,
        "serving": {"engine": "llama.cpp"} | serving,
    }
    request = DeploymentRequest.model_validate(body)
    return compute_deployment(resolve_deployment(request, snapshot, Problems()))


def times_of(snapshot, **asked):
    latency = computed(snapshot, **asked).estimate.latency
    return float(latency.ttft_s.value), float(latency.tpot_s.value)


@pytest.mark.parametrize(
    ("engine", "accelerator", "usual"),
    [
        ("llama.cpp", "nvidia-rtx-4090-24gb", "cuda"),
        ("llama.cpp", "apple-m2-max-96gb", "metal"),
        ("llama.cpp", STRIX_HALO, "vulkan"),
        ("llama.cpp", "amd-mi300x-192gb", "hip"),
        ("llama.cpp", "intel-arc-b580-12gb", "sycl"),
        ("llama.cpp", "amd-epyc-9654", "cpu"),
        ("ollama", STRIX_HALO, "hip"),
        ("ollama", "intel-arc-b580-12gb", "vulkan"),
        ("lm-studio", STRIX_HALO, "vulkan"),
        ("vllm", "nvidia-rtx-4090-24gb", None),
    ],
)
def test_the_usual_backend_is_that_which_people_run(packaged_snapshot, engine, accelerator, usual):
    weights = {"precision": {"weights": "bf16"}}
    body = {"model": "Qwen/Qwen3-0.6B", "accelerator": accelerator, "workload": LOAD}
    request = DeploymentRequest.model_validate(body | weights | {"serving": {"engine": engine}})
    assert resolve_deployment(request, packaged_snapshot, Problems()).serving.backend == usual


def test_every_backend_is_some_engines(packaged_snapshot):
    known = {one.id for entry in packaged_snapshot.engines.values() for one in entry.value.backends}
    assert known == set(BACKENDS)


@pytest.mark.parametrize(
    ("engine", "accelerator", "asked", "said"),
    [
        ("llama.cpp", "apple-m2-max-96gb", "cuda", "has no cuda on Apple M2 Max 96 GB, but metal"),
        ("llama.cpp", "nvidia-rtx-4090-24gb", "hip", "but cuda, vulkan"),
        ("ollama", STRIX_HALO, "hip-rocwmma", "but hip, vulkan"),
        ("vllm", "nvidia-rtx-4090-24gb", "cuda", "in one way only"),
    ],
)
def test_a_backend_that_does_not_exist_is_refused_with_those_that_do(
    packaged_snapshot, engine, accelerator, asked, said
):
    with pytest.raises(Rejected) as refused:
        computed(
            packaged_snapshot,
            accelerator,
            "Qwen/Qwen3-0.6B",
            engine=engine,
            backend=asked,
        )
    found = {one.pointer: one.detail for one in refused.value.errors}
    assert said in found["/serving/backend"]


def test_prompts_wait_for_the_library_that_multiplies_them(packaged_snapshot):
    widening = {"engine_version": "2025-08"}
    ttft, tpot = times_of(packaged_snapshot, backend="hip", **widening)
    slower_ttft, same_tpot = times_of(packaged_snapshot, backend="hip-rocblas", **widening)
    assert slower_ttft > 2.0 * ttft
    assert same_tpot == pytest.approx(tpot, rel=0.1)
    _, vulkan_tpot = times_of(packaged_snapshot, backend="vulkan", **widening)
    assert vulkan_tpot < tpot


def test_weights_in_few_bits_wait_for_no_library_where_the_engine_multiplies_them(
    packaged_snapshot,
):
    """Since the end of 2025 llama.cpp multiplies them by matrix instructions of RDNA itself."""
    own = {"engine_version": "2026-06"}
    by_backend = [
        times_of(packaged_snapshot, backend=backend, **own)[0] for backend in ("hip", "hip-rocblas")
    ]
    assert by_backend[1] == pytest.approx(by_backend[0], rel=0.1)


def test_fused_attention_of_hip_needs_matrix_units(packaged_snapshot):
    def prompt_s(backend):
        asked = {"backend": backend, "flash_attention": True, "engine_version": "2025-08"}
        return times_of(packaged_snapshot, **asked)[0]

    assert prompt_s("hip-rocwmma") < 0.8 * prompt_s("hip")


def test_hip_fuses_attention_on_vectors_only_where_it_is_asked_to(packaged_snapshot):
    def prompt_s(backend, **asked):
        asked = {"backend": backend, "engine_version": "2025-08", **asked}
        return times_of(packaged_snapshot, accelerator="amd-rx-7900-xtx-24gb", **asked)[0]

    for backend in ("hip", "hip-rocblas"):
        assert prompt_s(backend) == prompt_s(backend, flash_attention=False)
        assert prompt_s(backend, flash_attention=True) > 1.3 * prompt_s(backend)
    assert prompt_s("hip-rocwmma") == prompt_s("hip-rocwmma", flash_attention=True)


def test_own_ratios_are_those_of_other_interfaces_than_the_makers():
    assert [interface_of(one) for one in ("hip-rocwmma", "vulkan", "cuda")] == [
        "hip",
        "vulkan",
        "cuda",
    ]
    assert is_of_maker("hip-rocblas", "amd-rdna3.5")
    assert not is_of_maker("vulkan", "amd-rdna3.5")
    assert is_of_maker("cuda", "nvidia-ada")
    assert is_of_maker("cpu", "cpu-x86")


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        ([], "/backends/options"),
        ({"options": []}, "/backends/options"),
        ({"options": ["cuda"]}, "/backends/options/0"),
        ({"options": [{"id": "opengl", "hardware": ["nvidia-*"]}]}, "/backends/options/0/id"),
        ({"options": [{"id": "cuda", "hardware": "all"}]}, "/backends/options/0/hardware"),
        ({"options": [{"id": "cuda", "hardware": ["a"]}] * 2}, "/backends/options"),
    ],
)
def test_what_is_wrong_with_a_list_of_backends_is_said(given, pointer):
    with pytest.raises(DocumentInvalid) as invalid:
        backends_from(given)
    assert invalid.value.pointer == pointer


def test_engines_without_figures_have_the_kernels_of_those_that_they_are_like(packaged_snapshot):
    ollama = computed(packaged_snapshot, accelerator="apple-m2-max-96gb", engine="ollama")
    assert ollama.estimate.setup.calibration.engine.head_reads_exponent_ratio
    studio = computed(packaged_snapshot, accelerator="nvidia-h100-sxm-80gb", engine="lm-studio")
    assert studio.estimate.setup.calibration.engine.loading_lane_count == 128.0


@pytest.mark.parametrize(
    "accelerator", ["nvidia-rtx-3090-24gb", "nvidia-a100-sxm-80gb", "nvidia-h100-sxm-80gb"]
)
def test_vulkan_is_no_faster_than_the_interface_of_the_maker(packaged_snapshot, accelerator):
    cuda, vulkan = (
        times_of(packaged_snapshot, accelerator=accelerator, backend=one)
        for one in ("cuda", "vulkan")
    )
    # Integers of CUDA are scaled by lanes, weights of Vulkan widened by them: there are few in
    # data centres beside matrix units, of which Hopper's are driven by single warps in both.
    assert vulkan[0] > 0.85 * cuda[0]
    assert vulkan[1] > 0.9 * cuda[1]


#: What prompts by Vulkan may take at most, and at least, of the time that they take by the
#: interface of the hardware's maker: the same matrix units, driven by simpler kernels. Before the
#: fastest accelerators a host that issues kernels one by one is slower than one that records them.
SAME_UNITS = (0.65, 2.0)
#: The same where Vulkan has vectors alone, and the maker's interface matrix units.
VECTORS = (1.2, 12.0)
#: Neither has matrix units.
NEITHER = (0.8, 1.7)


@pytest.mark.parametrize(
    ("accelerator", "native", "within"),
    [
        ("nvidia-v100-sxm-32gb", "cuda", VECTORS),
        ("amd-mi100-32gb", "hip", VECTORS),
        ("amd-mi300x-192gb", "hip", VECTORS),
        ("intel-arc-a770-16gb", "sycl", VECTORS),
        ("nvidia-gtx-1080-ti-11gb", "cuda", NEITHER),
        ("nvidia-p100-pcie-16gb", "cuda", NEITHER),
        ("amd-mi50-32gb", "hip", NEITHER),
        ("amd-rx-6900-xt-16gb", "hip", NEITHER),
        ("nvidia-t4-16gb", "cuda", SAME_UNITS),
        ("nvidia-rtx-2080-ti-11gb", "cuda", SAME_UNITS),
        ("nvidia-a100-sxm-80gb", "cuda", SAME_UNITS),
        ("nvidia-rtx-3090-24gb", "cuda", SAME_UNITS),
        ("nvidia-rtx-4090-24gb", "cuda", SAME_UNITS),
        ("nvidia-l40s-48gb", "cuda", SAME_UNITS),
        ("nvidia-h100-sxm-80gb", "cuda", SAME_UNITS),
        ("nvidia-b200-sxm-180gb", "cuda", SAME_UNITS),
        ("nvidia-rtx-5090-32gb", "cuda", SAME_UNITS),
        ("amd-rx-7900-xtx-24gb", "hip", SAME_UNITS),
        (STRIX_HALO, "hip", SAME_UNITS),
        ("amd-rx-9070-xt-16gb", "hip", SAME_UNITS),
        ("intel-arc-b580-12gb", "sycl", SAME_UNITS),
    ],
)
def test_prompts_by_vulkan_are_plausible_beside_the_makers_interface(
    packaged_snapshot, accelerator, native, within
):
    def prompt_s(backend):
        asked = {"backend": backend, "flash_attention": False}
        return times_of(packaged_snapshot, accelerator=accelerator, **asked)[0]

    least, most = within
    assert least < prompt_s("vulkan") / prompt_s(native) < most


def test_an_engine_like_another_has_the_kernels_of_its_newest_release_in_its_own_day(
    packaged_snapshot,
):
    radeon = {"accelerator": "amd-rx-9070-xt-16gb", "backend": "hip", "flash_attention": True}

    def prompt_s(engine, **asked):
        return times_of(packaged_snapshot, engine=engine, **radeon, **asked)[0]

    newest = prompt_s("llama.cpp")
    assert newest == prompt_s("llama.cpp", engine_version="2026-03")
    # Attention and experts have matrix units since.
    assert newest < 0.8 * prompt_s("llama.cpp", engine_version="2025-08")
    assert prompt_s("ollama") == pytest.approx(newest, rel=0.1)
