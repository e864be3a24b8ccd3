"""All use cases that answer a question from the catalog: where each is asked, and who answers.

The API's routes, the client that answers in the process, the command line and the tools for
assistants read this one list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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
from service.estimation.references import Request
from service.estimation.renamed import with_renamings
from service.estimation.requests import LatencyInferenceRequest, MemoryInferenceRequest
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
        "Weights, KV cache, activations and runtime of the fullest accelerator, free memory, and "
        "how many sequences and tokens fit. If the deployment does not fit, the answer has single "
        "changes that would help and plans of several.",
        MemoryInferenceRequest,
        MemoryInferenceAnswer,
        inference_memory_answer,
    ),
    UseCase(
        "/memory/training",
        "TrainingMemory",
        "Memory per accelerator of a training run, and what fits",
        "Weights, gradients, optimizer states, activations, logits and runtime of the fullest "
        "accelerator, and of each pipeline stage. If the run does not fit, the answer has single "
        "changes that would help and plans of several.",
        MemoryTrainingRequest,
        MemoryTrainingAnswer,
        training_memory_answer,
    ),
    UseCase(
        "/memory/near-memory",
        "NearMemory",
        "A model in on-chip memory, or in memory that computes",
        "For on-chip memory: how many chips a model or a number of bytes needs, and the shortest "
        "time of a step. For memory that computes: how much faster decoding gets, or the time and "
        "energy of a search. Other memory is refused (422); give it in serving.memory_tiers of an "
        "estimate.",
        NearMemoryRequest,
        NearMemoryAnswer,
        near_memory_answer,
    ),
    UseCase(
        "/memory/stores",
        "VectorStore",
        "Vector stores for retrieval and long-term memory: size, growth, search, and tokens added "
        "to prompts",
        "Bytes of vectors, index and payload at the start and after some days, growth per year, "
        "and, given a tier, the time of a search over all vectors. Also the tokens that a "
        "retrieval adds to a prompt and, given a model, their KV cache.",
        StoreRequest,
        StoreAnswer,
        store_answer,
    ),
    UseCase(
        "/latency/inference",
        "InferenceLatency",
        "Latency, throughput and bottlenecks of an inference deployment",
        "TTFT, TPOT, end-to-end time, throughput, and what limits prefill and decoding. With "
        "requests_per_s the answer also has utilisation and percentiles; fits says whether the "
        "deployment fits in memory at all.",
        LatencyInferenceRequest,
        LatencyInferenceAnswer,
        inference_latency_answer,
    ),
    UseCase(
        "/latency/training",
        "TrainingLatency",
        "Time of a training step, throughput, utilisation, and the length of the whole run",
        "Time of an optimizer step with its parts, tokens per second, MFU and HFU. With "
        "training.tokens the answer also has the whole run, including failures and restarts.",
        LatencyTrainingRequest,
        LatencyTrainingAnswer,
        training_latency_answer,
    ),
    UseCase(
        "/impacts",
        "Impacts",
        "Energy, carbon and water of a deployment, of energy, or of accelerator time",
        "Give a model and an accelerator, or energy_kwh, or accelerator_hours and an accelerator. "
        "The answer has energy, location-based and market-based emissions, water, electronic "
        "waste and, given a site, noise and heat. Figures that need an unknown factor are null, "
        "never zero.",
        ImpactsRequest,
        ImpactsAnswer,
        impacts_answer,
    ),
    UseCase(
        "/compliance",
        "Compliance",
        "Whether a site, a company or a model meets the rules of a place on a given day",
        "Every rule of the catalog that may apply in the place, with a verdict: pass, fail, due, "
        "unknown (the missing facts are named) or not applicable. Compliance is never assumed, "
        "and nothing here is legal advice.",
        ComplianceRequest,
        ComplianceAnswer,
        compliance_answer,
    ),
    UseCase(
        "/estimates/inference",
        "InferenceEstimate",
        "Everything about one inference deployment in one answer",
        "Memory, latency, energy, footprint, cost and constraints of a deployment in a region. "
        "With compliance, the answer also says whether its site meets the rules of the place.",
        InferenceRequest,
        InferenceAnswer,
        inference_estimate,
    ),
    UseCase(
        "/estimates/training",
        "TrainingEstimate",
        "Everything about one training run in one answer",
        "Memory, speed, energy, footprint, cost and constraints of a training run in a region. "
        "With training.tokens the answer also has figures of the whole run; with compliance it "
        "says whether its site meets the rules of the place.",
        EstimateTrainingRequest,
        EstimateTrainingAnswer,
        training_estimate,
    ),
    UseCase(
        "/projections",
        "Projection",
        "Emissions of a training run compared with those of the inference that follows it",
        "Cumulative emissions of inference by day, and the day on which they reach those of "
        "training; null if they never do. The growth rate of requests is compounded continuously.",
        ProjectionRequest,
        ProjectionAnswer,
        projection_answer,
    ),
    UseCase(
        "/projections/memory-choice",
        "MemoryChoice",
        "Grid intensity below which slower memory with lower embodied emissions is better",
        "Compares the embodied emissions that slower memory saves with the electricity for the "
        "time that it adds to every token. With a region, the answer also says which memory is "
        "better there.",
        MemoryChoiceRequest,
        MemoryChoiceAnswer,
        memory_choice_answer,
    ),
    UseCase(
        "/recommendations",
        "Recommendation",
        "Recommend hardware, region and configuration for inference, with reasons",
        "Search all combinations under hard limits and rank what is left.\n\n"
        "Each choice says what it is best for, with its full estimate, its reasons and what nearly "
        "won; weights multiply (weighted product), so that no unit and no other candidate matters. "
        "Accept chooses JSON, or HTML or PDF as a report for people.",
        RecommendationRequest,
        RecommendationAnswer,
        recommendation_answer,
        searches=True,
    ),
    UseCase(
        "/recommendations/training",
        "TrainingRecommendation",
        "Recommend hardware, region and configuration for a training run, with reasons",
        "Search all runs under hard limits and rank what is left.\n\n"
        "Each choice says what it is best for, with its full estimate, its reasons and what nearly "
        "won; weights multiply (weighted product), so that no unit and no other candidate matters. "
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

#: Use cases by the path below ``/v1`` that they are asked at; all warn of renamed entries.
USE_CASES: Mapping[str, UseCase] = MappingProxyType(
    {
        use_case.path.removeprefix("/"): replace(use_case, compute=with_renamings(use_case.compute))
        for use_case in _USE_CASES
    }
)
