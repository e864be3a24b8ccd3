"""Devices and processors by the names that drivers give them, with the memory that they report."""

from __future__ import annotations

import json

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.detection.accelerator_tools import rocm_smi
from service.estimation.detection.machine import detect
from service.estimation.detection.readings import Device

_NVIDIA = "name, memory.total [MiB], power.limit [W], mig.mode.current\n"
NVIDIA = """Tesla T4|15360|nvidia-t4-16gb
NVIDIA A10G|23028|nvidia-a10g-24gb
NVIDIA L4|23034|nvidia-l4-24gb
NVIDIA L40S|46068|nvidia-l40s-48gb
NVIDIA L40S-48Q|49152|nvidia-l40s-48gb
NVIDIA A10-24Q|24576|nvidia-a10-24gb
NVIDIA L20|46068|nvidia-l20-48gb
NVIDIA A40|46068|nvidia-a40-48gb
NVIDIA A30|24576|nvidia-a30-24gb
NVIDIA A16|15356|nvidia-a16-16gb
NVIDIA A100 80GB PCIe|81920|nvidia-a100-pcie-80gb
NVIDIA A100-PCIE-40GB|40960|nvidia-a100-pcie-40gb
A100-SXM4-40GB|40536|nvidia-a100-sxm-40gb
NVIDIA A800-SXM4-80GB|81920|nvidia-a800-sxm-80gb
NVIDIA H100 PCIe|81559|nvidia-h100-pcie-80gb
NVIDIA H100 NVL|95830|nvidia-h100-nvl-94gb
NVIDIA H200|143771|nvidia-h200-sxm-141gb
NVIDIA H200 NVL|143771|nvidia-h200-nvl-141gb
NVIDIA H20|97871|nvidia-h20-96gb
NVIDIA H800|81559|nvidia-h800-sxm-80gb
NVIDIA B200|183359|nvidia-b200-sxm-180gb
NVIDIA GB200|189471|nvidia-gb200-186gb
NVIDIA B300 SXM6 AC|275040|nvidia-b300-sxm-288gb
NVIDIA GB300|284208|nvidia-gb300-288gb
NVIDIA GH200 480GB|97871|nvidia-gh200-96gb
NVIDIA GH200 144G HBM3e|147456|nvidia-gh200-141gb
NVIDIA RTX A6000|49140|nvidia-rtx-a6000-48gb
NVIDIA RTX 6000 Ada Generation|49140|nvidia-rtx-6000-ada-48gb
NVIDIA RTX PRO 6000 Blackwell Server Edition|97887|nvidia-rtx-pro-6000-blackwell-server-96gb
NVIDIA RTX PRO 4000 Blackwell|24467|nvidia-rtx-pro-4000-blackwell-24gb
NVIDIA GeForce RTX 5090|32607|nvidia-rtx-5090-32gb
NVIDIA GeForce RTX 5090 Laptop GPU|24463|nvidia-rtx-5090-laptop-24gb
NVIDIA GeForce RTX 4090 D|24564|nvidia-rtx-4090-d-24gb
NVIDIA GeForce RTX 4070 Ti SUPER|16376|nvidia-rtx-4070-ti-super-16gb
NVIDIA GeForce RTX 3080|12288|nvidia-rtx-3080-12gb
NVIDIA GeForce RTX 3050 6GB Laptop GPU|6144|nvidia-rtx-3050-laptop-6gb
GeForce RTX 2080 Ti|11019|nvidia-rtx-2080-ti-11gb
GeForce GTX 1080 Ti|11178|nvidia-gtx-1080-ti-11gb
TITAN RTX|24220|nvidia-titan-rtx-24gb
Quadro RTX 8000|48601|nvidia-quadro-rtx-8000-48gb
Quadro P6000|24449|nvidia-quadro-p6000-24gb
Tesla P40|22919|nvidia-p40-24gb
Tesla P100-SXM2-16GB|16280|nvidia-p100-sxm-16gb
Tesla V100-PCIE-16GB|16160|nvidia-v100-pcie-16gb
Tesla M40 24GB|22945|nvidia-m40-24gb
Tesla M40|11448|nvidia-m40-12gb
Tesla V100S-PCIE-32GB|32510|nvidia-v100s-pcie-32gb
Quadro GV100|32508|nvidia-quadro-gv100-32gb
NVIDIA T4G|15360|nvidia-t4g-16gb
NVIDIA L2|23034|nvidia-l2-24gb
NVIDIA H20-3e|143771|nvidia-h20-141gb
NVIDIA A800 80GB PCIe|81920|nvidia-a800-pcie-80gb
NVIDIA RTX 5880 Ada Generation|49140|nvidia-rtx-5880-ada-48gb
NVIDIA RTX 2000 Ada Generation Laptop GPU|8188|nvidia-rtx-2000-ada-laptop-8gb
NVIDIA RTX A5500 Laptop GPU|16384|nvidia-rtx-a5500-laptop-16gb
Quadro RTX 5000 with Max-Q Design|16384|nvidia-quadro-rtx-5000-laptop-16gb
NVIDIA GeForce RTX 2080 Super with Max-Q Design|8192|nvidia-rtx-2080-super-laptop-8gb
NVIDIA GeForce RTX 3080 Ti Laptop GPU|16384|nvidia-rtx-3080-ti-laptop-16gb
NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition|97887|\
nvidia-rtx-pro-6000-blackwell-max-q-96gb
NVIDIA TITAN V|12288|nvidia-titan-v-12gb
NVIDIA GeForce RTX 4060 Ti|16380|nvidia-rtx-4060-ti-16gb
Tesla P4|7680|nvidia-p4-8gb"""
AMD = """AMD Instinct MI250X/MI250|65520|amd-mi250x-gcd-64gb
AMD Instinct MI250X|65520|amd-mi250x-gcd-64gb
AMD Instinct MI210|65520|amd-mi210-64gb
AMD Instinct MI300A|131072|amd-mi300a-128gb
AMD Instinct MI300X OAM|196592|amd-mi300x-192gb
Aqua Vanjaram [Instinct MI300X]|196592|amd-mi300x-192gb
AMD Instinct MI308X|196592|amd-mi308x-192gb
AMD Instinct MI325X|262128|amd-mi325x-256gb
Arcturus GL-XL [Instinct MI100]|32752|amd-mi100-32gb
Vega 20 [Radeon Pro VII/Radeon Instinct MI50 32GB]|32752|amd-mi50-32gb
Vega 20 [Radeon VII]|16368|amd-radeon-vii-16gb
Navi 10 [Radeon RX 5600 OEM/5600 XT / 5700/5700 XT]|6128|amd-rx-5600-xt-6gb
Navi 21 [Radeon RX 6900 XT]|16368|amd-rx-6900-xt-16gb
Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]|24560|amd-rx-7900-xtx-24gb
Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M]|20464|amd-rx-7900-xt-20gb
AMD Radeon PRO W7900|46064|amd-radeon-pro-w7900-48gb
AMD Radeon AI PRO R9700|32624|amd-radeon-ai-pro-r9700-32gb
AMD Radeon RX 9070 XT|16304|amd-rx-9070-xt-16gb
AMD Radeon RX 5700 XT|8176|amd-rx-5700-xt-8gb"""
INTEL = """Intel(R) Arc(TM) A770 Graphics|16288|intel-arc-a770-16gb
Intel(R) Arc(TM) B580 Graphics|12216|intel-arc-b580-12gb
Intel(R) Arc(TM) Pro B60 Graphics|24480|intel-arc-pro-b60-24gb
Intel(R) Data Center GPU Max 1100|49152|intel-max-1100-48gb"""
#: Maker of the machine, processor as lscpu names it, GiB of the kernel.
PROCESSORS = """Dell Inc.|AMD EPYC 7763 64-Core Processor|503.5|amd-epyc-7763
Supermicro|INTEL(R) XEON(R) PLATINUM 8592+|503.5|intel-xeon-platinum-8592plus
Amazon EC2|Neoverse-V1|503|aws-graviton3
Amazon EC2|Neoverse-V2|755|aws-graviton4
NVIDIA|Neoverse-V2|478|nvidia-grace-480gb
LENOVO|Snapdragon(R) X Elite - X1E78100 - Qualcomm(R) Oryon(TM) CPU|31.2|\
qualcomm-snapdragon-x-elite-32gb
ASUS|AMD Ryzen AI 9 HX 370 w/ Radeon 890M|30.7|amd-ryzen-ai-9-hx-370-32gb
Framework|AMD RYZEN AI MAX+ 395 w/ Radeon 8060S|125.1|amd-ryzen-ai-max-395-128gb
HP|Intel(R) Core(TM) Ultra 7 258V|31.3|intel-core-ultra-7-258v-32gb
ASUS|Intel(R) Core(TM) Ultra X9 388H|31.2|intel-core-ultra-x9-388h-32gb
Dell Inc.|Intel(R) Core(TM) Ultra X9 388H|62.3|intel-core-ultra-x9-388h-64gb
HP|AMD RYZEN AI MAX+ PRO 395 w/ Radeon 8060S|62.4|amd-ryzen-ai-max-395-64gb
Framework|AMD Ryzen AI 7 350 w/ Radeon 860M|30.7|amd-ryzen-ai-7-350-32gb
ASUS|Snapdragon(R) X2 Elite Extreme - X2E96100 - Qualcomm(R) Oryon(TM) CPU|47.2|\
qualcomm-snapdragon-x2-elite-extreme-48gb
LENOVO|Snapdragon(R) X Elite - X1E80100 - Qualcomm(R) Oryon(TM) CPU|15.4|\
qualcomm-snapdragon-x-elite-16gb"""


