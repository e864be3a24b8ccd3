"""A whole training run: its steps, the work that failures undo, and the time it takes."""

from __future__ import annotations

from dataclasses import dataclass

from service.core.elementwise import Number, exp, expm1, maximum, minimum, sqrt, where
from service.core.explanation import Formula, paths
from service.core.interval import Interval, product, quotient, scale
from service.core.lightweight import lightweight

SECONDS_PER_HOUR = 3600.0
SECONDS_PER_DAY = 86_400.0
#: Beyond this many mean times between failures in one interval between checkpoints, a run ends
#: some other way than by reaching its last step.
_MOST_FAILURES_PER_INTERVAL = 100.0
#: Accelerators that fail less often than this are taken not to fail at all [1/s].
_NEVER_PER_S = 1e-30

_YOUNG = "Young, 1974, https://doi.org/10.1145/361147.361115"
_DALY = "Daly, 2006, https://doi.org/10.1016/j.future.2004.11.016"

#: Paths start at a ``TrainingRun``.
RUN = (
    Formula("steps", "max(ceil(tokens / tokens_per_step), 1)", "definition", "steps", unit="step"),
    Formula("useful_s", "steps * step_s", "definition", "useful_s"),
    Formula(
        "mean_time_between_failures_s",
        "1 / max(failures_per_accelerator_day * accelerators / 86400, 1e-30)",
        "Any failure stops a synchronous run; " + _DALY,
        "mean_time_between_failures_s",
        paths("failures.failures_per_accelerator_day"),
    ),
    Formula(
        "checkpoint_interval_s",
        "sqrt(2 * checkpoint_write_s * mean_time_between_failures_s)"
        " * (1 + sqrt(checkpoint_write_s / (2 * mean_time_between_failures_s)) / 3"
        " + checkpoint_write_s / (18 * mean_time_between_failures_s)) - checkpoint_write_s"
        " if checkpoint_write_s < 2 * mean_time_between_failures_s"
        " else mean_time_between_failures_s",
        f"{_DALY}, equation 37; {_YOUNG}",
        "best_interval_s",
        paths("failures.checkpoint_write_s"),
    ),
    Formula(
        "failures_goodput_ratio",
        "0 if checkpoint_interval_s + checkpoint_write_s + restart_s"
        " > 100 * mean_time_between_failures_s"
        " else exp(-restart_s / mean_time_between_failures_s)"
        " if checkpoint_interval_s + checkpoint_write_s == 0"
        " else min(checkpoint_interval_s / (mean_time_between_failures_s"
        " * exp(restart_s / mean_time_between_failures_s)"
        " * expm1((checkpoint_interval_s + checkpoint_write_s) / mean_time_between_failures_s)), "
        "1)",
        f"{_DALY}, equation 20",
        "failures_goodput_ratio",
        paths("failures.checkpoint_write_s", "failures.restart_s"),
    ),
    Formula(
        "goodput_ratio",
        "failures_goodput_ratio * (1 - other_losses_ratio)",
        "definition",
        "goodput_ratio",
        paths("failures.other_losses_ratio"),
    ),
    Formula("wall_s", "useful_s / goodput_ratio", "definition", "wall_s"),
    Formula("accelerator_hours", "wall_s / 3600 * accelerators", "definition", "accelerator_hours"),
)

_NOTHING = Interval(0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True)
class Failures:
    """How often accelerators stop a run, and what a stop costs.

    ``failures_per_accelerator_day`` counts everything that stops the run, the host and network
    around an accelerator included [1/day]; ``checkpoint_write_s`` is how long training halts to
    write a checkpoint, ``restart_s`` the time from a failure to the next step;
    ``checkpoint_interval_s`` of None is the best one. ``other_losses_ratio`` is the share of the
    time between failures that goes to something else than steps: evaluations, waiting for data,
    checks, accelerators that are slow or missing [-].
    """

    failures_per_accelerator_day: Interval
    checkpoint_write_s: Number
    restart_s: Number
    checkpoint_interval_s: Number | None = None
    other_losses_ratio: Interval = _NOTHING


@lightweight
class TrainingRun:
    """A run of so many tokens. Times [s]; ``goodput_ratio`` is useful time over all time [-].

    ``failures_goodput_ratio`` is what it would be with failures alone.

    ``wall_s`` and what follows are infinite where failures come faster than checkpoints.
    """

    tokens: Number
    steps: Number
    step_s: Interval
    tokens_per_step: Number
    accelerators: int
    failures: Failures
    mean_time_between_failures_s: Number
    checkpoint_interval_s: Number
    failures_goodput_ratio: Interval
    goodput_ratio: Interval
    useful_s: Interval
    wall_s: Interval
    accelerator_hours: Interval
    expected_failures: Interval

    @property
    def best_interval_s(self) -> Number | None:
        """The best interval between checkpoints; None where another was asked for [s]."""
        interval_s = self.failures.checkpoint_interval_s
        return self.checkpoint_interval_s if interval_s is None else None


