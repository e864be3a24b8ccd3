"""Picks the measured efficiencies that apply to a deployment from the catalog's calibrations."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeVar

from service.catalog.derived import derived
from service.catalog.entries.engines import figures_of
from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.backends import driven_alike
from service.core.deployment import Accelerator
from service.core.engine_defaults import UsageContext
from service.core.engines import (
    CLASSES,
    FALLBACK_ENGINE,
    engine_of_release,
    generation_of_release,
)
from service.core.explanation import EstimateWarning
from service.core.figures import Figures, from_figures
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import exact
from service.core.learning import Corrections
from service.core.memory.inference.runtime import RuntimeOverheads
from service.core.performance.buckets import (
    bucket_ratio,
    dense_graph_sequences,
    prompt_bucket_tokens,
)
from service.core.performance.calibration import (
    RUNTIME_FACTS,
    EngineOverhead,
    PerformanceCalibration,
    PowerModel,
    hardware_efficiency,
    power_model,
)
from service.core.performance.expert_tiles import (
    fuses_experts,
    has_default_tiles,
    has_grouped_tiles,
    scaled_tile_rows,
)
from service.core.performance.native_kernels import (
    attends_on_vectors,
    converting_operations,
    loops_experts,
    multiplies_integers,
    reaches_matrix_units,
    records_ahead,
    replayed_accelerators,
    warp_ratio,
    widening_operations,
)
from service.core.performance.prompt_launches import (
    eager_prompt_layer_s,
    issues_prompts_eagerly,
)
from service.core.performance.release_kernels import (
    batched_experts,
    expands_latents,
    head_reads,
    is_weight_only,
    loaded_reads,
    many_widened_from_rows,
    prompt_layer_kernel_count,
    stepwise_states,
    unrouted_below_bits,
    widened_from_rows,
)
from service.core.performance.samplers import sampling_ratio
from service.core.performance.scheduling import schedules_ahead
from service.core.performance.servers import SCRIPT_TOLD_RATIO, received_s, streamed_s
from service.core.performance.spread import NO_WIDENING, PIPELINED_LOG_SIGMA
from service.core.performance.widened_experts import widened_tiles
from service.core.platform import PowerNeeds
from service.estimation.levels import (
    MACHINES,
    POWER,
    POWER_SPREAD,
    POWER_SPREADS,
    SPEED,
    SPEED_WIDENING,
    SPREADS,
    Held,
    backend_keys,
    hardware_keys,
    held,
    host_keys,
    inference_link_of,
    kernels_release,
    log_sigma,
    power_keys,
    speed_keys,
    spread_names,
    usual_memory,
    widening,
    widening_names,
)
from service.estimation.overheads import memory_entries, runtime_memory
from service.estimation.wording import named_software

_FALLBACK = "default"
_UNKNOWN_FAMILY = "unknown"
_HARDWARE = "speed/hardware"
#: Parts of which it is told where a level was not measured.
_TOLD = (_HARDWARE, "speed/kernels", "speed/engines", "speed/backends")

Kept = TypeVar("Kept")


@dataclass(frozen=True, slots=True)
class Calibration:
    """Everything measured that an estimate uses besides the catalog's hardware and regions.

    ``used`` are the calibrations with the figures that hold, ``warnings`` say where a fallback was
    taken.
    """

    performance: PerformanceCalibration
    infrastructure: Infrastructure
    runtime: RuntimeOverheads
    used: tuple[Entry[Figures], ...]
    warnings: tuple[EstimateWarning, ...]

    def corrected(self, release: str, corrections: Corrections) -> Calibration:
        """The same as own measurements correct it, for a release of an engine."""
        return replace(
            self,
            performance=self.performance.corrected(corrections),
            runtime=self.runtime.corrected(release, corrections.memory),
        )


def calibration(
    snapshot: CatalogSnapshot,
    release: str,
    accelerator: Accelerator | None,
    backend: str | None = None,
    usage: UsageContext = "server",
) -> Calibration:
    """Calibration of an engine's release on an accelerator, with documented fallbacks.

    Parameters
    ----------
    snapshot
        The catalog, whose calibrations are read.
    release
        Key of the release of an inference engine, or the engine's id.
    accelerator
        The accelerator; None for one of which nothing is known.
    backend
        What the engine drives it by; None where it has no choice.
    usage
        How requests reach the engine.

    Returns
    -------
    Calibration
        With a warning for each part that had to fall back on figures of other engines or hardware.
    """
    if accelerator is None:
        return _calibration(snapshot, release, _UNKNOWN_FAMILY, "", "", "", 1.0, None, usage)
    platform = accelerator.platform
    return _calibration(
        snapshot,
        release,
        accelerator.family,
        accelerator.memory_technology,
        inference_link_of(accelerator),
        platform.kind,
        float(platform.core_time_ratio),
        backend,
        usage,
    )


def processors_calibration(snapshot: CatalogSnapshot, release: str) -> PerformanceCalibration:
    """What processors of an accelerator server's host reach of their datasheets with a release."""
    found = _calibration(snapshot, release, "cpu-x86", "", "", "", 1.0, None, "server")
    return found.performance


