"""Layouts: among how many accelerators a copy of a model is divided, and how many copies run.

What searches try and what stands in where a request leaves the layout open follow the same rules:
tensor parallelism where the attention heads divide and fast links reach, pipeline stages beyond.
Where heads share one cache, which tensor parallelism does not divide, copies of the attention that
share the experts are tried, too. Among layouts with room for the requests the load decides between
copies and wider groups.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from math import ceil, gcd, inf
from typing import TypeAlias

from service.core import elementwise
from service.core.architecture.model import LatentAttention, MixtureOfExperts, ModelArchitecture
from service.core.architecture.sharding import divisors
from service.core.deployment import Accelerator, Parallelism
from service.core.elementwise import Number

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


@dataclass(frozen=True, slots=True)
class Merit:
    """How a layout with all its copies serves the load.

    ``most_per_s`` requests at most [1/s], each of which takes ``request_s`` under the load [s].
    """

    most_per_s: float
    request_s: float

    @property
    def power(self) -> tuple[float, float]:
        """Requests that it serves at most in a second over the time of one under the load [1/s²].

        Of layouts that the load saturates, the one that serves most comes first.

        References
        ----------
        Kleinrock, Power and Deterministic Rules of Thumb for Probabilistic Problems in Computer
        Communications, 1979 (power as throughput over response time).
        """
        return self.most_per_s / self.request_s, self.most_per_s


#: Tells how a layout with all its copies serves the load.
Served: TypeAlias = Callable[[Parallelism], Merit]


def divides_heads(architecture: ModelArchitecture, tensor: int) -> bool:
    """Whether so many ranks divide all attention heads of a model, and share its keys and values.

    References
    ----------
    :func:`shares_kv_heads`
    """
    return all(heads % tensor == 0 for heads in architecture.query_head_counts) and (
        shares_kv_heads(architecture, tensor)
    )


def shares_kv_heads(architecture: ModelArchitecture, tensor: int) -> bool:
    """Whether ranks hold equally many heads of keys and values each, or equally many copies of one.

    References
    ----------
    vLLM, ``QKVParallelLinear``, vllm/model_executor/layers/linear.py, 2023-2026 (heads and ranks
    must divide one another); Megatron-LM, ``num_query_groups``, 2023-2026 (likewise).
    """
    return all(heads % tensor == 0 or tensor % heads == 0 for heads in architecture.kv_head_counts)


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
    return tuple(
        n
        for n in divisors(divided)
        if n <= most and (pads_heads or shares_kv_heads(architecture, n))
    )


def has_fast_links(accelerator: Accelerator) -> bool:
    """Whether links of its own join accelerators, faster than those through the host."""
    host = accelerator.host_link_bandwidth_bytes_per_s
    return host is None or bool(accelerator.scale_up.bandwidth_bytes_per_s > host)


def sharing_ranks(architecture: ModelArchitecture, most: int) -> int:
    """Copies that share the experts of a model, up to ``most``; 1 where they are not run so.

    Engines offer it for all routed experts; people run it where all heads read one compressed cache
    (multi-head latent attention), of which each rank of tensor parallelism would hold a whole copy.
    Ranks need not divide experts: some then hold one more, or copies of popular ones.

    References
    ----------
    vLLM, Data parallel deployment, 2025,
    https://docs.vllm.ai/en/v0.12.0/serving/data_parallel_deployment/; vLLM, fused_moe/layer.py,
    ``determine_expert_map``, 2025 (remainders go to the first ranks); TensorRT-LLM, wide expert
    parallelism, 2025 (288 slots of 256 experts on 72 ranks).
    """
    if not any(isinstance(group.mixer, LatentAttention) for group in architecture.groups):
        return 1
    experts = _routed_experts(architecture)
    return min(most, *experts) if experts else 1


def expert_ranks(architecture: ModelArchitecture, most: int) -> int:
    """The most ranks, up to ``most``, that divide the experts of all layers; 1 without experts."""
    experts = _routed_experts(architecture)
    return max(n for n in divisors(gcd(*experts)) if n <= most) if experts else 1


def _routed_experts(architecture: ModelArchitecture) -> list[int]:
    """Routed experts of each kind of layers that has any."""
    return [
        group.feed_forward.experts
        for group in architecture.groups
        if isinstance(group.feed_forward, MixtureOfExperts)
    ]


def usual_layout(
    architecture: ModelArchitecture,
    accelerator: Accelerator,
    count: int,
    in_flight: float | None,
    room: Room,
    *,
    merit: Served | None = None,
    least_copies: int = 1,
    spills: bool = False,
    pads_heads: bool = False,
    divides_layers: bool = False,
    shares_experts: bool = False,
) -> Parallelism:
    """How most people lay out a model on ``count`` accelerators; some may be left over.

    A copy takes accelerators of a fast domain that hold the model and its share of the requests.
    Of layouts that have room and give work to as many accelerators, it is the one of most merit,
    or of most copies where nobody tells the merit or it is the same. What a domain does not hold is
    divided into pipeline stages of a domain each, or among copies that share experts over several.
    Where none has room for all requests, it is that of most merit of those that hold the model.

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
    shares_experts
        Whether the engine's copies may hold each expert once among them.

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
        copies = max(with_copies(layout).data, 1)
        return float(USUAL_SEQUENCES) if in_flight is None else ceil(flying / min(copies, flying))

    def with_copies(layout: Parallelism) -> Parallelism:
        return _with_copies(layout, count)

    def at_work(layout: Parallelism) -> float:
        each = layout.replica_accelerators
        return each * min(with_copies(layout).data, flying)

    widest = domain if has_fast_links(accelerator) else _MOST_THROUGH_HOST
    if divides_layers:
        most_stages = min(count_each, architecture.layer_count)
        candidates = [Parallelism(pipeline=n) for n in range(1, most_stages + 1)]
        degrees = (1,)
    else:
        candidates = [Parallelism(degree) for degree in degrees if degree <= widest]
        joined = min(widest, count_each)
        sharing = sharing_ranks(architecture, joined) if shares_experts else 1
        candidates += [Parallelism(expert=sharing)] if sharing > 1 else []
    narrow = sorted(candidates, key=lambda one: (-at_work(one), one.replica_accelerators))
    for _, alike in groupby(narrow, key=at_work):
        able = [one for one in map(with_copies, alike) if room(one, share(one))]
        if able:
            return _best(able, merit)
    wide = (with_copies(Parallelism(degree)) for degree in degrees if degree > widest)
    divided = next((one for one in wide if room(one, share(one))), None)
    if divided is not None:
        return divided
    deep = (
        []
        if spills
        else [
            Parallelism(tensor=max(n for n in degrees if n * stages <= count_each), pipeline=stages)
            for stages in _stages(min(count_each, architecture.layer_count))
        ]
    )
    beyond = sharing_ranks(architecture, count_each) if shares_experts and not spills else 1
    # Requests that wait may be served sooner by copies that share experts, if with less room.
    joint = sorted({one.expert for one in candidates if one.joined_copies > 1} | {beyond} - {1})
    sharers = [one for one in map(with_copies, map(_sharing, joint)) if room(one, 1.0)]
    if beyond > widest:
        whole = [one for one in deep if count_each % one.replica_accelerators == 0]
        across = [map(with_copies, ones) for ones in ((_sharing(beyond),), whole)]
        first = (next((one for one in ones if room(one, share(one))), None) for ones in across)
        able = [one for one in first if one is not None]
        if able:
            return _best([*able, *sharers], merit)
    # As many as are asked for in stages, else some in what has most room for them.
    roomiest = sorted(deep, key=lambda one: -one.replica_accelerators)
    layouts = [
        *((one, share(one)) for one in deep),
        *((Parallelism(degree), 1.0) for degree in reversed(degrees)),
        *((one, 1.0) for one in roomiest),
    ]
    found = next((one for one, requests in layouts if room(with_copies(one), requests)), None)
    most = max([Parallelism(degrees[-1]), *deep], key=lambda one: one.replica_accelerators)
    last = with_copies(most if found is None else found)
    if merit is None or divides_layers or found is None:
        return _best([last, *sharers], merit)
    # Some wait in any layout: what serves them best is not what has room for most of them.
    holding = [one for one in map(with_copies, candidates) if room(one, 1.0)]
    return _best(list(dict.fromkeys([last, *holding, *sharers])), merit)


