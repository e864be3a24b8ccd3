"""Published energy and emissions of training runs, beside the impacts of their accelerator time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.catalog.entries.references import UnknownReference
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.impacts.estimate import impacts_answer
from service.estimation.impacts.requests import ImpactsRequest
from service.validation.former.statistics import Compared
from service.validation.rows.deployments import warned
from service.validation.rows.tables import Row, RowRefused
from service.validation.rows.vocabulary import Vocabulary, accelerator_of, unit_size

#: Where in the answer's period a metric's figure stands, with its size in SI units.
_METRICS: Mapping[str, tuple[tuple[str, ...], float]] = {
    "energy_training_mwh": (("facility_energy_kwh",), 3.6e6),
    "energy_dynamic_mwh": (("it_energy_kwh",), 3.6e6),
    "co2_training_t": (("carbon", "operational_location_gco2e"), 1.0),
    "co2_dynamic_t": (("carbon", "operational_location_gco2e"), 1.0),
    "co2_total_with_embodied_t": (("carbon", "total_gco2e"), 1.0),
}
#: Metrics that take in more than the accelerators' own power, whatever the source's convention.
_WHOLE = ("co2_total_with_embodied_t",)
#: Metrics of the machines alone, without the building around them.
_WITHOUT_BUILDING = ("energy_dynamic_mwh", "co2_dynamic_t", "co2_total_with_embodied_t")
_REFUSED = {
    "energy_idle_mwh": "idle power of a cluster is not estimated",
    "co2_idle_t": "idle power of a cluster is not estimated",
    "water_total_kl": "not compared yet",
}


def emissions_row(row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot) -> Compared:
    """Compare one row of ``training_emissions``.

    Raises
    ------
    RowRefused
        If neither time nor place of the run is known, or its metric is not estimated.
    Rejected
        If the request is refused.
    """
    metric = row.text("metric")
    if metric not in _METRICS:
        raise RowRefused(f"{metric[:40]}: {_REFUSED.get(metric, 'the metric is not known')}")
    hours = row.number("gpu_hours")
    if not hours:
        raise RowRefused("accelerator time is not given")
    accelerator = accelerator_of(row, vocabulary, snapshot)
    region, assumptions = _region(row, vocabulary, snapshot)
    basis: dict[str, Any] = {"accelerator_hours": hours, "accelerator": accelerator}
    power_w = snapshot.accelerators[accelerator].value.thermal_design_power_w
    if (
        row.source in vocabulary.energy_is_tdp_times_hours
        and metric not in _WHOLE
        and power_w is not None
    ):
        # Not a measurement but a convention, which the comparison has to share.
        basis = {"energy_kwh": float(power_w) * hours / 1000.0}
    year = vocabulary.year_of_source.get(row.source)
    request = ImpactsRequest.model_validate(basis | {"region": region, "period": {"year": year}})
    answer = impacts_answer(request, snapshot)
    if answer["impacts"] is None:
        raise RowRefused("the accelerator's thermal design power is not known")
    path, size = _METRICS[metric]
    found: Any = answer["impacts"]["period"]
    for name in path:
        found = found[name]
    if found is None:
        raise RowRefused(f"{path[-1]} is not known for the place or the hardware")
    return Compared(
        row=row,
        metric=metric,
        family=snapshot.accelerators[accelerator].value.family,
        unit="J" if metric.endswith("_mwh") else "gCO2e",
        measured=row.needed("value") * unit_size(row, vocabulary),
        value=found["value"] * size,
        low=found["low"] * size,
        high=found["high"] * size,
        warnings=(*assumptions, *warned(answer, "unknown_factor", "contracts_unknown")),
    )


def _region(
    row: Row, vocabulary: Vocabulary, snapshot: CatalogSnapshot
) -> tuple[str | dict[str, Any], tuple[str, ...]]:
    """Where the run took place, with what the row says about it, and what was assumed."""
    assumptions: tuple[str, ...] = ()
    name = row.text("region")
    parent: str | None = None
    if name:
        try:
            parent = snapshot.find("regions", vocabulary.regions.get(name, name)).id
        except UnknownReference:
            raise RowRefused(f"region {name[:60]!r} is not in the catalog") from None
    elif row.source in vocabulary.assumed_regions:
        parent = vocabulary.assumed_regions[row.source]
        assumptions = (f"place not published; {parent} assumed",)
    pue = row.number("pue")
    if row.text("metric") in _WITHOUT_BUILDING:
        pue = 1.0
    elif pue is None and row.source in vocabulary.assumed_pue_ratio:
        pue = vocabulary.assumed_pue_ratio[row.source]
        assumptions = (*assumptions, f"PUE not published; {pue} assumed")
    stated = {"grid_gco2e_per_kwh": row.number("grid_gco2_per_kwh"), "pue_ratio": pue}
    figures = {figure: value for figure, value in stated.items() if value}
    if parent is None and "grid_gco2e_per_kwh" not in figures:
        raise RowRefused("neither place nor grid intensity is given")
    if parent is not None and not figures:
        return parent, assumptions
    inline = {"parent": parent, "figures": figures}
    return {key: value for key, value in inline.items() if value}, assumptions
