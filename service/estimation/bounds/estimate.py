"""Use case: what hardware allows at most for a model, also where only its maker's software runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.architecture.tasks import usual_task
from service.core.deployment import Accelerator, Parallelism, Precision, Region
from service.core.elementwise import Number
from service.core.explanation import EstimateWarning, Step, explain
from service.core.impacts.footprint import FOOTPRINT, Footprint, footprint
from service.core.interval import Interval, exact, scale
from service.core.memory.kv_cache import cache_layout, layout_sequence_bytes
from service.core.memory.weights import total_model_bytes
from service.core.performance.inference.bounds import (
    BOUNDS,
    Bound,
    LeastWork,
    least_accelerator_count,
    least_time,
    least_work,
)
from service.core.performance.kernels import multiplied_precision, peak_flops_per_s
from service.core.performance.steps import StepLoad
from service.core.performance.work import rank_work
from service.core.years import HOURS_PER_YEAR
from service.estimation.answers import figure, frame, grounds
from service.estimation.bounds.answers import BoundsAnswer, HeldMemory, Limit, SpeedLimits
from service.estimation.bounds.requests import BoundsRequest
from service.estimation.calibrations import infrastructure_of, power_of
from service.estimation.detail import WHOLE, Detail
from service.estimation.impacts.estimate import assumed_power_w
from service.estimation.impacts.footprint_views import basis
from service.estimation.impacts.place import footprint_warnings
from service.estimation.platforms import resolve_placed, sited
from service.estimation.resolution import (
    Problems,
    placed_id,
    resolve_model,
    resolve_precision,
    resolve_region,
)
from service.estimation.software import engines_on

_KWH_PER_WH = 1e-3


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What formulas are explained from."""

    held_bytes: float
    memory_bytes: float
    accelerator_count: int
    least_accelerator_count: int
    peak_flops_per_s: float | None
    bandwidth_bytes_per_s: float
    prompt: LeastWork
    token: LeastWork
    ttft: Bound
    tpot: Bound | None

    @property
    def fits(self) -> bool:
        """Whether the accelerators hold everything."""
        return self.accelerator_count >= self.least_accelerator_count

    def figures(self) -> Mapping[str, Any]:
        """By the names of the formulas."""
        count = self.accelerator_count
        least_tpot_s = None if self.tpot is None else self.tpot.least_s
        return {
            "held_bytes": self.held_bytes,
            "memory_bytes": self.memory_bytes,
            "least_accelerator_count": self.least_accelerator_count,
            "accelerator_count": count,
            "peak_flops_per_s": self.peak_flops_per_s,
            "bandwidth_bytes_per_s": self.bandwidth_bytes_per_s,
            "prompt_flops": self.prompt.flops,
            "prompt_bytes": self.prompt.memory_bytes,
            "token_flops": self.token.flops,
            "token_bytes": self.token.memory_bytes,
            "least_ttft_s": self.ttft.least_s,
            "least_tpot_s": least_tpot_s,
            "least_tpot_in_turn_s": None if least_tpot_s is None else least_tpot_s * count,
        }


