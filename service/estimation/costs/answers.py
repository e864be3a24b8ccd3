"""What a deployment or a run costs, in every answer that says so."""

from __future__ import annotations

from service.core.costs import PriceKind
from service.estimation.answers import Answer, Interval


class ServingCost(Answer):
    """Costs of an inference deployment, without taxes, discounts, staff and rent of buildings."""

    usd_per_hour: Interval
    usd_per_request: Interval
    usd_per_million_output_tokens: Interval | None
    """Null where nothing is generated."""
    usd_per_year: Interval
    usd_period: Interval
    """For period.days, or for period.requests if given."""


class TrainingRunCost(Answer):
    """Costs of a training run, without taxes, discounts, staff and rent of buildings."""

    usd_per_hour: Interval
    usd_per_million_tokens: Interval
    usd_run: Interval | None
    """Null unless training.tokens is given."""


class Rented(Answer):
    """What is rented, and the origin of its price."""

    instance: str | None
    """Null if the request gave the rent."""
    instances: int | None
    price_kind: PriceKind | None
    """Null if the request gave the rent."""
    price_region: str | None
    """Null if the price is the same everywhere."""
    price_date: str | None
    """Day or year of the price."""


class Owned(Answer):
    """Parts of the cost of ownership."""

    hardware_usd_per_hour: Interval
    electricity_usd_per_hour: Interval


class RentedServing(Rented, ServingCost):
    """An inference deployment on rented machines, at list prices or the caller's own."""


class OwnedServing(Owned, ServingCost):
    """An inference deployment on purchased hardware: depreciation and electricity."""


class RentedTraining(Rented, TrainingRunCost):
    """A training run on rented machines, at list prices or the caller's own."""


class OwnedTraining(Owned, TrainingRunCost):
    """A training run on purchased hardware: depreciation and electricity."""


class InferenceCost(Answer):
    """Costs of renting, of owning and of emissions; null where a price is not known.

    They are alternatives: do not add them up.
    """

    rented: RentedServing | None
    owned: OwnedServing | None
    """Needs a purchase price, and a price of electricity: cost.electricity_usd_per_kwh, or the
    region's."""
    emissions: ServingCost | None
    """Emissions priced at cost.usd_per_tco2e; a cost to you only if a law requires payment."""


class TrainingCost(Answer):
    """Costs of renting, of owning and of emissions; null where a price is not known.

    They are alternatives: do not add them up.
    """

    rented: RentedTraining | None
    owned: OwnedTraining | None
    """Needs a purchase price, and a price of electricity: cost.electricity_usd_per_kwh, or the
    region's."""
    emissions: TrainingRunCost | None
    """Emissions priced at cost.usd_per_tco2e; a cost to you only if a law requires payment."""
