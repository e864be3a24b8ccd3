"""What the page about training is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import Field, model_validator

from service.catalog.snapshot import CatalogSnapshot
from service.core.memory.training.settings import Checkpointing, Optimizer, Schedule
from service.estimation.recommendations.requests import Limit
from service.estimation.recommendations.training.requests import (
    MOST_ACCELERATORS,
    RunLimits,
    RunRequest,
    TrainingRecommendationRequest,
    TrainingSearchRequest,
)
from service.estimation.references import (
    Degree,
    FormatName,
    ModelReference,
    PowerLimit,
    Reference,
    ReleaseText,
    Request,
)
from service.estimation.requests import ParallelismRequest, PrecisionRequest
from service.estimation.training.called import Method
from service.estimation.training.lengths import LENGTH
from service.estimation.training.requests import (
    EXAMPLE_TRAINING,
    EstimateTrainingRequest,
    TrainingOffloadRequest,
    TrainingSettingsRequest,
)
from service.portal.places import SearchedPlace, searched_regions
from service.portal.questions import (
    EXAMPLE_PLACE,
    UNITS,
    ModelQuestion,
    one_accelerator,
    query_of,
)

#: Fields of the form that are settings of training by the same names.
_SETTINGS = (
    "method",
    "lora_rank",
    "optimizer",
    "zero_stage",
    "activation_checkpointing",
    "micro_batch_size",
    "gradient_accumulation_steps",
    "global_batch_size",
    "pipeline_schedule",
    "virtual_stages",
    "tokens",
)


#: Degrees of parallelism that the form takes.
LAYOUT = ("tensor", "pipeline", "context", "expert")
#: Fields that only say what a recommendation looks for.
_WANTED = (
    *UNITS,
    *("recommend", "days", "usd", "kgco2e", "litres", "it_power_kw", "search_in"),
    *("max_accelerators", "any_method", "any_optimizer", "any_format"),
)


class TrainingPageRequest(ModelQuestion):
    """A training run as the form describes it, by the names of the API's links.

    What the form leaves open is as the API leaves it: decided by the framework.
    """

    model: ModelReference = "meta-llama/Llama-3.1-8B"
    accelerator: Reference = "nvidia-h100-sxm-80gb"
    accelerator_count: Degree = 8
    power_limit_w: PowerLimit | None = None
    """The most that each accelerator may draw."""
    tensor: Degree | None = None
    pipeline: Degree | None = None
    context: Degree | None = None
    expert: Degree | None = None
    region: Reference | None = None
    weights: FormatName | None = None
    method: Literal["full", "lora", "qlora"] = "full"
    lora_rank: int = Field(16, ge=1, le=8192)
    optimizer: Optimizer = "adamw"
    zero_stage: int | None = Field(None, ge=0, le=3)
    activation_checkpointing: Checkpointing | None = None
    micro_batch_size: int | None = Field(None, ge=1, le=65_536)
    gradient_accumulation_steps: int | None = Field(None, ge=1, le=1_000_000)
    global_batch_size: int | None = Field(None, ge=1, le=10_000_000)
    """Sequences per step, of a recommended run as well."""
    pipeline_schedule: Schedule | None = None
    virtual_stages: int | None = Field(None, ge=1, le=1_000)
    sequence_length: int = Field(4096, ge=1, le=100_000_000)
    tokens: float = Field(1e10, ge=1.0, le=1e18)
    framework: Reference | None = None
    framework_version: ReleaseText | None = None
    offload_optimizer: Literal["none", "cpu", "nvme"] = "none"
    offload_parameters: Literal["none", "cpu", "nvme"] = "none"
    recommend: bool = False
    """Search for better choices (takes about a second)."""
    days: Limit = None
    """Deadline of a recommended run."""
    usd: Limit = None
    """Budget of a recommended run."""
    kgco2e: Limit = None
    litres: Limit = None
    it_power_kw: Limit = None
    """Most power of the machines of a recommended run."""
    any_method: bool = False
    """Whether adapters, and all weights, may be trained instead."""
    any_optimizer: bool = False
    any_format: bool = True
    """Whether other formats of weights are tried."""
    search_in: SearchedPlace = "country"
    """Where choices may stand."""
    max_accelerators: int = Field(512, ge=1, le=MOST_ACCELERATORS)

    @model_validator(mode="before")
    @classmethod
    def _with_an_example(cls, given: Any) -> Any:
        """A page that is asked nothing shows an example, which stands somewhere."""
        if not isinstance(given, Mapping):
            return given
        return one_accelerator(given) if given else EXAMPLE_PLACE | EXAMPLE_TRAINING["training"]

    @property
    def estimate(self) -> EstimateTrainingRequest:
        """The estimate that the page shows."""
        return EstimateTrainingRequest(
            model=self.asked_model,
            precision=PrecisionRequest(weights=self.weights),
            accelerator=self.accelerator,
            accelerator_count=self.accelerator_count,
            power_limit_w=self.power_limit_w,
            parallelism=self.layout,
            region=self.region,
            training=TrainingSettingsRequest(
                **{name: getattr(self, name) for name in _SETTINGS},
                **self._length,
                **self.named_framework,
                offload=TrainingOffloadRequest(
                    optimizer=self.offload_optimizer, parameters=self.offload_parameters
                ),
            ),
            explain=True,
        )

    @property
    def asked(self) -> Request:
        """See ``ModelQuestion``."""
        return self.estimate

    @property
    def _length(self) -> dict[str, Any]:
        """The length of sequences, unless it is left to what the model has positions for."""
        stated = self.sequence_length != type(self).model_fields[LENGTH].default
        return {LENGTH: self.sequence_length} if stated else {}

    def recommendation(self, snapshot: CatalogSnapshot) -> TrainingRecommendationRequest:
        """The search for better choices: what is learned stays, all else is searched."""
        return TrainingRecommendationRequest(
            model=self.asked_model,
            training=RunRequest(
                tokens=self.tokens,
                **self._length,
                global_batch_size=self.global_batch_size,
                methods=list(get_args(Method)) if self.any_method else [self.method],
                optimizers=list(get_args(Optimizer)) if self.any_optimizer else [self.optimizer],
                lora_rank=self.lora_rank,
                offload=self.offload_optimizer != "none",
                **self.named_framework,
            ),
            limits=RunLimits(
                days=self.days,
                usd=self.usd,
                kgco2e=self.kgco2e,
                litres=self.litres,
                it_power_w=None if self.it_power_kw is None else self.it_power_kw * 1e3,
            ),
            search=TrainingSearchRequest(
                max_accelerators=self.max_accelerators,
                precisions=None if self.any_format or self.weights is None else [self.weights],
                regions=searched_regions(self.search_in, self.region, snapshot),
            ),
            baseline=self.estimate.model_copy(update={"explain": False}),
        )

    @property
    def named_framework(self) -> dict[str, Any]:
        """The framework and its release, as fields of settings."""
        named = {} if self.framework is None else {"framework": self.framework}
        return {**named, "framework_version": self.framework_version}

    @property
    def layout(self) -> ParallelismRequest | None:
        """How the accelerators are divided, if the form says so; the rest is data parallel."""
        stated = {name: getattr(self, name) for name in LAYOUT if getattr(self, name) is not None}
        return ParallelismRequest(**stated) if stated else None

    def link(self, **changes: Any) -> str:
        """The query of a link to the same page, with some of the fields changed."""
        return query_of(self.stated("recommend") | changes)

    def api_link(self, *left_out: str, **added: Any) -> str:
        """The query of a link to an operation of the API about the same run."""
        layout = self.layout
        data = {} if layout is None else {"data": layout.data}
        return query_of(self.api_fields(*_WANTED, *left_out) | data | added)
