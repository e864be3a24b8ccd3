"""Machines by what their tools write."""

from __future__ import annotations

from typing import Any

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.detection.accelerator_tools import amd_smi, nvidia_smi, rocm_smi, xpu_smi
from service.estimation.detection.host_tools import lscpu, meminfo, smbios, system_profiler
from service.estimation.detection.machine import detect, read
from service.estimation.detection.readings import (
    MOST_DEVICES,
    Device,
    Host,
    short,
    size_bytes,
    watts,
)
from tests.estimation.detection import samples

GIB = 2**30
SERVER = {"dmi-vendor": "NVIDIA\n", "dmi-product": "DGXH100\n", "dmi-chassis": "23\n"}


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("81559 MiB", "b", 81559 * 2**20),
        ("64 GB", "b", 64 * GIB),
        ("21458059264", "b", 21458059264),
        ("1.5 TB", "b", 3 * 2**39),
        ("16", "mib", 2**24),
        ("0 MiB", "b", None),
        ("[N/A]", "b", None),
        ("12 parsecs", "b", None),
        ("9" * 5000, "b", None),
        (None, "b", None),
    ],
)
def test_sizes(text: object, unit: str, expected: int | None) -> None:
    assert size_bytes(text, unit) == expected


@pytest.mark.parametrize(
    ("text", "expected"), [("700.00 W", 700.0), ("750", 750.0), ("[N/A]", None), ("0 W", None)]
)
def test_watts(text: str, expected: float | None) -> None:
    assert watts(text) == expected


def test_names_are_one_short_line() -> None:
    assert short(" a\n\x1b[31m  b \u202e" + "x" * 1000)[:9] == "a [31m b "
    assert len(short("x" * 10_000)) == 200


def test_nvidia_columns_may_stand_in_any_order() -> None:
    found = nvidia_smi(samples.V100_FIRST_COLUMNS)
    assert found == (Device("Tesla V100-SXM2-32GB", 32510 * 2**20, 300.0),)
    assert nvidia_smi(samples.NO_DRIVER) == ()
    assert nvidia_smi("memory.total [MiB]\n81559 MiB\n") == ()
    assert len(nvidia_smi("name\n" + "NVIDIA L4\n" * 5000)) == MOST_DEVICES


def test_amd_tools_of_all_releases() -> None:
    assert amd_smi(samples.AMD_SMI) == (Device("AMD Instinct MI300X", 196592 * 2**20, 750.0),) * 8
    [newest] = amd_smi(samples.AMD_SMI_7)
    assert newest == Device("AMD Instinct MI355X", 294896 * 2**20, 1400.0)
    assert rocm_smi(samples.RX_7900_XT) == (Device("Radeon RX 7900 XT", 21458059264, 265.0),)
    assert rocm_smi('{"card0": {"Card Series": "0x744c"}}') == ()


@pytest.mark.parametrize("reader", [amd_smi, rocm_smi, xpu_smi])
@pytest.mark.parametrize(
    "text",
    ["", "[", "[]", "{}", "[1]", '"x"', '{"card0": 1}', '{"gpu_data": {}}', "[" * 100_000],
)
def test_json_of_another_shape_names_nothing(reader: Any, text: str) -> None:
    assert reader(text) == ()


def test_hosts() -> None:
    devices, host = system_profiler(samples.MACBOOK_M3_MAX)
    assert devices == (Device("Apple M3 Max", 64 * GIB),)
    assert (host.vendor, host.model) == ("Apple", "MacBook Pro")
    assert lscpu(samples.lscpu("AMD EPYC 9654 96-Core Processor", 2)).sockets == 2
    assert lscpu(samples.lscpu("-", "-")) == Host(cores=56)
    assert meminfo(samples.meminfo(64)).memory_bytes == 64 * GIB
    assert smbios("Dell Inc.", "PowerEdge R740", "x") == Host(
        vendor="Dell Inc.", model="PowerEdge R740"
    )


def test_the_second_tool_of_a_maker_is_read_where_the_first_knows_nothing() -> None:
    devices, _ = read({"amd-smi": "[]", "rocm-smi": samples.RX_7900_XT})
    assert [device.name for device in devices] == ["Radeon RX 7900 XT"]
    devices, _ = read({"amd-smi": samples.AMD_SMI, "rocm-smi": samples.RX_7900_XT})
    assert len(devices) == 8


