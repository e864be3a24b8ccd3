"""Log lines as one JSON object each, or as text for people."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TextIO, TypeAlias

import orjson

from service.settings import Settings

#: Tells what belongs on each line, such as the ids of the trace that it is part of.
Annotate: TypeAlias = Callable[[], Mapping[str, str]]

_TIME_FORM = "%Y-%m-%dT%H:%M:%S%z"
_ACCESS = "headroom.access"

#: What lines tell under other names, or not: uvicorn's color_message is the message again.
_TOLD = frozenset(vars(logging.makeLogRecord({}))) | {
    *("message", "asctime", "taskName"),
    "color_message",
}


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and whatever was given as extra."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        line: dict[str, Any] = {
            "time": self.formatTime(record, _TIME_FORM),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _TOLD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


class _Annotated(logging.Filter):
    """Puts on each record what belongs on its line; leaves none out."""

    def __init__(self, annotate: Annotate) -> None:
        super().__init__()
        self._annotate = annotate

    def filter(self, record: logging.LogRecord) -> bool:
        """Add to a record."""
        vars(record).update(self._annotate())
        return True


class AccessLog:
    """One line for each request that was answered.

    A request that is answered from memory costs less than a record of :mod:`logging`, and than
    writing a line by itself: these are put together here, and those of one turn of the event loop
    leave in one piece.

    Parameters
    ----------
    as_json
        Whether lines are JSON objects, as those of all other loggers are then.
    annotate
        Tells what else belongs on a line.
    stream
        Where lines go; one that takes none any more is left alone.
    """

    def __init__(self, as_json: bool, annotate: Annotate | None, stream: TextIO) -> None:
        self._as_json = as_json
        self._annotate = annotate
        self._stream = stream
        self._waiting: list[str] = []
        self._second = 0
        self._time = ""

    def tell(self, request_id: str, method: str, route: str, status: int, seconds: float) -> None:
        """Note a request; its words are the service's own, so that none needs to be escaped.

        Parameters
        ----------
        request_id
            Letters, digits, dots, underscores and hyphens.
        method, route, status
            The method, the template of the route, and the answer's status.
        seconds
            From request to answer [s].
        """
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.write)
        if not self._as_json:
            line = f"INFO {_ACCESS}: {method} {route} {status} in {seconds * 1e3:.3g} ms\n"
            self._waiting.append(line)
            return
        now = int(time.time())
        if now != self._second:
            self._second, self._time = now, time.strftime(_TIME_FORM, time.localtime(now))
        more = ""
        if self._annotate is not None:
            more = "".join(f',"{name}":"{text}"' for name, text in self._annotate().items())
        self._waiting.append(
            f'{{"time":"{self._time}","level":"info","logger":"{_ACCESS}","message":"request",'
            f'"request_id":"{request_id}","method":"{method}","route":"{route}",'
            f'"status":{status},"duration_s":{round(seconds, 6)}{more}}}\n'
        )

    def write(self) -> None:
        """Write what waits."""
        lines = "".join(self._waiting)
        self._waiting.clear()
        with suppress(OSError, ValueError):
            self._stream.write(lines)
            self._stream.flush()


def access_log(settings: Settings, annotate: Annotate | None = None) -> AccessLog | None:
    """The log of requests in the form that the settings ask for; None if they want none."""
    if not logging.getLogger(_ACCESS).isEnabledFor(logging.INFO):
        return None
    return AccessLog(settings.log_format == "json", annotate, sys.stderr)


def set_up_logs(settings: Settings, annotate: Annotate | None = None) -> None:
    """Send the service's logs to standard error in the form that the settings ask for.

    ``annotate`` tells what belongs on each line.
    """
    handler = logging.StreamHandler(sys.stderr)
    if annotate is not None:
        handler.addFilter(_Annotated(annotate))
    if settings.log_format == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    for name in ("headroom", "service", "uvicorn.error"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(settings.log_level.upper())
        logger.propagate = False
    # The queue and its driver tell of every job and connection; only what goes wrong is news.
    for name in ("procrastinate", "psycopg"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(max(logging.WARNING, logging.getLogger("service").level))
        logger.propagate = False
