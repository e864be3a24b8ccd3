"""How a request's model is laid out: the degrees that it asks for, or what most people do."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd

from service.core.architecture.model import MixtureOfExperts, ModelArchitecture
from service.core.architecture.padding import with_padded_heads
from service.core.architecture.sharding import divisors
from service.core.deployment import Deployment, InferenceWorkload, Parallelism, ServingSettings
from service.core.elementwise import plain
from service.core.estimate.inference import InferenceEstimate, InferenceSetup, estimate_inference
from service.core.explanation import EstimateWarning
from service.core.layouts import Merit, divides, has_fast_links, usual_layout
from service.core.memory.inference.memory import InferenceMemory, inference_memory
from service.core.memory.inference.plans import weights_overflow
from service.core.memory.inference.runtime import RuntimeOverheads
from service.core.performance.calibration import PerformanceCalibration
from service.estimation.requests import ParallelismRequest
from service.estimation.resolution import Problems

_DEGREES = ("tensor", "pipeline", "expert", "data", "context")


def completed(asked: ParallelismRequest, accelerator_count: int | None) -> ParallelismRequest:
    """The degrees with as many copies as the accelerators hold, where their number is left open."""
    if asked.data is not None:
        return asked
    copies = (accelerator_count or 1) // (asked.tensor * asked.pipeline * asked.context)
    return asked.model_copy(update={"data": max(copies, 1)})


def resolve_parallelism(
    asked: ParallelismRequest,
    accelerator_count: int | None,
    architecture: ModelArchitecture | None,
    problems: Problems,
    *,
    pads_heads: bool = False,
) -> Parallelism | None:
    """Degrees of parallelism that the model's shape and an engine that may pad heads allow.

    Returns None after noting, with numbers that would work, what is impossible.
    """
    told, asked = asked, completed(asked, accelerator_count)
    parallelism = Parallelism(**{name: getattr(asked, name) for name in _DEGREES})
    if architecture is not None and pads_heads:
        architecture = with_padded_heads(architecture, parallelism.tensor)
    if accelerator_count is not None and parallelism.accelerator_count != accelerator_count:
        replica = parallelism.replica_accelerators
        possible = architecture is None or _check_replica(parallelism, architecture, problems)
        if told.data is not None:
            said = (
                f"tensor {asked.tensor} × pipeline {asked.pipeline} × data {asked.data} × context "
                f"{asked.context} use {parallelism.accelerator_count} accelerators, not "
                f"{accelerator_count}; data counts replicas, accelerator_count counts all "
                "accelerators"
            )
            # Numbers of replicas help only where one of them is possible.
            working = _working_data(replica, accelerator_count) if possible else ""
            problems.add("/accelerator_count", f"{said}{working}")
        elif possible:
            problems.add("/accelerator_count", _no_multiple(replica, accelerator_count))
        return None
    if architecture is None:
        return None
    if not check_parallelism(parallelism, architecture, problems):
        return None
    return parallelism


def _working_data(replica: int, count: int) -> str:
    """Replicas that would make up the accelerators, or the nearest numbers that replicas do."""
    below, over = divmod(count, replica)
    if not over:
        return f"; data {below} would work"
    return f"; replicas take {replica}, so that {_multiples(replica, count)} would work"


def _no_multiple(replica: int, count: int) -> str:
    """What to say of accelerators that copies of so many each do not make up."""
    return (
        f"a copy of the model takes {replica} accelerators in this layout, and {count} is no "
        f"multiple of that; {_multiples(replica, count)} would work"
    )


def _multiples(replica: int, count: int) -> str:
    """The nearest multiples of a replica's accelerators around a count, in words."""
    below = count // replica
    return " or ".join(str(n * replica) for n in (below, below + 1) if n)


def check_division(
    architecture: ModelArchitecture, parallelism: Parallelism, pointer: str, problems: Problems
) -> None:
    """Note it if a model's heads or layers cannot be divided in the given way."""
    for heads in architecture.query_head_counts:
        if heads % parallelism.tensor:
            problems.add(
                pointer, f"its {heads} attention heads cannot be divided by {parallelism.tensor}"
            )
    if parallelism.pipeline > architecture.layer_count:
        problems.add(
            pointer,
            f"its {architecture.layer_count} layers are fewer than {parallelism.pipeline} stages",
        )


