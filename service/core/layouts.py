"""Layouts: among how many accelerators a copy of a model is divided, and how many copies run.

What searches try and what stands in where a request leaves the layout open follow the same rules:
tensor parallelism where the attention heads divide and fast links reach, pipeline stages beyond.
Among layouts with room for the requests the load decides between copies and wider groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from math import ceil, gcd, inf
from typing import TypeAlias

from service.core.architecture.model import MixtureOfExperts, ModelArchitecture
from service.core.architecture.sharding import divisors
from service.core.deployment import Accelerator, Parallelism

#: Requests that a copy is to have room for where nobody says how many are in flight: a choice of
#: this service, enough for a step to be more than the reading of weights [-].
USUAL_SEQUENCES = 32
#: Ranks over which tensor parallelism is spread at most to be faster alone, where links run through
#: the host: cards of one processor, of which usual servers have two with four each [-].
_MOST_THROUGH_HOST = 4
#: Numbers of pipeline stages that are tried one by one; beyond, they double [-].
_FEW_STAGES = 8

#: Degrees that searches try.
_TENSOR_DEGREES = (1, 2, 4, 8, 16, 32, 64)
_PIPELINE_DEGREES = (1, 2, 4, 8)
#: Degrees that searches try for engines that divide by layers alone.
_LAYER_STAGES = (1, 2, 3, 4, 6, 8, 12, 16)
#: Searches try pipeline stages from this many tensor-parallel ranks on: below, more ranks of those
#: answer faster and hold as much.
_WIDE_TENSOR = 8

#: Whether each copy of a layout has room for so many requests.
Room: TypeAlias = Callable[[Parallelism, float], bool]
#: How good a layout with all its copies is under the load: more is better.
Merit: TypeAlias = Callable[[Parallelism], tuple[float, ...]]


def divides_heads(architecture: ModelArchitecture, tensor: int) -> bool:
    """Whether so many ranks divide all attention heads of a model."""
    return all(heads % tensor == 0 for heads in architecture.query_head_counts)


def divides(architecture: ModelArchitecture, layout: Parallelism) -> bool:
    """Whether a layout divides a model's heads, and its layers fill all stages."""
    return layout.pipeline <= architecture.layer_count and divides_heads(
        architecture, layout.tensor
    )


def tensor_degrees(
    architecture: ModelArchitecture, most: int, *, pads_heads: bool = False
) -> tuple[int, ...]:
    """Tensor-parallel degrees up to ``most`` that divide a model's heads, in order.

    Without heads, or with an engine that pads them, those that divide ``most``.
    """
    heads = architecture.query_head_counts
    divided = most if pads_heads or not heads else gcd(*heads)
    return tuple(n for n in divisors(divided) if n <= most)


def has_fast_links(accelerator: Accelerator) -> bool:
    """Whether links of its own join accelerators, faster than those through the host."""
    host = accelerator.host_link_bandwidth_bytes_per_s
    return host is None or bool(accelerator.scale_up.bandwidth_bytes_per_s > host)


