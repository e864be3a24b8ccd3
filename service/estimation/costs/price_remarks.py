"""What to say of list prices: how old they are, and whether so much is had at them."""

from __future__ import annotations

from collections.abc import Iterator

from service.catalog.derived import derived
from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.costs import Instance, Price, PriceKind
from service.core.explanation import EstimateWarning
from service.core.interval import Interval
from service.estimation.formatting import money

#: A price that is older than the newest ones by more is said to be old: a choice of this service.
_FRESH_MONTHS = 9
#: Accelerators, those of eight machines, beyond which few get any on demand: likewise.
ON_DEMAND_AT_ONCE = 64
#: Hours of a day for which one person is taken to use a machine: an example.
_FEW_HOURS = 2.0
#: Classes of machines that one person uses, and not all day.
OF_ONE_PERSON = frozenset(("laptop", "workstation", "desktop", "mini-pc", "phone", "soc-board"))
_HOURS_PER_DAY, _SECONDS_PER_HOUR, _MILLION = 24.0, 3600.0, 1e6


def amount_warnings(
    offer: Entry[Instance],
    units: int,
    count: int,
    kind: PriceKind,
    idle_power_w: Interval | None,
) -> Iterator[EstimateWarning]:
    """What to say of so many instances that are rented for a number of accelerators.

    One that stands idle draws ``idle_power_w``, None where nobody published that.
    """
    rented = units * offer.value.accelerators
    if kind == "on-demand" and rented > ON_DEMAND_AT_ONCE:
        yield EstimateWarning(
            "more_than_on_demand",
            f"{rented} accelerators are rarely available on demand at once: providers rent out so "
            "many by reservation or contract. Get a quote before you rely on the list price",
        )
    idle = rented - count
    if idle:
        drawn = "" if idle_power_w is None else f" (some {idle * idle_power_w.value:.0f} W)"
        yield EstimateWarning(
            "instance_partly_idle",
            f"{idle} accelerators of {units} × {offer.id} stand idle: they are paid for, but "
            f"their power{drawn} is not counted"
            if idle > 1
            else f"one accelerator of {units} × {offer.id} stands idle: it is paid for, but its "
            f"power{drawn} is not counted",
        )


def use_warnings(
    hardware_usd_per_hour: float, electricity_usd_per_hour: float, output_tokens_per_s: float
) -> Iterator[EstimateWarning]:
    """What to say of the cost of a token by hardware of one's own that is taken never to rest."""
    per_million = _MILLION / (output_tokens_per_s * _SECONDS_PER_HOUR)
    always = (hardware_usd_per_hour + electricity_usd_per_hour) * per_million
    seldom = hardware_usd_per_hour * _HOURS_PER_DAY / _FEW_HOURS + electricity_usd_per_hour
    yield EstimateWarning(
        "always_in_use",
        f"{money(always)} per million output tokens assumes hardware in use day and night. In use "
        f"for {_FEW_HOURS:g} hours a day, it is {money(seldom * per_million)}, not counting the "
        "power it draws while idle",
    )


def run_use_warnings(
    run_usd: float, purchase_usd: float, years: float
) -> Iterator[EstimateWarning]:
    """What to say of the cost of a run on hardware of one's own that is taken never to rest."""
    yield EstimateWarning(
        "always_in_use",
        f"{money(run_usd)} is this run's share of hardware that is in use day and night for "
        f"{years:g} years, with electricity; buying the hardware costs about "
        f"{money(purchase_usd)}",
    )


def age_warnings(
    offer: Entry[Instance], price: Price, kind: PriceKind, snapshot: CatalogSnapshot
) -> Iterator[EstimateWarning]:
    """What to say of a price that is much older than the newest ones of the catalog."""
    months, newest = _month(price.date), _newest_price(snapshot)
    if months is None or newest is None or newest[0] - months <= _FRESH_MONTHS:
        return
    yield EstimateWarning(
        "price_is_old",
        f"the {kind} price of {offer.id} dates from {price.date}, the newest prices here from "
        f"{newest[1]}: check with the provider before you rely on it",
    )


@derived()
def _newest_price(snapshot: CatalogSnapshot) -> tuple[int, str] | None:
    """Month of the newest price in the catalog, and its date."""
    dated = [
        (months, price.date)
        for entry in snapshot.instances.values()
        for each in entry.value.prices.values()
        for price in each.values()
        if (months := _month(price.date)) is not None
    ]
    return max(dated, default=None)


def _month(date: str) -> int | None:
    """Months since the year 0 of a day, month or year; the middle of a year that is all known."""
    year, _, rest = date.partition("-")
    month = rest.partition("-")[0] or "6"
    return 12 * int(year) + int(month) if year.isdecimal() and month.isdecimal() else None