def check_parallelism(
    parallelism: Parallelism, architecture: ModelArchitecture, problems: Problems
) -> bool:
    """Whether a model can be divided in the given way; notes, with degrees that work, if not."""
    fine = _check_replica(parallelism, architecture, problems)
    return _possible_experts(parallelism, architecture, problems) and fine


def _check_replica(
    parallelism: Parallelism, architecture: ModelArchitecture, problems: Problems
) -> bool:
    """Whether heads and layers can be divided in the given way; notes what works, if not."""
    fine = True
    for heads in architecture.query_head_counts:
        if heads % parallelism.tensor:
            problems.add(
                "/parallelism/tensor",
                f"{heads} attention heads cannot be divided by {parallelism.tensor}; "
                + _nearest(heads, parallelism, architecture.layer_count),
            )
            fine = False
    if parallelism.pipeline > architecture.layer_count:
        problems.add(
            "/parallelism/pipeline",
            f"{architecture.layer_count} layers cannot fill {parallelism.pipeline} stages; at most "
            f"{architecture.layer_count} work",
        )
        fine = False
    return fine


def _nearest(heads: int, parallelism: Parallelism, layers: int) -> str:
    """The nearest layouts that divide so many heads, in words."""
    wanted = parallelism.tensor
    working = divisors(heads)
    below, above = (
        [n for n in working if n < wanted][-1:],
        [n for n in working if n > wanted][:1],
    )
    said = f"the nearest degrees that work: {', '.join(map(str, below + above))}"
    shared = gcd(heads, wanted)
    stages = wanted // shared * parallelism.pipeline
    if stages > layers:
        return said
    return f"{said}; tensor {shared} × pipeline {stages} takes as many accelerators"


def _possible_experts(
    parallelism: Parallelism, architecture: ModelArchitecture, problems: Problems
) -> bool:
    if parallelism.expert == 1:
        return True
    experts = [
        group.feed_forward.experts
        for group in architecture.groups
        if isinstance(group.feed_forward, MixtureOfExperts)
    ]
    if not experts:
        problems.add("/parallelism/expert", "the model has no experts; only 1 works")
        return False
    ranks = parallelism.tensor * parallelism.data
    if ranks % parallelism.expert or parallelism.expert > min(experts):
        working = ", ".join(str(n) for n in divisors(ranks) if n <= min(experts))
        problems.add(
            "/parallelism/expert",
            f"{parallelism.expert} expert ranks do not divide tensor × data = {ranks} ranks with "
            f"{min(experts)} experts; these degrees work: {working}",
        )
        return False
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Layouts:
    """A deployment that could be laid out in several ways.

    ``deployment`` has the layout that was asked for, if any. ``most`` asks for as many requests in
    flight as fit; the other fields are what estimates are computed from, or parameters of
    :func:`service.core.layouts.usual_layout`.
    """

    deployment: Deployment
    workload: InferenceWorkload
    serving: ServingSettings
    runtime: RuntimeOverheads
    calibration: PerformanceCalibration
    most: bool = False
    least_copies: int = 1
    spills: bool = False
    pads_heads: bool = False
    divides_layers: bool = False
    shares_experts: bool = False

    def usual(self, count: int) -> UsualLayout:
        """How most people lay it out on so many accelerators."""
        if count == 1:
            return UsualLayout(Parallelism())
        held: dict[Parallelism, InferenceMemory] = {}
        compared: dict[Parallelism, InferenceEstimate] = {}

        def room(layout: Parallelism, requests: float) -> bool:
            memory = self._memory(layout, requests)
            if memory is None:
                return False
            held[layout] = memory
            return bool(memory.fits)

        def merit(layout: Parallelism) -> Merit:
            estimate = estimate_inference(self._setup(layout), held[layout])
            if held[layout].workload is self.workload:
                compared[layout] = estimate
            latency = estimate.latency
            return Merit(plain(latency.saturation_per_s), plain(latency.mean_e2e_s))

        parallelism = usual_layout(
            self.deployment.architecture,
            self.deployment.accelerator,
            count,
            self._in_flight,
            room,
            merit=None if self.most else merit,
            least_copies=self.least_copies,
            spills=self.spills,
            pads_heads=self.pads_heads,
            divides_layers=self.divides_layers,
            shares_experts=self.shares_experts,
        )
        return UsualLayout(parallelism, compared.get(parallelism))

    @property
    def _in_flight(self) -> float | None:
        """Requests in flight over all copies, None if nobody says."""
        if self.most or self.workload.requests_per_s is not None:
            return None
        return plain(self.workload.concurrency)

    def _memory(self, layout: Parallelism, requests: float) -> InferenceMemory | None:
        """Memory of copies that hold so many requests each.

        None if the draft is not divided so, or weights alone do not fit.
        """
        speculation = self.serving.speculation
        draft = None if speculation is None else speculation.architecture
        if draft is not None and not divides(draft, layout):
            return None
        deployment, workload = self.laid_out(layout), self.workload
        if weights_overflow(deployment, self.serving, self.runtime):
            return None
        if requests * layout.data != workload.concurrency:
            workload = replace(workload, concurrency=requests * layout.data)
        return inference_memory(deployment, workload, self.serving, self.runtime)

    def _setup(self, layout: Parallelism) -> InferenceSetup:
        return InferenceSetup(
            self.laid_out(layout), self.workload, self.serving, self.runtime, self.calibration
        )

    def laid_out(self, layout: Parallelism) -> Deployment:
        """The deployment in a layout, with the heads that its engine adds."""
        held = self.deployment.architecture
        if self.pads_heads:
            cores = int(self.deployment.accelerator.core_count or 1)
            held = with_padded_heads(held, layout.tensor * cores)
        return replace(self.deployment, architecture=held, parallelism=layout)


