"""The highest rate of requests at which a deployment keeps limits of time."""

from __future__ import annotations

from service.core.elementwise import plain
from service.core.estimate.inference import goodput_of
from service.core.performance.inference.goodput import TimeLimit, time_limit
from service.estimation.answers import figure
from service.estimation.formatting import number
from service.estimation.inference.answers import Goodput
from service.estimation.inference.deployment import ComputedDeployment
from service.estimation.inference.requests import TimeLimitsRequest
from service.estimation.resolution import Problems


def resolve_limits(
    asked: TimeLimitsRequest | None, computed: ComputedDeployment, problems: Problems
) -> tuple[TimeLimit, ...]:
    """The limits that are set.

    Parameters
    ----------
    asked
        Limits of the request, or None.
    computed
        The deployment.
    problems
        Takes what is wrong with them.
    """
    if asked is None:
        return ()
    given = asked.by_name()
    if not given:
        problems.add("/limits", "name at least one time, e.g. {'ttft_p99_s': 2.0}")
    for name in given:
        if name.startswith("tpot") and computed.resolved.workload.output_tokens <= 1.0:
            detail = "no token comes after the first, so there is no time per output token"
            problems.add(f"/limits/{name}", detail)
    return tuple(time_limit(name, most_s) for name, most_s in given.items())


def goodput_answer(computed: ComputedDeployment, limits: tuple[TimeLimit, ...]) -> Goodput | None:
    """The goodput under limits; null without any."""
    if not limits:
        return None
    found = goodput_of(computed.estimate, limits)
    idle = {name: plain(value) for name, value in found.idle_s.items()}
    saturation = plain(computed.latency.saturation_requests_per_s.value)
    return {
        "requests_per_s": figure(found.requests_per_s),
        "saturation_ratio": plain(found.requests_per_s.value) / saturation,
        "limited_by": list(found.limited_by),
        "reason": _reason(found.limited_by, limits, idle),
        "limits": [
            {
                "name": one.name,
                "limit_s": one.most_s,
                "idle_s": idle[one.name],
                "kept_when_idle": idle[one.name] <= one.most_s,
            }
            for one in limits
        ],
    }


def _reason(
    limited_by: tuple[str, ...], limits: tuple[TimeLimit, ...], idle: dict[str, float]
) -> str:
    missed = [one for one in limits if idle[one.name] > one.most_s]
    if missed:
        told = ", ".join(
            f"{one.name} is {number(idle[one.name])} s when almost idle, above the limit of "
            f"{number(one.most_s)} s"
            for one in missed
        )
        return f"no rate of requests keeps the limits: {told}"
    if not limited_by:
        return "the deployment saturates before it misses a limit"
    return f"a higher rate would miss {' and '.join(limited_by)}"
