"""The accuracy document, written from the project's own measurements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from service.validation.former.compared import TableOutcome, report, summary, worst
from service.validation.former.console import figures
from service.validation.former.ecologits import BATCH_SIZE, VERSION, beside_ecologits
from service.validation.former.peers import Beside, Peer
from service.validation.former.remarks import Remark
from service.validation.former.statistics import Compared, accuracy
from service.validation.former.targets import TARGETS, Target

_WORST_ROWS = 5
_INTRODUCTION = """\
<!-- Written by `./headroom validate --write-docs`; do not edit by hand. -->

# How accurate the estimates are

Every published measurement in `hardware_catalog/validation/` is expressed as a request, answered by
the same use cases that answer the API, and compared. This page is the result; repeat it with
`./headroom validate`, or hold the estimates against your own measurements with
`./headroom validate --data DIR`.

- **Error** is |estimate / measured − 1|. *Median* and *p90* weigh rows so that every source counts
  once, however many rows it has.
- **Inside** is the share of measurements within the estimate's 90 % interval, **width** the median
  of the interval's upper over its lower end. Figures that are exact by nature, such as the size of
  weights, have no interval.
- Rows of high and medium confidence count. Rows of low confidence, whose settings are partly
  unknown or whose value is suspect, are reported separately.
- Speed and power constants were fitted on rows of the same publications (the calibration files
  name them), so their errors here show how well a few constants per engine and hardware family
  describe all models, formats, lengths and layouts. See [holdout](holdout.md) for how well they
  predict models and hardware that they were not fitted to.
"""


def accuracy_document(
    outcomes: Mapping[str, TableOutcome], remarks: Sequence[Remark], peers: Sequence[Peer]
) -> str:
    """The page in Markdown.

    Parameters
    ----------
    outcomes
        Outcomes by table.
    remarks
        Explanations of the rows with the largest errors.
    peers
        Other estimators, with what they answered about the same rows.
    """
    parts = [_INTRODUCTION, *_against_targets(outcomes)]
    for target in TARGETS:
        compared = _of(target, outcomes)
        if compared:
            parts += _quantity(target, compared, remarks)
            parts += _ecologits(target, beside_ecologits(compared))
            parts += _peers(target, compared, peers)
    parts += _refused(outcomes, remarks)
    return "\n".join(parts).rstrip() + "\n"


def _of(target: Target, outcomes: Mapping[str, TableOutcome]) -> list[Compared]:
    outcome = outcomes.get(target.table)
    rows = outcome.compared if outcome is not None else ()
    return [entry for entry in rows if entry.metric in target.metrics]


def _against_targets(outcomes: Mapping[str, TableOutcome]) -> Iterator[str]:
    yield "## Against the targets"
    yield ""
    yield "Each cell gives the result and, in brackets, the target. **Bold** misses the target."
    yield ""
    yield from targets_table(outcomes)


def targets_table(outcomes: Mapping[str, TableOutcome]) -> Iterator[str]:
    """Every quantity with its errors and its targets."""
    yield from _header("quantity", "rows", "median error", "p90 error", "inside", "width")
    for target in TARGETS:
        if target.table not in outcomes:
            continue
        compared = _of(target, outcomes)
        if not compared:
            yield _line(target.quantity, "0", *("not estimated yet",) + ("–",) * 3)
            continue
        group = summary(compared)
        yield _line(
            target.quantity,
            str(group["rows_used"]),
            _percent(group["median_error_ratio"], target.median_error_ratio, "≤"),
            _percent(group["p90_error_ratio"], target.p90_error_ratio, "≤"),
            _percent(group["coverage_ratio"], target.coverage_ratio, "≥"),
            _ratio(group["median_width_ratio"], target.width_ratio),
        )
    yield ""


def _quantity(
    target: Target, compared: Sequence[Compared], remarks: Sequence[Remark]
) -> Iterator[str]:
    yield f"## {target.quantity}"
    yield ""
    yield from _header("group", "rows", "median error", "p90 error", "inside", "width", "bias")
    groups: dict[str, list[Compared]] = defaultdict(list)
    for label in ("metric", "source", "family"):
        named: dict[str, list[Compared]] = defaultdict(list)
        for entry in compared:
            names = {"metric": entry.metric, "source": entry.row.source, "family": entry.family}
            named[f"{label} `{_plain(names[label])}`"].append(entry)
        groups |= dict(sorted(named.items()))
    for name, group in groups.items():
        found = summary(group)
        yield _line(name, *figures(found), f"{found['median_signed_error_ratio']:+z.1%}")
    yield ""
    yield "Largest errors:"
    yield ""
    yield from _header("row", "what", "estimate", "measured", "error", "inside", "likely reason")
    for row in worst(compared, remarks, _WORST_ROWS):
        yield _worst_line(row)
    yield ""


def _peers(target: Target, compared: Sequence[Compared], peers: Sequence[Peer]) -> Iterator[str]:
    """Errors on the rows that each peer has an answer for, next to its errors."""
    answered = [(peer, beside) for peer in peers if (beside := peer.beside(compared))]
    if not answered:
        return
    yield f"### {target.quantity}, beside other estimators"
    yield ""
    yield (
        "Each was asked, with its defaults, about every row that it has a model, hardware and "
        "formats for (`python -m benchmarks.peers`); ours are the errors on the very rows that it "
        "answered, by the same weighing. Two things favour ours: constants were fitted on many of "
        "these rows, and others describe the engines of their day where rows ran older ones."
    )
    yield ""
    yield from _header("estimator", "rows", "its median error", "p90", "bias", "our median", "p90")
    for peer, beside in answered:
        ours = accuracy([entry.compared for entry in beside])
        its = accuracy([replace(entry.compared, value=entry.peer_value) for entry in beside])
        yield _line(
            f"{peer.name} {peer.version} ({peer.asked_on})",
            str(ours.rows),
            _percent(its.median_error_ratio, None, ""),
            _percent(its.p90_error_ratio, None, ""),
            f"{its.bias_ratio or 0.0:+.0%}",
            _percent(ours.median_error_ratio, None, ""),
            _percent(ours.p90_error_ratio, None, ""),
        )
    yield ""


def _ecologits(target: Target, beside: Sequence[Beside]) -> Iterator[str]:
    """Errors on the rows that EcoLogits' formula can speak to, next to its errors."""
    if not beside:
        return
    yield f"### {target.quantity}, beside EcoLogits"
    yield ""
    yield (
        f"EcoLogits {VERSION} estimates the energy of a request from a model's parameters and its "
        "generated tokens, on accelerators of its own choice and at a batch of "
        f"{BATCH_SIZE}. Below, its energy of accelerators and ours on the same rows, by the same "
        "weighing."
    )
    yield ""
    yield from _header("group", "rows", "median error", "p90", "EcoLogits: median", "p90", "bias")
    groups: dict[str, list[Beside]] = {"all, each source once": list(beside)}
    for entry in beside:
        groups.setdefault(f"source `{_plain(entry.compared.row.source)}`", []).append(entry)
    for name, group in groups.items():
        ours = accuracy([entry.compared for entry in group])
        peers = accuracy([replace(entry.compared, value=entry.peer_value) for entry in group])
        yield _line(
            name,
            str(ours.rows),
            _percent(ours.median_error_ratio, None, ""),
            _percent(ours.p90_error_ratio, None, ""),
            _percent(peers.median_error_ratio, None, ""),
            _percent(peers.p90_error_ratio, None, ""),
            f"{peers.bias_ratio or 0.0:+.0%}",
        )
    yield ""