@dataclass(frozen=True, slots=True)
class UsualLayout:
    """A layout that stands in for one that nobody asked for.

    ``estimate`` is by what it was chosen, None where there was nothing to choose from.
    """

    parallelism: Parallelism
    estimate: InferenceEstimate | None = None


def left_over_warnings(
    parallelism: Parallelism, count: int, architecture: ModelArchitecture
) -> Iterator[EstimateWarning]:
    """That accelerators are left over by a layout that nobody asked for."""
    left = count - parallelism.accelerator_count
    if not left:
        return
    tensor = gcd(count, *architecture.query_head_counts)
    every = Parallelism(tensor=tensor, pipeline=count // tensor)
    if not divides(architecture, every):
        every = Parallelism(pipeline=count)
    other = f"; {described(every)} would take all" if divides(architecture, every) else ""
    yield EstimateWarning(
        "accelerators_left_over",
        f"{left} of {count} accelerators {'is' if left == 1 else 'are'} left over and not counted: "
        f"the model runs as {described(parallelism)}, to suit its size and the number of its "
        f"attention heads{other}",
    )


def slow_link_warnings(layouts: Layouts) -> Iterator[EstimateWarning]:
    """That the layout asked for reaches across slow links where the usual one does not."""
    accelerator, asked = layouts.deployment.accelerator, layouts.deployment.parallelism
    beyond = asked.tensor > accelerator.scale_up_domain_accelerators
    if asked.tensor == 1 or (has_fast_links(accelerator) and not beyond):
        return
    better = layouts.usual(asked.accelerator_count).parallelism
    if better.tensor >= asked.tensor:
        return
    links = (
        f"reaches beyond the {accelerator.scale_up_domain_accelerators} accelerators that fast "
        "links join"
        if beyond
        else "exchanges activations in every layer over links through the host"
    )
    yield EstimateWarning(
        "tensor_across_slow_links",
        f"tensor {asked.tensor} {links}; {described(better)} needs fewer such messages",
    )


def described(parallelism: Parallelism) -> str:
    """A layout in words: its degrees other than 1."""
    degrees = [
        f"{name} {degree}" for name in _DEGREES if (degree := getattr(parallelism, name)) > 1
    ]
    return " × ".join(degrees) or "one copy on one accelerator"
