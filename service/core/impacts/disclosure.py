"""Indicators that standards define: shares and ratios of what was metered or estimated."""

from __future__ import annotations

from service.core.elementwise import Number
from service.core.interval import Interval, bounded, product, quotient, scale

#: Floating-point operations per parameter and token of a training step: two forward, four back.
#: Source: Kaplan et al., Scaling Laws for Neural Language Models, 2020, section 2.1.
TRAINING_FLOP_PER_PARAMETER_TOKEN = 6.0


def power_usage_effectiveness(total_kwh: Number, it_energy_kwh: Interval) -> Interval:
    """Energy of the data centre over that of its IT equipment, at least one [-].

    References
    ----------
    ISO/IEC 30134-2:2016; Commission Delegated Regulation (EU) 2024/1364, annex III.
    """
    ratio = quotient(Interval(total_kwh, total_kwh, total_kwh), it_energy_kwh)
    return bounded(ratio, 1.0, float("inf"))


def water_usage_effectiveness(water_input_l: Number, it_energy_kwh: Interval) -> Interval:
    """Water taken in over energy of the IT equipment [L/kWh].

    References
    ----------
    ISO/IEC 30134-9:2022; Commission Delegated Regulation (EU) 2024/1364, annex III. Water input,
    not evaporation.
    """
    return quotient(Interval(water_input_l, water_input_l, water_input_l), it_energy_kwh)


def share_of_total(part_kwh: Number, total_kwh: Interval) -> Interval:
    """Share of the data centre's energy that is reused as heat (ERF) or renewable (REF), 0…1 [-].

    References
    ----------
    ISO/IEC 30134-6:2021 (ERF) and ISO/IEC 30134-3:2016 (REF).
    """
    return bounded(quotient(Interval(part_kwh, part_kwh, part_kwh), total_kwh), 0.0, 1.0)


def grid_loss_gco2e(operational_gco2e: Interval, loss_ratio: Number) -> Interval:
    """Emissions of what the grid loses on the way to a consumer [gCO2e].

    References
    ----------
    GHG Protocol, Technical Guidance for Calculating Scope 3 Emissions, 2013, category 3 C.
    """
    return scale(operational_gco2e, loss_ratio / (1.0 - loss_ratio))


def upstream_gco2e(facility_kwh: Interval, upstream_gco2e_per_kwh: Number) -> Interval:
    """Emissions of making and bringing the fuels behind electricity [gCO2e].

    References
    ----------
    GHG Protocol, Technical Guidance for Calculating Scope 3 Emissions, 2013, category 3 B.
    """
    factor = upstream_gco2e_per_kwh
    return product(facility_kwh, Interval(factor, factor, factor))


def training_compute_flop(parameters: Number, tokens: Number) -> Number:
    """Floating-point operations of training, without recomputation [FLOP].

    References
    ----------
    Kaplan et al., Scaling Laws for Neural Language Models, 2020, https://arxiv.org/abs/2001.08361.
    """
    return TRAINING_FLOP_PER_PARAMETER_TOKEN * parameters * tokens
