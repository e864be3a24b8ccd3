"""The decision matrix: what matters for which kind of workload, as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

Metric: TypeAlias = Literal["headroom", "latency", "carbon", "water", "cost", "energy"]

#: The metrics that candidates are compared by, in the order of arrays.
METRICS: tuple[Metric, ...] = ("headroom", "latency", "carbon", "water", "cost", "energy")

Priority: TypeAlias = Literal[
    "balanced", "cheapest", "fastest", "lowest_carbon", "lowest_water", "smallest"
]

#: What a choice can be best at, in the order of answers: the metric that it has least of; None for
#: the weighted product of all, and for the number of accelerators.
PRIORITIES: Mapping[Priority, Metric | None] = MappingProxyType(
    {
        "balanced": None,
        "cheapest": "cost",
        "fastest": "latency",
        "lowest_carbon": "carbon",
        "lowest_water": "water",
        "smallest": None,
    }
)

#: Where hardware may be had: rented in a cloud, or bought and placed in a site of one's own, as a
#: workstation, as a laptop, or as a device at the edge.
Where: TypeAlias = Literal["cloud", "owned", "workstation", "laptop", "edge"]

Focus: TypeAlias = Literal["memory capacity", "memory speed", "environment", "hybrid"]


@dataclass(frozen=True, slots=True)
class WorkloadKind:
    """One row of the matrix.

    ``metric_weights_ratio`` sum to one. ``headroom_target_ratio`` of memory left free is as good as
    any more. ``ttft_s`` and ``tpot_s`` are the limits where the caller gives none [s]; None where
    the kind has none. ``techniques`` are tried in this order. ``where`` is the hardware that the
    kind runs on, where the caller says nothing.
    """

    id: str
    name: str
    focus: Focus
    hard_first: str
    metric_weights_ratio: Mapping[Metric, float]
    headroom_target_ratio: float
    ttft_s: float | None
    tpot_s: float | None
    techniques: tuple[str, ...]
    evidence: str
    where: tuple[Where, ...] = ("cloud",)


def _weights(
    headroom: float, latency: float, carbon: float, water: float, cost: float
) -> Mapping[Metric, float]:
    return MappingProxyType(
        {
            "headroom": headroom,
            "latency": latency,
            "carbon": carbon,
            "water": water,
            "cost": cost,
            # Counts through carbon, water and cost already.
            "energy": 0.0,
        }
    )


#: Weights are defaults of this service, a design choice: they can be replaced in every request and
#: stand in every answer.
WORKLOAD_KINDS: Mapping[str, WorkloadKind] = MappingProxyType(
    {
        kind.id: kind
        for kind in (
            WorkloadKind(
                id="llm-training",
                name="LLM training",
                focus="memory capacity",
                hard_first="memory, time to finish",
                metric_weights_ratio=_weights(0.10, 0.20, 0.20, 0.10, 0.40),
                headroom_target_ratio=0.2,
                ttft_s=None,
                tpot_s=None,
                techniques=(
                    "adamw-8bit",
                    "activation-checkpointing",
                    "zero",
                    "offload",
                    "memory-tiers",
                ),
                evidence="Optimizer states and activations exceed weights several times over: "
                "Rajbhandari et al., ZeRO, 2019, https://arxiv.org/abs/1910.02054",
            ),
            WorkloadKind(
                id="batch-inference",
                name="Batch inference",
                focus="memory capacity",
                hard_first="memory for the batch",
                metric_weights_ratio=_weights(0.15, 0.05, 0.20, 0.10, 0.50),
                headroom_target_ratio=0.5,
                ttft_s=None,
                tpot_s=None,
                techniques=(
                    "kv-cache-quantisation",
                    "grouped-query-attention",
                    "paged-attention",
                    "prefix-caching",
                    "memory-tiers",
                ),
                evidence="Throughput grows with the sequences that the KV cache holds: Kwon et "
                "al., PagedAttention, 2023, https://arxiv.org/abs/2309.06180",
            ),
            WorkloadKind(
                id="real-time-inference",
                name="Real-time inference",
                focus="memory speed",
                hard_first="time to first token",
                metric_weights_ratio=_weights(0.10, 0.30, 0.15, 0.05, 0.40),
                headroom_target_ratio=0.5,
                ttft_s=0.150,
                tpot_s=0.050,
                techniques=(
                    "high-bandwidth-memory",
                    "weight-quantisation",
                    "paged-attention",
                    "near-memory-sram",
                    "processing-in-memory",
                ),
                evidence="Decoding reads all weights for every token, so bandwidth bounds it: Pope "
                "et al., Efficiently Scaling Transformer Inference, 2022, "
                "https://arxiv.org/abs/2211.05102",
            ),
            WorkloadKind(
                id="agentic",
                name="Agentic AI",
                focus="memory speed",
                hard_first="time for a whole task",
                metric_weights_ratio=_weights(0.10, 0.35, 0.15, 0.05, 0.35),
                headroom_target_ratio=0.5,
                ttft_s=0.200,
                tpot_s=0.050,
                techniques=("prefix-caching", "resident-kv-cache", "speculative-decoding"),
                evidence="Calls follow one another, so their latencies add up: Yao et al., ReAct, "
                "2022, https://arxiv.org/abs/2210.03629",
            ),
            WorkloadKind(
                id="sustainable",
                name="Sustainable AI",
                focus="environment",
                hard_first="rules, water and noise limits",
                metric_weights_ratio=_weights(0.05, 0.05, 0.45, 0.25, 0.20),
                headroom_target_ratio=0.5,
                ttft_s=None,
                tpot_s=None,
                techniques=("smaller-model", "weight-quantisation", "memory-tiers"),
                evidence="Place decides more than hardware does: Patterson et al., Carbon "
                "Emissions and Large Neural Network Training, 2021, "
                "https://arxiv.org/abs/2104.10350",
            ),
            WorkloadKind(
                id="edge",
                name="Edge",
                focus="hybrid",
                hard_first="memory and power of the device",
                metric_weights_ratio=_weights(0.15, 0.25, 0.20, 0.05, 0.35),
                headroom_target_ratio=0.5,
                ttft_s=None,
                tpot_s=None,
                techniques=(
                    "weight-quantisation",
                    "distillation",
                    "sliding-window",
                    "compute-in-memory",
                ),
                evidence="Devices are short of capacity, bandwidth and power at once: Lin et al., "
                "AWQ, 2023, https://arxiv.org/abs/2306.00978",
                where=("edge", "laptop"),
            ),
        )
    }
)