def _rows(table: str) -> list[list[str]]:
    return [row.split("|") for row in table.splitlines()]


def _only(outputs: dict[str, str], snapshot: CatalogSnapshot) -> str | None:
    [found] = detect(outputs, snapshot)["accelerators"]
    return found["accelerator"]


@pytest.mark.parametrize(("name", "mib", "expected"), _rows(NVIDIA))
def test_cards_of_nvidia(
    packaged_snapshot: CatalogSnapshot, name: str, mib: str, expected: str
) -> None:
    text = f"{_NVIDIA}{name}, {mib} MiB, [N/A], [N/A]\n"
    assert _only({"nvidia-smi": text}, packaged_snapshot) == expected


@pytest.mark.parametrize(("name", "mib", "expected"), _rows(AMD))
def test_cards_of_amd(
    packaged_snapshot: CatalogSnapshot, name: str, mib: str, expected: str
) -> None:
    card = {"Card Series": name, "VRAM Total Memory (B)": str(int(mib) * 2**20)}
    assert _only({"rocm-smi": json.dumps({"card0": card})}, packaged_snapshot) == expected


@pytest.mark.parametrize(("name", "mib", "expected"), _rows(INTEL))
def test_cards_of_intel(
    packaged_snapshot: CatalogSnapshot, name: str, mib: str, expected: str
) -> None:
    device = {"device_name": name, "memory_physical_size_byte": str(int(mib) * 2**20)}
    text = json.dumps({"device_list": [device]})
    assert _only({"xpu-smi": text}, packaged_snapshot) == expected


