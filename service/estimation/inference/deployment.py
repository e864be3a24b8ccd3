"""One inference deployment, resolved and computed: what all inference answers are made from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.architecture.padding import with_padded_heads
from service.core.architecture.tasks import usual_task
from service.core.deployment import (
    Accelerator,
    Deployment,
    InferenceWorkload,
    Parallelism,
    ServingSettings,
)
from service.core.estimate.inference import InferenceEstimate, InferenceSetup, estimate_inference
from service.core.explanation import EstimateWarning, Step, explain
from service.core.memory.inference import formulas
from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.inference.runtime import RuntimeOverheads
from service.core.memory.inference.tiers import InferenceTiers
from service.core.performance.inference.latency import InferenceLatency
from service.core.performance.kernels import OPERAND_BITS, multiplied_precision
from service.core.platform import Machine
from service.estimation.calibrations import Calibration, calibration
from service.estimation.defaults import accelerator_warnings
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.inference.filling import MOST, as_many_as_fit
from service.estimation.inference.lengths import mean_and_spread
from service.estimation.inference.speculation import ResolvedSpeculation, resolve_speculation
from service.estimation.inference.tasks import resolve_task, step_budget, task_workload
from service.estimation.inference.tiers import ResolvedTiers, resolve_tiers, tier_warnings
from service.estimation.layouts import (
    Layouts,
    left_over_warnings,
    resolve_parallelism,
    slow_link_warnings,
)
from service.estimation.learning.learnt import Learnt
from service.estimation.platforms import platform_warnings, resolve_placed
from service.estimation.requests import DeploymentRequest
from service.estimation.resolution import (
    Problems,
    check_precision_runs,
    resolve_disaggregation,
    resolve_model,
    served_precision,
    weights_format,
)
from service.estimation.software import (
    check_holds,
    check_reads,
    check_runs_on,
    loaded_precision,
    release_warnings,
    resolve_serving_engine,
    serving_pointer,
)
from service.estimation.starting import resolve_serving, start_settings
from service.estimation.writing import valued


@dataclass(frozen=True, slots=True)
class ResolvedDeployment:
    """A deployment with everything filled in that its request left open or referred to.

    ``machine`` is what the accelerators stand in, None where nobody knows. ``learnt`` is how own
    measurements corrected the calibration, None without any. ``compared`` is an estimate that was
    made to choose the layout, None where none was.
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
    asked_model, asked_accelerator = request.model, request.accelerator
    if asked_model is None or asked_accelerator is None:
        problems.refuse("", "a deployment needs a model and an accelerator")
    model = problems.attempt("/model", lambda: resolve_model(asked_model, snapshot))
    accelerator, machine = resolve_placed(
        asked_accelerator, request.platform, request.power_limit_w, snapshot, problems
    )
    given = () if accelerator is None else (accelerator.value,)
    files = () if model is None else (weights_format(request.precision, model.value).id,)
    release = resolve_serving_engine(request.serving, given, files, snapshot, problems)
    pads_heads = (
        release.engine in snapshot.engines and snapshot.engines[release.engine].value.pads_heads
    )
    parallelism = None
    if request.parallelism is not None:
        parallelism = resolve_parallelism(
            request.parallelism,
            request.accelerator_count,
            model.value if model is not None else None,
            problems,
            pads_heads=pads_heads,
        )
    problems.stop_if_any()
    model = problems.resolved(model)
    accelerator = problems.resolved(accelerator)
    pointer = serving_pointer(request.serving)
    check_runs_on(release, "inference", accelerator.value, pointer, snapshot, problems)
    used = resolve_task(request, model.value, problems)
    loaded = loaded_precision(request.precision, used, release, snapshot)
    precision = served_precision(loaded, used, problems)
    check_reads(release, precision.weights, "/precision/weights", snapshot, problems)
    check_holds(release, precision.kv_cache, "/precision/kv_cache", snapshot, problems)
    check_precision_runs(precision, accelerator.value, problems)
    tiers = resolve_tiers(request.serving, accelerator.value, snapshot, problems)
    speculation = resolve_speculation(
        request.serving.speculative, parallelism or Parallelism(), snapshot, problems
    )
    asked = request.workload.concurrency
    input_tokens, input_spread = mean_and_spread(request.workload.input_tokens)
    output_tokens, output_spread = mean_and_spread(request.workload.output_tokens)
    workload = valued(
        InferenceWorkload,
        request.workload,
        concurrency=1.0 if asked == MOST else float(asked),
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        input_spread=input_spread,
        output_spread=output_spread,
        task=request.workload.task or usual_task(model.value),
        arrivals=request.workload.arrivals or "spread",
    )
    workload = task_workload(request, workload, model.value, problems)
    arrivals = request.workload.arrivals
    if arrivals == "at_once" and request.serving.disaggregated is not None:
        problems.add("/workload/arrivals", "pools are estimated under requests that keep coming")
    start = start_settings(request.serving, release, used, accelerator.value, snapshot, arrivals)
    serving = replace(
        resolve_serving(request.serving, release, start, snapshot, arrivals),
        speculation=None if speculation is None else speculation.value,
        chunked_prefill_tokens=step_budget(start.chunked_prefill_tokens, workload),
    )
    chosen = calibration(snapshot, serving.release, accelerator.value)
    laid_out = Layouts(
        deployment=Deployment(used, precision, accelerator.value, parallelism or Parallelism()),
        workload=workload,
        serving=serving,
        runtime=chosen.runtime,
        calibration=chosen.performance,
        most=asked == MOST,
        least_copies=1 if request.serving.disaggregated is None else 2,
        spills=tiers is not None,
        pads_heads=pads_heads,
        divides_layers=snapshot.engines[release.engine].value.divides_layers,
        shares_experts=snapshot.engines[release.engine].value.shares_experts,
    )
    compared = None
    if parallelism is None:
        problems.stop_if_any()
        usual = laid_out.usual(request.accelerator_count or 1)
        parallelism, compared = usual.parallelism, usual.estimate
    disaggregation = resolve_disaggregation(
        request.serving.disaggregated, accelerator.value, parallelism, problems
    )
    problems.stop_if_any()
    serving = replace(serving, disaggregation=disaggregation)
    held = with_padded_heads(used, parallelism.tensor) if pads_heads else used
    deployment = Deployment(held, precision, accelerator.value, parallelism)
    if asked == MOST:
        workload = as_many_as_fit(deployment, workload, serving, chosen.runtime)
    warnings = [*model.value.warnings, *chosen.warnings]
    warnings += release_warnings(release, snapshot)
    warnings += accelerator_warnings(accelerator)
    warnings += _padding_warnings(model.value, deployment)
    if request.parallelism is None:
        count = request.accelerator_count or 1
        warnings += left_over_warnings(parallelism, count, model.value)
    else:
        warnings += slow_link_warnings(laid_out)
    warnings += platform_warnings(accelerator.value, machine, parallelism)
    warnings += _precision_warnings(deployment)
    warnings += _setting_warnings(serving, used, release.engine, chosen.runtime)
    warnings += _length_warnings(deployment, workload, serving)
    warnings += tiers.warnings if tiers is not None else ()
    warnings += speculation.warnings if speculation is not None else ()
    return ResolvedDeployment(
        model,
        accelerator,
        deployment,
        workload,
        serving,
        chosen,
        tuple(warnings),
        tiers,
        speculation,
        machine=machine,
        compared=compared,
    )


