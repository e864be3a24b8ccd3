"""Hostile requests made from the contract: the service fails none, and answers all as declared.

One test for each operation, all of them made here: pytest tells the tests that schemathesis makes
of one function apart by nothing, and runs only the first of them where processes share the work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson
import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import settings as fuzz_settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from service.api.app import create_app
from service.settings import Settings
from tests.faults.processes import Service
from tests.fuzz import tally
from tests.fuzz.mutation import damaged

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
#: An answer that takes longer hangs.
_HANGS_S = 600
MANY = fuzz_settings(
    max_examples=tally.cases(20),
    deadline=None,
    derandomize=tally.is_repeatable(),
    database=None,
    suppress_health_check=list(HealthCheck),
)

document = create_app(Settings(embedded_database=False, log_level="error")).openapi()
schema = schemathesis.openapi.from_dict(document)
sound = schemathesis.openapi.from_dict(document)
sound.config.generation.update(modes=[GenerationMode.POSITIVE])

#: Schemathesis 4.32 gives up on some wrong lists in these ("Cannot generate an array with 1
#: demanded elements"): they get sound requests of it, and damaged ones besides.
LISTS = frozenset(
    {"createRecommendation", "createTrainingRecommendation", "createParetoChart", "createSweep"}
)

Test = Callable[..., None]


def operations() -> Mapping[str, tuple[str, str]]:
    """Method and path of each operation by its id."""
    return {
        operation["operationId"]: (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if isinstance(operation, dict) and "operationId" in operation
    }


def tests_of(ids: Iterable[str]) -> dict[str, Test]:
    """Tests of operations, by the names that they have in a module."""
    found: dict[str, Test] = {}
    for id_ in ids:
        chosen = sound if id_ in LISTS else schema
        found[f"test_{id_}"] = chosen.include(operation_id=id_).parametrize()(MANY(_hostile()))
        if id_ in LISTS:
            found[f"test_{id_}_damaged"] = _damaged(*operations()[id_])
    return found


def _hostile() -> Test:
    """A function of its own for each operation: schemathesis writes on it."""

    def hostile_requests_are_answered_as_declared(
        case: schemathesis.Case, service: Service, key: str
    ) -> None:
        needs_key = case.operation.definition.raw.get("security")
        headers = {"Authorization": f"Bearer {key}"} if needs_key else {}
        response = case.call(base_url=service.address, headers=headers, timeout=_HANGS_S)
        case.validate_response(response, checks=CHECKS)

    return hostile_requests_are_answered_as_declared


def _damaged(method: str, path: str) -> Test:
    operation = document["paths"][path][method.lower()]
    content = operation["requestBody"]["content"]["application/json"]
    examples = [orjson.dumps(one["value"]) for one in content["examples"].values()]
    declared = {int(status) for status in operation["responses"]}

    def damaged_requests_are_answered_as_declared(service: Service) -> None:
        @MANY
        @given(body=damaged(examples))
        def answered(body: bytes) -> None:
            headers: dict[str, Any] = {"Content-Type": "application/json"}
            response = service.ask(method, path, content=body, headers=headers)
            assert response.status_code in declared - {500}

        answered()

    return damaged_requests_are_answered_as_declared
