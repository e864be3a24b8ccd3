"""What tools write for people is read as well as what they write for programs.

The outputs are rebuilt after those that users of the tools have published, with other numbers.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.detection.accelerator_tools import amd_smi, nvidia_smi, rocm_smi, xpu_smi
from service.estimation.detection.host_tools import dmidecode, lscpu, system_profiler
from service.estimation.detection.machine import detect
from service.estimation.detection.readings import MOST_DEVICES, Device, Host
from service.estimation.detection.tables import neuron_ls, npu_smi, table, tpu_info

MIB, GIB = 2**20, 2**30

NVIDIA_XML = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
\t<attached_gpus>2</attached_gpus>
""" + (
    """\t<gpu id="00000000:07:00.0">
\t\t<product_name>NVIDIA A100-SXM4-80GB</product_name>
\t\t<mig_mode>
\t\t\t<current_mig>Enabled</current_mig>
\t\t\t<pending_mig>Enabled</pending_mig>
\t\t</mig_mode>
\t\t<mig_devices><mig_device><index>0</index><fb_memory_usage><total>19968 MiB</total>
\t\t</fb_memory_usage></mig_device></mig_devices>
\t\t<fb_memory_usage>
\t\t\t<total>81920 MiB</total>
\t\t\t<reserved>591 MiB</reserved>
\t\t</fb_memory_usage>
\t\t<bar1_memory_usage>
\t\t\t<total>131072 MiB</total>
\t\t</bar1_memory_usage>
\t\t<gpu_power_readings>
\t\t\t<power_draw>62.10 W</power_draw>
\t\t\t<current_power_limit>400.00 W</current_power_limit>
\t\t\t<default_power_limit>400.00 W</default_power_limit>
\t\t</gpu_power_readings>
\t</gpu>
"""
    * 2
)

NVIDIA_REPORT = """
==============NVSMI LOG==============

Timestamp                                 : Mon Nov  2 10:11:12 2026
Driver Version                            : 570.133.20
CUDA Version                              : 12.8

Attached GPUs                             : 1
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Product Brand                         : NVIDIA
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    MIG Device
        Index                             : 0
        FB Memory Usage
            Total                         : 19968 MiB
    FB Memory Usage
        Total                             : 81559 MiB
        Reserved                          : 550 MiB
        Used                              : 4 MiB
    BAR1 Memory Usage
        Total                             : 131072 MiB
    GPU Power Readings
        Average Power Draw                : 71.30 W
        Current Power Limit               : 650.00 W
        Default Power Limit               : 700.00 W
    Module Power Readings
        Current Power Limit               : N/A
"""

NVIDIA_LIST = """GPU 0: NVIDIA A100-SXM4-40GB (UUID: GPU-11111111-2222-3333-4444-555555555555)
  MIG 3g.20gb     Device  0: (UUID: MIG-11111111-2222-3333-4444-666666666666)
  MIG 3g.20gb     Device  1: (UUID: MIG-11111111-2222-3333-4444-777777777777)
GPU 1: NVIDIA A100-SXM4-40GB (UUID: GPU-11111111-2222-3333-4444-888888888888)
"""

