"""The one form of a measurement: a configuration as a request, and what was measured of it.

Packaged files, files of users, reports to the service and the calibration all read this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.measurements.quantities import OUT_OF_MEMORY, QUANTITIES, Kind, canonical
from service.estimation.references import (
    BY_ID,
    IN_LINE,
    OF_IMPACTS,
    OF_INFERENCE,
    OF_TRAINING,
    Reference,
    Request,
)
from service.estimation.requests import LatencyInferenceRequest
from service.estimation.training.requests import LatencyTrainingRequest

_TAGS: Mapping[Kind, str] = {
    "inference": OF_INFERENCE,
    "training": OF_TRAINING,
    "impacts": OF_IMPACTS,
}
_REQUESTS: Mapping[Kind, type[Request]] = {
    "inference": LatencyInferenceRequest,
    "training": LatencyTrainingRequest,
    "impacts": ImpactsRequest,
}
#: What a request of each kind holds and the others do not.
_ONLY_OF_TRAINING = "training"
_ONLY_OF_IMPACTS = frozenset(("region", "energy_kwh", "accelerator_hours"))

Confidence = Literal["high", "medium", "low"]
QuantityName = Annotated[str, Field(min_length=1, max_length=80, pattern=r"^[a-z][a-z0-9_]*$")]
Measured = Annotated[
    Annotated[float, Field(gt=0.0, le=1e18), Tag(BY_ID)] | Annotated[Literal[True], Tag(IN_LINE)],
    Discriminator(lambda given: IN_LINE if isinstance(given, bool) else BY_ID),
]
Pointer = Annotated[str, Field(max_length=200, pattern=r"^(/[^/]+)+$")]
Day = Annotated[str, Field(pattern=r"^[12]\d{3}(-(0[1-9]|1[0-2])(-(0[1-9]|[12]\d|3[01]))?)?$")]


def _tag(given: object) -> str:
    """Which of the requests is meant, by the fields that only one of them has."""
    fields = given.keys() if isinstance(given, Mapping) else set()
    for kind, model in _REQUESTS.items():
        if isinstance(given, model):
            return _TAGS[kind]
    if _ONLY_OF_TRAINING in fields:
        return OF_TRAINING
    return OF_IMPACTS if _ONLY_OF_IMPACTS & set(fields) else OF_INFERENCE


def _any_of(schema: dict[str, Any]) -> None:
    """Requests of different kinds have fields in common: ``kind`` says which one it is."""
    schema["anyOf"] = schema.pop("oneOf")


class MeasurementDocument(Request):
    """A configuration and what was measured of it."""

    id: Reference | None = None
    """Name of the document within its source."""
    kind: Kind
    """What was measured: an inference deployment, a training run, or plain energy or accelerator
    time."""
    request: Annotated[
        Annotated[LatencyInferenceRequest, Tag(OF_INFERENCE)]
        | Annotated[LatencyTrainingRequest, Tag(OF_TRAINING)]
        | Annotated[ImpactsRequest, Tag(OF_IMPACTS)],
        Discriminator(_tag),
    ] = Field(json_schema_extra=_any_of)
    """What ran where, and how: the body of POST /v1/latency/inference or /latency/training, or of
    /v1/impacts."""
    measured: dict[QuantityName, Measured] = Field(
        min_length=1, max_length=40, examples=[{"tpot_s": 0.0417, "output_tokens_per_s": 3062.7}]
    )
    """What was measured, by name of the quantity; out_of_memory is true where it did not fit."""
    limits: dict[QuantityName, Annotated[float, Field(gt=0.0, le=1e9)]] = Field(
        default_factory=dict, max_length=12, examples=[{"ttft_p99_s": 2.0}]
    )
    """Times that goodput_requests_per_s had to keep, by name of the quantity."""
    source: Reference | None = None
    """Who published it: the id of a source in the catalog, or a name of your own."""
    locator: Annotated[str, Field(min_length=1, max_length=500)] | None = None
    """Where it stands in the source."""
    measured_on: Day | None = None
    """Day, month or year of the measurement."""
    tool: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    """What measured it, with its version."""
    confidence: Confidence = "medium"
    """high where the source states the whole configuration, medium where little of it is assumed,
    low where much is or the figure is doubtful."""
    assumed: tuple[Pointer, ...] = Field((), max_length=40)
    """JSON pointers into this document to what the source does not state."""
    notes: Annotated[str, Field(max_length=2000)] | None = None
    """Anything else that matters, such as why a figure is doubtful."""

    @field_validator("measured", "limits", mode="before")
    @classmethod
    def _by_one_name(cls, given: Any) -> Any:
        """Figures by the names of their quantities instead of aliases."""
        if not isinstance(given, dict):
            return given
        named: dict[Any, Any] = {}
        for name, value in given.items():
            known = canonical(name) if isinstance(name, str) else name
            if known in named:
                raise ValueError(f"{known} is given twice, once by another name")
            named[known] = value
        return named

    @model_validator(mode="after")
    def _consistent(self) -> MeasurementDocument:
        if not isinstance(self.request, _REQUESTS[self.kind]):
            raise ValueError(
                f"the request is not one of {self.kind}: training runs have training, which may "
                "be {}, and impacts a region"
            )
        for name, value in self.measured.items():
            if (name == OUT_OF_MEMORY) != (value is True):
                raise ValueError(f"{name}: only {OUT_OF_MEMORY} is true, all others are numbers")
        for name in self.limits:
            if name not in QUANTITIES or not QUANTITIES[name].is_time:
                raise ValueError(f"{name} is not a time that users wait")
        return self

    @property
    def figures(self) -> Mapping[str, float]:
        """What was measured in numbers."""
        return {name: float(value) for name, value in self.measured.items() if value is not True}

    @property
    def ran_out_of_memory(self) -> bool:
        """Whether it did not fit."""
        return OUT_OF_MEMORY in self.measured
