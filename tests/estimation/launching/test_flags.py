"""Every flag of a command is one that the engine's own parser takes."""

import re

import pytest

from tests.estimation.launching.parsers import listed
from tests.estimation.launching.test_start import started, told

#: Starts processes of PyTorch, whatever these run.
TORCHRUN = {"--nnodes", "--nproc-per-node"}
#: Flags of engines whose packages need a driver or are none of Python's, listed by hand: those of
#: trtllm-serve as at its commit 00209af. They hold a new flag of ours to a second look, and are no
#: proof that the engine takes it.
DOCUMENTED = {
    "tensorrt-llm": "--host --tp_size --pp_size --ep_size --max_seq_len --max_batch_size "
    "--max_num_tokens --kv_cache_free_gpu_memory_fraction",
    "llama.cpp": "--model --ctx-size --parallel --cache-type-k --cache-type-v --n-gpu-layers",
    "torchtune": "--nnodes --nproc_per_node --config",
}
#: What flags of engines take that no package tells: tensorrt_llm/commands/serve.py at commit
#: 00209af, common/arg.cpp of llama.cpp at commit 145b628, megatron/training/arguments.py of
#: Megatron-LM at commit 000c4ac, launcher/src/main.rs of Text Generation Inference at 009c4e0.
_CACHES = ["f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1"]
DOCUMENTED_VALUES = {
    "tensorrt-llm": dict.fromkeys(
        [
            "--tp_size",
            "--pp_size",
            "--ep_size",
            "--max_seq_len",
            "--max_batch_size",
            "--max_num_tokens",
        ],
        "integer",
    )
    | {"--kv_cache_free_gpu_memory_fraction": "number", "--host": "text"},
    "llama.cpp": {"--cache-type-k": _CACHES, "--cache-type-v": _CACHES}
    | dict.fromkeys(("--ctx-size", "--parallel", "--n-gpu-layers"), "integer"),
    "megatron-lm": dict.fromkeys(
        [
            *("--tensor-model-parallel-size", "--pipeline-model-parallel-size"),
            *("--num-virtual-stages-per-pipeline-rank", "--context-parallel-size"),
            *("--expert-model-parallel-size", "--micro-batch-size", "--global-batch-size"),
            *("--seq-length", "--train-samples", "--recompute-num-layers", "--mtp-num-layers"),
            "--num-distributed-optimizer-instances",
        ],
        "integer",
    )
    | dict.fromkeys(
        [
            *("--sequence-parallel", "--use-distributed-optimizer", "--use-megatron-fsdp"),
            *("--overlap-grad-reduce", "--overlap-param-gather", "--grad-reduce-in-bf16"),
            *("--no-gradient-accumulation-fusion", "--account-for-embedding-in-pipeline-split"),
            *("--account-for-loss-in-pipeline-split", "--bf16"),
            "--moe-pad-expert-input-to-capacity",
        ],
        "switch",
    )
    | {
        "--pipeline-model-parallel-layout": "text",
        "--recompute-granularity": ["full", "selective"],
        "--recompute-method": ["uniform", "block"],
        "--fp8-format": ["e4m3", "hybrid"],
        "--fp8-recipe": ["tensorwise", "delayed", "mxfp8", "blockwise", "custom"],
        "--data-parallel-sharding-strategy": [
            *("no_shard", "optim", "optim_grads", "optim_grads_params"),
        ],
        "--ckpt-format": ["torch", "torch_dist", "zarr", "torch_dcp", "fsdp_dtensor"],
        "--optimizer": ["adam", "sgd"],
        "--moe-expert-capacity-factor": "number",
    },
    "tgi": dict.fromkeys(
        [
            *("--num-shard", "--max-total-tokens", "--max-concurrent-requests"),
            *("--max-batch-prefill-tokens", "--cuda-graphs", "--port"),
        ],
        "integer",
    )
    | {
        "--model-id": "text",
        "--cuda-memory-fraction": "number",
        "--kv-cache-dtype": ["fp8_e4m3fn", "fp8_e5m2"],
        "--quantize": [
            *("awq", "compressed-tensors", "eetq", "exl2", "gptq", "marlin", "bitsandbytes"),
            *("bitsandbytes-nf4", "bitsandbytes-fp4", "fp8"),
        ],
    },
}
#: Engines that are started as another one is.
ALIKE = {"peft": "transformers"}


