"""Numbers with the units that their fields name, in the size that people read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from service.estimation.formatting import number as formatted

#: Units by the end of a field's name, the longer end first: how much one is, largest first.
_UNITS: tuple[tuple[str, tuple[tuple[float, str], ...]], ...] = (
    ("_bytes_per_token", ((1e6, "MB/token"), (1e3, "kB/token"), (1.0, "B/token"))),
    ("tokens_per_s", ((1.0, "tokens/s"),)),
    ("tokens_per_s_per_user", ((1.0, "tokens/s"),)),
    ("tokens_per_s_per_accelerator", ((1.0, "tokens/s"),)),
    ("_tflops_per_accelerator", ((1.0, "TFLOP/s"),)),
    ("_per_s", ((1.0, "/s"),)),
    ("_bytes", ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))),
    ("_kgco2e", ((1e3, "t CO2e"), (1.0, "kg CO2e"), (1e-3, "g CO2e"), (1e-6, "mg CO2e"))),
    ("_gco2e", ((1e6, "t CO2e"), (1e3, "kg CO2e"), (1.0, "g CO2e"), (1e-3, "mg CO2e"))),
    ("_kwh", ((1e6, "GWh"), (1e3, "MWh"), (1.0, "kWh"), (1e-3, "Wh"))),
    ("_wh", ((1e6, "MWh"), (1e3, "kWh"), (1.0, "Wh"))),
    ("_mj", ((1e3, "GJ"), (1.0, "MJ"), (1e-3, "kJ"), (1e-6, "J"))),
    ("_usd", ((1.0, "USD"),)),
    ("_kg", ((1e3, "t"), (1.0, "kg"), (1e-3, "g"), (1e-6, "mg"))),
    ("_kw", ((1e3, "MW"), (1.0, "kW"))),
    ("_w", ((1e6, "MW"), (1e3, "kW"), (1.0, "W"))),
    ("_l", ((1e3, "m³"), (1.0, "l"), (1e-3, "ml"))),
    ("_s", ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "µs"))),
    ("_ratio", ((0.01, "%"),)),
    ("_tokens", ((1.0, "tokens"),)),
    ("days", ((1.0, "days"),)),
    ("_hours", ((1.0, "h"),)),
)
_PLAIN = ((1.0, ""),)
#: Words for fields whose names without the unit would not tell enough.
_LABELS = {
    "ttft_s": "time to first token",
    "tpot_s": "time per output token",
    "e2e_s": "whole request",
    "ttft_p50_s": "first token, median",
    "ttft_p95_s": "first token, 95 %",
    "ttft_p99_s": "first token, 99 %",
    "tpot_p95_s": "time per output token, 95 %",
    "e2e_p95_s": "whole request, 95 %",
    "makespan_s": "all requests",
    "output_tokens_per_s": "output, all users",
    "output_tokens_per_s_per_user": "output, one user",
    "input_tokens_per_s": "input, all users",
    "requests_per_s": "requests",
    "saturation_requests_per_s": "requests at saturation",
    "step_s": "step",
    "tokens_per_s": "tokens, all accelerators",
    "tokens_per_s_per_accelerator": "tokens, one accelerator",
    "model_tflops_per_accelerator": "model FLOPs, one accelerator",
    "hardware_tflops_per_accelerator": "with recomputation",
    "kv_cache_bytes_per_token": "KV cache per token",
    "per_1k_tokens": "per 1k tokens",
    "it_energy_per_1k_tokens_wh": "IT energy per 1k tokens",
    "accelerator_hours": "accelerator hours",
    "days": "days",
    "e_waste_kg": "e-waste",
}
#: Words of names that people write in capitals.
_CAPITALS = frozenset({"it", "kv", "mfu"})


def quantity(field: str, number: float | None) -> str:
    """A number in the unit that its field names; a dash where it is unknown."""
    if number is None:
        return "–"
    factor, unit = _scale(field, number)
    return f"{formatted(number / factor)} {unit}".rstrip()


def column(field: str, numbers: Sequence[float | None]) -> tuple[str, list[str]]:
    """The unit that suits a column of numbers, and the numbers in it."""
    known = [abs(number) for number in numbers if number is not None]
    if not known:
        return "", ["–"] * len(numbers)
    factor, unit = _scale(field, max(known))
    return unit, ["–" if number is None else formatted(number / factor) for number in numbers]


def figure_cells(field: str, figure: Mapping[str, float] | float | None) -> tuple[str, str]:
    """A figure and its interval, both in the unit that suits the figure."""
    if figure is None:
        return "–", "not known"
    if not isinstance(figure, Mapping):
        return quantity(field, figure), ""
    factor, unit = _scale(field, figure["value"])
    shown = f"{formatted(figure['value'] / factor)} {unit}".rstrip()
    if figure["low"] == figure["high"]:
        return shown, "exact"
    return shown, f"{formatted(figure['low'] / factor)} … {formatted(figure['high'] / factor)}"


def label(field: str) -> str:
    """A field's name as words, without its unit."""
    if field in _LABELS:
        return _LABELS[field]
    for end, _ in sorted(_UNITS, key=lambda unit: -len(unit[0])):
        if end.startswith("_") and field.endswith(end):
            field = field.removesuffix(end)
            break
    return " ".join(word.upper() if word in _CAPITALS else word for word in field.split("_"))


def dollars(amount: float) -> str:
    """An amount of money, without its unit."""
    return f"{amount:,.2f}" if abs(amount) >= 1.0 else f"{amount:.3g}"


def short(answer: Mapping[str, Any]) -> str:
    """What runs where, in a line."""
    deployment = answer["deployment"]
    layout = ", ".join(
        f"{name} {degree}" for name, degree in deployment["parallelism"].items() if degree > 1
    )
    parts = [
        deployment["model"],
        deployment["precision"]["weights"],
        f"{deployment['accelerator_count']} × {deployment['accelerator']}"
        + (f" ({layout})" if layout else ""),
        deployment.get("region"),
    ]
    return " · ".join(part for part in parts if part)


def _scale(field: str, number: float) -> tuple[float, str]:
    units = next((units for end, units in _UNITS if field.endswith(end)), _PLAIN)
    if number == 0.0:
        return next((unit for unit in units if unit[0] == 1.0), units[-1])
    size = abs(number) * 1.0000001  # what is a whole unit but for rounding is one
    return next((unit for unit in units if size >= unit[0]), units[-1])
