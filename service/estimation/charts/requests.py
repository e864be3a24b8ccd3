"""What callers may ask charts of: the questions of the other use cases, and how to draw them."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field

from service.estimation.inference.requests import InferenceRequest
from service.estimation.projections.requests import ProjectionRequest
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.references import Reference, Request
from service.estimation.requests import (
    EXAMPLE_DEPLOYMENT,
    EXAMPLE_WORKLOAD,
    LatencyInferenceRequest,
    MemoryInferenceRequest,
)
from service.estimation.training.requests import TrainingRequest, TrainingSettingsRequest

_DEPLOYED: dict[str, Any] = EXAMPLE_DEPLOYMENT | {"workload": EXAMPLE_WORKLOAD}
_PLACED: dict[str, Any] = _DEPLOYED | {"region": "aws/eu-north-1"}

#: Concurrencies that one curve may have.
MOST_POINTS = 64
#: Regions that one chart may show.
MOST_REGIONS = 60


def _listed(given: object) -> object:
    """A list, or one text separated by commas."""
    if isinstance(given, str):
        return tuple(part.strip() for part in given.split(",") if part.strip())
    return tuple(given) if isinstance(given, list) else given


def _counts(given: object) -> object:
    """Whole numbers as a list, or as one text separated by commas."""
    if not isinstance(given, str):
        return _listed(given)
    parts = [part.strip() for part in given.split(",") if part.strip()]
    return tuple(
        int(part) if part.isascii() and part.isdigit() and len(part) < 10 else part
        for part in parts
    )


class StyleRequest(Request):
    """How a chart is drawn."""

    format: Literal["json", "vega-lite", "svg", "png"] | None = None
    """Format of the answer, for clients that cannot send Accept; if null, Accept decides."""
    theme: Literal["light", "dark"] = "light"
    """Background for which the colours are chosen."""
    width_px: int = Field(640, ge=240, le=1600)
    """Width of the chart."""
    height_px: int | None = Field(None, ge=120, le=1200)
    """Height of the chart; if null, as much as it needs."""
    pixel_ratio: float = Field(2.0, ge=1.0, le=3.0)
    """Pixels of a PNG per pixel of the chart."""


class MemoryChartRequest(MemoryInferenceRequest):
    """What fills the memory of an accelerator, in inference, in training, or in both."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                _DEPLOYED,
                {
                    "model": "meta-llama/Llama-3.1-8B",
                    "accelerator": "nvidia-h100-sxm-80gb",
                    "workload": EXAMPLE_WORKLOAD,
                    "phases": "both",
                    "training": {"sequence_length": 4096, "activation_checkpointing": "full"},
                    "style": {"theme": "dark"},
                },
            ]
        }
    )

    phases: Literal["inference", "training", "both"] = "inference"
    """What is shown; both puts the two bars side by side."""
    training: TrainingSettingsRequest = TrainingSettingsRequest()
    """Used if training is shown."""
    style: StyleRequest = StyleRequest()


class RooflineChartRequest(LatencyInferenceRequest):
    """The operators of prefill and decode under the roof of the accelerator."""

    model_config = ConfigDict(json_schema_extra={"examples": [_DEPLOYED]})

    style: StyleRequest = StyleRequest()


