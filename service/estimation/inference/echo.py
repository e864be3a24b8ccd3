"""The deployment as it was understood, every default filled in: part of many answers."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, NotRequired, TypeAlias

from service.core import deployment
from service.core.backends import Backend
from service.core.deployment import Accelerator, InferenceWorkload
from service.core.elementwise import Number, plain, whole
from service.core.engine_defaults import START_SETTINGS, UsageContext
from service.core.performance.inference.speculation import expected_tokens
from service.core.performance.inference.tasks import prefill_tokens
from service.core.performance.kernels import met_activations
from service.estimation.answers import Answer, IfAny, Parallelism
from service.estimation.detail import WHOLE, Detail, part_of
from service.estimation.inference.deployment import ResolvedDeployment
from service.estimation.inference.speculation import ResolvedSpeculation
from service.estimation.requests import OffloadRequest, ServingRequest, WorkloadRequest
from service.estimation.writing import repeated, written

#: Fields of the workload that say what encoders read.
_OF_SENSES = ("audio_s", "images_per_request", "image_width_px", "image_height_px")
#: Settings of serving that are resolved before they are repeated.
_RESOLVED = (
    *("engine", "backend", "usage_context", *START_SETTINGS),
    *("speculative", "disaggregated", "memory_tiers", "offload"),
)


#: What of the workload is resolved before it is repeated.
_RESOLVED_LOAD = ("beam_width", "concurrency", "input_tokens", "output_tokens")


class Precision(Answer):
    """Number formats by id."""

    weights: str
    kv_cache: str
    activations: str


if TYPE_CHECKING:
    AskedWorkload: TypeAlias = Answer
    EngineSettings: TypeAlias = Answer
    Offload: TypeAlias = Answer
else:
    AskedWorkload = repeated(WorkloadRequest, *_RESOLVED_LOAD, *_OF_SENSES)
    EngineSettings = repeated(ServingRequest, *_RESOLVED)
    Offload = repeated(OffloadRequest)


class LengthSpread(Answer):
    """How lengths differ, as ratios to their mean."""

    square_ratio: float
    """Mean of the squares over the square of the mean."""
    p50_ratio: float
    """Median over the mean."""
    p95_ratio: float
    """95th percentile over the mean."""
    p99_ratio: float
    """99th percentile over the mean."""


class Workload(AskedWorkload):
    """The workload as it was understood."""

    input_tokens: float
    """Mean prompt length."""
    output_tokens: float
    """Mean number of generated tokens."""
    input_spread: NotRequired[IfAny[LengthSpread]]
    """Where prompts differ in length."""
    output_spread: NotRequired[IfAny[LengthSpread]]
    """Where answers differ in length."""
    concurrency: int
    """Requests in flight over all replicas."""
    beam_width: int
    """Number of beams for each prompt; 1 without beam search."""
    encoded_tokens: int
    """Positions (tokens or frames of audio) that the encoder reads for each request; 0 without an
    encoder. The decoder then begins with input_tokens."""
    images_per_request: int
    image_tokens: int
    """Tokens of all images of a request, part of input_tokens."""
    audio_tokens: int
    """Tokens of the audio of a request, part of input_tokens."""
    task_prefill_tokens: float
    """Prompt tokens computed over all calls."""


class Disaggregated(Answer):
    """Pools for prompts and for decoding as they were understood."""

    prefill_replicas: NotRequired[IfAny[int]]
    """If left out, the number that balances both pools."""
    link_bytes_per_s: float
    """Bandwidth of the link between a prefill and a decode replica."""


class Speculative(Answer):
    """Speculative decoding as it was understood."""

    draft_model: NotRequired[IfAny[str]]
    """Id in /v1/models, or inline; left out where drafts cost nothing."""
    draft_weights: NotRequired[IfAny[str]]
    """Number format of the draft's weights, by id."""
    draft_tokens: int
    """Tokens that are proposed at a time."""
    acceptance_ratio: float
    """Probability that a proposed token is accepted if all before it were."""
    tokens_per_check: float
    """Expected: 1 + a + a² + … + a^k."""


class Serving(EngineSettings):
    """The engine settings as they were understood."""

    engine: str
    """The engine by its id."""
    engine_generation: NotRequired[IfAny[str]]
    """Id of the engine's generation in /v1/engines, if it has several."""
    backend: NotRequired[IfAny[Backend]]
    """Interface by which the engine drives the accelerators, if it has a choice."""
    usage_context: UsageContext
    """How requests reach the engine."""
    memory_utilization_ratio: float
    """Share of memory that the engine may use."""
    chunked_prefill_tokens: int
    """Token budget of a step."""
    max_running_sequences: int
    """Sequences run at once on a replica."""
    speculative: NotRequired[IfAny[Speculative]]
    disaggregated: NotRequired[IfAny[Disaggregated]]
    memory_tiers: list[str]
    offload: NotRequired[IfAny[Offload]]