def _is_undriven(family: str, snapshot: CatalogSnapshot) -> bool:
    """Whether nobody measured hardware that the interface of a family's maker drives."""
    alike = driven_alike(family)
    if alike is None:
        return False
    return not any(id_.startswith(f"{_HARDWARE}/{alike}") for id_ in snapshot.calibrations)


@derived(most=512)
def _calibration(
    snapshot: CatalogSnapshot,
    release: str,
    family: str,
    memory_technology: str,
    link: str,
    machine: str,
    core_time_ratio: float,
    backend: str | None,
    usage: UsageContext,
) -> Calibration:
    engine = engine_of_release(release)
    class_ = snapshot.engines[engine].value.classes["inference"]
    keys = speed_keys(release, family, link, snapshot.engines) | host_keys(family, machine)
    keys |= backend_keys(backend, family)
    parts = [held(snapshot, part, kinds, keys) for part, kinds in SPEED.items()]
    spreads = [held(snapshot, part, kinds, keys) for part, kinds in SPREADS.items()]
    wider = held(snapshot, SPEED_WIDENING, (), keys)
    pairs = _pairs(snapshot, release, family)
    kind = CLASSES[class_]
    launch_bound, replays_graphs = snapshot.engines[engine].value.launches(
        generation_of_release(release)
    )
    figures = {
        "launch_bound": exact(launch_bound),
        "half_accumulation": exact(kind.half_accumulation),
        "replays_graphs": exact(replays_graphs),
        "whole_expert_tiles": exact(kind.whole_expert_tiles),
    }
    figures["pipelined_log_sigma"] = exact(0.0 if pairs else PIPELINED_LOG_SIGMA)
    figures["native"] = exact(kind.native and not family.startswith("cpu-"))
    for part in parts:
        figures |= part.figures
    if usage == "offline":
        figures["served_s"] = exact(0.0)
        figures["told_s"] = exact(figures["told_s"].value * SCRIPT_TOLD_RATIO)
    runtime = runtime_memory(snapshot)
    figures |= {name: exact(getattr(runtime.of(release), name)) for name in RUNTIME_FACTS}
    # An engine without figures of its own has the kernels of those whose figures it takes.
    like = kernels_release("speed/engines", release, keys, snapshot)
    figures["widened_from_rows"] = exact(widened_from_rows(like, family, backend))
    figures["many_widened_from_rows"] = exact(many_widened_from_rows(like, family))
    reads_power, by_sequence = head_reads(like, family)
    figures |= {
        "head_reads_exponent_ratio": exact(reads_power),
        "rereads_by_sequence": exact(by_sequence),
    }
    loaded_bits, loading_lane_count = loaded_reads(like, family)
    figures |= {"loaded_bits": exact(loaded_bits), "loading_lane_count": exact(loading_lane_count)}
    figures["prompt_layer_kernel_count"] = exact(prompt_layer_kernel_count(like, family, backend))
    figures["multiplies_integers"] = exact(multiplies_integers(like, family, backend))
    figures["loops_experts"] = exact(loops_experts(like, family, backend))
    figures["replayed_accelerators"] = exact(replayed_accelerators(like, family, backend))
    figures["records_ahead"] = exact(records_ahead(like, family, backend))
    figures["reaches_matrix_units"] = exact(reaches_matrix_units(like, family, backend))
    figures["widening_operations"] = exact(widening_operations(like, family, backend))
    figures["warp_ratio"] = exact(warp_ratio(like, family, backend))
    figures["converting_operations"] = exact(converting_operations(family))
    figures["vector_attention"] = exact(attends_on_vectors(like, family, backend))
    figures["waits_for_exponentials"] = exact(not kind.native)
    if attends_on_vectors(like, family, backend):
        # Nobody who is not asked has attention fused there.
        figures["fuses_attention"] = exact(False)
    figures["weight_only"] = exact(is_weight_only(like))
    figures["expands_latents"] = exact(expands_latents(like))
    figures["dense_graph_sequences"] = exact(dense_graph_sequences(release))
    figures["bucket_ratio"] = exact(bucket_ratio(engine))
    figures["prompt_bucket_tokens"] = exact(prompt_bucket_tokens(engine))
    figures["sampling_ratio"] = exact(sampling_ratio(release, family))
    figures["schedules_ahead"] = exact(schedules_ahead(release))
    if issues_prompts_eagerly(release):
        figures["prompt_layer_s"] = eager_prompt_layer_s()
    figures["streamed_s"] = exact(streamed_s(engine))
    figures["received_s"] = exact(0.0 if usage == "offline" else received_s(engine))
    figures["unrouted_below_bits"] = exact(unrouted_below_bits(engine))
    figures["scaled_tile_rows"] = exact(scaled_tile_rows(release))
    figures["default_expert_tiles"] = exact(has_default_tiles(like, family))
    figures["grouped_expert_tiles"] = exact(has_grouped_tiles(release, family))
    if (widened := widened_tiles(release, family)) is not None:
        figures["widened_tile_rows"] = exact(widened.rows)
        figures["widened_tile_operations"] = exact(widened.operations)
        figures["widened_tile_ratio"] = exact(widened.matrix_ratio)
        figures["widens_all_formats"] = exact(widened.all_formats)
    figures["fuses_experts"] = exact(fuses_experts(release, family))
    missing = [(part.part, level) for part in parts for level in part.missing]
    for spread in spreads:
        name = f"{spread.part.rpartition('/')[2]}_log_sigma"
        figures[name] = exact(log_sigma(spread.figures, missing))
    for id_ in pairs:
        figures |= snapshot.calibrations[id_].value
    warnings = [] if pairs else list(_speed_warnings(release, family, backend, parts))
    power_ids, power, power_warnings = power_of(snapshot, family, memory_technology, machine)
    infrastructure_id, around = infrastructure_of(snapshot)
    used = [entry for part in parts for entry in part.used(snapshot, figures)]
    names = spread_names(missing)
    used += [entry for spread in spreads for entry in spread.used(snapshot, names)]
    used += wider.used(snapshot, widening_names(missing))
    others = (*pairs, *power_ids, *memory_entries(snapshot, release), infrastructure_id)
    return Calibration(
        performance=PerformanceCalibration(
            hardware=hardware_efficiency(figures),
            engine=from_figures(
                EngineOverhead,
                figures,
                core_time_ratio=core_time_ratio,
                batched_expert_models=batched_experts(engine),
                stepwise_state_models=stepwise_states(engine),
            ),
            power=power,
            source=", ".join(pairs or (part.entries[-1] for part in parts if part.entries)),
            measured=not warnings,
            widening=NO_WIDENING
            if pairs
            else widening(wider.figures, missing, _is_undriven(family, snapshot)),
        ),
        infrastructure=around,
        runtime=runtime,
        used=(*used, *(snapshot.calibrations[id_] for id_ in others)),
        warnings=(
            *warnings,
            *power_warnings,
            *_memory_warnings(engine, engine_of_release(runtime.of(release).engine)),
        ),
    )


