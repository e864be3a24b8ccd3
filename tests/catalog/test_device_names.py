"""Accelerators are found by what their drivers call them, or by none of them."""

from __future__ import annotations

import pytest

from service.catalog.entries.device_names import DeviceIndex, device_name
from service.catalog.entries.references import AmbiguousReference, UnknownReference


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", "nvidia-h100-sxm-80gb"),
        ("GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-5f0e)", "nvidia-h100-sxm-80gb"),
        ("NVIDIA H100 80GB HBM2e", "nvidia-h100-pcie-80gb"),
        ("H100 96GB HBM2e", "nvidia-h100-sxm-96gb-hbm2e"),
        ("NVIDIA H100 80GB HBM3e", "nvidia-h100-sxm-80gb"),
        ("NVIDIA H100 PCIe", "nvidia-h100-pcie-80gb"),
        ("NVIDIA H100 NVL", "nvidia-h100-nvl-94gb"),
        ("NVIDIA A100-SXM4-40GB", "nvidia-a100-sxm-40gb"),
        ("NVIDIA A100 80GB PCIe", "nvidia-a100-pcie-80gb"),
        ("Tesla V100-SXM2-32GB", "nvidia-v100-sxm-32gb"),
        ("Tesla T4", "nvidia-t4-16gb"),
        ("H20-96GB", "nvidia-h20-96gb"),
        ("RTX4090", "nvidia-rtx-4090-24gb"),
        ("NVIDIA GeForce RTX 4090", "nvidia-rtx-4090-24gb"),
        ("rtx 4060ti 16GB", "nvidia-rtx-4060-ti-16gb"),
        ("4090", "nvidia-rtx-4090-24gb"),
        ("RTX3090Ti-24GB", "nvidia-rtx-3090-ti-24gb"),
        ("RTXA6000-48GB", "nvidia-rtx-a6000-48gb"),
        ("RX7900XTX", "amd-rx-7900-xtx-24gb"),
        ("7900 XTX", "amd-rx-7900-xtx-24gb"),
        ("RTX 4090 Mobile", "nvidia-rtx-4090-laptop-16gb"),
        ("A100-SXM-80GB-330W", "nvidia-a100-sxm-80gb"),
        ("M1 Max 32\u2011Core GPU 64GB", "apple-m1-max-64gb"),
        ("Ryzen AI 9 370", "amd-ryzen-ai-9-hx-370-32gb"),
        ("NVIDIA RTX 6000 Ada Generation", "nvidia-rtx-6000-ada-48gb"),
        (
            "NVIDIA RTX PRO 6000 Blackwell Server Edition",
            "nvidia-rtx-pro-6000-blackwell-server-96gb",
        ),
        (
            "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
            "nvidia-rtx-pro-6000-blackwell-workstation-96gb",
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
        ("Radeon 8060S Graphics 128 GB", "amd-ryzen-ai-max-395-128gb"),
        ("Intel(R) Arc(TM) A770 Graphics", "intel-arc-a770-16gb"),
        ("Apple M2 Ultra 192GB", "apple-m2-ultra-192gb"),
        ("M3 Ultra 512", "apple-m3-ultra-512gb"),
        ("A100 80", "nvidia-a100-sxm-80gb"),
        ("AGX Orin 64", "nvidia-jetson-agx-orin-64gb"),
        ("MacBook Pro M4 Max 64GB", "apple-m4-max-64gb"),
        ("Mac Studio M3 Ultra 256 GB", "apple-m3-ultra-256gb"),
        ("Apple M3 Ultra (80-core GPU, 512GB)", "apple-m3-ultra-512gb"),
        ("M4Pro 64GB", "apple-m4-pro-64gb"),
        ("Intel(R) Xeon(R) Platinum 8480+", "intel-xeon-platinum-8480plus"),
        ("AMD EPYC 9654 96-Core Processor", "amd-epyc-9654"),
    ],
)
def test_names_of_drivers(packaged_snapshot, name, expected):
    assert packaged_snapshot.find("accelerators", name).id == expected


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("Tesla P100-SXM2-32GB", "nvidia-p100-sxm-16gb"),  # no such memory in that form
        ("NVIDIA GeForce RTX 5070 SUPER", "nvidia-rtx-5070-12gb"),  # another product
        ("NVIDIA GeForce RTX 4080 Ti", "nvidia-rtx-4080-16gb"),
        ("NVIDIA GeForce RTX 4070 Ti Laptop GPU", "nvidia-rtx-4070-ti-12gb"),
        ("NVIDIA B200 PCIe", "nvidia-b200-sxm-180gb"),
        ("RTX 3060 10GB", "nvidia-rtx-3060-12gb"),
        ("Quadro RTX 3500", "nvidia-quadro-rtx-4000-8gb"),
        ("rtx 4o90", "nvidia-rtx-4090-24gb"),
        ("nvidia-h100-smx-80gb", "nvidia-h100-sxm-80gb"),
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


