"""Interfaces by which native engines drive hardware, of which some have several to choose from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from service.core.hardware import NO_HARDWARE, Hardware, HardwareList

#: What an engine is built for. ``hip`` multiplies prompts by hipBLASLt, ``hip-rocblas`` by rocBLAS
#: alone, ``hip-rocwmma`` fuses attention by rocWMMA beside hipBLASLt; ``vulkan`` goes through the
#: driver that comes with the system (Mesa's RADV on Linux), ``vulkan-amdvlk`` through AMD's own.
Backend: TypeAlias = Literal[
    "cuda",
    "hip",
    "hip-rocblas",
    "hip-rocwmma",
    "vulkan",
    "vulkan-amdvlk",
    "metal",
    "sycl",
    "cann",
    "opencl",
    "cpu",
]
BACKENDS: tuple[Backend, ...] = get_args(Backend)

#: The interface that constants of hardware families were measured with, by what their ids begin
#: with: what their makers made for them.
_OF_MAKERS: Mapping[str, str] = MappingProxyType(
    {
        "nvidia-": "cuda",
        "amd-": "hip",
        "apple-": "metal",
        "intel-xe": "sycl",
        "huawei-": "cann",
        "qualcomm-": "opencl",
        "cpu-": "cpu",
    }
)

#: Makers' interfaces for which engines are built from one source: llama.cpp compiles the files of
#: its CUDA backend for HIP as they are (ggml/src/ggml-hip/CMakeLists.txt, 2024-2026).
_ONE_SOURCE = ("cuda", "hip")


@dataclass(frozen=True, slots=True)
class BackendOption:
    """A backend of an engine: it exists on ``hardware``, and most people run it on ``usual``.

    Many run it on what is ``also_usual``, too, where most do not.
    """

    id: Backend
    hardware: HardwareList
    usual: HardwareList
    also_usual: HardwareList = NO_HARDWARE


def backends_on(options: Iterable[BackendOption], hardware: Hardware) -> tuple[Backend, ...]:
    """The backends of an engine that exist on an accelerator."""
    return tuple(one.id for one in options if one.hardware.has(hardware))


def usual_backend(options: Iterable[BackendOption], hardware: Hardware) -> Backend | None:
    """The backend that most people run on an accelerator; None where the engine has no choice.

    It is the first that exists there where no list names it.
    """
    able = [one for one in options if one.hardware.has(hardware)]
    usual = next((one for one in able if one.usual.has(hardware)), None)
    return (usual or able[0]).id if able else None


def also_usual_backends(
    options: Iterable[BackendOption], hardware: Hardware
) -> tuple[Backend, ...]:
    """What many run on an accelerator beside the backend that most do."""
    return tuple(
        one.id for one in options if one.hardware.has(hardware) and one.also_usual.has(hardware)
    )


def interface_of(backend: str) -> str:
    """The interface that a backend is a variant of, or itself."""
    return backend.partition("-")[0]


def driven_alike(family: str) -> str | None:
    """What ids of families begin with that a maker's interface drives alike; None if none does."""
    return next((one for one in _OF_MAKERS if family.startswith(one)), None)


def is_of_maker(backend: str, family: str) -> bool:
    """Whether a backend drives hardware by the interface of its maker."""
    return any(
        family.startswith(beginning) and interface_of(backend) == own
        for beginning, own in _OF_MAKERS.items()
    )


def shares_source(family: str) -> bool:
    """Whether native engines drive hardware by code that they drive other makers' with, too."""
    return any(is_of_maker(one, family) for one in _ONE_SOURCE)
