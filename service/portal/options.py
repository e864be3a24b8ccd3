"""What can be chosen in the form, in groups that people look for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from service.catalog.derived import derived
from service.catalog.snapshot import CatalogSnapshot
from service.core.backends import Backend
from service.core.engines import EngineWorkload
from service.core.search.workloads import WORKLOAD_KINDS
from service.estimation.recommendations.inference.space import NOT_SEARCHED
from service.estimation.verdict.names import format_name


@dataclass(frozen=True, slots=True)
class Option:
    """One choice: what is sent, and what is read."""

    value: str
    text: str


def _formats(*ids: str) -> tuple[Option, ...]:
    return tuple(Option(id_, format_name(id_)) for id_ in ids)


#: Formats that are offered, out of those that the API takes.
WEIGHT_FORMATS = _formats(
    *("bf16", "fp16", "fp8", "int8", "awq-int4", "gptq-int4", "mxfp4", "nvfp4", "bnb-nf4"),
    *("gguf-q8_0", "gguf-q6_k", "gguf-q5_k_m", "gguf-q4_k_m", "gguf-q3_k_m"),
)
#: Likewise of weights that are trained, or that adapters are trained on.
TRAINED_WEIGHT_FORMATS = _formats("fp32", "bf16", "fp16", "fp8", "int8", "bnb-nf4")
KV_CACHE_FORMATS = _formats("bf16", "fp8", "int8", "int4")
#: What drives accelerators, as people call it.
_BACKENDS: Mapping[Backend, str] = {
    "cuda": "CUDA",
    "hip": "HIP with hipBLASLt",
    "hip-rocblas": "HIP with rocBLAS",
    "hip-rocwmma": "HIP with rocWMMA",
    "vulkan": "Vulkan",
    "vulkan-amdvlk": "Vulkan with AMDVLK",
    "metal": "Metal",
    "sycl": "SYCL",
    "cann": "CANN",
    "opencl": "OpenCL",
    "cpu": "CPU",
}
BACKENDS = tuple(Option(id_, name) for id_, name in _BACKENDS.items())


@dataclass(frozen=True, slots=True)
class Options:
    """Short lists of choices that come from the catalog, by group."""

    engines: dict[str, list[Option]]
    frameworks: dict[str, list[Option]]


def _engines(snapshot: CatalogSnapshot, workload: EngineWorkload) -> dict[str, list[Option]]:
    """Engines that run something, by their class."""
    return _grouped(
        (entry.value.classes[workload], Option(entry.id, entry.value.name))
        for entry in snapshot.engines.values()
        if workload in entry.value.classes
    )


@derived()
def options(snapshot: CatalogSnapshot) -> Options:
    """The choices of a catalog."""
    return Options(
        engines=_engines(snapshot, "inference"),
        frameworks=_engines(snapshot, "training"),
    )


def workload_options() -> list[Option]:
    """Kinds of workload that choices are searched for."""
    return [
        Option(kind.id, kind.name)
        for kind in WORKLOAD_KINDS.values()
        if kind.id not in NOT_SEARCHED
    ]


def _grouped(found: Iterable[tuple[str, Option]]) -> dict[str, list[Option]]:
    groups: dict[str, list[Option]] = {}
    for group, option in found:
        groups.setdefault(group, []).append(option)
    return {
        group: sorted(groups[group], key=lambda option: option.text.lower())
        for group in sorted(groups, key=str.lower)
    }