@pytest.mark.parametrize(
    "name", ["apple-a16", "amd-h100", "Intel L4", "NVIDIA MI300X", "Radeon RTX 4090"]
)
def test_what_another_maker_makes_is_not_meant(packaged_snapshot, name):
    with pytest.raises(UnknownReference) as refused:
        packaged_snapshot.find("accelerators", name)
    assert refused.value.suggestions


@pytest.mark.parametrize(
    "name",
    [
        *("iPhone 16 Pro", "iPhone 15 Pro Max", "Pixel 9 Pro", "Galaxy S24 Ultra", "PlayStation 5"),
        *("A17 Pro", "Tesla Model 3", "my laptop", "Dimensity 9300", "MTT S4000", "toaster"),
    ],
)
def test_what_is_like_no_entry_gets_no_suggestion(packaged_snapshot, name):
    """A phone is no graphics card because both are called Pro."""
    with pytest.raises(UnknownReference) as refused:
        packaged_snapshot.find("accelerators", name)
    assert refused.value.suggestions == ()
    assert "send an object with its figures" in refused.value.hint


@pytest.mark.parametrize(
    ("name", "number", "meant"),
    [
        ("8xH100", 8, "nvidia-h100-sxm-80gb"),
        ("8x H100", 8, "nvidia-h100-sxm-80gb"),
        ("H100 x8", 8, "nvidia-h100-sxm-80gb"),
        ("2 × RTX 3090", 2, "nvidia-rtx-3090-24gb"),
        ("4090 x2", 2, "nvidia-rtx-4090-24gb"),
        ("4x A100", 4, "nvidia-a100-sxm-80gb"),
        # Slices of older TPUs are named by cores, of which a chip has two.
        ("TPU v5e-16", 16, "google-tpu-v5e"),
        ("v5litepod-16", 16, "google-tpu-v5e"),
        ("TPU v4-48", 24, "google-tpu-v4"),
    ],
)
def test_several_are_asked_for_by_one_and_their_number(packaged_snapshot, name, number, meant):
    with pytest.raises(UnknownReference) as refused:
        packaged_snapshot.find("accelerators", name)
    assert meant in refused.value.suggestions
    assert f"accelerator_count {number}" in refused.value.hint


@pytest.mark.parametrize(
    ("name", "suggested"),
    [
        ("Ascend 910B", "huawei-ascend-910b1-64gb"),
        ("Xeon Platinum 8380", "intel-xeon-platinum-8480plus"),
        ("Jetson Nano", "nvidia-jetson-orin-nano-8gb"),
        ("trainum2", "aws-trainium2"),
        ("RTX 4090 48GB", "nvidia-rtx-4090-24gb"),
    ],
)
def test_a_series_or_a_word_much_alike_is_suggested(packaged_snapshot, name, suggested):
    with pytest.raises(UnknownReference) as refused:
        packaged_snapshot.find("accelerators", name)
    assert suggested in refused.value.suggestions


