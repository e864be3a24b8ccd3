"""What prompts of different lengths take from the steps that they share.

A step with few tokens takes what its weights take, however few they are; beyond that its time grows
with its tokens, and attention with their square. What a prompt takes is therefore convex in its
length: long prompts take more than their share by the token, and short ones less.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt as root

from service.core.elementwise import Number, exp, is_nothing, log, maximum, minimum, scaled, sqrt
from service.core.performance.inference.replica import Mix, Replica
from service.core.performance.steps import StepLoad

#: Nodes and weights of the Gauss–Hermite quadrature over a standard normal variable, exact for
#: polynomials up to the seventh degree. Source: Abramowitz and Stegun, 1964, table 25.10.
_NODES = tuple(sign * root(3.0 + far * root(6.0)) for far in (-1.0, 1.0) for sign in (-1.0, 1.0))
_WEIGHTS = tuple(1.0 / (4.0 * (3.0 + far * root(6.0))) for far in (-1.0, -1.0, 1.0, 1.0))

#: Below this a square of a time is none [s²].
_NONE = 1e-24


@dataclass(frozen=True, slots=True)
class PromptTimes:
    """What a prompt takes from a stage, over prompts [s].

    ``mean_s`` is the mean and ``rms_s`` the root of the mean of squares; of prompts that are met by
    the squares of their times, as neighbours of each other are, ``met_s`` is the mean.
    """

    mean_s: Number
    rms_s: Number
    met_s: Number

    @property
    def variance(self) -> Number:
        """Variance over prompts [s²]."""
        return maximum(self.rms_s * self.rms_s - self.mean_s * self.mean_s, 0.0)


def prompt_times(replica: Replica, mix: Mix) -> PromptTimes:
    """Moments over prompts whose lengths are log-normal with the mean square of their spread."""
    spread = replica.requests.input_spread
    if is_nothing(spread.square_ratio - 1.0):
        return PromptTimes(mix.taken_s, mix.taken_s, mix.taken_s)
    variance = log(maximum(spread.square_ratio, 1.0))
    sigma = sqrt(variance)
    mean: Number = 0.0
    square: Number = 0.0
    cube: Number = 0.0
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        taken_s = mix.taken_s + longer_s(replica, mix, exp(node * sigma - variance / 2.0))
        mean = mean + weight * taken_s
        square = square + weight * taken_s * taken_s
        cube = cube + weight * taken_s * taken_s * taken_s
    return PromptTimes(mean, sqrt(square), cube / maximum(square, _NONE))


def longer_s(replica: Replica, mix: Mix, ratio: Number) -> Number:
    """What a prompt so many times as long as the mean takes from a stage beyond the mean [s].

    It shares its step with as many others as one of mean length does.
    """
    if is_nothing(replica.requests.input_spread.square_ratio - 1.0):
        return 0.0
    more_s = _shared_s(replica, mix, ratio, ratio) - _shared_s(replica, mix, 1.0, None)
    more_s = more_s * replica.calibration.corrections.prefill.ratio
    more_s = more_s * (mix.taken_s / mix.added_s)
    return maximum(more_s, -mix.taken_s)


def length_excess_s(replica: Replica, mix: Mix, busy_ratio: Number, ratio: Number) -> Number:
    """What the own steps of a prompt so many times as long as the mean take beyond those of it [s].

    A share ``busy_ratio`` of prompts meet decoding sequences in each of their steps.
    """
    chunks = maximum(ratio / mix.fitting_prompts, 1.0)
    return longer_s(replica, mix, ratio) + busy_ratio * mix.base_s * (chunks - mix.chunks)


def crowded_s(replica: Replica, mix: Mix, more: Number) -> Number:
    """What a step takes beyond one without prompts that has so many more prompts than others [s].

    It has no more of them than it has room for. Few prompts of a mixture of experts need experts of
    their own each, many share all of them.
    """
    others = maximum(mix.mixed_tokens / replica.requests.new_input_tokens - 1.0, 0.0)
    fitting = maximum(mix.fitting_prompts - others, 0.0)
    most_s = _shared_s(replica, mix, minimum(1.0 + more, fitting), None)
    return most_s * replica.calibration.corrections.prefill.ratio


def _shared_s(replica: Replica, mix: Mix, ratio: Number, attended: Number | None) -> Number:
    """What a step with others and a prompt of that length takes beyond one without prompts [s]."""
    requests = replica.requests
    new = requests.new_input_tokens
    others = maximum(mix.mixed_tokens / new - 1.0, 0.0)
    wanted = (others + ratio) * new
    tokens = minimum(wanted, mix.fitting_prompts * new)
    context = requests.prefill_context_tokens
    if attended is not None:
        own = (requests.context_tokens - new / 2.0) * attended
        context = (others * context + ratio * own) / (others + ratio)
    load = StepLoad(
        tokens,
        maximum(tokens / new, 1.0),
        context,
        scaled(mix.neighbours, 1.0 - replica.prompts_apart),
        requests.decode_context_tokens,
    )
    return (replica.step(load).total_s - mix.decode.total_s) * (wanted / tokens)
