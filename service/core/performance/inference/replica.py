"""A replica and its steps: what a step takes that so many prompts and decoding sequences share.

Each step gives every decoding sequence a token and fills the rest of its budget with prompts, so
that a request's decode is slowed by the prompts of its neighbours.
"""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from service.core.deployment import NO_SPREAD, ONE_BEAM, Beams, LengthSpread, Parallelism
from service.core.elementwise import (
    Number,
    Truth,
    exp,
    is_nothing,
    maximum,
    minimum,
    scaled,
    where,
)
from service.core.learning import NO_CORRECTION, NO_CORRECTIONS
from service.core.lightweight import computed_once, lightweight
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.inference.speculation import Drafting, speculated_step
from service.core.performance.release_kernels import PARTS_UNDER_WAY, PENDING_LAUNCHES
from service.core.performance.step import RankSteps
from service.core.performance.steps import StepLoad, StepTime

#: A prompt takes at least this share of its time alone from the steps that it shares.
_LEAST_ADDED_RATIO = 0.05
#: Stands for as many as are wanted.
_UNBOUNDED = 1e6
#: Fewer prompts than this in a step are as good as none.
_NO_PROMPTS = 1e-9


@lightweight
class Requests:
    """Requests of one kind.

    ``new_input_tokens`` of a prompt of ``context_tokens`` are computed, the others found in a
    prefix cache; lengths are means [token], with their spreads. Each is decoded by ``beams``, and
    where these copy their prompt, tokens of all copies are computed.
    """

    new_input_tokens: Number
    context_tokens: Number
    output_tokens: Number
    encoded_tokens: Number = 0.0
    input_spread: LengthSpread = NO_SPREAD
    output_spread: LengthSpread = NO_SPREAD
    beams: Beams = ONE_BEAM

    @computed_once
    def later_tokens(self) -> Number:
        """Tokens after the first [token]."""
        return self.output_tokens - 1.0

    @property
    def decoded_tokens(self) -> Number:
        """Tokens after the first of all its continuations [token]."""
        return scaled(self.later_tokens, self.beams.width)

    def prompts(self, tokens: Number) -> Number:
        """Sequences that a step computes so many tokens of prompts of, one at least [-]."""
        return scaled(maximum(tokens / self.new_input_tokens, 1.0), self.beams.prompt_copies)

    @property
    def prefill_context_tokens(self) -> Number:
        """Tokens that a token of a prompt attends to: most tokens are in long prompts [token]."""
        new = self.new_input_tokens / self.beams.prompt_copies
        # What fills a prompt up is attended to as well.
        mean = maximum(self.context_tokens, new) - new / 2.0
        return mean * self.input_spread.square_ratio

    @property
    def decode_context_tokens(self) -> Number:
        """Tokens that a decoding sequence holds: most of those at work have much to say [token]."""
        return self.context_tokens + self.output_tokens / 2.0 * self.output_spread.square_ratio


@lightweight
class Mix:
    """Steps of a stage that take ``prompts`` on average beside ``decoding`` sequences.

    ``decode`` is a step without prompts, ``mixed`` one with ``mixed_tokens`` of them. A step takes
    ``base_s`` without prompts; a prompt makes its own steps ``added_s`` longer, which takes
    ``taken_s`` from each stage, and needs ``chunks`` steps. A step has room for
    ``fitting_prompts``; a sequence meets ``neighbours``. ``stages_at_work`` and
    ``overlapping_stages`` are those of the replica.
    """

    prompts: Number
    decoding: Number
    neighbours: Number
    decode: StepTime
    mixed: StepTime
    mixed_tokens: Number
    base_s: Number
    added_s: Number
    taken_s: Number
    chunks: Number
    fitting_prompts: Number
    stages_at_work: Number
    overlapping_stages: float

    @property
    def step_s(self) -> Number:
        """Mean time of a step, prompts included [s]."""
        return self.base_s + self.prompts * self.taken_s

    @property
    def steps(self) -> Number:
        """Steps until a prompt is computed whose last chunk is as long as it happens to be [-].

        A prompt somewhat longer than the room of a step needs half a step more than its share, as
        a remainder needs a step of its own.
        """
        return self.chunks + minimum(self.chunks - 1.0, 0.5)


