"""Answers about one deployment: memory, speed, energy, impacts, cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from service.cli.views.memory import memory_view
from service.cli.views.parts import figures_table, footer, heading, indented, plain_table, warnings
from service.cli.views.quantities import dollars, label, quantity, short

_SPEED = (
    "ttft_s",
    "tpot_s",
    "e2e_s",
    "output_tokens_per_s",
    "output_tokens_per_s_per_user",
    "input_tokens_per_s",
    "requests_per_s",
    "saturation_requests_per_s",
    "step_s",
    "tokens_per_s",
    "tokens_per_s_per_accelerator",
    "mfu_ratio",
    "model_tflops_per_accelerator",
    "hardware_tflops_per_accelerator",
)
_STEP = ("step_s", "tokens_per_s", "tokens_per_step", "generated_tokens_per_step")
_BURST = ("ttft_p50_s", "ttft_p95_s", "ttft_p99_s", "makespan_s")
_PERCENTILES = ("ttft_p95_s", "ttft_p99_s", "tpot_p95_s", "e2e_p95_s")
_RUN = ("days", "accelerator_hours", "goodput_ratio", "expected_failures")
_ENERGY = (
    "it_power_w",
    "it_energy_per_request_wh",
    "it_energy_per_1k_tokens_wh",
    "it_energy_per_step_kwh",
    "it_energy_run_kwh",
)
_IMPACTS = (
    ("facility_energy_kwh",),
    ("carbon", "operational_location_gco2e"),
    ("carbon", "embodied_gco2e"),
    ("carbon", "total_gco2e"),
    ("water", "total_l"),
    ("e_waste_kg",),
    ("primary_energy_mj",),
)
_FOOTPRINT_NAMES = {
    "operational_location_gco2e": "carbon, operation",
    "embodied_gco2e": "carbon, hardware",
    "total_gco2e": "carbon, total",
    "total_l": "water",
}
_BASES = ("per_request", "per_1k_tokens", "per_step", "per_day", "per_year", "run")


def view(answer: Mapping[str, Any]) -> Sequence[Any]:
    """An answer to ``estimate``, ``memory``, ``latency`` or ``impacts``."""
    parts: list[Any] = []
    if answer.get("deployment"):
        parts.append(Text(short(answer), style="bold"))
    memory = answer.get("memory") or (answer if "total_bytes" in answer else None)
    latency = answer.get("latency") or (answer if "ttft_s" in answer else None)
    latency = latency or (answer if "step_s" in answer else None)
    if memory:
        parts += memory_view(memory)
    if latency:
        parts += _speed(latency)
    if "phases" in (answer.get("step") or ()):
        parts += _phases(answer["step"])
    if any(name in (answer.get("energy") or ()) for name in _ENERGY):
        parts += [heading("Energy"), figures_table(answer["energy"], _ENERGY)]
    if answer.get("impacts"):
        place = answer.get("region") or answer.get("deployment", {}).get("region")
        parts += [
            heading(f"Impacts in {place}" if place else "Impacts"),
            indented(_footprints(answer["impacts"])),
        ]
    if answer.get("cost"):
        parts += _cost(answer["cost"])
    if answer.get("explanation"):
        parts += _explanation(answer["explanation"])
    return [*parts, *warnings(answer), footer(answer)]


def _speed(latency: Mapping[str, Any]) -> list[Any]:
    limits = [
        f"{phase} is limited by {latency[phase]['bottleneck'].replace('_', ' ')}"
        for phase in ("prefill", "decode")
        if latency.get(phase)
    ]
    if "bottleneck" in latency:
        limits.append(f"limited by {latency['bottleneck'].replace('_', ' ')}")
    parts: list[Any] = [heading("Speed"), figures_table(latency, _SPEED)]
    parts.append(indented(Text("; ".join(limits), style="dim")))
    over = latency.get("load") or latency.get("in_flight")
    if over:
        parts += [heading("Over requests"), figures_table(_percentiles(over), _PERCENTILES)]
    if latency.get("burst"):
        parts += [heading("Requests that come at once"), figures_table(_burst(latency), _BURST)]
    if latency.get("run"):
        parts += [heading("The whole run"), figures_table(latency["run"], _RUN)]
    return parts


def _phases(step: Mapping[str, Any]) -> list[Any]:
    """A step of post-training, and what it is spent on."""
    table = plain_table("phase", "on", "time", "share", right=("time", "share"))
    for each in step["phases"]:
        time = quantity("time_s", each["time_s"]["value"])
        words = each["phase"].replace("_", " ")
        table.add_row(words, each["pool"], time, f"{each['time_ratio']:.0%}")
    return [heading("A step"), figures_table(step, _STEP), indented(table)]


def _percentiles(over: Mapping[str, Any]) -> dict[str, Any]:
    """Percentiles over requests by the names of the table; none of times that have no end."""
    return {
        f"{time}_{share}_s": figure
        for time in ("ttft", "tpot", "e2e")
        for share, figure in (over[f"{time}_s"] or {}).items()
    }


def _burst(latency: Mapping[str, Any]) -> dict[str, Any]:
    """Figures of requests that come at once by the names of the table."""
    burst = latency["burst"]
    ttft = {f"ttft_{share}_s": figure for share, figure in burst["ttft_s"].items()}
    return {"makespan_s": burst["makespan_s"], **ttft}


def _footprints(impacts: Mapping[str, Any]) -> Any:
    bases = [name for name in _BASES if impacts.get(name)] or ["period"]
    table = plain_table("", *(label(name) for name in bases), right=[label(name) for name in bases])
    for path in _IMPACTS:
        cells = []
        for base in bases:
            found: Any = impacts[base]
            for name in path:
                found = None if found is None else found.get(name)
            cells.append(quantity(path[-1], None if found is None else found["value"]))
        if any(cell != "–" for cell in cells):
            table.add_row(_FOOTPRINT_NAMES.get(path[-1], label(path[-1])), *cells)
    return table


def _cost(cost: Mapping[str, Any]) -> list[Any]:
    table = plain_table("", "USD", "90 % interval", right=("USD",))
    for way in ("rented", "owned", "emissions"):
        for name, figure in (cost.get(way) or {}).items():
            if isinstance(figure, Mapping) and "value" in figure:
                spread = "exact" if figure["low"] == figure["high"] else _range(figure)
                words = [part.strip("_").replace("_", " ") for part in name.split("usd")]
                what = ", ".join(filter(None, (way, *words)))
                table.add_row(what, dollars(figure["value"]), spread)
    if not table.row_count:
        return []
    parts = [heading("Cost"), indented(table)]
    rented = cost.get("rented")
    if rented and "instance" in rented:
        parts.append(
            indented(
                Text(
                    f"list price of {rented['instance']} in {rented['price_region']}, "
                    f"{rented['price_date']}",
                    style="dim",
                )
            )
        )
    return parts


def _range(figure: Mapping[str, float]) -> str:
    return f"{dollars(figure['low'])} … {dollars(figure['high'])}"


def _explanation(steps: Sequence[Mapping[str, Any]]) -> list[Any]:
    table = plain_table("figure", "value", "unit", "formula", right=("value",))
    for step in steps:
        value = step["value"]
        shown = f"{value:.6g}" if isinstance(value, float) else str(value)
        table.add_row(step["name"], shown, step["unit"], step["formula"])
    return [heading("How it was computed"), indented(table)]
