"""Warnings as they are answered: each once, as a sentence, with what it is about.

Whoever computes gives a code and a message, and the name of a figure where the code does not say
which. Where that is in the answer, or in the request, is found when the answer is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cache, wraps
from types import NoneType, UnionType
from typing import (
    Any,
    NotRequired,
    TypeAlias,
    TypeVar,
    Union,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel
from typing_extensions import TypeAliasType, is_typeddict

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.absent import without_absent
from service.estimation.answers import Remark
from service.estimation.wording import sentence

#: What a warning is about by its code: figures of answers and fields of requests by their names,
#: of which the first counts that is there. What a warning names itself comes before them.
ABOUT: Mapping[str, tuple[str, ...]] = {
    "accelerators_left_over": ("deployment.parallelism", "parallelism"),
    "acceptance_assumed": ("speculative.acceptance_ratio", "serving.speculative", "speculative"),
    "announced_accelerator": ("deployment.accelerator", "accelerator"),
    "assumed_figure": ("deployment.accelerator", "accelerator", "region"),
    "bandwidth_unknown": ("links", "media", "bytes"),
    "bounds_only": ("speed",),
    "attention_is_sparse": ("serving.attention_density_ratio", "tpot_s", "deployment"),
    "base_not_quantised": ("precision.weights", "training.method"),
    "checkpoint_disagrees": ("weights_bytes", "model"),
    "checkpoint_holds_more": ("weights_bytes", "model"),
    "checkpoint_repeats_table": ("weights_bytes", "model"),
    "context_beyond_model": ("serving.max_model_len", "workload.input_tokens", "sequence_length"),
    "contracts_unknown": ("operational_market_gco2e", "region"),
    "does_not_fit": ("fits",),
    "dry_cooling_energy": ("electricity.pue_ratio", "site.cooling"),
    "efficiency_not_measured": ("tpot_s", "step_s", "ttft_s", "per_request"),
    "engine_lacks_format": ("precision.weights", "precision"),
    "engine_lacks_model": ("serving.engine", "deployment"),
    "figure_of_another_year": ("period.year", "year", "region"),
    "figure_past_shelf_life": ("operational_location_gco2e", "region"),
    "fits_narrowly": ("fits_certainty", "fits"),
    "expert_messages_as_usual": ("training.expert_overlap_ratio", "training.expert_dispatch"),
    "experts_on_host": ("serving.engine", "memory", "deployment"),
    "layers_on_host": ("serving.memory_tiers", "memory", "deployment"),
    "fp8_not_tried": ("search.precisions", "precision.weights"),
    "global_batch_assumed": ("training.global_batch_size", "training"),
    "global_batch_rounded": ("training.global_batch_tokens", "training"),
    "graph_walk_assumed": ("search", "vectors"),
    "grid_not_hourly": ("deployment.region", "region", "operational_gco2e"),
    "hops_left_out": ("step_s", "least_tpot_s", "tier"),
    "host_link_unknown": ("memory_tiers", "tier"),
    "host_memory_assumed": ("offload", "memory_tiers"),
    "host_memory_short": ("host_bytes", "host_memory_bytes"),
    "hourly_match_unknown": ("operational_market_gco2e", "electricity.matching"),
    "hub_not_reached": ("deployment.model", "model"),
    "impact_unknown": ("regions", "series"),
    "index_is_judgement": ("index", "weights"),
    "instance_divides_group": ("cost.rented", "cost.instance"),
    "kind_of_run_not_measured": ("step_s", "training.method", "training"),
    "last_update_short": ("training.micro_batch_size", "grpo", "dpo", "training"),
    "latency_unknown": ("links", "media", "bytes"),
    "layout_assumed": ("parallelism", "deployment.parallelism"),
    "left_open": ("total_bytes", "fits", "training", "serving"),
    "lengths_left_open": ("ttft_s", "latency", "workload.output_tokens", "workload"),
    "longest_has_no_room": ("max_context_tokens", "serving.max_model_len", "serving"),
    "less_than_a_step": ("training.tokens", "tokens"),
    "list_prices": ("metrics", "choices"),
    "locality_unknown": ("compliance.locality", "locality"),
    "making_disputed": ("saved_gco2e", "fast_memory", "memory_saved_gb"),
    "made_to_fit": ("activation_checkpointing", "training.zero_stage", "training"),
    "makes_no_progress": ("run", "training.failures", "failures"),
    "memory_bound_share_assumed": ("memory_bound_ratio", "tier"),
    "memory_tier_short": ("tier_bytes", "offload.memory_tier"),
    "memory_tier_unused": ("offload.memory_tier", "offload"),
    "offload_tried": ("training.offload", "training"),
    "methods_learn_differently": ("training.methods", "training.optimizers", "training"),
    "metric_unknown": ("weights", "choices"),
    "micro_batch_assumed": ("training.micro_batch_size", "training"),
    "micro_batches_assumed": ("training.gradient_accumulation_steps", "training"),
    "modality_left_out": ("weights_bytes", "model"),
    "model_taken_for": ("deployment.model", "model"),
    "never_crosses": ("crossover_day", "growth_per_year_ratio"),
    "no_expert_messages": ("expert_dispatch", "expert_overlap_ratio", "training"),
    "no_peer_to_peer": ("deployment.platform", "platform"),
    "no_place": ("per_task.gco2e", "gco2e", "cost", "region"),
    "no_room_on_chip": ("chips", "tier"),
    "noise_is_spreading_only": ("noise", "site"),
    "noise_limit": ("noise.margin_db", "noise", "site"),
    "implied_limits_left_out": ("limits", "choices"),
    "none_verified": ("choices",),
    "not_legal_advice": ("compliance", "rules", "sections"),
    "not_served": ("options",),
    "nothing_fits": ("options",),
    "nothing_meets_the_limits": ("limits", "choices"),
    "offload_needs_zero_3": ("offload.parameters", "training.zero_stage"),
    "offload_to_same_memory": ("training.offload", "offload"),
    "one_request_at_a_time": ("it_energy_per_request_wh", "energy", "workload.concurrency"),
    "overheads_not_measured": ("runtime_bytes", "fits"),
    "padded_heads": ("parallelism.tensor", "weights_bytes"),
    "paged_nowhere": ("training.optimizer", "optimizer"),
    "parts_unknown": ("parts", "index"),
    "pipeline_underfilled": ("gradient_accumulation_steps", "parallelism.pipeline"),
    "place_assumed": ("search.regions", "search.where", "searched.regions", "search"),
    "place_of_own": ("search.regions", "search.where", "searched.regions", "search"),
    "place_unknown": ("series",),
    "plain_steps": ("series",),
    "platform_unknown": ("deployment.platform", "deployment.accelerator", "accelerator"),
    "power_assumed": ("it_energy_kwh", "accelerator_hours"),
    "power_limit_low": ("deployment.power_limit_w", "power_limit_w", "platform"),
    "power_not_measured": ("it_energy_kwh", "it_energy_per_request_wh", "energy", "accelerator"),
    "peak_unknown": ("speed", "precision.weights"),
    "power_unknown": ("energy", "accelerator"),
    "precision_not_native": ("precision.weights", "precision"),
    "usual_file": ("precision.weights", "precision"),
    "prediction_layers_left_out": ("weights_bytes", "model"),
    "quantised_to_fit": ("precision.weights", "precision", "serving.engine"),
    "always_in_use": ("cost.owned", "cost", "accelerator"),
    "bought_together": ("cost.owned", "accelerator"),
    "electricity_price_assumed": ("cost.owned", "cost.electricity", "region"),
    "instance_partly_idle": ("cost.rented", "accelerator"),
    "more_than_on_demand": ("cost.rented", "accelerator"),
    "price_is_old": ("cost.rented", "region"),
    "price_of_another_region": ("cost.rented", "region"),
    "price_undated": ("loads",),
    "price_unknown": ("cost.rented", "hardware", "rent_usd", "cost", "accelerator"),
    "products_in_another_format": ("precision.activations", "precision", "accelerator"),
    "prompts_assumed": ("grpo.prompts", "grpo", "step"),
    "pruning_quality_unknown": ("pruning",),
    "reference_assumed": ("dpo.reference", "dpo", "memory.held_beside_bytes"),
    "reference_is_trained": ("dpo", "grpo"),
    "framework_assumed": ("training.framework", "training"),
    "framework_divides": ("training.framework", "training"),
    "release_before_first": ("serving.engine_version", "framework_version", "serving.engine"),
    "more_than_run_at_once": ("workload.concurrency", "concurrency", "load", "deployment"),
    "kv_heads_uneven": ("parallelism.tensor", "parallelism", "deployment"),
    "weights_widened": ("precision.weights", "precision", "training"),
    "release_unknown": ("serving.engine_version", "framework_version", "serving.engine"),
    "renamed_field": ("run", "training"),
    "renamed_entry": ("deployment.model", "model", "region"),
    "reports_ignored": ("calibration.reports", "calibration"),
    "residual_mix_unknown": ("operational_market_gco2e", "region"),
    "rented_whole": ("rented_usd", "years", "intervals"),
    "saturated": ("latency.load.saturated", "load.saturated", "intervals", "requests_per_s"),
    "schedule_unused": ("pipeline_schedule", "training"),
    "search_energy_unknown": ("search", "tier"),
    "sequence_length_assumed": ("training.sequence_length", "training"),
    "setting_unused": (),
    "some_prices_unknown": ("metrics", "choices"),
    "speed_left_open": ("tokens_per_s", "tpot_s", "ttft_s", "step_s", "training", "serving"),
    "spilled_to_host": ("fits", "serving.memory_tiers", "memory", "deployment"),
    "stages_not_alike": ("parallelism.pipeline", "virtual_stages", "training"),
    "tensor_across_slow_links": ("parallelism.tensor", "parallelism"),
    "tier_capacity_unknown": ("memory_tiers", "offload.memory_tier", "tier"),
    "tier_energy_unknown": ("memory_tiers", "offload.memory_tier", "media", "tier"),
    "tier_making_unknown": ("memory_tiers", "offload.memory_tier", "media", "tier"),
    "tier_price_unknown": ("memory_tiers", "offload.memory_tier", "media", "tier"),
    "tiers_slow_steps": ("memory_tiers", "offload", "tpot_s"),
    "tiers_too_small": ("memory_tiers", "fits"),
    "unknown_factor": ("operational_market_gco2e", "region"),
    "unknown_model_type": ("weights_bytes", "model"),
    "unknown_quantization": ("weights_bytes", "model"),
    "unserved": ("intervals",),
    "usual_wue": ("searched.regions",),
    "vocabularies_differ": ("distillation", "teacher"),
    "water_stress_assumed": ("searched.regions",),
    "wider_average": ("operational_location_gco2e", "electricity.grid_gco2e_per_kwh", "region"),
    "zero_divides_nothing": ("training.zero_stage", "zero_stage"),
    "zeros_not_skipped": ("pruning",),
}

#: Figures of answers that a figure of the catalog moves, of which the first counts that is there.
_MOVES: Mapping[str, tuple[str, ...]] = {
    "embodied_kgco2e": ("embodied_gco2e",),
    "mass_kg": ("e_waste_kg",),
    "pue_ratio": ("facility.pue_ratio", "facility_energy_kwh"),
    "wue_l_per_kwh": ("water.on_site_l", "water.total_l"),
    **dict.fromkeys(
        (
            "scale_up_latency_s",
            "scale_up_bandwidth_bytes_per_s",
            "scale_out_latency_s",
            "scale_out_bandwidth_bytes_per_s",
        ),
        ("tpot_s", "step_s", "ttft_s", "stages", "phases", "per_request", "per_step"),
    ),
}
#: Where nothing better is: what every question is about.
_LAST = ("deployment.model", "model", "accelerator", "region")

Asking = TypeVar("Asking", bound=Callable[..., Any])
Answered = TypeVar("Answered", bound=Mapping[str, Any])
_Path: TypeAlias = tuple[str, ...]
_MOST_DEPTH = 8
#: Use cases that tell their remarks, with what they were before.
_UNTOLD: dict[Callable[..., Any], Callable[..., Any]] = {}


def remarking(answer: Any) -> Callable[[Asking], Asking]:
    """Declares a use case whose answers, of this type, tell their warnings as people read them."""

    def declared(compute: Asking) -> Asking:
        @wraps(compute)
        def answered(request: BaseModel, snapshot: CatalogSnapshot, *more: Any) -> Any:
            return told(compute(request, snapshot, *more), answer, request, snapshot)

        _UNTOLD[answered] = compute
        return cast("Asking", answered)

    return declared


def untold(compute: Asking) -> Asking:
    """A use case without its remarks, for whoever adds some before they are told."""
    return cast("Asking", _UNTOLD.get(compute, compute))


def told(answer: Answered, kind: Any, request: BaseModel, snapshot: CatalogSnapshot) -> Answered:
    """An answer of a type without what is absent, its warnings as people read them.

    Pointers are into the object that holds the warning, and into the request where that has no such
    figure.
    """
    asked: list[Mapping[str, Any]] = []

    def sent() -> Mapping[str, Any]:
        if not asked:
            asked.append(request.model_dump(exclude_unset=True, warnings=False))
        return asked[0]

    # No pointer leads to what is then left out.
    return cast("Answered", _told(without_absent(answer, kind), kind, sent, snapshot))


def _told(
    answer: Mapping[str, Any],
    kind: Any,
    sent: Callable[[], Mapping[str, Any]],
    snapshot: CatalogSnapshot,
) -> Mapping[str, Any]:
    changed: dict[str, Any] = {}
    for name, within in _holders(kind).items():
        part = answer.get(name)
        if isinstance(part, list):
            changed[name] = [_told(one, within, sent, snapshot) for one in part]
        elif part is not None:
            changed[name] = _told(part, within, sent, snapshot)
    if "warnings" in answer:
        changed["warnings"] = _remarks(answer, kind, sent, snapshot)
    return {**answer, **changed} if changed else answer


def _remarks(
    answer: Mapping[str, Any],
    kind: Any,
    sent: Callable[[], Mapping[str, Any]],
    snapshot: CatalogSnapshot,
) -> list[Remark]:
    found: dict[tuple[str, str], Remark] = {}
    for one in answer["warnings"]:
        about = one["pointer"]
        if about[:1] == "/":
            # Told by an answer that this one was made of: its figures may be elsewhere here.
            if _is_there(answer, tuple(about[1:].split("/"))):
                found.setdefault((one["code"], one["message"]), one)
                continue
            about = ""
        named = (about, *_MOVES.get(about, ())) if about else ()
        names = (*named, *ABOUT.get(one["code"], ()), *_LAST)
        message = sentence(one["message"], snapshot)
        path = _in_answer(answer, kind, names) or _in_request(sent(), names) or ()
        remark: Remark = {
            "code": one["code"],
            "pointer": "".join(f"/{part}" for part in path),
            "message": message,
        }
        found.setdefault((one["code"], message), remark)
    return list(found.values())


def _in_answer(answer: Mapping[str, Any], kind: Any, names: tuple[str, ...]) -> _Path | None:
    places = _paths(kind)
    for name in names[: -len(_LAST)]:
        for path in places.get(name, ()):
            if _is_there(answer, path):
                return path
    return None


def _is_there(answer: Any, path: _Path) -> bool:
    for part in path:
        if not isinstance(answer, dict) or part not in answer:
            return False
        answer = answer[part]
    return True


def _in_request(sent: Mapping[str, Any], names: tuple[str, ...]) -> _Path | None:
    paths = list(_walk(sent, ()))
    for name in names:
        tail = tuple(name.split("."))
        for path in paths:
            if path[-len(tail) :] == tail:
                return path
    return paths[0] if paths else None


def _walk(sent: Mapping[str, Any], before: _Path) -> Iterator[_Path]:
    """Paths of all fields that were sent, the outer ones first."""
    for name in sent:
        yield (*before, str(name))
    for name, part in sent.items():
        if isinstance(part, Mapping):
            yield from _walk(part, (*before, str(name)))


@cache
def _paths(kind: Any) -> Mapping[str, tuple[_Path, ...]]:
    """Paths of the fields of an answer by name, and by name and that of their holder."""
    found: dict[str, list[_Path]] = {}
    level: list[tuple[_Path, Any]] = [((), kind)]
    for _ in range(_MOST_DEPTH):
        level = [
            ((*before, name), part)
            for before, holder in level
            for name, part in _fields(holder).items()
        ]
        for path, _part in level:
            for length in range(1, len(path) + 1):
                found.setdefault(".".join(path[-length:]), []).append(path)
    return {name: tuple(paths) for name, paths in found.items()}


@cache
def _fields(kind: Any) -> Mapping[str, Any]:
    """The fields of an answer that is an object, with their types."""
    for one in _options(kind):
        if is_typeddict(one):
            return get_type_hints(one)
    return {}


@cache
def _holders(kind: Any) -> Mapping[str, Any]:
    """Fields that hold answers with warnings, one or a list of them, with their types."""
    found = {}
    for name, part in _fields(kind).items():
        within = next((get_args(one)[0] for one in _options(part) if get_origin(one) is list), part)
        if within is not Remark and ("warnings" in _fields(within) or _holders(within)):
            found[name] = within
    return found


def _options(kind: Any) -> tuple[Any, ...]:
    """What a type may be, but for null, without what is said of it."""
    if isinstance(kind, TypeAliasType):
        return _options(kind.__value__)
    origin, parts = get_origin(kind), get_args(kind)
    if origin is NotRequired or (origin is not None and hasattr(kind, "__metadata__")):
        return _options(parts[0])
    if origin in (Union, UnionType):
        return tuple(one for part in parts if part is not NoneType for one in _options(part))
    return (kind,)
