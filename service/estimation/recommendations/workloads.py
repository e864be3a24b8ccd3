"""Use case: the decision matrix."""

from __future__ import annotations

from typing import Any

from service.core.search.workloads import WORKLOAD_KINDS


def workload_answers() -> list[dict[str, Any]]:
    """The kinds of workload with their weights, limits, techniques and evidence."""
    return [
        {
            "id": kind.id,
            "name": kind.name,
            "focus": kind.focus,
            "hard_first": kind.hard_first,
            "weights": dict(kind.metric_weights_ratio),
            "headroom_target_ratio": kind.headroom_target_ratio,
            "ttft_s": kind.ttft_s,
            "tpot_s": kind.tpot_s,
            "techniques": list(kind.techniques),
            "where": list(kind.where),
            "evidence": kind.evidence,
        }
        for kind in WORKLOAD_KINDS.values()
    ]
