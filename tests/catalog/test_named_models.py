"""Names of downloads are read as the model that they hold, in the format that they say."""

from __future__ import annotations

import pytest

from service.catalog.entries.references import UnknownReference
from service.catalog.entries.release_names import readings
from service.catalog.named_models import TAKEN_FOR, model_named
from service.core.memory.weights import total_model_bytes
from service.estimation.requests import PrecisionRequest
from service.estimation.resolution import weights_format

#: Names of repositories, files and tags that are no entries, with the model and the format.
RELEASES = {
    "nvidia/DeepSeek-R1-0528-FP4": ("deepseek-ai/DeepSeek-R1", "nvfp4"),
    "nvidia/Llama-3.1-405B-Instruct-FP8": ("meta-llama/Llama-3.1-405B", "fp8"),
    "nvidia/Llama-3.3-70B-Instruct-FP4": ("meta-llama/Llama-3.3-70B-Instruct", "nvfp4"),
    "nvidia/Llama-3.3-70B-Instruct-FP8": ("meta-llama/Llama-3.3-70B-Instruct", "fp8"),
    "nvidia/Mixtral-8x7B-Instruct-v0.1-FP8": ("mistralai/Mixtral-8x7B-v0.1", "fp8"),
    "nvidia/Qwen3-235B-A22B-FP4": ("Qwen/Qwen3-235B-A22B", "nvfp4"),
    "nvidia/GLM-4.7-NVFP4": ("zai-org/GLM-4.7", "nvfp4"),
    "neuralmagic/Meta-Llama-3.1-405B-Instruct-FP8": ("meta-llama/Llama-3.1-405B", "fp8"),
    "neuralmagic/Mixtral-8x22B-Instruct-v0.1-FP8": (
        "mistralai/Mixtral-8x22B-Instruct-v0.1",
        "fp8",
    ),
    "RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w8a8": ("meta-llama/Llama-3.1-70B", "int8"),
    "RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w8a16": (
        "meta-llama/Llama-3.1-70B",
        "gptq-int8",
    ),
    "RedHatAI/Qwen2.5-72B-Instruct-quantized.w4a16": ("Qwen/Qwen2.5-72B", "gptq-int4"),
    "RedHatAI/Qwen3-30B-A3B-FP8-block": ("Qwen/Qwen3-30B-A3B", "fp8"),
    "TheBloke/Llama-2-70B-Chat-GPTQ": ("meta-llama/Llama-2-70b-hf", "gptq-int4"),
    "TheBloke/Llama-2-70B-Chat-AWQ": ("meta-llama/Llama-2-70b-hf", "awq-int4"),
    "TheBloke/Llama-2-70B-Chat-GGUF": ("meta-llama/Llama-2-70b-hf", "gguf-q4_k_m"),
    "TheBloke/Llama-2-7B-GGML": ("meta-llama/Llama-2-7b-hf", "gguf-q4_0"),
    "TheBloke/CodeLlama-34B-Instruct-GPTQ": ("codellama/CodeLlama-34b-hf", "gptq-int4"),
    "Qwen/Qwen2.5-72B-Instruct-GPTQ-Int8": ("Qwen/Qwen2.5-72B", "gptq-int8"),
    "Qwen/Qwen1.5-72B-Chat-GPTQ-Int4": ("Qwen/Qwen1.5-72B", "gptq-int4"),
    "Qwen/Qwen-72B-Chat-Int4": ("Qwen/Qwen-72B", "gptq-int4"),
    "Qwen/Qwen-7B-Chat-Int8": ("Qwen/Qwen-7B", "gptq-int8"),
    "Qwen/Qwen3-Next-80B-A3B-Thinking-FP8": ("Qwen/Qwen3-Next-80B-A3B-Thinking", "fp8"),
    "Qwen/Qwen3-8B-GGUF": ("Qwen/Qwen3-8B", "gguf-q4_k_m"),
    "Qwen/Qwen3-8B-MLX-4bit": ("Qwen/Qwen3-8B", "mlx-4bit"),
    "unsloth/llama-3-8b-bnb-4bit": ("meta-llama/Meta-Llama-3-8B", "bnb-nf4"),
    "unsloth/Qwen3-14B-unsloth-bnb-4bit": ("Qwen/Qwen3-14B", "bnb-nf4"),
    "unsloth/DeepSeek-R1-0528-GGUF:Q2_K_XL": ("deepseek-ai/DeepSeek-R1", "gguf-q2_k"),
    "unsloth/gpt-oss-20b-BF16": ("openai/gpt-oss-20b", "bf16"),
    "bartowski/Llama-3.3-70B-Instruct-GGUF:Q4_K_M": (
        "meta-llama/Llama-3.3-70B-Instruct",
        "gguf-q4_k_m",
    ),
    "bartowski/google_gemma-3-27b-it-GGUF": ("google/gemma-3-27b-it", "gguf-q4_k_m"),
    "bartowski/deepseek-ai_DeepSeek-R1-0528-GGUF": ("deepseek-ai/DeepSeek-R1", "gguf-q4_k_m"),
    "lmstudio-community/Qwen3-8B-GGUF": ("Qwen/Qwen3-8B", "gguf-q4_k_m"),
    "mlx-community/Meta-Llama-3.1-8B-Instruct-4bit": ("meta-llama/Llama-3.1-8B", "mlx-4bit"),
    "mlx-community/DeepSeek-R1-3bit": ("deepseek-ai/DeepSeek-R1", "mlx-3bit"),
    "mlx-community/Qwen3-235B-A22B-8bit": ("Qwen/Qwen3-235B-A22B", "mlx-8bit"),
    "mlx-community/Qwen3-30B-A3B-Instruct-2507-4bit-DWQ": (
        "Qwen/Qwen3-30B-A3B-Instruct-2507",
        "mlx-4bit",
    ),
    "mlx-community/gemma-3-27b-it-qat-4bit": ("google/gemma-3-27b-it", "mlx-4bit"),
    "mlx-community/Qwen2.5-72B-Instruct-bf16": ("Qwen/Qwen2.5-72B", "bf16"),
    "casperhansen/deepseek-r1-distill-llama-70b-awq": (
        "deepseek-ai/DeepSeek-R1-Distill-Llama-70B",
        "awq-int4",
    ),
    "hugging-quants/Meta-Llama-3.1-405B-Instruct-GPTQ-INT4": (
        "meta-llama/Llama-3.1-405B",
        "gptq-int4",
    ),
    "hugging-quants/Meta-Llama-3.1-405B-Instruct-BNB-NF4": (
        "meta-llama/Llama-3.1-405B",
        "bnb-nf4",
    ),
    "amd/Llama-3.1-70B-Instruct-FP8-KV": ("meta-llama/Llama-3.1-70B", "fp8"),
    "amd/Mixtral-8x7B-Instruct-v0.1-FP8-KV": ("mistralai/Mixtral-8x7B-v0.1", "fp8"),
    "amd/DeepSeek-R1-MXFP4": ("deepseek-ai/DeepSeek-R1", "mxfp4"),
    "amd/Llama-3.1-405B-Instruct-MXFP4-Preview": ("meta-llama/Llama-3.1-405B", "mxfp4"),
    "amd/gpt-oss-120b-w-mxfp4-a-fp8": ("openai/gpt-oss-120b", "mxfp4"),
    "cognitivecomputations/DeepSeek-V3-0324-AWQ": ("deepseek-ai/DeepSeek-V3", "awq-int4"),
    "ISTA-DASLab/gemma-3-27b-it-GPTQ-4b-128g": ("google/gemma-3-27b-it", "gptq-int4"),
    "OPEA/DeepSeek-V3-int4-sym-gptq-inc": ("deepseek-ai/DeepSeek-V3", "gptq-int4"),
    "Intel/DeepSeek-R1-0528-int4-asym-AutoRound": ("deepseek-ai/DeepSeek-R1", "gptq-int4"),
    "cpatonn/Qwen3-Coder-30B-A3B-Instruct-AWQ-4bit": (
        "Qwen/Qwen3-Coder-30B-A3B-Instruct",
        "awq-int4",
    ),
    "LoneStriker/Mixtral-8x7B-Instruct-v0.1-4.0bpw-h6-exl2": (
        "mistralai/Mixtral-8x7B-v0.1",
        "exl2-4.0bpw",
    ),
    "llama3.1:8b-instruct-q4_K_M": ("meta-llama/Llama-3.1-8B", "gguf-q4_k_m"),
    "llama3.1:8b-instruct-fp16": ("meta-llama/Llama-3.1-8B", "fp16"),
    "llama2:70b-chat-q4_K_M": ("meta-llama/Llama-2-70b-hf", "gguf-q4_k_m"),
    "qwen3:8b-q8_0": ("Qwen/Qwen3-8B", "gguf-q8_0"),
    "Qwen3-30B-A3B-Q4_K_M.gguf": ("Qwen/Qwen3-30B-A3B", "gguf-q4_k_m"),
    "llama-2-7b.Q4_0.gguf": ("meta-llama/Llama-2-7b-hf", "gguf-q4_0"),
    "DeepSeek-R1-Q4_K_M-00001-of-00009.gguf": ("deepseek-ai/DeepSeek-R1", "gguf-q4_k_m"),
    "models/Llama-3.3-70B-Instruct-UD-Q4_K_XL.gguf": (
        "meta-llama/Llama-3.3-70B-Instruct",
        "gguf-q4_k_m",
    ),
    "gpt-oss-120b-mxfp4.gguf": ("openai/gpt-oss-120b", "gguf-mxfp4"),
    "Llama-3.1-405B FP8": ("meta-llama/Llama-3.1-405B", "fp8"),
}
#: Names of copies, variants and organisations of another name, with the entry that they are.
COPIES = {
    "unsloth/Llama-3.2-3B-Instruct": "meta-llama/Llama-3.2-3B",
    "unsloth/gpt-oss-20b": "openai/gpt-oss-20b",
    "RedHatAI/gpt-oss-120b": "openai/gpt-oss-120b",
    "NousResearch/Llama-2-7b-hf": "meta-llama/Llama-2-7b-hf",
    "decapoda-research/llama-7b-hf": "huggyllama/llama-7b",
    "meta-llama/Llama-2-70b-chat": "meta-llama/Llama-2-70b-hf",
    "mosaicml/mpt-7b-chat": "mosaicml/mpt-7b",
    "neuralmagic/Meta-Llama-3.1-70B-Instruct-FP8": "RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8",
    "CohereLabs/c4ai-command-r-plus": "CohereForAI/c4ai-command-r-plus",
    "llama2-70b-99.9": "meta-llama/Llama-2-70b-hf",
    "zai-org/GLM-4-32B-0414": "THUDM/GLM-4-32B-0414",
}
#: Names of which nothing is known, or too little.
UNKNOWN = (
    *("TheBloke/Nothing-70B-AWQ", "someone/My-Tune-FP8", "unheard-of-Q4_K_M.gguf"),
    *("-FP8", ".gguf", "/", "AWQ", "nvidia/-NVFP4", "gguf", "GPT-4o-FP8"),
    # Which version of it differs in more than its tuning.
    *("mistral-7b-instruct", "TheBloke/Mistral-7B-Instruct-AWQ"),
)