def _sharing(ranks: int) -> Parallelism:
    """Copies on an accelerator each that share their experts."""
    return Parallelism(expert=ranks)


@lru_cache(maxsize=4096)
def _with_copies(layout: Parallelism, count: int) -> Parallelism:
    """A layout with as many copies as so many accelerators make up."""
    return replace(layout, data=count // layout.least_accelerators * layout.joined_copies)


def _best(able: Sequence[Parallelism], merit: Served | None) -> Parallelism:
    """Of layouts with room the one of most power; one with shared experts if that is faster."""
    if merit is None or len(able) == 1:
        return able[0]
    merits = {one: merit(one) for one in able}
    whole = [one for one in able if one.joined_copies == 1]
    best = max(whole or able, key=lambda one: merits[one].power)
    quickest = min(able, key=lambda one: merits[one].request_s)
    return quickest if quickest.joined_copies > 1 else best


def in_groups(copies: Number, layout: Parallelism) -> Number:
    """Copies in whole groups of those that share their experts [-]."""
    joined = layout.joined_copies
    return copies if joined == 1 else elementwise.ceil(copies / joined) * joined


def replica_layouts(
    architecture: ModelArchitecture,
    most: int,
    *,
    divides_layers: bool = False,
    shares_experts: bool = False,
) -> tuple[Parallelism, ...]:
    """Layouts of one copy that searches try: tensor parallelism as far as heads divide, stages.

    Of an engine that gives each accelerator some layers, stages alone. Of one whose copies may
    share experts, copies on an accelerator each, where people run the model so.
    """
    if divides_layers:
        deepest = min(most, architecture.layer_count)
        return tuple(Parallelism(pipeline=n) for n in _LAYER_STAGES if n <= deepest)
    degrees = [
        tensor
        for tensor in _TENSOR_DEGREES
        if tensor <= most and divides_heads(architecture, tensor)
    ]
    experts = min(_routed_experts(architecture), default=1)
    found: list[Parallelism] = []
    for tensor in degrees:
        stages = _PIPELINE_DEGREES if tensor == degrees[-1] or tensor >= _WIDE_TENSOR else (1,)
        for pipeline in stages:
            if tensor * pipeline > most or pipeline > architecture.layer_count:
                continue
            found.append(Parallelism(tensor=tensor, pipeline=pipeline))
            if 1 < tensor <= experts:
                found.append(Parallelism(tensor=tensor, pipeline=pipeline, expert=tensor))
    if shares_experts:
        shared = (n for n in _TENSOR_DEGREES if 1 < n == sharing_ranks(architecture, min(n, most)))
        found += [Parallelism(expert=n) for n in shared]
    return tuple(found)


def _stages(most: int) -> Iterator[int]:
    stages = 2
    while stages <= most:
        yield stages
        stages += 1 if stages < _FEW_STAGES else stages
