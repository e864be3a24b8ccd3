"""Operations on sweeps: ask for one, look at it, stop it, drop it."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import orjson
from anyio import to_thread
from sqlalchemy.ext.asyncio import AsyncConnection
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service import ENGINE_VERSION
from service.api.http.bodies import read_request
from service.api.http.contract import (
    EXTRA_PROBLEMS,
    KEPT_ACTION_PROBLEMS,
    KEPT_ITEM_PROBLEMS,
    KEPT_POST_PROBLEMS,
    Operations,
    body_of,
)
from service.api.http.idempotency import idempotency_key, key_parameter
from service.api.http.needs import need
from service.api.http.problems import Problem, invalid
from service.api.http.queries import plain_query
from service.api.http.state import caller, shared, snapshot_for
from service.api.sweeps.access import (
    ID_PARAMETER,
    NOT_KEPT,
    answered,
    found,
    in_transaction,
    unavailable,
)
from service.catalog.database.store import UNRECORDED_REVISION
from service.estimation.rejection import FieldError, Rejected
from service.estimation.sweeps.answers import Sweep
from service.estimation.sweeps.kinds import AnyStudy, AskedSweep, resolved_sweep
from service.estimation.sweeps.plan import Study
from service.estimation.sweeps.requests import SweepRequest
from service.estimation.sweeps.training_requests import TrainingSweepRequest
from service.jobs import repository
from service.jobs.queue import enqueue, withdraw

router = Operations(prefix="/v1", tags=["sweeps"])

_RETRY_AFTER_S = "30"


@router.post(
    "/sweeps",
    status_code=202,
    operation_id="createSweep",
    summary="Evaluate a whole design space as a background job",
    responses={
        200: {"model": Sweep, "description": "Created before, under the same Idempotency-Key"},
        202: {"model": Sweep},
        **KEPT_POST_PROBLEMS,
        **EXTRA_PROBLEMS,
    },
    openapi_extra=body_of(SweepRequest)
    | {"parameters": [key_parameter("The same key starts the same sweep only once.")]},
)
async def create_sweep(http: HttpRequest) -> Response:
    """Store a sweep and queue its parts.

    Answers at once (202): results_path has the rows when status is succeeded, events_path tells
    how far it has come.
    """
    return await _created(http, SweepRequest)


@router.post(
    "/sweeps/training",
    status_code=202,
    operation_id="createTrainingSweep",
    summary="Evaluate a whole design space of training runs as a background job",
    responses={
        200: {"model": Sweep, "description": "Created before, under the same Idempotency-Key"},
        202: {"model": Sweep},
        **KEPT_POST_PROBLEMS,
        **EXTRA_PROBLEMS,
    },
    openapi_extra=body_of(TrainingSweepRequest)
    | {"parameters": [key_parameter("The same key starts the same sweep only once.")]},
)
async def create_training_sweep(http: HttpRequest) -> Response:
    """Store a sweep of training runs and queue its parts.

    Every layout, way to train, accelerator and micro-batch that a recommendation searches, in every
    region, as rows. Answers at once (202), and is then looked at, stopped and read as any sweep.
    """
    return await _created(http, TrainingSweepRequest)


async def _created(
    http: HttpRequest, kind: type[SweepRequest] | type[TrainingSweepRequest]
) -> Response:
    """Store a sweep, queue its parts, and answer with it."""
    need("sweeps")
    known = caller(http)
    organisation = None if known is None else known.organisation
    key = idempotency_key(http)
    if key is not None and organisation is not None:
        key = f"{organisation}/{key}"  # what others call their sweeps is their affair
    settings = shared(http).settings
    asked: AskedSweep = await read_request(http, kind, settings.body_limit_bytes)
    request = asked.standing_alone()
    snapshot = await snapshot_for(http, request)
    try:
        study = await to_thread.run_sync(resolved_sweep, request, snapshot)
    except Rejected as rejected:
        raise invalid(rejected.errors) from None
    most = settings.sweep_limit_configurations
    if study.configurations > most:
        size = (
            f"{study.configurations} configurations; this server accepts at most {most} per sweep"
        )
        space = "/space" if kind is SweepRequest else "/search"
        raise invalid([FieldError(space, size)])
    if snapshot.revision == UNRECORDED_REVISION:
        raise unavailable("there is no database")
    new = repository.NewSweep(
        request=_naming_its_engine(request, study).model_dump_json(exclude_defaults=True).encode(),
        catalog_revision=snapshot.revision,
        engine_version=ENGINE_VERSION,
        configurations=study.configurations,
        chunks=len(study.chunks),
        organisation=organisation,
    )

    async def keep(connection: AsyncConnection) -> tuple[UUID, bool]:
        id_, fresh = await repository.add(connection, new, key)
        if fresh:
            waiting = await repository.unfinished(connection, organisation)
            if waiting > settings.sweep_limit_unfinished:
                raise Problem(
                    "too-many-requests",
                    f"{waiting - 1} of your sweeps are not finished; this server accepts at most "
                    f"{settings.sweep_limit_unfinished} at once",
                    headers={"Retry-After": _RETRY_AFTER_S},
                )
            await enqueue(connection, id_, new.chunks)
        return id_, fresh

    try:
        id_, fresh = await in_transaction(http, keep)
    except repository.KeyReused:
        raise Problem(
            "conflict", "this Idempotency-Key was used for another sweep; use a new one"
        ) from None
    kept = await found(http, str(id_))
    headers = {"Location": f"/v1/sweeps/{id_}", **NOT_KEPT}
    return _answer(await answered(http, kept), 202 if fresh else 200, headers)


def _naming_its_engine(request: AskedSweep, study: AnyStudy) -> AskedSweep:
    """A request with the engine that all of it is swept under, so that its rows can be repeated."""
    if isinstance(request, TrainingSweepRequest):
        return request
    assert isinstance(study, Study)  # noqa: S101 - it was resolved from the request
    engine = study.environment.serving.engine
    serving = request.serving.model_copy(update={"engine": engine})
    return request.model_copy(update={"serving": serving})


@router.get(
    "/sweeps/{id}",
    operation_id="getSweep",
    summary="A sweep and its progress",
    responses={200: {"model": Sweep}, **KEPT_ITEM_PROBLEMS},
    openapi_extra={"parameters": [ID_PARAMETER]},
)
async def get_sweep(http: HttpRequest) -> Response:
    """The sweep with its status, its progress, and what limits have excluded so far."""
    plain_query(http.query_params, {})
    return _answer(await answered(http, await found(http, http.path_params["id"])))


@router.post(
    "/sweeps/{id}/cancel",
    operation_id="cancelSweep",
    summary="Stop a sweep that is not finished",
    responses={200: {"model": Sweep}, **KEPT_ACTION_PROBLEMS},
    openapi_extra={"parameters": [ID_PARAMETER]},
)
async def cancel_sweep(http: HttpRequest) -> Response:
    """Stop a sweep; stopping it again has no effect.

    One that has ended otherwise is refused (409).
    """
    plain_query(http.query_params, {})
    kept = await found(http, http.path_params["id"])

    async def stop(connection: AsyncConnection) -> None:
        await repository.cancel(connection, kept["id"])
        await withdraw(connection, kept["id"])

    await in_transaction(http, stop)
    kept = await found(http, http.path_params["id"])
    if kept["status"] != "cancelled":
        raise Problem("conflict", f"the sweep has already {kept['status']}")
    return _answer(await answered(http, kept))


@router.delete(
    "/sweeps/{id}",
    status_code=204,
    operation_id="deleteSweep",
    summary="Stop a sweep and delete its results",
    responses=KEPT_ITEM_PROBLEMS,
    openapi_extra={"parameters": [ID_PARAMETER]},
)
async def delete_sweep(http: HttpRequest) -> Response:
    """Stop a sweep if it is not finished, and delete its results; it is then gone (410)."""
    plain_query(http.query_params, {})
    kept = await found(http, http.path_params["id"])

    async def remove(connection: AsyncConnection) -> None:
        await repository.remove(connection, kept["id"])
        await withdraw(connection, kept["id"])

    await in_transaction(http, remove)
    return Response(status_code=204)


def _answer(
    body: dict[str, Any], status: int = 200, headers: dict[str, str] | None = None
) -> Response:
    return Response(
        orjson.dumps(body), status, headers=headers or NOT_KEPT, media_type="application/json"
    )