@pytest.mark.parametrize(("name", "meant"), RELEASES.items())
def test_a_release_is_its_model_in_the_format_that_its_name_says(packaged_snapshot, name, meant):
    found = model_named(name, packaged_snapshot)
    assert (found.document["base_model"], found.value.native_format) == meant
    base = packaged_snapshot.models[meant[0]].value
    assert found.value.total_parameters == base.total_parameters
    [remark] = [one for one in found.value.warnings if one.code == TAKEN_FOR]
    assert all(told.casefold() in remark.message.casefold() for told in (name, *meant))


@pytest.mark.parametrize(("name", "meant"), COPIES.items())
def test_a_copy_is_the_entry_that_it_is_of_and_says_so(packaged_snapshot, name, meant):
    found = model_named(name, packaged_snapshot)
    assert found.id == meant
    assert [one.code for one in found.value.warnings].count(TAKEN_FOR) == 1


def test_entries_are_themselves_without_a_remark(packaged_snapshot):
    for id_, entry in packaged_snapshot.models.items():
        assert model_named(id_, packaged_snapshot) is entry


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_is_not_known_stays_unknown(packaged_snapshot, name):
    with pytest.raises(UnknownReference):
        model_named(name, packaged_snapshot)


def test_a_publisher_leaves_the_same_as_it_is_in_releases_of_one_kind(packaged_snapshot):
    """NVIDIA keeps the attention of DeepSeek-V3 and its like in 16 bits; others do not."""
    stored = {
        name: weights_format(PrecisionRequest(), model_named(name, packaged_snapshot).value)
        for name in (
            "nvidia/DeepSeek-R1-NVFP4",
            "nvidia/DeepSeek-R1-0528-FP4",
            "someone/DeepSeek-R1-0528-NVFP4A16",
        )
    }
    entry, like_it, others = stored.values()
    assert like_it.quantised_classes == entry.quantised_classes
    assert entry.quantised_classes < others.quantised_classes


