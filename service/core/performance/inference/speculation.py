"""Speculative decoding: a draft proposes tokens, one step of the model checks them all."""

from __future__ import annotations

from dataclasses import dataclass

from service.core.deployment import Accelerator, Parallelism
from service.core.elementwise import Number
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.step import StepLoad, StepTime, step_time
from service.core.performance.work import RankWork


@dataclass(frozen=True, slots=True)
class Drafting:
    """How tokens are drafted: by a model of its own, or at no cost where ``work`` is None.

    ``draft_tokens`` are proposed for each check, each accepted with ``acceptance_ratio`` [-].
    """

    work: RankWork | None
    draft_tokens: int
    acceptance_ratio: Number


def expected_tokens(acceptance_ratio: Number, draft_tokens: int) -> Number:
    """Tokens that one check yields: the accepted ones up to the first miss, and one of its own [-].

    Parameters
    ----------
    acceptance_ratio
        Probability that a drafted token is accepted, independent of the others [-].
    draft_tokens
        Tokens drafted for each check [-].

    Returns
    -------
    Number
        ``1 + a + a² + … + a^k``, between 1 and ``draft_tokens + 1``.

    References
    ----------
    Leviathan, Kalman, Matias, Fast Inference from Transformers via Speculative Decoding, 2023,
    equation 1, https://arxiv.org/abs/2211.17192.
    """
    total: Number = 1.0
    power: Number = 1.0
    for _ in range(draft_tokens):
        power = power * acceptance_ratio
        total = total + power
    return total


def speculated_step(
    drafting: Drafting,
    work: RankWork,
    load: StepLoad,
    accelerator: Accelerator,
    parallelism: Parallelism,
    calibration: PerformanceCalibration,
) -> StepTime:
    """A decoding step by the token [s]: checks and drafts over the tokens that they yield."""
    sequences, context_tokens = load.decode_sequences, load.decode_context_tokens
    drafted = drafting.draft_tokens
    check = step_time(
        work,
        # The drafted tokens attend to the same context, whose cache is read once.
        StepLoad(sequences * drafted, 0.0, context_tokens, sequences, context_tokens),
        accelerator,
        parallelism,
        calibration,
    )
    yielded = expected_tokens(drafting.acceptance_ratio, drafted)
    if drafting.work is None:
        return _combined(check, None, 0, yielded)
    draft = step_time(drafting.work, load, accelerator, parallelism, calibration)
    return _combined(check, draft, drafted, yielded)


def _combined(check: StepTime, draft: StepTime | None, times: int, yielded: Number) -> StepTime:
    def each(name: str) -> Number:
        drafts = 0.0 if draft is None else times * getattr(draft, name)
        total: Number = (getattr(check, name) + drafts) / yielded
        return total

    return StepTime(
        total_s=each("total_s"),
        work_s=each("work_s"),
        compute_s=each("compute_s"),
        memory_s=each("memory_s"),
        compute_bound_s=each("compute_bound_s"),
        interconnect_s=each("interconnect_s"),
        overhead_s=each("overhead_s"),
        flops=each("flops"),
        memory_bytes=each("memory_bytes"),
    )
