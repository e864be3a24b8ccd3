"""What a deployment or a run costs, in every answer that says so."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from service.estimation.answers import Answer, Interval


class ServingCost(Answer):
    """Costs of an inference deployment, without taxes, discounts, staff and rent of buildings."""

    usd_per_hour: Interval
    usd_per_request: Interval
    usd_per_million_output_tokens: Interval
    usd_per_year: Interval
    usd_period: Annotated[
        Interval, Field(description="Of period.days, or of period.requests where they are given.")
    ]


class TrainingRunCost(Answer):
    """Costs of a training run, without taxes, discounts, staff and rent of buildings."""

    usd_per_hour: Interval
    usd_per_million_tokens: Interval
    usd_run: Annotated[Interval | None, Field(description="Null unless training.tokens is given.")]


class Rented(Answer):
    """What is rented, and how its price is known."""

    instance: Annotated[str | None, Field(description="Null where the caller stated the rent.")]
    instances: int | None
    price_region: Annotated[
        str | None, Field(description="Null where the price is the same everywhere.")
    ]
    price_date: Annotated[str | None, Field(description="Day, or year, of the price.")]


class Owned(Answer):
    """What owning is made up of."""

    hardware_usd_per_hour: Interval
    electricity_usd_per_hour: Interval


class RentedServing(Rented, ServingCost):
    """An inference deployment on rented machines, at list prices or the caller's own."""


class OwnedServing(Owned, ServingCost):
    """An inference deployment on hardware that is written off, with its electricity."""


class RentedTraining(Rented, TrainingRunCost):
    """A training run on rented machines, at list prices or the caller's own."""


class OwnedTraining(Owned, TrainingRunCost):
    """A training run on hardware that is written off, with its electricity."""


class InferenceCost(Answer):
    """Costs by who pays for what; null where a price is not known. Never to be added up."""

    rented: RentedServing | None
    owned: Annotated[
        OwnedServing | None,
        Field(description="Needs cost.electricity_usd_per_kwh, and a purchase price."),
    ]
    emissions: Annotated[
        ServingCost | None,
        Field(
            description="Emissions at cost.usd_per_tco2e; not paid to anybody unless a law says so."
        ),
    ]


class TrainingCost(Answer):
    """Costs by who pays for what; null where a price is not known. Never to be added up."""

    rented: RentedTraining | None
    owned: Annotated[
        OwnedTraining | None,
        Field(description="Needs cost.electricity_usd_per_kwh, and a purchase price."),
    ]
    emissions: Annotated[
        TrainingRunCost | None,
        Field(
            description="Emissions at cost.usd_per_tco2e; not paid to anybody unless a law says so."
        ),
    ]
