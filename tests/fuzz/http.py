"""Hostile requests made from the contract: the service fails none, and answers all as declared.

One test for each operation, all of them made here. Schemathesis makes the thousand requests of an
operation one after the other while its test runs. Its own tests make those of all operations when
they are collected, which costs each process of a run most of a minute and two gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

import orjson
import requests
import schemathesis
from hypothesis import HealthCheck, given
from hypothesis import settings as fuzz_settings
from hypothesis import strategies as some
from schemathesis import Case, GenerationMode
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.core.parameters import ParameterLocation
from schemathesis.generation.coverage import GenerationSession
from schemathesis.generation.drivers import CaseGenerator, CoverageGenerator, ExamplesGenerator
from schemathesis.generation.feedback import FeedbackSources
from schemathesis.generation.meta import CoveragePhaseData
from schemathesis.generation.overrides import Override
from schemathesis.schemas import APIOperation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from service.api.app import create_app
from service.catalog.entries.documents import COLLECTIONS
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
_DRAWN = fuzz_settings(
    deadline=None,
    derandomize=tally.is_repeatable(),
    database=None,
    suppress_health_check=list(HealthCheck),
)
#: Of operations whose fields no other gets, and of those whose fields another does.
MANY, FEW = (fuzz_settings(_DRAWN, max_examples=tally.cases(usual)) for usual in (20, 5))

document = create_app(Settings(embedded_database=False, log_level="error")).openapi()
for each in document["components"]["schemas"].values():
    # A plan within a search is a request of its own, which its own operation gets.
    each.get("properties", {}).pop("baseline", None)
    # Of answers cut to fields only those are there; tests/api/http/test_shapes.py holds them.
    each.get("properties", {}).pop("fields", None)
    for example in each.get("examples", ()):
        if isinstance(example, dict):
            example.pop("fields", None)
schema = schemathesis.openapi.from_dict(document)
_components = document["components"]["schemas"]
#: What was made of a part of the document, for the operations that share it.
_made = GenerationSession()
load_all_checks()

#: Schemathesis 4.32 gives up on some wrong lists in these ("Cannot generate an array with 1
#: demanded elements"): they get sound requests of it, and damaged ones besides.
LISTS = frozenset(
    {"createRecommendation", "createTrainingRecommendation", "createParetoChart", "createSweep"}
)

SEARCHES = LISTS - {"createSweep"}
#: How many accelerators a search has tells nothing about its fields: where a request names none.
_SEARCHED = {"accelerators": ["nvidia-h100-sxm-80gb", "nvidia-l40s-48gb"]}

#: Of requests whose fields another operation gets as well, one in so many is sent.
_SHARED_EVERY = 10 if tally.is_repeatable() else 1

#: Where what is wrong is not one parameter of several.
_WHOLE = (None, ParameterLocation.BODY)

Test = Callable[..., None]


def operations() -> Mapping[str, tuple[str, str]]:
    """Method and path of each operation by its id."""
    return {
        operation["operationId"]: (method.upper(), path)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
        if isinstance(operation, dict) and "operationId" in operation
    }


def ids_under(*paths: str) -> set[str]:
    """Operations whose paths begin so."""
    return {id_ for id_, (_, path) in operations().items() if path.startswith(paths)}


def tests_of(ids: Iterable[str]) -> dict[str, Test]:
    """Tests of operations, by the names that they have in a module."""
    found: dict[str, Test] = {}
    for id_ in sorted(ids):
        found[f"test_{id_}"] = _hostile(id_)
        if id_ in LISTS:
            found[f"test_{id_}_damaged"] = _damaged(id_)
    return found


def _hostile(id_: str) -> Test:
    modes = [GenerationMode.POSITIVE] if id_ in LISTS else list(GenerationMode)

    def hostile_requests_are_answered_as_declared(service: Service, key: str) -> None:
        operation = schema.find_operation_by_id(id_)
        needs_key = operation.definition.raw.get("security")
        headers = {"Authorization": f"Bearer {key}"} if needs_key else {}

        def ask(case: Case) -> None:
            if id_ in SEARCHES and isinstance(case.body, dict):
                case.body = _searching_few(case.body)
            response = case.call(service.address, session, headers, timeout=_HANGS_S)
            case.validate_response(response, checks=CHECKS)

        @(FEW if _every(id_) > 1 else MANY)
        @given(case=some.one_of([operation.as_strategy(generation_mode=one) for one in modes]))
        def drawn(case: Case) -> None:
            ask(case)

        with requests.Session() as session:
            session.trust_env = False  # nothing is between here and the service
            for case in islice(_systematic(operation, modes), 0, None, _every(id_)):
                ask(case)
            drawn()

    return hostile_requests_are_answered_as_declared


def _searching_few(body: dict[str, Any]) -> dict[str, Any]:
    search = body.get("search", {})
    if not tally.is_repeatable():
        return body
    return body | {"search": _SEARCHED | search} if isinstance(search, dict) else body


#: What takes all fields of estimates, in a body and in a link.
_ESTIMATES = ("/v1/estimates/inference", "/v1/estimates/training")

#: Operations whose requests hold those of estimates, or are made of the same fields.
_SHARING = (
    *(
        "/v1/charts/",
        "/v1/reports/",
        "/v1/badges/",
        "/v1/plans/",
        "/v1/compare",
        "/v1/measurements",
    ),
    *("/v1/memory/inference", "/v1/memory/training", "/v1/latency/", "/v1/impacts"),
    *("/v1/retrieval", "/v1/estimates/post-training", "/v1/sweeps", "/v1/memory/profile"),
    "/v1/estimates/batch",
)


def _every(id_: str) -> int:
    """One in so many systematic requests is sent.

    These operations and links take the fields of estimates, which get every request of theirs;
    entries of all collections are written by one function, which accelerators get all of.
    """
    method, path = operations()[id_]
    shares = path.startswith(_SHARING)
    linked = method == "GET" and id_.replace("get", "create", 1) in operations()
    collection = path.removeprefix("/v1/").removesuffix("/{id}")
    written = method in ("PUT", "DELETE") and collection in COLLECTIONS[1:]
    return _SHARED_EVERY if shares or linked or written else 1


def _fields(method: str, path: str) -> Iterator[tuple[str, Any]]:
    """Names and schemas of what an operation takes."""
    operation = document["paths"][path][method.lower()]
    for one in operation.get("parameters", ()):
        yield one["name"], one["schema"]
    if (held := _body(operation)) is not None:
        yield from held.get("properties", {}).items()


def _body_name(operation: Mapping[str, Any]) -> str:
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    return str(content.get("schema", {}).get("$ref", "")).rpartition("/")[2]


def _body(operation: Mapping[str, Any]) -> dict[str, Any] | None:
    return _components.get(_body_name(operation))


def _parts(schema: Any) -> Iterator[str]:
    """Names of the schemas that a schema refers to directly."""
    if isinstance(schema, dict):
        if "$ref" in schema:
            yield schema["$ref"].rpartition("/")[2]
        for each in schema.values():
            yield from _parts(each)
    elif isinstance(schema, list):
        for each in schema:
            yield from _parts(each)


def _without_options(names: set[str]) -> dict[str, Any]:
    """All schemas; those of these names, and what they consist of, with required fields alone."""
    known: set[str] = set()
    while names:
        known |= names
        names = {part for name in names for part in _parts(_components[name])} - known
    return _components | {
        name: _components[name]
        | {
            "properties": {
                field: told
                for field, told in _components[name]["properties"].items()
                if field in _components[name].get("required", ())
            }
        }
        for name in known
        if "properties" in _components[name]
    }


@cache
def _own() -> Any:
    """The contract, in which shared operations take what no estimate takes, or what they need.

    The request of an estimate within a request of theirs has only what it needs, too. Making
    thousands of requests to send few of them takes most of the time of a test.
    """
    shared: dict[str, list[tuple[str, Any]]] = {
        method: [one for path in _ESTIMATES for one in _fields(method, path)]
        for method in ("GET", "POST")
    }
    paths = {path: dict(methods) for path, methods in document["paths"].items()}
    for id_, (method, path) in operations().items():
        if _every(id_) == 1 or path in _ESTIMATES:
            continue
        operation = dict(document["paths"][path][method.lower()])
        known = shared.get(method, [])
        operation["parameters"] = [
            one
            for one in operation.get("parameters", ())
            if one.get("required") or (one["name"], one["schema"]) not in known
        ]
        if (body := _body(operation)) is not None:
            own = {
                name: field
                for name, field in body.get("properties", {}).items()
                if name in body.get("required", ()) or (name, field) not in known
            }
            json_body = operation["requestBody"]["content"]["application/json"]
            content = {"application/json": json_body | {"schema": body | {"properties": own}}}
            operation["requestBody"] = operation["requestBody"] | {"content": content}
        paths[path][method.lower()] = operation
    estimates = {_body_name(document["paths"][path]["post"]) for path in _ESTIMATES}
    components = document["components"] | {"schemas": _without_options(estimates)}
    return schemathesis.openapi.from_dict(document | {"paths": paths, "components": components})


def _systematic(operation: APIOperation, modes: list[GenerationMode]) -> Iterator[Case]:
    """The examples of the document, and each field at, within and beyond each of its bounds.

    A wrong value of a parameter comes once; schemathesis has it again beside each of the others.
    """
    id_ = operation.definition.raw["operationId"]
    own = _own().find_operation_by_id(id_) if _every(id_) > 1 else operation
    found: list[CaseGenerator] = [
        ExamplesGenerator(
            operation=operation,
            override=Override(),
            feedback=FeedbackSources(),
            fill_missing=False,
        ),
        CoverageGenerator(
            operation=own,
            generation_modes=modes,
            generation_config=schema.config.generation_for(operation=own, phase="coverage"),
            auth_storage=None,
            override=Override(),
            feedback=FeedbackSources(),
            session=_made,
        ),
    ]
    tried: set[Hashable] = set()
    for cases in found:
        for case in cases:
            wrong = _wrong_parameter(case)
            if wrong is None or wrong not in tried:
                yield case
            tried.add(wrong)
        assert not cases.controller.deferred_errors
        assert not cases.controller.unserializable_media_types


def _wrong_parameter(case: Case) -> Hashable:
    """Place, name and value of the one parameter that is wrong; None if it is something else."""
    made = case.meta
    if made is None or made.generation.mode is not GenerationMode.NEGATIVE:
        return None
    told = made.phase.data
    if not isinstance(told, CoveragePhaseData) or told.parameter_location in _WHOLE:
        return None
    given = getattr(case, told.parameter_location.container_name) or {}
    if told.parameter is None or told.parameter not in given:
        return None
    return told.parameter_location, told.parameter, repr(given[told.parameter])


def _damaged(id_: str) -> Test:
    method, path = operations()[id_]
    operation = document["paths"][path][method.lower()]
    content = operation["requestBody"]["content"]["application/json"]
    bodies = [one["value"] for one in content["examples"].values()]
    examples = [orjson.dumps(_searching_few(one) if id_ in SEARCHES else one) for one in bodies]
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
