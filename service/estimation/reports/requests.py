"""What callers may ask of reports."""

from __future__ import annotations

from typing import Literal

from pydantic import ConfigDict, Field

from service.estimation.impacts.requests import ImpactsRequest, Intensity
from service.estimation.references import Request
from service.estimation.requests import EXAMPLE_DEPLOYMENT, EXAMPLE_WORKLOAD

FunctionalUnit = Literal["per_request", "per_1k_tokens", "per_task", "per_year", "period"]


class DisclosureRequest(Request):
    """Metered and organisational facts; report lines without them are null."""

    functional_unit: FunctionalUnit = "per_request"
    """Unit of an SCI score; period gives energy and emissions of the period."""
    role: Literal["operator", "customer"] = "operator"
    """operator: owns or leases the machines, so that electricity is scope 2; customer: buys the
    service, so that all of it is scope 3."""
    diesel_l: float | None = Field(None, ge=0.0, le=1e12)
    """Fuel of generators, tests included, in the period."""
    diesel_kgco2e_per_l: float | None = Field(None, ge=0.0, le=10.0)
    """Emission factor of the fuel, as your authority publishes it."""
    refrigerant_leak_kg: float | None = Field(None, ge=0.0, le=1e9)
    """Refrigerant lost in the period [kg]; needs refrigerant_gwp."""
    refrigerant_gwp: float | None = Field(None, ge=0.0, le=1e5)
    """Global warming potential of the refrigerant."""
    grid_loss_ratio: float | None = Field(None, ge=0.0, lt=1.0)
    """Share of generation that is lost in transmission and distribution."""
    upstream_gco2e_per_kwh: Intensity | None = None
    """Emissions of producing and transporting fuels, if the grid factor covers only combustion."""
    total_energy_kwh: float | None = Field(None, gt=0.0, le=1e15)
    """Metered energy of the whole data centre (E_DC)."""
    reused_heat_kwh: float | None = Field(None, ge=0.0, le=1e15)
    """Metered heat used outside the data centre in the period, for the energy reuse factor."""
    renewable_kwh: float | None = Field(None, ge=0.0, le=1e15)
    """From guarantees of origin, power purchase agreements and own plants."""
    water_input_l: float | None = Field(None, ge=0.0, le=1e15)
    """Metered water intake, which is more than what evaporates."""
    model_parameters: float | None = Field(None, gt=0.0, le=1e16)
    """Parameters of a trained model; active parameters if sparse."""
    training_tokens: float | None = Field(None, gt=0.0, le=1e18)
    """Tokens that a model was trained on; with model_parameters they give its compute, 6 ·
    parameters · tokens."""


class ReportRequest(ImpactsRequest):
    """A footprint, and the further facts to disclose."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                EXAMPLE_DEPLOYMENT | {"region": "aws/eu-north-1", "workload": EXAMPLE_WORKLOAD},
                {
                    "accelerator_hours": 1_460_000.0,
                    "accelerator": "nvidia-h100-sxm-80gb",
                    "region": "country/US",
                    "period": {"days": 60.0, "year": 2024},
                    "disclosure": {
                        "functional_unit": "period",
                        "model_parameters": 8.03e9,
                        "training_tokens": 15e12,
                    },
                },
            ]
        }
    )

    disclosure: DisclosureRequest = DisclosureRequest()
