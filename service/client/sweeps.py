"""Sweeps from asking to their table: in this process, or by a service whose events are followed."""

from __future__ import annotations

import asyncio
import csv
import io
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, TypeAlias

import httpx
import numpy as np
import orjson
from pydantic import ValidationError

from service.api.http.problems import invalid, problem_details, validation_problem
from service.api.http.tables import safe_cell
from service.catalog.snapshot import CatalogSnapshot
from service.client.estimator import NotReached, Refused
from service.estimation.bodies import parsed
from service.estimation.rejection import Rejected
from service.estimation.sweeps.chunks import Rows
from service.estimation.sweeps.kinds import evaluated_chunk, kind_of, resolved_sweep

#: Is told how many of how many configurations are done.
Told: TypeAlias = Callable[[int, int], None]

_TIMEOUT = httpx.Timeout(120.0, connect=5.0)
#: Between two connections to the same events.
_PAUSE_S = 0.5
_ENDED = frozenset(("failed", "cancelled", "expired"))


async def swept_here(
    body: Mapping[str, Any], snapshot: CatalogSnapshot, told: Told
) -> AsyncIterator[str]:
    """The table of a sweep that is evaluated in this process, a chunk after the other.

    Raises
    ------
    Refused
        If the request cannot be answered.
    """
    kind = kind_of(body)
    try:
        study = resolved_sweep(parsed(kind, orjson.dumps(body)), snapshot)
    except ValidationError as error:
        raise Refused(problem_details(validation_problem(error, kind))) from None
    except Rejected as rejected:
        raise Refused(problem_details(invalid(rejected.errors))) from None
    done, total = 0, study.configurations
    told(done, total)
    for at in range(len(study.chunks)):
        rows = evaluated_chunk(study, at)
        yield "".join(_lines(rows, with_header=at == 0))
        done += study.chunks[at].configurations
        told(done, total)


def _lines(rows: Rows, *, with_header: bool) -> Iterator[str]:
    """Rows as lines of CSV; unknown figures are empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if with_header:
        writer.writerow(rows.columns)
    columns = [
        [safe_cell(rows.texts[name][at]) for at in column]
        if name in rows.texts
        else [("true" if one else "false") for one in column]
        if column.dtype == np.bool_
        else ["" if one != one else one for one in column.tolist()]
        for name, column in rows.columns.items()
    ]
    writer.writerows(zip(*columns, strict=True))
    yield out.getvalue()


async def swept_by(
    url: str,
    headers: Mapping[str, str],
    body: Mapping[str, Any],
    told: Told,
    transport: httpx.AsyncBaseTransport | None = None,
) -> AsyncIterator[str]:
    """The table of a sweep that a service evaluates, whose events are followed meanwhile.

    Raises
    ------
    Refused
        If the service refuses the request.
    NotReached
        If it does not answer, or gives the sweep up.
    """
    path = "sweeps/training" if "training" in body else "sweeps"
    try:
        async with httpx.AsyncClient(
            timeout=_TIMEOUT, transport=transport, headers=dict(headers), base_url=f"{url}/v1/"
        ) as client:
            json = {"Content-Type": "application/json"}
            response = await client.post(path, content=orjson.dumps(body), headers=json)
            sweep = _answered(response)
            await _followed(client, sweep, told)
            address = str(sweep["results_path"]).removeprefix("/v1/")
            async with client.stream("GET", address, headers={"Accept": "text/csv"}) as results:
                if not results.is_success:
                    await results.aread()
                    _answered(results)
                async for piece in results.aiter_text():
                    yield piece
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        why = str(error) or type(error).__name__
        raise NotReached(f"{url} cannot be reached: {why}") from None


def _answered(response: httpx.Response) -> dict[str, Any]:
    try:
        answer = orjson.loads(response.content)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict):
        raise NotReached(f"the service answers {response.status_code} with something else")
    if response.is_success:
        return answer
    if 400 <= response.status_code < 500:
        raise Refused(answer)
    raise NotReached(f"the service answers {response.status_code}: {answer.get('detail')}")


async def _followed(client: httpx.AsyncClient, sweep: Mapping[str, Any], told: Told) -> None:
    """Follow the events of a sweep until it has ended, through as many connections as it takes."""
    while True:
        async with client.stream("GET", f"sweeps/{sweep['id']}/events") as events:
            if not events.is_success:
                await events.aread()
                _answered(events)
            async for line in events.aiter_lines():
                if not line.startswith("data:"):
                    continue
                news = orjson.loads(line.removeprefix("data:"))
                if news["event"] == "reconnect":
                    break
                progress = news["progress"]
                told(progress["configurations_done"], progress["configurations"])
                if news["status"] in _ENDED:
                    why = news["problem"] or "its results are not kept"
                    raise NotReached(f"the sweep has {news['status']}: {why}")
                if news["event"] == "finished":
                    return
        await asyncio.sleep(_PAUSE_S)