def training_run(
    tokens: Number, tokens_per_step: Number, step_s: Interval, accelerators: int, failures: Failures
) -> TrainingRun:
    """Time and accelerator-hours of a run, failures and restarts included.

    Parameters
    ----------
    tokens, tokens_per_step
        Tokens of the run and of one optimizer step [-]; the last step is a whole one.
    step_s
        Time of a step [s].
    accelerators
        How many of them take part: the failure of one stops all.
    failures
        Rate and cost of failures.

    References
    ----------
    Daly, A higher order estimate of the optimum checkpoint interval for restart dumps, Future
    Generation Computer Systems 22, 2006, https://doi.org/10.1016/j.future.2004.11.016
    """
    steps = maximum(-(-tokens // tokens_per_step), 1.0)
    rate = failures.failures_per_accelerator_day
    between = _between_s(rate.value, accelerators)
    interval_s = failures.checkpoint_interval_s
    if interval_s is None:
        interval_s = best_interval_s(failures.checkpoint_write_s, between)

    def goodput_at(failures_per_day: Number) -> Number:
        return goodput(
            interval_s,
            failures.checkpoint_write_s,
            failures.restart_s,
            _between_s(failures_per_day, accelerators),
        )

    by_failures = Interval(goodput_at(rate.value), goodput_at(rate.high), goodput_at(rate.low))
    ratio = product(by_failures, _rest(failures.other_losses_ratio))
    useful = scale(step_s, steps)
    wall = _over(useful, ratio)
    return TrainingRun(
        tokens=tokens,
        steps=steps,
        step_s=step_s,
        tokens_per_step=tokens_per_step,
        accelerators=accelerators,
        failures=failures,
        mean_time_between_failures_s=between,
        checkpoint_interval_s=interval_s,
        failures_goodput_ratio=by_failures,
        goodput_ratio=ratio,
        useful_s=useful,
        wall_s=wall,
        accelerator_hours=scale(wall, accelerators / SECONDS_PER_HOUR),
        expected_failures=product(wall, scale(rate, accelerators / SECONDS_PER_DAY)),
    )


def best_interval_s(write_s: Number, between_s: Number) -> Number:
    """Useful time between two checkpoints at which a run ends soonest [s].

    Parameters
    ----------
    write_s
        Time in which training halts to write a checkpoint [s].
    between_s
        Mean time between failures of the whole run [s].

    References
    ----------
    Daly, 2006, equation 37, https://doi.org/10.1016/j.future.2004.11.016
    """
    part = write_s / (2.0 * between_s)
    best = sqrt(2.0 * write_s * between_s) * (1.0 + sqrt(part) / 3.0 + part / 9.0) - write_s
    return where(write_s < 2.0 * between_s, best, between_s)


def goodput(interval_s: Number, write_s: Number, restart_s: Number, between_s: Number) -> Number:
    """Useful time over all time, with failures that strike at any moment [-].

    Parameters
    ----------
    interval_s, write_s, restart_s
        Useful time between checkpoints, time to write one, time to start again [s].
    between_s
        Mean time between failures of the whole run [s].

    Returns
    -------
    Number
        0 where failures come so fast that no interval is ever finished; with checkpoints that
        take no time and are written all the time, the limit, in which only restarts cost.

    References
    ----------
    Daly, 2006, equation 20, https://doi.org/10.1016/j.future.2004.11.016
    """
    restarting = minimum(restart_s / between_s, _MOST_FAILURES_PER_INTERVAL)
    working = minimum((interval_s + write_s) / between_s, _MOST_FAILURES_PER_INTERVAL)
    failing = (interval_s + write_s + restart_s) / between_s
    spent = between_s * exp(restarting) * expm1(working)
    useful = where(spent > 0.0, interval_s / maximum(spent, 1e-300), exp(-restarting))
    return where(failing > _MOST_FAILURES_PER_INTERVAL, 0.0, minimum(useful, 1.0))


def _rest(share: Interval) -> Interval:
    """What is left beside a share of one."""
    return Interval(1.0 - share.value, 1.0 - share.high, 1.0 - share.low)


def _between_s(failures_per_day: Number, accelerators: int) -> Number:
    rate_per_s = failures_per_day * accelerators / SECONDS_PER_DAY
    return 1.0 / maximum(rate_per_s, _NEVER_PER_S)


def _over(useful: Interval, ratio: Interval) -> Interval:
    """Useful time over goodput; infinite where there is none."""
    never = float("inf")
    if not ratio.value:
        return Interval(never, never, never)
    if not ratio.low:
        return Interval(useful.value / ratio.value, useful.low / ratio.high, never)
    return quotient(useful, ratio)
