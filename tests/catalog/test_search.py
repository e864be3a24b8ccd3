from __future__ import annotations

import pytest

from service.catalog.search import SEARCHED, search, words
from service.catalog.snapshot import CatalogSnapshot


@pytest.mark.parametrize(
    ("typed", "first"),
    [
        ("H100 80GB SXM5", "nvidia-h100-sxm-80gb"),
        ("h100 sxm", "nvidia-h100-sxm-80gb"),
        ("p5.48xlarge", "aws/p5.48xlarge"),
        ("eu-north-1", "aws/eu-north-1"),
        ("nvidia-h100-sxm-80gb", "nvidia-h100-sxm-80gb"),
        ("NVLINK4", "nvlink-4"),
        ("llama 3.1 70b", "meta-llama/Llama-3.1-70B"),
        ("Lama-3.1-70b", "meta-llama/Llama-3.1-70B"),
        ("swedn central", "azure/swedencentral"),
        ("mi300x", "amd-mi300x-192gb"),
        ("mi30ox", "amd-mi300x-192gb"),
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-sxm-80gb"),
        ("Tesla V100-SXM2-32GB", "nvidia-v100-sxm-32gb"),
        ("RTX3090Ti-24GB", "nvidia-rtx-3090-ti-24gb"),
    ],
)
def test_what_people_type(packaged_snapshot: CatalogSnapshot, typed: str, first: str) -> None:
    hits = search(packaged_snapshot, typed, SEARCHED, 5)
    assert hits[0].entry_id == first, hits


def test_nothing_like_it(packaged_snapshot: CatalogSnapshot) -> None:
    assert search(packaged_snapshot, "zzqqxxyy", SEARCHED, 5) == []
    assert search(packaged_snapshot, "---", SEARCHED, 5) == []
    assert search(packaged_snapshot, "hall-2", ("regions",), 5) == []


def test_only_where_it_was_asked_for(packaged_snapshot: CatalogSnapshot) -> None:
    hits = search(packaged_snapshot, "h100", ("instances",), 50)
    assert hits
    assert {hit.collection for hit in hits} == {"instances"}
    assert len({hit.entry_id for hit in hits}) == len(hits)
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_words() -> None:
    assert words("H100 80GB SXM5") == ("h", "100", "80", "gb", "sxm", "5")
    assert words("São Paulo") == ("sao", "paulo")