def usual_layout(
    architecture: ModelArchitecture,
    accelerator: Accelerator,
    count: int,
    in_flight: float | None,
    room: Room,
    *,
    merit: Merit | None = None,
    least_copies: int = 1,
    spills: bool = False,
    pads_heads: bool = False,
    divides_layers: bool = False,
) -> Parallelism:
    """How most people lay out a model on ``count`` accelerators; some may be left over.

    A copy takes accelerators of a fast domain that hold the model and its share of the requests.
    Of layouts that have room and give work to as many accelerators, it is the one of most merit,
    or of most copies where nobody tells the merit or it is the same. What a domain does not hold is
    divided into pipeline stages of a domain each.

    Parameters
    ----------
    architecture, accelerator, count
        What is laid out on how many of what.
    in_flight
        Requests in flight over all copies; None if nobody says.
    room
        Tells what fits.
    merit
        Tells which of the layouts that fit serves the load best; None if nobody can.
    least_copies
        Copies that there have to be [-].
    spills
        Whether what does not fit lies outside the accelerators.
    pads_heads
        Whether the engine adds heads where the accelerators do not divide them.
    divides_layers
        Whether the engine gives each accelerator some layers, rather than a part of each.

    References
    ----------
    vLLM, Parallelism and scaling, 2025,
    https://docs.vllm.ai/en/stable/serving/parallelism_scaling/ (one accelerator if the model fits,
    tensor parallelism within a node, tensor times pipeline parallelism over nodes, and pipeline
    parallelism where the number of accelerators does not divide the model evenly).
    """
    count_each = max(count // least_copies, 1)
    domain = min(count_each, accelerator.scale_up_domain_accelerators)
    degrees = tensor_degrees(architecture, domain, pads_heads=pads_heads)
    flying = inf if in_flight is None else max(in_flight, 1.0)

    def share(layout: Parallelism) -> float:
        copies = count // layout.replica_accelerators
        return float(USUAL_SEQUENCES) if in_flight is None else ceil(flying / min(copies, flying))

    def with_copies(layout: Parallelism) -> Parallelism:
        copies = count // layout.replica_accelerators
        return Parallelism(tensor=layout.tensor, pipeline=layout.pipeline, data=copies)

    def at_work(layout: Parallelism) -> float:
        ranks = layout.replica_accelerators
        return ranks * min(count // ranks, flying)

    widest = domain if has_fast_links(accelerator) else _MOST_THROUGH_HOST
    if divides_layers:
        most_stages = min(count_each, architecture.layer_count)
        candidates = [Parallelism(pipeline=n) for n in range(1, most_stages + 1)]
        degrees = (1,)
    else:
        candidates = [Parallelism(degree) for degree in degrees if degree <= widest]
    narrow = sorted(candidates, key=lambda one: (-at_work(one), one.replica_accelerators))
    for _, alike in groupby(narrow, key=at_work):
        able = [one for one in map(with_copies, alike) if room(one, share(one))]
        if able:
            return able[0] if merit is None or len(able) == 1 else max(able, key=merit)
    wide = (with_copies(Parallelism(degree)) for degree in degrees if degree > widest)
    joined = next((one for one in wide if room(one, share(one))), None)
    if joined is not None:
        return joined
    deep = (
        []
        if spills
        else [
            Parallelism(tensor=max(n for n in degrees if n * stages <= count_each), pipeline=stages)
            for stages in _stages(min(count_each, architecture.layer_count))
        ]
    )
    # As many as are asked for in stages, else some in what has most room for them.
    layouts = [
        *((one, share(one)) for one in deep),
        *((Parallelism(degree), 1.0) for degree in reversed(degrees)),
        *((one, 1.0) for one in deep),
    ]
    found = next((one for one, requests in layouts if room(with_copies(one), requests)), None)
    most = max([Parallelism(degrees[-1]), *deep], key=lambda one: one.replica_accelerators)
    return with_copies(most if found is None else found)


def replica_layouts(
    architecture: ModelArchitecture, most: int, *, divides_layers: bool = False
) -> tuple[Parallelism, ...]:
    """Layouts of one copy that searches try: tensor parallelism as far as heads divide, stages.

    Of an engine that gives each accelerator some layers, stages alone.
    """
    if divides_layers:
        deepest = min(most, architecture.layer_count)
        return tuple(Parallelism(pipeline=n) for n in _LAYER_STAGES if n <= deepest)
    degrees = [
        tensor
        for tensor in _TENSOR_DEGREES
        if tensor <= most and divides_heads(architecture, tensor)
    ]
    experts = min(
        (
            group.feed_forward.experts
            for group in architecture.groups
            if isinstance(group.feed_forward, MixtureOfExperts)
        ),
        default=1,
    )
    found: list[Parallelism] = []
    for tensor in degrees:
        stages = _PIPELINE_DEGREES if tensor == degrees[-1] or tensor >= _WIDE_TENSOR else (1,)
        for pipeline in stages:
            if tensor * pipeline > most or pipeline > architecture.layer_count:
                continue
            found.append(Parallelism(tensor=tensor, pipeline=pipeline))
            if 1 < tensor <= experts:
                found.append(Parallelism(tensor=tensor, pipeline=pipeline, expert=tensor))
    return tuple(found)


def _stages(most: int) -> Iterator[int]:
    stages = 2
    while stages <= most:
        yield stages
        stages += 1 if stages < _FEW_STAGES else stages
