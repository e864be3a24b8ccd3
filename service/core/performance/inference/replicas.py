"""Replicas of a deployment, with the requests that they run."""

from __future__ import annotations

from service.core.deployment import Deployment, InferenceWorkload, ServingSettings
from service.core.elementwise import Number, is_nothing, maximum, scaled
from service.core.performance.beams import with_beams
from service.core.performance.buckets import filled_tokens
from service.core.performance.calibration import PerformanceCalibration
from service.core.performance.inference.replica import Replica, Requests
from service.core.performance.inference.speculation import Drafting
from service.core.performance.step import rank_steps, step_time
from service.core.performance.steps import StepLoad, StepTime
from service.core.performance.work import rank_work


def new_input_tokens(workload: InferenceWorkload, calibration: PerformanceCalibration) -> Number:
    """Prompt tokens that are computed: at least the last, whatever a cache holds [token].

    Those that a program fills the prompt up to, and of all beams, where each computes its prompt.
    """
    each = maximum(workload.input_tokens * (1.0 - workload.prefix_cached_ratio), 1.0)
    alike = is_nothing(workload.input_spread.square_ratio - 1.0)
    filled = filled_tokens(each, calibration.engine.prompt_bucket_tokens, alike)
    return scaled(filled, workload.beams.prompt_copies)


def received_s(workload: InferenceWorkload, calibration: PerformanceCalibration) -> Number:
    """Time that a server takes for a request beside its steps, where tokens are told to users [s].

    What scripts hand over by the thousand, to be read alone, is received while others are computed.
    """
    engine = calibration.engine
    return engine.received_s * engine.waited_ratio * (workload.output_tokens > 1)


def replica_of(
    deployment: Deployment,
    workload: InferenceWorkload,
    serving: ServingSettings,
    calibration: PerformanceCalibration,
) -> Replica:
    """A replica of a deployment with the requests that it runs."""
    parallelism, encoded_tokens = deployment.parallelism, workload.encoded_tokens
    work = rank_work(deployment.architecture, deployment.precision, parallelism).attending_sparsely(
        serving.attention_density_ratio
    )
    encoder: StepTime | None = None
    image, encodes = workload.image, work.encoder
    if encodes is not None:
        read = StepLoad(encoded_tokens, 1.0, encoded_tokens / 2.0, 0.0, 0.0)
    if image is not None:
        encodes, encoded_tokens = work.images, workload.images * image.tokens
        parts, patches = workload.images * image.parts, workload.images * image.patches
        read = StepLoad(patches, parts, image.patches / image.parts / 2.0, 0.0, 0.0)
    elif work.audio is not None and workload.audio_tokens:
        encodes, encoded_tokens = work.audio, workload.audio_tokens
        read = StepLoad(workload.audio_positions, 1.0, workload.audio_positions / 2.0, 0.0, 0.0)
    if encodes is not None:
        encoder = step_time(
            *(encodes, read, deployment.accelerator, parallelism, calibration),
            serving.flash_attention,
        )
    attending = with_beams(work.attending_to(encoded_tokens), workload)
    # Users come at a rate, and read along; a number in flight may be a script's.
    streaming = workload.requests_per_s is not None
    steps = rank_steps(
        *(attending, deployment.accelerator, parallelism, calibration),
        *(serving.flash_attention, serving.enforce_eager, streaming),
    )
    requests = Requests(
        new_input_tokens(workload, calibration),
        workload.input_tokens,
        workload.output_tokens,
        encoded_tokens,
        workload.input_spread,
        workload.output_spread,
        workload.beams,
    )
    drafting = _drafting(deployment, serving, calibration)
    return Replica(
        steps,
        parallelism,
        calibration,
        requests,
        serving.chunked_prefill_tokens,
        drafting,
        encoder,
        serving.prompts_apart,
        received_s(workload, calibration),
    )


def _drafting(
    deployment: Deployment, serving: ServingSettings, calibration: PerformanceCalibration
) -> Drafting | None:
    speculation, parallelism = serving.speculation, deployment.parallelism
    if speculation is None:
        return None
    steps = None
    if speculation.architecture is not None and speculation.precision is not None:
        work = rank_work(speculation.architecture, speculation.precision, parallelism)
        steps = rank_steps(
            *(work, deployment.accelerator, parallelism, calibration),
            *(serving.flash_attention, serving.enforce_eager),
        )
    return Drafting(steps, speculation.draft_tokens, speculation.acceptance_ratio)