_SMI_HEAD = """Mon Nov  2 10:11:12 2026
+-----------------------------------------------------------------------------------------+
| NVIDIA-SMI 570.133.20             Driver Version: 570.133.20     CUDA Version: 12.8     |
|-----------------------------------------+------------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
"""
NVIDIA_TABLE = (
    _SMI_HEAD
    + """|   0  NVIDIA GeForce RTX 3090        On  |   00000000:01:00.0 Off |                  N/A |
|  0%   41C    P8             22W /  280W |      12MiB /  24576MiB |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
|   1  NVIDIA GeForce RTX 3090        On  |   00000000:02:00.0 Off |                  N/A |
|  0%   39C    P8             20W /  280W |      12MiB /  24576MiB |      0%      Default |
|                                         |                        |                  N/A |
+-----------------------------------------+------------------------+----------------------+
| Processes:                                                                              |
|    0   N/A  N/A            1612      G   /usr/lib/xorg/Xorg                        4MiB |
"""
)
MIG_TABLE = (
    _SMI_HEAD
    + """|   0  NVIDIA A100-SXM4-40GB          On  |   00000000:07:00.0 Off |                   On |
| N/A   30C    P0             50W /  400W |       0MiB /  40960MiB |     N/A      Default |
|                                         |                        |              Enabled |
+-----------------------------------------+------------------------+----------------------+
"""
)
HL_SMI = """+-----------------------------------------------------------------------------+
| HL-SMI Version:                              hl-1.22.0-fw-61.0.0.0          |
| Driver Version:                                     1.22.0-aaaaaaa          |
|-------------------------------+----------------------+----------------------+
| AIP  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncor-Events|
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | AIP-Util  Compute M. |
|===============================+======================+======================|
""" + (
    """|   0  HL-225              N/A  | 0000:33:00.0     N/A |                   2  |
| N/A   24C   P0   81W /  600W  |   768MiB /  98304MiB |     0%            0% |
|-------------------------------+----------------------+----------------------+
"""
    * 8
)
NPU_SMI = """
+------------------------------------------------------------------------------------------------+
| npu-smi 24.1.0                   Version: 24.1.0                                               |
+---------------------------+---------------+----------------------------------------------------+
| NPU   Name                | Health        | Power(W)    Temp(C)           Hugepages-Usage(page)|
| Chip                      | Bus-Id        | AICore(%)   Memory-Usage(MB)  HBM-Usage(MB)        |
+===========================+===============+====================================================+
| 2     910B4               | OK            | 81.4        41                0    / 0             |
| 0                         | 0000:C2:00.0  | 0           0    / 0          2911 / 32768         |
+===========================+===============+====================================================+
"""
TPU_INFO = """Libtpu version: 0.0.21
Accelerator type: v6e

TPU Chips
┏━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┳━━━━━━━━━┳━━━━━━━┓
┃ Chip        ┃ Type         ┃ Devices ┃ PID   ┃
┡━━━━━━━━━━━━━╇━━━━━━━━━━━━━━╇━━━━━━━━━╇━━━━━━━┩
│ /dev/vfio/0 │ TPU v6e chip │ 1       │ 12345 │
│ /dev/vfio/1 │ TPU v6e chip │ 1       │ None  │
└─────────────┴──────────────┴─────────┴───────┘
"""
NEURON_LS = """instance-type: {instance}
instance-id: i-0123456789abcdef0
+--------+--------+----------+--------+--------------+----------+------+
| NEURON | NEURON |  NEURON  | NEURON |     PCI      |   CPU    | NUMA |
| DEVICE | CORES  | CORE IDS | MEMORY |     BDF      | AFFINITY | NODE |
+--------+--------+----------+--------+--------------+----------+------+
| 0      | 2      | 0-1      | 32 GB  | 0000:00:1e.0 | 0-7      | -1   |
| 1      | 2      | 2-3      | 32 GB  | 0000:00:1f.0 | 0-7      | -1   |
+--------+--------+----------+--------+--------------+----------+------+
"""
AMD_STATIC = "".join(
    f"""GPU: {number}
    ASIC:
        MARKET_NAME: AMD Instinct MI350X
        VENDOR_ID: 0x1002
        NUM_COMPUTE_UNITS: 128
    BUS:
        BDF: 0000:05:00.0
    LIMIT:
        MAX_POWER: 1000 W
        SOCKET_POWER: 1000 W
    BOARD:
        PRODUCT_NAME: AMD Instinct MI350 OAM
    VRAM:
        TYPE: HBM3E
        SIZE: 294896 MB

"""
    for number in range(2)
)
ROCM_CSV = (
    "device,GPU use (%),VRAM Total Memory (B),Card Series,Card Model\n"
    "card0,0,21458059264,Radeon RX 7900 XT,0x744c\n\n"
)
XPU_TABLE = """
+-----------+--------------------------------------------------------------------------+
| Device ID | Device Information                                                       |
+-----------+--------------------------------------------------------------------------+
| 0         | Device Name: Intel(R) Data Center GPU Max 1100                           |
|           | Vendor Name: Intel(R) Corporation                                        |
+-----------+--------------------------------------------------------------------------+
"""
MAC_JSON = json.dumps(
    {
        "SPHardwareDataType": [
            {
                "_name": "hardware_overview",
                "chip_type": "Apple M3 Max",
                "machine_model": "Mac15,9",
                "machine_name": "MacBook Pro",
                "physical_memory": "64 GB",
            }
        ]
    }
)
LSCPU_JSON = json.dumps(
    {
        "lscpu": [
            {"field": "Architecture:", "data": "x86_64"},
            {
                "field": "Vendor ID:",
                "data": "AuthenticAMD",
                "children": [
                    {
                        "field": "Model name:",
                        "data": "AMD EPYC 9654 96-Core Processor",
                        "children": [{"field": "Socket(s):", "data": "2"}],
                    }
                ],
            },
        ]
    }
)
DMIDECODE = """# dmidecode 3.5
Getting SMBIOS data from sysfs.
SMBIOS 3.3.0 present.

Handle 0x0001, DMI type 1, 27 bytes
System Information
\tManufacturer: NVIDIA
\tProduct Name: DGXH100
\tVersion: v1.0

Handle 0x0003, DMI type 3, 22 bytes
Chassis Information
\tManufacturer: NVIDIA
\tType: Rack Mount Chassis
\tLock: Not Present
"""


