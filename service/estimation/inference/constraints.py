"""What a deployment has to respect, with value, limit and margin for each."""

from __future__ import annotations

from service.core.elementwise import plain
from service.core.memory.training.memory import TrainingMemory
from service.estimation.answers import Constraint
from service.estimation.inference.deployment import ComputedDeployment


def constraints(computed: ComputedDeployment) -> list[Constraint]:
    """Hard limits of a deployment and how it stands to them."""
    resolved = computed.resolved
    deployment = resolved.deployment
    parallelism = deployment.parallelism
    found = [
        *_memory(computed),
        _at_most(
            "tensor_parallel_group_within_scale_up_domain",
            plain(parallelism.tensor),
            plain(deployment.accelerator.scale_up_domain_accelerators),
            "accelerators",
        ),
    ]
    limit = resolved.serving.max_model_len or deployment.architecture.max_position_embeddings
    if limit is not None:
        tokens = resolved.workload.sequence_tokens
        found.append(_at_most("context_length", plain(tokens), plain(limit), "tokens"))
    rate = resolved.workload.requests_per_s
    if rate is not None:
        saturation = computed.latency.saturation_requests_per_s.value
        found.append(_at_most("request_rate", plain(rate), plain(saturation), "requests/s"))
    return found


def training_constraints(memory: TrainingMemory) -> list[Constraint]:
    """Hard limits of a training run and how it stands to them, as for :func:`constraints`."""
    deployment = memory.deployment
    found = [
        _at_most(
            "memory_per_accelerator",
            plain(memory.total_bytes.value),
            plain(memory.usable_bytes),
            "bytes",
        ),
        _at_most(
            "tensor_parallel_group_within_scale_up_domain",
            plain(deployment.parallelism.tensor),
            plain(deployment.accelerator.scale_up_domain_accelerators),
            "accelerators",
        ),
    ]
    limit = deployment.architecture.max_position_embeddings
    if limit is not None:
        tokens = plain(memory.micro_batch.tokens)
        found.append(_at_most("context_length", tokens, plain(limit), "tokens"))
    return found


def _memory(computed: ComputedDeployment) -> list[Constraint]:
    memory = computed.memory
    if computed.tiers is not None:
        # Nothing may be left without a place; how many sequences run follows from that.
        unplaced = plain(computed.tiers.unplaced_bytes.value)
        return [_at_most("bytes_without_a_place", unplaced, 0.0, "bytes")]
    # What does not count against the engine's share may lie beside it.
    held = _at_most(
        "memory_per_accelerator",
        plain(memory.total_bytes.value),
        plain(memory.total_bytes.value + memory.headroom_bytes.value),
        "bytes",
    )
    if not computed.generates:
        return [held]
    return [
        held,
        _at_most(
            "sequences_in_flight",
            plain(computed.resolved.workload.concurrency),
            plain(memory.max_concurrency.value),
            "sequences",
        ),
    ]


def _at_most(name: str, value: float, limit: float, unit: str) -> Constraint:
    return {
        "name": name,
        "verdict": "pass" if value <= limit else "fail",
        "value": value,
        "limit": limit,
        "margin": limit - value,
        "unit": unit,
    }
