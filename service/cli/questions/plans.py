"""``headroom plan-fleet``, ``plan-traffic`` and ``plan-site``: over years, days and sites."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from service.cli.questions import options
from service.cli.questions.bodies import body_from, misused
from service.cli.questions.options import Option, command
from service.cli.status import EPILOG, notices

_TRACE = Option(
    ("--trace",),
    str,
    "CSV file with a row for each request: arrival_s or timestamp, input_tokens, output_tokens. "
    "Rates and lengths follow from it.",
    panel="Workload",
)
_INTERVAL = Option(
    ("--interval-s",), float, "Length of an interval in seconds.", ("interval_s",), "Workload"
)
_FLEET = options.ASKING
#: From so many times the mean of its hour a minute is a burst.
_BURSTS = 3.0
_MINUTE_S = 60.0
_TRAFFIC = (_TRACE, _INTERVAL, *options.ASKING)


def commands() -> dict[str, Callable[..., None]]:
    """The commands by name."""
    return {
        "plan-fleet": command(
            _plan_fleet,
            _FLEET,
            "Several models and loads over years: accelerators, power, money, emissions." + EPILOG,
        ),
        "plan-site": command(
            _plan_site,
            options.ASKING,
            "What a site's power, racks and place allow, hardware by hardware." + EPILOG,
        ),
        "plan-traffic": command(
            _plan_traffic,
            _TRAFFIC,
            "A day of traffic, interval by interval: copies, times, energy, rent." + EPILOG,
        ),
    }


def _plan_fleet(given: dict[str, Any]) -> None:
    from service.cli.questions.asking import ask
    from service.cli.views.plans import fleet_view
    from service.estimation.plans.tables import fleet_rows

    ask("plans/fleet", _needed(body_from(given, _FLEET)), given, fleet_view, fleet_rows)


def _plan_site(given: dict[str, Any]) -> None:
    from service.cli.questions.asking import ask
    from service.cli.views.plans import site_view
    from service.estimation.plans.tables import site_rows

    ask("plans/site", _needed(body_from(given, options.ASKING)), given, site_view, site_rows)


def _needed(body: dict[str, Any]) -> dict[str, Any]:
    if not body:
        raise misused("a plan needs its request: --request FILE, see docs/asking.md")
    return body


def _plan_traffic(given: dict[str, Any]) -> None:
    from service.cli.questions.asking import ask
    from service.cli.views.plans import traffic_view
    from service.estimation.plans.tables import traffic_rows

    body = body_from(given, _TRAFFIC)
    if given.get("trace"):
        _put_trace(body, given["trace"])
    ask("plans/traffic", _needed(body), given, traffic_view, traffic_rows)


def _put_trace(body: dict[str, Any], named: str) -> None:
    """Rates and lengths of a trace, in the place of those of the request."""
    from service.estimation.plans.traces import TraceNotUnderstood, traffic_of

    def told(rows: int) -> None:
        notices.print(f"{rows:,} requests read", style="dim")

    deployment = body.setdefault("deployment", {})
    workload = deployment.setdefault("workload", {}) if isinstance(deployment, dict) else None
    if not isinstance(workload, dict):
        raise misused("--trace: deployment.workload is not an object in the request")
    try:
        with Path(named).open(encoding="utf-8", newline="") as lines:
            traffic = traffic_of(lines, float(body.get("interval_s", 3600.0)), told)
    except (OSError, UnicodeDecodeError, TraceNotUnderstood, TypeError, ValueError) as error:
        raise misused(f"--trace {named}: {error}") from None
    found, bursts = traffic.fields, traffic.busiest_minute_ratio
    if bursts > _BURSTS and found["interval_s"] > _MINUTE_S:
        notices.print(
            f"the busiest minute has {bursts:.1f} times the requests of its hour: within an "
            "interval requests are taken to come at random; --interval-s 60 follows bursts",
            style="yellow",
        )
    workload |= found["deployment"]["workload"]
    body |= {name: found[name] for name in ("requests_per_s", "interval_s")}
