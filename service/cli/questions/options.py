"""Options of the commands that ask, as data: their spelling, and their place in the request."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.markup import escape

from service.cli.questions.completion import (
    complete_accelerator,
    complete_engine,
    complete_model,
    complete_platform,
    complete_region,
)
from service.estimation.recommendations.limit_tables import DEPLOYMENT_LIMITS, RUN_LIMITS
from service.estimation.recommendations.limits import Limit

Complete = Callable[[str], list[str]]


@dataclass(frozen=True, slots=True)
class Option:
    """An option; ``place`` is where its value stands in the body, empty for the command's own.

    ``kind`` is its type; of a list each value is given with an option of its own. ``dest`` is the
    name of the parameter.
    """

    flags: tuple[str, ...]
    kind: Any
    help: str
    place: tuple[str, ...] = ()
    panel: str = "Options"
    complete: Complete | None = None
    envvar: str | None = None

    @property
    def dest(self) -> str:
        """The parameter's name, from the first spelling."""
        return self.flags[0].removeprefix("--").partition("/")[0].replace("-", "_")

    def parameter(self) -> inspect.Parameter:
        """The parameter that makes typer show and read it."""
        declared = typer.Option(
            *self.flags,
            help=escape(self.help),
            rich_help_panel=self.panel,
            autocompletion=self.complete,
            envvar=self.envvar,
            show_default=False,
        )
        flag = self.kind is bool
        return inspect.Parameter(
            self.dest,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if flag else None,
            annotation=Annotated[bool if flag else self.kind | None, declared],
        )


def command(
    run: Callable[[dict[str, Any]], None], options: Iterable[Option], explained: str
) -> Callable[..., None]:
    """A command that takes the options and hands their values over by name."""

    def asked(**given: Any) -> None:
        run(given)

    asked.__doc__ = explained
    asked.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [option.parameter() for option in options]
    )
    return asked


_WHAT, _LAYOUT, _LOAD, _TRAINING = "What and where", "Layout", "Workload", "Training"
_LIMITS, _ASKING = "Limits", "Input and output"