def test_every_entry_is_found_by_the_name_it_has(packaged_snapshot):
    """Where two entries could be meant, neither is."""
    for entry in packaged_snapshot.accelerators.values():
        try:
            assert packaged_snapshot.find("accelerators", entry.document["name"]).id == entry.id
        except UnknownReference:
            pytest.fail(f"{entry.id} is not found by its name")


#: Names that leave memory or edition open, with some of what they could be.
OPEN = {
    "Apple M3 Max": {"apple-m3-max-36gb", "apple-m3-max-128gb"},
    "A100": {"nvidia-a100-pcie-40gb", "nvidia-a100-sxm-80gb"},
    "NVIDIA GeForce RTX 3060": {"nvidia-rtx-3060-8gb", "nvidia-rtx-3060-12gb"},
    "NVIDIA GeForce RTX 4060 Ti": {"nvidia-rtx-4060-ti-8gb", "nvidia-rtx-4060-ti-16gb"},
    "RTX PRO 6000": {
        "nvidia-rtx-pro-6000-blackwell-max-q-96gb",
        "nvidia-rtx-pro-6000-blackwell-server-96gb",
        "nvidia-rtx-pro-6000-blackwell-workstation-96gb",
    },
    "Strix Halo": {"amd-ryzen-ai-max-395-64gb", "amd-ryzen-ai-max-395-128gb"},
    "h20": {"nvidia-h20-96gb", "nvidia-h20-141gb"},
}


@pytest.mark.parametrize(("name", "expected"), OPEN.items())
def test_what_could_be_several_is_answered_with_all_of_them(packaged_snapshot, name, expected):
    with pytest.raises(AmbiguousReference) as refused:
        packaged_snapshot.find("accelerators", name)
    assert expected <= set(refused.value.suggestions)
    assert all(found in refused.value.hint for found in expected)


#: Aliases that leave the form open mean the module that clouds rent.
USUAL_FORM = {
    *("h100", "nvidia-h100", "h100-80gb", "h100-sxm", "h100-sxm5"),
    *("h200", "nvidia-h200", "h200-141gb", "a100-80gb", "a100-40gb", "v100-16gb", "v100-32gb"),
    *("h800", "nvidia-h800", "h800-80gb", "a800"),
    *("gaudi3", "gaudi-3", "intel-gaudi3"),
}


def test_no_alias_guesses_a_memory_or_an_edition(packaged_snapshot):
    """What two entries are called alike but for memory and form is an alias of neither."""
    entries = packaged_snapshot.accelerators
    called: dict[frozenset[str], set[str]] = {}
    for id_ in entries:
        called.setdefault(device_name(id_).product, set()).add(id_)
    guessing = []
    for id_, entry in entries.items():
        for alias in (*entry.document["aliases"], entry.document["name"]):
            asked, own = device_name(alias), device_name(id_).product
            others = {
                other
                for other in called.get(asked.product, set()) - {id_}
                if asked.product == own
                and asked.sizes <= device_name(other).sizes
                and asked.forms <= device_name(other).forms
            }
            if others and alias not in USUAL_FORM:
                guessing.append((alias, id_, sorted(others)))
    assert guessing == []


def test_names_that_several_entries_could_have():
    index = DeviceIndex({"acme-x1-8gb": [], "acme-x1-16gb": []}, {"acme-x1-8gb": "Acme X1 8 GB"})
    assert index.find("Acme X1 8GB PCIe") is None
    assert index.find("16GB acme X1") == "acme-x1-16gb"
    assert index.find("Acme X1") is None
    assert index.candidates("Acme X1") == ("acme-x1-16gb", "acme-x1-8gb")


def test_words_that_make_another_product_are_not_added():
    index = DeviceIndex({"acme-9000-super-laptop-8gb": [], "acme-7000-workstation-8gb": []})
    assert index.candidates("Acme 9000 Laptop") == ()
    assert index.candidates("Acme 7000") == ("acme-7000-workstation-8gb",)
