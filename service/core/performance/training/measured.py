"""What kinds of runs measurements of training speed are of, by class of framework.

Constants of a framework hold for whatever it trains, and formulas of all kinds follow from papers
and code. What nobody timed may wait for something besides that no formula knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from service.core.deployment import Deployment
from service.core.memory.training.settings import Method, TrainingSettings
from service.core.performance.kernels import OPERAND_BITS
from service.core.performance.training.work import product_format

_HALF_BITS = 16


class RunKind(NamedTuple):
    """What is trained: by a method, with routed experts or not, by products of 8 bits or fewer."""

    method: Method
    routed: bool
    narrow: bool


def _kinds(*methods: Method, routed: bool = False, narrow: bool = False) -> frozenset[RunKind]:
    return frozenset(RunKind(method, routed, narrow) for method in methods)


_WHOLE = _kinds("full") | _kinds("full", narrow=True)
_EXPERTS = _kinds("full", routed=True) | _kinds("full", routed=True, narrow=True)
#: Kinds whose speed somebody published, by class of framework.
#: Source: the packaged measurements, ``hardware_catalog/measurements``, 2022 to 2026.
MEASURED: Mapping[str, frozenset[RunKind]] = {
    "ahead-of-time": _WHOLE | _EXPERTS,
    "fsdp-like": _WHOLE | _kinds("lora", "qlora"),
    "megatron-like": _WHOLE | _EXPERTS | _kinds("lora", narrow=True),
    "trainer-like": _WHOLE | _kinds("lora", "qlora") | _kinds("lora", narrow=True),
}


def run_kind(deployment: Deployment, settings: TrainingSettings) -> RunKind:
    """Kind of a run."""
    format_ = product_format(deployment.precision, settings)
    narrow = OPERAND_BITS[format_.matrix_precision] < _HALF_BITS
    return RunKind(settings.method, deployment.architecture.routes, narrow)


def is_timed(framework_class: str | None, kind: RunKind) -> bool:
    """Whether somebody published how fast frameworks of a class are at a kind of run.

    Forward passes alone are part of every run.

    Parameters
    ----------
    framework_class
        A class, or any where no framework is named.
    kind
        What is trained, and how.
    """
    if kind.method == "forward":
        return True
    if framework_class is None:
        return any(kind in known for known in MEASURED.values())
    return kind in MEASURED.get(framework_class, ())
