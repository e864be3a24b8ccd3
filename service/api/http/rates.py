"""How much a caller may ask for in a minute: by API key, or by address for those without one.

Requests are weighed by what they cost to answer; an ordinary estimate is 1. The answer tells what
is left, as the IETF draft on RateLimit header fields (draft-ietf-httpapi-ratelimit-headers) has it.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Any

from starlette.requests import Request as HttpRequest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from service.access.keys import Caller, KeyRefused
from service.api.http.middleware import ALWAYS_ANSWERED
from service.api.http.problems import Problem, problem_response
from service.settings import Settings

if TYPE_CHECKING:
    from limits import RateLimitItemPerMinute
    from limits.strategies import MovingWindowRateLimiter

#: What a search over the whole catalog costs.
_SEARCH = 20
#: What a request of these paths costs before its size is known, where that is more than 1.
_WEIGHTS = (
    ("/v1/recommendations", _SEARCH),
    ("/recommendation.", _SEARCH),
    ("/training-recommendation.", _SEARCH),
    ("/v1/sweeps", 20),
    ("/v1/catalog/imports", 20),
    ("/v1/plans", _SEARCH),
    ("/v1/charts", 5),
    ("/v1/compare", 5),
    ("/v1/estimates/batch", 5),
)
#: Estimates of a batch or a comparison that cost as much as one asked for alone.
ITEMS_PER_UNIT = 4
_WINDOW_S = 60
#: Clocks that are kept right by a little at a time slip by less between two requests.
_LARGEST_SLIP_S = 1.0
#: Addresses of a network that one customer usually holds.
_IPV6_PREFIX = 64


class RateLimits:
    """Wraps the application; see the module.

    Parameters
    ----------
    app
        Answers what is let through.
    settings
        With the limits; a limit that is None is none.
    caller
        Who holds a key, by its text.
    """

    def __init__(self, app: ASGIApp, settings: Settings, caller: Callable[[str], Caller]) -> None:
        self._app = app
        self._caller = caller
        self._limiter = _limiter()
        self._clock_s = _clock_s()
        self._by_address = _limit(settings.rate_limit_per_minute)
        self._by_key = _limit(settings.rate_limit_per_minute_with_key)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count a request, and let it through unless it is one too many."""
        if scope["type"] != "http" or scope["path"] in ALWAYS_ANSWERED:
            await self._app(scope, receive, send)
            return
        limit, who = self._counted_as(scope)
        if limit is None:
            await self._app(scope, receive, send)
            return

        def charge(cost: int) -> None:
            if not self._limiter.hit(limit, who, cost=min(cost, limit.amount)):
                raise _refused(self._left(limit, who))

        scope["charge"] = charge
        self._follow_clock()

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                remaining, reset_s = self._left(limit, who)
                message["headers"] += _headers(limit.amount, remaining, reset_s)
            await send(message)

        try:
            charge(_weight(scope["path"]))
        except Problem as refused:
            response = problem_response(refused, scope["request_id"])
            await response(scope, receive, send_with_headers)
        else:
            await self._app(scope, receive, send_with_headers)

    def _counted_as(self, scope: Scope) -> tuple[RateLimitItemPerMinute | None, str]:
        """The limit that holds for a request, and on whose account it goes."""
        for name, value in scope["headers"]:
            if name == b"authorization":
                text = value.decode("latin-1").partition(" ")[2].strip()
                try:
                    return self._by_key, f"key {self._caller(text).key_id}"
                except KeyRefused:
                    break  # whoever tries keys is counted by address
        return self._by_address, f"address {_network(scope.get('client'))}"

    def _follow_clock(self) -> None:
        """Count anew where the clock was set back.

        The library remembers requests by the time of day: until that comes again, those counted
        before would be taken for younger than they are.
        """
        clock_s = _clock_s()
        if clock_s < self._clock_s - _LARGEST_SLIP_S:
            self._limiter = _limiter()
        self._clock_s = clock_s

    def _left(self, limit: RateLimitItemPerMinute, who: str) -> tuple[int, float]:
        """Units left, and seconds until there are more."""
        stats = self._limiter.get_window_stats(limit, who)
        return stats.remaining, max(stats.reset_time - time.time(), 0.0)


def charge(http: HttpRequest, items: int) -> None:
    """Count the estimates that a request turned out to ask for, where requests are limited.

    Raises
    ------
    Problem
        If they are more than the caller has left (429).
    """
    _charge(http, items // ITEMS_PER_UNIT)


def charge_search(http: HttpRequest) -> None:
    """Count a request that turned out to search, where requests are limited.

    Raises
    ------
    Problem
        If that is more than the caller has left (429).
    """
    _charge(http, _SEARCH - 1)


def _charge(http: HttpRequest, units: int) -> None:
    found = http.scope.get("charge")
    if found is not None and units > 0:
        found(units)


def _clock_s() -> float:
    """How far the time of day is ahead of a clock that nobody sets."""
    return time.time() - time.monotonic()


def _limiter() -> MovingWindowRateLimiter:
    from limits.storage import MemoryStorage
    from limits.strategies import MovingWindowRateLimiter

    return MovingWindowRateLimiter(MemoryStorage())


def _limit(per_minute: int | None) -> RateLimitItemPerMinute | None:
    from limits import RateLimitItemPerMinute

    return None if per_minute is None else RateLimitItemPerMinute(per_minute)


def _weight(path: str) -> int:
    return next((weight for begins, weight in _WEIGHTS if path.startswith(begins)), 1)


def _network(client: Any) -> str:
    if not client:
        return "unknown"
    try:
        address = ip_address(client[0])
    except ValueError:
        return str(client[0])
    if isinstance(address, IPv6Address):
        return str(ip_network((address, _IPV6_PREFIX), strict=False))
    return str(address)


def _refused(left: tuple[int, float]) -> Problem:
    remaining, reset_s = left
    detail = (
        f"this request costs more than the {remaining} units left; units are restored gradually"
    )
    return Problem(
        "too-many-requests", detail, headers={"Retry-After": str(max(math.ceil(reset_s), 1))}
    )


def _headers(amount: int, remaining: int, reset_s: float) -> list[tuple[bytes, bytes]]:
    return [
        (b"ratelimit-policy", f'"default";q={amount};w={_WINDOW_S}'.encode()),
        (b"ratelimit", f'"default";r={remaining};t={math.ceil(reset_s)}'.encode()),
    ]
