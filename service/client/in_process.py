"""Answers from the packaged catalog, without a server and without a database."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from functools import cached_property
from typing import Any

import orjson
from pydantic import ValidationError

from service.api.http.hub_models import with_hub_models
from service.api.http.problems import (
    PROBLEM_TYPES,
    Problem,
    invalid,
    joined,
    problem_details,
    validation_problem,
)
from service.catalog.entries.documents import CatalogInvalid
from service.catalog.files import packaged_documents
from service.catalog.snapshot import CatalogSnapshot, snapshot_from_documents
from service.client.estimator import NotReached, Refused
from service.estimation.bodies import parsed
from service.estimation.catalog.listing import Listing, entry_answer, list_entries
from service.estimation.measurements.imports.imported import (
    import_answer,
    understood_file,
    with_estimates,
)
from service.estimation.measurements.imports.reading import FileRefused
from service.estimation.measurements.imports.requests import MeasurementImportRequest
from service.estimation.named import unknown_names
from service.estimation.references import CatalogRequest
from service.estimation.rejection import FieldError, Rejected
from service.estimation.use_cases import USE_CASES
from service.hub.hub import Hub
from service.settings import Settings

_COLLECTIONS = (
    *("accelerators", "platforms", "models", "regions", "memory-tiers", "interconnects"),
    *("instances", "engines"),
)


class InProcess:
    """Answers by itself; the catalog is read when it is first needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    @cached_property
    def _snapshot(self) -> CatalogSnapshot:
        """The catalog's files, which carry the number 0 as they do while no database has them."""
        folder = self._settings.catalog_directory
        try:
            return snapshot_from_documents(packaged_documents(folder), 0, checked=True)
        except CatalogInvalid as error:
            raise NotReached(f"the catalog in {folder} is not sound:\n{error}") from None

    async def ask(self, question: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a question; see :class:`service.client.estimator.EstimatorClient`."""
        use_case = USE_CASES[question]
        try:
            asked: Any = parsed(use_case.request, orjson.dumps(body))
            request = await self._with_hub_models(asked)
            self._check_revision(request)
            return {**use_case.respond(request, self._snapshot)}
        except ValidationError as error:
            problem = validation_problem(error, use_case.request)
            unknown = unknown_names(body, use_case.request, self._snapshot)
            raise _refused(joined(problem, unknown)) from None
        except Rejected as rejected:
            raise _refused(invalid(rejected.errors)) from None
        except Problem as problem:
            if PROBLEM_TYPES[problem.slug].status >= 500:
                raise NotReached(problem.detail) from None
            raise _refused(problem) from None

    def sweep(
        self, body: Mapping[str, Any], told: Callable[[int, int], None]
    ) -> AsyncIterator[str]:
        """A sweep's table; see :class:`service.client.estimator.EstimatorClient`."""
        from service.client.sweeps import swept_here

        return swept_here(body, self._snapshot, told)

    async def import_file(
        self, body: Mapping[str, Any], idempotency_key: str | None = None
    ) -> dict[str, Any]:
        """Measurements of a file; see :class:`service.client.estimator.EstimatorClient`."""
        del idempotency_key
        try:
            asked = parsed(MeasurementImportRequest, orjson.dumps(body))
            file = understood_file(
                asked.data(),
                asked.deployment,
                self._snapshot,
                name=asked.name,
                format_id=asked.format,
            )
            documents = [
                None if document is None else await self._with_hub_models(document)
                for document in file.documents
            ]
        except ValidationError as error:
            raise _refused(validation_problem(error, MeasurementImportRequest)) from None
        except FileRefused as refused:
            errors = (
                FieldError(fault.pointer, fault.detail, *(fault.position or (None, None)))
                for fault in refused.faults
            )
            raise _refused(invalid(errors)) from None
        except Problem as problem:
            if PROBLEM_TYPES[problem.slug].status >= 500:
                raise NotReached(problem.detail) from None
            raise _refused(problem) from None
        return {**import_answer(with_estimates(file, documents, self._snapshot), dry_run=True)}

    async def _with_hub_models(self, asked: Any) -> Any:
        hub = Hub(self._settings)
        try:
            return await with_hub_models(asked, hub)
        finally:
            await hub.stop()

    async def look_up(self, collection: str, text: str, most: int) -> list[dict[str, Any]]:
        """Entries of the catalog; see :class:`service.client.estimator.EstimatorClient`."""
        if collection not in _COLLECTIONS:
            known = ", ".join(_COLLECTIONS)
            raise _refused(Problem("not-found", f"no such collection; there are {known}"))
        page = list_entries(self._snapshot, collection, Listing(text=text or None, limit=most))
        return [entry_answer(self._snapshot, collection, entry) for entry in page.entries]

    def _check_revision(self, request: CatalogRequest) -> None:
        if request.catalog_revision not in (None, self._snapshot.revision):
            raise Rejected(
                [FieldError("/catalog_revision", "earlier revisions are with a server: --server")]
            )
        own = {"/calibration": request.calibration == "own"}
        own["/calibration_revision"] = request.calibration_revision is not None
        for pointer in (each for each, wanted in own.items() if wanted):
            raise Rejected([FieldError(pointer, "own measurements are with a server: --server")])


def _refused(problem: Problem) -> Refused:
    return Refused(problem_details(problem))
