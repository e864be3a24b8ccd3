"""Continuous batching in closed form: what a steady stream of like requests sees.

A replica runs up to ``running_sequences`` sequences at once. Prompts are prefilled in
chunks that share steps with decoding sequences, so a request's decode is slowed by the prefills of
its neighbours. With ``running_sequences`` sequences always present (a closed loop), the
rate and both latencies follow from Little's law and the arrival theorem.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from service.core.deployment import Accelerator, Parallelism
from service.core.elementwise import Number, ceil, floor, maximum, minimum, where
from service.core.learning import NO_CORRECTIONS
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.inference.speculation import Drafting, speculated_step
from service.core.performance.step import StepLoad, StepTime, step_time
from service.core.performance.work import RankWork

#: Passes of the fixed-point iteration; the map is a contraction, errors shrink about tenfold each.
_PASSES = 8


@dataclass(frozen=True, slots=True)
class SteadyState:
    """A replica in steady state with a fixed number of running sequences.

    ``decode`` is a step of decoding sequences only, ``prefill`` one of a prompt chunk alone,
    ``mixed`` one of both. ``decoding_sequences`` and ``prefilling_sequences`` are mean numbers of
    sequences in either phase, ``met`` those that a request meets. ``prompt_added_s`` is what a
    prompt adds to the steps of its neighbours, of which a step takes ``prompts_per_step``;
    ``ttft_parts_s`` add up to ``ttft_s``. All times [s], ``requests_per_s`` per replica.
    """

    decode: StepTime
    prefill: StepTime
    mixed: StepTime
    chunks: Number
    decoding_sequences: Number
    prefilling_sequences: Number
    unloaded_ttft_s: Number
    ttft_s: Number
    tpot_s: Number
    requests_per_s: Number
    ttft_parts_s: Mapping[str, Number]
    met_decoding_sequences: Number
    met_prefilling_sequences: Number = 0.0
    prompt_added_s: Number = 0.0
    prompts_per_step: Number | None = None


def steady_state(
    work: RankWork,
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
    *,
    new_input_tokens: Number,
    context_tokens: Number,
    output_tokens: Number,
    running_sequences: Number,
    chunk_tokens: int,
    prefill: StepTime | None = None,
    drafting: Drafting | None = None,
) -> SteadyState:
    """Latencies and rate of a replica that always has the same number of requests in flight.

    Parameters
    ----------
    work, accelerator, parallelism, calibration
        What is computed on what, and how efficiently.
    new_input_tokens
        Prompt tokens to prefill, without those found in the prefix cache [tokens].
    context_tokens
        Whole prompt length, cached part included [tokens].
    output_tokens
        Generated tokens a request [tokens].
    running_sequences
        Requests in flight on the replica [-]; may be fractional under a request rate.
    chunk_tokens
        Token budget of a step [tokens].
    prefill
        Step of a prompt chunk alone, if it is known from another number in flight.
    drafting
        How tokens are drafted where decoding is speculative; decode steps are then by the token.

    Returns
    -------
    SteadyState
        TTFT from arrival at the replica to the first token; TPOT =
        (E2E − TTFT) / (output tokens − 1).

    References
    ----------
    Agrawal et al., Sarathi-Serve, 2024, https://arxiv.org/abs/2403.02310 (chunked prefill);
    Reiser and Lavenberg, Mean-Value Analysis, 1980, https://doi.org/10.1145/322186.322195, with
    Schweitzer's approximation of the arrival theorem.
    """
    # With pipeline stages, the running sequences form one microbatch a stage.
    sequences_per_stage = running_sequences / parallelism.pipeline
    chunks = ceil(new_input_tokens / chunk_tokens)
    prefill_load, decode_load = lone_loads(
        new_input_tokens, context_tokens, output_tokens, sequences_per_stage, chunk_tokens
    )
    chunk, prefill_context = prefill_load.prefill_tokens, prefill_load.prefill_context_tokens
    decode_context = decode_load.decode_context_tokens
    later_tokens = output_tokens - 1.0
    # Requests for a single token never decode: their steps are prefills alone.
    decodes = later_tokens > 0
    neighbours = maximum(sequences_per_stage - 1.0, 0.0) * decodes
    # Without decoding neighbours to share a step with, waiting prompts share one with each other.
    room = maximum(floor(chunk_tokens / new_input_tokens), 1.0)
    prompts = where(decodes, 1.0, minimum(maximum(sequences_per_stage, 1.0), room))
    mixed_load = StepLoad(chunk * prompts, prompts, prefill_context, neighbours, decode_context)
    decode = step_time(work, decode_load, accelerator, parallelism, calibration)
    if prefill is None:
        prefill = step_time(work, prefill_load, accelerator, parallelism, calibration)
        prefill = prefill.slowed(calibration.corrections.prefill.ratio)
    mixed = step_time(work, mixed_load, accelerator, parallelism, calibration)
    corrections = calibration.corrections
    if corrections is not NO_CORRECTIONS:
        slower = corrections.decode.ratio
        # A step of both is slower by as much as its parts are one after the other.
        decoding_share = minimum(neighbours, 1.0) * decode.total_s
        alone_s = prefill.total_s / corrections.prefill.ratio
        mixed = mixed.slowed(
            (prefill.total_s + decoding_share * slower) / (alone_s + decoding_share)
        )
        decode = decode.slowed(slower)
    if drafting is not None:
        plain_s = decode.total_s
        decode = speculated_step(
            drafting, work, decode_load, accelerator, parallelism, calibration
        ).slowed(corrections.decode.ratio)
        # A prompt's chunk adds the same to a check as to a plain step.
        mixed = replace(mixed, total_s=mixed.total_s - plain_s + decode.total_s)
    # The first chunk goes through all stages; the others follow it one stage behind each other.
    at_work = calibration.engine.stages_at_work(parallelism.pipeline)
    passes = 1.0 + (chunks - 1.0) / at_work
    unloaded_ttft_s = passes * prefill.total_s
    # What a prompt adds to the steps of its neighbours is all the time it takes from them.
    shared_s = decode.total_s * decodes
    added_s = chunks * maximum(mixed.total_s - shared_s, 0.05 * prefill.total_s) / prompts
    prefill_demand_s = added_s / at_work
    # A request meets the prompts of others, not its own.
    others_share = maximum(running_sequences - 1.0, 0.0) / maximum(running_sequences, 1.0)

    # Each decode step ends decoding/later_tokens requests, each of which lets a prompt in.
    admitted = others_share * added_s / (parallelism.pipeline * maximum(later_tokens, 1.0))
    # An arriving prompt waits for the rest of the step under way and for earlier prompts.
    busy = maximum(minimum(running_sequences - 1.0, 1.0), 0.0)
    own_s = unloaded_ttft_s * (1.0 - busy) + busy * passes * mixed.total_s
    waits_s = others_share * prefill_demand_s
    most = 1.0 / prefill_demand_s

    decoding = met_decoding = running_sequences * 1.0
    prefilling: Number = 0.0
    met_prefilling: Number = 0.0
    tpot_s = decode.total_s
    ttft_s = unloaded_ttft_s
    rate: Number = 0.0
    for _ in range(_PASSES):
        met_decoding, met_prefilling = decoding, prefilling
        tpot_s = decode.total_s + admitted * decoding
        ttft_s = own_s + waits_s * prefilling + 0.5 * busy * tpot_s
        rate = running_sequences / (ttft_s + later_tokens * tpot_s)
        # No more prompts can be prefilled in a second than the accelerators have time for.
        rate = minimum(rate, most)
        prefilling = minimum(rate * ttft_s, running_sequences)
        decoding = maximum(running_sequences - prefilling, 0.0)
    served_s = maximum(ttft_s, running_sequences / rate - later_tokens * tpot_s)
    return SteadyState(
        decode=decode,
        prefill=prefill,
        mixed=mixed,
        chunks=chunks,
        decoding_sequences=decoding,
        prefilling_sequences=prefilling,
        unloaded_ttft_s=unloaded_ttft_s,
        ttft_s=served_s,
        tpot_s=tpot_s,
        requests_per_s=rate,
        ttft_parts_s={
            "own_prompt": own_s,
            "earlier_prompts": waits_s * met_prefilling,
            "step_under_way": 0.5 * busy * tpot_s,
            "backlog": served_s - ttft_s,
        },
        met_decoding_sequences=met_decoding,
        met_prefilling_sequences=met_prefilling,
        prompt_added_s=added_s,
        prompts_per_step=prompts,
    )


def lone_loads(
    new_input_tokens: Number,
    context_tokens: Number,
    output_tokens: Number,
    sequences_per_stage: Number,
    chunk_tokens: int,
) -> tuple[StepLoad, StepLoad]:
    """What a step of a prompt's chunk alone processes, and one of decoding sequences alone.

    Parameters
    ----------
    new_input_tokens, context_tokens, output_tokens, chunk_tokens
        As of :func:`steady_state` [tokens].
    sequences_per_stage
        Sequences that decode in one step of a pipeline stage [-].
    """
    chunk = minimum(new_input_tokens, float(chunk_tokens))
    prefill_context = context_tokens - new_input_tokens / 2.0
    decode_context = context_tokens + output_tokens / 2.0
    return (
        StepLoad(chunk, 1.0, prefill_context, 0.0, 0.0),
        StepLoad(0.0, 0.0, 0.0, maximum(sequences_per_stage, 1.0), decode_context),
    )
