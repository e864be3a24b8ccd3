"""Streams that would go on for long do not keep a process that was told to stop."""

from __future__ import annotations

import json

import httpx
import pytest

from service.estimation.sweeps.answers import SweepInterruption
from tests.api.shapes import validated
from tests.faults.processes import serving

SWEEP = {"models": ["llama-3.1-8b"], "space": {"max_accelerators": 2}}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_watchers_are_told_to_come_back_and_do_not_delay_a_stop(
    catalog_url: str, workers: str
) -> None:
    # Nobody works on the sweep, so that the stream would go on for an hour.
    with serving("--workers", workers, DATABASE_URL=catalog_url) as service:
        asked = service.ask("POST", "/v1/sweeps", json=SWEEP)
        assert asked.status_code == 202, asked.text
        events = f"{service.address}{asked.json()['events_path']}"
        with httpx.stream("GET", events, timeout=600) as stream:
            lines = stream.iter_lines()
            assert next(lines) == "event: progress"
            service.process.terminate()
            rest = list(lines)
        assert "event: reconnect" in rest
        assert "retry: 500" in rest
        told = [json.loads(line[6:]) for line in rest if line.startswith("data: ")]
        validated(SweepInterruption, told[-1])
        # Hung up on only after the time for graceful ends (30 s), it would exit otherwise.
        assert service.process.wait(timeout=600) == 0
