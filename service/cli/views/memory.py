"""Memory as bars, and what would make it fit."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.bar import Bar
from rich.text import Text

from service.cli.views.parts import figures_table, heading, indented, plain_table
from service.cli.views.quantities import figure_cells, label, quantity

#: What the total is the sum of, in inference and in training.
_PARTS = (
    "weights_bytes",
    "gradients_bytes",
    "optimizer_bytes",
    "kv_cache_bytes",
    "activations_bytes",
    "logits_bytes",
    "runtime_bytes",
)
_LIMITS = (
    "headroom_bytes",
    "process_bytes",
    "host_bytes",
    "nvme_bytes",
    "tier_bytes",
    "kv_cache_bytes_per_token",
    "max_concurrency",
    "max_context_tokens",
    "max_micro_batch_size",
)
_COLOURS = ("cyan", "magenta", "blue", "yellow", "green", "red", "white")
_BAR_WIDTH = 36
_MOST_PLANS = 3


def memory_view(memory: Mapping[str, Any]) -> list[Any]:
    """The section of memory per accelerator."""
    capacity = memory["capacity_bytes"]
    total = memory["total_bytes"]["value"]
    whole = max(capacity, total)
    table = plain_table(
        "", "estimate", "90 % interval", f"of {quantity('_bytes', capacity)}", right=("estimate",)
    )
    begin = 0.0
    for name, colour in zip(_PARTS, _COLOURS, strict=True):
        part = memory.get(name)
        if part is None or not part["value"]:
            continue
        end = begin + part["value"]
        bar = Bar(whole, begin, end, width=_BAR_WIDTH, color=colour)
        table.add_row(label(name), *figure_cells(name, part), bar)
        begin = end
    fits = memory["fits"]
    bar = Bar(whole, 0.0, total, width=_BAR_WIDTH, color="green" if fits else "red")
    table.add_row("total", *figure_cells("_bytes", memory["total_bytes"]), bar, style="bold")
    shown = {**memory, "host_bytes": _some(memory, "host_bytes")}
    shown["nvme_bytes"] = _some(memory, "nvme_bytes")
    shown["tier_bytes"] = _some(memory, "tier_bytes")
    return [
        heading("Memory per accelerator"),
        indented(table),
        indented(_verdict(memory)),
        figures_table(shown, _LIMITS),
        *_remedies(memory),
    ]


def _some(memory: Mapping[str, Any], name: str) -> Any:
    figure = memory.get(name)
    return figure if figure is not None and figure["value"] else None


def _verdict(memory: Mapping[str, Any]) -> Text:
    certainty = {"yes": "", "no": ""}.get(memory["fits_certainty"], " (not certain)")
    if memory["fits"]:
        return Text(f"fits{certainty}", style="bold green")
    missing, _ = figure_cells("_bytes", memory["shortfall_bytes"])
    return Text(f"does not fit{certainty}: {missing} missing", style="bold red")


def _remedies(memory: Mapping[str, Any]) -> list[Any]:
    plans = memory.get("plans") or ()
    if memory["fits"] or not plans:
        return []
    parts: list[Any] = [heading("What would make it fit")]
    for plan in plans[:_MOST_PLANS]:
        reach = plan["reach"].replace("-", " ")
        outcome = "fits" if plan["fits"] else "still does not fit"
        parts.append(
            Text(f"  {reach}: {outcome}, {plan['time_ratio']:.2f} × the time for each token")
        )
        parts += [
            Text(f"    {at}. {step['change']}", style="dim")
            for at, step in enumerate(plan["steps"], 1)
        ]
    return parts
