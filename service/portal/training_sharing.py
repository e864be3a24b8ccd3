"""A training run to take away: its report, commands, code, and its preview image."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.formatting import counted, number
from service.estimation.launching.training import run_start_of
from service.estimation.training.estimate import training_estimate
from service.estimation.verdict.verdict import Verdict, training_verdict
from service.portal.figures import sections
from service.portal.rendering import by_option, rendered
from service.portal.sharing import Snippet, preview_of, ways_to_ask
from service.portal.training_questions import TrainingPageRequest
from service.portal.training_view import RUN_FIGURES
from service.portal.views import own_name
from service.reports.document import Document
from service.reports.estimate import estimate_document


def training_share_page(request: TrainingPageRequest, snapshot: CatalogSnapshot, home: str) -> str:
    """Everything that can be taken away of a training run; ``home`` is the service's address."""
    estimate, verdict = _answered(request, snapshot)
    link = request.link()
    return rendered(
        "share.html",
        here="",
        title="Take it away",
        trail=((f"training?{link}", "The estimate"),),
        headline=verdict.headline,
        asked=_asked(verdict),
        load=_load(estimate),
        files="training",
        preview="training-preview.png",
        snippets=_snippets(request, estimate, snapshot, home),
        embeds=[],
        link=link,
        element=[],
        home=home,
    )


def training_report(request: TrainingPageRequest, snapshot: CatalogSnapshot) -> Document:
    """The estimate of a training run as a report."""
    estimate, verdict = _answered(request, snapshot)
    groups = [
        (one.title, [(line.name, line.value, line.interval) for line in one.lines])
        for one in sections(estimate, RUN_FIGURES)
    ]
    return estimate_document(estimate, verdict, _load(estimate), groups, snapshot, "Training")


def training_preview(request: TrainingPageRequest, snapshot: CatalogSnapshot) -> str:
    """What a shared link looks like elsewhere, as SVG of 1200 × 630 pixels."""
    estimate, verdict = _answered(request, snapshot)
    return preview_of(verdict, _load(estimate), _asked(verdict), estimate["memory"])


def _answered(
    request: TrainingPageRequest, snapshot: CatalogSnapshot
) -> tuple[Mapping[str, Any], Verdict]:
    """The estimate, and the verdict on it within the limits of the page."""
    estimate = training_estimate(request.estimate, snapshot)
    said = training_verdict(estimate, snapshot, request.days, request.usd, own_name(request))
    return estimate, said


def _asked(verdict: Verdict) -> str:
    names = verdict.names
    return f"Training {names.model} in {names.weights} on {names.hardware}, {names.place}"


def _load(estimate: Mapping[str, Any]) -> str:
    """The length of a run in a few words."""
    training = estimate["deployment"]["training"]
    tokens, each = training["tokens"], number(training["sequence_length"])
    sequences = f"sequences of {each} tokens"
    return sequences if tokens is None else f"{counted(tokens)} tokens in {sequences}"


def _snippets(
    request: TrainingPageRequest, estimate: Mapping[str, Any], snapshot: CatalogSnapshot, home: str
) -> list[Snippet]:
    found: list[Snippet] = []
    if request.config is None:
        address = f"{home}v1/estimates/training?{request.api_link()}"
        found = ways_to_ask(address, ("latency", "tokens_per_s"))
    return [*found, *_start(estimate, snapshot)]


def _start(estimate: Mapping[str, Any], snapshot: CatalogSnapshot) -> list[Snippet]:
    """The framework's command and its file; none for models and accelerators of one's own."""
    run = estimate["deployment"]
    model = snapshot.models.get(run["model"])
    accelerator = snapshot.accelerators.get(run["accelerator"])
    if model is None or accelerator is None:
        return []
    training, parallelism = run["training"], run["parallelism"]
    start = run_start_of(
        training["framework"],
        run,
        model.value.layer_count,
        training["micro_batch_size"]
        * training["gradient_accumulation_steps"]
        * parallelism["data"],
        accelerator.value,
        snapshot,
    )
    if start is None:
        return []
    command = Snippet("start", "Start command", "on each machine", by_option(start["command"]))
    file = start["file"]
    if file is None:
        return [command]
    return [command, Snippet("file", file["name"], "beside the command", file["content"])]
