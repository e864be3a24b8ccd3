"""Use case: what an answer with retrieved context takes, stage by stage, per task and year."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from math import log2
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import Parallelism
from service.core.explanation import EstimateWarning
from service.core.interval import Interval, independent_sum, scale
from service.core.memory.kv_cache import cache_layout, layout_sequence_bytes
from service.core.memory.stores import BOTTOM_LAYER_FACTOR, graph_index_bytes, vectors_bytes
from service.core.memory.tiers import MemoryTier
from service.core.memory.transfers import Load, transfer, transfer_energy_j
from service.core.years import SECONDS_PER_YEAR
from service.estimation import answers as shapes
from service.estimation.answers import frame, grounds, known_figure, together
from service.estimation.detail import WHOLE
from service.estimation.inference.answers import InferenceAnswer
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.filling import MOST
from service.estimation.inference.requests import InferenceRequest
from service.estimation.rejection import Rejected
from service.estimation.requests import (
    DeploymentRequest,
    LengthsRequest,
    ParallelismRequest,
    WorkloadRequest,
)
from service.estimation.resolution import Problems, resolve_model, resolve_precision
from service.estimation.retrieval.answers import RetrievalAnswer, RetrievalStage, StageName
from service.estimation.retrieval.requests import RetrievalRequest, VectorSearchRequest

_JOULES_PER_WH = 3600.0
_THOUSAND = 1000.0
_WITHOUT_REMEDIES = WHOLE.without("remedies")
#: Fields that a request to embed has of its own.
_OF_EMBEDDING = ("/model", "/accelerator", "/precision")


class _Stage:
    """Time [s], energy [Wh] and carbon [gCO2e] of a stage, None where they are not known."""

    def __init__(
        self, seconds: Interval | None, energy: Interval | None, carbon: Interval | None
    ) -> None:
        self.seconds, self.energy, self.carbon = seconds, energy, carbon

    def written(self, name: StageName) -> RetrievalStage:
        return {
            "name": name,
            "seconds_s": known_figure(self.seconds),
            "it_energy_wh": known_figure(self.energy),
            "gco2e": known_figure(self.carbon),
        }


def retrieval_answer(request: RetrievalRequest, snapshot: CatalogSnapshot) -> RetrievalAnswer:
    """Embedding, search, injection and generation of an answer, alone and together.

    Raises
    ------
    Rejected
        If a part of the request cannot be answered.
    """
    problems = Problems()
    tier = _tier(request.search, snapshot, problems)
    problems.stop_if_any()
    tokens = request.retrieved_chunks * request.chunk_tokens
    whole = inference_estimate(_generation(request, tokens), snapshot, _WITHOUT_REMEDIES)
    plain = inference_estimate(_without_context(request, whole), snapshot, _WITHOUT_REMEDIES)
    stages: dict[StageName, _Stage] = {}
    warnings: list[EstimateWarning] = []
    embedded: InferenceAnswer | None = None
    if request.embedding is not None:
        embedded = _embedded(request, snapshot)
        stages["embedding"] = _of_request(embedded, "e2e_s")
    if request.search is not None and tier is not None:
        stages["search"] = _searched(request.search, tier.value, warnings)
    without, with_context = _of_request(plain, "e2e_s"), _of_request(whole, "e2e_s")
    stages["injection"] = _Stage(
        _between(with_context.seconds, without.seconds),
        _between(with_context.energy, without.energy),
        _between(with_context.carbon, without.carbon),
    )
    stages["generation"] = without
    asked = [one for name, one in stages.items() if name not in ("injection", "generation")]
    seconds = _sum([*(one.seconds for one in asked), with_context.seconds])
    computing = [one for name, one in stages.items() if name == "embedding"]
    reading = [one.energy for name, one in stages.items() if name == "search" and one.energy]
    energy = _sum([*(one.energy for one in computing), *reading, with_context.energy])
    carbon = _sum([*(one.carbon for one in computing), with_context.carbon])
    ttft = _sum([*(one.seconds for one in asked), _interval(whole["latency"]["ttft_s"])])
    rate = request.workload.requests_per_s or whole["latency"]["requests_per_s"]["value"]
    tasks = rate * SECONDS_PER_YEAR
    entries: list[tuple[str, Entry[Any]]] = [] if tier is None else [("memory-tiers", tier)]
    return {
        **frame(snapshot.revision),
        "region": whole["deployment"]["region"],
        "injected_tokens": tokens,
        "injected_kv_cache_bytes": _cache(request, tokens, snapshot),
        "store_bytes": None if request.search is None else _held(request.search),
        "fits": whole["memory"]["fits"],
        "stages": [one.written(name) for name, one in stages.items()],
        "ttft_s": known_figure(ttft),
        "per_task": {
            "seconds_s": known_figure(seconds),
            "it_energy_wh": known_figure(energy),
            "gco2e": known_figure(carbon),
        },
        "per_year": {
            "tasks": tasks,
            "it_energy_kwh": _scaled(energy, tasks / _THOUSAND),
            "kgco2e": _scaled(carbon, tasks / _THOUSAND),
        },
        **_grounds(snapshot, warnings, entries, whole, embedded),
    }


def _generation(request: RetrievalRequest, injected_tokens: int) -> InferenceRequest:
    """The deployment with so many tokens more in its prompts."""
    workload = request.workload
    prompt = workload.input_tokens
    if isinstance(prompt, LengthsRequest):
        longer: int | LengthsRequest = prompt.model_copy(
            update={
                "mean": None if prompt.mean is None else prompt.mean + injected_tokens,
                "p95": None if prompt.p95 is None else prompt.p95 + injected_tokens,
                "tokens": None
                if prompt.tokens is None
                else tuple(length + injected_tokens for length in prompt.tokens),
            }
        )
    else:
        longer = prompt + injected_tokens
    fields = {name: getattr(request, name) for name in DeploymentRequest.model_fields}
    longer_load = workload.model_copy(update={"input_tokens": longer})
    return InferenceRequest.model_construct(
        **fields | {"workload": longer_load},
        region=request.region,
        facility=request.facility,
    )


def _without_context(request: RetrievalRequest, whole: InferenceAnswer) -> InferenceRequest:
    """The same deployment and load without the tokens, where the request leaves them open."""
    plain, told = _generation(request, 0), whole["deployment"]
    if plain.parallelism is None and plain.serving.disaggregated is None:
        laid_out = ParallelismRequest(**told["parallelism"])
        plain = plain.model_copy(update={"parallelism": laid_out, "accelerator_count": None})
    if plain.workload.concurrency == MOST:
        load = plain.workload.model_copy(update={"concurrency": told["workload"]["concurrency"]})
        plain = plain.model_copy(update={"workload": load})
    return plain


def _embedded(request: RetrievalRequest, snapshot: CatalogSnapshot) -> InferenceAnswer:
    """The estimate of embedding a question; what is wrong with it is told in its own fields."""
    try:
        return inference_estimate(_embedding(request), snapshot, _WITHOUT_REMEDIES)
    except Rejected as rejected:
        raise Rejected(
            replace(error, pointer=f"/embedding{error.pointer}")
            if error.pointer.startswith(_OF_EMBEDDING)
            else error
            for error in rejected.errors
        ) from None


def _embedding(request: RetrievalRequest) -> InferenceRequest:
    """The model that embeds a question, on one accelerator."""
    asked = request.embedding
    assert asked is not None  # noqa: S101 - asked for only where it is there
    workload = WorkloadRequest(
        input_tokens=asked.question_tokens,
        task="embed",
        requests_per_s=request.workload.requests_per_s,
    )
    return InferenceRequest.model_construct(
        catalog_revision=request.catalog_revision,
        as_of=request.as_of,
        model=asked.model,
        precision=asked.precision,
        accelerator=asked.accelerator or request.accelerator,
        workload=workload,
        region=request.region,
        facility=request.facility,
    )


def _tier(
    asked: VectorSearchRequest | None, snapshot: CatalogSnapshot, problems: Problems
) -> Entry[MemoryTier] | None:
    if asked is None:
        return None
    tier = problems.attempt("/search/tier", lambda: snapshot.find("memory-tiers", asked.tier))
    if tier is not None and tier.value.bandwidth_bytes_per_s is None:
        problems.add("/search/tier", f"the bandwidth of {tier.id} is not known")
    return tier


def _searched(
    asked: VectorSearchRequest, tier: MemoryTier, warnings: list[EstimateWarning]
) -> _Stage:
    """All vectors read once, or those that a walk through the graph looks at."""
    looked_at = asked.vectors
    if asked.links_per_vector:
        # A walk of O(log n) steps looks at the neighbours of each.
        steps = max(log2(asked.vectors), 1.0)
        looked_at = min(looked_at, steps * BOTTOM_LAYER_FACTOR * asked.links_per_vector)
        warnings.append(
            EstimateWarning(
                "graph_walk_assumed",
                f"a search is assumed to visit {looked_at:.0f} vectors, which is twice the links "
                "times the logarithm of the number of vectors; the real number depends on the "
                "recall that you need",
            )
        )
    size = float(vectors_bytes(looked_at, asked.dimensions, asked.bytes_per_element))
    load = Load()
    if asked.links_per_vector:
        vector = float(vectors_bytes(1.0, asked.dimensions, asked.bytes_per_element))
        load = Load(access_bytes=vector)
    bandwidth = tier.bandwidth_bytes_per_s
    assert bandwidth is not None  # noqa: S101 - a tier without one is refused
    moved = transfer(size, bandwidth, tier.latency_s, load)
    energy = None
    if tier.energy_pj_per_bit is not None:
        energy = scale(transfer_energy_j(size, tier.energy_pj_per_bit), 1.0 / _JOULES_PER_WH)
    else:
        warnings.append(
            EstimateWarning(
                "search_energy_unknown",
                f"the energy of reading {tier.id} is unpublished: the energy of the search is left "
                "out of the totals",
            )
        )
    return _Stage(moved.transfer_s, energy, None)


def _of_request(answer: InferenceAnswer, time: str) -> _Stage:
    latency: Mapping[str, Any] = answer["latency"]
    energy, impacts = answer["energy"], answer["impacts"]
    return _Stage(
        _interval(latency[time]),
        None if energy is None else _interval(energy["it_energy_per_request_wh"]),
        None if impacts is None else _interval(impacts["per_request"]["carbon"]["total_gco2e"]),
    )


def _cache(request: RetrievalRequest, tokens: int, snapshot: CatalogSnapshot) -> float | None:
    model = resolve_model(request.model, snapshot).value
    if not model.generates:
        return None
    precision = resolve_precision(request.precision, model)
    layout = cache_layout(model, precision.kv_cache, Parallelism(), 1, 0)
    return float(layout_sequence_bytes(layout, float(tokens))) if tokens else 0.0


def _held(asked: VectorSearchRequest) -> float:
    vectors = vectors_bytes(asked.vectors, asked.dimensions, asked.bytes_per_element)
    return float(vectors + graph_index_bytes(asked.vectors, asked.links_per_vector))


def _interval(given: shapes.Interval | None) -> Interval | None:
    return None if given is None else Interval(given["value"], given["low"], given["high"])


def _between(more: Interval | None, less: Interval | None) -> Interval | None:
    """What one figure has more than another of the same constants: their ends go together."""
    if more is None or less is None:
        return None
    value, low, high = more.value - less.value, more.low - less.low, more.high - less.high
    return Interval(value, min(low, value), max(high, value))


def _sum(parts: Iterable[Interval | None]) -> Interval | None:
    known = []
    for part in parts:
        if part is None:
            return None
        known.append(part)
    return independent_sum(known)


def _scaled(part: Interval | None, factor: float) -> shapes.Interval | None:
    return None if part is None else known_figure(scale(part, factor))


def _grounds(
    snapshot: CatalogSnapshot,
    warnings: list[EstimateWarning],
    entries: list[tuple[str, Entry[Any]]],
    whole: InferenceAnswer,
    embedded: InferenceAnswer | None,
) -> shapes.Grounds:
    """Sources and warnings of the estimates that the stages were read from, with those here."""
    own = grounds(snapshot, warnings, entries, None)
    told, used = list(own["warnings"]), [own["provenance"]]
    for answer in (whole, *(() if embedded is None else (embedded,))):
        told += [one for one in answer["warnings"] if one not in told]
        used.append(answer["provenance"])
    found: shapes.Grounds = {**own, "warnings": told, "provenance": together(used)}
    if "explanation" in whole:
        found["explanation"] = whole["explanation"]
    return found