MACHINES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "a DGX": (
        SERVER | {"nvidia-smi": samples.DGX_H100},
        {
            "accelerator": "nvidia-h100-sxm-80gb",
            "accelerator_count": 8,
            "platform": "nvidia-dgx-h100",
        },
    ),
    "cards with a lowered limit of power": (
        {"nvidia-smi": samples.LIMITED_3090, "dmi-chassis": "3"},
        {
            "accelerator": "nvidia-rtx-3090-24gb",
            "accelerator_count": 2,
            "platform": "desktop",
            "power_limit_w": 280.0,
        },
    ),
    "a card of which there are two memories": (
        {"nvidia-smi": samples.RTX_3060},
        {"accelerator": "nvidia-rtx-3060-12gb", "accelerator_count": 1, "platform": "desktop"},
    ),
    "another": (
        {"nvidia-smi": samples.RTX_4060_TI},
        {
            "accelerator": "nvidia-rtx-4060-ti-16gb",
            "accelerator_count": 1,
            "platform": "desktop",
        },
    ),
    "a laptop": (
        {"nvidia-smi": samples.LAPTOP_4090, "dmi-chassis": "10"},
        {
            "accelerator": "nvidia-rtx-4090-laptop-16gb",
            "accelerator_count": 1,
            "platform": "laptop",
        },
    ),
    "a mini PC whose tool tells no memory": (
        {"nvidia-smi": samples.SPARK, "meminfo": samples.meminfo(119.7)},
        {
            "accelerator": "nvidia-gb10-128gb",
            "accelerator_count": 1,
            "platform": "nvidia-dgx-spark",
        },
    ),
    "a server of modules": (
        {"amd-smi": samples.AMD_SMI, "dmi-chassis": "23"},
        {
            "accelerator": "amd-mi300x-192gb",
            "accelerator_count": 8,
            "platform": "amd-instinct-platform",
        },
    ),
    "cards of Intel": (
        {"xpu-smi": samples.XPU_SMI},
        {
            "accelerator": "intel-max-1550-128gb",
            "accelerator_count": 4,
            "platform": "intel-gaudi-server",
        },
    ),
    "graphics that share memory with the host": (
        {"rocm-smi": samples.STRIX_HALO, "meminfo": samples.meminfo(124.9)},
        {
            "accelerator": "amd-ryzen-ai-max-395-128gb",
            "accelerator_count": 1,
            "platform": "framework-desktop",
        },
    ),
    "graphics that the processor names": (
        {
            "rocm-smi": samples.rocm("AMD Radeon Graphics", 536870912, 120.0),
            "lscpu": samples.lscpu("AMD RYZEN AI MAX+ 395 w/ Radeon 8060S"),
            "meminfo": samples.meminfo(62.4),
        },
        {
            "accelerator": "amd-ryzen-ai-max-395-64gb",
            "accelerator_count": 1,
            "platform": "framework-desktop",
        },
    ),
    "a MacBook": (
        {"system_profiler": samples.MACBOOK_M3_MAX},
        {
            "accelerator": "apple-m3-max-64gb",
            "accelerator_count": 1,
            "platform": "macbook-pro-16",
        },
    ),
    "a Mac Studio": (
        {"system_profiler": samples.STUDIO_M2_ULTRA},
        {
            "accelerator": "apple-m2-ultra-192gb",
            "accelerator_count": 1,
            "platform": "mac-studio-m2-ultra",
        },
    ),
    "a Mac mini": (
        {"system_profiler": samples.MINI_M4},
        {"accelerator": "apple-m4-16gb", "accelerator_count": 1, "platform": "mac-mini-m4"},
    ),
    "a Jetson": (
        {
            "nvidia-smi": samples.ORIN,
            "device-tree-model": "NVIDIA Jetson AGX Orin Developer Kit\0",
            "lscpu": samples.lscpu("Cortex-A78AE", 3, "aarch64"),
            "meminfo": samples.meminfo(61.3),
        },
        {
            "accelerator": "nvidia-jetson-agx-orin-64gb",
            "accelerator_count": 1,
            "platform": "jetson-developer-kit",
        },
    ),
    "a Raspberry Pi": (
        {
            "device-tree-model": "Raspberry Pi 5 Model B Rev 1.0\0",
            "lscpu": samples.lscpu("Cortex-A76", 1, "aarch64"),
            "meminfo": samples.meminfo(7.9),
        },
        {
            "accelerator": "raspberry-pi-5-8gb",
            "accelerator_count": 1,
            "platform": "raspberry-pi-5",
        },
    ),
    "a server without accelerators": (
        {
            "lscpu": samples.lscpu("Intel(R) Xeon(R) Platinum 8480+", 2),
            "meminfo": samples.meminfo(503.0),
            "dmi-vendor": "Dell Inc.",
            "dmi-product": "PowerEdge R740",
            "dmi-chassis": "23",
        },
        {
            "accelerator": "intel-xeon-platinum-8480plus",
            "accelerator_count": 2,
            "platform": "dell-r740",
        },
    ),
}


