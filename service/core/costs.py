"""What a deployment costs: rented by the hour, owned, and by a price on its emissions.

Money is of the day the prices were read, without taxes, discounts, staff or the building's rent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from typing import Literal, TypeAlias

from service.core.elementwise import Number
from service.core.explanation import Formula, paths
from service.core.interval import Interval, product, quotient, scale
from service.core.years import HOURS_PER_YEAR

_GRAMS_PER_TONNE = 1e6
_MILLION = 1e6

#: Paths start at what has prices, electricity and emissions by the hour.
COSTS = (
    Formula(
        "rented_usd_per_hour",
        "units * usd_per_unit_hour",
        "list prices of instances, or a price of an accelerator",
        "prices.rental.usd_per_hour",
        paths(
            "prices.rental.units",
            "prices.rental.usd_per_unit_hour",
            instance="prices.rental.instance.id",
        ),
    ),
    Formula(
        "hardware_usd_per_hour",
        "accelerators * purchase_usd / (amortisation_years * 8766)",
        "straight-line depreciation",
        "hardware_usd_per_hour",
        paths("prices.accelerators", "prices.purchase_usd", "prices.amortisation_years"),
    ),
    Formula(
        "memory_tiers_usd_per_hour",
        "accelerators * memory_tiers_usd / (amortisation_years * 8766)",
        "straight-line depreciation",
        "memory_tiers_usd_per_hour",
        paths("prices.accelerators", "prices.memory_tiers_usd", "prices.amortisation_years"),
    ),
    Formula(
        "electricity_usd_per_hour",
        "facility_kwh_per_hour * electricity_usd_per_kwh",
        "definition",
        "electricity_usd_per_hour",
        paths("prices.electricity_usd_per_kwh"),
    ),
    Formula(
        "emissions_usd_per_hour",
        "gco2e_per_hour * usd_per_tco2e / 1000000",
        "definition",
        "emissions_usd_per_hour",
        paths("prices.usd_per_tco2e"),
    ),
)


#: What is paid for: by the hour, while nobody pays more, or for the whole time.
PriceKind: TypeAlias = Literal["on-demand", "spot", "reserved-1y", "reserved-3y"]


@dataclass(frozen=True, slots=True)
class Price:
    """Price of one instance [USD/h].

    ``region`` is None where the provider asks the same everywhere; ``date`` the day or year.
    """

    usd_per_hour: float
    region: str | None
    date: str
    source: str | None


#: Prices of each kind, by region; None where the provider asks the same everywhere.
Prices: TypeAlias = Mapping[PriceKind, Mapping[str | None, Price]]


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine that a cloud provider rents out, with ``accelerators`` of one kind.

    It is offered in ``regions``, None among them where the provider names none.
    """

    id: str
    provider: str
    accelerator: str
    accelerators: int
    prices: Prices
    regions: frozenset[str | None]

    def needed(self, accelerators: int) -> int:
        """Instances that hold a number of accelerators [-]."""
        return ceil(accelerators / self.accelerators)

    def offered_in(self, region: str) -> bool:
        """Whether it is known to be rented out in a region of its provider."""
        return region in self.regions or None in self.regions

    def price_in(self, region: str | None, kind: PriceKind = "on-demand") -> Price | None:
        """The price in a region, else one for everywhere, else that of the middling other region.

        Of an even number of other regions, the cheaper one in the middle.
        """
        priced = self.prices.get(kind)
        if not priced:
            return None
        known = priced.get(region) or priced.get(None)
        if known is not None:
            return known
        ordered = sorted(priced.values(), key=lambda one: (one.usd_per_hour, str(one.region)))
        return ordered[(len(ordered) - 1) // 2]


def hardware_usd_per_hour(accelerators: int, purchase_usd: Interval, years: Interval) -> Interval:
    """Depreciation of bought accelerators, each with its share of the server.

    Parameters
    ----------
    accelerators
        How many [-].
    purchase_usd
        Price of one with its share of the server [USD].
    years
        Time over which the price is written off [year].
    """
    return scale(quotient(purchase_usd, years), accelerators / HOURS_PER_YEAR)


def electricity_usd_per_hour(facility_kwh_per_hour: Interval, usd_per_kwh: Interval) -> Interval:
    """Electricity of hardware and building at a price per kWh [USD/h]."""
    return product(facility_kwh_per_hour, usd_per_kwh)


def emissions_usd_per_hour(gco2e_per_hour: Interval, usd_per_tco2e: float) -> Interval:
    """What emissions cost at a price of a tonne [USD/h]."""
    return scale(gco2e_per_hour, usd_per_tco2e / _GRAMS_PER_TONNE)


def usd_per_million_tokens(
    usd_per_hour: Interval, requests_per_s: Interval, output_tokens: Number
) -> Interval:
    """Cost of a million output tokens, of which each request ends with so many [USD]."""
    return scale(per_unit(usd_per_hour, requests_per_s), _MILLION / output_tokens)


def per_unit(usd_per_hour: Interval, units_per_s: Interval, units: Number = 1.0) -> Interval:
    """Cost of a number of units (requests, tokens) that come out at a rate [USD]."""
    return scale(quotient(usd_per_hour, units_per_s), units / 3_600.0)
