"""Use cases: models in near memory, and stores of vectors for retrieval and agents."""

from __future__ import annotations

from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Accelerator, Parallelism
from service.core.explanation import EstimateWarning, Step, explain
from service.core.interval import Interval, exact, scale
from service.core.memory.kv_cache import cache_layout, layout_sequence_bytes, windowed_bytes
from service.core.memory.near_memory import (
    IN_MEMORY,
    ON_CHIP,
    SEARCH,
    chips_needed,
    in_memory_search,
    memory_bound_time_ratio,
    on_chip_step_s,
    processing_in_memory_speedup,
)
from service.core.memory.stores import (
    RETRIEVED,
    STORE,
    graph_index_bytes,
    vectors_after,
    vectors_bytes,
)
from service.core.memory.tiers import MemoryTier
from service.core.memory.weights import total_model_bytes
from service.core.performance.kernels import peak_flops_per_s
from service.core.years import DAYS_PER_YEAR
from service.estimation import answers
from service.estimation.answers import figure, frame, grounds, known_figure
from service.estimation.detail import WHOLE, Detail
from service.estimation.references import ModelReference
from service.estimation.requests import PrecisionRequest
from service.estimation.resolution import (
    Problems,
    check_precision_runs,
    resolve_accelerator,
    resolve_model,
    resolve_precision,
)
from service.estimation.storage.answers import (
    ComputeInMemory,
    NearMemoryAnswer,
    OnChip,
    ProcessingInMemory,
    StoreAnswer,
    StoreSize,
)
from service.estimation.storage.requests import NearMemoryRequest, StoreRequest