@lightweight
class Replica:
    """What runs requests, and how its steps are filled.

    ``chunk_tokens`` is the budget of a step [token]; ``drafting`` says how tokens are drafted where
    decoding is speculative, whose steps are then by the token. ``encoder`` is the pass over what an
    encoder reads of one request, before its prompt. Where ``prompts_apart`` is 1, steps compute
    prompts or decode, so that sequences wait while others' prompts are computed; where it is 0,
    steps do both. A server takes ``received_s`` for a request beside its steps.
    """

    steps: RankSteps
    parallelism: Parallelism
    calibration: PerformanceCalibration
    requests: Requests
    chunk_tokens: Number
    drafting: Drafting | None = None
    encoder: StepTime | None = None
    prompts_apart: Number = 0.0
    received_s: Number = 0.0

    @property
    def overlapping_stages(self) -> float:
        """Pipeline stages that the host lets work at the same time, if nothing else holds them [-].

        All of them where nobody counted the launches of a step.
        """
        return overlapping_stages(self.parallelism.pipeline, self.steps.prompt_launch_count)

    @property
    def stages_at_work(self) -> Number:
        """Pipeline stages that work at the same time on chunks of one prompt [-]."""
        return self.calibration.engine.stages_at_work(self.overlapping_stages)

    @computed_once
    def prefill_chunks(self) -> Number:
        """Chunks of a prompt alone, the last as long as it is [-]."""
        return maximum(self.requests.new_input_tokens / self.chunk_tokens, 1.0)

    @computed_once
    def prompts_by_budget(self) -> Number:
        """Prompts that a step takes at most in the long run: all tokens go through steps [-].

        Those that are apart have as many steps of their own as they need between two of decoding;
        where nothing is decoded, all steps are theirs.
        """
        requests = self.requests
        most = self.encodable(
            self.chunk_tokens / (requests.new_input_tokens + requests.decoded_tokens)
        )
        decodes = 1.0 * (requests.later_tokens > 0)
        return scaled(most, 1.0 + self.prompts_apart * decodes * _UNBOUNDED)

    def encodable(self, prompts: Number) -> Number:
        """So many prompts, or as many as an encoder has room for in a step [-].

        What it reads has a budget of its own, as large as that of the prompts' tokens: vLLM,
        ``max_num_encoder_input_tokens``, 2025.
        """
        if self.encoder is None:
            return prompts
        return minimum(prompts, maximum(self.chunk_tokens / self.requests.encoded_tokens, 1.0))

    @computed_once
    def held_steps(self) -> Number:
        """Steps for which a request holds a slot: those of its prompt and of later tokens [-]."""
        later, decoded = self.requests.later_tokens, self.requests.decoded_tokens
        chunks = maximum(1.0 / self.prompts_by_budget - decoded / self.chunk_tokens, 1.0)
        if is_nothing(self.prompts_apart):
            return later + chunks
        return later + chunks * (1.0 - self.prompts_apart) + self.prompts_apart

    def fullest_prompts(self, slots: Number) -> Number:
        """Prompts that a step of a stage takes with all slots of the replica taken [-]."""
        per_stage = slots / self.parallelism.pipeline
        return minimum(per_stage / self.held_steps, self.prompts_by_budget)

    def passes(self, steps: Number) -> Number:
        """Turns of a step that a prompt in so many steps takes to leave the last stage [-]."""
        if self.parallelism.pipeline == 1:
            return steps
        return 1.0 + (steps - 1.0) / self.stages_at_work

    def unloaded_ttft_s(self, prefill: StepTime) -> Number:
        """Time to the first token of a request that meets no other [s]."""
        return self.passes(self.prefill_chunks) * prefill.total_s + self.received_s

    def prefill(self) -> StepTime:
        """A step of a prompt's chunk alone."""
        alone = self.step(prompt_load(self.requests, self.chunk_tokens))
        correction = self.calibration.corrections.prefill
        return alone if correction is NO_CORRECTION else alone.slowed(correction.ratio)

    def mix(
        self,
        prompts: Number,
        sequences: Number,
        prefill: StepTime,
        together: Number | None = None,
    ) -> Mix:
        """Steps of a stage of which each takes so many prompts on average.

        Parameters
        ----------
        prompts
            Prompts that a step takes on average [-].
        sequences
            Sequences of a stage at most, or those that are always there [-].
        prefill
            A step of a prompt's chunk alone.
        together
            Prompts in a step that takes any; None where they come at random [-].
        """
        requests = self.requests
        new, later = requests.new_input_tokens, requests.later_tokens
        decoding = prompts * later
        # A sequence meets the others, beside itself.
        neighbours = decoding * (1.0 - 1.0 / maximum(sequences, 1.0))
        # Those that decode take no room in the steps of prompts that are apart.
        beside = scaled(scaled(neighbours, requests.beams.width), 1.0 - self.prompts_apart)
        room = maximum(self.chunk_tokens - beside, 1.0)
        if together is None:
            together = met_together(prompts)
        decodes = later > 0
        room = new * self.encodable(room / new) if self.encoder is not None else room
        mixed_tokens = minimum(new * maximum(together, where(decodes, 1.0, 2.0)), room)
        alone = decode_load(requests, neighbours + 1.0)
        mixed_load = StepLoad(
            mixed_tokens,
            requests.prompts(mixed_tokens),
            requests.prefill_context_tokens,
            beside,
            alone.decode_context_tokens,
        )
        decode, mixed = self._corrected(alone, mixed_load, prefill)
        base_s, added_s = _parts(decode, mixed, prefill, mixed_tokens / new, decodes)
        overlapping_stages = self.overlapping_stages
        stages_at_work = self.calibration.engine.stages_at_work(overlapping_stages)
        # Stages that do not work beside each other all wait for a prompt of any of them.
        taken_s = added_s * (self.parallelism.pipeline / stages_at_work)
        chunks = maximum(new / room, 1.0)
        fitting_prompts = room / new
        return Mix(
            prompts,
            decoding,
            neighbours,
            decode,
            mixed,
            mixed_tokens,
            base_s,
            added_s,
            taken_s,
            chunks,
            fitting_prompts,
            stages_at_work,
            overlapping_stages,
        )

    def _corrected(
        self, alone: StepLoad, mixed_load: StepLoad, prefill: StepTime
    ) -> tuple[StepTime, StepTime]:
        """A decode step and one with prompts, drafts and own measurements included."""
        decode, mixed = self.step(alone), self.step(mixed_load)
        if not isinstance(self.prompts_apart, float) or self.prompts_apart:
            mixed = mixed.followed_by(decode, self.prompts_apart * (self.requests.later_tokens > 0))
        corrections = self.calibration.corrections
        if corrections is not NO_CORRECTIONS:
            slower = corrections.decode.ratio
            # A step of both is slower by as much as its parts are one after the other.
            others = scaled(alone.decode_sequences, 1.0 / self.requests.beams.width) - 1.0
            decoding_share = minimum(others, 1.0) * decode.total_s
            alone_s = prefill.total_s / corrections.prefill.ratio
            mixed = mixed.slowed(
                (prefill.total_s + decoding_share * slower) / (alone_s + decoding_share)
            )
            decode = decode.slowed(slower)
        if self.drafting is not None:
            plain_s = decode.total_s
            decode = speculated_step(self.drafting, self.steps, alone).slowed(
                corrections.decode.ratio
            )
            # A prompt's chunk adds the same to a check as to a plain step.
            mixed = replace(mixed, total_s=mixed.total_s - plain_s + decode.total_s)
        return decode, mixed

    def step(self, load: StepLoad) -> StepTime:
        """A step of a load, before corrections, with what others compute of its prompts.

        An encoder comes before them; a model that drafts needs caches of them of its own.
        """
        step = self.steps.time(load)
        drafts = None if self.drafting is None else self.drafting.steps
        if drafts is not None:
            prompts = replace(load, decode_sequences=0.0, decode_context_tokens=0.0)
            step = step.followed_by(drafts.time(prompts), 1.0 * (load.prefill_tokens > 0))
        if self.encoder is None:
            return step
        return step.followed_by(self.encoder, load.prefill_tokens / self.requests.new_input_tokens)