_MODEL_HELP = (
    "Catalog id or alias, hf:org/name, or a path: a config.json, a folder with one, a "
    ".safetensors or a .gguf file."
)
MODEL = Option(("--model", "-m"), str, _MODEL_HELP, ("model",), _WHAT, complete_model)
ACCELERATOR = Option(
    ("--accelerator", "-a"),
    str,
    "Catalog id or alias.",
    ("accelerator",),
    _WHAT,
    complete_accelerator,
)
PLATFORM = Option(
    ("--platform",),
    str,
    "Machine that the accelerators stand in; the usual one if left out.",
    ("platform",),
    _WHAT,
    complete_platform,
)
POWER_LIMIT = Option(
    ("--power-limit-w",),
    float,
    "Limit of power of each accelerator [W].",
    ("power_limit_w",),
    _WHAT,
)
REGION = Option(
    ("--region", "-r"),
    str,
    "Cloud region, country or grid zone; estimates can do without.",
    ("region",),
    _WHAT,
    complete_region,
)
COUNT = Option(
    ("--count", "-n"), int, "Accelerators of all replicas together.", ("accelerator_count",), _WHAT
)
WEIGHTS = Option(
    ("--weights", "-w"),
    str,
    "Number format of the weights; the checkpoint's own if left out.",
    ("precision", "weights"),
    _LAYOUT,
)
KV_CACHE = Option(
    ("--kv-cache",), str, "Number format of the KV cache.", ("precision", "kv_cache"), _LAYOUT
)
LAYOUT = (
    WEIGHTS,
    KV_CACHE,
    *(
        Option(
            (f"--{name}",), int, f"Degree of {name} parallelism.", ("parallelism", name), _LAYOUT
        )
        for name in ("tensor", "pipeline", "data", "expert")
    ),
)
LOAD = (
    Option(
        ("--input-tokens", "-i"), int, "Prompt length.", ("workload", "input_tokens"), panel=_LOAD
    ),
    Option(
        ("--output-tokens", "-o"),
        int,
        "Generated tokens.",
        ("workload", "output_tokens"),
        panel=_LOAD,
    ),
    Option(
        ("--concurrency", "-c"),
        int,
        "Requests in flight over all replicas.",
        ("workload", "concurrency"),
        panel=_LOAD,
    ),
    Option(
        ("--requests-per-s",),
        float,
        "Arrival rate, instead of a fixed number in flight.",
        ("workload", "requests_per_s"),
        panel=_LOAD,
    ),
    Option(
        ("--arrivals",),
        str,
        "at_once: all requests come together and none after them; spread: one for each answered.",
        ("workload", "arrivals"),
        panel=_LOAD,
    ),
)
ENGINE = Option(
    ("--engine",),
    str,
    "Inference engine: id or alias of one in /v1/engines, e.g. vllm.",
    ("serving", "engine"),
    _LOAD,
    complete_engine,
)
ENGINE_VERSION = Option(
    ("--engine-version",),
    str,
    "Release of the engine: a version, a date or a generation; the newest if left out.",
    ("serving", "engine_version"),
    _LOAD,
)
BACKEND = Option(
    ("--backend",),
    str,
    "Interface that drives the accelerator, of engines with a choice: cuda, hip, vulkan, metal, …",
    ("serving", "backend"),
    _LOAD,
)
#: What serves, and how.
ENGINES = (ENGINE, ENGINE_VERSION, BACKEND)
TRAINING_FLAG = Option(
    ("--training",),
    bool,
    "Estimate a training run; implied by the options of this panel.",
    panel=_TRAINING,
)
TRAINING = tuple(
    Option((f"--{name.replace('_', '-')}",), kind, text, ("training", name), _TRAINING)
    for name, kind, text in (
        ("method", str, "full, lora or qlora."),
        ("zero_stage", int, "0, 1, 2 or 3; as the framework does unless stated."),
        ("sequence_length", int, "Tokens per sequence."),
        (
            "micro_batch_size",
            int,
            "Sequences per micro-batch on each data-parallel rank; a usual number unless stated.",
        ),
        ("global_batch_size", int, "Sequences of all ranks together per step."),
        ("global_batch_tokens", float, "The same in tokens."),
        (
            "gradient_accumulation_steps",
            int,
            "Micro-batches per step; as many as the global batch takes, or 1, unless stated.",
        ),
        (
            "activation_checkpointing",
            str,
            "none, selective, selective-modules, selective-operators or full; as the framework "
            "does unless stated.",
        ),
        ("optimizer", str, "adamw, adamw-8bit, adafactor, lion, muon, …"),
        ("framework", str, "Training framework: id or alias of one in /v1/engines."),
        ("framework_version", str, "Release of the framework: a version or a date."),
        ("tokens", float, "Tokens of the whole run."),
        ("mfu_ratio", float, "Known utilisation, from which the time of a step follows."),
    )
)
POST_TRAINING = tuple(
    Option((flag,), kind, text, place, _TRAINING)
    for flag, kind, text, place in (
        ("--teacher", str, "Model to distil from.", ("distillation", "teacher", "model")),
        (
            "--teacher-placement",
            str,
            "same, own or stored: where the teacher computes.",
            ("distillation", "teacher", "placement"),
        ),
        ("--dpo", str, "Learn from pairs; reference copy, base or stored.", ("dpo", "reference")),
        (
            "--completion-tokens",
            int,
            "Learn from rewards (GRPO) of completions of so many tokens.",
            ("grpo", "completion_tokens"),
        ),
        ("--prompt-tokens", int, "Tokens of their prompts.", ("grpo", "prompt_tokens")),
        (
            "--samples-per-prompt",
            int,
            "Completions of each prompt.",
            ("grpo", "samples_per_prompt"),
        ),
    )
)
PLAIN_ENERGY = (
    Option(
        ("--energy-kwh",),
        float,
        "IT energy, instead of a deployment.",
        ("energy_kwh",),
        panel=_WHAT,
    ),
    Option(
        ("--accelerator-hours",),
        float,
        "Accelerator time, instead of a deployment.",
        ("accelerator_hours",),
        panel=_WHAT,
    ),
)


