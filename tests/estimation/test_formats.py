"""Which formats engines read, and what activations do to them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from service.core.format_lists import FormatList
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.inference.phases import Phase
from service.estimation.inference.deployment import compute_deployment, resolve_deployment
from service.estimation.inference.estimate import inference_latency_answer
from service.estimation.rejection import Rejected
from service.estimation.requests import LatencyInferenceRequest
from service.estimation.resolution import Problems
from service.estimation.software import resolve_serving_engine

_DENSE = "meta-llama/Llama-3.1-8B"


def asked(accelerator: str = "h100-sxm", engine: str | None = None, **precision: Any):
    return LatencyInferenceRequest(
        model=_DENSE,
        accelerator=accelerator,
        precision=precision,
        serving={"engine": engine},
        workload={"input_tokens": 1024, "output_tokens": 128},
    )


def refused(request: LatencyInferenceRequest, snapshot) -> tuple[str, str]:
    with pytest.raises(Rejected) as rejected:
        inference_latency_answer(request, snapshot)
    [error] = rejected.value.errors
    return error.pointer, error.detail


@pytest.mark.parametrize(
    ("called", "id_"),
    [
        ("Q4_K_M", "gguf-q4_k_m"),
        ("gguf-Q8_0", "gguf-q8_0"),
        ("BF16", "bf16"),
        ("float16", "fp16"),
        ("fp8_e4m3", "fp8"),
        ("AWQ", "awq-int4"),
        ("nf4", "bnb-nf4"),
    ],
)
def test_formats_are_read_as_people_write_them(called, id_):
    assert asked(weights=called).precision == asked(weights=id_).precision


def test_a_format_that_could_be_several_is_refused():
    with pytest.raises(ValidationError, match="unknown number format"):
        asked(weights="4bit")


def test_names_that_mean_more_than_a_format_say_what_to_set():
    with pytest.raises(ValidationError, match="fp8_recipe mxfp8"):
        asked(weights="mxfp8")


def test_lists_of_formats_name_what_there_is(packaged_snapshot):
    listed = {
        name: entry.id
        for entry in packaged_snapshot.engines.values()
        for name in entry.value.formats.names
    }
    assert listed
    for name, engine in listed.items():
        alone = FormatList(frozenset({name}))
        assert any(alone.has(known) for known in NUMBER_FORMATS), (name, engine)


@pytest.mark.parametrize(
    ("engine", "weights", "nearest"),
    [
        ("llama.cpp", "awq-int4", "gguf-iq4_xs"),
        ("llama.cpp", "fp8", "gguf-q8_0"),
        # NVFP4 is nearer, but not on Hopper.
        ("tensorrt-llm", "gguf-q4_k_m", "awq-int4"),
        ("exllama", "bnb-nf4", "exl3-4.0bpw"),
    ],
)
def test_a_format_without_kernels_is_refused_with_the_nearest(
    packaged_snapshot, engine, weights, nearest
):
    pointer, detail = refused(asked(engine=engine, weights=weights), packaged_snapshot)
    assert pointer == "/precision/weights"
    assert f"has no kernels for {weights}; the nearest that it has:" in detail
    assert nearest in detail


@pytest.mark.parametrize(
    ("accelerator", "engine", "weights", "nearest"),
    [
        ("h100-sxm", "tensorrt-llm", "nvfp4", "awq-int4"),
        ("a100-sxm4-80gb", "tensorrt-llm", "fp8", "gptq-int8"),
        ("v100-sxm2-32gb", "vllm", "awq-int4", "gptq-int4"),
        ("b200", "tensorrt-llm", "nvfp4", None),
        ("h100-sxm", "vllm", "awq-int4", None),
    ],
)
def test_a_format_without_kernels_on_the_hardware_is_told_with_the_nearest(
    packaged_snapshot, accelerator, engine, weights, nearest
):
    answer = inference_latency_answer(
        asked(accelerator, engine, weights=weights), packaged_snapshot
    )
    told = [one["message"] for one in answer["warnings"] if one["code"] == "engine_lacks_format"]
    assert bool(told) == (nearest is not None)
    assert not told or nearest.upper() in told[0]


@pytest.mark.parametrize(
    ("engine", "lacks"), [("vllm", True), ("transformers", False), (None, False)]
)
def test_models_that_an_engine_does_not_serve_are_told(packaged_snapshot, engine, lacks):
    request = LatencyInferenceRequest(
        model="google-t5/t5-large",
        accelerator="nvidia-t4-16gb",
        serving={"engine": engine},
        workload={"input_tokens": 64, "output_tokens": 8},
    )
    warnings = inference_latency_answer(request, packaged_snapshot)["warnings"]
    told = [one["message"] for one in warnings if one["code"] == "engine_lacks_model"]
    assert bool(told) == lacks
    assert not told or "transformers serves them" in told[0]


def test_models_that_the_usual_engine_does_not_serve_have_the_one_that_does(packaged_snapshot):
    request = LatencyInferenceRequest(
        model="google-t5/t5-large", accelerator="nvidia-t4-16gb", workload={"input_tokens": 64}
    )
    deployment = inference_latency_answer(request, packaged_snapshot)["deployment"]
    assert deployment["serving"]["engine"] == "transformers"


def test_a_format_of_a_checkpoint_is_named_as_people_know_it(packaged_snapshot):
    request = asked("l40s")
    request = request.model_copy(update={"model": "openai/gpt-oss-20b"})
    warnings = inference_latency_answer(request, packaged_snapshot)["warnings"]
    [told] = [one["message"] for one in warnings if one["code"] == "precision_not_native"]
    assert "cannot multiply MXFP4 directly" in told


@pytest.mark.parametrize(
    ("engine", "cache", "nearest"),
    [
        ("llama.cpp", "fp8", ("gguf-q8_0", "gguf-q5_1", "gguf-q5_0")),
        ("vllm", "gguf-q4_0", ("nvfp4", "fp8-per-token-head", "int8-per-token-head")),
        ("gpt-fast", "int8", ("bf16", "fp16", "fp32")),
    ],
)
def test_a_cache_that_an_engine_does_not_hold_is_refused_with_the_nearest(
    packaged_snapshot, engine, cache, nearest
):
    with pytest.raises(Rejected) as rejected:
        inference_latency_answer(asked(engine=engine, kv_cache=cache), packaged_snapshot)
    [error] = [one for one in rejected.value.errors if "cache" in one.pointer]
    assert error.pointer == "/precision/kv_cache"
    assert f"holds no KV cache in {cache}; the nearest that it has:" in error.detail
    assert error.suggestions == nearest


def test_caches_of_engines_are_formats_that_exist(packaged_snapshot):
    listed = {
        name: entry.id
        for entry in packaged_snapshot.engines.values()
        for name in entry.value.caches.names
    }
    assert set(listed) <= set(NUMBER_FORMATS), set(listed) - set(NUMBER_FORMATS)


@pytest.mark.parametrize(("engine", "weights"), [("llama.cpp", "mxfp4"), ("ollama", None)])
def test_a_checkpoint_that_departs_from_a_format_is_read_as_that(
    packaged_snapshot, engine, weights
):
    asked_for = LatencyInferenceRequest(
        model="openai/gpt-oss-20b",
        accelerator="amd-ryzen-ai-max-395-128gb",
        precision={"weights": weights},
        serving={"engine": engine},
    )
    resolved = resolve_deployment(asked_for, packaged_snapshot, Problems())
    assert resolved.deployment.precision.weights.listed_id == "mxfp4"
    assert resolved.deployment.precision.weights.id == "mxfp4-checkpoint"


@pytest.mark.parametrize(
    ("engine", "model", "file"),
    [
        ("ollama", "meta-llama/Llama-3.1-8B", "gguf-q4_k_m"),
        ("llama.cpp", "deepseek-ai/DeepSeek-V3", "gguf-q4_k_m"),
        ("lm-studio", "openai/gpt-oss-120b", "gguf-mxfp4"),
        # A model that embeds, and an engine that loads checkpoints.
        ("llama.cpp", "BAAI/bge-m3", None),
        ("vllm", "meta-llama/Llama-3.1-8B", None),
    ],
)
def test_engines_of_files_take_the_usual_one_where_nobody_says(
    packaged_snapshot, engine, model, file
):
    asked_for = {"model": model, "accelerator": "h100-sxm", "serving": {"engine": engine}}
    answer = inference_latency_answer(
        LatencyInferenceRequest.model_validate(asked_for), packaged_snapshot
    )
    told = [one["message"] for one in answer["warnings"] if one["code"] == "usual_file"]
    if file is None:
        assert not told
        assert not answer["deployment"]["precision"]["weights"].startswith("gguf-")
    else:
        assert answer["deployment"]["precision"]["weights"] == file
        assert file.upper() in told[0]


def test_a_width_without_a_layout_is_read_by_every_engine(packaged_snapshot):
    for engine in ("llama.cpp", "exllama", "tensorrt-llm", "gpt-fast"):
        inference_latency_answer(asked(engine=engine, weights="int4"), packaged_snapshot)


@pytest.mark.parametrize(
    ("engine", "width", "format_id"),
    [
        ("transformers", "int8", "bnb-int8"),
        ("transformers", "int4", "bnb-nf4"),
        ("mlx", "int4", "mlx-4bit"),
        ("mlx", None, "mlx-4bit"),
        ("llama.cpp", "int4", "gguf-q4_k_m"),
        ("ollama", "int8", "gguf-q8_0"),
        # Engines of servers pack a width in one way or another that is about as fast.
        ("vllm", "int8", "int8"),
    ],
)
def test_a_width_alone_is_packed_as_an_engine_usually_does(
    packaged_snapshot, engine, width, format_id
):
    accelerator = "apple-m4-max-128gb" if engine == "mlx" else "h100-sxm"
    answer = inference_latency_answer(asked(accelerator, engine, weights=width), packaged_snapshot)
    assert answer["deployment"]["precision"]["weights"] == format_id
    told = [one for one in answer["warnings"] if one["code"] == "usual_file"]
    assert bool(told) is (format_id != width)


def test_activations_that_no_kernel_takes_are_refused_with_those_that_it_does(packaged_snapshot):
    request = asked(weights="fp8", activations="int8")
    pointer, detail = refused(request, packaged_snapshot)
    assert pointer == "/precision/activations"
    assert detail.endswith("those of fp8 take bf16, fp8")


@pytest.mark.parametrize("weights", ["bf16", "fp8", "awq-int4", "mxfp4", "nvfp4", "gguf-q4_k_m"])
@pytest.mark.parametrize("accelerator", ["a100-80gb", "h100-sxm", "b200"])
@pytest.mark.parametrize("engine", ["vllm", "llama.cpp"])
def test_activations_that_an_answer_names_ask_for_the_same(
    packaged_snapshot, engine, accelerator, weights
):
    snapshot = packaged_snapshot
    if not snapshot.engines[engine].value.reads(weights):
        return
    first = inference_latency_answer(asked(accelerator, engine, weights=weights), snapshot)
    activations = first["deployment"]["precision"]["activations"]
    again = asked(accelerator, engine, weights=weights, activations=activations)
    # What is asked for needs no warning.
    assert inference_latency_answer(again, snapshot) | {"warnings": []} == first | {"warnings": []}


def test_wider_activations_cost_compute(packaged_snapshot):
    def prefill(**precision: Any) -> Phase:
        resolved = resolve_deployment(asked(**precision), packaged_snapshot, Problems())
        return compute_deployment(resolved).estimate.latency.prefill

    usual, wide = prefill(weights="fp8"), prefill(weights="fp8", activations="bf16")
    assert usual.peak_flops_per_s == prefill(weights="fp8", activations="fp8").peak_flops_per_s
    assert wide.peak_flops_per_s == pytest.approx(usual.peak_flops_per_s / 2, rel=1e-3)
    assert wide.step_s > 1.3 * usual.step_s


@pytest.mark.parametrize("weights", ["bf16", "fp8", "awq-int4", "gguf-q4_0", "nvfp4"])
def test_no_gpu_computes_longer_than_it_reads_while_a_dense_model_decodes_alone(
    packaged_snapshot, weights
):
    gpus = [
        entry.value.id
        for entry in packaged_snapshot.accelerators.values()
        if entry.value.family.startswith(("nvidia", "amd-", "intel-x", "apple"))
        and entry.value.memory_bytes > 24e9
    ]
    assert len(gpus) > 60
    slow = []
    for id_ in gpus:
        engine = "llama.cpp" if weights.startswith("gguf") else "vllm"
        try:
            resolved = resolve_deployment(
                asked(id_, engine, weights=weights), packaged_snapshot, Problems()
            )
        except Rejected:
            continue
        decode = compute_deployment(resolved).estimate.latency.decode
        if decode.compute_bound_s > decode.memory_bound_s:
            slow.append(id_)
    assert slow == []


@pytest.mark.parametrize(
    ("weights", "generation"),
    [("exl2-4.0bpw", "v2"), ("exl3-4.0bpw", "v3"), ("gptq-int4", "v2"), ("fp16", "v3")],
)
def test_the_newest_exllama_that_reads_the_weights_serves_them(
    weights, generation, packaged_snapshot
):
    serving, problems = asked(engine="exllama").serving, Problems()
    found = resolve_serving_engine(serving, (), (weights,), packaged_snapshot, problems)
    assert found.generation == generation
    assert not problems.errors


def test_formats_of_exllama_are_served_by_it_unless_said_otherwise(packaged_snapshot):
    answer = inference_latency_answer(asked("rtx-4090", weights="exl3-3.0bpw"), packaged_snapshot)
    assert answer["deployment"]["serving"]["engine"] == "exllama"


def test_formats_that_few_engines_read_are_refused_by_the_others(packaged_snapshot):
    pointer, detail = refused(asked("rtx-4090", "vllm", weights="exl2-4.0bpw"), packaged_snapshot)
    assert pointer == "/precision/weights"
    assert "vLLM has no kernels for exl2-4.0bpw" in detail
    named = asked("rtx-4090", "exllamav3", weights="exl2-4.0bpw")
    assert "exl3-4.0bpw" in refused(named, packaged_snapshot)[1]


def test_a_bit_less_a_weight_is_decoded_faster(packaged_snapshot):
    times = [
        inference_latency_answer(asked("rtx-4090", weights=f"exl2-{bits}bpw"), packaged_snapshot)[
            "tpot_s"
        ]["value"]
        for bits in (3.0, 4.0, 5.0, 6.0, 8.0)
    ]
    assert times == sorted(times)


def test_a_front_end_of_two_engines_reads_the_files_of_both_where_both_run(packaged_snapshot):
    def warned(accelerator):
        asked_for = LatencyInferenceRequest(
            model="meta-llama/Llama-3.1-8B",
            accelerator=accelerator,
            precision={"weights": "mlx-4bit"},
            serving={"engine": "lm-studio"},
        )
        return {
            one["code"]
            for one in inference_latency_answer(asked_for, packaged_snapshot)["warnings"]
        }

    assert "engine_lacks_format" not in warned("apple-m4-max-128gb")
    assert "engine_lacks_format" in warned("nvidia-rtx-4090-24gb")


def test_kernels_of_one_row_compute_prompts_row_by_row(packaged_snapshot):
    def times(weights, concurrency=1):
        asked_for = LatencyInferenceRequest(
            model="huggyllama/llama-7b",
            accelerator="nvidia-rtx-4090-24gb",
            precision={"weights": weights},
            serving={"engine": "autoawq"},
            workload={"input_tokens": 2048, "output_tokens": 64, "concurrency": concurrency},
        )
        answer = inference_latency_answer(asked_for, packaged_snapshot)
        return answer["ttft_s"]["value"], answer["tpot_s"]["value"]

    rows, tiles = times("awq-gemv"), times("awq")
    assert rows[0] > 3.0 * tiles[0]
    # A single token is read as fast by either; eight rows are eight times the arithmetic.
    assert rows[1] == pytest.approx(tiles[1], rel=0.1)
    assert times("awq-gemv", 8)[1] > 1.5 * rows[1]


def test_only_engines_with_its_kernels_read_a_packing(packaged_snapshot):
    asked_for = LatencyInferenceRequest(
        model="huggyllama/llama-7b",
        accelerator="nvidia-rtx-4090-24gb",
        precision={"weights": "awq-int4-gemv"},
        serving={"engine": "vllm"},
    )
    with pytest.raises(Rejected) as refused:
        inference_latency_answer(asked_for, packaged_snapshot)
    assert "has no kernels for awq-int4-gemv" in refused.value.errors[0].detail


@pytest.mark.parametrize(
    ("engine", "given", "loaded"),
    [
        ("llama.cpp", {}, "gguf-q4_k_m"),
        ("llama.cpp", {"draft_precision": {"weights": "gguf-q8_0"}}, "gguf-q8_0"),
        ("vllm", {}, "bf16"),
    ],
)
def test_drafts_are_loaded_as_an_engine_loads_models(packaged_snapshot, engine, given, loaded):
    draft = {"draft_model": "meta-llama/Llama-3.2-1B"} | given
    asked_for = LatencyInferenceRequest(
        model="meta-llama/Llama-3.1-8B",
        accelerator="h100-sxm",
        serving={"engine": engine, "speculative": draft},
    )
    resolved = resolve_deployment(asked_for, packaged_snapshot, Problems())
    assert resolved.speculation.value.precision.weights.listed_id == loaded