@lightweight
class FullReplica:
    """A replica with all slots taken and more requests waiting, worked out when it is asked for.

    ``prefill`` is a step of a prompt's chunk alone.
    """

    replica: Replica
    slots: Number
    prefill: StepTime

    @computed_once
    def mix(self) -> Mix:
        """Its steps."""
        replica = self.replica
        prompts = replica.fullest_prompts(self.slots)
        return replica.mix(prompts, prompts * replica.requests.later_tokens, self.prefill)

    @computed_once
    def requests_per_s(self) -> Number:
        """The rate at which it saturates [1/s]."""
        return self.replica.parallelism.pipeline * self.mix.prompts / self.mix.step_s


def met_together(prompts: Number) -> Number:
    """Prompts in a step that takes any, where so many come at random for each on average [-]."""
    found: Number = prompts / maximum(1.0 - exp(-prompts), _NO_PROMPTS)
    return found


def _parts(
    decode: StepTime, mixed: StepTime, prefill: StepTime, together: Number, decodes: Truth
) -> tuple[Number, Number]:
    """What a step takes without prompts, and what each of those computed together adds [s].

    Requests for a single token never decode: what their steps take without a prompt follows from
    those with one and with several.
    """
    least_s = _LEAST_ADDED_RATIO * prefill.total_s
    # What a prompt adds to the steps of its neighbours is all the time it takes from them.
    beside_s = maximum(mixed.total_s - decode.total_s, least_s) / together
    another_s = maximum(mixed.total_s - prefill.total_s, least_s)
    another_s = minimum(another_s / maximum(together - 1.0, _NO_PROMPTS), prefill.total_s)
    alike_s = where(together > 1.0, another_s, mixed.total_s / together)
    alone_s = where(together > 1.0, prefill.total_s - alike_s, 0.0)
    return where(decodes, decode.total_s, alone_s), where(decodes, beside_s, alike_s)


