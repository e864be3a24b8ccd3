"""A machine from all that was read of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.detection.accelerator_tools import amd_smi, nvidia_smi, rocm_smi, xpu_smi
from service.estimation.detection.host_tools import (
    device_tree_model,
    dmidecode,
    lscpu,
    meminfo,
    smbios,
    system_profiler,
)
from service.estimation.detection.identify import Detection, detection
from service.estimation.detection.readings import MOST_DEVICES, Device, Host
from service.estimation.detection.tables import neuron_ls, npu_smi, table, tpu_info

#: Commands that are read, with what they are asked.
COMMANDS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "nvidia-smi": (
            "nvidia-smi",
            "--query-gpu=name,memory.total,power.limit,mig.mode.current",
            "--format=csv",
        ),
        "amd-smi": ("amd-smi", "static", "--asic", "--board", "--vram", "--limit", "--json"),
        "rocm-smi": (
            *("rocm-smi", "--showproductname", "--showmeminfo", "vram"),
            *("--showmaxpower", "--json"),
        ),
        "xpu-smi": ("xpu-smi", "discovery", "-j"),
        "hl-smi": ("hl-smi",),
        "npu-smi": ("npu-smi", "info"),
        "neuron-ls": ("neuron-ls",),
        "tpu-info": ("tpu-info",),
        "system_profiler": ("system_profiler", "SPHardwareDataType"),
        "lscpu": ("lscpu",),
        "dmidecode": ("dmidecode", "-t", "system,chassis"),
    }
)
#: Files that are read.
FILES: Mapping[str, str] = MappingProxyType(
    {
        "meminfo": "/proc/meminfo",
        "device-tree-model": "/proc/device-tree/model",
        "dmi-vendor": "/sys/class/dmi/id/sys_vendor",
        "dmi-product": "/sys/class/dmi/id/product_name",
        "dmi-chassis": "/sys/class/dmi/id/chassis_type",
    }
)
#: What reads accelerators; the second of two tools of a maker is asked where the first knows none.
_READERS: tuple[tuple[tuple[str, Callable[[str], tuple[Device, ...]]], ...], ...] = (
    (("nvidia-smi", nvidia_smi),),
    (("amd-smi", amd_smi), ("rocm-smi", rocm_smi)),
    (("xpu-smi", xpu_smi),),
    (("hl-smi", table),),
    (("npu-smi", npu_smi),),
    (("neuron-ls", neuron_ls),),
    (("tpu-info", tpu_info),),
)


def read(outputs: Mapping[str, str]) -> tuple[tuple[Device, ...], Host]:
    """Devices and host from outputs by the name of the tool or file; any may be missing."""
    devices: list[Device] = []
    for tools in _READERS:
        named = (reader(outputs[tool]) for tool, reader in tools if tool in outputs)
        devices += next(filter(None, named), ())
    chips, host = system_profiler(outputs.get("system_profiler", ""))
    for other in (
        device_tree_model(outputs.get("device-tree-model", "")),
        smbios(*(outputs.get(f"dmi-{part}", "") for part in ("vendor", "product", "chassis"))),
        dmidecode(outputs.get("dmidecode", "")),
        lscpu(outputs.get("lscpu", "")),
        meminfo(outputs.get("meminfo", "")),
    ):
        host = host.with_missing(other)
    return (*devices, *chips)[:MOST_DEVICES], host


def detect(outputs: Mapping[str, str], snapshot: CatalogSnapshot) -> Detection:
    """What a machine is, from the outputs of its tools; see :func:`read`."""
    devices, host = read(outputs)
    return detection(devices, host, snapshot)
