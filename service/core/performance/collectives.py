"""Time of messages between accelerators: alpha–beta with a floor for small messages."""

from __future__ import annotations

from numpy import ndarray

from service.core.deployment import Accelerator, Link
from service.core.elementwise import Number, Truth, ceil, everywhere, maximum, minimum, where
from service.core.lightweight import lightweight


@lightweight
class Message:
    """A message: ``fixed_s`` whatever its size [s], and ``byte_s`` for each byte of it [s/B]."""

    fixed_s: Number
    byte_s: Number


#: None is sent.
_NONE = Message(0.0, 0.0)


def all_reduce(ranks: int, accelerator: Accelerator, link_ratio: float, floor_s: float) -> Message:
    """An all-reduce over ``ranks`` accelerators, by the bytes that each contributes.

    Within a scale-up domain: latency plus twice ``(n − 1)/n`` of the message over one direction of
    the links between the ranks. Past it, a reduce-scatter and all-gather inside each domain
    surround an all-reduce of the slices between the domains.

    Parameters
    ----------
    ranks
        Ranks taking part.
    accelerator
        Gives the links.
    link_ratio
        Share of link bandwidth that collectives reach [-].
    floor_s
        Time of the smallest collective: kernel and synchronisation [s].

    References
    ----------
    Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in MPICH,
    2005, section 4, https://doi.org/10.1177/1094342005051521.
    """
    if ranks <= 1:
        return _NONE
    domain = _domain(ranks, accelerator)
    domains = ceil(ranks / domain)
    inside = 2.0 * _ring_s(domain, rate_among(domain, accelerator), link_ratio)
    if everywhere(domains == 1.0):
        return Message(floor_s, inside)
    outside = scale_out(accelerator)
    between = 2.0 / domain * _ring_s(domains, outside.bandwidth_bytes_per_s, link_ratio)
    across_s = 2.0 * floor_s + 2.0 * (domains - 1.0) * outside.latency_s
    return Message(where(domains == 1.0, floor_s, across_s), inside + between)


def all_to_all(ranks: int, accelerator: Accelerator, link_ratio: float, floor_s: float) -> Message:
    """Each of ``ranks`` accelerators sends its bytes, spread over the others.

    Parameters, units and references as for :func:`all_reduce`; the share that leaves a scale-up
    domain goes over the slower link.
    """
    if ranks <= 1:
        return _NONE
    domain = _domain(ranks, accelerator)
    leaving = (ranks - domain) / ranks
    staying = (domain - 1) / ranks
    inside = staying / (rate_among(domain, accelerator) * link_ratio)
    if everywhere(leaving == 0.0):
        return Message(floor_s, inside)
    outside = scale_out(accelerator)
    between = leaving / (outside.bandwidth_bytes_per_s * link_ratio)
    return Message(floor_s + where(leaving == 0.0, 0.0, outside.latency_s), inside + between)


def dispatch(
    ranks: int,
    copies: float,
    most_machines: int | None,
    accelerator: Accelerator,
    link_ratio: float,
    floor_s: float,
) -> Message:
    """Tokens to their experts, sent once to each machine and passed on there while others come.

    Parameters
    ----------
    ranks, accelerator, link_ratio, floor_s
        As for :func:`all_reduce`; a machine is a scale-up domain.
    copies
        Experts of a token: bytes are those of all copies [-].
    most_machines
        Machines that the experts of a token are on at most; None where routing knows no limit.

    References
    ----------
    DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 3.2.2,
    https://arxiv.org/abs/2412.19437; deepseek-ai/DeepEP, 2025.
    """
    if ranks <= 1:
        return _NONE
    domain = _domain(ranks, accelerator)
    inside = (domain - 1) / domain / (rate_among(domain, accelerator) * link_ratio)
    domains = ceil(ranks / domain)
    if everywhere(domains == 1.0):
        return Message(floor_s, inside)
    chosen = domains if most_machines is None else minimum(most_machines, domains)
    # Of so many machines those that at least one of the token's experts is on.
    touched = chosen * (1.0 - (1.0 - 1.0 / chosen) ** copies)
    outside = scale_out(accelerator)
    leaving = touched / copies * (domains - 1.0) / domains
    between = leaving / (outside.bandwidth_bytes_per_s * link_ratio)
    latency_s = where(domains == 1.0, 0.0, outside.latency_s)
    return Message(floor_s + latency_s, maximum(inside, between))


def send(across_domains: Truth, accelerator: Accelerator, link_ratio: float) -> Message:
    """One message from an accelerator to the next pipeline stage."""
    link = link_between(across_domains, accelerator)
    return Message(link.latency_s, 1.0 / (link.bandwidth_bytes_per_s * link_ratio))


def link_between(across_domains: Truth, accelerator: Accelerator) -> Link:
    """The link that messages within a scale-up domain take, or those that leave it."""
    inside, outside = accelerator.scale_up, scale_out(accelerator)
    inside = Link(rate_among(2.0, accelerator), inside.latency_s)
    if not isinstance(across_domains, ndarray):
        return outside if across_domains else inside
    return Link(
        where(across_domains, outside.bandwidth_bytes_per_s, inside.bandwidth_bytes_per_s),
        where(across_domains, outside.latency_s, inside.latency_s),
    )


def rate_among(ranks: Number, accelerator: Accelerator) -> Number:
    """What an accelerator sends to others of its domain where so many exchange [B/s].

    All of its links lead to all others through switches; where each pair has links of its own,
    fewer use only those between them.

    References
    ----------
    AMD, Instinct MI300X platform, 2023 (a full mesh of seven links)
    """
    pair = accelerator.scale_up_pair_bandwidth_bytes_per_s
    whole = accelerator.scale_up.bandwidth_bytes_per_s
    if pair is None:
        return whole
    # In stacks what nobody says is NaN.
    return where(pair == pair, minimum(whole, pair * maximum(ranks - 1.0, 1.0)), whole)


def scale_out(accelerator: Accelerator) -> Link:
    """The link between scale-up domains; without a known one, the scale-up link itself."""
    return accelerator.scale_out if accelerator.scale_out is not None else accelerator.scale_up


def _domain(ranks: int, accelerator: Accelerator) -> Number:
    """As many of the ranks as a scale-up domain has room for."""
    return maximum(minimum(ranks, accelerator.scale_up_domain_accelerators), 1)


def _ring_s(ranks: Number, bytes_per_s: Number, link_ratio: float) -> Number:
    """Time of a byte once round a ring, in slices [s/B]."""
    return (ranks - 1) / ranks / (bytes_per_s * link_ratio)
