"""Accelerators are found by what their drivers call them, or by none of them."""

from __future__ import annotations

import pytest

from service.catalog.entries.device_names import DeviceIndex
from service.catalog.entries.references import UnknownReference


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-sxm-80gb"),
        ("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5f0e)", "nvidia-h100-sxm-80gb"),
        ("NVIDIA H100 PCIe", "nvidia-h100-pcie-80gb"),
        ("NVIDIA H100 NVL", "nvidia-h100-nvl-94gb"),
        ("NVIDIA A100-SXM4-40GB", "nvidia-a100-sxm-40gb"),
        ("NVIDIA A100 80GB PCIe", "nvidia-a100-pcie-80gb"),
        ("Tesla V100-SXM2-32GB", "nvidia-v100-sxm-32gb"),
        ("Tesla T4", "nvidia-t4-16gb"),
        ("H20-96GB", "nvidia-h20-96gb"),
        ("RTX4090", "nvidia-rtx-4090-24gb"),
        ("NVIDIA GeForce RTX 4090", "nvidia-rtx-4090-24gb"),
        ("rtx 4060ti", "nvidia-rtx-4060-ti-16gb"),
        ("NVIDIA RTX 6000 Ada Generation", "nvidia-rtx-6000-ada-48gb"),
        (
            "NVIDIA RTX PRO 6000 Blackwell Server Edition",
            "nvidia-rtx-pro-6000-blackwell-server-96gb",
        ),
        (
            "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
            "nvidia-rtx-pro-6000-blackwell-96gb",
        ),
        (
            "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
            "nvidia-rtx-pro-6000-blackwell-max-q-96gb",
        ),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "nvidia-rtx-4090-laptop-16gb"),
        ("NVIDIA GeForce RTX 4080 SUPER", "nvidia-rtx-4080-super-16gb"),
        ("NVIDIA GeForce RTX 2080 Ti", "nvidia-rtx-2080-ti-11gb"),
        ("NVIDIA TITAN RTX", "nvidia-titan-rtx-24gb"),
        ("Quadro RTX 6000", "nvidia-quadro-rtx-6000-24gb"),
        ("RTX 3060 8GB", "nvidia-rtx-3060-8gb"),
        ("NVIDIA GH200 480GB", "nvidia-gh200-96gb"),
        ("NVIDIA GH200 144G HBM3e", "nvidia-gh200-141gb"),
        ("AMD Instinct MI300X OAM", "amd-mi300x-192gb"),
        ("AMD Radeon RX 7900 XTX", "amd-rx-7900-xtx-24gb"),
        ("AMD Radeon RX 7900 XT", "amd-rx-7900-xt-20gb"),
        ("AMD Radeon AI PRO R9700", "amd-radeon-ai-pro-r9700-32gb"),
        ("Radeon 8060S Graphics", "amd-ryzen-ai-max-395-128gb"),
        ("Intel(R) Arc(TM) A770 Graphics", "intel-arc-a770-16gb"),
        ("Apple M2 Ultra", "apple-m2-ultra-192gb"),
        ("Apple M4 Pro", "apple-m4-pro-64gb"),
        ("Intel(R) Xeon(R) Platinum 8480+", "intel-xeon-platinum-8480plus"),
        ("AMD EPYC 9654 96-Core Processor", "amd-epyc-9654"),
    ],
)
def test_names_of_drivers(packaged_snapshot, name, expected):
    assert packaged_snapshot.find("accelerators", name).id == expected


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("Tesla V100-PCIE-32GB", "nvidia-v100-pcie-16gb"),  # no such memory in that form
        ("NVIDIA GeForce RTX 5070 SUPER", "nvidia-rtx-5070-12gb"),  # another product
        ("NVIDIA GeForce RTX 4080 Ti", "nvidia-rtx-4080-16gb"),
        ("NVIDIA GeForce RTX 5050 Laptop GPU", "nvidia-rtx-5050-8gb"),
        ("NVIDIA A800-SXM4-80GB", "nvidia-a800-pcie-80gb"),
        ("RTX 3060 10GB", "nvidia-rtx-3060-12gb"),
        ("Quadro RTX 3000", "nvidia-quadro-rtx-4000-8gb"),
    ],
)
def test_what_is_not_the_same_is_refused_with_suggestions(packaged_snapshot, name, suggested):
    with pytest.raises(UnknownReference) as refused:
        packaged_snapshot.find("accelerators", name)
    assert suggested in refused.value.suggestions


@pytest.mark.parametrize("name", ["", "NVIDIA", "80GB", "SXM5", "GPU 0:", "(" * 5_000, "é" * 5_000])
def test_names_that_name_no_product(packaged_snapshot, name):
    with pytest.raises(UnknownReference):
        packaged_snapshot.find("accelerators", name)


def test_every_entry_is_found_by_the_name_it_has(packaged_snapshot):
    """Where two entries could be meant, neither is."""
    for entry in packaged_snapshot.accelerators.values():
        try:
            assert packaged_snapshot.find("accelerators", entry.document["name"]).id == entry.id
        except UnknownReference:
            pytest.fail(f"{entry.id} is not found by its name")


def test_names_that_several_entries_could_have():
    index = DeviceIndex({"acme-x1-8gb": [], "acme-x1-16gb": []}, {"acme-x1-8gb": "Acme X1 8 GB"})
    assert index.find("Acme X1 8GB PCIe") is None
    assert index.find("16GB acme X1") == "acme-x1-16gb"
    assert index.find("Acme X1") is None
