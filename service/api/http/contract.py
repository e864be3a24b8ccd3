"""Operations and the OpenAPI document: what FastAPI cannot see, because bodies are read by hand.

Nothing of the document is worked out before it is asked for: a service that starts has to answer.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping
from copy import deepcopy
from functools import cache
from importlib.resources import files
from typing import Any, Literal, get_args, get_type_hints

import orjson
from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import APIRoute
from pydantic import TypeAdapter
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service import ENGINE_VERSION
from service.api.http.answers import ProblemDetails
from service.api.http.closed_sets import name_closed_sets
from service.api.http.described import Described
from service.api.http.negotiation import negotiated
from service.api.http.problems import MEDIA_TYPE, PROBLEM_TYPES
from service.api.http.queries import flat_fields
from service.api.http.straight import takes_request_alone
from service.api.http.topics import TOPICS
from service.catalog.files import read_files
from service.core.engines import EngineWorkload
from service.estimation.charts.answers import VegaLiteChart
from service.estimation.references import ENGINES_OF, Request
from service.settings import Settings

_REF = "#/components/schemas/{model}"
_DESCRIPTION = """
What an LLM deployment needs and costs before it is bought: memory, latency, energy, carbon and
water, each as a value with a 90 % interval, with the source of every figure.

Units are in the names of the fields, SI only (GB = 1e9 bytes). `POST` takes a body, `GET` the same
fields as flat query parameters. Errors are RFC 9457 problem details.
"""


def _problem(status: int) -> dict[str, Any]:
    kinds = [kind for kind in PROBLEM_TYPES.values() if kind.status == status]
    return {
        "description": " / ".join(kind.title for kind in kinds),
        "content": {MEDIA_TYPE: {"schema": {"$ref": _REF.format(model=ProblemDetails.__name__)}}},
    }


def _problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: _problem(status) for status in statuses}


_CURRENT: dict[int | str, dict[str, Any]] = {
    304: {"description": "The client's copy is up to date"}
}
GET_PROBLEMS = _CURRENT | _problems(401, 410, 422, 429, 503)
LIST_PROBLEMS = GET_PROBLEMS | _problems(406)
ITEM_PROBLEMS = GET_PROBLEMS | _problems(404)
POST_PROBLEMS = _problems(401, 410, 413, 415, 422, 429, 503)
LISTING_POST_PROBLEMS = POST_PROBLEMS | _problems(406)
REPORT_GET_PROBLEMS = LIST_PROBLEMS | _problems(404)
REPORT_POST_PROBLEMS = LISTING_POST_PROBLEMS | _problems(404)
#: Of answers that may need an extra.
EXTRA_PROBLEMS = _problems(501)
KEPT_POST_PROBLEMS = POST_PROBLEMS | _problems(409)
#: Of what is kept within a quota.
KEPT_REPORT_PROBLEMS = KEPT_POST_PROBLEMS | _problems(403)

#: Operations that only a key with a scope may use.
KEYED_PROBLEMS = _problems(401, 403, 404, 422, 429, 503)
KEYED_POST_PROBLEMS = KEYED_PROBLEMS | _problems(409, 413, 415)
WRITE_PROBLEMS = KEYED_PROBLEMS | _problems(409, 412, 413, 415, 428)

#: What the GET of a pair says beyond what its POST says.
_AS_LINK = (
    "Fields of nested objects are flat query parameters; inline objects and lists of objects can "
    "only be sent with POST."
)

_KEY_SCHEME = "apiKey"
#: The declaration of an operation that needs a key; all others take one or none.
NEEDS_KEY: dict[str, Any] = {"security": [{_KEY_SCHEME: []}]}

KEPT_ITEM_PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: _problem(status) for status in (401, 404, 410, 422, 429, 503)
}
KEPT_ACTION_PROBLEMS = KEPT_ITEM_PROBLEMS | {409: _problem(409)}
KEPT_RESULT_PROBLEMS = KEPT_ACTION_PROBLEMS | {406: _problem(406)}

#: Models whose schemas the document must hold, by name, noted as operations are declared.
REQUESTS: dict[str, type[Request]] = {}
_answers: dict[str, Any] = {}

#: Names the model of an operation's query, until the document spells its fields out.
_QUERY_OF = "x-query-of"

#: What holds for a field of a request that is left out.
DEFAULT = "x-default"

_NAME: Mapping[str, Any] = {"type": "string", "minLength": 1, "maxLength": 200}


class _Straight(APIRoute):
    """A route whose endpoint is called with the request, if that is all that it takes.

    FastAPI would work out arguments, and what to make of the result, each time.
    """

    def get_route_handler(self) -> Callable[[HttpRequest], Coroutine[Any, Any, Response]]:
        """What answers a request."""
        endpoint: Callable[..., Coroutine[Any, Any, Response]] = self.endpoint
        if not takes_request_alone(endpoint):
            return super().get_route_handler()

        async def answer(http: HttpRequest) -> Response:
            return await endpoint(http=http)

        return answer


class Operations(APIRouter):
    """Routes whose answers are declared as ``{200: {"model": …}}``.

    FastAPI would make a validator of each model, which nothing here asks for. Those of the API
    refuse clients that accept none of the forms that are declared (406).
    """

    def add_api_route(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        responses: dict[int | str, dict[str, Any]] | None = None,
        **declared: Any,
    ) -> None:
        """Add a route, with its models as references into the document."""
        written = {status: _with_schema(given) for status, given in (responses or {}).items()}
        offered = {
            kind: None
            for status, given in written.items()
            if str(status).startswith("2")
            for kind in given.get("content", ())
        }
        declared.setdefault("route_class_override", _Straight)
        if offered and f"{self.prefix}{path}".startswith("/v1/"):
            endpoint = negotiated(endpoint, tuple(offered))
            written[406] = _problem(406)
        super().add_api_route(path, endpoint, responses=written, **declared)


def _with_schema(given: Mapping[str, Any]) -> dict[str, Any]:
    response = dict(given)
    model = response.pop("model", None)
    if model is not None:
        _answers[model.__name__] = model
        schema = {"schema": {"$ref": _REF.format(model=model.__name__)}}
        response["content"] = {"application/json": schema, **response.get("content", {})}
    return response


def one_of(*models: Any) -> dict[str, Any]:
    """The declaration of content that is one of several models, told apart by its ``event``."""
    _answers.update((model.__name__, model) for model in models)
    names = {each: model for model in models for each in get_args(get_type_hints(model)["event"])}
    mapping = {name: _REF.format(model=model.__name__) for name, model in names.items()}
    options = [{"$ref": _REF.format(model=model.__name__)} for model in models]
    discriminator = {"propertyName": "event", "mapping": mapping}
    return {"schema": {"oneOf": options, "discriminator": discriminator}}


def body_of(model: type[Request]) -> dict[str, Any]:
    """The declaration of a JSON body of the given model, with the examples of its configuration."""
    REQUESTS[model.__name__] = model
    extra = model.model_config["json_schema_extra"]
    assert isinstance(extra, dict)  # noqa: S101 - for the type checker
    examples: Any = extra["examples"]
    named = {f"example-{number}": {"value": value} for number, value in enumerate(examples, 1)}
    content = {"schema": {"$ref": _REF.format(model=model.__name__)}, "examples": named}
    return {"requestBody": {"required": True, "content": {"application/json": content}}}


def as_link(description: str) -> str:
    """The description of a GET that asks what a POST of this description asks."""
    return f"{description} {_AS_LINK}"


def query_parameters(
    known: Mapping[str, Mapping[str, Any]], required: str | None = None
) -> list[dict[str, Any]]:
    """The declaration of query parameters, each by its JSON schema with a description."""
    return [
        {
            "name": name,
            "in": "query",
            "required": name == required,
            "schema": {key: value for key, value in schema.items() if key != "description"},
            "description": schema["description"],
        }
        for name, schema in known.items()
    ]


def path_parameter(
    name: str, description: str, schema: Mapping[str, Any] = _NAME
) -> dict[str, Any]:
    """The declaration of a part of the path: a name, unless the schema says otherwise."""
    return {
        "name": name,
        "in": "path",
        "required": True,
        "schema": dict(schema),
        "description": description,
    }


def query_of(model: type[Request]) -> dict[str, Any]:
    """The declaration of the flat query parameters of the given model."""
    REQUESTS[model.__name__] = model
    return {_QUERY_OF: model.__name__}


def _spelled_query(model: type[Request], schemas: Mapping[str, Any]) -> list[dict[str, Any]]:
    schema = {**schemas[model.__name__], "$defs": schemas}
    parameters = []
    for name, place in flat_fields(model).items():
        holder = schema
        for part in place[:-1]:
            holder = _resolved(holder["properties"][part], schema)
        stated = _resolved(holder["properties"][place[-1]], schema)
        parameters.append(
            {
                "name": name,
                "in": "query",
                "required": len(place) == 1 and name in schema.get("required", ()),
                "schema": deepcopy(_scalar(stated, schema)),
                **_LISTED.get(stated.get("type"), {}),
                **({"description": stated["description"]} if "description" in stated else {}),
            }
        )
    return parameters


#: How a parameter is spelled that is a list: its parts separated by commas.
_LISTED: Mapping[Any, Mapping[str, Any]] = {"array": {"style": "form", "explode": False}}


def outline(app: FastAPI) -> dict[str, Any]:
    """The operations of the OpenAPI document by subject, without the shapes that take longest."""
    return get_openapi(
        title="Headroom",
        version=ENGINE_VERSION,
        summary="Memory, speed and footprint of LLM deployments, with the source of every figure.",
        description=_DESCRIPTION,
        license_info={"name": "Apache-2.0", "identifier": "Apache-2.0"},
        routes=app.routes,
        servers=[{"url": path} for path in dict.fromkeys((app.root_path.rstrip("/") or "/", "/"))],
        tags=[{"name": name, "description": told} for name, told in TOPICS.items()],
    )


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI 3.1 document of the application, made anew."""
    result = outline(app)
    requests = _schemas(REQUESTS.values(), "validation")
    for operation in (one for path in result["paths"].values() for one in path.values()):
        asked = operation.pop(_QUERY_OF, None)
        if asked is not None:
            query = _spelled_query(REQUESTS[asked], requests)
            operation.setdefault("parameters", []).extend(query)
    result["security"] = [{}, {_KEY_SCHEME: []}]
    components = result.setdefault("components", {})
    components["securitySchemes"] = {
        _KEY_SCHEME: {
            "type": "http",
            "scheme": "bearer",
            "description": "An API key, or a token of the configured issuer. Reads and estimates "
            "need none; with one, they include the organisation's own entries. Its "
            "scopes say what it may change.",
        }
    }
    schemas = components.setdefault("schemas", {})
    schemas |= _schemas([*_answers.values(), ProblemDetails, VegaLiteChart], "serialization")
    schemas |= requests
    _name_engines(result)
    for schema in schemas.values():
        _tell_defaults(schema)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    name_closed_sets(result)
    examples = files("service.api").joinpath("static", "examples.json").read_bytes()
    for name, example in orjson.loads(examples).items():
        schemas[name]["examples"] = [example]
    return result