@pytest.mark.parametrize(("vendor", "name", "gib", "expected"), _rows(PROCESSORS))
def test_processors(
    packaged_snapshot: CatalogSnapshot, vendor: str, name: str, gib: str, expected: str
) -> None:
    outputs = {
        "lscpu": f"Vendor ID:  x\n  Model name:   {name}\n  Socket(s):  1\n",
        "meminfo": f"MemTotal: {float(gib) * 2**20:.0f} kB\n",
        "dmi-vendor": vendor,
    }
    assert _only(outputs, packaged_snapshot) == expected


def test_virtual_devices_are_told(packaged_snapshot: CatalogSnapshot) -> None:
    found = detect(
        {"nvidia-smi": _NVIDIA + "GRID L40S-12Q, 12288 MiB, [N/A], [N/A]\n"}, packaged_snapshot
    )
    assert any("virtual" in remark for remark in found["remarks"])
    assert found["accelerators"][0]["accelerator"] == "nvidia-l40s-48gb"


def _whole_table(name: str, used: str) -> str:
    return (
        "+-----------------------------------------+------------------------+------------------+\n"
        "| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. |\n"
        "|=========================================+========================+==================|\n"
        f"|   0  {name:<25}      On |   00000000:01:00.0  On |              N/A |\n"
        f"| N/A   45C    P8              3W /  115W | {used:>22} |      2%  Default |\n"
        "+-----------------------------------------+------------------------+------------------+\n"
    )


@pytest.mark.parametrize(
    ("used", "expected"),
    [
        ("512MiB /   8188MiB", "nvidia-rtx-4070-laptop-8gb"),
        ("512MiB /  16376MiB", "nvidia-rtx-4070-ti-super-16gb"),
    ],
)
def test_a_name_that_a_table_cuts_is_told_by_the_memory(
    packaged_snapshot: CatalogSnapshot, used: str, expected: str
) -> None:
    """As nvidia-smi prints it under WSL; names that were not cut end otherwise."""
    table = _whole_table("NVIDIA GeForce RTX 4070 ...", used)
    assert _only({"nvidia-smi": table}, packaged_snapshot) == expected


def test_cards_of_which_one_is_divided_are_of_one_kind(packaged_snapshot: CatalogSnapshot) -> None:
    listed = (
        "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-aaaa)\n"
        "  MIG 3g.40gb     Device  0: (UUID: MIG-1)\n"
        "GPU 1: NVIDIA H100 80GB HBM3 (UUID: GPU-bbbb)\n"
    )
    found = detect({"nvidia-smi": listed}, packaged_snapshot)
    assert [one["count"] for one in found["accelerators"]] == [2]
    assert any("MIG" in remark for remark in found["remarks"])


