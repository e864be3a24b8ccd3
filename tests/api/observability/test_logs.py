"""Lines that tell of requests: whole, in the form that was asked for, and cheap to write."""

from __future__ import annotations

import asyncio
import io
import json
import logging

import pytest

from service.api.observability.logs import AccessLog, JsonLines, access_log, set_up_logs
from service.settings import Settings

ASKED = ("a-request-id", "POST", "/v1/estimates/inference", 200)


class Counting(io.StringIO):
    """A stream that counts how often it is written to."""

    writes = 0

    def write(self, text: str) -> int:
        """Write, and count."""
        self.writes += 1
        return super().write(text)


async def test_requests_of_one_turn_leave_together_as_an_object_a_line() -> None:
    stream = Counting()
    log = AccessLog(True, lambda: {"trace_id": "0af7"}, stream)
    log.tell(*ASKED, 0.00123456)
    log.tell(*ASKED[:3], 422, 25e-6)
    assert not stream.getvalue()
    await asyncio.sleep(0)
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert stream.writes == 1
    assert first.pop("time")[10] == "T"
    assert first == {
        "level": "info",
        "logger": "headroom.access",
        "message": "request",
        "request_id": "a-request-id",
        "method": "POST",
        "route": "/v1/estimates/inference",
        "status": 200,
        "duration_s": 0.001235,
        "trace_id": "0af7",
    }
    assert (second["status"], second["duration_s"]) == (422, 0.000025)
    log.tell(*ASKED, 1.0)
    await asyncio.sleep(0)
    assert (stream.writes, len(stream.getvalue().splitlines())) == (2, 3)


async def test_people_read_what_was_asked_and_how_long_it_took() -> None:
    stream = io.StringIO()
    AccessLog(False, None, stream).tell(*ASKED, 0.0123)
    await asyncio.sleep(0)
    assert stream.getvalue() == (
        "INFO headroom.access: POST /v1/estimates/inference 200 in 12.3 ms\n"
    )


async def test_a_stream_that_takes_nothing_any_more_harms_nobody() -> None:
    stream = io.StringIO()
    log = AccessLog(True, None, stream)
    stream.close()
    log.tell(*ASKED, 1.0)
    log.write()


@pytest.mark.parametrize(("level", "told"), [("warning", False), ("info", True)])
def test_the_level_says_whether_requests_are_told_of(level: str, told: bool) -> None:
    settings = Settings(log_level=level)
    set_up_logs(settings)
    assert (access_log(settings) is not None) == told


def test_a_line_has_its_message_once() -> None:
    record = logging.makeLogRecord(
        {
            "msg": "Started process [%d]",
            "args": (7,),
            "color_message": "Started process [\x1b[36m%d\x1b[0m]",
            "request_id": "a1",
        }
    )
    told = json.loads(JsonLines().format(record))
    assert told["message"] == "Started process [7]"
    assert told["request_id"] == "a1"
    assert "color_message" not in told
