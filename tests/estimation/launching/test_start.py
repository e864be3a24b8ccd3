"""Commands and manifests that start what was estimated."""

import shlex
from dataclasses import replace
from types import SimpleNamespace

import pytest
import yaml

from service.core.number_formats import NUMBER_FORMATS
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.launching.command import start_of

ASKED = {
    "model": "meta-llama/Llama-3.1-70B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8,
    "parallelism": {"tensor": 4, "data": 2},
    "region": "aws/us-east-1",
    "workload": {"input_tokens": 1000, "output_tokens": 200, "concurrency": 32},
}


TGI = {"engine": "tgi"}


def started(snapshot, machine=None, vendor="NVIDIA", shipped="bf16", longest=131_072, **changes):
    estimate = inference_estimate(InferenceRequest.model_validate(ASKED | changes), snapshot)
    deployment = estimate["deployment"]
    engine = snapshot.engines[deployment["serving"]["engine"]]
    model = snapshot.models[deployment["model"]].value
    accelerator = snapshot.accelerators[deployment["accelerator"]].value
    platform = accelerator.platform
    return start_of(
        engine,
        estimate,
        deployment["model"],
        shipped,
        replace(model, max_position_embeddings=longest),
        replace(
            accelerator,
            vendor=vendor,
            platform=replace(platform, accelerators=machine or platform.accelerators),
        ),
    )


def told(command):
    """Flags with their values; those that stand alone with None."""
    words, found = shlex.split(command), {}
    for at, word in enumerate(words):
        if word.startswith("-"):
            after = words[at + 1] if at + 1 < len(words) else "-"
            found[word] = None if after.startswith("-") else after
    return found


def test_the_command_tells_every_setting_of_the_estimate(packaged_snapshot):
    start = started(packaged_snapshot, serving={"enforce_eager": True, "max_running_sequences": 48})
    assert start["command"].startswith("vllm serve meta-llama/Llama-3.1-70B ")
    flags = told(start["command"])
    assert flags["--tensor-parallel-size"] == "4"
    assert flags["--data-parallel-size"] == "2"
    assert "--pipeline-parallel-size" not in flags
    assert flags["--max-num-seqs"] == "48"
    assert flags["--max-model-len"] == "4096"
    assert flags["--gpu-memory-utilization"] == "0.92"
    assert flags["--enforce-eager"] is None
    assert "--quantization" not in flags
    assert start["notes"] == []
    assert start["source"] in {one.id for one in packaged_snapshot.sources.values()}


def test_formats_are_converted_by_the_engine_or_asked_of_the_reader(packaged_snapshot):
    fp8 = started(packaged_snapshot, precision={"weights": "fp8", "kv_cache": "fp8"})
    assert told(fp8["command"])["--quantization"] == "fp8"
    assert told(fp8["command"])["--kv-cache-dtype"] == "fp8"
    awq = started(packaged_snapshot, precision={"weights": "awq-int4"})
    assert "--quantization" not in told(awq["command"])
    assert "awq-int4" in awq["notes"][0]
    shipped = started(packaged_snapshot, shipped="fp8", precision={"weights": "fp8"})
    assert "--quantization" not in told(shipped["command"])


def test_engines_without_replicas_say_to_start_several(packaged_snapshot):
    start = started(packaged_snapshot, serving={"engine": "tensorrt-llm"})
    assert told(start["command"])["--tp_size"] == "4"
    assert start["notes"] == [
        "start 2 of these, each on its own accelerators, behind a load balancer"
    ]


def test_a_file_of_weights_is_named_for_native_engines(packaged_snapshot):
    start = started(
        packaged_snapshot,
        model="meta-llama/Llama-3.1-8B",
        accelerator_count=1,
        parallelism=None,
        precision={"weights": "gguf-q4_k_m"},
        serving={"engine": "llama.cpp", "max_running_sequences": 2},
    )
    flags = told(start["command"])
    assert flags["--model"] == "Llama-3.1-8B-Q4_K_M.gguf"
    assert flags["--ctx-size"] == str(2 * 4096)
    assert flags["--n-gpu-layers"] == "999"
    assert start["notes"] == [
        "take a build of llama.cpp for cuda (-DGGML_CUDA=ON)",
        "Llama-3.1-8B-Q4_K_M.gguf is the model in gguf-q4_k_m: fetch a published one, or "
        "convert it",
    ]
    assert start["kubernetes"] is None