def compute_deployment(resolved: ResolvedDeployment) -> ComputedDeployment:
    """Memory and latency of a resolved deployment."""
    setup, compared = resolved.setup, resolved.compared
    if compared is not None and compared.setup == setup:
        estimate = compared
    else:
        estimate = estimate_inference(setup)
    return ComputedDeployment(
        resolved, estimate, (*resolved.warnings, *_estimate_warnings(estimate))
    )


def _estimate_warnings(estimate: InferenceEstimate) -> Iterator[EstimateWarning]:
    """What a careful colleague would say of the memory and the load."""
    latency = estimate.latency
    if estimate.tiers is not None:
        yield from tier_warnings(estimate.tiers)
    if estimate.tiers is None or not estimate.tiers.fits:
        yield from _memory_warnings(estimate.memory)
    if latency.load is not None and latency.load.saturated:
        rate = latency.saturation_requests_per_s.value
        yield EstimateWarning(
            "saturated",
            f"requests arrive faster than they can be served: at most {rate:.3g} a second are "
            "sustained, and waiting times grow without end",
        )


def _memory_warnings(memory: InferenceMemory) -> Iterator[EstimateWarning]:
    if not memory.fits:
        missing, most = memory.shortfall_bytes.value / 1e9, memory.max_concurrency.value
        yield EstimateWarning(
            "does_not_fit",
            f"the deployment needs {missing:.1f} GB more memory per accelerator than there is"
            + (
                f"; at most {most:.0f} requests can be in flight, the others wait"
                if most >= memory.deployment.parallelism.data
                else "; speed, energy and impacts assume that memory were large enough"
            ),
        )
    elif memory.fits_certainty != "yes":
        yield EstimateWarning(
            "fits_narrowly", "the upper end of the memory interval exceeds what the engine may use"
        )