@part_of("deployment")
class DeploymentSettings(Answer, total=False):
    """The settings as they were understood, every default filled in."""

    total_parameters: int
    active_parameters: int
    """Parameters that one token uses."""
    power_limit_w: IfAny[float]
    """Limit of power of each accelerator, where it is below its thermal design power."""
    workload: Workload
    serving: Serving


class Deployment(DeploymentSettings):
    """The deployment as it was understood."""

    model: str
    accelerator: str
    accelerator_count: int
    platform: str | None
    """Machine by its id in /v1/platforms; null if none is known."""
    precision: Precision
    parallelism: Parallelism


class PlacedDeployment(Deployment):
    """A deployment with its region."""

    region: str | None
    """Null where none was asked for."""


def echo(resolved: ResolvedDeployment, detail: Detail = WHOLE) -> Deployment:
    """The deployment as it was understood; with every default filled in, if that is included."""
    deployment, model = resolved.deployment, resolved.model
    understood: Deployment = {
        "model": model.id,
        "accelerator": resolved.accelerator.id,
        "accelerator_count": deployment.parallelism.accelerator_count,
        "platform": None if resolved.machine is None else resolved.machine.id,
        "precision": {
            "weights": deployment.precision.weights.id,
            "kv_cache": deployment.precision.kv_cache.id,
            "activations": met_activations(
                deployment.precision,
                deployment.accelerator,
                resolved.calibration.performance.engine,
            ),
        },
        "parallelism": written(deployment.parallelism, Parallelism),
    }
    if not detail.has("deployment"):
        return understood
    return {
        **understood,
        "total_parameters": model.value.total_parameters,
        "active_parameters": model.value.active_parameters,
        "power_limit_w": power_limit(deployment.accelerator),
        "workload": _workload(resolved.workload),
        "serving": _serving(resolved),
    }


def power_limit(accelerator: Accelerator) -> float | None:
    """The limit of power that was asked for [W], None without one."""
    limit_w = float(accelerator.power_limit_w)
    return limit_w if isfinite(limit_w) else None


def _workload(workload: InferenceWorkload) -> Workload:
    image = workload.image
    return {
        **written(workload, AskedWorkload),
        "input_tokens": _plain(workload.input_tokens),
        "output_tokens": _plain(workload.output_tokens),
        "input_spread": _spread(workload.input_spread),
        "output_spread": _spread(workload.output_spread),
        "concurrency": whole(workload.concurrency),
        "beam_width": whole(workload.beams.width),
        "encoded_tokens": whole(workload.encoded_tokens),
        "images_per_request": whole(workload.images),
        "audio_tokens": whole(workload.audio_tokens),
        "image_tokens": 0 if image is None else whole(workload.images * image.tokens),
        "task_prefill_tokens": prefill_tokens(workload),
    }


def _plain(tokens: Number) -> float:
    """A length, without a fraction where it has none."""
    mean = plain(tokens)
    return whole(mean) if mean.is_integer() else mean


def _spread(spread: deployment.LengthSpread) -> LengthSpread | None:
    return None if spread is deployment.NO_SPREAD else written(spread, LengthSpread)


def _serving(resolved: ResolvedDeployment) -> Serving:
    serving = resolved.serving
    tiers = None if resolved.tiers is None else resolved.tiers.value
    pools = serving.disaggregation
    return {
        **written(serving, EngineSettings),
        "engine": serving.engine,
        "engine_generation": serving.engine_generation,
        "backend": serving.backend,
        "usage_context": serving.usage_context,
        "memory_utilization_ratio": float(serving.memory_utilization_ratio),
        "chunked_prefill_tokens": int(serving.chunked_prefill_tokens),
        "max_running_sequences": int(serving.max_running_sequences),
        "speculative": _speculative(resolved.speculation),
        "disaggregated": None
        if pools is None
        else {
            "prefill_replicas": pools.prefill_replicas,
            "link_bytes_per_s": float(pools.link.bandwidth_bytes_per_s),
        },
        "memory_tiers": [] if tiers is None else [tier.id for tier in tiers.shared],
        "offload": None if tiers is None else written(tiers.offload, Offload),
    }


def _speculative(resolved: ResolvedSpeculation | None) -> Speculative | None:
    if resolved is None:
        return None
    value = resolved.value
    return {
        "draft_model": None if resolved.draft is None else resolved.draft.id,
        "draft_weights": None if value.precision is None else value.precision.weights.id,
        "draft_tokens": value.draft_tokens,
        "acceptance_ratio": float(value.acceptance_ratio),
        "tokens_per_check": float(expected_tokens(value.acceptance_ratio, value.draft_tokens)),
    }
