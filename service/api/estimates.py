"""Operations that estimate: each answers POST with a body and GET with a flat query."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from starlette.requests import Request as HttpRequest
from starlette.responses import Response

from service.api.http.bodies import read_request
from service.api.http.caching import confirmed_or, entity_tag
from service.api.http.contract import (
    GET_PROBLEMS,
    POST_PROBLEMS,
    Operations,
    as_link,
    body_of,
    query_of,
)
from service.api.http.hub_models import with_hub_models
from service.api.http.problems import invalid
from service.api.http.queries import query_request
from service.api.http.state import shared, snapshot_for
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.compliance.answers import ComplianceAnswer
from service.estimation.compliance.check import compliance_answer
from service.estimation.compliance.requests import ComplianceRequest
from service.estimation.impacts.answers import ImpactsAnswer
from service.estimation.impacts.estimate import impacts_answer
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.inference.answers import (
    InferenceAnswer,
    LatencyInferenceAnswer,
    MemoryInferenceAnswer,
)
from service.estimation.inference.estimate import (
    inference_estimate,
    inference_latency_answer,
    inference_memory_answer,
)
from service.estimation.inference.requests import InferenceRequest
from service.estimation.projections.answers import MemoryChoiceAnswer, ProjectionAnswer
from service.estimation.projections.memory_choice import MemoryChoiceRequest, memory_choice_answer
from service.estimation.projections.over_time import projection_answer
from service.estimation.projections.requests import ProjectionRequest
from service.estimation.rejection import Rejected
from service.estimation.requests import (
    LatencyInferenceRequest,
    MemoryInferenceRequest,
    Request,
)
from service.estimation.storage.answers import NearMemoryAnswer, StoreAnswer
from service.estimation.storage.estimate import near_memory_answer, store_answer
from service.estimation.storage.requests import NearMemoryRequest, StoreRequest
from service.estimation.training.answers import (
    EstimateTrainingAnswer,
    LatencyTrainingAnswer,
    MemoryTrainingAnswer,
)
from service.estimation.training.estimate import (
    training_estimate,
    training_latency_answer,
    training_memory_answer,
)
from service.estimation.training.requests import (
    EstimateTrainingRequest,
    LatencyTrainingRequest,
    MemoryTrainingRequest,
)

router = Operations(prefix="/v1", tags=["estimates"])


@dataclass(frozen=True, slots=True)
class Operation:
    """One question: where it is asked, in what words, and who answers."""

    path: str
    name: str
    summary: str
    description: str
    request: type[Request]
    answer: type[Any]
    use_case: Callable[[Any, CatalogSnapshot], Mapping[str, Any]]


OPERATIONS = (
    Operation(
        "/memory/inference",
        "InferenceMemory",
        "Memory per accelerator of an inference deployment, and what fits",
        "Weights, KV cache, activations and runtime of the fullest accelerator, the room left, "
        "and how many sequences and tokens there is room for. What does not fit is answered "
        "too, with single changes that would help and plans of several.",
        MemoryInferenceRequest,
        MemoryInferenceAnswer,
        inference_memory_answer,
    ),
    Operation(
        "/memory/training",
        "TrainingMemory",
        "Memory per accelerator of a training run, and what fits",
        "Weights, gradients, optimizer states, activations, logits and runtime of the fullest "
        "accelerator, and of each pipeline stage. What does not fit is answered too, with "
        "single changes that would help and plans of several.",
        MemoryTrainingRequest,
        MemoryTrainingAnswer,
        training_memory_answer,
    ),
    Operation(
        "/memory/near-memory",
        "NearMemory",
        "A model in memory on the chip, or memory that computes",
        "Of memory on the chip: how many chips hold a model or a number of bytes, and the "
        "least time of a step; of memory that computes: how much faster decoding gets, or the "
        "time and energy of a search. Other memory is refused (422): serving.memory_tiers of "
        "an estimate takes it.",
        NearMemoryRequest,
        NearMemoryAnswer,
        near_memory_answer,
    ),
    Operation(
        "/memory/stores",
        "VectorStore",
        "Vectors for retrieval and long-term memory: size, growth, search, what they inject",
        "Bytes of vectors, index and payload at the start and after some days, growth in a "
        "year, and on a tier the time of a search over all vectors. Beside them the tokens "
        "that a retrieval adds to a prompt and, with a model, their KV cache.",
        StoreRequest,
        StoreAnswer,
        store_answer,
    ),
    Operation(
        "/latency/inference",
        "InferenceLatency",
        "Latency, throughput and bottlenecks of an inference deployment",
        "TTFT, TPOT, end-to-end time, throughput, and what bounds prefill and decoding. With "
        "requests_per_s the answer also has utilisation and percentiles; fits says whether "
        "memory allows any of it.",
        LatencyInferenceRequest,
        LatencyInferenceAnswer,
        inference_latency_answer,
    ),
    Operation(
        "/latency/training",
        "TrainingLatency",
        "Time of a training step, throughput, utilisation, and the length of the whole run",
        "Time of an optimizer step with its parts, tokens per second, MFU and HFU. With "
        "training.tokens the answer also has the whole run, its failures and restarts "
        "included.",
        LatencyTrainingRequest,
        LatencyTrainingAnswer,
        training_latency_answer,
    ),
    Operation(
        "/impacts",
        "Impacts",
        "Energy, carbon and water of a deployment, of energy, or of accelerator time",
        "Give a model and an accelerator, or energy_kwh, or accelerator_hours and an "
        "accelerator. The answer has energy, emissions by location and by market, water, "
        "electronic waste and, given a site, noise and heat; what needs an unknown factor is "
        "null, never zero.",
        ImpactsRequest,
        ImpactsAnswer,
        impacts_answer,
    ),
    Operation(
        "/compliance",
        "Compliance",
        "How a site, a company or a model stands to the rules of a place on a day",
        "Every rule of the catalog that may hold in the place, with a verdict: pass, fail, "
        "due, unknown (the missing facts are named) or not applicable. Nothing is assumed to "
        "be kept, and none of it is legal advice.",
        ComplianceRequest,
        ComplianceAnswer,
        compliance_answer,
    ),
    Operation(
        "/estimates/inference",
        "InferenceEstimate",
        "Everything about one inference deployment in one answer",
        "Memory, latency, energy, footprint, cost and constraints of a deployment in a region. "
        "With compliance, the answer also says how its site stands to the rules of the place.",
        InferenceRequest,
        InferenceAnswer,
        inference_estimate,
    ),
    Operation(
        "/estimates/training",
        "TrainingEstimate",
        "Everything about one training run in one answer",
        "Memory, speed, energy, footprint, cost and constraints of a training run in a region. "
        "With training.tokens the answer also has figures of the whole run, with compliance "
        "how its site stands to the rules of the place.",
        EstimateTrainingRequest,
        EstimateTrainingAnswer,
        training_estimate,
    ),
    Operation(
        "/projections",
        "Projection",
        "A training run's emissions against those of the inference that follows it",
        "Cumulative emissions of inference over the days, and the day on which they reach "
        "those of training; null if they never do. Requests grow by a rate compounded "
        "continuously.",
        ProjectionRequest,
        ProjectionAnswer,
        projection_answer,
    ),
    Operation(
        "/projections/memory-choice",
        "MemoryChoice",
        "Grid intensity below which slower memory that is cheaper to make is better",
        "Sets what slower memory saves in its making against the electricity of the time that "
        "it adds to every token. With a region, the answer also says which memory is better "
        "there.",
        MemoryChoiceRequest,
        MemoryChoiceAnswer,
        memory_choice_answer,
    ),
)


def _add(operation: Operation) -> None:
    def respond(request: Any, snapshot: CatalogSnapshot) -> Response:
        try:
            answer = operation.use_case(request, snapshot)
        except Rejected as rejected:
            raise invalid(rejected.errors) from None
        return Response(orjson.dumps(answer), media_type="application/json")

    async def post(http: HttpRequest) -> Response:
        limit_bytes = shared(http).settings.body_limit_bytes
        request: Any = await read_request(http, operation.request, limit_bytes)
        return respond(request, await snapshot_for(http, request))

    async def get(http: HttpRequest) -> Response:
        asked: Any = query_request(http.query_params, operation.request)
        request = await with_hub_models(asked, shared(http).hub)
        snapshot = await snapshot_for(http, request)
        tag = entity_tag(snapshot, operation.path, request.model_dump_json())
        return confirmed_or(http, tag, lambda: respond(request, snapshot))

    documented: dict[int | str, dict[str, Any]] = {200: {"model": operation.answer}}
    router.add_api_route(
        operation.path,
        post,
        methods=["POST"],
        operation_id=f"create{operation.name}",
        summary=operation.summary,
        description=operation.description,
        responses=documented | POST_PROBLEMS,
        openapi_extra=body_of(operation.request),
    )
    router.add_api_route(
        operation.path,
        get,
        methods=["GET"],
        operation_id=f"get{operation.name}",
        summary=f"{operation.summary}, as a link",
        description=as_link(operation.description),
        responses=documented | GET_PROBLEMS,
        openapi_extra=query_of(operation.request),
    )


for _operation in OPERATIONS:
    _add(_operation)
