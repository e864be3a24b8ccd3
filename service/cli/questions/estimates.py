"""``headroom estimate``, ``memory``, ``latency``, ``impacts`` …: about one deployment."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from service.cli.questions import options
from service.cli.questions.bodies import body_from, misused
from service.cli.questions.options import Option, command
from service.cli.status import EPILOG

_WHAT = (
    options.MODEL,
    options.ACCELERATOR,
    options.COUNT,
    options.PLATFORM,
    options.POWER_LIMIT,
)
_INFERENCE = (*options.LOAD, *options.ENGINES)
_TRAINING = (options.TRAINING_FLAG, *options.TRAINING)
_ASKING = (options.EXPLAIN, options.MUST_FIT, *options.ASKING)


@dataclass(frozen=True, slots=True)
class Question:
    """A command: what it asks about inference, and about training if it does."""

    name: str
    explained: str
    inference: str
    training: str | None
    options: tuple[Option, ...]


QUESTIONS = (
    Question(
        "estimate",
        "Everything about one deployment or training run: memory, speed, energy, impacts, cost.",
        "estimates/inference",
        "estimates/training",
        (*_WHAT, options.REGION, *options.LAYOUT, *_INFERENCE, *_TRAINING, *_ASKING),
    ),
    Question(
        "memory",
        "Memory per accelerator, whether it fits, and what would make it fit.",
        "memory/inference",
        "memory/training",
        (*_WHAT, *options.LAYOUT, *_INFERENCE, *_TRAINING, *_ASKING),
    ),
    Question(
        "latency",
        "Latency and throughput, or the time of a training step.",
        "latency/inference",
        "latency/training",
        (*_WHAT, *options.LAYOUT, *_INFERENCE, *_TRAINING, *_ASKING),
    ),
    Question(
        "post-training",
        "Distillation, DPO and GRPO: a training step with its teacher, reference or rollouts.",
        "estimates/post-training",
        None,
        (
            *_WHAT,
            options.REGION,
            *options.POST_TRAINING,
            *options.LAYOUT,
            *options.TRAINING,
            *_ASKING,
        ),
    ),
    Question(
        "impacts",
        "Energy, carbon and water of a deployment, of energy, or of accelerator time.",
        "impacts",
        None,
        (
            *_WHAT,
            options.REGION,
            *options.PLAIN_ENERGY,
            *options.LAYOUT,
            *_INFERENCE,
            options.EXPLAIN,
            *options.ASKING,
        ),
    ),
)


def commands() -> dict[str, Callable[..., None]]:
    """The commands by name."""
    return {
        question.name: command(_asking(question), question.options, question.explained + EPILOG)
        for question in QUESTIONS
    }


def _asking(question: Question) -> Callable[[dict[str, Any]], None]:
    def run(given: dict[str, Any]) -> None:
        from service.cli.questions.asking import ask
        from service.cli.questions.models import model_reference
        from service.cli.views.estimates import view
        from service.estimation.tables import figure_rows

        body = body_from(given, question.options)
        path = _path(question, given, body)
        if isinstance(body.get("model"), str):
            body["model"] = model_reference(body["model"])
        ask(path, body, given, view, figure_rows)

    return run


def _path(question: Question, given: Mapping[str, Any], body: dict[str, Any]) -> str:
    """Where to ask: about training if the flag says so, or anything of training is there."""
    if question.training is None or not (given.get("training") or "training" in body):
        return question.inference
    serving = [option.flags[0] for option in _INFERENCE if given.get(option.dest) is not None]
    if serving:
        raise misused(f"{', '.join(serving)} apply to inference only, not to training")
    return question.training