def test_a_cache_that_is_taken_whole_is_no_larger_than_was_estimated(packaged_snapshot):
    asked = {
        "model": "Qwen/Qwen3-32B",
        "accelerator": "nvidia-rtx-4090-24gb",
        "accelerator_count": 1,
        "parallelism": None,
        "precision": {"weights": "gguf-q4_k_m"},
        "serving": {"engine": "llama.cpp"},
        "workload": {"input_tokens": 4000, "output_tokens": 800, "concurrency": 1},
    }
    flags = told(started(packaged_snapshot, **asked)["command"])
    # A second slot of as many tokens, or a longer one, would not fit beside 20 GB of weights.
    assert flags["--parallel"] == "1"
    assert 4800 <= int(flags["--ctx-size"]) < 16_384


def test_copies_of_experts_are_started_one_by_one(packaged_snapshot):
    # vLLM, Data Parallel Deployment, 2026: by default, expert layers form a tensor parallel group
    # of size DP x TP.
    experts = started(packaged_snapshot, model="Qwen/Qwen3-30B-A3B")
    assert "--data-parallel-size" not in told(experts["command"])
    assert experts["notes"][0].startswith("start 2 of these, ")
    # Nor does one command reach accelerators of another machine without an address.
    apart = started(packaged_snapshot, machine=4)
    assert "--data-parallel-size" not in told(apart["command"])
    assert apart["notes"][0].startswith("start 2 of these, ")


def test_copies_that_share_experts_are_started_together(packaged_snapshot):
    def shared(engine, copies=8):
        return started(
            packaged_snapshot,
            model="deepseek-ai/DeepSeek-V2",
            accelerator_count=copies,
            parallelism={"data": copies, "expert": 8},
            serving={"engine": engine},
        )

    # vLLM counts copies, SGLang and TensorRT-LLM the accelerators of all of them.
    flags = told(shared("vllm")["command"])
    assert flags["--data-parallel-size"] == "8"
    assert "--enable-expert-parallel" in flags
    assert "--tensor-parallel-size" not in flags
    flags = told(shared("sglang")["command"])
    assert (flags["--tp-size"], flags["--dp-size"], flags["--ep-size"]) == ("8", "8", "8")
    assert "--enable-dp-attention" in flags
    start = shared("tensorrt-llm")
    flags = told(start["command"])
    assert (flags["--tp_size"], flags["--ep_size"]) == ("8", "8")
    assert any("enable_attention_dp" in note for note in start["notes"])
    # A pod runs a group of copies; two groups are two pods.
    two = shared("vllm", copies=16)
    assert two["notes"][0].startswith("start 2 of these, ")
    deployment = next(iter(yaml.safe_load_all(two["kubernetes"])))
    assert deployment["spec"]["replicas"] == 2
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["nvidia.com/gpu"] == 8
    assert "--data-parallel-size" in container["command"]


def test_a_host_of_a_rack_has_four_of_its_accelerators(packaged_snapshot):
    rack = started(
        packaged_snapshot,
        accelerator="nvidia-gb200-186gb",
        parallelism={"tensor": 8, "data": 1},
    )
    assert any("accelerators of several machines" in note for note in rack["notes"])
    assert rack["kubernetes"] is None


def test_the_image_is_that_of_the_accelerators_vendor(packaged_snapshot):
    amd = started(packaged_snapshot, accelerator="amd-mi300x-192gb", vendor="AMD")
    deployment, _ = yaml.safe_load_all(amd["kubernetes"])
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "rocm/vllm"
    assert list(container["resources"]["limits"]) == ["amd.com/gpu"]


def test_files_are_named_and_fetched_as_their_repositories_have_them(packaged_snapshot):
    start = started(
        packaged_snapshot,
        model="uygarkurt/Llama-3.1-8B-Instruct-GGUF",
        accelerator="apple-m3-ultra-512gb",
        accelerator_count=1,
        parallelism=None,
        precision={"weights": "gguf-q4_k_m"},
        serving={"engine": "llama.cpp"},
    )
    file = "Llama-3.1-8B-Instruct-Q4_K_M.gguf"
    assert told(start["command"])["--model"] == file
    assert f"fetch {file} from uygarkurt/Llama-3.1-8B-Instruct-GGUF" in start["notes"]