@pytest.mark.parametrize(("outputs", "expected"), MACHINES.values(), ids=MACHINES)
def test_machines_are_known(
    packaged_snapshot: CatalogSnapshot, outputs: dict[str, str], expected: dict[str, Any]
) -> None:
    assert detect(outputs, packaged_snapshot)["request"] == expected


def test_what_could_be_several_is_told_as_several(packaged_snapshot: CatalogSnapshot) -> None:
    text = samples.RTX_3060.replace("12288 MiB", "[N/A]")
    found = detect({"nvidia-smi": text}, packaged_snapshot)
    assert found["request"] is None
    [one] = found["accelerators"]
    assert one["candidates"] == ["nvidia-rtx-3060-12gb", "nvidia-rtx-3060-8gb"]
    other = samples.RTX_3060.replace("12288", "20480")
    told = detect({"nvidia-smi": other}, packaged_snapshot)
    assert told["request"] is None
    assert "has the memory of none of them" in told["remarks"][0]


def test_what_the_catalog_lacks_is_said_with_what_is_near(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    text = samples.RTX_3060.replace("RTX 3060", "RTX 9999")
    found = detect({"nvidia-smi": text}, packaged_snapshot)
    assert found["request"] is None
    assert found["accelerators"][0]["accelerator"] is None
    assert "the catalog has no NVIDIA GeForce RTX 9999" in found["remarks"][0]


def test_several_kinds_and_divided_devices_are_remarked(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    mixed = detect({"nvidia-smi": samples.MIXED}, packaged_snapshot)
    assert mixed["request"] is not None
    assert mixed["request"]["accelerator"] == "nvidia-rtx-4090-24gb"
    assert mixed["request"]["accelerator_count"] == 2
    assert any("several kinds" in remark for remark in mixed["remarks"])
    divided = detect({"nvidia-smi": samples.A100_MIG}, packaged_snapshot)
    assert any("MIG" in remark for remark in divided["remarks"])


def test_a_memory_that_is_not_the_entrys_is_remarked(packaged_snapshot: CatalogSnapshot) -> None:
    text = samples.DGX_H100.replace("81559", "65000")
    found = detect({"nvidia-smi": text}, packaged_snapshot)
    assert found["request"] is not None
    assert found["remarks"] == [
        "NVIDIA H100 80GB HBM3 has 63.5 GiB and nvidia-h100-sxm-80gb has 80.0 GiB"
    ]


def test_a_laptop_is_no_desktop(packaged_snapshot: CatalogSnapshot) -> None:
    outputs = {"nvidia-smi": samples.RTX_3060, "dmi-chassis": "10"}
    assert detect(outputs, packaged_snapshot)["platform"] == "laptop"


def test_nothing_at_all(packaged_snapshot: CatalogSnapshot) -> None:
    found = detect({}, packaged_snapshot)
    assert found["accelerators"] == []
    assert found["request"] is None
    assert found["remarks"] == ["no tool named an accelerator or a processor"]


def test_a_processor_is_like_processors(packaged_snapshot: CatalogSnapshot) -> None:
    """Not like an accelerator of the same maker whose name has a word in common."""
    text = "Architecture: x86_64\nVendor ID: AuthenticAMD\nModel name: AMD EPYC\nSocket(s): 1\n"
    found = detect({"lscpu": text}, packaged_snapshot)
    near = found["accelerators"][0]["candidates"]
    assert near
    assert all(name.startswith("amd-epyc") for name in near)
    assert ", ".join(near) in found["remarks"][0]