def bounds_answer(
    request: BoundsRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> BoundsAnswer:
    """Accelerators that hold a model, times that no software can beat, power and footprint.

    Raises
    ------
    Rejected
        If the model, the accelerator or the place is unknown.
    """
    problems = Problems()
    model = problems.attempt("/model", lambda: resolve_model(request.model, snapshot))
    accelerator, machine = resolve_placed(
        *(request.accelerator, request.platform, request.power_limit_w, snapshot, problems)
    )
    region = problems.attempt("/region", lambda: resolve_region(request.region, snapshot))
    problems.stop_if_any()
    assert model is not None  # noqa: S101 - an unknown one is a noted problem
    assert accelerator is not None  # noqa: S101 - likewise
    place = sited(problems.resolved(region), machine, request.facility, snapshot)
    precision = resolve_precision(request.precision, model.value)
    memory, bounds = _bounds(request, model.value, precision, accelerator)
    engines = engines_on(accelerator.value, "inference", snapshot)
    power_w, year = _year(accelerator.value, bounds.accelerator_count, place.region.value, snapshot)
    warnings = [*model.value.warnings, *_warnings(accelerator.value, bounds, engines)]
    if power_w is not None and year is not None:
        warnings += footprint_warnings(year, accelerator, place.region, None, detail)
    entries: list[tuple[str, Entry[Any]]] = [("models", model), ("accelerators", accelerator)]
    entries += [] if machine is None else [("platforms", machine)]
    entries.append(("regions", place.region))

    def steps() -> tuple[Step, ...]:
        formulas = [one for one in BOUNDS if bounds.tpot is not None or "tpot" not in one.value]
        if bounds.peak_flops_per_s is None:
            formulas = [one for one in formulas if "peak_flops_per_s" not in one.expression]
        worn = () if year is None else explain(year, FOOTPRINT)
        return (*explain(bounds.figures(), tuple(formulas)), *worn)

    return {
        **frame(snapshot.revision),
        "model": model.id,
        "accelerator": accelerator.id,
        "accelerator_count": bounds.accelerator_count,
        "region": placed_id(place.region),
        "engines": engines,
        "memory": memory,
        "speed": _speed(bounds, request.sequences),
        "facility": place.facility,
        "it_power_w": None if power_w is None else figure(power_w),
        "per_year": None if year is None else basis(year, detail=detail)(1.0),
        **grounds(
            snapshot,
            warnings,
            entries,
            steps if request.explain or detail.has("explanation") else None,
            detail=detail,
        ),
    }


def _bounds(
    request: BoundsRequest,
    model: ModelArchitecture,
    precision: Precision,
    entry: Entry[Accelerator],
) -> tuple[HeldMemory, _Bounds]:
    accelerator = entry.value
    weights = float(total_model_bytes(model, precision.weights))
    layout = cache_layout(model, precision.kv_cache, Parallelism(), 1, 0)
    generates = usual_task(model) == "generate"
    cache = 0.0
    if generates:
        tokens = float(request.input_tokens + request.output_tokens)
        cache = request.sequences * float(layout_sequence_bytes(layout, tokens))
    needed = least_accelerator_count(weights + cache, accelerator.memory_bytes)
    count = request.accelerator_count or needed
    peak = _peak(entry, precision)
    bandwidth = _highest(
        entry, "memory_bandwidth_bytes_per_s", accelerator.memory_bandwidth_bytes_per_s
    )
    work = rank_work(model, precision, Parallelism())
    prompt = least_work(
        work, StepLoad(request.input_tokens, 1.0, 0.5 * request.input_tokens, 0.0, 0.0)
    )
    context = request.input_tokens + 0.5 * request.output_tokens
    token = least_work(work, StepLoad(0.0, 0.0, 0.0, request.sequences, context))
    found = _Bounds(
        held_bytes=weights + cache,
        memory_bytes=float(accelerator.memory_bytes),
        accelerator_count=count,
        least_accelerator_count=needed,
        peak_flops_per_s=peak,
        bandwidth_bytes_per_s=bandwidth,
        prompt=prompt,
        token=token,
        ttft=least_time(prompt, bandwidth, peak, count),
        tpot=least_time(token, bandwidth, peak, count) if generates else None,
    )
    memory: HeldMemory = {
        "weights_bytes": weights,
        "kv_cache_bytes": cache,
        "held_bytes": found.held_bytes,
        "memory_bytes": found.memory_bytes,
        "least_accelerator_count": needed,
        "fits": found.fits,
    }
    return memory, found


def _peak(entry: Entry[Accelerator], precision: Precision) -> float | None:
    """The highest dense rate for such weights [FLOP/s]; None where none is published."""
    wanted = precision.weights.matrix_precision
    try:
        peak, used = (
            peak_flops_per_s(entry.value, wanted)[0],
            multiplied_precision(entry.value, wanted),
        )
    except ValueError:
        return None
    return _highest(entry, f"peak_{used}_flops_per_s", peak)


def _highest(entry: Entry[Accelerator], name: str, value: Number) -> float:
    """The upper end of a figure: a bound holds only there."""
    stated = entry.document.get("figures", {}).get(name)
    return max(
        float(value), float(stated.get("high") or value) if isinstance(stated, dict) else 0.0
    )


def _speed(bounds: _Bounds, sequences: int) -> SpeedLimits:
    tpot = bounds.tpot
    told: SpeedLimits = {
        "least_ttft_s": bounds.ttft.least_s,
        "ttft_limit": _limit(bounds.ttft),
        "least_tpot_s": None,
        "tpot_limit": None,
        "least_tpot_in_turn_s": None,
        "most_output_tokens_per_s_per_user": None,
        "most_output_tokens_per_s": None,
    }
    if tpot is None:
        return told
    return {
        **told,
        "least_tpot_s": tpot.least_s,
        "tpot_limit": _limit(tpot),
        "least_tpot_in_turn_s": tpot.least_s * bounds.accelerator_count,
        "most_output_tokens_per_s_per_user": 1.0 / tpot.least_s,
        "most_output_tokens_per_s": sequences / tpot.least_s,
    }


def _limit(bound: Bound) -> Limit:
    return "compute" if bound.is_compute else "memory_bandwidth"


def _year(
    accelerator: Accelerator, count: int, region: Region, snapshot: CatalogSnapshot
) -> tuple[Interval | None, Footprint | None]:
    """Power of all accelerators in use [W], and what a year of it comes to."""
    if accelerator.most_power_w is None:
        return None, None
    _, around = infrastructure_of(snapshot)
    _, model, _ = power_of(
        *(snapshot, accelerator.family, accelerator.memory_technology, accelerator.platform.kind)
    )
    power_w = scale(assumed_power_w(accelerator, model, around), count)
    energy_kwh = scale(power_w, HOURS_PER_YEAR * _KWH_PER_WH)
    return power_w, footprint(
        energy_kwh, exact(count * HOURS_PER_YEAR), accelerator, region, around
    )


def _warnings(
    accelerator: Accelerator, bounds: _Bounds, engines: list[str]
) -> Iterator[EstimateWarning]:
    if engines:
        yield EstimateWarning(
            "bounds_only",
            "these times are the shortest that the hardware allows, and no software reaches them: "
            "for what to expect, ask /v1/estimates/inference",
        )
    else:
        yield EstimateWarning(
            "bounds_only",
            f"no measurements of the software that runs on {accelerator.name} are published, so "
            "its speed cannot be estimated: these times are the shortest that the hardware allows, "
            "and real services are many times slower",
        )
    if bounds.accelerator_count > 1:
        yield EstimateWarning(
            "hops_left_out",
            "the time between accelerators is left out: all of them are taken to work on each "
            "token at once without waiting",
            about="least_tpot_s",
        )
    if bounds.peak_flops_per_s is None:
        yield EstimateWarning(
            "peak_unknown",
            f"no peak of {accelerator.name} is published for weights in this format: only memory "
            "bounds the times",
            about="precision.weights",
        )
    if not bounds.fits:
        yield EstimateWarning(
            "does_not_fit",
            f"{bounds.least_accelerator_count} accelerators are needed to hold everything; times "
            "are given as if memory were large enough",
        )
    if accelerator.most_power_w is None:
        yield EstimateWarning(
            "power_unknown",
            f"the power of {accelerator.name} is not published, so that energy and footprint are "
            "unknown until you state it",
            about="it_power_w",
        )
    else:
        yield EstimateWarning(
            "power_assumed",
            "power is that of accelerators at a typical load, with a range from a light to a full "
            "one, because nobody has measured this model on them",
            about="it_power_w",
        )
