"""Sequences of the longest that an engine admits, for which it wants room before it starts."""

from __future__ import annotations

from typing import Any

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.use_cases import USE_CASES

SMALL = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-rtx-4090-24gb",
    "workload": {"input_tokens": 1000, "output_tokens": 200},
}


def told(snapshot: CatalogSnapshot, **changes: Any) -> tuple[list[str], Any]:
    use_case = USE_CASES["memory/inference"]
    answer: Any = use_case.compute(use_case.request.model_validate(SMALL | changes), snapshot)
    messages = [
        one["message"] for one in answer["warnings"] if one["code"] == "longest_has_no_room"
    ]
    return messages, answer.get("memory", answer)


def test_vllm_does_not_start_where_one_of_them_has_no_room(packaged_snapshot):
    """131,072 tokens of Llama 3.1 8B take 17.2 GB, more than a card has beside them."""
    [message], memory = told(packaged_snapshot, serving={"engine": "vllm"})
    assert "131,072 tokens takes 17.2 GB" in message
    most = int(message.split("sequences to ")[1].split(" ")[0].replace(",", ""))
    # All room for one sequence, in whole pages, is as many tokens as have room.
    assert most == memory["kv_cache_capacity_tokens"]["value"]
    # With that limit it starts, and with one page more it does not.
    serving = {"engine": "vllm", "max_model_len": most}
    assert not told(packaged_snapshot, serving=serving)[0]
    assert told(packaged_snapshot, serving=serving | {"max_model_len": most + 16})[0]


@pytest.mark.parametrize(
    "changes",
    [
        {"serving": {"engine": "sglang"}},
        {"serving": {"engine": "llama.cpp"}},
        {"accelerator": "nvidia-h100-sxm-80gb", "serving": {"engine": "vllm"}},
        {"model": "meta-llama/Llama-3.1-70B", "serving": {"engine": "vllm"}},
    ],
)
def test_nothing_is_said_where_it_starts_or_nothing_fits_at_all(packaged_snapshot, changes):
    assert not told(packaged_snapshot, **changes)[0]
