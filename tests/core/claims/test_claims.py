"""Every recomputed figure against the one worked out by hand."""

import pytest

from service.catalog.entries.texts import packaged_texts
from service.core.claims import RECOMPUTED
from service.estimation.claims import DOCUMENTS, claims_answer

#: By hand, from the documents' own settings.
RIGHT = {
    "kv-cache-13b-batch-32": 32 * 4096 * 5120 * 2 * 40 * 2 / 1e9,
    "kv-cache-growth": 859.0,
    "kv-cache-by-hidden-size": 0.537,
    "paged-attention-saving": 1 - (16 + 2048) / 2 / 2048,
    "quantising-80-gb": 40.0,
    "snippet-units": 0.0737,
    "activations-13b": 1.678,
    "activation-constant": 29.8,
    "states-of-7b": 112.0,
    "mixed-precision-halves": 1.0,
    # Two 8-bit moments with a 32-bit scale every 256 elements, embeddings in 32 bit, and the
    # master copy: 6.15 of 12 bytes a parameter.
    "eight-bit-optimizer": 1 - (4 + 2 * (1 + 4 / 256) + 0.0195 * 5.97) / 12,
    "training-over-inference": 89 / 36,
    "kv-cache-of-a-session": 20 / 2.1475,
    "zero-1-saving": 16 / 5.5,
    "zero-2-saving": 16 / 3.75,
    "zero-3-saving": 89 / 15.5,
    "zero-3-on-small-accelerators": 10.5,
    "offloaded-optimizer-step": (2.45 + 0.875) / 0.0961,
    "data-parallel-gradients": 14.0,
    "adam-over-model-size": 4.0,
    "760m-in-full-precision": 12.16,
    "rtx-4070-bytes-per-flop": 0.0149,
    "rtx-4070-bandwidth": 504.0,
    "mi300x-fp8": 2615.0,
    "mi300x-ridge": 493.0,
    "a100-bandwidth": 2.039,
    "pcie-4-paging": 5300 / 32,
    "memory-bound": 153.0,
    "prefer-ddr": 0.0716,
    "training-run": 20.63,
    "inference-overtakes": 5.24,
    "prompts-of-a-year": 107.3,
    "agent-of-ten-steps": 1.0,
    # 4 · 4096 · 2048 · 32 operations a token over those and 2 · 7e9.
    "kv-cache-complexity": 1.0737 / 15.0737,
    "attention-memory-quadratic": 2.0,
    "inference-state": 26_703.0,
    "accumulation": 2.0,
    "unified-memory-name": 2039 / 32,
    "hbm-latency": 328.0,
    "hbm-cooling": 40.8,
    "hbm-embodied": 0.86 / 1.01,
    "noise-level": 56.3,
    "refresh": 5.0,
    "shut-down-by-complaints": 222.0,
    "citations": 5.0,
    "rules-now-require": 1.0,
}


def test_every_figure_is_the_right_one(packaged_snapshot):
    answered = {item["id"]: item for item in claims_answer(packaged_snapshot, {})["items"]}
    assert {id_ for id_, item in answered.items() if item["recomputed"] is not None} == set(RIGHT)
    for id_, right in RIGHT.items():
        assert answered[id_]["recomputed"] == pytest.approx(right, rel=0.005), id_


def test_a_claim_has_a_unit_where_it_has_a_right_figure():
    texts = packaged_texts()["claims"].by_id
    assert len(texts) >= 42
    assert {id_ for id_, text in texts.items() if text.fields["unit"] is not None} == set(
        RECOMPUTED
    )
    assert {id_ for text in texts.values() for id_ in text.fields["documents"]} <= set(DOCUMENTS)


def test_claims_are_narrowed_by_verdict_and_document(packaged_snapshot):
    wrong = claims_answer(packaged_snapshot, {"verdict": "wrong", "document": "002"})["items"]
    assert {item["verdict"] for item in wrong} == {"wrong"}
    assert all("002" in {d["id"] for d in item["documents"]} for item in wrong)
