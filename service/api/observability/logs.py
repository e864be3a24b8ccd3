"""Log lines as one JSON object each, or as text for people."""

from __future__ import annotations

import logging
import sys
from typing import Any

import orjson

from service.settings import Settings

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, logger, message, and whatever was given as extra."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record."""
        line: dict[str, Any] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        line |= {name: value for name, value in vars(record).items() if name not in _STANDARD}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return orjson.dumps(line, default=str).decode()


def set_up_logs(settings: Settings, annotate: logging.Filter | None = None) -> None:
    """Send the service's logs to standard error in the form that the settings ask for.

    ``annotate`` adds to records what it knows of them.
    """
    handler = logging.StreamHandler(sys.stderr)
    if annotate is not None:
        handler.addFilter(annotate)
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
