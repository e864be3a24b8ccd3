"""Attention of beams: what they share of the cache is read once, or copied at each step."""

from __future__ import annotations

from dataclasses import replace

from service.core.deployment import ONE_BEAM, Accelerator, InferenceWorkload
from service.core.elementwise import Number, maximum
from service.core.performance.attended import ALL_READ, AttentionWork
from service.core.performance.work import RankWork

#: Share of the peak of vector units in fp32 that kernels of decoding without groups of queries
#: reach where they read from the chip's cache: some 15 FLOP for each number of the cache, which is
#: widened, multiplied and added. What MLPerf's GPT-J reaches with four beams on H100 and H200
#: (mlperf-inference-v4.1) gives 0.12 to 0.15.
VECTOR_ATTENTION_RATIO = 0.133


def with_beams(work: RankWork, workload: InferenceWorkload) -> RankWork:
    """The work of a rank where each request is decoded by the beams of a workload.

    Beams that copy their prompt copy caches and states in the order of the best ones after each
    token, which reads and writes them. Of what others attend to, the prompt is read once for all,
    and each reads its own answer.
    """
    beams = workload.beams
    if beams is ONE_BEAM:
        return work
    if beams.copied:
        copied = tuple(replace(one, rearranged=True) for one in work.attention)
        state_bytes = 2.0 * work.state_bytes_per_sequence
        return replace(work, attention=copied, state_bytes_per_sequence=state_bytes)
    prompt, answered = workload.input_tokens, workload.output_tokens / 2.0
    read_ratio = (prompt + beams.width * answered) / (beams.width * (prompt + answered))
    shared = tuple(replace(one, read_ratio=read_ratio) for one in work.attention)
    return replace(work, attention=shared)


def beams_pair_s(layer: AttentionWork, pair_s: Number, accelerator: Accelerator) -> Number:
    """Time of a pair of tokens in decoding where beams share what they attend to [s].

    Without groups of queries nothing fills the rows of matrix units: kernels of decoding compute on
    vector units, which bounds them where few tokens come from memory.
    """
    vectors = accelerator.peak_flops_per_s.get("fp32")
    if layer.read_ratio is ALL_READ or vectors is None or layer.heads_per_kv_head > 1.0:
        return pair_s
    return maximum(pair_s, layer.flops_per_pair / (VECTOR_ATTENTION_RATIO * vectors))