def near_memory_answer(
    request: NearMemoryRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> NearMemoryAnswer:
    """What a model, or bytes, take of memory on the chip or memory that computes.

    Raises
    ------
    Rejected
        If the tier or the model is unknown, or the tier is neither.
    """
    problems = Problems()
    tier = problems.attempt("/tier", lambda: snapshot.find("memory-tiers", request.tier))
    model = _model("/model", request.model, snapshot, problems)
    if (request.model is None) == (request.stored_bytes is None):
        problems.add("/model", "give either a model or stored_bytes")
    accelerator = _accelerator(request, model, problems, snapshot)
    problems.stop_if_any()
    assert tier is not None  # noqa: S101 - an unknown one is a noted problem
    weights, cache = _held(request, model)
    stored = request.stored_bytes or (weights + cache)
    steps: list[Step] = []
    warnings: list[EstimateWarning] = []
    on_chip = _on_chip(request, tier.value, stored, steps, warnings)
    own_share = _own_share(request, model, accelerator)
    in_memory = _in_memory(request, tier.value, own_share, steps, warnings)
    search = _search(tier.value, stored, steps)
    if on_chip is None and in_memory is None and search is None:
        problems.add("/tier", _why_not(tier))
        problems.stop_if_any()
    used: list[tuple[str, Entry[Any]]] = [("memory-tiers", tier)]
    if model is not None:
        used.append(("models", model))
    if accelerator is not None:
        used.append(("accelerators", accelerator))
    return {
        **frame(snapshot.revision),
        "tier": tier.id,
        "kind": tier.value.kind,
        "model": None if model is None else model.id,
        "stored_bytes": stored,
        "bytes_per_parameter": None if model is None else weights / model.value.total_parameters,
        "on_chip": on_chip,
        "processing_in_memory": in_memory,
        "compute_in_memory": search,
        **grounds(
            snapshot,
            warnings,
            used,
            (lambda: steps) if request.explain or detail.has("explanation") else None,
            detail=detail,
        ),
    }


def _why_not(tier: Entry[MemoryTier]) -> str:
    """Why a memory is not answered."""
    kind = tier.value.kind
    if kind in ("processing-in-memory", "compute-in-memory"):
        return f"how fast {tier.id} computes is not published in a form that can be computed with"
    if kind == "on-chip":
        return f"how much a chip of {tier.id} holds is not known"
    return (
        f"{tier.id} is {kind} memory, which does not compute and is not on a chip; give it in "
        "serving.memory_tiers"
    )


def store_answer(
    request: StoreRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> StoreAnswer:
    """Size and growth of a store of vectors, and what a retrieval adds to a request."""
    problems = Problems()
    tier = None
    if request.tier is not None:
        wanted = request.tier
        tier = problems.attempt("/tier", lambda: snapshot.find("memory-tiers", wanted))
    embedding = _model("/embedding_model", request.embedding_model, snapshot, problems)
    model = _model("/model", request.model, snapshot, problems)
    problems.stop_if_any()
    steps: list[Step] = []
    later = vectors_after(
        request.vectors, request.added_per_day, request.days, request.retention_days
    )
    tokens = request.retrieved_chunks * request.chunk_tokens
    now = _store(request, request.vectors, steps)
    injected = None if model is None else _cache(request, model, tokens, steps)
    entries: list[tuple[str, Entry[Any]]] = [
        ("models", entry) for entry in (embedding, model) if entry is not None
    ]
    if tier is not None:
        entries.append(("memory-tiers", tier))
    return {
        **frame(snapshot.revision),
        "at_start": now,
        "after": _store(request, float(later), []),
        "growth_bytes_per_year": _growth(request),
        "search_s": _scan_s(tier, now),
        "embedding_model_bytes": None
        if embedding is None
        else _weights(embedding.value, PrecisionRequest()),
        "injected_tokens": tokens,
        "injected_kv_cache_bytes": injected,
        **grounds(
            snapshot,
            (),
            entries,
            (lambda: steps) if request.explain or detail.has("explanation") else None,
            detail=detail,
        ),
    }


def _model(
    pointer: str, asked: ModelReference | None, snapshot: CatalogSnapshot, problems: Problems
) -> Entry[ModelArchitecture] | None:
    if asked is None:
        return None
    return problems.attempt(pointer, lambda: resolve_model(asked, snapshot))


def _weights(architecture: ModelArchitecture, precision: PrecisionRequest) -> float:
    return float(
        total_model_bytes(architecture, resolve_precision(precision, architecture).weights)
    )


def _held(
    request: NearMemoryRequest, model: Entry[ModelArchitecture] | None
) -> tuple[float, float]:
    """Weights and caches of a model [B]."""
    if model is None:
        return 0.0, 0.0
    precision = resolve_precision(request.precision, model.value)
    layout = cache_layout(model.value, precision.kv_cache, Parallelism(), 1, 0)
    cache = request.sequences * float(layout_sequence_bytes(layout, float(request.tokens)))
    return _weights(model.value, request.precision), cache if request.tokens else 0.0


def _on_chip(
    request: NearMemoryRequest,
    tier: MemoryTier,
    stored: float,
    steps: list[Step],
    warnings: list[EstimateWarning],
) -> OnChip | None:
    if tier.kind != "on-chip" or tier.capacity_bytes is None:
        return None
    room = float(tier.capacity_bytes) - request.program_bytes_per_chip
    if room <= 0.0:
        warnings.append(
            EstimateWarning(
                "no_room_on_chip", "the programs fill all of a chip's memory and leave no room"
            )
        )
        return {"chips": None, "power_w": None, "least_step_s": None}
    chips = float(chips_needed(stored, room))
    hop_s = request.hop_s or 0.0
    step_s = None
    if tier.bandwidth_bytes_per_s is not None:
        step_s = float(on_chip_step_s(stored, chips, tier.bandwidth_bytes_per_s, hop_s))
        if request.hop_s is None:
            warnings.append(
                EstimateWarning(
                    "hops_left_out",
                    "the time between chips is unpublished and left out until you state it",
                )
            )
    power = tier.thermal_design_power_w
    figures = {
        "held_bytes": stored,
        "room_bytes": room,
        "chips": chips,
        "bandwidth_bytes_per_s": tier.bandwidth_bytes_per_s,
        "hop_s": hop_s,
        "step_s": step_s,
    }
    steps += explain(figures, ON_CHIP)
    return {
        "chips": int(chips),
        "power_w": None if power is None else chips * float(power),
        "least_step_s": step_s,
    }


#: Share of generation that matrix-vector products take at small batches. Source: Kwon et al.,
#: Samsung PIM/PNM for transformer-based AI, Hot Chips 35, 2023 (60 to 80 %).
_USUAL_MEMORY_BOUND = Interval(0.7, 0.6, 0.8)


def _accelerator(
    request: NearMemoryRequest,
    model: Entry[ModelArchitecture] | None,
    problems: Problems,
    snapshot: CatalogSnapshot,
) -> Entry[Accelerator] | None:
    """The accelerator beside the memory; it needs a model, and a peak for its weights."""
    asked = request.accelerator
    if asked is None:
        return None
    if request.model is None:
        problems.add("/accelerator", "needs a model, whose memory-bound share follows from it")
    found = problems.attempt("/accelerator", lambda: resolve_accelerator(asked, snapshot))
    if found is not None and model is not None:
        precision = resolve_precision(request.precision, model.value)
        check_precision_runs(precision, found.value, problems)
    return found


def _own_share(
    request: NearMemoryRequest,
    model: Entry[ModelArchitecture] | None,
    accelerator: Entry[Accelerator] | None,
) -> Interval | None:
    """Share of a decode step that memory bounds for this model on this accelerator."""
    if model is None or accelerator is None:
        return None
    device, precision = accelerator.value, resolve_precision(request.precision, model.value)
    weights, cache = _held(request, model)
    return exact(
        memory_bound_time_ratio(
            weights + cache,
            float(device.memory_bandwidth_bytes_per_s),
            2.0 * model.value.active_parameters * request.sequences,
            float(peak_flops_per_s(device, precision.weights.matrix_precision)[0]),
        )
    )


def _in_memory(
    request: NearMemoryRequest,
    tier: MemoryTier,
    own_share: Interval | None,
    steps: list[Step],
    warnings: list[EstimateWarning],
) -> ProcessingInMemory | None:
    if tier.kernel_speedup_ratio is None:
        return None
    share = own_share or tier.memory_bound_time_ratio
    if request.memory_bound_time_ratio is not None:
        share = exact(request.memory_bound_time_ratio)
    if share is None:
        share = _USUAL_MEMORY_BOUND
        warnings.append(
            EstimateWarning(
                "memory_bound_share_assumed",
                "memory is assumed to bound 60 to 80 % of decoding time; the share shrinks as "
                "batches grow",
            )
        )
    speedup = processing_in_memory_speedup(share, tier.kernel_speedup_ratio)
    figures = {
        "memory_bound_time_ratio": share,
        "kernel_speedup_ratio": tier.kernel_speedup_ratio,
        "decode_speedup_ratio": speedup,
    }
    steps += explain(figures, IN_MEMORY)
    return {
        "memory_bound_time_ratio": figure(share),
        "kernel_speedup_ratio": figure(tier.kernel_speedup_ratio),
        "decode_speedup_ratio": figure(speedup),
    }


def _search(tier: MemoryTier, stored: float, steps: list[Step]) -> ComputeInMemory | None:
    if (
        tier.scan_s is None
        or tier.scan_j is None
        or tier.capacity_bytes is None
        or tier.density_bits_per_mm2 is None
    ):
        return None
    found = in_memory_search(
        stored, tier.capacity_bytes, tier.scan_s, tier.scan_j, tier.density_bits_per_mm2
    )
    figures = {
        "scan_s": tier.scan_s,
        "stored_bytes": stored,
        "array_bytes": tier.capacity_bytes,
        "search_s": found.time_s,
    }
    steps += explain(figures, SEARCH)
    return {
        "search_s": figure(found.time_s),
        "search_j": figure(found.energy_j),
        "area_mm2": float(found.area_mm2),
    }


def _store(request: StoreRequest, count: float, steps: list[Step]) -> StoreSize:
    vectors = float(vectors_bytes(count, request.dimensions, request.bytes_per_element))
    index = float(graph_index_bytes(count, request.links_per_vector))
    figures = {
        "count": count,
        "dimensions": request.dimensions,
        "bytes_per_element": request.bytes_per_element,
        "links_per_vector": request.links_per_vector,
        "vectors_bytes": vectors,
        "index_bytes": index,
    }
    steps += explain(figures, STORE)
    payload = count * request.payload_bytes
    return {
        "vectors": count,
        "vectors_bytes": vectors,
        "index_bytes": index,
        "payload_bytes": payload,
        "total_bytes": vectors + index + payload,
    }


def _growth(request: StoreRequest) -> float:
    """Bytes added in a year before anything is forgotten [B]."""
    return _store(request, request.added_per_day * DAYS_PER_YEAR, [])["total_bytes"]


def _scan_s(tier: Entry[MemoryTier] | None, now: StoreSize) -> answers.Interval | None:
    """Time of a search over all vectors, at the tier's bandwidth or as it compares."""
    if tier is None:
        return None
    value = tier.value
    if value.scan_s is not None and value.capacity_bytes is not None:
        return figure(scale(value.scan_s, now["vectors_bytes"] / float(value.capacity_bytes)))
    if value.bandwidth_bytes_per_s is None:
        return None
    seconds: Interval = exact(now["vectors_bytes"] / float(value.bandwidth_bytes_per_s))
    return known_figure(seconds)


def _cache(
    request: StoreRequest, model: Entry[ModelArchitecture], tokens: int, steps: list[Step]
) -> float:
    precision = resolve_precision(request.precision, model.value)
    layout = cache_layout(model.value, precision.kv_cache, Parallelism(), 1, 0)
    cache = float(layout_sequence_bytes(layout, float(tokens))) if tokens else 0.0
    windows = {part.name: windowed_bytes(layout, part, tokens) for part in layout.windowed}
    figures = {"layout": layout, "tokens": tokens, "windows": windows, "cache_bytes": cache}
    if tokens:
        steps += explain(figures, RETRIEVED)
    return cache
