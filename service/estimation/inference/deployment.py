"""One inference deployment, resolved and computed: what all inference answers are made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.architecture.tasks import usual_task
from service.core.deployment import (
    Accelerator,
    Deployment,
    InferenceWorkload,
    Parallelism,
    ServingSettings,
)
from service.core.elementwise import plain
from service.core.engines import Engine
from service.core.estimate.inference import (
    InferenceEstimate,
    InferenceSetup,
    OtherChoice,
    estimate_inference,
    reaching_over,
)
from service.core.explanation import EstimateWarning, Step, explain
from service.core.layouts import shares_kv_heads, tensor_degrees
from service.core.memory.inference import formulas
from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.inference.tiers import InferenceTiers
from service.core.performance.inference.latency import InferenceLatency
from service.core.platform import Machine
from service.estimation.calibrations import Calibration
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.inference.admitted import longest_warnings
from service.estimation.inference.beams import resolve_beams
from service.estimation.inference.filling import MOST, as_many_as_fit
from service.estimation.inference.hosting import hosted
from service.estimation.inference.left_open import (
    NOTHING_LEFT_OPEN,
    LeftOpen,
    Otherwise,
    left_open_warnings,
    length_warnings,
)
from service.estimation.inference.lengths import mean_and_spread
from service.estimation.inference.speculation import ResolvedSpeculation
from service.estimation.inference.tasks import task_workload, with_step_budget
from service.estimation.inference.tiers import ResolvedTiers, tier_warnings
from service.estimation.inference.unused import unused_load
from service.estimation.layouts import (
    Layouts,
    left_over_warnings,
    slow_link_warnings,
)
from service.estimation.learning.learnt import Learnt
from service.estimation.platforms import platform_warnings
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import (
    Problems,
    resolve_disaggregation,
)
from service.estimation.writing import valued

#: Class of engines whose kernels hold equally many heads of keys and values on each rank.
_EVENLY = "compiled"
#: Degrees of tensor parallelism up to so many times the one asked for are named in its place.
_FURTHEST = 2


@dataclass(frozen=True, slots=True)
class ResolvedDeployment:
    """A deployment with everything filled in that its request left open or referred to.

    ``machine`` is what the accelerators stand in, None where nobody knows. ``learnt`` is how own
    measurements corrected the calibration, None without any. ``compared`` is an estimate that was
    made to choose the layout, None where none was. ``left_open`` is what else the request may mean,
    over which ranges reach. ``spilling`` names the engine if it leaves layers that have no room to
    the host's processors by itself, None if it does not.
    """

    model: Entry[ModelArchitecture]
    accelerator: Entry[Accelerator]
    deployment: Deployment
    workload: InferenceWorkload
    serving: ServingSettings
    calibration: Calibration
    warnings: tuple[EstimateWarning, ...]
    tiers: ResolvedTiers | None = None
    speculation: ResolvedSpeculation | None = None
    learnt: Learnt | None = None
    machine: Entry[Machine] | None = None
    compared: InferenceEstimate | None = None
    left_open: LeftOpen = NOTHING_LEFT_OPEN
    spilling: str | None = None

    @property
    def alone(self) -> ResolvedDeployment:
        """The same by the usual choices, whatever is left open."""
        return replace(self, left_open=NOTHING_LEFT_OPEN)

    @property
    def setup(self) -> InferenceSetup:
        """What the core computes with."""
        return InferenceSetup(
            deployment=self.deployment,
            workload=self.workload,
            serving=self.serving,
            runtime=self.calibration.runtime,
            calibration=self.calibration.performance,
            tiers=None if self.tiers is None else self.tiers.value,
            acceptance_log_sigma=0.0 if self.speculation is None else self.speculation.log_sigma,
        )

    def entries(self) -> list[tuple[str, Entry[Any]]]:
        """Catalog entries that were used."""
        draft = None if self.speculation is None else self.speculation.draft
        return [
            ("models", self.model),
            *(() if draft is None else (("models", draft),)),
            ("accelerators", self.accelerator),
            *(() if self.machine is None else (("platforms", self.machine),)),
            *(("calibrations", entry) for entry in self.calibration.used),
            *(("memory-tiers", entry) for entry in (self.tiers.entries if self.tiers else ())),
        ]


@dataclass(frozen=True, slots=True)
class ComputedDeployment:
    """A resolved deployment with what the core says of it, and what to say about that."""

    resolved: ResolvedDeployment
    estimate: InferenceEstimate
    warnings: tuple[EstimateWarning, ...]

    @property
    def memory(self) -> InferenceMemory:
        """Memory of the fullest accelerator."""
        return self.estimate.memory

    @property
    def latency(self) -> InferenceLatency:
        """Speed; when it does not fit, what it would be if memory were enough."""
        return self.estimate.latency

    @property
    def tiers(self) -> InferenceTiers | None:
        """The placement, where there is memory beyond the accelerator."""
        return self.estimate.tiers

    @property
    def generates(self) -> bool:
        """Whether it generates text, rather than embed or rank."""
        return self.resolved.deployment.architecture.generates

    @property
    def fits(self) -> bool:
        """Whether everything has a place, in the accelerator or outside it."""
        return bool(self.estimate.fits)

    def memory_steps(self) -> tuple[Step, ...]:
        """How the memory came about, with the placement where there is one."""
        steps = explain(self.memory, formulas.MEMORY)
        if self.tiers is None:
            return steps
        held = [step for tier in self.tiers.contents for step in explain(tier, formulas.TIER)]
        return (*steps, *explain(self.tiers, formulas.TIERS), *held)


def resolve_deployment(
    request: DeploymentRequest | ImpactsRequest, snapshot: CatalogSnapshot, problems: Problems
) -> ResolvedDeployment:
    """Fill in a deployment from the catalog.

    Raises
    ------
    Rejected
        With everything that is wrong with it, and all that ``problems`` held before.
    """
    found = hosted(request, snapshot, problems)
    accelerator, chosen, precision = found.accelerator, found.calibration, found.precision
    asked, pads_heads = request.workload.concurrency, found.engine.pads_heads
    input_tokens, input_spread = mean_and_spread(request.workload.input_tokens)
    output_tokens, output_spread = mean_and_spread(request.workload.output_tokens)
    workload = valued(
        InferenceWorkload,
        request.workload,
        concurrency=1.0 if asked == MOST else plain(asked),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        input_spread=input_spread,
        output_spread=output_spread,
        task=request.workload.task or usual_task(found.model.value),
        arrivals=request.workload.arrivals or "spread",
    )
    workload = task_workload(request, workload, found.model.value, problems)
    beams = resolve_beams(
        request.workload.beam_width,
        found.engine,
        accelerator.value.hardware,
        request.serving,
        snapshot,
        problems,
        generates=workload.task == "generate",
    )
    if beams is not workload.beams:
        workload = replace(workload, beams=beams)
    serving = with_step_budget(found.serving, workload)
    parallelism, compared = found.parallelism, None
    laid_out = Layouts(
        deployment=Deployment(
            found.architecture, precision, accelerator.value, parallelism or Parallelism()
        ),
        workload=workload,
        serving=serving,
        runtime=chosen.runtime,
        calibration=chosen.performance,
        most=asked == MOST,
        least_copies=1 if request.serving.disaggregated is None else 2,
        spills=found.tiers is not None,
        pads_heads=pads_heads,
        divides_layers=found.engine.divides_layers,
        shares_experts=found.engine.shares_experts,
    )
    if parallelism is None:
        problems.stop_if_any()
        usual = laid_out.usual(request.accelerator_count or 1)
        parallelism, compared = usual.parallelism, usual.estimate
    if request.serving.disaggregated is not None:
        pools = resolve_disaggregation(
            request.serving.disaggregated, accelerator.value, parallelism, problems
        )
        serving = replace(serving, disaggregation=pools)
    problems.stop_if_any()
    deployment = laid_out.laid_out(parallelism)

    def served(found: tuple[Otherwise, ...]) -> tuple[Otherwise, ...]:
        return tuple(
            replace(
                one,
                serving=replace(
                    with_step_budget(one.serving, workload), disaggregation=serving.disaggregation
                ),
            )
            for one in found
        )

    open_ = found.left_open
    if asked == MOST:
        workload = as_many_as_fit(deployment, workload, serving, chosen.runtime)
    warnings = [*found.warnings, *_padding_warnings(found.model.value, deployment)]
    warnings += _sharing_warnings(deployment, found.engine)
    if found.parallelism is None:
        count = request.accelerator_count or 1
        warnings += left_over_warnings(parallelism, count, found.model.value)
    else:
        warnings += slow_link_warnings(laid_out)
    warnings += platform_warnings(accelerator.value, found.machine, parallelism)
    warnings += found.setting_warnings
    warnings += unused_load(request)
    warnings += _length_warnings(deployment, workload, serving)
    warnings += found.tiers.warnings if found.tiers is not None else ()
    warnings += found.speculation.warnings if found.speculation is not None else ()
    return ResolvedDeployment(
        found.model,
        accelerator,
        deployment,
        workload,
        serving,
        chosen,
        tuple(warnings),
        found.tiers,
        found.speculation,
        machine=found.machine,
        compared=compared,
        left_open=replace(open_, choices=served(open_.choices)),
        spilling=found.engine.name if found.engine.offloaded == "host" else None,
    )


def compute_deployment(resolved: ResolvedDeployment) -> ComputedDeployment:
    """Memory and latency of a resolved deployment."""
    setup, compared = resolved.setup, resolved.compared
    if compared is not None and compared.setup == setup:
        estimate = compared
    else:
        estimate = estimate_inference(setup)
    open_, told = resolved.left_open, list(_estimate_warnings(estimate, resolved.spilling))
    if open_.choices:
        estimate = reaching_over(estimate, [_otherwise(setup, one) for one in open_.choices])
        told += left_open_warnings(estimate, open_)
    return ComputedDeployment(resolved, estimate, (*resolved.warnings, *told))


def _otherwise(setup: InferenceSetup, other: Otherwise) -> OtherChoice:
    made = replace(
        setup,
        serving=other.serving,
        runtime=other.calibration.runtime,
        calibration=other.calibration.performance,
    )
    return OtherChoice(other.setting, made, other.share_ratio, other.timed, other.sized)


def _estimate_warnings(
    estimate: InferenceEstimate, spilling: str | None
) -> Iterator[EstimateWarning]:
    """What a careful colleague would say of the memory and the load."""
    latency = estimate.latency
    if estimate.tiers is not None:
        yield from tier_warnings(estimate.tiers)
    if estimate.tiers is None or not estimate.tiers.fits:
        waiting = plain(latency.waiting_requests) > 0.0
        yield from _memory_warnings(estimate.memory, spilling, waiting=waiting)
    yield from length_warnings(estimate)
    yield from _waiting_warnings(estimate)
    if latency.load is not None and latency.load.saturated:
        rate = latency.saturation_requests_per_s.value
        yield EstimateWarning(
            "saturated",
            f"requests arrive faster than they can be served: at most {rate:.3g} a second can be "
            "sustained, and beyond that waiting times grow without end"
            + ("" if latency.endless else "; times are given in case it keeps up, as it just may"),
        )


def _waiting_warnings(estimate: InferenceEstimate) -> Iterator[EstimateWarning]:
    """That fewer requests run at once than are in flight, where a setting alone limits them."""
    workload, serving = estimate.setup.workload, estimate.setup.serving
    most = plain(serving.max_running_sequences * estimate.memory.deployment.parallelism.data)
    asked = plain(workload.concurrency)
    if workload.requests_per_s is not None or not estimate.memory.fits or asked <= most:
        return
    yield EstimateWarning(
        "more_than_run_at_once",
        f"of {asked:,.0f} requests, the engine as it is started runs at most {most:,.0f} at once, "
        "and the others wait; with a higher limit of running sequences more of them run",
        about="workload.concurrency",
    )


def _memory_warnings(
    memory: InferenceMemory, spilling: str | None, *, waiting: bool
) -> Iterator[EstimateWarning]:
    if not memory.fits:
        missing, most = memory.shortfall_bytes.value / 1e9, memory.max_concurrency.value
        outside = ""
        if spilling is not None and not memory.deployment.accelerator.unified_memory:
            outside = (
                f". {spilling} can leave layers that have no room to the host's processors: set "
                "serving.offload to estimate that"
            )
        yield EstimateWarning(
            "does_not_fit",
            f"the deployment needs {missing:,.1f} GB more memory per accelerator than there is"
            + (
                f"; at most {most:,.0f} requests can be in flight, and the others wait"
                if waiting and most >= memory.deployment.parallelism.data
                else "; speed, energy and impacts are given as if memory were large enough"
            )
            + outside,
        )
    elif memory.fits_certainty != "yes":
        yield EstimateWarning(
            "fits_narrowly", "the upper end of the memory interval exceeds what the engine may use"
        )
    if memory.fits:
        yield from longest_warnings(memory)


def _padding_warnings(asked: ModelArchitecture, deployment: Deployment) -> list[EstimateWarning]:
    """That heads were added, as otherwise layouts that do not divide them are refused."""
    before, held = asked.query_head_counts, deployment.architecture.query_head_counts
    if before == held:
        return []
    return [
        EstimateWarning(
            "padded_heads",
            f"the engine pads {', '.join(map(str, sorted(before)))} attention heads to "
            f"{', '.join(map(str, sorted(held)))}, so that they divide among "
            f"{deployment.parallelism.tensor} accelerators{_of_cores(deployment.accelerator)}; the "
            "added heads take memory and time",
        )
    ]


def _sharing_warnings(deployment: Deployment, engine: Engine) -> Iterator[EstimateWarning]:
    """That an engine refuses a number of ranks among which keys and values are not even."""
    model, tensor = deployment.architecture, deployment.parallelism.tensor
    evenly = engine.classes.get("inference") != _EVENLY or engine.pads_heads
    if evenly or shares_kv_heads(model, tensor):
        return
    heads = " or ".join(map(str, sorted(model.kv_head_counts)))
    working = tensor_degrees(model, _FURTHEST * tensor)
    near = sorted(working, key=lambda degree: abs(degree - tensor))[:2]
    yield EstimateWarning(
        "kv_heads_uneven",
        f"{engine.name} starts only if tensor parallelism divides the model's {heads} heads of "
        f"keys and values or is a multiple of them, which tensor {tensor} is not; the nearest "
        f"degrees that work: {', '.join(map(str, sorted(near)))}",
        about="parallelism.tensor",
    )


def _of_cores(accelerator: Accelerator) -> str:
    """How many cores each accelerator has that heads are divided among, where it is several."""
    cores = accelerator.core_count
    return "" if cores is None or cores == 1.0 else f" of {cores:.0f} cores"


def _length_warnings(
    deployment: Deployment, workload: InferenceWorkload, serving: ServingSettings
) -> list[EstimateWarning]:
    limit = serving.max_model_len or deployment.architecture.max_position_embeddings
    tokens = workload.sequence_tokens
    if limit is None or tokens <= limit:
        return []
    return [
        EstimateWarning(
            "context_beyond_model",
            f"{tokens:,.0f} tokens per sequence exceed the limit of {limit:,} set by the model or "
            "the request",
        )
    ]
