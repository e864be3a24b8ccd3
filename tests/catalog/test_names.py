"""Names that people write, as drivers, shops, engines and maps have them, find their entries."""

import pytest

from service.catalog.entries.references import AmbiguousReference, UnknownReference
from service.catalog.region_groups import regions_meant

MODELS = {
    "llama3.1:70b": "meta-llama/Llama-3.1-70B",
    "llama3.1:8b": "meta-llama/Llama-3.1-8B",
    "llama3.3:70b": "meta-llama/Llama-3.3-70B-Instruct",
    "Llama 3.1 8B Instruct": "meta-llama/Llama-3.1-8B",
    "gpt-oss:20b": "openai/gpt-oss-20b",
    "gpt oss 120b": "openai/gpt-oss-120b",
    "qwen3:32b": "Qwen/Qwen3-32B",
    "qwen2.5-coder:7b": "Qwen/Qwen2.5-Coder-7B-Instruct",
    "qwen2.5-coder-7b-instruct": "Qwen/Qwen2.5-Coder-7B-Instruct",
    "deepseek r1": "deepseek-ai/DeepSeek-R1",
    "yi-1.5-34b-chat": "01-ai/Yi-1.5-34B",
    "smollm3-3b-base": "HuggingFaceTB/SmolLM3-3B",
    "tinyllama": "TinyLlama/TinyLlama-1.1B-Chat-v1.0",
    "phi-4-reasoning-plus": "microsoft/Phi-4-reasoning-plus",
    "qwen3.5:35b": "Qwen/Qwen3.5-35B-A3B",
    "qwen3-coder:30b": "Qwen/Qwen3-Coder-30B-A3B-Instruct",
    "qwen2.5-vl-72b": "Qwen/Qwen2.5-VL-72B-Instruct",
    "Qwen/Qwen3-8B-Base": "Qwen/Qwen3-8B",
    "deepseek-r1:70b": "deepseek-ai/DeepSeek-R1-Distill-Llama-70B",
    "deepseek-v3:671b": "deepseek-ai/DeepSeek-V3",
    "glm-4-32b": "THUDM/GLM-4-32B-0414",
    "ernie-4.5-300b": "baidu/ERNIE-4.5-300B-A47B-PT",
    "falcon3:10b": "tiiuae/Falcon3-10B-Base",
    "gemma3:27b-it-qat": "google/gemma-3-27b-it-qat-q4_0-gguf",
    "Llama-2-7b-chat-hf": "meta-llama/Llama-2-7b-hf",
    "Meta Llama 3 8B Instruct": "meta-llama/Meta-Llama-3-8B",
    "whisper turbo": "openai/whisper-large-v3-turbo",
    "nomic-embed-text": "nomic-ai/nomic-embed-text-v1.5",
}
#: Names without an entry, with what the error has to say.
REFUSED_MODELS = {
    "llama3.1:8b-instruct-q4_K_M": "mean meta-llama/Llama-3.1-8B with weights in gguf-q4_k_m?",
    "unsloth/gpt-oss-20b-GGUF": "did you mean openai/gpt-oss-20b with weights in gguf-q4_k_m",
    "mlx-community/Qwen3-8B-4bit": "did you mean Qwen/Qwen3-8B with weights in mlx-4bit?",
    "nvidia/Llama-3.3-70B-Instruct-FP4": "meta-llama/Llama-3.3-70B-Instruct with weights in nvfp4",
    "gpt-4o": "offered by OpenAI as a service",
    "claude-3.5-sonnet": "offered by Anthropic as a service",
    "zamba2-7b": "uses the same block of attention in several layers",
    "FLUX.1-dev": "makes images or video by diffusion",
    "moondream": "send its config.json",
}
#: Names that mean several, or are misspelt, with what is suggested first.
SUGGESTED_MODELS = {
    "llama3.1": ("meta-llama/Llama-3.1-8B", "meta-llama/Llama-3.1-70B"),
    "gpt-oss": ("openai/gpt-oss-20b", "openai/gpt-oss-120b"),
    "qwen3": ("Qwen/Qwen3-8B", "Qwen/Qwen3-0.6B", "Qwen/Qwen3-1.7B", "Qwen/Qwen3-4B"),
    "unsloth/Llama-3.2-3B-Instruct": ("meta-llama/Llama-3.2-3B",),
    "Qwen/Qwen2-VL-7B-Instruct-abliterated": ("Qwen/Qwen2-VL-7B-Instruct",),
    "magistrall": ("mistralai/Magistral-Small-2506",),
    "mistral-7b-instruct": ("mistralai/Mistral-7B-Instruct-v0.2",),
}
ACCELERATORS = {
    "4090": "nvidia-rtx-4090-24gb",
    "RTX 4090": "nvidia-rtx-4090-24gb",
    "NVIDIA GeForce RTX 4090": "nvidia-rtx-4090-24gb",
    "NVIDIA H100 80GB HBM3": "nvidia-h100-sxm-80gb",
    "h100 nvl": "nvidia-h100-nvl-94gb",
    "h200": "nvidia-h200-sxm-141gb",
    "mi300x": "amd-mi300x-192gb",
    "l40s": "nvidia-l40s-48gb",
    "b200": "nvidia-b200-sxm-180gb",
    "inferentia2": "aws-inferentia2",
}
PLACES = {
    "UAE": "country/AE",
    "Korea": "country/KR",
    "Holland": "country/NL",
    "Czech Republic": "country/CZ",
    "Sweden": "country/SE",
    "USA": "country/US",
    "eu-north-1": "aws/eu-north-1",
}


def test_what_several_entries_could_be_is_told_with_all_of_them(packaged_snapshot):
    """The codename stands for a processor with 32 to 128 GB."""
    with pytest.raises(AmbiguousReference) as caught:
        packaged_snapshot.find("accelerators", "strix halo")
    assert "amd-ryzen-ai-max-395-128gb" in caught.value.suggestions


@pytest.mark.parametrize(
    ("collection", "name", "meant"),
    [("models", *one) for one in MODELS.items()]
    + [("accelerators", *one) for one in ACCELERATORS.items()],
)
def test_a_name_as_people_write_it_finds_its_entry(packaged_snapshot, collection, name, meant):
    assert packaged_snapshot.find(collection, name).id == meant


@pytest.mark.parametrize(("name", "told"), REFUSED_MODELS.items())
def test_why_a_known_model_has_no_entry_is_told(packaged_snapshot, name, told):
    with pytest.raises(UnknownReference) as caught:
        packaged_snapshot.find("models", name)
    assert told in caught.value.hint


@pytest.mark.parametrize(("name", "first"), SUGGESTED_MODELS.items())
def test_models_that_share_what_tells_them_apart_are_suggested(packaged_snapshot, name, first):
    with pytest.raises(UnknownReference) as caught:
        packaged_snapshot.find("models", name)
    assert caught.value.suggestions[: len(first)] == first


@pytest.mark.parametrize(("name", "meant"), PLACES.items())
def test_a_place_as_people_call_it_is_found(packaged_snapshot, name, meant):
    assert [one.id for one in regions_meant(name, packaged_snapshot)] == [meant]
