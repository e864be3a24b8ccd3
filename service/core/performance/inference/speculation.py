"""Speculative decoding: a draft proposes tokens, one step of the model checks them all."""

from __future__ import annotations

from dataclasses import dataclass, fields

from service.core.elementwise import Number
from service.core.performance.step import RankSteps
from service.core.performance.steps import StepLoad, StepTime


@dataclass(frozen=True, slots=True)
class Drafting:
    """How tokens are drafted: in steps of a model of its own, or at no cost where they are None.

    ``draft_tokens`` are proposed for each check, each accepted with ``acceptance_ratio`` [-].
    """

    steps: RankSteps | None
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


def speculated_step(drafting: Drafting, steps: RankSteps, load: StepLoad) -> StepTime:
    """A decoding step by the token [s]: checks and drafts over the tokens that they yield."""
    sequences, context_tokens = load.decode_sequences, load.decode_context_tokens
    drafted = drafting.draft_tokens
    # The drafted tokens attend to the same context, whose cache is read once.
    check = steps.time(
        StepLoad(sequences * drafted, 0.0, context_tokens, sequences, context_tokens)
    )
    yielded = expected_tokens(drafting.acceptance_ratio, drafted)
    if drafting.steps is None:
        return _combined(check, None, 0, yielded)
    return _combined(check, drafting.steps.time(load), drafted, yielded)


def _combined(check: StepTime, draft: StepTime | None, times: int, yielded: Number) -> StepTime:
    def each(name: str) -> Number:
        drafts = 0.0 if draft is None else times * getattr(draft, name)
        total: Number = (getattr(check, name) + drafts) / yielded
        return total

    return StepTime(**{one.name: each(one.name) for one in fields(StepTime)})
