"""What the page is asked: the fields of its form, which are the query of a link to it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlencode

import orjson
from pydantic import AfterValidator, Field, ValidationError, model_validator

from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.requests import (
    DecisionWorkload,
    RecommendationRequest,
    WorkloadKindId,
)
from service.estimation.references import (
    HUB_PREFIX,
    Degree,
    FetchedModel,
    FormatName,
    HubModel,
    ModelConfig,
    ModelReference,
    Reference,
    ReleaseText,
    Request,
)
from service.estimation.requests import (
    ParallelismRequest,
    PrecisionRequest,
    ServingRequest,
    WorkloadRequest,
)

#: Degrees of parallelism that the form takes.
LAYOUT = ("tensor", "pipeline", "data", "expert")
#: Characters of a pasted config.json: it is a part of the link.
MOST_CONFIG_CHARACTERS = 16_000
#: What people copy with the name of a model.
_HUB_ADDRESS = "https://huggingface.co/"


def _pasted(text: str) -> str:
    """A pasted config.json without what only makes it longer.

    Raises
    ------
    ValueError
        If it is no JSON object, or too long for a link.
    """
    try:
        config = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise ValueError(
            f"is not valid JSON: {error.msg} in line {error.lineno}; paste the whole file, from {{ "
            "to }"
        ) from None
    if not isinstance(config, dict) or not config:
        raise ValueError("is not a config.json, which is an object with fields")
    stated = {name: value for name, value in config.items() if value is not None}
    try:
        ModelConfig(config=stated)
        written = orjson.dumps(stated)
    except (ValidationError, TypeError):
        raise ValueError("is too large or too deeply nested for a config.json") from None
    if len(written) > MOST_CONFIG_CHARACTERS:
        raise ValueError(
            f"has {len(written):,} characters, but a link can hold only "
            f"{MOST_CONFIG_CHARACTERS:,}; send it to POST /v1/estimates/inference"
        )
    return written.decode()


class ModelQuestion(Request):
    """A model: one of the catalog, one of the Hub, or a pasted config.json, the last first."""

    model: ModelReference = "meta-llama/Llama-3.1-70B"
    hub: Reference | None = None
    """Name on the Hugging Face Hub."""
    config: Annotated[str, Field(max_length=200_000), AfterValidator(_pasted)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _named_on_the_hub(cls, given: Any) -> Any:
        """``hub`` and ``model=hf:…`` are two ways to say the same."""
        if not isinstance(given, Mapping):
            return given
        hub, model = given.get("hub"), given.get("model")
        if isinstance(hub, str) and hub:
            name = hub.strip().removeprefix(_HUB_ADDRESS).removeprefix(HUB_PREFIX).strip("/")
            return {**given, "hub": name, "model": f"{HUB_PREFIX}{name}"}
        if isinstance(model, str) and model.startswith(HUB_PREFIX):
            return {**given, "hub": model.removeprefix(HUB_PREFIX)}
        return given

    @property
    def asked_model(self) -> str | ModelConfig | HubModel:
        """The model as the use cases take it."""
        return self.model if self.config is None else ModelConfig(config=orjson.loads(self.config))

    @property
    def model_name(self) -> str:
        """The model as people call it."""
        if self.config is not None:
            kind = orjson.loads(self.config).get("model_type")
            return f"Your {kind} config.json" if isinstance(kind, str) else "Your config.json"
        if isinstance(self.model, FetchedModel):
            return self.model.hub
        return self.model if isinstance(self.model, str) else self.hub or "inline"

    def with_ids(self, deployment: Mapping[str, Any]) -> Self:
        """The same with catalog ids in place of aliases, as the form offers them."""
        names = ["accelerator", "region"]
        names += ["model"] if self.hub is None and self.config is None else []
        return self.model_copy(update={name: deployment[name] for name in names})

    def form_fields(self) -> dict[str, Any]:
        """The fields of the form; its list of models stays where it is if another is asked for."""
        in_list = self.config is None and self.hub is None
        model = self.model_name if in_list else type(self).model_fields["model"].default
        return {"model": model, **self.model_dump(exclude={"model"})}

    def stated(self, *left_out: str) -> dict[str, Any]:
        """The fields of a link to the same page, without those that are left out."""
        fields = self.model_dump(exclude={"model", "hub", "config", *left_out}, exclude_none=True)
        if self.config is not None:
            return {"config": self.config, **fields}
        if self.hub is not None:
            return {"hub": self.hub, **fields}
        return {"model": self.model_name, **fields}

    def api_fields(self, *left_out: str) -> dict[str, Any]:
        """The fields of a link to the API, which takes no config.json."""
        fields = self.stated(*left_out)
        hub = fields.pop("hub", None)
        return fields if hub is None else {"model": f"{HUB_PREFIX}{hub}", **fields}


class PageRequest(ModelQuestion):
    """A deployment as the form describes it; its defaults are the example that an empty page shows.

    The names are those of the same fields in the API's own links.
    """

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
    arrivals: Literal["at_once"] | None = None
    """Whether requests come all at once; if not, another comes for each that is answered."""
    engine: Reference | None = None
    engine_version: ReleaseText | None = None
    workload_kind: WorkloadKindId = "real-time-inference"
    recommend: bool = False
    """Search for better choices (takes about a second)."""
    theme: Literal["auto", "light", "dark"] = "auto"
    """Theme of the embedded view; the page itself follows the reader's preference."""

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
            model=self.asked_model,
            precision=PrecisionRequest(weights=self.weights, kv_cache=self.kv_cache),
            accelerator=self.accelerator,
            accelerator_count=self.accelerator_count,
            parallelism=self.layout,
            region=self.region,
            workload=WorkloadRequest(
                input_tokens=self.input_tokens,
                output_tokens=self.output_tokens,
                concurrency=self.concurrency,
                arrivals=self.arrivals,
            ),
            serving=self.serving,
            explain=True,
        )

    @property
    def serving(self) -> ServingRequest:
        """The engine and its release."""
        named = {} if self.engine is None else {"engine": self.engine}
        return ServingRequest(**named, engine_version=self.engine_version)

    @property
    def recommendation(self) -> RecommendationRequest:
        """The search for better choices."""
        return RecommendationRequest(
            model=self.asked_model,
            workload_kind=self.workload_kind,
            workload=DecisionWorkload(
                input_tokens=self.input_tokens,
                output_tokens=max(self.output_tokens, 2),
                concurrency=self.concurrency,
            ),
            serving=self.serving,
        )

    def link(self, **changes: Any) -> str:
        """The query of a link to the same page, with some of the fields changed."""
        return query_of(self.stated("theme", "recommend") | changes)

    def deployment_link(self, *, placed: bool = True, **added: Any) -> str:
        """The query of a link to an operation of the API about the same deployment."""
        left_out = ("workload_kind", "recommend", "theme", *(() if placed else ("region",)))
        return query_of(self.api_fields(*left_out) | added)


def query_of(fields: Mapping[str, Any]) -> str:
    """Fields as a query; those of None are not stated."""
    return urlencode({name: value for name, value in fields.items() if value is not None})
