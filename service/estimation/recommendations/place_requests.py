"""What callers may ask about places: how hardware is had, what owning costs, rules, the site."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from service.core.search.workloads import Where
from service.estimation.compliance.requests import RuleFacts
from service.estimation.impacts.requests import Decibels, Loss
from service.estimation.references import Reference, Request


def listed(given: object) -> object:
    """A list, or one text separated by commas."""
    if isinstance(given, str):
        return [part.strip() for part in given.split(",") if part.strip()]
    return given


#: Ways to have hardware that a link can spell, as one text separated by commas.
Wheres = Annotated[
    list[Where],
    Field(min_length=1, max_length=5),
    BeforeValidator(
        listed, json_schema_input_type=Annotated[str, Field(max_length=60)] | list[Where]
    ),
]

_Usd = Annotated[float, Field(gt=0.0, le=1e9)]


class OwnershipRequest(Request):
    """What hardware of your own costs: its price over its life, and the electricity it draws."""

    purchase_usd_per_accelerator: dict[Reference, _Usd] = Field(
        default_factory=dict, max_length=500
    )
    """Your own purchase prices, by accelerator, with its share of the machine; else the catalog's,
    where it has one."""
    amortisation_years: float | None = Field(None, gt=0.0, le=100.0)
    """Time over which hardware is written off; if null, the typical life of servers."""
    electricity_usd_per_kwh: float | None = Field(None, ge=0.0, le=100.0)
    """Your price of electricity; if null, what large customers pay in the place, where the catalog
    knows it."""


class RulesLimit(RuleFacts):
    """Rules that have to be kept, with what is known of the site, the company and the model."""

    require: Literal["pass", "not_fail"] = "not_fail"
    """not_fail: no rule of the place fails; pass: none fails, falls due or stays unknown."""


class NoiseLimit(Request):
    """The sound of all machines where it is heard."""

    at_most_db: Decibels
    """Highest level there, A-weighted."""
    machine_sound_power_db: Decibels
    """Declared A-weighted sound power of one machine."""
    receptor_distance_m: float = Field(ge=1.0, le=1e5)
    """Distance from the machines to the place where they are heard."""
    propagation: Literal["half-space", "free-field", "line"] = "half-space"
    """How sound spreads. half-space: from a point on hard ground; line: from a long row, with sound
    power per metre."""
    building_loss_db: Loss = 0.0
    """Sound reduction of walls."""
    barrier_db: Loss = 0.0
    """Loss by walls and earth banks on the way."""


class SiteLimits(Request):
    """What the site can take; null means no limit."""

    facility_power_w: float | None = Field(None, gt=0.0, le=1e12)
    """Highest mean power with the building's share (PUE)."""
    rack_kw: float | None = Field(None, gt=0.0, le=1e4)
    """Highest power of a rack, which its cooling can carry away."""
    accelerators_per_rack: int | None = Field(None, ge=1, le=10_000)
    """Accelerators in a rack; if null, those of one machine."""
    noise: NoiseLimit | None = None
    """Sound of the machines where neighbours hear it."""
