"""The limits of deployments for inference and of training runs, and their figures in estimates."""

from __future__ import annotations

from service.core.number_formats import NUMBER_FORMATS
from service.core.years import HOURS_PER_MONTH
from service.estimation.recommendations.limits import HEADROOM, Limit, Written

_GRAMS_PER_KG = 1000.0
_HOURS_PER_DAY = 24.0


def known(figures: Written | None, *names: str) -> float | None:
    """The first of the figures that is known: a whole, else its largest part."""
    for name in names:
        found = (figures or {}).get(name)
        if found is not None:
            return float(found["value"])
    return None


def free_ratio(estimate: Written, _: Written) -> float:
    """Share of an accelerator's memory that stays free, below zero where it lacks [-]."""
    memory = estimate["memory"]
    return float(memory["headroom_bytes"]["value"] / memory["capacity_bytes"])


def hourly_usd(estimate: Written, candidate: Written) -> float | None:
    """Price of an hour of all accelerators: the rent, or what owning them costs [USD/h]."""
    if candidate.get("owned"):
        cost = estimate["cost"] or {}
        # In places of one's own there is a rent only where the caller states one.
        return known(cost.get("rented") or cost.get("owned"), "usd_per_hour")
    found: float | None = candidate["usd_per_hour"]
    return found


def monthly_usd(estimate: Written, candidate: Written) -> float | None:
    """The same for a month of 730.5 hours [USD/month]."""
    hourly = hourly_usd(estimate, candidate)
    return None if hourly is None else hourly * HOURS_PER_MONTH


def _run_usd(estimate: Written, candidate: Written) -> float | None:
    days, hourly = _days(estimate), hourly_usd(estimate, candidate)
    return None if days is None or hourly is None else hourly * days * _HOURS_PER_DAY


def _days(estimate: Written) -> float | None:
    return known(estimate["latency"].get("run"), "days")


def _kgco2e(estimate: Written, of: str) -> float | None:
    """Emissions with the making of hardware, or of operation alone where that is unknown [kg]."""
    carbon = ((estimate["impacts"] or {}).get(of) or {}).get("carbon")
    grams = known(carbon, "total_gco2e", "operational_location_gco2e")
    return None if grams is None else grams / _GRAMS_PER_KG


def _litres(estimate: Written, of: str) -> float | None:
    """Water on site and off site, or off site alone where the former is unknown [L]."""
    water = ((estimate["impacts"] or {}).get(of) or {}).get("water")
    return known(water, "total_l", "off_site_l")


def _facility_power_w(estimate: Written) -> float | None:
    """Mean power with the building's share [W]."""
    power_w = known(estimate["energy"], "it_power_w")
    pue = known(estimate["facility"], "pue_ratio")
    return None if power_w is None or pue is None else power_w * pue


def _broken_rules(estimate: Written, candidate: Written) -> float | None:
    """Rules that are not kept, or of which nobody can say so, where that is asked for [-]."""
    found = estimate.get("compliance")
    if found is None:
        return None
    verdicts = found["verdicts"]
    strict = candidate.get("require", "not_fail") != "not_fail"
    missed = ("fail", "due", "unknown") if strict else ("fail",)
    return float(sum(verdicts[one] for one in missed))


def _weight_bits(estimate: Written) -> float | None:
    """Bits of a weight, None for formats of a checkpoint alone, which have no name [bit]."""
    found = NUMBER_FORMATS.get(estimate["deployment"]["precision"]["weights"])
    return None if found is None else float(found.bits_per_element)


def _time_s(estimate: Written, candidate: Written, name: str) -> float | None:
    """The mean of a time, or the percentile that is limited [s]."""
    share = candidate["limits_of"]
    if share == "mean":
        return known(estimate["latency"], name)
    return known((estimate["latency"].get("load") or {}).get(name), share)