def test_owners_mean_different_formats_by_one_width(packaged_snapshot):
    named = {
        owner: model_named(f"{owner}/Qwen3-8B-4bit", packaged_snapshot).value.native_format
        for owner in ("mlx-community", "someone")
    }
    assert named == {"mlx-community": "mlx-4bit", "someone": "gptq-int4"}


@pytest.mark.parametrize("name", ["someone/gpt-oss-120b-MXFP4", "someone/DeepSeek-R1-FP8"])
def test_a_format_that_the_model_ships_in_is_its_own(packaged_snapshot, name):
    """gpt-oss has experts in MXFP4 and all else in 16 bits, whoever names the format."""
    found = model_named(name, packaged_snapshot)
    base = packaged_snapshot.models[found.document["base_model"]]
    assert found.value.native_number_format is base.value.native_number_format


def test_widths_of_names_are_those_of_files(packaged_snapshot):
    """The wider the format that a name says, the larger its weights."""
    sizes = []
    for ending in ("Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "Q8_0", "BF16"):
        found = model_named(f"Meta-Llama-3.1-8B-Instruct-{ending}.gguf", packaged_snapshot).value
        sizes.append(total_model_bytes(found, weights_format(PrecisionRequest(), found)))
    assert sizes == sorted(sizes)
    assert sizes[-1] > 5.0 * sizes[0]


@pytest.mark.parametrize("name", ["", " ", "é" * 5_000, "-gguf" * 1_000, "a/b\\c/" * 500, "(" * 99])
def test_no_name_is_too_odd_to_be_read(name):
    assert readings(name)