def _padding_warnings(asked: ModelArchitecture, deployment: Deployment) -> list[EstimateWarning]:
    """That heads were added, as otherwise layouts that do not divide them are refused."""
    before, held = asked.query_head_counts, deployment.architecture.query_head_counts
    if before == held:
        return []
    return [
        EstimateWarning(
            "padded_heads",
            f"the engine fills {', '.join(map(str, sorted(before)))} attention heads up to "
            f"{', '.join(map(str, sorted(held)))}, so that {deployment.parallelism.tensor} "
            "accelerators divide them; the heads added take memory and time",
        )
    ]


def _precision_warnings(deployment: Deployment) -> list[EstimateWarning]:
    weights, accelerator = deployment.precision.weights, deployment.accelerator
    used = multiplied_precision(accelerator, weights.matrix_precision)
    if OPERAND_BITS[used] <= OPERAND_BITS[weights.matrix_precision]:
        return []
    return [
        EstimateWarning(
            "precision_not_native",
            f"{accelerator.name} cannot multiply {weights.id.upper()} directly: weights are "
            f"widened to {used.upper()} first, which saves memory and no computing time",
        )
    ]


def _setting_warnings(
    serving: ServingSettings, model: ModelArchitecture, engine: str, runtime: RuntimeOverheads
) -> Iterator[EstimateWarning]:
    """What to say of settings that the engine or the model has no use for."""
    held = runtime.of(serving.release)
    if serving.flash_attention is False and not held.bytes_per_score:
        yield EstimateWarning(
            "setting_unused",
            f"{engine} always fuses attention: asking for scores that are stored changes nothing",
            about="serving.flash_attention",
        )
    if serving.attention_density_ratio < 1.0:
        yield EstimateWarning(
            "attention_is_sparse",
            f"attention to {serving.attention_density_ratio:.3g} of the tokens needs a kernel that "
            f"leaves the others out, which {engine} has for models that were trained so: what it "
            "costs in quality depends on model and task, and choosing tokens costs time that is "
            "not counted",
        )
    if serving.limit_mm_per_prompt is None:
        return
    if model.images is None or not held.profiles_images:
        yield EstimateWarning(
            "setting_unused",
            f"{engine} is not known to set memory aside for the images of such a model: how many "
            "a prompt may hold changes nothing",
            about="serving.limit_mm_per_prompt",
        )


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
            f"{tokens:.0f} tokens per sequence exceed the limit of {limit} that the model or the "
            "settings allow",
        )
    ]
