"""All use cases that answer a question from the catalog: where each is asked, and who answers.

The API's routes, the client that answers in the process, the command line and the tools for
assistants read this one list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Protocol, get_args

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.bounds.answers import BoundsAnswer
from service.estimation.bounds.estimate import bounds_answer
from service.estimation.bounds.requests import BoundsRequest
from service.estimation.comparison.answers import ComparisonAnswer
from service.estimation.comparison.table import comparison_answer
from service.estimation.compliance.answers import ComplianceAnswer
from service.estimation.compliance.check import compliance_answer
from service.estimation.compliance.requests import ComplianceRequest
from service.estimation.detail import WHOLE, Detail, Group
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
from service.estimation.plans.answers import FleetPlanAnswer, SitePlanAnswer, TrafficPlanAnswer
from service.estimation.plans.fleet import fleet_plan_answer
from service.estimation.plans.requests import FleetPlanRequest, SitePlanRequest, TrafficPlanRequest
from service.estimation.plans.site import site_plan_answer
from service.estimation.plans.traffic import traffic_plan_answer
from service.estimation.post_training.answers import PostTrainingAnswer
from service.estimation.post_training.estimate import post_training_answer
from service.estimation.post_training.requests import PostTrainingRequest
from service.estimation.profile.answers import MemoryProfileAnswer
from service.estimation.profile.estimate import memory_profile_answer
from service.estimation.profile.requests import MemoryProfileRequest
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
from service.estimation.remarks import remarking, untold
from service.estimation.renamed import with_renamings
from service.estimation.requests import LatencyInferenceRequest, MemoryInferenceRequest
from service.estimation.retrieval.answers import RetrievalAnswer
from service.estimation.retrieval.estimate import retrieval_answer
from service.estimation.retrieval.requests import RetrievalRequest
from service.estimation.shaping import shape
from service.estimation.society.answers import SocialLicenceAnswer
from service.estimation.society.estimate import social_licence_answer
from service.estimation.society.requests import SocialLicenceRequest
from service.estimation.storage.answers import NearMemoryAnswer, StoreAnswer
from service.estimation.storage.estimate import near_memory_answer, store_answer
from service.estimation.storage.requests import NearMemoryRequest, StoreRequest
from service.estimation.storage.transfers import (
    TransferAnswer,
    TransferRequest,
    transfer_answer,
)
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


class Compute(Protocol):
    """What answers a question; whole unless less is wanted."""

    def __call__(
        self, request: Any, snapshot: CatalogSnapshot, detail: Detail = WHOLE, /
    ) -> Mapping[str, Any]:
        """The answer."""


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
    compute: Compute
    searches: bool = False

    @property
    def groups(self) -> tuple[Group, ...]:
        """What may be included in the answer beyond the usual."""
        field = self.request.model_fields.get("include")
        return () if field is None else get_args(get_args(field.annotation)[0])

    def respond(self, request: Any, snapshot: CatalogSnapshot) -> Mapping[str, Any]:
        """The answer in the shape that a request asks for by ``include`` and ``fields``.

        Raises
        ------
        Rejected
            If the request cannot be answered, or asks for fields that there are none of.
        """
        # Comparisons are as they are: a table of what deployments are compared by.
        include, fields = getattr(request, "include", ()), getattr(request, "fields", ())
        answer: Any = self.answer
        asked = shape(answer, include, fields)
        return asked.told(self.compute(request, snapshot, asked.detail))


def grounded(compute: Callable[[Any, CatalogSnapshot], Mapping[str, Any]]) -> Compute:
    """A use case whose answers have no groups but the grounds of every answer."""

    def answered(
        request: Any, snapshot: CatalogSnapshot, detail: Detail = WHOLE, /
    ) -> Mapping[str, Any]:
        if detail.has("explanation"):
            request = request.model_copy(update={"explain": True})
        answer = compute(request, snapshot)
        if detail.has("provenance"):
            return answer
        told = {name: part for name, part in answer["provenance"].items() if name != "entries"}
        return {**answer, "provenance": told}

    return answered


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
        "/memory/profile",
        "MemoryProfile",
        "Memory of a model in training and in inference, and what paging and pruning save",
        "The parts of both side by side with their ratio, activations by the rule of thumb beside "
        "the estimate, caches in pages against caches reserved in one piece for a distribution of "
        "lengths, and weights that are pruned whole, two of four or anywhere, with what the "
        "accelerator gains.",
        MemoryProfileRequest,
        MemoryProfileAnswer,
        grounded(memory_profile_answer),
    ),
    UseCase(
        "/memory/transfers",
        "MemoryTransfers",
        "Bytes over links and out of memories: time, energy, price and manufacturing",
        "Each link and each memory with the time that the bytes take, alone or beside the traffic "
        "of others, the energy of moving them, the price of holding them and the greenhouse gases "
        "of making so much memory. What nobody states is null.",
        TransferRequest,
        TransferAnswer,
        grounded(transfer_answer),
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
        "/social-licence",
        "SocialLicence",
        "How welcome a site is likely to be in a place: an index with its parts and their sources",
        "Moratoria, bills, waiting times for the grid, water stress, noise, local benefit, "
        "disputes and published figures, each as a concern from 0 to 1 with its indicator, year, "
        "source and weight. Parts of which nothing is known are null and widen the interval. The "
        "index is judgement, and no probability that a site is refused.",
        SocialLicenceRequest,
        SocialLicenceAnswer,
        grounded(social_licence_answer),
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
        "/estimates/post-training",
        "PostTrainingEstimate",
        "Distillation, DPO and GRPO: one step of all their parts",
        "Memory, time, energy, footprint and cost of a training step together with what its loss "
        "needs: a teacher's or a reference's forward pass, beside the model, apart from it or "
        "stored before, or completions that an inference deployment generates. Each part is "
        "estimated as it is by itself.",
        PostTrainingRequest,
        PostTrainingAnswer,
        grounded(post_training_answer),
    ),
    UseCase(
        "/estimates/bounds",
        "HardwareBounds",
        "What hardware allows at most, whatever software runs on it",
        "Accelerators that hold a model, times that no software can beat, power and footprint of a "
        "year. It answers for every accelerator, also where only its maker's own software runs and "
        "speed cannot be estimated (Groq, Cerebras, SambaNova). Bounds are not estimates.",
        BoundsRequest,
        BoundsAnswer,
        bounds_answer,
    ),
    UseCase(
        "/retrieval",
        "Retrieval",
        "Answers with retrieved context, end to end: embedding, search, injection, generation",
        "Time, energy and carbon of each stage, per task and per year. Injection is what the "
        "retrieved chunks add to the generation; the first token comes after embedding and search.",
        RetrievalRequest,
        RetrievalAnswer,
        grounded(retrieval_answer),
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
        "/plans/fleet",
        "FleetPlan",
        "Several models and loads over years: accelerators, power, money, emissions, water, waste",
        "Each load names one copy of what serves it, a rate of requests, and how that grows. The "
        "plan counts copies for the busiest hour with a reserve, buys and retires accelerators, "
        "and adds up the estimates of every year, with rent and purchase side by side.",
        FleetPlanRequest,
        FleetPlanAnswer,
        grounded(fleet_plan_answer),
        searches=True,
    ),
    UseCase(
        "/plans/traffic",
        "TrafficPlan",
        "A day of traffic: copies, times, energy, emissions and rent, interval by interval",
        "Takes the mean rate of requests in each interval of a day and one copy of what serves "
        "them. Copies are fixed or follow the traffic, with a reserve; the answer has percentiles "
        "of times, idle share, energy and emissions with the grid of the hour, and rent, beside "
        "those of a fixed number of copies.",
        TrafficPlanRequest,
        TrafficPlanAnswer,
        grounded(traffic_plan_answer),
        searches=True,
    ),
    UseCase(
        "/plans/site",
        "SitePlan",
        "What a site's power, racks and place allow: how much of which hardware, and what it does",
        "Fills a site with each of the options and says what stops it, what it draws, emits and "
        "serves, its noise, heat and water, and which rules of the place it breaks.",
        SitePlanRequest,
        SitePlanAnswer,
        grounded(site_plan_answer),
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
        lambda request, snapshot, _=WHOLE, /: comparison_answer(request, snapshot),
        searches=True,
    ),
)

#: Use cases by the path below ``/v1`` that they are asked at; all warn of renamed entries, in
#: words for people.
USE_CASES: Mapping[str, UseCase] = MappingProxyType(
    {
        use_case.path.removeprefix("/"): replace(
            use_case, compute=remarking(use_case.answer)(with_renamings(untold(use_case.compute)))
        )
        for use_case in _USE_CASES
    }
)
