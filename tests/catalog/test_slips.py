"""Ids with a slip of the hand, in every collection: the entry that was meant is suggested first."""

from __future__ import annotations

import random

import pytest

from service.catalog.entries.references import UnknownReference
from service.catalog.snapshot import CatalogSnapshot

#: Keys beside each other on a keyboard.
_ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_BESIDE = {
    key: "".join(row[max(at - 1, 0) : at] + row[at + 1 : at + 2])
    for row in _ROWS
    for at, key in enumerate(row)
}
COLLECTIONS = (
    *("accelerators", "models", "regions", "instances", "engines", "platforms"),
    *("interconnects", "memory-tiers", "rules", "sources"),
)
IN_EACH = 20


def slipped(chance: random.Random, typed: str) -> str:
    """With two letters swapped, or one left out, doubled or taken for its neighbour."""
    at = chance.choice([at for at, key in enumerate(typed) if key.lower() in _BESIDE])
    before, key, after = typed[:at], typed[at], typed[at + 1 :]
    other = chance.choice(_BESIDE[key.lower()])
    swapped = before + after[:1] + key + after[1:]
    return chance.choice(
        [swapped, before + after, before + key + key + after, before + other + after]
    )


def first_suggestion(snapshot: CatalogSnapshot, collection: str, typed: str) -> str | None:
    try:
        return snapshot.find(collection, typed).id
    except UnknownReference as unknown:
        return next(iter(unknown.suggestions), None)


def test_slips_of_the_hand_find_what_was_meant(packaged_snapshot: CatalogSnapshot) -> None:
    chance = random.Random("slips")  # noqa: S311 - the same each time
    wrong, asked = [], 0
    for collection in COLLECTIONS:
        entries = packaged_snapshot.collection(collection)
        # Two letters, as of countries, are a slip away from two others that are no slip.
        ids = sorted(id_ for id_ in entries if len(id_.rpartition("/")[2]) > 2)
        for _ in range(IN_EACH):
            meant = chance.choice(ids)
            typed = slipped(chance, meant)
            if typed in entries:
                continue
            asked += 1
            found = first_suggestion(packaged_snapshot, collection, typed)
            if found != meant:
                wrong.append((typed, meant, found))
    assert asked >= 190
    assert len(wrong) <= 0.03 * asked, wrong


@pytest.mark.parametrize(
    ("collection", "typed", "meant"),
    [
        ("accelerators", "nvida-h100-sxm-80gb", "nvidia-h100-sxm-80gb"),
        ("accelerators", "H100 SXN 80GB", "nvidia-h100-sxm-80gb"),
        ("models", "za-org/GLM-5.1-FP8", "zai-org/GLM-5.1-FP8"),
        ("models", "Qwen/Qwne3-8B", "Qwen/Qwen3-8B"),
        ("models", "meta-lama/Llama-3.1-8B-Instruct", "meta-llama/Llama-3.1-8B"),
        ("regions", "aws/eu-nroth-1", "aws/eu-north-1"),
        ("regions", "Stokholm", "aws/eu-north-1"),
        ("engines", "vlmm", "vllm"),
        ("engines", "tensort-llm", "tensorrt-llm"),
        ("memory-tiers", "hb3me", "hbm3e"),
        ("platforms", "imni-pc", "mini-pc"),
    ],
)
def test_what_people_mistype(
    packaged_snapshot: CatalogSnapshot, collection: str, typed: str, meant: str
) -> None:
    assert first_suggestion(packaged_snapshot, collection, typed) == meant
