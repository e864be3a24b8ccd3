"""Instances are found by what clouds and people call them, and say what is in them."""

from __future__ import annotations

import pytest

from service.catalog.elsewhere import NameOfMachine
from service.catalog.entries.references import AmbiguousReference, UnknownReference
from service.catalog.snapshot import CatalogSnapshot


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("g6e.12xlarge", "aws/g6e.12xlarge"),
        ("p5en", "aws/p5en.48xlarge"),
        ("p6-b200", "aws/p6-b200.48xlarge"),
        ("NC24ads A100 v4", "azure/Standard_NC24ads_A100_v4"),
        ("NCads H100 v5", "azure/Standard_NC40ads_H100_v5"),
        ("google a3-highgpu-8g", "gcp/a3-highgpu-8g"),
        ("v6e-8", "gcp/tpu-v6e-8"),
        ("TPU v5e-8", "gcp/ct5lp-hightpu-8t"),
        ("lambda 8x H100", "lambda/gpu_8x_h100_sxm5"),
    ],
)
def test_names_of_instances(packaged_snapshot: CatalogSnapshot, name: str, expected: str) -> None:
    assert packaged_snapshot.find("instances", name).id == expected


def test_a_series_is_all_of_its_instances(packaged_snapshot: CatalogSnapshot) -> None:
    with pytest.raises(AmbiguousReference) as refused:
        packaged_snapshot.find("instances", "ND H100 v5")
    assert "azure/Standard_ND96isr_H100_v5" in refused.value.suggestions
    assert all(id_.startswith("azure/Standard_ND96is") for id_ in refused.value.suggestions)


@pytest.mark.parametrize("name", ["gpu", "xlarge", "8", "no-such-instance-9000"])
def test_words_that_say_too_little_mean_none(packaged_snapshot: CatalogSnapshot, name: str) -> None:
    with pytest.raises(UnknownReference):
        packaged_snapshot.find("instances", name)


@pytest.mark.parametrize(
    ("name", "what", "held"),
    [
        ("g6e.12xlarge", "the instance aws/g6e.12xlarge, with 4 ×", "nvidia-l40s-48gb"),
        ("ml.p4d.24xlarge", "aws/p4d.24xlarge, with 8 ×", "nvidia-a100-sxm-40gb"),
        ("ND H100 v5", "a series of instances", "nvidia-h100-sxm-80gb"),
        ("TPU v5e-8", "the instance gcp/ct5lp-hightpu-8t", "google-tpu-v5e"),
        ("Framework Desktop", "the platform framework-desktop", "amd-ryzen-ai-max-395-128gb"),
    ],
)
def test_machines_named_as_accelerators_say_what_they_hold(
    packaged_snapshot: CatalogSnapshot, name: str, what: str, held: str
) -> None:
    with pytest.raises(NameOfMachine) as refused:
        packaged_snapshot.find("accelerators", name)
    assert held in refused.value.suggestions
    assert what in refused.value.hint
