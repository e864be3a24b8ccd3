"""A discrete-event simulation of a continuously batching replica, step by step.

Each step gives every decoding sequence a token and fills the rest of its budget with prompts, in
the order in which they came, as long as there are slots: the schedule of chunked prefill. Where
prompts are apart, those that wait come first, in steps of their own.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np

from service.core.performance.step import step_time
from service.core.performance.steps import StepLoad
from service.core.performance.work import rank_work

#: Points of the tables of step times over prompt tokens and over decoding sequences.
_POINTS = 24


class StepTable:
    """Times of steps by bilinear interpolation, contexts by their slopes [s]."""

    def __init__(self, deployment, calibration, inputs, outputs, slots, budget):
        self._work = rank_work(
            deployment.architecture, deployment.precision, deployment.parallelism
        )
        self._deployment, self._calibration = deployment, calibration
        self._inputs = inputs
        self._decode_context = inputs + outputs / 2.0
        self._prefill_context = inputs / 2.0
        self._tokens = [0.0, *np.geomspace(1.0, budget, _POINTS).tolist()]
        self._sequences = [0.0, *np.geomspace(1.0, max(slots, 2), _POINTS).tolist()]
        self._token_scale = (_POINTS - 1) / np.log(budget)
        self._sequence_scale = (_POINTS - 1) / np.log(max(slots, 2))
        self._times = [
            [self._exact(tokens, sequences, 0.0, 0.0) for sequences in self._sequences]
            for tokens in self._tokens
        ]
        self._times[0][0] = 0.0
        many = max(slots // 2, 1)
        apart = self._decode_context / 2.0
        self._decode_slope = (
            self._exact(0.0, many, apart, 0.0) - self._exact(0.0, many, 0.0, 0.0)
        ) / (many * apart)
        apart = self._prefill_context / 2.0
        self._prefill_slope = (
            self._exact(budget, 0.0, 0.0, apart) - self._exact(budget, 0.0, 0.0, 0.0)
        ) / (budget * apart)

    def _exact(self, tokens, sequences, more_decode, more_prefill):
        load = StepLoad(
            tokens,
            max(tokens / self._inputs, 1.0) if tokens else 0.0,
            self._prefill_context + more_prefill,
            sequences,
            self._decode_context + more_decode,
        )
        if tokens + sequences == 0.0:
            return 0.0
        return float(
            step_time(
                self._work,
                load,
                self._deployment.accelerator,
                self._deployment.parallelism,
                self._calibration,
            ).total_s
        )

    def seconds(self, tokens, attended, sequences, held):
        """A step of prompt tokens that attend to so many in all, and of decoding sequences."""
        row = 0 if tokens < 1.0 else 1 + int(np.log(tokens) * self._token_scale)
        column = 0 if sequences < 1 else 1 + int(np.log(sequences) * self._sequence_scale)
        row, column = min(row, _POINTS - 1), min(column, _POINTS - 1)
        across, down = self._tokens[row], self._sequences[column]
        x = (tokens - across) / (self._tokens[row + 1] - across)
        y = (sequences - down) / (self._sequences[column + 1] - down)
        low, high = self._times[row], self._times[row + 1]
        found = (1 - x) * ((1 - y) * low[column] + y * low[column + 1]) + x * (
            (1 - y) * high[column] + y * high[column + 1]
        )
        found += (held - sequences * self._decode_context) * self._decode_slope
        return found + (attended - tokens * self._prefill_context) * self._prefill_slope


@dataclass
class Simulated:
    """Times of the requests after the warm-up [s], and how many ended in a second.

    ``mean_tpot_s`` is by the token, ``tpot_s`` by the request; ``waiting`` is the mean number of
    those that have not begun.
    """

    ttft_s: np.ndarray
    tpot_s: np.ndarray
    e2e_s: np.ndarray
    mean_tpot_s: float
    requests_per_s: float
    waiting: float


def simulate(
    table,
    inputs,
    outputs,
    slots,
    budget,
    *,
    arrivals=None,
    concurrency=None,
    warm_up_ratio=0.2,
    apart=False,
    turnaround_s=0.0,
):
    """Prompts of ``inputs`` and answers of ``outputs`` tokens, arriving then or one after another.

    Parameters
    ----------
    table
        Times of steps.
    inputs, outputs
        Lengths of each request [token].
    slots, budget
        Sequences at once, and tokens of a step.
    arrivals
        Times of arrival [s], rising.
    concurrency
        Instead of that, requests that are always there: one comes when one ends.
    warm_up_ratio
        Share of the requests that comes first and does not count.
    apart
        Whether a step that computes prompts decodes nothing.
    turnaround_s
        Time until another comes for one that has ended [s].
    """
    count = len(inputs)
    closed = arrivals is None
    came = np.zeros(count) if closed else arrivals
    inputs, outputs, came = inputs.tolist(), outputs.tolist(), came.tolist()
    first, last = [0.0] * count, [0.0] * count
    waiting, partial, ends = deque(), deque(), []
    next_one, now, step, decoding, held = 0, 0.0, 0, 0, 0.0
    coming = next_one
    if closed:
        waiting.extend(range(concurrency))
        next_one = coming = concurrency
    ended = 0
    waiting_s = 0.0
    while ended < count:
        while next_one < (coming if closed else count) and came[next_one] <= now:
            waiting.append(next_one)
            next_one += 1
        if not (waiting or partial or decoding):
            now = came[next_one]
            continue
        room, tokens, attended = budget - (0 if apart else decoding), 0.0, 0.0
        done = []
        while room > 0 and (partial or (waiting and decoding + len(done) < slots)):
            if not partial:
                partial.append([waiting.popleft(), 0.0])
            one = partial[0]
            length = inputs[one[0]]
            chunk = min(length - one[1], room)
            attended += chunk * (one[1] + chunk / 2.0)
            tokens += chunk
            room -= chunk
            one[1] += chunk
            if one[1] < length:
                break
            done.append(partial.popleft()[0])
        if tokens:
            steps = 0 if apart else 1
            beside = (0, 0.0) if apart else (decoding, held)
            took = table.seconds(tokens, attended, *beside)
        else:
            # Nothing changes until the next arrival or the next end, but contexts grow.
            each = table.seconds(0.0, 0.0, decoding, held)
            grows = decoding * table._decode_slope
            steps = ends[0][0] - step
            if next_one < (coming if closed else count):
                steps = max(min(steps, int((came[next_one] - now) / each) + 1), 1)
            took = steps * each + grows * steps * (steps - 1) / 2.0
        now += took
        waiting_s += took * len(waiting)
        step += steps
        held += decoding * steps
        for one in done:
            first[one] = now
            decoding += 1
            held += inputs[one] + 1
            heappush(ends, (step + outputs[one] - 1, one))
        while ends and ends[0][0] <= step:
            one = heappop(ends)[1]
            last[one] = now
            ended += 1
            decoding -= 1
            held -= inputs[one] + outputs[one]
            if closed and coming < count:
                came[coming] = now + turnaround_s
                coming += 1
    warm = int(count * warm_up_ratio)
    kept = slice(warm, count - (concurrency if closed else 0))
    began, got, went = (np.array(one)[kept] for one in (came, first, last))
    later = np.array(outputs, dtype=float)[kept] - 1.0
    decodes = later > 0
    span = np.sort(np.array(last))[warm:]
    return Simulated(
        ttft_s=got - began,
        tpot_s=((went - got)[decodes] / later[decodes]),
        e2e_s=went - began,
        mean_tpot_s=float((went - got).sum() / max(later.sum(), 1.0)),
        requests_per_s=(len(span) - 1) / max(span[-1] - span[0], 1e-9),
        waiting=waiting_s / now,
    )
