"""Messages of a forward step between accelerators, and to the host."""

from __future__ import annotations

from service.core.deployment import Accelerator, Parallelism
from service.core.elementwise import Number
from service.core.performance.calibration import (
    PAYLOAD_RATIO,
    EngineOverhead,
    PerformanceCalibration,
)
from service.core.performance.collectives import Message, all_reduce, all_to_all, send
from service.core.performance.issued import apart_reductions, narrowing_expert
from service.core.performance.kernels import OPERAND_BITS, engine_precision
from service.core.performance.work import MACHINE_RANKS, RankWork


def token_message(
    work: RankWork,
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
) -> Message:
    """All messages of a step, by its tokens instead of by bytes."""
    link_ratio = calibration.hardware.link_ratio
    floor_s = calibration.engine.collective_s
    hidden_bytes = work.hidden_size * work.activation_bytes
    fixed_s: Number = 0.0
    token_s: Number = 0.0
    sent: list[tuple[Message, float, float]] = []
    if parallelism.tensor > 1:
        reduced = all_reduce(parallelism.tensor, accelerator, link_ratio, floor_s)
        sent.append((reduced, work.reductions, hidden_bytes))
        # Meanwhile the next expert multiplies, which hides latencies.
        beside = Message(0.0, reduced.byte_s)
        sent.append((beside, apart_reductions(work, calibration.engine), hidden_bytes))
    if work.exchanges:
        exchanged = all_to_all(parallelism.expert, accelerator, link_ratio, floor_s)
        each_bytes = work.exchanges_bytes_per_token / parallelism.tensor
        each_bytes *= _sent_ratio(work, parallelism, calibration.engine)
        sent.append((exchanged, work.exchanges, each_bytes))
    if parallelism.pipeline > 1:
        ranks = parallelism.tensor * parallelism.pipeline
        across = ranks > accelerator.scale_up_domain_accelerators
        passed = send(across, accelerator, link_ratio)
        sent.append((passed, parallelism.pipeline - 1, hidden_bytes / parallelism.tensor))
    link = accelerator.host_link_bandwidth_bytes_per_s
    if calibration.host is not None and link is not None and not accelerator.unified_memory:
        # Hidden states go to the host for each layer of experts, and what these make of them back.
        sent.append(
            (Message(0.0, 1.0 / (link * PAYLOAD_RATIO)), 2.0 * work.routed_layers, hidden_bytes)
        )
    for message, times, token_bytes in sent:
        fixed_s = fixed_s + times * message.fixed_s
        token_s = token_s + times * token_bytes * message.byte_s
    return Message(fixed_s, token_s)


def _sent_ratio(work: RankWork, parallelism: Parallelism, engine: EngineOverhead) -> float:
    """Bytes that tokens take to experts and back, over those of two hidden states in 16 bit.

    Between machines they leave narrowed, where experts ask for that, and come back in 16 bit.

    References
    ----------
    deepseek-ai/DeepEP, 2025 (dispatching in FP8, combining in BF16).
    """
    expert = narrowing_expert(work, engine)
    if expert is None or parallelism.expert <= MACHINE_RANKS or work.activation_bytes < 2.0:
        return 1.0
    bits = OPERAND_BITS[engine_precision(expert.matrix_precision, engine)]
    return 0.5 * (1.0 + bits / 16.0)
