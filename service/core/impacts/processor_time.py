"""Energy and carbon of processor time, for software that tells what it costs itself."""

from __future__ import annotations

from service.core.elementwise import Number

_JOULES_PER_KWH = 3.6e6


def processor_energy_j(busy_s: Number, processor_w: float, pue_ratio: float) -> Number:
    """Energy at the meter for processor time [J].

    Seconds on a logical processor × its share of a server's power under full load × PUE, the
    method of Cloud Carbon Footprint for cloud machines. What a server draws while nothing runs is
    counted only as far as it is within that share, so an idle service comes to nothing.

    Parameters
    ----------
    busy_s
        Processor time [s], of a logical processor (a hardware thread, a vCPU).
    processor_w
        Power of a server under full load for each of its logical processors [W].
    pue_ratio
        Power usage effectiveness of the site [-].

    References
    ----------
    Cloud Carbon Footprint, Methodology, "Compute": 3.50 W (AWS), 4.26 W (Google Cloud) and 3.76 W
    (Azure) for each vCPU at full load, from SPECpower results;
    https://www.cloudcarbonfootprint.org/docs/methodology/.
    """
    return busy_s * processor_w * pue_ratio


def carbon_g(energy_j: Number, grid_gco2e_per_kwh: float) -> Number:
    """Location-based emissions of energy at the meter [gCO2e].

    Parameters
    ----------
    energy_j
        Energy [J].
    grid_gco2e_per_kwh
        What the grid emits on average [gCO2e/kWh].
    """
    return energy_j / _JOULES_PER_KWH * grid_gco2e_per_kwh