def _pairs(snapshot: CatalogSnapshot, release: str, family: str) -> tuple[str, ...]:
    """Ids of the figures that stand for an engine and a hardware family together.

    Revisions of earlier releases have them, and a catalog may add some: they come before levels.
    """
    known = snapshot.calibrations
    for name in figures_of(release, snapshot.engines, "inference"):
        ids = (f"performance/{name}/{_FALLBACK}", f"performance/{name}/{family}")
        found = tuple(id_ for id_ in ids if id_ in known)
        if found:
            return found
    return ()


def _speed_warnings(
    release: str, family: str, backend: str | None, parts: Iterable[Held]
) -> Iterator[EstimateWarning]:
    """What to say where levels of an engine, of hardware or of a backend were not measured."""
    taken = {part.part: part for part in parts}
    if any(taken[name].missing for name in _TOLD):
        yield EstimateWarning(
            "efficiency_not_measured",
            f"no measurements of speed are published for {named_software(release)}"
            f"{'' if backend is None else f' with {backend}'} on {family}: "
            "those of similar software and hardware are used",
        )


def _memory_warnings(engine: str, measured: str) -> Iterator[EstimateWarning]:
    """What to say where an engine's memory is that of others."""
    if measured != engine:
        others = "typical values of others"
        yield EstimateWarning(
            "overheads_not_measured",
            f"no measurements of memory are published for {named_software(engine)}: "
            f"{others if measured == FALLBACK_ENGINE else f'those of {measured}'} are used",
        )