def flags_in(way):
    """All flags that a way to start can say, whatever the settings are."""
    if isinstance(way, str):
        return set(re.findall(r"^--[\w.-]+", way))
    parts = way.values() if isinstance(way, dict) else way if isinstance(way, list) else ()
    return {flag for part in parts for flag in flags_in(part)}


def ways_to_start(snapshot):
    return [
        (engine.id, way, engine.document[way])
        for engine in snapshot.engines.values()
        for way in ("start", "starts_training")
        if way in engine.document
    ]


def test_every_flag_is_one_of_the_engines_own(packaged_snapshot):
    parsers = listed()
    for engine, way, document in ways_to_start(packaged_snapshot):
        one = ALIKE.get(engine, engine)
        known = set(DOCUMENTED[one].split() if one in DOCUMENTED else ())
        known |= DOCUMENTED_VALUES.get(one, {}).keys() | set(parsers.get(one, {}).get("flags", ()))
        said = {part: value for part, value in document.items() if part != "notes"}
        assert flags_in(said) - known - TORCHRUN == set(), (engine, way)
        assert flags_in(said), engine


def spelled(document):
    """Flags with a value that commands give them, None where they have none."""
    sharing = document.get("sharing", {})
    words = [document["command"], document.get("fixed", []), sharing.get("words", [])]
    for name, flag in document["flags"].items():
        if isinstance(flag, str):
            words.append([flag, "0.5" if name.endswith("_ratio") else "8"])
        elif "flag" in flag:
            names = [flag[one] for one in ("flag", "also") if one in flag]
            words += [[one, value] for one in names for value in flag["values"].values()]
        else:
            words += flag["words"].values() if "words" in flag else [[flag["switch"]]]
    for each in words:
        told = ["8" if "{" in word else word for word in each]
        for word, following in zip(told, [*told[1:], "--"], strict=False):
            if word.startswith("--"):
                yield word, None if following.startswith("--") else following


def takes(kind, value):
    if kind == "switch" or value is None:
        return kind == "switch" and value is None
    if isinstance(kind, list):
        return value in kind
    pattern = {"integer": r"-?\d+", "number": r"-?\d+(\.\d+)?"}.get(kind, r".+")
    return re.fullmatch(pattern, value) is not None


def test_every_value_is_of_the_kind_that_the_engines_parser_takes(packaged_snapshot):
    parsers = listed()
    checked = set()
    for engine, _, document in ways_to_start(packaged_snapshot):
        one = ALIKE.get(engine, engine)
        kinds = DOCUMENTED_VALUES.get(one) or parsers.get(one, {}).get("values", {})
        for flag, value in spelled(document):
            if flag in kinds:
                checked.add((engine, flag))
                assert takes(kinds[flag], value), (engine, flag, value, kinds[flag])
    assert {engine for engine, _ in checked} >= {
        *("vllm", "sglang", "tensorrt-llm", "llama.cpp", "torchtitan", "peft", "transformers"),
        *("megatron-lm", "tgi", "lmdeploy", "deepspeed"),
    }
    assert len(checked) > 80


def test_lists_say_which_release_they_are_of():
    for engine, parser in listed().items():
        assert re.fullmatch(r"\d+(\.\d+)+", str(parser["version"])), engine
        assert len(parser["flags"]) > 20, engine


@pytest.mark.parametrize("cache", ["gguf-q8_0", "gguf-q4_0"])
def test_llama_cpp_narrows_keys_and_values(packaged_snapshot, cache):
    start = started(
        packaged_snapshot,
        model="meta-llama/Llama-3.1-8B",
        accelerator_count=1,
        parallelism=None,
        precision={"weights": "gguf-q4_k_m", "kv_cache": cache},
        serving={"engine": "llama.cpp"},
    )
    flags = told(start["command"])
    assert flags["--cache-type-k"] == flags["--cache-type-v"] == cache.removeprefix("gguf-")
