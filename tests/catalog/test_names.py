"""Names that people write, as drivers, shops, engines and maps have them, find their entries."""

import pytest

from service.catalog.entries.references import AmbiguousReference
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


@pytest.mark.parametrize(("name", "meant"), PLACES.items())
def test_a_place_as_people_call_it_is_found(packaged_snapshot, name, meant):
    assert [one.id for one in regions_meant(name, packaged_snapshot)] == [meant]
