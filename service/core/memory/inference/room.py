"""Room for caches beside everything else, and what fits into it."""

from __future__ import annotations

from service.core.deployment import Deployment, ServingSettings
from service.core.elementwise import (
    Number,
    ceil,
    everywhere,
    floor,
    maximum,
    minimum,
    sqrt,
    where,
)
from service.core.interval import Interval, from_log_sigma, independent_sum, shift
from service.core.lightweight import lightweight
from service.core.memory.kv_cache import CacheLayout

#: How far caches of pages are off: a page kept back, and rounding in logs [-].
_PAGED_LOG_SIGMA = 0.004
#: No token takes less, beside those that take nothing [B].
_LEAST_BYTES = 1e-9


@lightweight
class SizeLine:
    """Size of a sequence's cache over its length, once some windows are full."""

    constant_bytes: Number
    bytes_per_token: float


def cache_room(
    usable: Number, inside: Interval, capacity: Number, everything: Interval
) -> Interval:
    """What is left for caches [B]: within the share, and within the accelerator with all of it.

    Below zero by what the rest lacks. What the driver holds for the process is not checked by
    engines when they start.
    """

    def room(within_share: Number, within_accelerator: Number) -> Number:
        return minimum(usable - within_share, capacity - within_accelerator)

    return Interval(
        room(inside.value, everything.value),
        room(inside.high, everything.high),
        room(inside.low, everything.low),
    )


def cache_log_sigma(layout: CacheLayout, size_log_sigma: float, *, paged: bool) -> float:
    """How far the size of caches is off, as a standard deviation of its logarithm [-].

    Of pages made when an engine starts, each token of a layer that keeps all of them takes just
    what its shape says. States and windows are filled up to pages of others, by rules of their own.
    """
    plain = not (layout.windowed or grows(layout.state_bytes))
    return min(_PAGED_LOG_SIGMA, size_log_sigma) if paged and plain else size_log_sigma


def uncertain_room(room: Interval, log_sigma: float) -> Interval:
    """The room with what the size of what it is divided by is off."""
    off = from_log_sigma(maximum(room.value, 0.0), log_sigma)
    return independent_sum((room, shift(off, -off.value)))


def capacity_tokens(
    layout: CacheLayout, budget: Interval, sequence: Number, tokens: Number
) -> Interval:
    """Tokens of all sequences that the budget holds, at the workload's length."""
    block = layout.block_tokens
    per_byte = ceil(tokens / block) * block / maximum(sequence, 1.0)

    def capacity(room: Number) -> Number:
        return maximum(floor(room * per_byte / block) * block, 0.0)

    return Interval(capacity(budget.value), capacity(budget.low), capacity(budget.high))


def held_bytes(sequences: Number, private: Number, growing: Number) -> Number:
    """What running sequences hold at once, beside what they share [B].

    Where an engine takes pages as answers grow, answers are at any point between their ends: of
    ``growing`` bytes that the mean lacks to a whole sequence, sequences hold as many times as the
    root of their number (about 1.7 standard deviations, and all of it for one alone).

    Parameters
    ----------
    sequences
        Running sequences [-].
    private
        A whole sequence, without what all share [B].
    growing
        What a sequence lacks of that on average over its life; 0 where room for whole answers is
        set aside [B].
    """
    return sequences * private - growing * (sequences - sqrt(sequences))


def most_sequences(room: Number, private: Number, growing: Number, step: Number = 0.0) -> Number:
    """Sequences that a room holds; the inverse of :func:`held_bytes` [-].

    Parameters
    ----------
    room
        What is free for them [B].
    private, growing
        A whole sequence, without what all share, and what it lacks on average [B].
    step
        What each takes beside its cache while a step is computed [B].
    """
    each = maximum(private, 1.0) + step
    mean = maximum(each - growing, 1.0)
    free = maximum(room, 0.0)
    root = (sqrt(growing * growing + 4.0 * mean * free) - growing) / (2.0 * mean)
    return where(growing > 0.0, root * root, free / each)


def context_limit(deployment: Deployment, serving: ServingSettings) -> float:
    """Longest sequence that settings and model allow."""
    if serving.max_model_len is not None:
        return float(serving.max_model_len)
    limit = deployment.architecture.max_position_embeddings
    return float("inf") if limit is None else float(limit)


@lightweight
class Stretch:
    """Room that is left for the tokens of a sequence beyond ``before_tokens``.

    Each takes ``bytes_per_token``, and each pair of two of them ``bytes_per_pair``. ``room_bytes``
    is that of all caches, of which a sequence takes what ``line`` says [B], further beams that
    share its prompt ``beams_bytes`` [B], and a token of a step ``windows_bytes_per_token`` in
    layers with windows.
    """

    room_bytes: Number
    beams_bytes: Number
    windows_bytes_per_token: Number
    line: SizeLine
    spare_bytes: Number
    before_tokens: Number
    bytes_per_token: Number
    bytes_per_pair: Number


def room_each(
    layout: CacheLayout, room: Number, concurrency_per_replica: Number, step_tokens: Number
) -> Number:
    """Room of each sequence, one of which holds a step's worth of tokens beside its windows [B]."""
    prefill = step_tokens * layout.windowed_bytes_per_token
    return (room - prefill) / maximum(concurrency_per_replica, 1.0)


def reach(stretch: Stretch, block_tokens: int, limit: float) -> Number:
    """Longest sequence in whole pages; the limit where nothing grows with it [token]."""
    spare, linear, square = stretch.spare_bytes, stretch.bytes_per_token, stretch.bytes_per_pair
    if not (grows(linear) or grows(square)):
        return where(spare >= 0.0, limit, 0.0)
    root = sqrt(linear * linear + 4.0 * square * maximum(spare, 0.0))
    tokens = stretch.before_tokens + 2.0 * spare / maximum(linear + root, _LEAST_BYTES)
    return maximum(floor(tokens / block_tokens) * block_tokens, 0.0)


def size_lines(layout: CacheLayout) -> list[SizeLine]:
    """A sequence's size with 0, 1, 2 … windows filled, narrowest first."""
    block = layout.block_tokens
    constant: Number = layout.state_bytes
    slope = full_bytes(layout) + layout.windowed_bytes_per_token
    lines = [SizeLine(constant, slope)]
    for part in layout.windowed:
        pages = ceil(part.window_tokens / block) + 1.0
        constant = constant + part.bytes_per_token * block * pages
        slope = slope - part.bytes_per_token
        # What is left of the last window by subtraction is rounding, not bytes.
        lines.append(
            SizeLine(constant, slope if part is not layout.windowed[-1] else full_bytes(layout))
        )
    return lines


def full_bytes(layout: CacheLayout) -> float:
    """Bytes that the next token adds in layers that see everything [B/token]."""
    return layout.full_bytes_per_token / layout.context_ranks


def grows(figure: Number) -> bool:
    """Whether a figure is more than nothing, in one configuration at least."""
    return not everywhere(figure <= 0.0)