def power_of(
    snapshot: CatalogSnapshot, family: str, memory_technology: str, machine: str
) -> tuple[tuple[str, ...], PowerModel, tuple[EstimateWarning, ...]]:
    """Power model of hardware, ids of its entries, and a warning where it is another's.

    Hardware is a family with a kind of memory, that of most in the catalog where it is empty;
    ``machine`` is the class of machine whose power is to be told.
    """
    technology = memory_technology or usual_memory(snapshot).get(family, "")
    keys = power_keys(family, technology) | {"platform": machine}
    ((name, kinds),) = POWER.items()
    found = held(snapshot, name, kinds, keys)
    missing = [(name, kind) for kind in found.missing]
    figures, ids, sigmas = dict(found.figures), list(found.entries), {}
    for spread, levels in POWER_SPREADS.items():
        spreads = held(snapshot, spread, levels, keys)
        if spreads.entries:
            sigmas[spread] = log_sigma(spreads.figures, missing)
            ids += spreads.entries
    if POWER_SPREAD in sigmas:
        figures["power_log_sigma"] = exact(sigmas[POWER_SPREAD])
    warnings: tuple[EstimateWarning, ...] = ()
    if "hardware" in found.missing:
        alike = found.narrowest == keys["memory"]
        other = "hardware with memory of its kind" if alike else "other hardware"
        warnings = (
            EstimateWarning(
                "power_not_measured",
                f"no measurements of power are published for {family} at such loads: those of "
                f"{other} are used",
            ),
        )
    model = power_model(figures, sigmas.get(MACHINES, 0.0), found.entries[-1])
    return tuple(ids), model, warnings


def power_needs(snapshot: CatalogSnapshot, accelerator: Accelerator) -> PowerNeeds:
    """What of its power an accelerator cannot save by slower clocks, as its family was measured.

    Raises
    ------
    ValueError
        If nobody states its thermal design power.
    """
    family = accelerator.family
    machine = accelerator.platform.kind
    _, power, _ = power_of(snapshot, family, accelerator.memory_technology, machine)
    hardware = held(snapshot, _HARDWARE, SPEED[_HARDWARE], hardware_keys(family))
    _, around = infrastructure_of(snapshot)
    return PowerNeeds(
        idle_w=float(around.idle_power_w(accelerator).value),
        resident_ratio=power.resident_ratio,
        memory_j_per_byte=power.memory_j_per_byte,
        memory_ratio=float(hardware.figures["memory_ratio"].value),
    )


def infrastructure_of(snapshot: CatalogSnapshot) -> tuple[str, Infrastructure]:
    """What stands around accelerators, with the id of its figures."""
    id_ = "infrastructure/default"
    return id_, from_figures(Infrastructure, snapshot.calibrations[id_].value)
