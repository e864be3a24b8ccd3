"""``headroom recommend`` and ``headroom compare``: questions about many deployments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from service.cli.questions import options
from service.cli.questions.bodies import body_from, misused
from service.cli.questions.options import command, several
from service.cli.status import EPILOG

_RECOMMEND = (
    options.MODEL,
    options.KIND,
    several(options.ACCELERATOR, ("search", "accelerators")),
    several(options.REGION, ("search", "regions")),
    several(options.WEIGHTS, ("search", "precisions")),
    *options.LOAD,
    *options.ENGINES,
    *options.DEPLOYMENT_LIMIT_OPTIONS,
    options.PERCENTILE,
    options.RESERVE,
    options.MOST_ACCELERATORS,
    options.WHERE,
    options.UNMEASURED,
    *options.ASKING,
)
_RECOMMEND_TRAINING = (
    options.MODEL,
    several(options.ACCELERATOR, ("search", "accelerators")),
    several(options.REGION, ("search", "regions")),
    several(options.WEIGHTS, ("search", "precisions")),
    *options.RUN,
    *options.RUN_LIMIT_OPTIONS,
    options.MOST_ACCELERATORS,
    options.WHERE,
    options.UNMEASURED,
    *options.ASKING,
)
_COMPARE = (
    several(options.MODEL, ("models",)),
    several(options.ACCELERATOR, ("accelerators",)),
    options.COUNT,
    several(options.REGION, ("regions",)),
    several(options.WEIGHTS, ("precisions",)),
    *options.LOAD,
    *options.ENGINES,
    *options.DEPLOYMENT_LIMIT_OPTIONS,
    options.PERCENTILE,
    *options.ASKING,
)


def commands() -> dict[str, Callable[..., None]]:
    """The commands by name."""
    return {
        "recommend": command(
            _recommend,
            _RECOMMEND,
            "Recommend hardware, region and configuration for inference, with reasons." + EPILOG,
        ),
        "recommend-training": command(
            _recommend_training,
            _RECOMMEND_TRAINING,
            "Recommend hardware, region and configuration for a training run, with reasons."
            + EPILOG,
        ),
        "compare": command(
            _compare,
            _COMPARE,
            "One workload over lists of models, accelerators, formats and regions." + EPILOG,
        ),
    }


def _recommend(given: dict[str, Any]) -> None:
    from service.cli.questions.asking import ask
    from service.cli.questions.models import model_reference
    from service.cli.views.recommendations import choice_rows, view

    body = body_from(given, _RECOMMEND)
    if isinstance(body.get("model"), str):
        body["model"] = model_reference(body["model"])
    ask("recommendations", body, given, view, choice_rows)


def _recommend_training(given: dict[str, Any]) -> None:
    from service.cli.questions.asking import ask
    from service.cli.questions.models import model_reference
    from service.cli.views.recommendations import run_rows, run_view

    body = body_from(given, _RECOMMEND_TRAINING)
    if isinstance(body.get("model"), str):
        body["model"] = model_reference(body["model"])
    ask("recommendations/training", body, given, run_view, run_rows)


def _compare(given: dict[str, Any]) -> None:
    from service.cli.questions.asking import ask
    from service.cli.questions.models import model_reference
    from service.cli.views.comparisons import comparison_rows, view

    body = body_from(given, _COMPARE)
    for name, flag in (("models", "-m"), ("accelerators", "-a")):
        if name not in body:
            raise misused(f"a comparison needs at least one of its {name}: {flag}")
    body["models"] = [
        model_reference(model) if isinstance(model, str) else model for model in body["models"]
    ]
    if "precisions" in body:
        body["precisions"] = [
            {"weights": one} if isinstance(one, str) else one for one in body["precisions"]
        ]
    ask("compare", body, given, view, comparison_rows)