@pytest.mark.parametrize(
    ("reader", "text", "expected"),
    [
        (
            nvidia_smi,
            NVIDIA_XML,
            (Device("NVIDIA A100-SXM4-80GB", 81920 * MIB, 400.0, divided=True),) * 2,
        ),
        (nvidia_smi, NVIDIA_REPORT, (Device("NVIDIA H100 80GB HBM3", 81559 * MIB, 650.0),)),
        (
            nvidia_smi,
            NVIDIA_LIST,
            (
                Device("NVIDIA A100-SXM4-40GB", divided=True),
                Device("NVIDIA A100-SXM4-40GB"),
            ),
        ),
        (nvidia_smi, NVIDIA_TABLE, (Device("NVIDIA GeForce RTX 3090", 24576 * MIB, 280.0),) * 2),
        (
            nvidia_smi,
            MIG_TABLE,
            (Device("NVIDIA A100-SXM4-40GB", 40960 * MIB, 400.0, divided=True),),
        ),
        (table, HL_SMI, (Device("HL-225", 98304 * MIB, 600.0),) * 8),
        (npu_smi, NPU_SMI, (Device("Ascend 910B4", 32768 * MIB),)),
        (tpu_info, TPU_INFO, (Device("TPU v6e"),) * 2),
        (
            neuron_ls,
            NEURON_LS.format(instance="trn1.32xlarge"),
            (Device("AWS Trainium1", 32 * GIB),) * 2,
        ),
        (
            neuron_ls,
            NEURON_LS.format(instance="inf2.24xlarge"),
            (Device("AWS Inferentia2", 32 * GIB),) * 2,
        ),
        (neuron_ls, NEURON_LS.format(instance="m5.large"), ()),
        (amd_smi, AMD_STATIC, (Device("AMD Instinct MI350X", 294896 * MIB, 1000.0),) * 2),
        (rocm_smi, ROCM_CSV, (Device("Radeon RX 7900 XT", 21458059264),)),
        (xpu_smi, XPU_TABLE, (Device("Intel(R) Data Center GPU Max 1100"),)),
    ],
)
def test_devices(reader: Any, text: str, expected: tuple[Device, ...]) -> None:
    assert reader(text) == expected
    assert len(reader(text * 600)) <= MOST_DEVICES


def test_hosts() -> None:
    chips, mac = system_profiler(MAC_JSON)
    assert chips == (Device("Apple M3 Max", 64 * GIB),)
    assert (mac.vendor, mac.model, mac.chassis) == ("Apple", "MacBook Pro", 10)
    assert lscpu(LSCPU_JSON) == Host(processor="AMD EPYC 9654 96-Core Processor", sockets=2)
    assert dmidecode(DMIDECODE) == Host(vendor="NVIDIA", model="DGXH100", chassis=23)
    assert dmidecode("") == Host()


@pytest.mark.parametrize(
    ("outputs", "accelerator", "count"),
    [
        ({"nvidia-smi": NVIDIA_XML}, "nvidia-a100-sxm-80gb", 2),
        ({"nvidia-smi": NVIDIA_TABLE}, "nvidia-rtx-3090-24gb", 2),
        ({"hl-smi": HL_SMI}, "intel-gaudi2-96gb", 8),
        ({"npu-smi": NPU_SMI}, "huawei-ascend-910b4-32gb", 1),
        ({"tpu-info": TPU_INFO}, "google-tpu-v6e", 2),
        ({"neuron-ls": NEURON_LS.format(instance="trn1.32xlarge")}, "aws-trainium1", 2),
        ({"amd-smi": AMD_STATIC}, "amd-mi350x-288gb", 2),
        ({"xpu-smi": XPU_TABLE}, "intel-max-1100-48gb", 1),
        ({"system_profiler": MAC_JSON}, "apple-m3-max-64gb", 1),
    ],
)
def test_machines(
    outputs: dict[str, str], accelerator: str, count: int, packaged_snapshot: CatalogSnapshot
) -> None:
    found = detect(outputs, packaged_snapshot)
    assert found["request"] is not None, found
    assert found["request"]["accelerator"] == accelerator
    assert found["request"]["accelerator_count"] == count
    assert ("power_limit_w" in found["request"]) is (accelerator == "nvidia-rtx-3090-24gb")


def test_a_machine_is_known_by_dmidecode(packaged_snapshot: CatalogSnapshot) -> None:
    found = detect({"nvidia-smi": NVIDIA_REPORT, "dmidecode": DMIDECODE}, packaged_snapshot)
    assert found["request"] == {
        "accelerator": "nvidia-h100-sxm-80gb",
        "accelerator_count": 1,
        "platform": "nvidia-dgx-h100",
        "power_limit_w": 650.0,
    }


@pytest.mark.parametrize("reader", [table, npu_smi, tpu_info, neuron_ls, nvidia_smi, amd_smi])
@pytest.mark.parametrize("text", ["", "|" * 20_000, "<gpu>" * 5000, "GPU: 0\n", "| 0 " * 5000])
def test_other_texts_name_nothing(reader: Any, text: str) -> None:
    assert reader(text) == ()