def test_graphics_that_several_processors_have_are_told_by_the_processor(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    card = {"Card Series": "AMD Radeon 780M", "VRAM Total Memory (B)": str(2**29)}
    outputs = {
        "rocm-smi": json.dumps({"card0": card}),
        "lscpu": "  Model name:  AMD Ryzen 7 7840HS w/ Radeon 780M Graphics\n  Socket(s):  1\n",
        "meminfo": f"MemTotal: {31 * 2**20} kB\n",
    }
    assert _only(outputs, packaged_snapshot) == "amd-ryzen-7-7840hs-32gb"


def test_a_card_without_a_name_is_not_looked_up(packaged_snapshot: CatalogSnapshot) -> None:
    card = {"Card Series": "N/A", "Card Model": "0x744c", "VRAM Total Memory (B)": "25753026560"}
    found = detect({"rocm-smi": json.dumps({"card0": card})}, packaged_snapshot)
    assert found["remarks"] == ["no tool named an accelerator or a processor"]


@pytest.mark.parametrize(
    ("name", "watts", "memory", "expected"),
    [
        ("NVIDIA A100 80G...", 300, 81920, ["nvidia-a100-pcie-80gb"]),
        ("Tesla V100-SXM2...", 300, 32510, ["nvidia-v100-sxm-32gb"]),
        ("GeForce RTX 208...", 250, 11019, ["nvidia-rtx-2080-ti-11gb"]),
        (
            "NVIDIA RTX PRO 6000 Blac...",
            600,  # more than a Max-Q of 300 W can be set to
            97887,
            [
                "nvidia-rtx-pro-6000-blackwell-server-96gb",
                "nvidia-rtx-pro-6000-blackwell-workstation-96gb",
            ],
        ),
    ],
)
def test_cut_names_are_told_by_brand_memory_and_power(
    packaged_snapshot: CatalogSnapshot, name: str, watts: int, memory: int, expected: list[str]
) -> None:
    table = _whole_table(name, f"0MiB / {memory}MiB").replace("115W", f"{watts}W")
    [found] = detect({"nvidia-smi": table}, packaged_snapshot)["accelerators"]
    assert ([found["accelerator"]] if found["accelerator"] else found["candidates"]) == expected


_FOR_PEOPLE = """
================================= Product Info =================================
GPU[0]          : Card Series:          Radeon RX 7900 XTX
GPU[0]          : Card Model:           0x744c
GPU[0]          : Max Graphics Package Power (W): {watts}
GPU[1]          : Card Series:          Raphael
GPU[1]          : Card Model:           0x164e
"""


@pytest.mark.parametrize(("watts", "limit"), [("303.0", None), ("255.0", 300.0)])
def test_rocm_smi_for_people_and_its_limit_of_the_chip(
    packaged_snapshot: CatalogSnapshot, watts: str, limit: float | None
) -> None:
    found = detect({"rocm-smi": _FOR_PEOPLE.format(watts=watts)}, packaged_snapshot)
    assert found["request"] is not None
    assert found["request"]["accelerator"] == "amd-rx-7900-xtx-24gb"
    assert found["request"].get("power_limit_w") == limit
    assert not found["accelerators"][1]["candidates"]


@pytest.mark.parametrize(
    ("vendor", "cores", "expected"),
    [
        ("Supermicro", 72, "nvidia-grace-480gb"),
        ("", 96, "aws-graviton4"),
        ("Google", 72, None),  # Axion has the same cores, and as many
    ],
)
def test_cores_of_arm_by_how_many_a_socket_has(
    packaged_snapshot: CatalogSnapshot, vendor: str, cores: int, expected: str | None
) -> None:
    lscpu = f"  Model name: Neoverse-V2\n  Core(s) per socket: {cores}\n  Socket(s): 1\n"
    assert _only({"lscpu": lscpu, "dmi-vendor": vendor}, packaged_snapshot) == expected


_SHORT = """
Device  Node  IDs              Temp        Power     Partitions          SCLK    PwrCap  VRAM%  GPU%
              (DID,     GUID)  (Junction)  (Socket)  (Mem, Compute, ID)
====================================================================================================
0       2     0x74a1,   32700  39.0°C      134.0W    NPS1, SPX, 0        132Mhz  750.0W  0%     0%
1       3     0x74a1,   3884   41.0°C      139.0W    NPS1, SPX, 0        131Mhz  650.0W  10%    0%
2       4     0x744c,   3884   41.0°C      39.0W     N/A, N/A, 0         131Mhz  303.0W  10%    0%
"""


def test_the_short_table_of_rocm_smi_is_read_by_ids_of_one_accelerator_each() -> None:
    """A Navi 31 could be several."""
    assert rocm_smi(_SHORT) == (
        Device("Instinct MI300X", power_limit_w=750.0),
        Device("Instinct MI300X", power_limit_w=650.0),
    )
