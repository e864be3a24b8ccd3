"""Techniques that are a choice of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from service.core.memory.inference.memory import InferenceMemory
from service.core.techniques.technique import Change, InferenceChange, Technique


def _host_memory(memory: InferenceMemory) -> Iterator[InferenceChange]:
    if not memory.deployment.accelerator.unified_memory:
        yield Change(
            "keep in host memory what does not fit in the accelerator",
            lambda setup: replace(setup, in_host_memory=True),
        )


TECHNIQUES = (
    Technique("memory-tiers", "same-result", inference=_host_memory),
    Technique("high-bandwidth-memory", "more-accelerators"),
    Technique("near-memory-sram", "more-accelerators"),
    Technique("processing-in-memory", "more-accelerators"),
    Technique("compute-in-memory", "more-accelerators"),
)