def _worst_line(row: Mapping[str, Any]) -> str:
    count = row["hardware_count"] or "1"
    hardware = f" on {count} × {row['hardware']}" if row["hardware"] else ""
    return _line(
        _plain(row["row_id"]),
        _plain(f"{row['metric']} of {row['model']}{hardware}"),
        _amount(row["estimate"], row["unit"]),
        _amount(row["measured"], row["unit"]),
        f"{row['error_ratio']:+.0%}",
        "yes" if row["covered"] else "no",
        _plain(row["reason"]),
    )


def _refused(outcomes: Mapping[str, TableOutcome], remarks: Sequence[Remark]) -> Iterator[str]:
    yield "## What was not compared"
    yield ""
    yield from _header("file", "rows", "reason")
    for name, outcome in outcomes.items():
        for reason, count in sorted(outcome.refusals.items(), key=lambda item: (-item[1], item[0])):
            yield _line(f"`{name}`", str(count), _plain(reason))
    yield ""
    for name, content in report(outcomes, remarks).items():
        tests = content["fit_tests"]
        if tests["rows"]:
            yield (
                f"Of {tests['rows']} rows of `{name}` that ran out of memory, {tests['right']} "
                "are estimated not to fit."
            )
        apart = content["low_confidence"]
        if apart["rows_used"]:
            yield (
                f"{apart['rows_used']} rows of `{name}` have low confidence; their median error "
                f"is {apart['median_error_ratio']:.0%}."
            )


def _header(*columns: str) -> Iterator[str]:
    yield _line(*columns)
    yield _line(*("---",) * len(columns))


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


#: Units that read better on a page, by the unit of the report: name and size.
_READABLE = {"bytes": ("GB", 1e9), "s": ("ms", 1e-3), "gCO2e": ("tCO2e", 1e6)}


def _amount(value: float, unit: str) -> str:
    name, size = _READABLE.get(unit, (unit, 1.0))
    amount = value / size
    digits = 0 if abs(amount) >= 100.0 else 1 if abs(amount) >= 10.0 else 2
    return f"{amount:,.{digits}f} {name}"


def _plain(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _percent(found: float | None, target: float | None, sign: str) -> str:
    if found is None:
        return "–"
    if target is None:
        return f"{found:.1%}"
    missed = found > target if sign == "≤" else found < target
    text = f"{found:.1%} ({sign} {target:.1%})"
    return f"**{text}**" if missed else text


def _ratio(found: float | None, target: float | None) -> str:
    if found is None:
        return "–"
    if target is None:
        return f"{found:.2f}"
    text = f"{found:.2f} (≤ {target:.2f})"
    return f"**{text}**" if found > target else text
