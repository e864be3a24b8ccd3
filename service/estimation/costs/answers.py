"""What a deployment or a run costs, in every answer that says so."""

from __future__ import annotations

from typing import Literal, NotRequired

from service.core.costs import PriceKind
from service.estimation.answers import Answer, IfAny, Interval
from service.estimation.detail import part_of


@part_of("cost.breakdown")
class CostOfTime(Answer, total=False):
    """Costs of a request, of a year and of the period."""

    usd_per_request: Interval
    """Also present without cost.breakdown if nothing is generated."""
    usd_per_year: Interval
    usd_period: Interval
    """For period.days, or for period.requests if given."""


class ServingCost(CostOfTime):
    """Costs of an inference deployment, without taxes, discounts, staff and rent of buildings."""

    usd_per_hour: Interval
    usd_per_million_output_tokens: Interval | None
    """Null where nothing is generated."""


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
    """Machines that are rented, whole; null if the request gave the rent."""
    price_kind: PriceKind | None
    """Null if the request gave the rent."""
    price_region: str | None
    """Null if the price is the same everywhere."""
    price_date: str | None
    """Day or year of the price."""


class Owned(Answer):
    """Parts of the cost of ownership."""

    accelerators: int
    """Number of accelerators that are bought: whole boards or racks if they are only sold so,
    unless the request gives the price of one."""
    hardware_usd_per_hour: Interval
    electricity_usd_per_hour: Interval
    memory_tiers_usd_per_hour: NotRequired[IfAny[Interval]]
    """Memory beside the machine (serving.memory_tiers but those of the host), as far as its price
    is known: all of a tier that has a size, else what is used of it."""


class RentedServing(Rented, ServingCost):
    """An inference deployment on rented machines, at list prices or the caller's own."""


class OwnedServing(Owned, ServingCost):
    """An inference deployment on purchased hardware: depreciation and electricity."""


class RentedTraining(Rented, TrainingRunCost):
    """A training run on rented machines, at list prices or the caller's own."""


class OwnedTraining(Owned, TrainingRunCost):
    """A training run on purchased hardware: depreciation and electricity."""


class TotalBasis(Answer):
    """What a total cost of ownership is made of."""

    basis: Literal["owned", "rented"]
    """owned: depreciation and electricity; rented: the rent, where owning is not known."""
    includes_emissions: bool
    """Whether it includes emissions, at cost.usd_per_tco2e."""


class TotalCost(TotalBasis, ServingCost):
    """Total cost of ownership in one figure: what serves the requests, and what it emits."""


class InferenceCost(Answer):
    """Costs of renting, of owning and of emissions; null where a price is not known.

    Renting and owning are alternatives: do not add them up.
    """

    total: TotalCost | None
    """Cost of owning, otherwise of renting, plus emissions at their price; null if neither is
    known."""

    rented: RentedServing | None
    owned: OwnedServing | None
    """Needs a purchase price (where it is rented: cost.purchase_usd_per_accelerator, else the
    catalog's, too), and one of electricity: cost.electricity_usd_per_kwh, or the region's."""
    emissions: NotRequired[IfAny[ServingCost]]
    """Cost of emissions at cost.usd_per_tco2e. You pay it only if a law requires so."""


class TotalTrainingCost(TotalBasis, TrainingRunCost):
    """Total cost of ownership in one figure: what computes the run, and what it emits."""


class TrainingCost(Answer):
    """Costs of renting, of owning and of emissions; null where a price is not known.

    Renting and owning are alternatives: do not add them up.
    """

    total: TotalTrainingCost | None
    """Cost of owning, otherwise of renting, plus emissions at their price; null if neither is
    known."""

    rented: RentedTraining | None
    owned: OwnedTraining | None
    """Needs a purchase price (where it is rented: cost.purchase_usd_per_accelerator, else the
    catalog's, too), and one of electricity: cost.electricity_usd_per_kwh, or the region's."""
    emissions: NotRequired[IfAny[TrainingRunCost]]
    """Cost of emissions at cost.usd_per_tco2e. You pay it only if a law requires so."""
