"""Every formula that is shown yields the figure that it explains, from the figures beside it."""

import math
import re

from service.core.explanation import names
from service.estimation.post_training.requests import EXAMPLE_DISTILLATION, EXAMPLE_GRPO
from tests.answers.asked import questions
from tests.equations import evaluate, registered

#: Where explanations may be asked for.
EXPLAINING = (
    "estimates/inference",
    "estimates/training",
    "memory",
    "latency",
    "impacts",
    "compliance",
    "projections",
)
#: What recorded questions leave out of the formulas' branches.
MODELS = (
    "meta-llama/Llama-3.1-8B",
    "deepseek-ai/DeepSeek-V3",
    "google/gemma-3-27b-it",
    "openai/gpt-oss-120b",
    "Qwen/Qwen3-235B-A22B",
)
DEPLOYMENTS = [
    {"model": model, "accelerator": accelerator, "accelerator_count": 8, "region": "SE", **more}
    for model in MODELS
    for accelerator in ("nvidia-h100-sxm-80gb", "amd-mi300x")
    for more in (
        {"workload": {"input_tokens": 300, "output_tokens": 50, "concurrency": 7}},
        {"workload": {"input_tokens": 9000, "output_tokens": 1, "concurrency": 64}},
        {"serving": {"engine": "transformers"}},
        {
            "serving": {"engine": "llama.cpp"},
            "precision": {"weights": "gguf-q8_0"},
            "parallelism": {"pipeline": 2, "tensor": 4},
        },
    )
]
POOLED = {
    "model": MODELS[0],
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8,
    "parallelism": {"tensor": 2, "data": 4},
    "serving": {"disaggregated": {}},
    "region": "SE",
}
IMPACTS = {
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_hours": 100,
    "region": {"parent": "aws/eu-north-1", "figures": {"adpe_kgsbeq_per_kwh": 5e-8}},
    "electricity": {"contracted_ratio": 0.5, "marginal_gco2e_per_kwh": 700},
}
PROFILE = {
    "model": MODELS[0],
    "accelerator": "nvidia-h100-sxm-80gb",
    "pruning": {"structure": "2:4"},
}
TRANSFER = {"bytes": 1e9, "tiers": ["cxl-2.0-ddr5-direct"], "utilisation_ratio": 0.5}
BOUNDS = {"model": "meta-llama/Llama-3.1-8B", "accelerator": "groq-lpu-v1"}
ASKED = [
    ("/v1/estimates/bounds", BOUNDS),
    ("/v1/memory/profile", PROFILE),
    ("/v1/memory/transfers", TRANSFER),
    ("/v1/estimates/post-training", EXAMPLE_DISTILLATION),
    ("/v1/estimates/post-training", EXAMPLE_GRPO),
    *(("/v1/estimates/inference", body) for body in DEPLOYMENTS),
    *(
        ("/v1/estimates/inference", POOLED | {"workload": load})
        for load in (
            {"input_tokens": 2000, "output_tokens": 200, "concurrency": 60},
            {"input_tokens": 9000, "output_tokens": 20, "concurrency": 200},
            {"input_tokens": 2000, "output_tokens": 200, "requests_per_s": 3},
        )
    ),
    (
        "/v1/estimates/inference",
        DEPLOYMENTS[0]
        | {
            "workload": {"concurrency": 900, "arrivals": "at_once"},
            "parallelism": {"tensor": 2, "pipeline": 2, "data": 2},
            "serving": {"max_running_sequences": 128},
        },
    ),
    ("/v1/impacts", IMPACTS),
]
#: Formulas of what own measurements change: `test_own_measurements.py` asks with reports.
BY_REPORTS = {"own_step_s"}


def _pattern(expression: str) -> re.Pattern[str]:
    """Expressions as steps have them: with all its parts in place of a name that has parts."""
    literal = re.escape(expression)
    for name in names(expression):
        literal = re.sub(rf"\b{name}\b", rf"(?:\\w*{name}(?:, )?)*", literal)
    return re.compile(literal)


async def test_every_formula_yields_the_figure_that_it_explains(client):
    formulas = {(each.name, each.expression, each.source) for each in registered()}
    patterns = [(name, _pattern(shown), source) for name, shown, source in sorted(formulas)]
    asked = [(one["path"], one["body"]) for one in questions() if _asks(one)]
    reached = set()
    for path, body in (*asked, *ASKED):
        response = await client.post(path, json=body | {"explain": True})
        assert response.status_code == 200 or (path, body) not in ASKED, response.text
        for step in response.json().get("explanation", ()):
            found = {
                at
                for at, (name, pattern, source) in enumerate(patterns)
                if (name, source) == (step["name"], step["source"])
                and pattern.fullmatch(step["formula"])
            }
            reached |= found
            _check(step, body)
    left = {patterns[at][0] for at in range(len(patterns)) if at not in reached}
    assert left == BY_REPORTS


def _asks(question) -> bool:
    """Whether a question may ask for an explanation."""
    asked = question["path"].removeprefix("/v1/")
    return isinstance(question.get("body"), dict) and asked.startswith(EXPLAINING)


def _check(step, body) -> None:
    figures = {n: math.inf if f is None else f for n, f in step["inputs"].items()}
    value = math.inf if step["value"] is None else step["value"]
    # Differences of large figures are as exact as these.
    sizes = [abs(f) for f in figures.values() if isinstance(f, float) and f < math.inf]
    rounding = 1e-14 * max(sizes, default=0.0)
    found = evaluate(step["formula"], figures)
    assert math.isclose(found, value, rel_tol=1e-9, abs_tol=rounding), (step, found, body)
    read = set(names(step["formula"]))
    beside = [figure for name, figure in step["inputs"].items() if name not in read]
    assert all(re.search("[a-z]", text) for text in beside), step
