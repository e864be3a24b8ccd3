"""What hardware allows at most: no software, however good, is faster than its figures.

Times assume that every accelerator is busy all the time at its datasheet's rates, that work
divides without a rest, and that nothing passes between accelerators. Weights and caches are read
from memory in every step: what lies in caches of a chip that hold a whole model could be faster.
What else is left out makes bounds looser, never wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from service.core.elementwise import Number
from service.core.explanation import Formula
from service.core.performance.attended import attended
from service.core.performance.products import work_sizes
from service.core.performance.steps import StepLoad
from service.core.performance.work import RankWork

_ROOFLINE = "Williams, Waterman, Patterson, Roofline, 2009, https://doi.org/10.1145/1498765.1498785"
#: Paths start at the bounds of a model on accelerators.
BOUNDS = (
    Formula(
        "Accelerators that hold everything",
        "ceil(held_bytes / memory_bytes)",
        "definition",
        "least_accelerator_count",
        unit="accelerator",
    ),
    Formula(
        "Least time to the first token",
        "max(prompt_flops / peak_flops_per_s, prompt_bytes / bandwidth_bytes_per_s)"
        " / accelerator_count",
        _ROOFLINE,
        "least_ttft_s",
    ),
    Formula(
        "Least time of a token, all accelerators at once",
        "max(token_flops / peak_flops_per_s, token_bytes / bandwidth_bytes_per_s)"
        " / accelerator_count",
        _ROOFLINE,
        "least_tpot_s",
    ),
    Formula(
        "Least time of a token, one accelerator after another",
        "least_tpot_s * accelerator_count",
        "Layers follow each other, each on one accelerator",
        "least_tpot_in_turn_s",
    ),
)


@dataclass(frozen=True, slots=True)
class LeastWork:
    """Operations that a step cannot do without [FLOP], and what it has to read at least [B]."""

    flops: float
    memory_bytes: float


@dataclass(frozen=True, slots=True)
class Bound:
    """The least time of work [s], and what sets it."""

    least_s: float
    is_compute: bool


def least_work(work: RankWork, load: StepLoad) -> LeastWork:
    """What a step of a whole model takes at least.

    Weights are read once, of routed experts those of a single token; caches are read once for each
    sequence that decodes. Activations stay where they are computed.

    Parameters
    ----------
    work
        A forward step of the whole model.
    load
        Prompts and sequences of the step.
    """
    sizes = work_sizes(work.products, work.activation_bytes)
    tokens = float(load.prefill_tokens + load.decode_sequences)
    sequences = float(load.prefill_sequences + load.decode_sequences)
    flops = tokens * (sizes.by_token.row_flops + work.state_flops_per_token)
    flops += sequences * sizes.by_sequence.row_flops
    read = sizes.by_token.weights_bytes + sizes.by_sequence.weights_bytes
    for size in sizes.experts:
        flops += tokens * size.row_flops * size.item.copies_per_token
        read += size.weights_bytes * min(size.item.copies_per_token, size.item.copies)
    for layer in work.attention:
        pairs, decoded, _ = map(float, attended(layer, load, 1))
        flops += (pairs - decoded) * layer.of_prompts(True) + decoded * layer.flops_per_pair
        decoding = StepLoad(0.0, 0.0, 0.0, load.decode_sequences, load.decode_context_tokens)
        read += float(attended(layer, decoding, 1)[2]) * layer.cache_bytes_per_token
    return LeastWork(flops, read + float(load.decode_sequences) * work.state_bytes_per_sequence)


def least_time(
    work: LeastWork, bandwidth_bytes_per_s: Number, peak_flops_per_s: Number | None, count: int
) -> Bound:
    """The least time of work on so many accelerators at once.

    Parameters
    ----------
    work
        What is to be done.
    bandwidth_bytes_per_s
        Of the memory of one of them [B/s].
    peak_flops_per_s
        Its highest dense rate for the weights [FLOP/s]; None where none is published, and memory
        alone bounds the time.
    count
        How many of them share the work [-].
    """
    reading_s = work.memory_bytes / float(bandwidth_bytes_per_s) / count
    computing_s = 0.0
    if peak_flops_per_s is not None:
        computing_s = work.flops / float(peak_flops_per_s) / count
    return Bound(max(reading_s, computing_s), computing_s > reading_s)


def least_accelerator_count(held_bytes: Number, memory_bytes: Number) -> int:
    """Accelerators whose memory [B] holds so much [B], all of it filled [-]."""
    return max(1, ceil(float(held_bytes) / float(memory_bytes)))