class ThroughputChartRequest(LatencyInferenceRequest):
    """Throughput against latency over the number of requests in flight."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                _DEPLOYED | {"latency": "ttft_s", "limit_s": 1.0},
                _DEPLOYED
                | {"phases": "both", "training": {"zero_stage": 3, "sequence_length": 4096}},
            ]
        }
    )

    latency: Literal["ttft_s", "tpot_s", "e2e_s"] = "ttft_s"
    """Latency on the horizontal axis."""
    limit_s: float | None = Field(None, gt=0.0, le=1e6)
    """Service level objective, drawn as a line; if null, that of real-time inference in the
    decision matrix, and none for e2e_s."""
    concurrencies: Annotated[
        tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...],
        Field(max_length=MOST_POINTS),
        BeforeValidator(
            _counts,
            json_schema_input_type=Annotated[str, Field(max_length=640)]
            | list[Annotated[int, Field(ge=1, le=1_000_000)]],
        ),
    ] = Field((), examples=["1,2,4,8,16,32"])
    """Requests in flight, one point each, instead of the workload's own (as a list or separated by
    commas); if empty, powers of two up to what fits in memory."""
    phases: Literal["inference", "both"] = "inference"
    """What is shown; both adds the throughput of training as a line with its MFU."""
    training: TrainingSettingsRequest = TrainingSettingsRequest()
    """Used if training is shown."""
    style: StyleRequest = StyleRequest()


class RegionsChartRequest(InferenceRequest):
    """The impact of one deployment in many regions."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [_PLACED | {"regions": "aws/eu-north-1,aws/us-east-1,gcp/europe-west9"}]
        }
    )

    regions: Annotated[
        tuple[Reference, ...],
        Field(max_length=1000),
        BeforeValidator(
            _listed,
            json_schema_input_type=Annotated[str, Field(max_length=2_000)] | list[Reference],
        ),
    ] = ()
    """Catalog ids or aliases (as a list or separated by commas); if empty, all cloud regions of the
    provider of region, or of all providers if region is not a cloud region."""
    impact: Literal["carbon", "water", "energy"] = "carbon"
    """carbon: location-based operation and manufacturing of hardware; water: on site and at power
    stations; energy: that of the facility."""
    basis: Literal["per_request", "per_1k_tokens", "per_year"] = "per_1k_tokens"
    """Basis of the impact: one request, 1,000 output tokens, or a year of the whole deployment."""
    shown: int = Field(20, ge=1, le=MOST_REGIONS)
    """Regions that are shown: the best ones, and region."""
    style: StyleRequest = StyleRequest()


class MapChartRequest(RegionsChartRequest):
    """The impact of one deployment in many regions, on a map."""

    shown: int = Field(1_000, ge=1, le=1_000)
    """Regions that are shown: the best ones."""


class OverTimeChartRequest(ProjectionRequest):
    """A training run's emissions against the inference that follows it, day by day."""

    style: StyleRequest = StyleRequest()


class ParetoChartRequest(RecommendationRequest):
    """The best trade-offs, on two of the metrics."""

    x: Literal["headroom", "latency", "carbon", "water", "cost"] = "latency"
    """Metric on the horizontal axis, where less is better; headroom is the share of memory
    filled."""
    y: Literal["headroom", "latency", "carbon", "water", "cost"] = "carbon"
    """Metric on the vertical axis; must differ from x."""
    style: StyleRequest = StyleRequest()


class SensitivityChartRequest(InferenceRequest):
    """How much a figure changes with each of its inputs."""

    model_config = ConfigDict(json_schema_extra={"examples": [_PLACED]})

    figure: Literal[
        "total_bytes",
        "ttft_s",
        "tpot_s",
        "output_tokens_per_s",
        "it_energy_per_request_wh",
        "gco2e_per_1k_tokens",
        "l_per_1k_tokens",
    ] = "gco2e_per_1k_tokens"
    """Figure to explain: memory of an accelerator, TTFT, TPOT, throughput of the deployment, IT
    energy per request, or carbon or water per 1,000 output tokens."""
    change_ratio: float = Field(0.2, gt=0.0, le=0.9)
    """Relative change, up and down, of inputs that have no interval of their own."""
    style: StyleRequest = StyleRequest()


_Training = TypeVar("_Training", bound=TrainingRequest)


def same_training(
    kind: type[_Training], request: MemoryChartRequest | ThroughputChartRequest
) -> _Training:
    """The training of a chart's model on the chart's accelerators."""
    return kind(
        model=request.model,
        precision=request.precision,
        accelerator=request.accelerator,
        accelerator_count=request.accelerator_count,
        parallelism=request.parallelism,
        training=request.training,
        explain=request.explain,
        catalog_revision=request.catalog_revision,
        as_of=request.as_of,
    )
