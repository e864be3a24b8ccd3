"""How a run of post-training is made to fit beside all that stands there, where nobody says how.

The run alone is made to fit by the least that does (`service.estimation.training.fitting`). A
reference, a teacher, a critic or an engine that generates takes its own: where that leaves too
little room, states are divided further, and then layers recomputed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.learning.deployments import learnt_training
from service.estimation.post_training.frozen import PAIR, distillation, dpo
from service.estimation.post_training.generation import grpo
from service.estimation.post_training.parts import Parts, Run
from service.estimation.post_training.requests import PostTrainingRequest
from service.estimation.rejection import Rejected
from service.estimation.resolution import Problems
from service.estimation.training.batches import reduced
from service.estimation.training.fitting import (
    DIVIDED,
    RECOMPUTED,
    further_stages,
    made_to_fit,
)
from service.estimation.training.memory import largest_micro_batch
from service.estimation.training.setup import ResolvedTraining


def fitted(
    request: PostTrainingRequest, snapshot: CatalogSnapshot, problems: Problems
) -> tuple[Run, Parts]:
    """A run and its parts, by the least that makes all of them fit; as told if nothing does.

    Raises
    ------
    Rejected
        With everything that is wrong with it.
    """
    run, parts = _told(request, snapshot, problems)
    if all_fit(parts):
        return run, parts
    for way in _ways(run):
        training = request.training.model_copy(update=way)
        changed = request.model_copy(update={"training": training})
        try:
            other, found = _told(changed, snapshot, Problems())
        except Rejected:
            continue
        if all_fit(found):
            return _said(run, replace(other, request=request)), found
    return run, parts


def all_fit(parts: Parts) -> bool:
    """Whether what trains fits beside all that stands there, and what stands apart on its own."""
    apart = (parts.generation_memory, parts.teacher_memory)
    return bool(parts.memory.fits) and all(each is None or each["fits"] for each in apart)


def sequences_each(request: PostTrainingRequest) -> float:
    """Sequences of each of what a micro-batch counts [-]."""
    return 1.0 if request.dpo is None else PAIR


def _ways(run: Run) -> Iterator[Mapping[str, Any]]:
    """What else a run may be that nobody told, the cheapest first."""
    asked, setup = run.request.training, run.resolved.setup
    framework = run.snapshot.engines[setup.settings.framework].value
    stages = further_stages(asked, setup, framework)
    for stage in stages:
        yield {DIVIDED: stage}
    if asked.activation_checkpointing is None:
        for stage in (setup.settings.zero_stage, *stages):
            yield {DIVIDED: stage, RECOMPUTED: "full"}


def _said(usual: Run, run: Run) -> Run:
    """A run with the warning that says by what it was made to fit."""
    settings = run.resolved.setup.settings
    found = tuple(made_to_fit(usual.resolved.setup.settings, settings))
    codes = {one.code for one in found}
    kept = (one for one in run.resolved.warnings if one.code not in codes)
    return replace(run, resolved=replace(run.resolved, warnings=(*kept, *found)))


def _told(
    request: PostTrainingRequest, snapshot: CatalogSnapshot, problems: Problems
) -> tuple[Run, Parts]:
    """A run and its parts, with a micro-batch that fits beside them."""
    run = _run(request, snapshot, problems)
    return _in_fitting_batches(run, _parts(run, problems), problems)


def _run(request: PostTrainingRequest, snapshot: CatalogSnapshot, problems: Problems) -> Run:
    """The run itself; of pairs, a micro-batch has two sequences each."""
    if request.training.sequence_lengths is not None:
        problems.add(
            "/training/sequence_lengths",
            "sequences of post-training are taken to be full; give sequence_length alone",
        )
    resolved = learnt_training(request, snapshot, problems)
    setup, asked = resolved.setup, request.grpo
    size = int(setup.micro_batch.sequences)
    if request.training.micro_batch_size is None and asked is not None and asked.prompts:
        # An optimizer step takes no more sequences than are generated.
        others = setup.settings.gradient_accumulation_steps * setup.deployment.parallelism.data
        size = reduced(size, int(asked.prompts * asked.samples_per_prompt / others))
    return _in_batches(request, snapshot, resolved, size)


def _in_batches(
    request: PostTrainingRequest, snapshot: CatalogSnapshot, resolved: ResolvedTraining, size: int
) -> Run:
    """The run with a size of micro-batches."""
    resolved = resolved.in_batches(size, sequences_each(request))
    setup = resolved.setup
    accumulated = setup.micro_batch.sequences * setup.settings.gradient_accumulation_steps
    sequences = float(accumulated * setup.deployment.parallelism.data)
    return Run(request, snapshot, resolved, resolved.figures(snapshot), sequences)


def _in_fitting_batches(run: Run, parts: Parts, problems: Problems) -> tuple[Run, Parts]:
    """The run with a micro-batch that fits beside all that stands there, if nobody told one."""
    if run.request.training.micro_batch_size is not None:
        return run, parts
    each = sequences_each(run.request)
    taken = int(run.resolved.setup.micro_batch.sequences / each)
    fitting = reduced(taken, int(largest_micro_batch(parts.memory, each).value))
    if fitting == taken:
        return run, parts
    run = _in_batches(run.request, run.snapshot, run.resolved, fitting)
    return run, _parts(run, problems)


def _parts(run: Run, problems: Problems) -> Parts:
    """What the objective that is given is composed of."""
    request = run.request
    if request.distillation is not None:
        return distillation(run, request.distillation.teacher, problems)
    if request.dpo is not None:
        return dpo(run, request.dpo, problems)
    if request.grpo is None:
        problems.refuse("", "give one of distillation, dpo and grpo")
    return grpo(run, request.grpo, problems)
