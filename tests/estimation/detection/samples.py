"""Outputs in the form in which tools write them, of machines of all kinds."""

from __future__ import annotations

import json

_NVIDIA = "name, memory.total [MiB], power.limit [W], mig.mode.current\n"
DGX_H100 = _NVIDIA + "NVIDIA H100 80GB HBM3, 81559 MiB, 700.00 W, Disabled\n" * 8
LIMITED_3090 = _NVIDIA + "NVIDIA GeForce RTX 3090, 24576 MiB, 280.00 W, [N/A]\n" * 2
A100_MIG = _NVIDIA + "NVIDIA A100-SXM4-40GB, 40960 MiB, 400.00 W, Enabled\n"
RTX_3060 = _NVIDIA + "NVIDIA GeForce RTX 3060, 12288 MiB, 170.00 W, [N/A]\n"
RTX_4060_TI = _NVIDIA + "NVIDIA GeForce RTX 4060 Ti, 16380 MiB, 165.00 W, [N/A]\n"
LAPTOP_4090 = _NVIDIA + "NVIDIA GeForce RTX 4090 Laptop GPU, 16376 MiB, [N/A], [N/A]\n"
SPARK = _NVIDIA + "NVIDIA GB10, [N/A], [N/A], [N/A]\n"
ORIN = _NVIDIA + "Orin (nvgpu), [N/A], [N/A], [N/A]\n"
V100_FIRST_COLUMNS = (
    "power.limit [W], name, memory.total [MiB]\n300.00 W, Tesla V100-SXM2-32GB, 32510 MiB\n"
)
MIXED = RTX_3060 + "NVIDIA GeForce RTX 4090, 24564 MiB, 450.00 W, [N/A]\n" * 2
NO_DRIVER = (
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that "
    "the latest NVIDIA driver is installed and running.\n"
)


def _rocm(**card: str) -> str:
    return json.dumps({"card0": card, "system": {"Driver version": "6.10.5"}})


def rocm(series: str, memory_bytes: int, power_w: float) -> str:
    return _rocm(
        **{
            "Max Graphics Package Power (W)": str(power_w),
            "VRAM Total Memory (B)": str(memory_bytes),
            "VRAM Total Used Memory (B)": "27856896",
            "Card Series": series,
            "Card Model": "0x744c",
            "Card Vendor": "Advanced Micro Devices, Inc. [AMD/ATI]",
            "GFX Version": "gfx1100",
        }
    )


RX_7900_XT = rocm("Radeon RX 7900 XT", 21458059264, 265.0)
STRIX_HALO = rocm("Radeon 8060S Graphics", 536870912, 120.0)
_MI300X = {
    "asic": {"market_name": "AMD Instinct MI300X", "vendor_id": "0x1002", "device_id": "0x74a1"},
    "limit": {
        "max_power": {"value": 750, "unit": "W"},
        "socket_power": {"value": 750, "unit": "W"},
    },
    "board": {"model_number": "102-G30211-0C", "product_name": "AMD Instinct MI300X OAM"},
    "vram": {"type": "HBM", "vendor": "HYNIX", "size": {"value": 196592, "unit": "MB"}},
}
AMD_SMI = "WARNING: User is missing from the render group\n" + json.dumps(
    [{"gpu": number} | _MI300X for number in range(8)]
)
AMD_SMI_7 = json.dumps(
    {
        "gpu_data": [
            {
                "gpu": 0,
                "asic": {"market_name": "AMD Instinct MI355X"},
                "limit": {"ppt0": {"socket_power_limit": {"value": 1400, "unit": "W"}}},
                "vram": {"size": {"value": 294896, "unit": "MB"}},
            }
        ]
    }
)
XPU_SMI = json.dumps(
    {
        "device_list": [
            {
                "device_function_type": "physical",
                "device_id": number,
                "device_name": "Intel(R) Data Center GPU Max 1550",
                "device_type": "GPU",
                "pci_bdf_address": f"0000:{number}a:00.0",
                "vendor_name": "Intel(R) Corporation",
            }
            for number in range(4)
        ]
    }
)

_MAC = """Hardware:

    Hardware Overview:

      Model Name: {model}
      Model Identifier: Mac15,9
      Model Number: Z1AF0019SLL/A
      Chip: {chip}
      Total Number of Cores: 16 (12 performance and 4 efficiency)
      Memory: {memory}
      System Firmware Version: 10151.140.19
      OS Loader Version: 10151.140.19
"""
MACBOOK_M3_MAX = _MAC.format(model="MacBook Pro", chip="Apple M3 Max", memory="64 GB")
STUDIO_M2_ULTRA = _MAC.format(model="Mac Studio", chip="Apple M2 Ultra", memory="192 GB")
MINI_M4 = _MAC.format(model="Mac mini", chip="Apple M4", memory="16 GB")

_LSCPU = """Architecture:             {architecture}
  CPU op-mode(s):         32-bit, 64-bit
CPU(s):                   {processors}
  On-line CPU(s) list:    0-{processors}
Vendor ID:                {vendor}
  Model name:             {name}
    Thread(s) per core:   2
    Core(s) per socket:   56
    Socket(s):            {sockets}
"""


def lscpu(name: str, sockets: object = 1, architecture: str = "x86_64") -> str:
    return _LSCPU.format(
        name=name, sockets=sockets, architecture=architecture, vendor="-", processors=32
    )


def meminfo(gib: float) -> str:
    return (
        f"MemTotal:       {gib * 2**20:.0f} kB\nMemFree:        1200000 kB\n"
        "MemAvailable:   9000000 kB\nHugePages_Total:       0\n"
    )
