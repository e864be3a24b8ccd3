"""What times are spent on, and how unsure they are by that."""

from __future__ import annotations

from service.core.deployment import Deployment
from service.core.elementwise import Number, maximum
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.inference.batching import SteadyState
from service.core.performance.spread import TimeShares


def time_shares(state: SteadyState, later_tokens: Number) -> dict[str, TimeShares]:
    """What times of decoding and of prompts, and the time that a request takes up, are spent on.

    Decoding sequences wait while the prompts of others are computed.
    """
    decode, prefill = state.decode.shares, state.prefill.shares
    waited = maximum(1.0 - state.decode.total_s / state.tpot_s, 0.0)
    prompt_s, answer_s = _taken_s(state, later_tokens)
    return {
        "decode": decode.mixed(prefill, waited),
        "prefill": prefill,
        "throughput": decode.mixed(prefill, prompt_s / maximum(prompt_s + answer_s, 1e-12)),
    }


def _taken_s(state: SteadyState, later_tokens: Number) -> tuple[Number, Number]:
    """Time of a replica that a request's prompt takes, and its share of steps of decoding [s]."""
    steps = later_tokens / maximum(state.decoding_sequences, 1e-9)
    return state.chunks * state.prefill.total_s, steps * state.decode.total_s


def log_sigmas(
    deployment: Deployment,
    calibration: PerformanceCalibration,
    state: SteadyState,
    later_tokens: Number,
) -> dict[str, Number]:
    """Spreads of times of decoding, of prompts and of the rate [-]."""
    known = {
        "decode": calibration.decode_log_sigma,
        "prefill": calibration.prefill_log_sigma(deployment.parallelism.pipeline, state.chunks),
        "throughput": calibration.throughput_log_sigma,
    }
    routed = deployment.architecture.routes
    return {
        name: calibration.widened(name, known[name], shares, routed)
        for name, shares in time_shares(state, later_tokens).items()
    }
