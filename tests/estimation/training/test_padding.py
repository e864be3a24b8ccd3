"""Sequences of different lengths that are filled up rather than packed."""

from __future__ import annotations

from typing import Any

import pytest

from service.core.performance.inference.lengths import log_normal_spread
from service.core.performance.training.padding import log_normal_lengths, padding
from service.estimation.rejection import Rejected
from service.estimation.training.estimate import training_latency_answer
from service.estimation.training.requests import LatencyTrainingRequest


def test_the_longest_of_a_batch_decides():
    # Of two draws of 100 or 300 tokens, each as likely, three in four pairs have a long one.
    found = padding((300.0, 100.0), (1.0, 1.0), 1000.0, 2.0, 1.0, 1)
    assert (found.useful_tokens, found.computed_tokens) == pytest.approx((200.0, 250.0))
    alone = padding((300.0, 100.0), (1.0, 1.0), 1000.0, 1.0, 1.0, 1)
    assert alone.useful_ratio == pytest.approx(1.0)
    cut = padding((300.0, 100.0), (1.0, 1.0), 200.0, 2.0, 1.0, 1)
    assert (cut.useful_tokens, cut.computed_tokens) == pytest.approx((150.0, 175.0))
    alike = padding((200.0,), (3.0,), 1000.0, 8.0, 4.0, 64)
    assert alike.useful_ratio == pytest.approx(1.0)


def test_ranks_wait_for_the_slowest_and_accumulation_evens_out():
    lengths = log_normal_lengths(500.0, log_normal_spread(2.5))
    assert sum(lengths) / len(lengths) == pytest.approx(500.0, rel=0.01)
    shares = (1.0,) * len(lengths)
    ratios = [
        padding(lengths, shares, 4096.0, 4.0, steps, ranks).useful_ratio
        for steps, ranks in ((1.0, 1), (1.0, 64), (16.0, 64))
    ]
    assert ratios[1] < ratios[2] < ratios[0] < 1.0
    assert padding(lengths, shares, 4096.0, 65_536.0, 1.0, 8).computed_tokens <= 4096.0


def test_an_answer_tells_useful_tokens(packaged_snapshot):
    def asked(**training: Any) -> Any:
        body = {
            "model": "meta-llama/Llama-3.1-8B",
            "accelerator": "nvidia-h100-sxm-80gb",
            "training": {"method": "lora", "micro_batch_size": 8, "tokens": 1e9, **training},
        }
        return training_latency_answer(
            LatencyTrainingRequest.model_validate(body), packaged_snapshot
        )

    full = asked()
    filled = asked(sequence_lengths={"mean": 800, "p95": 2000})
    assert full["useful_tokens_ratio"] == 1.0
    assert 0.3 < filled["useful_tokens_ratio"] < 0.7
    assert filled["step_s"]["value"] < full["step_s"]["value"]
    assert filled["run"]["tokens"] * filled["useful_tokens_ratio"] == pytest.approx(1e9)
    # An epoch takes longer than with as many tokens packed.
    assert filled["run"]["useful_days"]["value"] > full["run"]["useful_days"]["value"]
    with pytest.raises(Rejected):
        asked(sequence_lengths={"mean": 800, "p95": 2000}, packed_document_tokens=700)
