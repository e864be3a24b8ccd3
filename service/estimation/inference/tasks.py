"""What a model is asked to do: generate, embed or rank, and what follows for the request."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Literal

from service.core import elementwise
from service.core.architecture.images import image_view
from service.core.architecture.model import ModelArchitecture
from service.core.architecture.tasks import for_task, usual_task
from service.core.deployment import InferenceWorkload, ServingSettings
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.requests import DeploymentRequest, ServingRequest
from service.estimation.resolution import Problems

#: Tokens that a model which hears begins with: start, language, task, no timestamps.
#: Source: Radford et al., Whisper, 2022, section 2.3, https://arxiv.org/abs/2212.04356.
_INSTRUCTIONS = 4.0


def resolve_task(
    task: Literal["generate", "embed", "rerank"] | None,
    serving: ServingRequest,
    model: ModelArchitecture,
    problems: Problems,
) -> ModelArchitecture:
    """The model as engines hold it for the task; tasks that it cannot do are noted."""
    task = task or usual_task(model)
    if task == "generate":
        if not model.generates:
            problems.add(
                "/workload/task",
                f"{model.model_type} is an encoder: it can embed and rerank, not generate",
            )
        elif model.encoder is not None:
            _refuse_decoding(serving, "cannot be estimated for models with an encoder", problems)
        return model
    if model.encoder is not None:
        problems.add("/workload/task", f"{model.model_type} models generate; they do not {task}")
        return model
    _refuse_decoding(serving, f"no tokens are decoded to {task}", problems)
    return for_task(model, task)


def _refuse_decoding(serving: ServingRequest, reason: str, problems: Problems) -> None:
    """Note settings of how tokens are decoded, where they have no meaning."""
    for name in ("speculative", "disaggregated"):
        if getattr(serving, name) is not None:
            problems.add(f"/serving/{name}", reason)


def task_workload(
    request: DeploymentRequest | ImpactsRequest,
    workload: InferenceWorkload,
    model: ModelArchitecture,
    problems: Problems,
) -> InferenceWorkload:
    """The workload as a model does it: what an encoder reads, and one result to embed or rank.

    Without a length prompts are no longer than the model reads. Audio that is longer than a window,
    or that a model does not hear, is noted.
    """
    workload = _within_limit(request, workload, model)
    encoder, audio_s = model.encoder, request.workload.audio_s
    hears = model.audio.encoder if model.audio is not None else encoder
    if audio_s is not None and (hears is None or hears.window_s is None):
        problems.add(
            "/workload/audio_s",
            f"{model.model_type} models read no audio, or the way they do is not known here",
        )
    elif audio_s is not None and hears is not None and audio_s > (hears.window_s or 0.0):
        problems.add(
            "/workload/audio_s",
            f"{model.model_type} models read {hears.window_s:g} s at a time: ask for audio_s "
            f"{hears.window_s:g}, and count {ceil(audio_s / (hears.window_s or audio_s))} requests "
            "for each recording",
        )
    workload = _with_images(request, workload, model, problems)
    workload = _with_audio(audio_s, workload, model)
    if workload.task != "generate":
        return replace(workload, output_tokens=1.0)
    if encoder is None:
        return workload
    if encoder.window_positions is None or encoder.window_s is None:
        return replace(workload, encoded_tokens=workload.input_tokens, input_tokens=1.0)
    asked = _tells_input(request)
    return replace(
        workload,
        encoded_tokens=float(encoder.window_positions),
        input_tokens=workload.input_tokens if asked else _INSTRUCTIONS,
    )


def _tells_input(request: DeploymentRequest | ImpactsRequest) -> bool:
    return "input_tokens" in request.workload.model_fields_set


def _within_limit(
    request: DeploymentRequest | ImpactsRequest,
    workload: InferenceWorkload,
    model: ModelArchitecture,
) -> InferenceWorkload:
    """The workload with a prompt that leaves room for the answer, where no length is stated."""
    limit = request.serving.max_model_len or model.max_position_embeddings
    if _tells_input(request) or limit is None or model.encoder is not None:
        return workload
    answer = workload.output_tokens if workload.task == "generate" else 0.0
    room = elementwise.maximum(limit - answer, 1.0)
    return replace(workload, input_tokens=elementwise.minimum(workload.input_tokens, room))


def _with_audio(
    audio_s: float | None, workload: InferenceWorkload, model: ModelArchitecture
) -> InferenceWorkload:
    """The workload with the tokens of its audio in the prompt: a whole window is encoded."""
    if audio_s is None or model.audio is None:
        return workload
    encoder = model.audio.encoder
    if encoder.window_positions is None or encoder.window_s is None:
        return workload
    heard = ceil(min(audio_s / encoder.window_s, 1.0) * encoder.window_positions)
    tokens = float(max(heard // model.audio.pooled, 1))
    return replace(
        workload,
        audio_positions=float(encoder.window_positions),
        audio_tokens=tokens,
        input_tokens=workload.input_tokens + tokens,
    )


def _with_images(
    request: DeploymentRequest | ImpactsRequest,
    workload: InferenceWorkload,
    model: ModelArchitecture,
    problems: Problems,
) -> InferenceWorkload:
    """The workload with the tokens of its images in the prompt; notes models that see none."""
    asked = request.workload
    if not asked.images_per_request:
        return workload
    grid = None if model.images is None else model.images.grid
    if grid is None:
        apart = model.images is not None and model.images.cross_attended
        problems.add(
            "/workload/images_per_request",
            "this model reads images in separate cross-attention layers, whose time is not "
            "computed; leave images out to estimate text alone"
            if apart
            else f"{model.model_type} models read no images, or the way they do is not known here",
        )
        return workload
    image = image_view(grid, asked.image_width_px, asked.image_height_px)
    return replace(
        workload,
        images=float(asked.images_per_request),
        image=image,
        input_tokens=workload.input_tokens + asked.images_per_request * image.tokens,
    )


def with_step_budget(serving: ServingSettings, workload: InferenceWorkload) -> ServingSettings:
    """Settings whose steps take a sequence that is embedded or ranked in one go."""
    if workload.task == "generate":
        return serving
    budget = max(float(serving.chunked_prefill_tokens), elementwise.ceil(workload.input_tokens))
    return replace(serving, chunked_prefill_tokens=budget)
