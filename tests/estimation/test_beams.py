"""Beam search as requests ask for it, and what refuses it."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.rejection import Rejected

BODY: dict[str, Any] = {
    "model": "EleutherAI/gpt-j-6b",
    "accelerator": "nvidia-h200-sxm-141gb",
    "precision": {"weights": "fp8", "kv_cache": "fp8"},
    "serving": {"engine": "tensorrt-llm", "engine_version": "2024-08"},
    "workload": {"input_tokens": 778, "output_tokens": 69, "concurrency": "max"},
    "explain": True,
}


def ask(snapshot, serving: Any = None, **workload: Any) -> dict[str, Any]:
    body = BODY | {"workload": BODY["workload"] | workload}
    body |= {"serving": BODY["serving"] | (serving or {})}
    return inference_estimate(InferenceRequest.model_validate(body), snapshot)


def test_four_beams_halve_the_rate_of_answers(packaged_snapshot):
    # MLPerf Inference 4.1, GPT-J on H200 with four beams: 2,580 tokens/s. One beam would reach some
    # 5,600.
    one, four = ask(packaged_snapshot), ask(packaged_snapshot, beam_width=4)
    rates = [each["latency"]["output_tokens_per_s"]["value"] for each in (one, four)]
    assert rates[1] == pytest.approx(2580, rel=0.2)
    assert rates[0] > 1.8 * rates[1]
    assert four["deployment"]["workload"]["beam_width"] == 4
    assert one["deployment"]["workload"]["beam_width"] == 1
    held = [each["memory"]["max_concurrency"]["value"] for each in (one, four)]
    assert held[0] / 1.3 < held[1] < held[0]


def test_energy_of_an_answer_counts_all_beams(packaged_snapshot):
    one, four = ask(packaged_snapshot), ask(packaged_snapshot, beam_width=4)
    energy = [each["energy"]["it_energy_per_request_wh"]["value"] for each in (one, four)]
    assert energy[1] > 1.5 * energy[0]


def test_the_explanation_tells_of_further_beams(packaged_snapshot):
    four = ask(packaged_snapshot, beam_width=4)
    steps = {step["name"]: step for step in four["explanation"]}
    request, sequence = steps["Cache of one request"], steps["Cache of one sequence"]
    assert request["value"] > sequence["value"]
    assert request["inputs"]["beams_bytes"] == pytest.approx(request["value"] - sequence["value"])


@pytest.mark.parametrize(
    ("serving", "workload", "where", "words"),
    [
        ({"engine": "vllm", "engine_version": None}, {}, "/workload/beam_width", "tensorrt-llm"),
        (
            {"speculative": {"draft_tokens": 4}},
            {},
            "/serving/speculative",
            "cannot be estimated together",
        ),
        ({}, {"task": "embed"}, "/workload/beam_width", "decode no tokens"),
    ],
)
def test_what_beam_search_does_not_go_with_is_refused(
    packaged_snapshot, serving, workload, where, words
):
    with pytest.raises(Rejected) as refused:
        ask(packaged_snapshot, serving, beam_width=4, **workload)
    told = {error.pointer: error.detail for error in refused.value.errors}
    assert words in told[where]


@pytest.mark.parametrize(
    ("accelerator", "engine"),
    [
        ("nvidia-h200-sxm-141gb", "tensorrt-llm"),
        ("amd-mi300x-192gb", "transformers"),
        ("intel-gaudi2-96gb", "optimum-habana"),
    ],
)
def test_beams_without_an_engine_are_decoded_by_one_that_has_them(
    packaged_snapshot, accelerator, engine
):
    def answer(**serving: Any) -> Any:
        body = {
            "model": "EleutherAI/gpt-j-6b",
            "accelerator": accelerator,
            "serving": serving,
            "workload": {"input_tokens": 778, "output_tokens": 69, "beam_width": 4},
        }
        return inference_estimate(InferenceRequest.model_validate(body), packaged_snapshot)

    assert answer()["latency"]["tpot_s"] == answer(engine=engine)["latency"]["tpot_s"]
