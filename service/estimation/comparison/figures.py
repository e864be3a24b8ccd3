"""The figures of an estimate that deployments, and runs, are compared by."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.estimation.comparison.answers import ComparedFigures, ComparedRunFigures


def compared_figures(estimate: Mapping[str, Any]) -> ComparedFigures:
    """What deployments are compared by, out of their estimates."""
    memory, latency = estimate["memory"], estimate["latency"]
    energy, impacts = estimate["energy"], estimate["impacts"]
    rented, owned = estimate["cost"]["rented"], estimate["cost"]["owned"]
    emissions = estimate["cost"].get("emissions")
    generated = latency["output_tokens_per_s"] is not None
    tokens = None if impacts is None else impacts["per_1k_tokens"]
    period = None if impacts is None else impacts.get("period")
    return {
        "total_bytes": memory["total_bytes"],
        "headroom_bytes": memory["headroom_bytes"],
        "ttft_s": latency["ttft_s"],
        "tpot_s": latency["tpot_s"],
        "e2e_s": latency["e2e_s"],
        "output_tokens_per_s": latency["output_tokens_per_s"],
        "requests_per_s": latency["requests_per_s"],
        "it_energy_per_request_wh": None if energy is None else energy["it_energy_per_request_wh"],
        "operational_gco2e_per_1k_tokens": None
        if tokens is None
        else tokens["carbon"]["operational_location_gco2e"],
        "gco2e_per_1k_tokens": None if tokens is None else tokens["carbon"]["total_gco2e"],
        "l_per_1k_tokens": None if tokens is None else tokens["water"]["total_l"],
        "kwh_per_year": None if impacts is None else impacts["per_year"]["facility_energy_kwh"],
        "rented_usd_per_hour": None if rented is None else rented["usd_per_hour"],
        "rented_usd_per_million_output_tokens": None
        if rented is None
        else rented["usd_per_million_output_tokens"],
        "rented_usd_per_request": None
        if rented is None or generated
        else rented["usd_per_request"],
        "owned_usd_per_hour": None if owned is None else owned["usd_per_hour"],
        "owned_usd_per_million_output_tokens": None
        if owned is None
        else owned["usd_per_million_output_tokens"],
        "owned_usd_per_request": None if owned is None or generated else owned["usd_per_request"],
        "emissions_usd_per_hour": None if emissions is None else emissions["usd_per_hour"],
        "gco2e_per_request": None
        if impacts is None or generated
        else impacts["per_request"]["carbon"]["total_gco2e"],
        "kwh_in_period": None if period is None else period["facility_energy_kwh"],
        "gco2e_in_period": None if period is None else period["carbon"]["total_gco2e"],
        "l_in_period": None if period is None else period["water"]["total_l"],
    }


def run_figures(estimate: Mapping[str, Any]) -> ComparedRunFigures:
    """What training runs are compared by, out of their estimates."""
    memory, latency = estimate["memory"], estimate["latency"]
    rented, owned = estimate["cost"]["rented"], estimate["cost"]["owned"]
    emissions = estimate["cost"].get("emissions")
    run, impacts = latency.get("run") or {}, estimate["impacts"]
    whole = None if impacts is None else impacts.get("run")
    return {
        "total_bytes": memory["total_bytes"],
        "step_s": latency["step_s"],
        "tokens_per_s": latency["tokens_per_s"],
        "mfu_ratio": latency["mfu_ratio"],
        "days": run.get("days"),
        "facility_energy_kwh": None if whole is None else whole["facility_energy_kwh"],
        "operational_gco2e": None
        if whole is None
        else whole["carbon"]["operational_location_gco2e"],
        "total_gco2e": None if whole is None else whole["carbon"]["total_gco2e"],
        "total_l": None if whole is None else whole["water"]["total_l"],
        "rented_usd": None if rented is None else rented["usd_run"],
        "owned_usd": None if owned is None else owned["usd_run"],
        "emissions_usd": None if emissions is None else emissions["usd_run"],
    }