def overlapping_stages(pipeline: int, launch_count: float) -> float:
    """Stages that work at the same time on parts of a prompt that one host issues [-].

    The host issues a part's stages one after the other, and waits where too many launches are
    pending for one: then the part that comes next is not issued before the last stage has begun
    with this one, or with one as many parts before it as may wait. Parts under way have inputs of
    their own, of which there are only so many.

    Parameters
    ----------
    pipeline
        Stages of the pipeline [-].
    launch_count
        Launches of a part in all stages together [-]; zero where nobody counted them.
    """
    if pipeline == 1 or not launch_count:
        return float(pipeline)
    ahead = PENDING_LAUNCHES * pipeline / launch_count
    parts = ceil(ahead)
    issued = pipeline * parts / (pipeline - 1.0 + parts - ahead)
    return min(float(pipeline), issued, PARTS_UNDER_WAY)


def prompt_load(requests: Requests, chunk_tokens: Number) -> StepLoad:
    """What a step of a prompt's chunk alone processes, by the token budget of a step [token]."""
    chunk = minimum(requests.new_input_tokens, chunk_tokens)
    copies = requests.beams.prompt_copies
    return StepLoad(chunk, copies, requests.prefill_context_tokens, 0.0, 0.0)


def decode_load(requests: Requests, requests_per_stage: Number) -> StepLoad:
    """What a step processes of so many requests that decode in a pipeline stage [-]."""
    sequences = scaled(maximum(requests_per_stage, 1.0), requests.beams.width)
    return StepLoad(0.0, 0.0, 0.0, sequences, requests.decode_context_tokens)
