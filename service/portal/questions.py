"""What the page is asked: the fields of its form, which are the query of a link to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal
from urllib.parse import urlencode

from pydantic import Field

from service.estimation.decisions.requests import (
    DecisionWorkload,
    RecommendationRequest,
    WorkloadKindId,
)
from service.estimation.inference_requests import InferenceRequest
from service.estimation.requests import (
    Degree,
    FormatName,
    ParallelismRequest,
    PrecisionRequest,
    Reference,
    Request,
    WorkloadRequest,
)

#: Degrees of parallelism that the form takes.
LAYOUT = ("tensor", "pipeline", "data", "expert")


class PageRequest(Request):
    """A deployment as the form describes it; its defaults are the example that an empty page shows.

    The names are those of the same fields in the API's own links.
    """

    model: Reference = "meta-llama/Llama-3.1-70B"
    accelerator: Reference = "nvidia-h100-sxm-80gb"
    accelerator_count: int = Field(8, ge=1, le=100_000)
    tensor: Degree | None = None
    pipeline: Degree | None = None
    expert: Degree | None = None
    data: Degree | None = None
    region: Reference = "aws/eu-north-1"
    weights: FormatName | None = None
    kv_cache: FormatName | None = None
    input_tokens: int = Field(2048, ge=1, le=10_000_000)
    output_tokens: int = Field(256, ge=1, le=1_000_000)
    concurrency: int = Field(32, ge=1, le=1_000_000)
    workload_kind: WorkloadKindId = "real-time-inference"
    recommend: bool = Field(False, description="Search for better choices, which takes a second.")
    theme: Literal["auto", "light", "dark"] = Field(
        "auto", description="Of the embedded view; the page goes by the reader's preference."
    )

    @property
    def layout(self) -> ParallelismRequest | None:
        """How the accelerators are divided, if the form says so."""
        degrees = {name: getattr(self, name) for name in LAYOUT}
        stated = {name: degree for name, degree in degrees.items() if degree is not None}
        return ParallelismRequest(**stated) if stated else None

    @property
    def estimate(self) -> InferenceRequest:
        """The estimate that the page shows."""
        return InferenceRequest(
            model=self.model,
            precision=PrecisionRequest(weights=self.weights, kv_cache=self.kv_cache),
            accelerator=self.accelerator,
            accelerator_count=self.accelerator_count,
            parallelism=self.layout,
            region=self.region,
            workload=WorkloadRequest(
                input_tokens=self.input_tokens,
                output_tokens=self.output_tokens,
                concurrency=self.concurrency,
            ),
            explain=True,
        )

    @property
    def recommendation(self) -> RecommendationRequest:
        """The search for better choices."""
        return RecommendationRequest(
            model=self.model,
            workload_kind=self.workload_kind,
            workload=DecisionWorkload(
                input_tokens=self.input_tokens,
                output_tokens=max(self.output_tokens, 2),
                concurrency=self.concurrency,
            ),
        )

    def link(self, **changes: Any) -> str:
        """The query of a link to the same page, with some of the fields changed."""
        return urlencode(_stated(self.model_dump(exclude={"theme", "recommend"}) | changes))

    def deployment_link(self, *, placed: bool = True, **added: Any) -> str:
        """The query of a link to an operation of the API about the same deployment."""
        left_out = {"workload_kind", "recommend", "theme", *(() if placed else ("region",))}
        return urlencode(_stated(self.model_dump(exclude=left_out) | added))


def _stated(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