def _schemas(models: Iterable[Any], mode: Literal["validation", "serialization"]) -> dict[str, Any]:
    """The schemas of models and of all that they refer to, by name."""
    _, told = TypeAdapter.json_schemas(
        [(model, mode, TypeAdapter(model)) for model in models],
        ref_template=_REF,
        schema_generator=Described,
    )
    schemas: dict[str, Any] = told["$defs"]
    return schemas


def _tell_defaults(schema: dict[str, Any]) -> None:
    """Say defaults of fields beside their types instead of in them.

    To generators of clients, a field that has a default is always there, in what is sent as in what
    is answered; those of requests may be left out.
    """
    for field in schema.get("properties", {}).values():
        default = field.pop("default", None)
        if default not in (None, [], {}):
            field[DEFAULT] = default


def _name_engines(document: Any) -> None:
    """Name the packaged engines wherever one can be asked about; a catalog may hold others."""
    if isinstance(document, list):
        for part in document:
            _name_engines(part)
    elif isinstance(document, dict):
        workload = document.pop(ENGINES_OF, None)
        if workload is not None:
            document["examples"] = _packaged_engines()[workload]
        for part in document.values():
            _name_engines(part)


@cache
def _packaged_engines() -> Mapping[str, list[str]]:
    """Ids of the packaged engines by what they run."""
    engines = read_files(Settings().catalog_directory, {"engines": "engines"}).documents["engines"]
    return {
        workload: [id_ for id_, engine in engines.items() if workload in engine["workloads"]]
        for workload in get_args(EngineWorkload)
    }


def _resolved(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """A schema with its reference followed, keeping what stands beside the reference."""
    options = [part for part in schema.get("anyOf", ()) if part.get("type") != "null"]
    if len(options) == 1:
        return _resolved(options[0], root) | {
            key: value for key, value in schema.items() if key != "anyOf"
        }
    reference = schema.get("$ref")
    if reference is None:
        return schema
    target: dict[str, Any] = root["$defs"][reference.rsplit("/", 1)[-1]]
    return target | {key: value for key, value in schema.items() if key != "$ref"}


def _scalar(schema: dict[str, Any], root: dict[str, Any]) -> dict[str, Any]:
    """The part of a schema that a query parameter can spell: no objects, no lists, no null."""
    options = schema.get("anyOf") or schema.get("oneOf")
    if options is None:
        return {
            key: value
            for key, value in schema.items()
            if key not in ("title", "description", "default", "discriminator")
        }
    plain = [
        _scalar(option, root)
        for option in (_resolved(option, root) for option in options)
        if option.get("type") not in ("object", "array", "null")
    ]
    flattened = [item for item in plain if item]
    return flattened[0] if len(flattened) == 1 else {"anyOf": flattened}
