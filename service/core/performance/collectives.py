"""Time of messages between accelerators: alpha–beta with a floor for small messages."""

from __future__ import annotations

from service.core.deployment import Accelerator, Link
from service.core.elementwise import Number


def all_reduce_s(
    message_bytes: Number, ranks: int, accelerator: Accelerator, link_ratio: float, floor_s: float
) -> Number:
    """Time of an all-reduce over ``ranks`` accelerators, zero for a single one [s].

    Within a scale-up domain: latency plus twice ``(n − 1)/n`` of the message over one link
    direction. Past it, a reduce-scatter and all-gather inside each domain surround an all-reduce
    of the slices between the domains.

    Parameters
    ----------
    message_bytes
        Bytes each rank contributes [B].
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
        return 0.0
    domain = max(1, min(ranks, accelerator.scale_up_domain_accelerators))
    domains = -(-ranks // domain)
    inside = _ring_s(2.0 * message_bytes, domain, accelerator.scale_up, link_ratio)
    if domains == 1:
        return floor_s + inside
    outside = scale_out(accelerator)
    between = _ring_s(2.0 * message_bytes / domain, domains, outside, link_ratio)
    return 2.0 * floor_s + inside + between + 2.0 * (domains - 1) * outside.latency_s


def all_to_all_s(
    sent_bytes: Number, ranks: int, accelerator: Accelerator, link_ratio: float, floor_s: float
) -> Number:
    """Time in which each of ``ranks`` accelerators sends ``sent_bytes``, spread over the others.

    Parameters, units and references as for :func:`all_reduce_s`; the share that leaves a
    scale-up domain goes over the slower link.
    """
    if ranks <= 1:
        return 0.0
    domain = max(1, min(ranks, accelerator.scale_up_domain_accelerators))
    leaving = (ranks - domain) / ranks
    staying = (domain - 1) / ranks
    inside = sent_bytes * staying / (accelerator.scale_up.bandwidth_bytes_per_s * link_ratio)
    if leaving == 0:
        return floor_s + inside
    outside = scale_out(accelerator)
    between = sent_bytes * leaving / (outside.bandwidth_bytes_per_s * link_ratio)
    return floor_s + outside.latency_s + inside + between


def send_s(
    message_bytes: Number, across_domains: bool, accelerator: Accelerator, link_ratio: float
) -> Number:
    """Time of one message from an accelerator to the next pipeline stage [s]."""
    link = scale_out(accelerator) if across_domains else accelerator.scale_up
    return link.latency_s + message_bytes / (link.bandwidth_bytes_per_s * link_ratio)


def scale_out(accelerator: Accelerator) -> Link:
    """The link between scale-up domains; without a known one, the scale-up link itself."""
    return accelerator.scale_out if accelerator.scale_out is not None else accelerator.scale_up


def _ring_s(moved_bytes: Number, ranks: int, link: Link, link_ratio: float) -> Number:
    share = (ranks - 1) / ranks
    return moved_bytes * share / (link.bandwidth_bytes_per_s * link_ratio)