def _limit_options(limits: Iterable[Limit]) -> tuple[Option, ...]:
    return tuple(
        Option(
            (f"--{one.name.replace('_', '-')}",),
            float,
            f"{one.label[0].upper()}{one.label[1:]}"
            f"{'' if one.at_least else ', at most'} [{one.unit}].",
            ("limits", one.name),
            _LIMITS,
        )
        for one in limits
        if one.requested
    )


DEPLOYMENT_LIMIT_OPTIONS = _limit_options(DEPLOYMENT_LIMITS)
RUN = tuple(
    Option((f"--{name.replace('_', '-')}",), kind, text, ("training", place), _TRAINING)
    for name, place, kind, text in (
        ("tokens", "tokens", float, "Tokens of the whole run."),
        ("sequence_length", "sequence_length", int, "Tokens per sequence."),
        ("global_batch_size", "global_batch_size", int, "Sequences per optimizer step."),
        ("method", "methods", list[str], "full, lora or qlora; several to choose from."),
        ("optimizer", "optimizers", list[str], "adamw, adamw-8bit, …; several to choose from."),
        ("offload", "offload", bool, "Also try optimizer states in host memory."),
    )
)
RUN_LIMIT_OPTIONS = _limit_options(RUN_LIMITS)
KIND = Option(
    ("--kind", "-k"),
    str,
    "real-time-inference, batch-inference, agentic, sustainable or edge.",
    ("workload_kind",),
    _WHAT,
)
MOST_ACCELERATORS = Option(
    ("--max-accelerators",),
    int,
    "Largest number of accelerators of a candidate.",
    ("search", "max_accelerators"),
    _LIMITS,
)
WHERE = Option(
    ("--where",),
    list[str],
    "How hardware may be had: cloud, owned, workstation, laptop or edge; may be repeated.",
    ("search", "where"),
    _LIMITS,
)
UNMEASURED = Option(
    ("--include-unmeasured",),
    bool,
    "Also search accelerators whose speed nobody has measured.",
    ("search", "include_unmeasured"),
    _LIMITS,
)
PERCENTILE = Option(
    ("--percentile",),
    str,
    "What of times is limited under a rate of requests: mean, p50, p95 or p99.",
    ("limits", "percentile"),
    _LIMITS,
)
RESERVE = Option(
    ("--reserve-ratio",),
    float,
    "Share of the rate that replicas could carry within the limits which is left free [-].",
    ("search", "reserve_ratio"),
    _LIMITS,
)

SET = Option(
    ("--set",),
    list[str],
    "Any other field of the request: FIELD=VALUE, e.g. serving.kv_block_tokens=32.",
    panel=_ASKING,
)
REQUEST = Option(
    ("--request",), str, "JSON file with the request (- reads standard input).", panel=_ASKING
)
SERVER = Option(
    ("--server",),
    str,
    "Use this service instead of computing locally.",
    panel=_ASKING,
    envvar="HEADROOM_SERVER",
)
JSON = Option(("--json",), bool, "Print the whole answer as JSON.", panel=_ASKING)
CSV = Option(("--csv",), bool, "Print the figures as a CSV table.", panel=_ASKING)
EXPLAIN = Option(
    ("--explain",), bool, "Show every formula with its values.", ("explain",), panel=_ASKING
)
MUST_FIT = Option(
    ("--must-fit",), bool, "Exit with status 4 if the deployment does not fit.", panel=_ASKING
)
ASKING = (SET, REQUEST, SERVER, JSON, CSV)


def several(option: Option, place: tuple[str, ...]) -> Option:
    """The same option, given as often as one likes, for another place."""
    return Option(
        option.flags,
        list[option.kind],  # type: ignore[name-defined]
        f"{option.help.rstrip('.')}; may be repeated.",
        place,
        option.panel,
        option.complete,
    )
