"""All use cases that answer a question from the catalog: where each is asked, and who answers.

The API's routes, the client that answers in the process, the command line and the tools for
assistants read this one list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.comparison.answers import ComparisonAnswer
from service.estimation.comparison.table import comparison_answer
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
from service.estimation.recommendations.answers import RecommendationAnswer
from service.estimation.recommendations.inference.recommend import recommendation_answer
from service.estimation.recommendations.requests import CompareRequest, RecommendationRequest
from service.estimation.recommendations.training.answers import TrainingRecommendationAnswer
from service.estimation.recommendations.training.recommend import training_recommendation_answer
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest
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


@dataclass(frozen=True, slots=True)
class UseCase:
    """One question: where it is asked, in what words, and who answers.

    ``searches`` tells those that compute many deployments: they take long enough to be computed
    beside the event loop, and are asked by POST alone.
    """

    path: str
    name: str
    summary: str
    description: str
    request: type[Request]
    answer: type[Any]
    compute: Callable[[Any, CatalogSnapshot], Mapping[str, Any]]
    searches: bool = False


_USE_CASES = (
    UseCase(
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
    UseCase(
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
    UseCase(
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
    UseCase(
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
    UseCase(
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
    UseCase(
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
    UseCase(
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
    UseCase(
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
    UseCase(
        "/estimates/inference",
        "InferenceEstimate",
        "Everything about one inference deployment in one answer",
        "Memory, latency, energy, footprint, cost and constraints of a deployment in a region. "
        "With compliance, the answer also says how its site stands to the rules of the place.",
        InferenceRequest,
        InferenceAnswer,
        inference_estimate,
    ),
    UseCase(
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
    UseCase(
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
    UseCase(
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
    UseCase(
        "/recommendations",
        "Recommendation",
        "What to buy or rent, where, and configured how, with the reasons",
        "Search all combinations under hard limits and rank what is left.\n\n"
        "The best of each priority comes with its full estimate, its reasons and what nearly won. "
        "Accept chooses JSON, or HTML or PDF as a report for people.",
        RecommendationRequest,
        RecommendationAnswer,
        recommendation_answer,
        searches=True,
    ),
    UseCase(
        "/recommendations/training",
        "TrainingRecommendation",
        "What to train on, where, and how, by deadline and budget, with the reasons",
        "Search all runs under hard limits and rank what is left.\n\n"
        "The best of each priority comes with its full estimate, its reasons and what nearly won. "
        "Accept chooses JSON, or HTML or PDF as a report for people.",
        TrainingRecommendationRequest,
        TrainingRecommendationAnswer,
        training_recommendation_answer,
        searches=True,
    ),
    UseCase(
        "/compare",
        "Comparison",
        "One workload over lists of deployments, as a table",
        "Estimate every combination of the lists, as JSON or by Accept as CSV.\n\n"
        "A combination that is refused has errors in the place of its results.",
        CompareRequest,
        ComparisonAnswer,
        comparison_answer,
        searches=True,
    ),
)

#: Use cases by the path below ``/v1`` that they are asked at.
USE_CASES: Mapping[str, UseCase] = MappingProxyType(
    {use_case.path.removeprefix("/"): use_case for use_case in _USE_CASES}
)
