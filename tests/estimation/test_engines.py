"""Which measurements hold for an engine, and which only stand in for its own."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest

from service.catalog.entries.checks import check_documents
from service.catalog.entries.documents import COLLECTIONS
from service.catalog.entries.earlier import in_todays_form
from service.catalog.snapshot import CatalogSnapshot, snapshot_from_documents
from service.core.engine_defaults import StartSettings
from service.core.engines import CLASSES, EngineRelease, class_of_unknown
from service.core.hardware import HardwareList
from service.core.interval import Interval
from service.core.memory.inference.growth import sampled_sequences
from service.estimation.calibrations import Calibration, calibration, runtime_memory
from service.estimation.inference.estimate import inference_memory_answer
from service.estimation.rejection import Rejected
from service.estimation.requests import (
    EXAMPLE_DEPLOYMENT,
    EXAMPLE_WORKLOAD,
    MemoryInferenceRequest,
    ServingRequest,
)
from service.estimation.starting import start_settings
from service.estimation.training.calibrations import training_figures
from service.estimation.training.estimate import training_memory_answer
from service.estimation.training.overheads import training_memory_overheads
from service.estimation.training.requests import EXAMPLE_TRAINING, MemoryTrainingRequest
from service.estimation.usual_engines import usual_engine


def with_engines(snapshot: CatalogSnapshot, *engines: dict[str, Any]) -> CatalogSnapshot:
    documents = {collection: dict(held) for collection, held in snapshot.documents().items()}
    for engine in engines:
        described = {"name": engine["id"], "aliases": [], "source": "headroom-assumption"}
        documents["engines"][engine["id"]] = described | engine
    return snapshot_from_documents(documents, 1)


def ids(found: Calibration) -> set[str]:
    """Ids of the entries that a calibration is made of."""
    return {entry.id for entry in found.used}


GENERATION = {"id": "a", "since": "2024", "differs": "all", "source": "headroom-assumption"}


def asked(engine: str, version: str | None = None) -> MemoryInferenceRequest:
    serving = {"engine": engine, "engine_version": version}
    body = EXAMPLE_DEPLOYMENT | {"workload": EXAMPLE_WORKLOAD, "serving": serving}
    return MemoryInferenceRequest(**body)


def test_a_release_has_the_figures_of_its_engine_where_it_has_none_of_its_own(packaged_snapshot):
    memory = runtime_memory(packaged_snapshot)
    newest, any_ = memory.of("vllm@v1"), memory.of("vllm")
    assert newest.counted_bytes.value == any_.counted_bytes.value
    assert newest.graphs_bytes == any_.graphs_bytes
    # What was fitted to an earlier generation holds for those that only start otherwise.
    later = memory.of("vllm@0.21")
    assert later.activation_ratio == newest.activation_ratio
    assert later.bytes_per_logit < newest.bytes_per_logit
    assert later.graphs_in_share > newest.graphs_in_share
    older = memory.of("vllm@before-0.6")
    assert older.bytes_per_logit == memory.of("vllm").bytes_per_logit
    assert memory.of("transformers@before-4.36").cache_copies == 2.0
    repeated = {
        "before-4.36": True,
        "shared-cache": True,
        "last-logits": True,
        "grouped-heads": False,
    }
    for generation, repeats in repeated.items():
        assert memory.of(f"transformers@{generation}").repeats_heads is repeats
    whole = {"shared-cache": True, "last-logits": False, "grouped-heads": False}
    for generation, of_every_token in whole.items():
        assert memory.of(f"transformers@{generation}").whole_prompt_logits is of_every_token
    assert not memory.of("autoawq").regrows_cache
    a100 = packaged_snapshot.find("accelerators", "a100-80gb").value
    found = calibration(packaged_snapshot, "transformers@before-4.36", a100)
    assert {"speed/engines/transformers", "speed/engines/transformers@before-4.36"} & ids(found)


def test_an_engine_that_is_like_another_is_computed_as_that_one_with_a_warning(packaged_snapshot):
    engine = {"id": "acme", "workloads": ["inference"], "like": "llama.cpp"}
    engine |= {"classes": {"inference": "llama.cpp-like"}}
    snapshot = with_engines(packaged_snapshot, engine)
    m2_max = snapshot.find("accelerators", "apple-m2-max-96gb").value
    found = calibration(snapshot, "acme", m2_max)
    assert "speed/engines/llama.cpp" in ids(found)
    assert not found.performance.measured
    said = [one.message for one in found.warnings]
    assert [message for message in said if "acme" in message] == [
        "no measurements of speed are published for acme on apple-silicon: those of similar "
        "software and hardware are used",
        "no measurements of memory are published for acme: those of llama.cpp are used",
    ]
    memory = runtime_memory(snapshot)
    like = memory.of("llama.cpp")
    assert memory.of("acme").engine == like.engine == "llama.cpp"
    assert memory.of("acme").bytes_per_logit == like.bytes_per_logit
    assert memory.of("tensorrt-llm").bytes_per_logit == memory.of("default").bytes_per_logit


def test_an_engine_that_ended_is_like_another_as_that_was_then(packaged_snapshot):
    """What CTransformers wraps is llama.cpp of September 2023, which replayed no graphs."""
    a100 = packaged_snapshot.find("accelerators", "a100-80gb").value

    def engine(release):
        return calibration(packaged_snapshot, release, a100).performance.engine

    ended, then, now = map(engine, ("ctransformers", "llama.cpp@2023", "llama.cpp@2026"))
    assert ended.layer_s == then.layer_s
    assert ended.replayed_accelerators == then.replayed_accelerators == 0.0
    assert now.replayed_accelerators > 0.0


def test_an_engine_of_no_measurements_is_computed_as_its_class_with_a_warning(packaged_snapshot):
    a100 = packaged_snapshot.find("accelerators", "a100-80gb").value
    found = calibration(packaged_snapshot, "openvino", a100)
    assert "speed/hardware/nvidia-ampere" in ids(found)
    assert "speed/engines/compiled" in ids(found)
    assert found.warnings[0].message == (
        "no measurements of speed are published for openvino on nvidia-ampere: those of similar "
        "software and hardware are used"
    )


def test_an_engine_that_was_not_measured_on_a_family_takes_what_others_measured_there(
    packaged_snapshot,
):
    h100 = packaged_snapshot.find("accelerators", "h100").value
    sglang = calibration(packaged_snapshot, "sglang", h100)
    vllm = calibration(packaged_snapshot, "vllm", h100)
    assert sglang.performance.hardware.memory_ratio == vllm.performance.hardware.memory_ratio
    assert sglang.performance.hardware.tile_rows == vllm.performance.hardware.tile_rows
    turing = packaged_snapshot.find("accelerators", "nvidia-t4-16gb").value
    older = calibration(packaged_snapshot, "vllm", turing).performance
    assert older.engine.layer_s == vllm.performance.engine.layer_s
    assert older.hardware.decode_log_sigma >= vllm.performance.hardware.decode_log_sigma


@pytest.mark.parametrize(
    ("engine", "version", "generation"),
    [
        ("vllm", None, "0.21"),
        ("vllm", "0.20.2", "0.17"),
        ("vllm", "0.2.5", "before-0.2.6"),
        ("vllm", "0.5.3", "before-0.6"),
        ("vllm", "v0.11.0", "v1"),
        ("vllm", "0.8.5.post1", "v1-0.8"),
        ("vllm", "2024-08", "before-0.6"),
        ("vllm", "2024-09-04", "before-0.6"),
        ("vllm", "2024-09-05", "v0"),
        ("vllm", "0.7.x (2025-02-11)", "v0-0.6.6"),
        ("vllm", "V0", "v0"),
        ("vLLM before 0.6", None, "before-0.6"),
        ("vllm-before-0.6", "0.4", "before-0.6"),
        ("transformers-before-4.36", None, "before-4.36"),
        ("transformers", "4.44.2", "shared-cache"),
        ("transformers", "4.53.3", "last-logits"),
        ("transformers", "4.54", "grouped-heads"),
        ("llama.cpp", "b4000", "2024"),
        ("llama.cpp", "7100", "2025"),
        ("llama.cpp", "7847", "2026"),
        ("llama.cpp", "2024-05 (llama-bench)", "2024"),
        ("exllamav2", None, "v2"),
        ("exllamav2", "0.1.5", "v2"),
        ("ExLlamaV3", "latest", "v3"),
        ("gpt-fast", "2023-12", None),
    ],
)
def test_a_version_or_a_date_chooses_the_generation(packaged_snapshot, engine, version, generation):
    answer = inference_memory_answer(asked(engine, version), packaged_snapshot)
    serving = answer["deployment"]["serving"]
    assert serving["engine_generation"] == generation
    assert serving["engine_version"] == version
    assert serving["engine"] == packaged_snapshot.find("engines", engine).id
    assert "release_before_first" not in {one["code"] for one in answer["warnings"]}


def test_a_date_alone_is_of_the_engine_that_most_run(packaged_snapshot):
    """A figure that has to be got again a year later states the day it was first got on."""
    body = EXAMPLE_DEPLOYMENT | {"serving": {"engine_version": "2024-08"}}
    answer = inference_memory_answer(MemoryInferenceRequest(**body), packaged_snapshot)
    serving = answer["deployment"]["serving"]
    assert (serving["engine"], serving["engine_generation"]) == ("vllm", "before-0.6")


@pytest.mark.parametrize(
    ("engine", "version", "detail"),
    [
        (
            "vllm",
            "banana",
            "vllm; name a date or one of before-0.2.6 (2023-06), before-0.6 (from 0.2.6",
        ),
        ("vllm", "32971d312954", "is not a release of vllm"),
        ("exllama", "0.1.5", "name a date or one of v1 (2023-05), v2 (2023-09)"),
        ("gpt-fast", "new", "neither a version of gpt-fast nor a date"),
        ("vllm-before-0.6", "0.11", "is before-0.6, not v1"),
        ("vllm", "2024-13", "'2024-13' is no date: write it as 2024, 2024-08 or 2024-08-31"),
        ("vllm", "2025-02-30", "is no date"),
        ("gpt-fast", "2023-00", "is no date"),
    ],
)
def test_a_version_that_means_nothing_is_refused_with_what_there_is(
    packaged_snapshot, engine, version, detail
):
    with pytest.raises(Rejected) as refused:
        inference_memory_answer(asked(engine, version), packaged_snapshot)
    [error] = refused.value.errors
    assert error.pointer == "/serving/engine_version"
    assert detail in error.detail


def test_releases_without_graphs_issue_kernels_one_by_one_and_scripts_wait_for_no_server(
    packaged_snapshot,
):
    a100 = packaged_snapshot.find("accelerators", "a100-80gb").value
    graphs = {"before-0.2.6": False, "before-0.6": True, "v1": True}
    for generation, replayed in graphs.items():
        release = f"vllm@{generation}"
        engine = calibration(packaged_snapshot, release, a100).performance.engine
        assert (engine.launch_bound, engine.replays_graphs) == (not replayed, replayed)
        script = calibration(packaged_snapshot, release, a100, usage="offline").performance.engine
        assert script.served_s == 0.0
        # Tokens become text without being sent.
        assert 0.0 < script.told_s < engine.told_s
    memory = runtime_memory(packaged_snapshot)
    assert memory.of("vllm@before-0.2.6").graphs_bytes.value == 0.0
    neuron = runtime_memory(packaged_snapshot).of("transformers-neuronx")
    assert not neuron.fuses_attention


def test_exllama_fuses_attention_of_prompts_but_saves_no_memory_by_it(packaged_snapshot):
    first = runtime_memory(packaged_snapshot).of("exllama@v1")
    # A causal mask lets PyTorch fuse it, whose temporary tensors are as large all the same.
    assert first.fuses_attention
    assert first.fused_features_multiple == 8.0
    assert first.score_bytes(None) == first.score_bytes(False) > 0.0
    assert runtime_memory(packaged_snapshot).of("exllama@v2").score_bytes(None) == 0.0


def test_what_is_older_than_all_that_is_known_is_answered_as_the_oldest(packaged_snapshot):
    answer = inference_memory_answer(asked("vllm", "2019"), packaged_snapshot)
    assert answer["deployment"]["serving"]["engine_generation"] == "before-0.2.6"
    [said] = [one for one in answer["warnings"] if one["code"] == "release_before_first"]
    assert "(before-0.2.6) dates from 2023-06" in said["message"]


@pytest.mark.parametrize(
    ("engine", "version", "said"),
    [
        ("vllm", "9.9", "no vLLM 9.9: the newest release that it knows is 0.33.0"),
        ("llama.cpp", "b99999", "no llama.cpp b99999: the newest release that it knows is b12429"),
        ("vllm", "0.33.0", None),
        ("vllm", "0.11.0", None),
        ("vllm", "nightly", None),
        ("vllm", "2026-11", None),
    ],
)
def test_a_release_newer_than_all_that_are_known_is_said(engine, version, said, packaged_snapshot):
    answer = inference_memory_answer(asked(engine, version), packaged_snapshot)
    told = [one["message"] for one in answer["warnings"] if one["code"] == "release_unknown"]
    assert len(told) == (said is not None)
    assert all(said in message for message in told)


def on(accelerator, **serving):
    body = EXAMPLE_DEPLOYMENT | {"workload": EXAMPLE_WORKLOAD, "serving": serving}
    return MemoryInferenceRequest(**body | {"accelerator": accelerator, "accelerator_count": 1})


@pytest.mark.parametrize(
    ("accelerator", "engine", "pointer", "detail"),
    [
        ("google-tpu-v6e", "tensorrt-llm", "/serving/engine", "these do: jetstream"),
        ("apple-m4-max-128gb", "exllama", "/serving/engine", "these do: ctransformers"),
        ("nvidia-p100-pcie-16gb", "vllm", "/serving/engine", "llama.cpp"),
        ("cerebras-wse-3", "vllm", "/serving/engine", "nor does any other engine"),
        ("cerebras-wse-3", None, "/accelerator", "vLLM does not run on Cerebras WSE-3"),
        ("groq-lpu-v1", None, "/accelerator", "its maker's own software"),
        ("sambanova-sn40l", None, "/accelerator", "its maker's own software"),
        ("aws-inferentia1", None, "/accelerator", "vLLM does not run on AWS Inferentia"),
    ],
)
def test_an_engine_that_does_not_run_on_the_hardware_is_refused_with_those_that_do(
    packaged_snapshot, accelerator, engine, pointer, detail
):
    with pytest.raises(Rejected) as refused:
        inference_memory_answer(on(accelerator, engine=engine), packaged_snapshot)
    [error] = refused.value.errors
    assert error.pointer == pointer
    assert detail in error.detail


@pytest.mark.parametrize(
    ("accelerator", "engine"),
    [
        ("nvidia-h100-sxm-80gb", "vllm"),
        ("amd-mi300x-192gb", "vllm"),
        ("nvidia-rtx-5090-32gb", "vllm"),
        ("nvidia-b200-sxm-180gb", "vllm"),
        ("google-tpu-v6e", "vllm"),
        ("aws-trainium2", "transformers-neuronx"),
        ("aws-inferentia2-core", "transformers-neuronx"),
        ("apple-m4-max-128gb", "llama.cpp"),
        ("raspberry-pi-5-16gb", "llama.cpp"),
        ("nvidia-p100-pcie-16gb", "llama.cpp"),
        ("amd-mi50-32gb", "llama.cpp"),
        ("amd-ryzen-ai-max-395-128gb", "llama.cpp"),
    ],
)
def test_the_engine_is_what_most_people_run_on_the_hardware(packaged_snapshot, accelerator, engine):
    answer = inference_memory_answer(on(accelerator), packaged_snapshot)
    assert answer["deployment"]["serving"]["engine"] == engine


@pytest.mark.parametrize(
    ("accelerator", "weights", "named", "engine"),
    [
        ("nvidia-h100-sxm-80gb", "gguf-q4_k_m", {}, "llama.cpp"),
        ("nvidia-h100-sxm-80gb", "gguf-q4_k_m", {"engine": "ollama"}, "ollama"),
        ("nvidia-h100-sxm-80gb", "awq-int4", {}, "vllm"),
        ("apple-m4-max-128gb", "bf16", {}, "llama.cpp"),
    ],
)
def test_gguf_files_are_served_by_llama_cpp_unless_another_engine_is_named(
    packaged_snapshot, accelerator, weights, named, engine
):
    body = on(accelerator, **named).model_dump(exclude_unset=True)
    request = MemoryInferenceRequest(**body | {"precision": {"weights": weights}})
    answer = inference_memory_answer(request, packaged_snapshot)
    assert answer["deployment"]["serving"]["engine"] == engine


def test_one_request_of_a_small_model_fits_one_card_with_every_engine(packaged_snapshot):
    # 16 GB of weights; an engine that knows no bound of a step has not measured an endless one.
    card = packaged_snapshot.accelerators["nvidia-h100-sxm-80gb"].value.hardware
    tried = [
        entry.id
        for entry in packaged_snapshot.engines.values()
        if "inference" in entry.value.workloads
        and entry.value.unestimated is None
        and entry.value.runs_on(card)
        and entry.value.formats.has("bf16")
    ]
    assert len(tried) > 15
    for engine in tried:
        body = {"model": "meta-llama/Llama-3.1-8B", "accelerator": "nvidia-h100-sxm-80gb"}
        request = MemoryInferenceRequest(**body, serving={"engine": engine})
        answer = inference_memory_answer(request, packaged_snapshot)
        assert answer["activations_bytes"]["value"] < 10e9, engine
        assert answer["fits"], engine


def test_no_accelerator_has_two_usual_engines_and_each_engine_runs_where_it_is_usual(
    packaged_snapshot,
):
    engines = [entry.value for entry in packaged_snapshot.engines.values()]
    for entry in packaged_snapshot.accelerators.values():
        hardware = entry.value.hardware
        usual = [one for one in engines if one.usual.has(hardware)]
        # Itself, such as a laptop's, counts before its family.
        own = [one for one in usual if one.usual.names_one(hardware)]
        assert len(own or usual) <= 1
        assert all(one.runs_on(hardware) for one in usual)


@pytest.mark.parametrize(
    ("id_", "engine"),
    [
        ("nvidia-rtx-4060-laptop-8gb", "llama.cpp"),
        ("nvidia-rtx-4090-24gb", "vllm"),
        ("nvidia-jetson-agx-orin-64gb", "llama.cpp"),
        ("nvidia-a100-sxm-80gb", "vllm"),
        ("amd-rx-7900-xtx-24gb", "llama.cpp"),
        ("amd-mi300x-192gb", "vllm"),
        ("amd-ryzen-9-9950x", "llama.cpp"),
        ("intel-arc-b580-12gb", "llama.cpp"),
    ],
)
def test_people_run_quantised_files_on_machines_of_their_own(packaged_snapshot, id_, engine):
    accelerator = packaged_snapshot.accelerators[id_].value
    assert usual_engine([accelerator], [], packaged_snapshot) == engine


def test_lists_of_hardware_name_what_there_is(packaged_snapshot):
    known = [entry.value.hardware for entry in packaged_snapshot.accelerators.values()]
    for entry in packaged_snapshot.engines.values():
        for name in entry.value.hardware.names | entry.value.usual.names:
            assert any(HardwareList(frozenset({name})).has(one) for one in known), name


def test_a_framework_that_does_not_run_on_the_hardware_is_refused(packaged_snapshot):
    body = EXAMPLE_TRAINING | {"accelerator": "google-tpu-v5p"}
    body |= {"training": {"framework": "megatron-lm"}}
    with pytest.raises(Rejected) as refused:
        training_memory_answer(MemoryTrainingRequest(**body), packaged_snapshot)
    [error] = refused.value.errors
    assert error.pointer == "/training/framework"
    assert "these do: default, levanter, litgpt, maxtext" in error.detail


def test_an_engine_that_no_formula_describes_is_refused_with_the_reason(packaged_snapshot):
    known = packaged_snapshot.engines["mlc-llm"]
    unknown = replace(known, value=replace(known.value, unestimated="nobody knows how it works"))
    engines = {**packaged_snapshot.engines, "mlc-llm": unknown}
    with pytest.raises(Rejected) as refused:
        inference_memory_answer(asked("mlc-llm", None), replace(packaged_snapshot, engines=engines))
    [error] = refused.value.errors
    assert error.pointer == "/serving/engine"
    assert "nobody knows how it works" in error.detail


def test_neuron_pads_attention_heads_to_what_its_ranks_divide(packaged_snapshot):
    # 32 heads on 12 chips of two cores: 48, two a core; 8 heads of keys and values have 3 copies.
    body = {"model": "meta-llama/Meta-Llama-3-8B", "accelerator": "aws-inferentia2"}
    body |= {"parallelism": {"tensor": 12}, "precision": {"weights": "int8"}}
    answer = inference_memory_answer(MemoryInferenceRequest(**body), packaged_snapshot)
    assert answer["deployment"]["total_parameters"] == 8_030_261_248
    [said] = [one for one in answer["warnings"] if one["code"] == "padded_heads"]
    filled = "pads 32 attention heads to 48, so that they divide among 12 accelerators of 2 cores"
    assert filled in said["message"]
    token_bytes = 32 * 2 * 24 * 128 * 2 / 12
    assert answer["kv_cache_bytes_per_token"] == pytest.approx(token_bytes)
    other = MemoryInferenceRequest(**body | {"serving": {"engine": "vllm"}})
    with pytest.raises(Rejected, match="cannot be divided by 12"):
        inference_memory_answer(other, packaged_snapshot)


def test_a_framework_is_dated_too(packaged_snapshot):
    body = EXAMPLE_TRAINING | {"training": {"framework": "nemo", "framework_version": "25.04"}}
    answer = training_memory_answer(MemoryTrainingRequest(**body), packaged_snapshot)
    assert answer["deployment"]["training"]["framework_generation"] == "2.x"
    assert answer["deployment"]["training"]["framework_version"] == "25.04"


def test_classes_of_the_catalog_have_a_reference_that_runs_the_same(packaged_snapshot):
    for class_ in CLASSES.values():
        assert packaged_snapshot.engines[class_.reference].value.classes[class_.workload] == (
            class_.id
        )


@pytest.mark.parametrize(
    ("name", "weights", "workload", "class_"),
    [
        ("Acme Server", None, "inference", "compiled"),
        ("Acme Server", "gguf-q4_k_m", "inference", "llama.cpp-like"),
        ("llama-cpp-turbo", None, "inference", "llama.cpp-like"),
        ("HF pipelines", "bf16", "inference", "eager"),
        ("MindSpeed", None, "training", "megatron-like"),
        ("Acme Trainer", None, "training", "trainer-like"),
        ("acme", None, "training", "fsdp-like"),
    ],
)
def test_an_engine_that_nobody_knows_has_a_class(name, weights, workload, class_):
    assert class_of_unknown(name, weights, workload) == class_


def test_a_framework_that_is_like_another_is_computed_as_that_one(packaged_snapshot):
    framework = {"id": "acme", "workloads": ["training"], "like": "torchtitan"}
    snapshot = with_engines(packaged_snapshot, framework)
    h100 = snapshot.accelerators["nvidia-h100-sxm-80gb"].value
    figures = training_figures(snapshot, "acme", h100)
    assert "training-speed/frameworks/torchtitan" in figures.entries
    assert "training speed are published for acme on nvidia-hopper" in figures.warnings[0].message
    assert training_memory_overheads(snapshot).of("acme").framework == "torchtitan"


@pytest.mark.parametrize(
    ("engine", "detail"),
    [
        ("vlm", "did you mean vllm"),
        ("vlm", "? For inference there are autoawq, "),
        ("qqqqqqqqqqqqqqqqqq", "'; for inference there are autoawq, "),
        (
            "torchtitan",
            "torchtitan is not estimated for inference on NVIDIA H100 SXM5 80 GB; these are: ",
        ),
    ],
)
def test_what_serves_nothing_is_refused_with_what_does(packaged_snapshot, engine, detail):
    with pytest.raises(Rejected) as refused:
        inference_memory_answer(asked(engine), packaged_snapshot)
    [error] = refused.value.errors
    assert error.pointer == "/serving/engine"
    assert detail in error.detail
    assert "vllm" in error.detail


@pytest.mark.parametrize("name", ["vLLM", "VLLM", "v-llm"])
def test_an_engine_is_found_by_what_people_write(packaged_snapshot, name):
    answer = inference_memory_answer(asked(name), packaged_snapshot)
    assert answer["deployment"]["serving"]["engine"] == "vllm"


@pytest.mark.parametrize(
    ("engine", "pointer", "detail"),
    [
        ({"like": "abacus"}, "/like", "no engine 'abacus'"),
        ({"like": "acme"}, "/like", "leads back"),
        ({"classes": {"inference": "slow"}}, "/classes/inference", "must be one of compiled"),
        ({"workloads": ["play"]}, "/workloads/0", "must be inference or training"),
        (
            {"generations": [{**GENERATION, "id": "b"}, {**GENERATION, "since": "2020"}]},
            "/generations/1/since",
            "from the oldest to the newest",
        ),
        ({"generations": [GENERATION, GENERATION]}, "/generations", "have the same id"),
        ({"generations": [{"id": "a"}]}, "/generations/0", "must be an object with"),
        ({"generations": [GENERATION | {"names": ["vllm"]}]}, "/generations/0/names", "already"),
        ({"generations": [GENERATION | {"source": "x"}]}, "/generations/0/source", "no source"),
        (
            {"generations": [GENERATION | {"constants_of": "a"}]},
            "/generations/0/constants_of",
            "must be the id of an earlier generation",
        ),
    ],
)
def test_an_engine_that_makes_no_sense_is_refused_with_the_place(
    packaged_snapshot, engine, pointer, detail
):
    documents = {name: dict(held) for name, held in packaged_snapshot.documents().items()}
    base = {"id": "acme", "name": "Acme", "workloads": ["inference"]}
    documents["engines"]["acme"] = base | {"aliases": [], "source": "headroom-assumption"} | engine
    errors = check_documents(documents, {})
    assert any(one.entry_id == "acme" and detail in one.detail for one in errors)
    assert {one.pointer for one in errors} <= {pointer, ""}


_PAIR = {
    **{f"matrix_{bits}bit_ratio": 0.6 for bits in (32, 16, 8, 4)},
    **{f"attention_{name}_ratio": 0.5 for name in ("matrix", "memory")},
    "memory_ratio": 0.7,
    "overlap_ratio": 0.9,
    "tile_rows": 9.0,
    "expert_ratio": 0.7,
    "link_ratio": 0.6,
    "step_s": 1e-3,
    "layer_s": 1e-5,
    "sequence_s": 1e-5,
    "collective_s": 1e-5,
    "launch_bound": True,
    "prefill_log_sigma": 0.4,
    "decode_log_sigma": 0.3,
}
_POWER = {"active_ratio": 0.4, "memory_ratio": 0.5, "compute_ratio": 0.9, "power_log_sigma": 0.2}
#: What engines took as releases stated it before it was fitted at levels.
_LIBRARIES = {"context_bytes": 5e8, "collectives_bytes": 4e8, "activation_ratio": 1.1}
#: Constants of pairs of engine and hardware family, and of any, as releases had them before levels.
_PAIRS = {
    **{f"performance/{engine}/default": _PAIR for engine in ("vllm", "vllm-before-0.6")},
    "performance/vllm/nvidia-ampere": _PAIR | {"memory_ratio": 0.8},
    "power/default": _POWER,
}


def test_revisions_of_earlier_releases_are_answered_from_as_ever(packaged_snapshot):
    """Before engines were entries, truths of calibrations were 1 and 0 under another name."""
    truths = {"launch_bound", "half_accumulation", "prefills_whole", "reserves_cache"}
    truths |= {"activations_in_share", "graphs_in_share"}
    stored: dict[str, dict[str, Any]] = {name: {} for name in COLLECTIONS}
    for collection, held in packaged_snapshot.documents().items():
        stored[collection] = dict(held)
    stored["engines"] = {}
    stored["calibrations"] = {
        id_: document
        for id_, document in stored["calibrations"].items()
        if id_.partition("/")[0] not in ("speed", "power", "memory")
    }
    for id_, document in stored["calibrations"].items():
        if id_.startswith("memory-runtime/"):
            figures = {name: {"value": value} for name, value in _LIBRARIES.items()}
            figures |= {
                name: one for name, one in document["figures"].items() if name != "counted_bytes"
            }
            stored["calibrations"][id_] = document | {"figures": figures}
    for id_, figures in _PAIRS.items():
        made = {name: {"value": value} for name, value in figures.items()}
        stored["calibrations"][id_] = {"id": id_, "applies_to": {"family": "a"}, "figures": made}
    stored["calibrations"] = {
        id_.replace("@", "-"): document | {"id": id_.replace("@", "-")}
        for id_, document in stored["calibrations"].items()
        if "vllm@v" not in id_
    }
    prepared = {"profiled_sequences": {"value": 256}, "large_profiled_sequences": {"value": 1024}}
    stored["calibrations"]["memory-runtime/vllm"]["figures"] |= prepared
    for id_, document in stored["calibrations"].items():
        figures = {
            f"{name}_ratio" if name in truths else name: one | {"value": float(one["value"])}
            for name, one in document["figures"].items()
        }
        stored["calibrations"][id_] = document | {"figures": figures}
    then = snapshot_from_documents(in_todays_form(stored), 1)
    assert "vllm-before-0.6" not in then.engines
    assert then.find("engines", "vllm-before-0.6").id == "vllm"
    for engine, entry in then.engines.items():
        assert entry.value.workloads <= packaged_snapshot.engines[engine].value.workloads
    for engine in ("vllm", "vllm@before-0.6", "transformers@before-4.36", "llama.cpp"):
        older, now = (runtime_memory(one).of(engine) for one in (then, packaged_snapshot))
        assert older.counted_bytes == Interval(5e8, 5e8, 5e8)
        assert older.activation_ratio.value == 1.1
        assert older.context_bytes.value == 0.0
        assert older.bytes_per_logit == now.bytes_per_logit
        assert older.cache_copies == now.cache_copies
    a100, h100 = "nvidia-a100-sxm-80gb", "nvidia-h100-sxm-80gb"
    for engine, accelerator, ratio in (("vllm", a100, 0.8), ("vllm@before-0.6", h100, 0.7)):
        found = calibration(then, engine, then.accelerators[accelerator].value)
        assert found.performance.hardware.memory_ratio == ratio
        assert found.performance.hardware.throughput_log_sigma == 0.3
        assert found.performance.power.active_ratio == 0.4
        assert found.performance.engine.launch_bound
        assert found.performance.measured
    now_held = packaged_snapshot.accelerators[a100].value
    assert asdict(then.accelerators[a100].value) == asdict(now_held)
    model = then.models["meta-llama/Llama-3.1-8B"].value
    for engine, accelerator, most in (
        ("vllm", a100, 256.0),
        ("vllm", h100, 1024.0),
        ("llama.cpp", a100, 1024.0),
    ):
        release, hardware = EngineRelease(engine), then.accelerators[accelerator].value
        started = start_settings(ServingRequest(), release, model, hardware, then)
        assert started == StartSettings(most, 8192.0, 0.9)
    assert sampled_sequences(runtime_memory(then).of("vllm"), 256.0).at(1.0) == 256.0


@pytest.mark.parametrize(
    ("release", "stand_in"),
    [("sglang@before-0.4", "vllm@v0"), ("sglang@overlapped", "vllm@v1"), ("tgi", "compiled")],
)
def test_what_stands_in_for_an_engine_is_of_its_day(release, stand_in, packaged_snapshot):
    # SGLang hides its scheduler since December 2024, when vLLM did not; no speed of it is packaged.
    card = packaged_snapshot.accelerators["nvidia-h100-sxm-80gb"].value
    found = calibration(packaged_snapshot, release, card)
    known = packaged_snapshot.calibrations[f"speed/engines/{stand_in}"].value
    assert found.performance.engine.step_s == known["step_s"].value
    assert "efficiency_not_measured" in {one.code for one in found.warnings}
