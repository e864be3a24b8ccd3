"""What temporary tensors of a step take the more, the more sequences run and the longer they are.

Engines that prepare for a full step take the same whatever runs. Others compute whole prompts
together, sample as many sequences as there are, or store scores of all that is attended to: there,
what a further sequence or token takes beside its cache decides how many fit, and how long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import TYPE_CHECKING, TypeVar

from service.core.deployment import UNBOUNDED_STEP_TOKENS, ServingSettings
from service.core.elementwise import Number, floor, maximum, minimum, plain, scaled, where
from service.core.interval import Interval, shift
from service.core.lightweight import lightweight
from service.core.memory.inference.activations import (
    beside_logits_bytes_per_token,
    layer_bytes_per_token,
)
from service.core.memory.inference.room import (
    Stretch,
    grows,
    most_sequences,
    reach,
    room_each,
    size_lines,
)
from service.core.memory.inference.runtime import EngineRuntime

if TYPE_CHECKING:
    from service.core.memory.inference.memory import InferenceMemory

Way = TypeVar("Way")

#: More tokens and sequences than any step has; infinity times nothing would be undefined.
_NO_END = 1e15


@lightweight
class Ramp:
    """A figure over the sequences of a replica.

    It is ``rest`` where none runs, and ``each`` more for every one, up to ``most`` for all.
    """

    rest: Number
    each: Number
    most: Number

    def at(self, sequences: Number) -> Number:
        """The figure where so many run."""
        return self.rest + minimum(self.each * sequences, self.most)

    def times(self, factor: Number, more: Number = 0.0) -> Ramp:
        """Another figure in proportion to it, with ``more`` at rest."""
        return Ramp(self.rest * factor + more, self.each * factor, self.most * factor)

    def beside(self, other: Ramp) -> Ramp:
        """Both figures together; too much between their ends where both have one."""
        return Ramp(self.rest + other.rest, self.each + other.each, self.most + other.most)


@lightweight
class SequencesRoom:
    """Room for caches of a pipeline stage, less what a step takes at one of its moments.

    ``room_bytes`` is left where nothing runs, and each sequence takes ``step_bytes_per_sequence``
    of it beside its cache [B].
    """

    stage: InferenceMemory
    room_bytes: Interval
    step_bytes_per_sequence: Number


@lightweight
class LengthsRoom:
    """The same over tokens of a sequence, where as many run as are asked for.

    Beyond ``before_tokens``, a token takes ``step_bytes_per_token`` beside its cache, and a pair of
    tokens ``step_bytes_per_pair`` [B].
    """

    stage: InferenceMemory
    room_bytes: Interval
    before_tokens: Number
    step_bytes_per_token: Number
    step_bytes_per_pair: Number


def sequences_that_fit(memory: InferenceMemory, *ends: str) -> list[Number]:
    """Sequences of the workload's shape that every stage has room for, over all replicas [-].

    One figure for each of the ``ends`` of the room's interval: its "value", "low" or "high".
    """
    # How far sizes of caches are off changes no value.
    known = rooms_of_sequences if ends != ("value",) else _rooms_as_known
    replicas, rooms = memory.deployment.parallelism.data, _of_stages(memory, known)

    def most(end: str) -> Number:
        return replicas * floor(_least(rooms, lambda way: _sequences(way, end)))

    return [most(end) for end in ends]


def deciding_sequences(memory: InferenceMemory) -> SequencesRoom:
    """The room that decides how many sequences there is room for, in a single configuration."""
    return _deciding(_of_stages(memory, rooms_of_sequences), lambda way: plain(_sequences(way)))


def max_context_tokens(memory: InferenceMemory) -> Interval:
    """Longest sequence such that as many as are asked for fit [token].

    The size of a sequence grows with its length ever more slowly, as one window after the other
    fills up: it is the least of as many straight lines as there are windows, plus one. So the
    longest sequence within a size is the greatest of the lengths that the lines give.
    """
    rooms, limit = _of_stages(memory, rooms_of_lengths), memory.context_limit_tokens

    def longest(end: str) -> Number:
        return minimum(_least(rooms, lambda way: _tokens(way, end)), limit)

    return Interval(longest("value"), longest("low"), longest("high"))


def deciding_stretch(memory: InferenceMemory) -> Stretch:
    """What decides how long sequences can be, in a single configuration."""
    way = _deciding(_of_stages(memory, rooms_of_lengths), lambda way: plain(_tokens(way)))
    block, limit = memory.plan.cache.block_tokens, memory.context_limit_tokens
    return max(_stretches(way), key=lambda stretch: plain(reach(stretch, block, limit)))


def step_tokens(engine: EngineRuntime, serving: ServingSettings, input_tokens: Number) -> Ramp:
    """Tokens that the engine prepares for, or computes, in one step [token]."""
    if engine.prefills_whole:
        return Ramp(0.0, input_tokens, _NO_END)
    most = minimum(serving.chunked_prefill_tokens, engine.most_step_tokens)
    if not engine.reserves_cache:
        return Ramp(0.0, input_tokens, most)
    # It measures its peak with a full step when it starts, if a step has an end.
    ends = most < UNBOUNDED_STEP_TOKENS
    return Ramp(where(ends, most, 0.0), where(ends, 0.0, input_tokens), where(ends, 0.0, most))


def sampled_sequences(engine: EngineRuntime, most_running: Number, beams: float = 1.0) -> Ramp:
    """Sequences sampled at once: as many as prepared for, or as run, and those at most [-].

    Each request has so many ``beams``.
    """
    if engine.profiled_sequences:
        return Ramp(minimum(engine.profiled_sequences, most_running), 0.0, 0.0)
    return Ramp(0.0, beams, most_running)


def rooms_of_sequences(memory: InferenceMemory) -> list[tuple[SequencesRoom, ...]]:
    """Rooms that sequences have to find place in: in one of each tuple, in all tuples.

    What a step takes grows with sequences up to its end, and not beyond: where there is room for
    all that it can take, sequences may be more.
    """
    return _rooms_within(memory, memory.cache_room_bytes)


def _rooms_as_known(memory: InferenceMemory) -> list[tuple[SequencesRoom, ...]]:
    return _rooms_within(memory, memory.room_bytes)


def _rooms_within(
    memory: InferenceMemory, caches_bytes: Interval
) -> list[tuple[SequencesRoom, ...]]:
    """The same within a room for caches [B]."""
    steps, sampled, drafted = memory.steps, memory.sampled, memory.draft_sequence_bytes
    if not (grows(steps.each) or grows(sampled.each) or grows(drafted)):
        return [(SequencesRoom(memory, caches_bytes, 0.0),)]
    peak, shape = memory.plan.peak, memory.shape
    inside = steps.times(
        layer_bytes_per_token(peak, shape, shape.attended_tokens),
        shape.widened_bytes + shape.pooled_bytes,
    )
    logits = steps if memory.engine.whole_prompt_logits else sampled
    entries = peak.vocabulary_entries * shape.bytes_per_entry
    sampling = logits.times(
        peak.vocabulary_entries * shape.bytes_per_logit, shape.pooled_bytes + entries
    ).beside(steps.times(beside_logits_bytes_per_token(peak, shape)))
    # Before the first step: it takes the same whatever runs.
    loading = Ramp(shape.repeated_bytes, 0.0, 0.0)
    moments = (inside, sampling, loading) if shape.repeated_bytes else (inside, sampling)
    asked = drafted * memory.concurrency_per_replica
    found: list[tuple[SequencesRoom, ...]] = []
    for free, weight in _without_steps(memory, caches_bytes):
        for taken in moments:
            room = shift(free, asked - weight * taken.rest)
            full = shift(room, -weight * taken.most)
            each = weight * taken.each + drafted
            growing = SequencesRoom(memory, room, each)
            found.append((growing, SequencesRoom(memory, full, drafted)))
    return found


def rooms_of_lengths(memory: InferenceMemory) -> list[tuple[LengthsRoom, ...]]:
    """Rooms that tokens of each sequence have to find place in, as :func:`rooms_of_sequences`."""
    steps, shape, peak, engine = memory.steps, memory.shape, memory.plan.peak, memory.engine
    attends = shape.bytes_per_score > 0.0 and not engine.fixes_attended(
        memory.serving.max_model_len
    )
    if not (grows(steps.each) or attends):
        return [(LengthsRoom(memory, memory.cache_room_bytes, 0.0, 0.0, 0.0),)]
    before = memory.workload.output_tokens
    # A token attends to its prompt, or to all that its sequence holds: the answer, too.
    attended = 0.0 if engine.prefills_whole else before
    first = layer_bytes_per_token(peak, shape, attended if attends else shape.attended_tokens)
    score = peak.score_heads * shape.bytes_per_score if attends else 0.0
    logits = peak.vocabulary_entries * shape.bytes_per_logit
    beside = beside_logits_bytes_per_token(peak, shape)
    growing = where(
        steps.each > 0.0,
        scaled(memory.concurrency_per_replica, memory.workload.beams.prompt_copies),
        0.0,
    )
    most = steps.rest + steps.most

    def inside(tokens: Number, more: Number) -> tuple[Number, Number, Number]:
        """Constant, linear and square part where steps compute ``tokens``, and ``more`` a token."""
        constant = shape.widened_bytes + shape.pooled_bytes + first * tokens
        return constant, first * more + score * tokens, score * more

    def sampling(tokens: Number, more: Number) -> tuple[Number, Number, Number]:
        held = shape.pooled_bytes + peak.vocabulary_entries * shape.bytes_per_entry
        if engine.whole_prompt_logits:
            each = logits + beside
            return each * tokens + held, each * more, 0.0
        return logits * shape.sampled_sequences + beside * tokens + held, beside * more, 0.0

    moments = [(taken(steps.rest, growing), taken(most, 0.0)) for taken in (inside, sampling)]
    if shape.repeated_bytes:
        # Before the first step: it takes the same however long sequences are.
        moments.append(((shape.repeated_bytes, 0.0, 0.0),) * 2)
    return [
        tuple(
            LengthsRoom(
                stage=memory,
                room_bytes=shift(free, -weight * constant),
                before_tokens=before,
                step_bytes_per_token=weight * linear,
                step_bytes_per_pair=weight * square,
            )
            for constant, linear, square in ways
        )
        for free, weight in _without_steps(memory, memory.cache_room_bytes)
        for ways in moments
    ]


def _without_steps(memory: InferenceMemory, room: Interval) -> list[tuple[Interval, Number]]:
    """What engine and accelerator leave for caches and steps, and what a byte of a peak takes.

    Within the share of an engine and on the accelerator; both have the spread of the ``room`` for
    caches with the requested load [B].
    """
    engine = memory.engine
    slack = engine.slack_ratio.value
    anywhere = engine.activation_ratio.value + slack
    inside = anywhere if engine.activations_in_share else slack
    if engine.share_is_of_free:
        inside = inside * memory.serving.memory_utilization_ratio
    within_share, within_accelerator = memory.rooms
    left = memory.room_bytes.value
    return [
        (shift(room, free - left + weight * memory.peak_bytes), weight)
        for free, weight in ((within_share, inside), (within_accelerator, anywhere))
    ]


def _of_stages(
    memory: InferenceMemory, rooms: Callable[[InferenceMemory], list[tuple[Way, ...]]]
) -> list[tuple[Way, ...]]:
    """Rooms of all stages, as each of them holds what it has of every sequence."""
    return [ways for stage in memory.stages or (memory,) for ways in rooms(stage)]


def _sequences(way: SequencesRoom, end: str = "value") -> Number:
    """Sequences that find place in a room [-]."""
    stage = way.stage
    free = getattr(way.room_bytes, end) - stage.shared_bytes - stage.prefill_bytes
    private = stage.request_bytes - stage.shared_bytes
    return most_sequences(free, private, stage.growing_bytes, way.step_bytes_per_sequence)


def _tokens(way: LengthsRoom, end: str = "value") -> Number:
    """Tokens that each sequence has place for in a room [token]."""
    block, limit = way.stage.plan.cache.block_tokens, way.stage.context_limit_tokens
    return reduce(maximum, (reach(stretch, block, limit) for stretch in _stretches(way, end)))


def _stretches(way: LengthsRoom, end: str = "value") -> list[Stretch]:
    """What is left for tokens by each line of a sequence's size."""
    stage, room, before = way.stage, getattr(way.room_bytes, end), way.before_tokens
    sequences, copies = stage.concurrency_per_replica, stage.engine.cache_copies
    repeated = stage.workload.beams.prompt_copies
    each = room_each(stage.plan.cache, room / copies, sequences, stage.step_tokens)
    each = (each - stage.beams_bytes / copies) / repeated
    held = maximum(sequences, 1.0) * copies * repeated
    return [
        Stretch(
            room_bytes=room,
            beams_bytes=stage.beams_bytes,
            windows_bytes_per_token=stage.plan.cache.windowed_bytes_per_token,
            line=line,
            spare_bytes=each - line.constant_bytes - line.bytes_per_token * before,
            before_tokens=before,
            bytes_per_token=line.bytes_per_token + way.step_bytes_per_token / held,
            bytes_per_pair=way.step_bytes_per_pair / held,
        )
        for line in size_lines(stage.plan.cache)
    ]


def _least(rooms: Sequence[tuple[Way, ...]], figure: Callable[[Way], Number]) -> Number:
    """What has room everywhere: the least over rooms of the most over their ways."""
    return reduce(minimum, [reduce(maximum, [figure(way) for way in ways]) for ways in rooms])


def _deciding(rooms: Sequence[tuple[Way, ...]], figure: Callable[[Way], float]) -> Way:
    return min((max(ways, key=figure) for ways in rooms), key=figure)
