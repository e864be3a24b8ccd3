"""Tasks end when they are told to, whatever takes a cancellation for itself."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from service.background import ended


async def test_a_task_that_loses_a_cancellation_is_cancelled_again():
    lost = 0

    async def loop() -> None:
        nonlocal lost
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                lost += 1
                if lost == 3:
                    raise

    task = asyncio.create_task(loop())
    await asyncio.sleep(0)
    await ended(task, again_s=0.01)
    assert task.cancelled()
    assert lost == 3


async def test_what_has_ended_is_left_alone():
    async def fails() -> None:
        raise ValueError("as it happens")

    task = asyncio.create_task(fails())
    with suppress(ValueError):
        await task
    await ended(task)
    assert isinstance(task.exception(), ValueError)