_MEMORY = (
    Limit("context_length", "sequence_tokens", "tokens", "tokens of a sequence", requested=False),
    Limit(HEADROOM, "headroom_ratio", "-", "memory left free, at least", free_ratio, at_least=True),
)
_PRICES = (
    Limit("usd_per_hour", "usd_per_hour", "USD/h", "price of an hour", hourly_usd),
    Limit("usd_per_month", "usd_per_month", "USD/month", "price of a month", monthly_usd),
)
_PLACES = (
    Limit(
        *("it_power_w", "it_power_w", "W", "power of the IT equipment"),
        lambda estimate, _: known(estimate["energy"], "it_power_w"),
    ),
    Limit(
        *("facility_power_w", "facility_power_w", "W", "power with the building's share"),
        lambda estimate, _: _facility_power_w(estimate),
        requested=False,
    ),
    Limit(
        *("rack_kw", "rack_kw", "kW", "power of a rack"),
        lambda _, candidate: candidate.get("rack_kw"),
        requested=False,
    ),
    Limit(
        *("noise_db", "noise_db", "dB(A)", "noise where it is heard"),
        lambda _, candidate: candidate.get("noise_db"),
        requested=False,
    ),
    # Recommendations search no place that misses one of these.
    Limit(
        *("water_stress_ratio", "water_stress_ratio", "-", "water stress of the place"),
        lambda _, candidate: candidate.get("water_stress_ratio"),
    ),
    Limit("compliance", None, "rules", "rules that are not kept", _broken_rules, requested=False),
    # Decides which formats a search tries at all.
    Limit(
        *("weight_bits_at_least", None, "bit", "bits of a weight, at least"),
        lambda estimate, _: _weight_bits(estimate),
        at_least=True,
    ),
)

#: Limits of deployments for inference; money and footprints are those of a year, month or hour.
DEPLOYMENT_LIMITS: tuple[Limit, ...] = (
    *_MEMORY,
    Limit(
        *("carries_the_load", "missing_replicas", "replicas", "replicas missing for the load"),
        requested=False,
    ),
    Limit(
        *("max_accelerators", "accelerators", "accelerators", "accelerators of all replicas"),
        requested=False,
    ),
    Limit(
        *("ttft_s", "ttft_s", "s", "time to first token"),
        lambda estimate, candidate: _time_s(estimate, candidate, "ttft_s"),
    ),
    Limit(
        *("tpot_s", "tpot_s", "s", "time per output token"),
        lambda estimate, candidate: _time_s(estimate, candidate, "tpot_s"),
    ),
    Limit(
        *("e2e_s", "e2e_s", "s", "time of a whole request"),
        lambda estimate, candidate: _time_s(estimate, candidate, "e2e_s"),
    ),
    Limit(
        *("task_s", "task_s", "s", "time of an agent's task"),
        lambda estimate, _: known(estimate["latency"], "task_s"),
    ),
    *_PRICES,
    Limit(
        *("kgco2e_per_year", "kgco2e", "kgCO2e/year", "greenhouse gases of a year"),
        lambda estimate, _: _kgco2e(estimate, "per_year"),
    ),
    Limit(
        *("l_per_year", "litres", "L/year", "water of a year"),
        lambda estimate, _: _litres(estimate, "per_year"),
    ),
    *_PLACES,
)

#: Limits of training runs; footprints are those of the whole run.
RUN_LIMITS: tuple[Limit, ...] = (
    *_MEMORY,
    Limit(
        *("host_memory_bytes", "host_memory_bytes", "B", "host memory of an accelerator"),
        requested=False,
    ),
    Limit(
        *("tier_memory_bytes", "tier_memory_bytes", "B"),
        "an accelerator's share of the memory tier",
        requested=False,
    ),
    Limit("days", "days", "d", "length of the run", lambda estimate, _: _days(estimate)),
    Limit("usd", "usd", "USD", "budget of the run", _run_usd),
    *_PRICES,
    Limit(
        *("kgco2e", "kgco2e", "kgCO2e", "greenhouse gases of the run"),
        lambda estimate, _: _kgco2e(estimate, "run"),
    ),
    Limit(
        *("litres", "litres", "L", "water of the run"),
        lambda estimate, _: _litres(estimate, "run"),
    ),
    *_PLACES,
)
