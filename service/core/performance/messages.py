"""Messages of a forward step between accelerators, and to the host."""

from __future__ import annotations

from service.core.deployment import Accelerator, Parallelism
from service.core.elementwise import Number
from service.core.performance.calibration import (
    PAYLOAD_RATIO,
    EngineOverhead,
    PerformanceCalibration,
)
from service.core.performance.collectives import (
    Message,
    all_reduce,
    all_to_all,
    dispatch,
    send,
)
from service.core.performance.issued import apart_reductions, narrowing_expert
from service.core.performance.kernels import OPERAND_BITS, engine_precision
from service.core.performance.work import MACHINE_RANKS, RankWork

#: Of a logit that is copied to the host [B].
_LOGIT_BYTES = 4.0


def token_message(
    work: RankWork,
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
    of_prompts: bool = False,
) -> Message:
    """All messages of a step, by its tokens instead of by bytes.

    Where experts lie on several machines, tokens ``of_prompts`` go once to each of these and are
    passed on there. Those of decoding go to each of their experts by themselves, which takes less
    time to begin.

    References
    ----------
    deepseek-ai/DeepEP, 2025 (normal kernels and those of low latency).
    """
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
        if of_prompts and parallelism.expert > MACHINE_RANKS:
            copies = work.exchanges_bytes_per_token / hidden_bytes
            exchanged = dispatch(parallelism.expert, copies, None, accelerator, link_ratio, floor_s)
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


#: What of the shorter of messages and work hides where a step is two, of which one computes while
#: tokens of the other are under way [-]. DeepSeek's trace of such steps shows hardly any message
#: that does not hide (profile-data, 2025); what weights are read twice for, and what waits where
#: the halves differ, is taken to be a fifth.
_HALVES_OVERLAP_RATIO = 0.8
#: Tokens of a rank from which steps are divided: ``dbo_decode_token_threshold`` of vLLM, 2025.
HALVED_TOKENS = 32.0


def hidden_ratio(work: RankWork, accelerator: Accelerator, parallelism: Parallelism) -> Number:
    """What of the shorter of messages and work hides behind the other in steps of many tokens [-].

    Where ranks on several machines share experts, steps are computed in halves: engines have a
    switch for it, and their guides to such layouts turn it on (SGLang, Deploying DeepSeek with
    large-scale expert parallelism, 2025; vLLM, Data parallel deployment, ``--enable-dbo``, 2025;
    DeepSeek-V3/R1 Inference System Overview, 2025).
    """
    if not work.exchanges:
        return 0.0
    ratio: Number = _HALVES_OVERLAP_RATIO * (
        parallelism.expert > accelerator.scale_up_domain_accelerators
    )
    return ratio


def logits_s(work: RankWork, accelerator: Accelerator, engine: EngineOverhead) -> Number:
    """Time to copy a sequence's logits, in 32 bits, to a host that chooses its token [s]."""
    link = accelerator.host_link_bandwidth_bytes_per_s
    if not engine.native or link is None:
        return 0.0
    return _LOGIT_BYTES * work.chosen_from / (link * PAYLOAD_RATIO)
