"""Techniques that are a choice of memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from service.core.memory.inference.memory import InferenceMemory
from service.core.techniques import references as by
from service.core.techniques.technique import Change, InferenceChange, Technique


def _host_memory(memory: InferenceMemory) -> Iterator[InferenceChange]:
    if not memory.deployment.accelerator.unified_memory:
        yield Change(
            "hold in host memory what has no room in the accelerator",
            lambda setup: replace(setup, in_host_memory=True),
        )


TECHNIQUES = (
    Technique(
        id="memory-tiers",
        name="Slower memory tiers: DDR, CXL, NVMe",
        category="hardware",
        applies_to=("training", "inference"),
        reach="same-result",
        saves=("weights", "optimizer", "kv_cache"),
        formula="bandwidth of what is touched = 1/Σ(f_i/B_i) with the share f_i of the bytes of a "
        "step in tier i; max(f_i·S/B_i) a step where all prefetches hide",
        saving="capacity on the accelerator for whatever is rarely touched",
        time_cost="none for what is not touched in a step; a share of B_slow/(B_fast + B_slow) can "
        "hide completely, more than that dominates the step",
        quality="unchanged",
        use_when="caches of parked sessions, cold prefixes, optimizer states, embedding tables",
        avoid_when="weights and caches that every token reads",
        set_by=("serving.memory_tiers",),
        references=(by.POND, by.PAGE_PLACEMENT, by.ZERO_INFINITY),
        aliases=("cxl-pooling",),
        inference=_host_memory,
    ),
    Technique(
        id="high-bandwidth-memory",
        name="Memory of higher bandwidth",
        category="hardware",
        applies_to=("training", "inference"),
        reach="more-accelerators",
        saves=(),
        formula="decoding step ≥ (weights + caches of the batch) / bandwidth",
        saving="none by itself",
        time_cost="gains time in proportion to the bandwidth while decoding waits for memory",
        quality="unchanged",
        use_when="few requests decode at once: fewer than peak operations / bandwidth × bytes of a "
        "weight / 2",
        avoid_when="prompts or large batches keep the matrix units busy",
        set_by=("accelerator",),
        references=(by.INFERENCE_SCALING,),
    ),
    Technique(
        id="near-memory-sram",
        name="Weights in on-chip memory",
        category="hardware",
        applies_to=("inference",),
        reach="more-accelerators",
        saves=("weights", "kv_cache"),
        formula="chips = ⌈(weights + caches + program) / on-chip bytes⌉",
        saving="all external memory, for hundreds of chips a model",
        time_cost="gains time: a step takes bytes per chip / on-chip bandwidth + hops",
        quality="unchanged",
        use_when="every millisecond of a token counts",
        avoid_when="space, power or price count: 70 billion parameters in 16 bit are 609 chips of "
        "230 MB",
        set_by=("accelerator",),
        references=(by.STREAMING_PROCESSOR,),
    ),
    Technique(
        id="processing-in-memory",
        name="Processing in DRAM",
        category="hardware",
        applies_to=("inference",),
        reach="more-accelerators",
        saves=(),
        formula="speed-up = 1/((1 − p) + p/s) for a share p of the time, made s times as fast",
        saving="none: what is read does not leave the memory",
        time_cost="gains time where products with single vectors dominate: small batches",
        quality="unchanged up to rounding",
        use_when="decoding few requests at once",
        avoid_when="batches near peak operations / bandwidth, where the gain goes to nothing",
        set_by=(),
        references=(by.DRAM_PIM,),
    ),
    Technique(
        id="compute-in-memory",
        name="Search in non-volatile memory",
        category="hardware",
        applies_to=("inference",),
        reach="more-accelerators",
        saves=(),
        formula="time, energy and area in proportion to the bytes of embeddings that are searched",
        saving="embeddings leave DRAM",
        time_cost="gains time: all embeddings are compared where they lie",
        quality="unchanged up to the format of the embeddings",
        use_when="retrieval on edge devices",
        avoid_when="decoding: it searches, it does not generate",
        set_by=(),
        references=(by.RERAM_SEARCH,),
    ),
)
