"""What the page is asked: the fields of its form, which are the query of a link to it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlencode

import orjson
from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from service.catalog.snapshot import CatalogSnapshot
from service.core.backends import Backend
from service.estimation.faults import fault
from service.estimation.formatting import Units
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.requests import (
    DecisionLimitsRequest,
    DecisionWorkload,
    Limit,
    RecommendationRequest,
    SearchRequest,
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
    PowerLimit,
    Reference,
    ReleaseText,
    Request,
)
from service.estimation.requests import (
    Concurrency,
    ParallelismRequest,
    PrecisionRequest,
    ServingRequest,
    WorkloadRequest,
)
from service.portal.places import SearchedPlace, searched_regions

#: Degrees of parallelism that the form takes.
LAYOUT = ("tensor", "pipeline", "data", "expert")
#: Fields that only say what figures are read in.
UNITS = ("memory_unit", "currency", "per_usd")
#: Characters of a pasted config.json: it is a part of the link.
MOST_CONFIG_CHARACTERS = 16_000
#: Fields that only say what is wanted of a deployment, and what is looked for.
_WANTED = (
    *UNITS,
    "percentile",
    "workload_kind",
    "ttft_s",
    "tpot_s",
    "usd_per_month",
    "kgco2e_per_year",
    "l_per_year",
    "weight_bits_at_least",
    "search_in",
    "recommend",
)
#: Fields that links leave out where they are as usual.
_UNSAID = ("percentile", "any_method", "any_optimizer", "any_format", "view")
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
    memory_unit: Literal["GiB"] | None = None
    """What memory is read in, other than GB."""
    currency: Annotated[str, Field(pattern="^[A-Za-z]{3}$")] | None = None
    """What money is read in, other than US dollars, at ``per_usd`` of it for one."""
    per_usd: Annotated[float | None, Field(gt=0.0, le=1e9, validate_default=True)] = None

    @field_validator("per_usd")
    @classmethod
    def _at_a_rate(cls, given: float | None, info: ValidationInfo) -> float | None:
        """No rate is taken for granted: rates move, and none would be that of the reader."""
        currency = info.data.get("currency")
        if currency is not None and currency.upper() != "USD" and given is None:
            raise ValueError(f"say how many {currency.upper()} you get for 1 USD")
        return given

    @property
    def units(self) -> Units:
        """What memory and money are read in."""
        if self.currency is None or self.per_usd is None:
            return Units(self.memory_unit or "GB")
        return Units(self.memory_unit or "GB", self.currency.upper(), self.per_usd)

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
    @abstractmethod
    def asked(self) -> Request:
        """What the API is asked for the page."""

    @model_validator(mode="after")
    def _is_what_the_api_takes(self) -> Self:
        """Fields that are right each by itself may still contradict each other."""
        try:
            _ = self.asked
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            place = "" if first["type"] == "value_error" else f"{first['loc'][-1]}: "
            raise ValueError(f"{place}{fault(first)}") from None
        return self

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
        usual = {name: type(self).model_fields[name].default for name in _UNSAID if name in fields}
        fields = {n: value for n, value in fields.items() if n not in usual or usual[n] != value}
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


#: Where the example stands that a page shows which is asked nothing.
EXAMPLE_PLACE: Mapping[str, Any] = {"region": "aws/eu-north-1"}
_LOAD: Mapping[str, Any] = {"concurrency": 32, "ttft_s": 1.0, "tpot_s": 0.05}
#: That example: its place, its load and its limits.
EXAMPLE: Mapping[str, Any] = {**EXAMPLE_PLACE, **_LOAD}
EXAMPLE_LOAD: dict[str, Any] = {"input_tokens": 2048, "output_tokens": 256, **_LOAD}


def one_accelerator(given: Mapping[str, Any]) -> dict[str, Any]:
    """What is asked, with one accelerator where it is named and not counted."""
    counted = any(name in given for name in ("accelerator_count", *LAYOUT))
    one = {} if counted or "accelerator" not in given else {"accelerator_count": 1}
    return {**given, **one}


class PageRequest(ModelQuestion):
    """A deployment as the form describes it, and what is wanted of it.

    The names are those of the same fields in the API's own links, and so are the defaults of the
    load: a link without it asks the same of the page, the badge and the API.
    """

    accelerator: Reference = "nvidia-h100-sxm-80gb"
    accelerator_count: int = Field(8, ge=1, le=100_000)
    power_limit_w: PowerLimit | None = None
    """The most that each accelerator may draw."""
    tensor: Degree | None = None
    pipeline: Degree | None = None
    expert: Degree | None = None
    data: Degree | None = None
    region: Reference | None = None
    weights: FormatName | None = None
    kv_cache: FormatName | None = None
    input_tokens: int = Field(2048, ge=1, le=10_000_000)
    output_tokens: int = Field(256, ge=1, le=1_000_000)
    concurrency: Concurrency = 1
    requests_per_s: float | None = Field(None, ge=1e-6, le=1e6)
    """Requests that come in a second, instead of so many at once."""
    arrivals: Literal["at_once"] | None = None
    """Whether requests come all at once; if not, another comes for each that is answered."""
    engine: Reference | None = None
    engine_version: ReleaseText | None = None
    backend: Backend | None = None
    """What drives the accelerators, of engines with a choice."""
    workload_kind: WorkloadKindId = "real-time-inference"
    ttft_s: Limit = None
    """The longest that the first token may take."""
    tpot_s: Limit = None
    """The longest that each next token may take."""
    percentile: Literal["mean", "p50", "p95", "p99"] = "mean"
    """What of these times has to be kept: the mean, or a percentile over requests."""
    usd_per_month: Limit = None
    """The most that it may cost in a month."""
    kgco2e_per_year: Limit = None
    l_per_year: Limit = None
    weight_bits_at_least: float | None = Field(None, gt=0.0, le=32.0)
    """Fewest bits of a weight that choices may have."""
    search_in: SearchedPlace = "country"
    """Where choices may stand."""
    recommend: bool = False
    """Search for better choices (takes about a second)."""
    theme: Literal["auto", "light", "dark"] = "auto"
    """Theme of the embedded view; the page itself follows the reader's preference."""

    @model_validator(mode="before")
    @classmethod
    def _with_an_example(cls, given: Any) -> Any:
        """A page that is asked nothing shows an example; one accelerator that is named is one."""
        if not isinstance(given, Mapping):
            return given
        return one_accelerator(given) if given else dict(EXAMPLE)

    @field_validator("percentile")
    @classmethod
    def _of_a_rate(cls, given: str, info: ValidationInfo) -> str:
        if given != "mean" and info.data.get("requests_per_s") is None:
            raise ValueError("needs requests a second: only then do some wait longer than others")
        return given

    @property
    def limits(self) -> DecisionLimitsRequest:
        """What is wanted of a deployment, as searches take it."""
        return DecisionLimitsRequest(
            ttft_s=self.ttft_s,
            tpot_s=self.tpot_s,
            percentile=self.percentile,
            usd_per_month=self.usd_per_month,
            kgco2e_per_year=self.kgco2e_per_year,
            l_per_year=self.l_per_year,
            weight_bits_at_least=self.weight_bits_at_least,
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
        # What a link leaves out is left out of the request, which says what that comes to.
        at_once = {"concurrency"} & self.model_fields_set
        return InferenceRequest(
            model=self.asked_model,
            precision=PrecisionRequest(weights=self.weights, kv_cache=self.kv_cache),
            accelerator=self.accelerator,
            accelerator_count=self.accelerator_count,
            power_limit_w=self.power_limit_w,
            parallelism=self.layout,
            region=self.region,
            workload=WorkloadRequest(
                input_tokens=self.input_tokens,
                output_tokens=self.output_tokens,
                requests_per_s=self.requests_per_s,
                arrivals=self.arrivals,
                **self.model_dump(include=at_once),
            ),
            serving=self.serving,
            explain=True,
        )

    @property
    def asked(self) -> Request:
        """See ``ModelQuestion``."""
        return self.estimate

    @property
    def serving(self) -> ServingRequest:
        """The engine, its release and its backend."""
        named = {} if self.engine is None else {"engine": self.engine}
        return ServingRequest(**named, engine_version=self.engine_version, backend=self.backend)

    def at_a_count(self, snapshot: CatalogSnapshot) -> Self:
        """The same with a number of requests at once, where as many as fit were asked for."""
        if self.concurrency != "max":
            return self
        asked = self.estimate.model_copy(update={"explain": False})
        count = inference_estimate(asked, snapshot)["deployment"]["workload"]["concurrency"]
        return self.model_copy(update={"concurrency": int(count)})

    def recommendation(self, snapshot: CatalogSnapshot) -> RecommendationRequest:
        """The search for better choices than this plan for the same load, within what is wanted."""
        plan = self.at_a_count(snapshot)
        count = plan.concurrency if isinstance(plan.concurrency, int) else None
        return RecommendationRequest(
            model=self.asked_model,
            workload_kind=self.workload_kind,
            limits=self.limits,
            search=SearchRequest(regions=searched_regions(self.search_in, self.region, snapshot)),
            baseline=plan.estimate.model_copy(update={"explain": False}),
            workload=DecisionWorkload(
                input_tokens=self.input_tokens,
                output_tokens=max(self.output_tokens, 2),
                requests_per_s=self.requests_per_s,
                concurrency=count if self.requests_per_s is None else None,
            ),
            serving=self.serving,
        )

    def link(self, **changes: Any) -> str:
        """The query of a link to the same page, with some of the fields changed."""
        return query_of(self.stated("theme", "recommend") | changes)

    def deployment_link(self, *, placed: bool = True, **added: Any) -> str:
        """The query of a link to an operation of the API about the same deployment."""
        return query_of(self.deployment_fields(placed=placed) | added)

    def deployment_fields(self, *, placed: bool = True) -> dict[str, Any]:
        """The fields that say what is deployed, without what is wanted of it."""
        return self.api_fields(*_WANTED, "theme", *(() if placed else ("region",)))


def query_of(fields: Mapping[str, Any]) -> str:
    """Fields as a query; those of None are not stated."""
    return urlencode({name: value for name, value in fields.items() if value is not None})


#: What the fields of a form hold that is given other ones.
DEFAULTS: Mapping[str, Any] = MappingProxyType(
    {name: field.default for name, field in PageRequest.model_fields.items()}
)


@dataclass(frozen=True, slots=True)
class Preset:
    """A common question: its name, and the fields that it sets."""

    name: str
    fields: Mapping[str, Any]

    def is_asked(self, request: PageRequest) -> bool:
        """Whether a page asks it."""
        return all(getattr(request, name) == value for name, value in self.fields.items())


#: What people commonly ask of a deployment, whatever it is.
PRESETS = (
    Preset("Chat for 32", EXAMPLE_LOAD | {"workload_kind": "real-time-inference"}),
    Preset(
        "Coding team of 10",
        {
            "input_tokens": 16_384,
            "output_tokens": 1024,
            "concurrency": 10,
            "ttft_s": 5.0,
            "tpot_s": 0.04,
            "workload_kind": "agentic",
        },
    ),
    Preset(
        "Overnight batch",
        {
            "input_tokens": 4096,
            "output_tokens": 512,
            "concurrency": 256,
            "ttft_s": None,
            "tpot_s": None,
            "workload_kind": "batch-inference",
        },
    ),
    Preset(
        "On my own machine",
        {
            "accelerator": "nvidia-rtx-4090-24gb",
            "accelerator_count": 1,
            "model": "meta-llama/Llama-3.1-8B",
            "weights": "awq-int4",
            "input_tokens": 1024,
            "output_tokens": 512,
            "concurrency": 1,
            "ttft_s": 2.0,
            "tpot_s": 0.1,
            "workload_kind": "edge",
            "power_limit_w": None,
            "tensor": None,
            "pipeline": None,
            "data": None,
            "expert": None,
        },
    ),
)
