"""Engines that compute what they are handed in one batch, of which no request waits."""

from __future__ import annotations

from typing import Any

from service.estimation.inference.estimate import inference_latency_answer
from service.estimation.requests import LatencyInferenceRequest

#: A batch that has room with some of its releases and drivers, and not with others.
NARROW = {"model": "facebook/opt-6.7b", "accelerator": "nvidia-t4-16gb", "batch": 2}
#: One of which a part has room, and never all.
HOPELESS = {"model": "facebook/opt-6.7b", "accelerator": "nvidia-a10-24gb", "batch": 256}


def answer(snapshot: Any, engine: str, batch: int, **asked: Any) -> dict[str, Any]:
    load = {"input_tokens": 512, "output_tokens": 32, "concurrency": batch}
    serving = {"engine": engine, "engine_version": asked.pop("version", None)}
    body = {
        **asked,
        "workload": load,
        "precision": {"weights": "fp16"},
        "serving": serving,
    }
    found: dict[str, Any] = inference_latency_answer(LatencyInferenceRequest(**body), snapshot)
    return found


def test_a_batch_that_may_fit_runs_whole(packaged_snapshot):
    """It ran if somebody asks how long it took, so that no part of it waits for another."""
    whole = answer(packaged_snapshot, "transformers", version="2023", **NARROW)
    assert not whole["fits"]
    assert whole["waiting_requests"] == 0.0
    assert whole["running_sequences_per_replica"] == 2.0
    (told,) = (one["message"] for one in whole["warnings"] if one["code"] == "does_not_fit")
    assert "as if memory were large enough" in told


def test_requests_wait_where_there_is_surely_no_room(packaged_snapshot):
    found = answer(packaged_snapshot, "transformers", version="2023", **HOPELESS)
    assert found["waiting_requests"] > 0.0


def test_servers_with_a_limit_let_requests_wait(packaged_snapshot):
    model, accelerator = "mistralai/Mistral-7B-v0.1", "nvidia-rtx-4090-24gb"
    asked = {"model": model, "accelerator": accelerator, "batch": 200}
    found = answer(packaged_snapshot, "vllm", **asked)
    assert found["waiting_requests"] > 0.0
