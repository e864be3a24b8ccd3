"""Use case: a footprint in the shape that a standard or a law asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.core.interval import scale
from service.estimation.answers import Remark
from service.estimation.impacts.estimate import DeploymentImpacts, PlainImpacts, impacts_with_result
from service.estimation.remarks import told
from service.estimation.reports.answers import ReportAnswer
from service.estimation.reports.requests import DisclosureRequest, ReportRequest
from service.estimation.reports.tables import KINDS, Reported
from service.estimation.resolution import Problems

_NO_ADVICE: Remark = {
    "code": "not_legal_advice",
    "pointer": "/lines",
    "message": "These are figures for a report, not the report itself: its scope, period and "
    "legal duty remain with whoever reports.",
}

#: Less than a nanojoule is no energy to form a ratio with.
_LEAST_KWH = 1e-16


def report_answer(kind: str, request: ReportRequest, snapshot: CatalogSnapshot) -> ReportAnswer:
    """A report of one of the kinds of `KINDS`.

    Raises
    ------
    Rejected
        If the request refers to unknown things, asks for the impossible, or for a basis or figures
        that the footprint does not have.
    """
    answer, result = impacts_with_result(request, snapshot)
    problems = Problems()
    unit = result.unit
    if unit is None or answer["impacts"] is None:
        problems.refuse(
            "/accelerator",
            "has no thermal design power, so there is no energy to report; give "
            "figures.thermal_design_power_w or energy_kwh",
        )
    count = result.unit_count
    reported = Reported(
        request,
        answer,
        scale(unit.it_energy_kwh, count),
        scale(unit.facility_energy_kwh, count),
        None
        if unit.operational_location_gco2e is None
        else scale(unit.operational_location_gco2e, count),
    )
    _check(kind, reported, result, problems)
    problems.stop_if_any()
    chosen = KINDS[kind]
    report: ReportAnswer = {
        "catalog_revision": answer["catalog_revision"],
        "engine_version": answer["engine_version"],
        "deployment": answer["deployment"],
        "region": answer["region"],
        "provenance": answer["provenance"],
        "kind": kind,
        "standard": chosen.standard,
        "period_days": request.period.days,
        "lines": chosen.lines(reported),
        "equivalences": answer["equivalences"] or [],
        "warnings": [*answer["warnings"], _NO_ADVICE],
    }
    if request.explain:
        report["explanation"] = answer["explanation"]
    return told(report, ReportAnswer, request, snapshot)


def _check(
    kind: str, reported: Reported, result: DeploymentImpacts | PlainImpacts, problems: Problems
) -> None:
    """Note what is asked for that is not there, or cannot be."""
    asked: DisclosureRequest = reported.request.disclosure
    bases: Mapping[str, Any] = result.impacts or {}
    if kind == "sci" and bases.get(asked.functional_unit) is None:
        given = ", ".join(name for name, found in bases.items() if found)
        problems.add(
            "/disclosure/functional_unit",
            f"{asked.functional_unit} is not known for this request; choose from: {given}",
        )
    if kind == "eed":
        _check_energies(asked, reported, problems)


def _check_energies(asked: DisclosureRequest, reported: Reported, problems: Problems) -> None:
    if reported.it_energy_kwh.value < _LEAST_KWH:
        problems.add("/energy_kwh", "the indicators are ratios to energy, which must be above zero")
        return
    total = asked.total_energy_kwh
    if total is not None and total < reported.it_energy_kwh.low:
        problems.add(
            "/disclosure/total_energy_kwh",
            f"is below the energy of the IT equipment, {reported.it_energy_kwh.value:.6g} kWh, so "
            "that PUE would be below 1",
        )
    most = total if total is not None else float(reported.facility_energy_kwh.high)
    for name in ("reused_heat_kwh", "renewable_kwh"):
        part = getattr(asked, name)
        if part is not None and part > most:
            problems.add(f"/disclosure/{name}", "exceeds the energy of the data centre")
