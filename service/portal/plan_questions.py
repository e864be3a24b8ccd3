"""What the pages that plan are asked."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator

from service.catalog.named_models import model_named
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.plans.requests import (
    FleetPlanRequest,
    SitePlanRequest,
    TrafficPlanRequest,
)
from service.estimation.recommendations.requests import Limit
from service.estimation.references import FormatName, Reference, Request
from service.portal.questions import ModelQuestion, query_of

#: An office day, hour by hour [requests/s].
_OFFICE_DAY = "2,1,1,1,2,4,8,14,20,24,26,26,25,25,24,22,20,18,16,14,12,9,6,4"
_DAY_S = 86_400.0


class PlanQuestion(ModelQuestion):
    """What all plans ask: what serves, how long requests are, and the times to keep."""

    model: Any = "meta-llama/Llama-3.1-8B"
    accelerator: Reference = "nvidia-h100-sxm-80gb"
    accelerator_count: int = Field(1, ge=1, le=1024)
    region: Reference = "aws/eu-north-1"
    weights: FormatName | None = None
    input_tokens: int = Field(1024, ge=1, le=10_000_000)
    output_tokens: int = Field(256, ge=1, le=1_000_000)
    ttft_p95_s: Limit = 1.0
    tpot_p95_s: Limit = 0.05

    @property
    @abstractmethod
    def plan(self) -> Request:
        """The plan that the page shows."""

    @property
    def asked(self) -> Request:
        """See ``ModelQuestion``."""
        return self.plan

    @property
    def unit(self) -> dict[str, Any]:
        """One copy of what serves, as a request for an estimate."""
        return {
            "model": self._model,
            "accelerator": self.accelerator,
            "accelerator_count": self.accelerator_count,
            "region": self.region,
            "precision": {"weights": self.weights},
            "workload": self._lengths,
            "limits": self._limits,
        }

    @property
    def _model(self) -> Any:
        asked = self.asked_model
        return asked if isinstance(asked, str) else asked.model_dump(mode="json")

    @property
    def _lengths(self) -> dict[str, Any]:
        return {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}

    @property
    def _limits(self) -> dict[str, Any] | None:
        kept = {"ttft_p95_s": self.ttft_p95_s, "tpot_p95_s": self.tpot_p95_s}
        stated = {name: value for name, value in kept.items() if value is not None}
        return stated or None

    def link(self, **changes: Any) -> str:
        """The query of a link to the same page."""
        return query_of(self.stated() | changes)

    def named(self, snapshot: CatalogSnapshot) -> Self:
        """The same with catalog ids in place of aliases, as the form shows them."""
        found = {
            name: snapshot.find(collection, getattr(self, name)).id
            for name, collection in (("accelerator", "accelerators"), ("region", "regions"))
        }
        if self.hub is None and self.config is None:
            found["model"] = model_named(str(self.model), snapshot).id
        return self.model_copy(update=found)


class FleetPageRequest(PlanQuestion):
    """A load that grows over years."""

    requests_per_s: float = Field(20.0, ge=1e-6, le=1e9)
    peak_ratio: float = Field(2.5, ge=1.0, le=1000.0)
    growth_percent: float = Field(40.0, ge=-95.0, le=2000.0)
    years: int = Field(5, ge=1, le=30)
    refresh_years: int = Field(4, ge=1, le=20)
    reserve_percent: float = Field(20.0, ge=0.0, le=95.0)
    spare_copies: int = Field(0, ge=0, le=1000)

    @property
    def plan(self) -> FleetPlanRequest:
        """The plan that the page shows."""
        return FleetPlanRequest.model_validate(
            {
                "years": self.years,
                "refresh_years": self.refresh_years,
                "reserve_ratio": self.reserve_percent / 100.0,
                "spare_copies": self.spare_copies,
                "loads": [
                    {
                        "name": "load",
                        "deployment": self.unit,
                        "requests_per_s": self.requests_per_s,
                        "peak_ratio": self.peak_ratio,
                        "growth_per_year_ratio": self.growth_percent / 100.0,
                    }
                ],
            }
        )


class TrafficPageRequest(PlanQuestion):
    """A day of traffic."""

    rates: str = Field(_OFFICE_DAY, min_length=1, max_length=12_000)
    """Requests per second in each part of the day, in order, separated by commas."""
    scaling: Literal["fixed", "each-interval"] = "each-interval"
    start_s: float = Field(120.0, ge=0.0, le=3600.0)
    wait_percent: float = Field(0.0, ge=0.0, le=100.0)
    """Requests that can wait for a cleaner grid."""
    wait_hours: float = Field(6.0, ge=0.0, le=168.0)
    generation: str | None = Field(None, max_length=12_000)
    """What plants under contract generate in each part of the day, in any unit; no contract where
    this is empty."""
    contracted_percent: float = Field(100.0, gt=0.0, le=10_000.0)
    """What they generate in the day over what is consumed in it."""
    gco2e_per_kwh: float = Field(0.0, ge=0.0, le=5000.0)
    """Emissions of what they generate."""
    reserve_percent: float = Field(20.0, ge=0.0, le=95.0)
    spare_copies: int = Field(0, ge=0, le=1000)

    @field_validator("rates", "generation")
    @classmethod
    def _numbers(cls, given: str | None) -> str | None:
        if given is None:
            return None
        parts = [part.strip() for part in given.replace(";", ",").replace("\n", ",").split(",")]
        try:
            counted = [float(part) for part in parts if part]
        except ValueError:
            raise ValueError("must be numbers separated by commas, such as 2, 5, 20, 8") from None
        if not 1 <= len(counted) <= 1440:
            raise ValueError("must be between 1 and 1,440 numbers, one for each part of the day")
        return ",".join(f"{one:g}" for one in counted)

    @field_validator("generation")
    @classmethod
    def _as_many_as_rates(cls, given: str | None, info: ValidationInfo) -> str | None:
        rates = info.data.get("rates")
        if given is not None and rates is not None and given.count(",") != rates.count(","):
            raise ValueError(f"must be {rates.count(',') + 1} numbers, as many as there are rates")
        return given

    @property
    def plan(self) -> TrafficPlanRequest:
        """The plan that the page shows."""
        rates = _numbers_of(self.rates)
        return TrafficPlanRequest.model_validate(
            {
                "deployment": self.unit,
                "requests_per_s": rates,
                "interval_s": _DAY_S / len(rates),
                "scaling": self.scaling,
                "deferrable": {
                    "ratio": self.wait_percent / 100.0,
                    "within_s": self.wait_hours * 3_600.0,
                }
                if self.wait_percent
                else None,
                "contract": {
                    "generation": _numbers_of(self.generation),
                    "contracted_ratio": self.contracted_percent / 100.0,
                    "gco2e_per_kwh": self.gco2e_per_kwh,
                }
                if self.generation
                else None,
                "start_s": self.start_s,
                "reserve_ratio": self.reserve_percent / 100.0,
                "spare_copies": self.spare_copies,
            }
        )


class SitePageRequest(PlanQuestion):
    """A site, and hardware that could fill it."""

    model: Any = "meta-llama/Llama-3.1-70B"
    accelerator_2: Reference | None = "amd-mi300x-192gb"
    accelerator_3: Reference | None = None
    region: Reference = "country/DE"
    weights: FormatName | None = "fp8"
    site_kw: float = Field(5000.0, gt=0.0, le=1e8)
    racks: int = Field(100, ge=1, le=1_000_000)
    rack_kw: float = Field(40.0, gt=0.0, le=1e4)
    water_l_per_day: Limit = None

    @property
    def plan(self) -> SitePlanRequest:
        """The plan that the page shows."""
        options = (self.accelerator, self.accelerator_2, self.accelerator_3)
        return SitePlanRequest.model_validate(
            {
                "region": self.region,
                "site_kw": self.site_kw,
                "racks": self.racks,
                "rack_kw": self.rack_kw,
                "water_l_per_day": self.water_l_per_day,
                "options": [{"accelerator": one} for one in options if one],
                "serves": {
                    "model": self._model,
                    "precision": {"weights": self.weights},
                    "workload": self._lengths,
                    "limits": self._limits,
                },
            }
        )


def _numbers_of(text: str) -> list[float]:
    """Numbers that a field lists."""
    return [float(one) for one in text.split(",")]