def test_clusters_hand_out_no_processors_and_no_boards(packaged_snapshot):
    one = {"accelerator_count": 1, "parallelism": None}
    for accelerator in ("amd-epyc-9654", "jetson-agx-orin-64gb"):
        start = started(packaged_snapshot, accelerator=accelerator, **one)
        assert start["kubernetes"] is None


def test_an_image_that_has_to_set_itself_up_is_given_arguments(packaged_snapshot):
    """Its entry point activates the program's environment, and it listens on 80 unless told."""
    start = started(packaged_snapshot, accelerator_count=1, parallelism=None, serving=TGI)
    flags = told(start["command"])
    # Without a number, it divides a model among all accelerators that it sees.
    assert (flags["--num-shard"], flags["--port"]) == ("1", "3000")
    deployment, service = yaml.safe_load_all(start["kubernetes"])
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "command" not in container
    assert container["args"] == shlex.split(start["command"])[1:]
    assert service["spec"]["ports"][0]["targetPort"] == 3000


def test_the_manifest_runs_one_replica_a_pod(packaged_snapshot):
    start = started(packaged_snapshot)
    deployment, service = yaml.safe_load_all(start["kubernetes"])
    assert deployment["spec"]["replicas"] == 2
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 4}
    assert "--data-parallel-size" not in container["command"]
    assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["containerPort"]
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]


@pytest.mark.parametrize("changed", [{"machine": 2}, {"vendor": "Cerebras"}])
def test_without_one_machine_or_a_resource_name_there_is_no_manifest(packaged_snapshot, changed):
    start = started(packaged_snapshot, **changed)
    assert start["kubernetes"] is None
    assert bool(start["notes"]) == ("machine" in changed)


def test_the_longest_sequence_is_no_longer_than_the_model_takes(packaged_snapshot):
    start = started(packaged_snapshot, longest=3000)
    assert told(start["command"])["--max-model-len"] == "3000"


def test_engines_of_unknown_flags_have_no_command():
    engine = SimpleNamespace(document={})
    assert start_of(engine, {}, "model", "bf16", None, None) is None


def test_every_listed_flag_belongs_to_a_format_that_exists(packaged_snapshot):
    commands = {}
    for entry in packaged_snapshot.engines.values():
        told_of = entry.document.get("start")
        if told_of is None:
            continue
        commands[entry.id] = told_of
        for name in ("weights", "kv_cache"):
            flag = told_of["flags"].get(name)
            assert flag is None or set(flag["values"]) <= set(NUMBER_FORMATS)
    assert {"vllm", "sglang", "tensorrt-llm", "tgi", "lmdeploy", "llama.cpp"} <= set(commands)


def test_the_command_says_that_it_leaves_nothing_outside(packaged_snapshot):
    beside = started(packaged_snapshot, serving={"memory_tiers": ["ddr5-8ch"]})
    assert any("how much of it lies outside" in note for note in beside["notes"])
    assert not any("outside" in note for note in started(packaged_snapshot)["notes"])


def test_the_share_leaves_what_the_engine_keeps_free_by_the_layout(packaged_snapshot):
    """A share that a flag states is taken as it is: SGLang would keep nothing more of it."""

    def share(**changes):
        flags = told(started(packaged_snapshot, **changes)["command"])
        return float(flags["--mem-fraction-static"])

    sglang = {"serving": {"engine": "sglang"}}
    one = share(**sglang, model="meta-llama/Llama-3.1-8B", parallelism={"data": 8})
    eight = share(**sglang, parallelism={"tensor": 8})
    # 1 GiB for eight accelerators less the first's part, and 512 MiB for larger graphs, of 80 GiB.
    assert one - eight == pytest.approx((7 / 8 + 1 / 2) / 79.2, abs=1e-3)
    assert share(serving={"engine": "sglang", "memory_utilization_ratio": 0.8}) == 0.8
