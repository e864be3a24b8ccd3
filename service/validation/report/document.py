"""The accuracy document, written from the project's own measurements."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from service.estimation.measurements.quantities import QUANTITIES
from service.validation.left_out import FORMER_ENGINE, left_out_of
from service.validation.packaged import Packaged
from service.validation.report.assessed import Assessed, summary, worst
from service.validation.report.console import figures
from service.validation.report.ecologits import BATCH_SIZE, VERSION, beside_ecologits
from service.validation.report.peers import Beside
from service.validation.report.statistics import Compared, accuracy
from service.validation.report.targets import TARGETS, Target
from service.validation.transferred import Transferred

_WORST_ROWS = 5
_TITLE = """\
<!-- Written by `./headroom validate --write-docs`; do not edit by hand. -->

# How accurate the estimates are
"""
_IN_SHORT = """\
What estimates say about published measurements that they have never seen: each publication is
estimated without anything learnt from it, as a new one would be. The range is the one that every
estimate comes with; it is meant to hold nine measurements of ten.
"""
_HOW = """\
## How it is measured

Every published measurement in `hardware_catalog/measurements/` is a request with what was
measured of it. The estimates that the API gives are compared with it. Repeat it with
`./headroom validate`, or compare with your own measurements with
`./headroom validate --data FILE`.

- **Left out** is the figure to judge by: each publication is estimated with constants of speed,
  power and memory that were fitted to all the others; its intervals come from what the others are
  off by. **In sample** are the same measurements with the constants that ship, which were fitted to
  them as well. Where there is no left-out figure, no constant of that quantity is fitted.
- **Error** is |estimate / measured − 1|. *Median* and *p90* count every source once, and within a
  source every configuration once, however many figures it has.
- **Inside** is the share of measurements within the estimate's 90 % interval, **width** the
  median of the interval's upper over its lower end. 85 to 95 % inside is right; 99 % is as wrong
  as 60 %.
- Documents of high and medium confidence count. Those of low confidence, whose settings are
  partly unknown or whose value is suspect, are reported apart.
"""


def accuracy_document(found: Assessed, less: Assessed, packaged: Packaged) -> str:
    """The page in Markdown.

    Parameters
    ----------
    found
        All packaged measurements beside their estimates.
    less
        The same, asked about with less.
    packaged
        The catalog, remarks, peers and left-out comparisons.
    """
    left_out = left_out_of(packaged.left_out or (), found.figures)
    parts = [_TITLE, *_in_short(left_out), _HOW, *_against_targets(found.figures, left_out)]
    parts += _by_what_is_known(left_out)
    parts += _transferred(packaged.transferred)
    parts += _saying_less(found.figures, less.figures, packaged)
    parts += _beside_former(left_out, packaged)
    parts += _beside_peers(found.figures, left_out, packaged)
    for target in TARGETS:
        compared = [entry for entry in found.figures if target.covers(entry)]
        if compared:
            known = [entry for entry in left_out if target.covers(entry)]
            parts += _quantity(target, compared, known, packaged)
            parts += _ecologits(target, compared, packaged)
    parts += _refused(found)
    return "\n".join(parts).rstrip() + "\n"


def _in_short(left_out: Sequence[Compared]) -> Iterator[str]:
    """What to expect of estimates, in plain words."""
    yield _IN_SHORT
    yield from _header(
        *("what", "publications", "measurements", "half of the estimates are within"),
        *("nine of ten are within", "measurements in the range"),
    )
    for target in TARGETS:
        covered = [entry for entry in left_out if target.covers(entry)]
        if not covered:
            continue
        unseen = summary(covered)
        yield _line(
            target.name,
            *(str(len({entry.source for entry in covered})), str(unseen["figures"])),
            *_plain_cells(unseen)[:3],
        )
    yield ""


def _against_targets(compared: Sequence[Compared], left_out: Sequence[Compared]) -> Iterator[str]:
    yield "## Against the targets"
    yield ""
    yield "Each cell gives the result and, in brackets, the target. **Bold** misses the target."
    yield ""
    yield from _header(
        *("quantity", "figures", "left out: median error", "p90 error", "inside", "width"),
        *("in sample: median", "p90", "inside", "width"),
    )
    for target in TARGETS:
        shipped = summary([entry for entry in compared if target.covers(entry)])
        unseen = summary([entry for entry in left_out if target.covers(entry)])
        if not shipped["figures"]:
            continue
        yield _line(
            target.name,
            f"{unseen['figures']} of {shipped['figures']}",
            *_held(unseen, target),
            *(_plain_cells(shipped) if unseen["figures"] else _held(shipped, target)),
        )
    yield ""


def _by_what_is_known(left_out: Sequence[Compared]) -> Iterator[str]:
    """Whether intervals are wider where they should be: where others' constants stand in."""
    yield "## Where engine and hardware are known, and where not"
    yield ""
    yield (
        "A publication that is left out takes with it what only it measured. *Known* are figures "
        "whose engine, kernels and hardware others measured as well; elsewhere those of similar "
        "software and hardware stand in, which the estimate warns of, with wider intervals."
    )
    yield ""
    yield from _header(
        *("quantity", "known: figures", "median error", "p90", "inside", "width"),
        *("others: figures", "median error", "p90", "inside", "width"),
    )
    for target in TARGETS:
        covered = [entry for entry in left_out if target.covers(entry)]
        known = summary([entry for entry in covered if not entry.stand_ins])
        others = summary([entry for entry in covered if entry.stand_ins])
        if covered:
            yield _line(
                target.name,
                *(str(known["figures"]), *_plain_cells(known)),
                *(str(others["figures"]), *_plain_cells(others)),
            )
    yield ""


def _transferred(groups: Sequence[Transferred]) -> Iterator[str]:
    """What becomes of errors where nobody measured such hardware, software, models or loads."""
    if not groups:
        return
    yield "## What nobody measured"
    yield ""
    yield (
        "A publication that is left out often ran what others measured as well. Here everything "
        "of a hardware family is left out at once, or of an engine, a class of engines, a format "
        "of weights, a kind of model, or of loads far from usual ones: what is estimated of it is "
        "what would be said of such hardware or software before anyone measured it, with the wider "
        "range of stand-ins. Groups of one configuration are not shown, nor are quantities that no "
        "fitted constant decides. `./headroom calibrate --write --transfer` writes the comparison."
    )
    yield ""
    yield from _header(
        *("left out", "quantity", "figures"),
        *("median error", "p90 error", "inside", "width", "bias"),
    )
    for one in groups:
        yield _line(
            *(f"{one.kind} `{one.key}`", one.quantity, str(one.figures)),
            *(*_plain_cells(asdict(one)), f"{one.median_signed_error_ratio:+.0%}"),
        )
    yield ""


def _saying_less(
    said: Sequence[Compared], less: Sequence[Compared], packaged: Packaged
) -> Iterator[str]:
    """What becomes of errors where requests leave settings to defaults."""
    how = "in sample"
    if packaged.less_left_out is not None:
        how = "and each publication is left out, as above"
        said = left_out_of(packaged.left_out or (), said)
        less = left_out_of(packaged.less_left_out, less)
    yield "## When a request says less"
    yield ""
    yield (
        "The requests above say what their sources say: the release and backend of the engine, "
        "how 8-bit operands are scaled, which matrices have adapters, how the loss is computed, "
        "the machine. Most people who ask leave that to defaults. Here the same requests leave it "
        f"unsaid, {how}; what ran on what, layouts, batches and lengths stay, except the "
        "micro-batch of training whose rate alone is measured. Ranges reach over what may be "
        "meant, and values are those of the newest release and of usual recipes."
    )
    yield ""
    yield from _header(
        *("quantity", "figures", "as published: median error", "p90", "inside", "width"),
        *("with less said: median error", "p90", "inside", "width"),
    )
    asked = {(entry.id, entry.quantity) for entry in less}
    for target in TARGETS:
        full = summary(
            [one for one in said if target.covers(one) and (one.id, one.quantity) in asked]
        )
        bare = summary([one for one in less if target.covers(one)])
        if bare["figures"]:
            yield _line(target.name, str(bare["figures"]), *_plain_cells(full), *_plain_cells(bare))
    yield ""


def _held(group: Mapping[str, Any], target: Target) -> tuple[str, ...]:
    """Results of a group with what was aimed at."""
    return (
        _percent(group["median_error_ratio"], target.median_error_ratio, "≤"),
        _percent(group["p90_error_ratio"], target.p90_error_ratio, "≤"),
        _percent(group["coverage_ratio"], target.coverage_ratio, "≥"),
        _ratio(group["median_width_ratio"], target.width_ratio),
    )


def _plain_cells(group: Mapping[str, Any]) -> tuple[str, ...]:
    return (
        _percent(group["median_error_ratio"], None, ""),
        _percent(group["p90_error_ratio"], None, ""),
        _percent(group["coverage_ratio"], None, ""),
        _ratio(group["median_width_ratio"], None),
    )


def _beside_former(left_out: Sequence[Compared], packaged: Packaged) -> Iterator[str]:
    """What a former engine said of the same figures, each source left out there as well."""
    former = left_out_of(packaged.former, left_out)
    if not former:
        return
    kept = {(entry.id, entry.quantity) for entry in former}
    yield f"## Beside engine {FORMER_ENGINE}"
    yield ""
    yield (
        f"Engine {FORMER_ENGINE} fitted every inference engine on every hardware family by itself. "
        "Here both are left out of the very same figures: constants of either were fitted without "
        "the source."
    )
    yield ""
    yield from _header(
        *("quantity", "figures", "sources"),
        *(f"{FORMER_ENGINE}: median error", "p90 error", "inside", "width"),
        *("now: median error", "p90 error", "inside", "width"),
    )
    for target in TARGETS:
        before = [entry for entry in former if target.covers(entry)]
        now = [
            entry
            for entry in left_out
            if target.covers(entry) and (entry.id, entry.quantity) in kept
        ]
        if before:
            yield _line(
                target.name,
                str(len(before)),
                str(len({entry.source for entry in before})),
                *_plain_cells(summary(before)),
                *_plain_cells(summary(now)),
            )
    yield ""


def _beside_peers(
    compared: Sequence[Compared], left_out: Sequence[Compared], packaged: Packaged
) -> Iterator[str]:
    """Errors on the figures that each peer has an answer for, next to its errors."""
    yield "## Beside other estimators"
    yield ""
    yield (
        "Each was asked, with its defaults, about every document that it has a model, hardware and "
        "formats for (`python -m benchmarks.peers`). Ours are the errors on the very figures that "
        "it answered, by the same weighing: left out, which is what it has to be held against, and "
        "in sample. They describe the engines of their day, where documents may be of older ones."
    )
    yield ""
    yield from _header(
        *("quantity", "estimator", "figures", "its median error", "p90", "bias"),
        *("ours left out: median", "p90", "in sample: median", "p90", "closer"),
    )
    for target in TARGETS:
        shipped = [entry for entry in compared if target.covers(entry)]
        unseen = {(one.id, one.quantity): one for one in left_out if target.covers(one)}
        for peer in packaged.peers:
            beside = peer.beside(shipped)
            if beside:
                yield _peer_line(target, f"{peer.name} {peer.version}", beside, unseen)
    yield ""


def _peer_line(
    target: Target,
    name: str,
    beside: Sequence[Beside],
    unseen: Mapping[tuple[str, str], Compared],
) -> str:
    its = accuracy([entry.as_peer for entry in beside])
    ours = accuracy([entry.compared for entry in beside])
    without = accuracy(
        [
            one
            for entry in beside
            if (one := unseen.get((entry.compared.id, entry.compared.quantity))) is not None
        ]
    )
    judged = without if without.figures == ours.figures else ours
    peer_is_closer = (its.median_error_ratio or 0.0) < (judged.median_error_ratio or 0.0)
    return _line(
        target.name,
        name,
        str(ours.figures),
        _percent(its.median_error_ratio, None, ""),
        _percent(its.p90_error_ratio, None, ""),
        f"{its.bias_ratio or 0.0:+.0%}",
        _percent(without.median_error_ratio, None, ""),
        _percent(without.p90_error_ratio, None, ""),
        _percent(ours.median_error_ratio, None, ""),
        _percent(ours.p90_error_ratio, None, ""),
        f"**{name}**" if peer_is_closer else "ours",
    )


def _quantity(
    target: Target,
    compared: Sequence[Compared],
    left_out: Sequence[Compared],
    packaged: Packaged,
) -> Iterator[str]:
    yield f"## {target.name}"
    yield ""
    unseen = "left out" if left_out else "in sample"
    yield from _header(
        f"group ({unseen})", "figures", "median error", "p90 error", "inside", "width", "bias"
    )
    groups: dict[str, list[Compared]] = defaultdict(list)
    for label in ("quantity", "source", "family", "engine_class"):
        named: dict[str, list[Compared]] = defaultdict(list)
        for entry in left_out or compared:
            name = str(getattr(entry, label))
            named[f"{label.replace('_', ' ')} `{_plain(name)}`"].append(entry)
        groups |= dict(sorted(named.items()))
    groups |= _benchmarks(left_out or compared)
    for name, group in groups.items():
        found = summary(group)
        yield _line(name, *figures(found), f"{found['median_signed_error_ratio']:+z.1%}")
    yield ""
    yield f"Largest errors, {unseen}:"
    yield ""
    yield from _header("document", "what", "estimate", "measured", "error", "inside", "reason")
    for row in worst(left_out or compared, packaged.remarks, _WORST_ROWS):
        yield _worst_line(row)
    yield ""


def _benchmarks(compared: Sequence[Compared]) -> dict[str, list[Compared]]:
    """Comparisons by benchmark of MLPerf, which each have a model of their own."""
    named: dict[str, list[Compared]] = defaultdict(list)
    for entry in compared:
        if entry.source.startswith("mlperf-"):
            named[f"benchmark `{entry.source}`, `{_plain(entry.model)}`"].append(entry)
    return dict(sorted(named.items()))


def _ecologits(target: Target, compared: Sequence[Compared], packaged: Packaged) -> Iterator[str]:
    """Errors on the figures that EcoLogits' formula can speak to, next to its errors."""
    beside = beside_ecologits(compared, packaged.snapshot)
    if not beside:
        return
    yield f"### {target.name}, beside EcoLogits"
    yield ""
    yield (
        f"EcoLogits {VERSION} estimates the energy of a request from a model's parameters and its "
        "generated tokens, on accelerators of its own choice and at a batch of "
        f"{BATCH_SIZE}. Below, its energy of accelerators and ours on the same figures, by the "
        "same weighing."
    )
    yield ""
    yield from _header(
        "group", "figures", "median error", "p90", "EcoLogits: median", "p90", "bias"
    )
    groups: dict[str, list[Beside]] = {"all, each source once": list(beside)}
    for entry in beside:
        groups.setdefault(f"source `{_plain(entry.compared.source)}`", []).append(entry)
    for name, group in groups.items():
        ours = accuracy([entry.compared for entry in group])
        its = accuracy([entry.as_peer for entry in group])
        yield _line(
            name,
            str(ours.figures),
            _percent(ours.median_error_ratio, None, ""),
            _percent(ours.p90_error_ratio, None, ""),
            _percent(its.median_error_ratio, None, ""),
            _percent(its.p90_error_ratio, None, ""),
            f"{its.bias_ratio or 0.0:+.0%}",
        )
    yield ""


def _worst_line(row: Mapping[str, Any]) -> str:
    unit = QUANTITIES[row["metric"]].unit
    return _line(
        _plain(row["id"]),
        _plain(
            f"`{row['metric']}` of {row['model']} on {row['accelerator_count']} × "
            f"{row['accelerator']}"
        ),
        _amount(row["estimate"], unit),
        _amount(row["measured"], unit),
        f"{row['error_ratio']:+.0%}",
        "yes" if row["inside"] else "no",
        _plain(row["reason"]),
    )


def _refused(found: Assessed) -> Iterator[str]:
    yield "## What was not compared"
    yield ""
    yield from _header("documents", "reason")
    for reason, count in sorted(found.refusals.items(), key=lambda item: (-item[1], item[0])):
        yield _line(str(count), _plain(reason))
    yield ""
    right = sum(agrees for _, agrees in found.fit_tests)
    yield (
        f"Of {len(found.fit_tests)} configurations that ran out of memory, {right} are estimated "
        "not to fit."
    )
    apart = accuracy(found.sanity)
    if apart.median_error_ratio is not None:
        yield (
            f"{found.low_documents} documents have low confidence; the median error of their "
            f"{apart.figures} figures is {apart.median_error_ratio:.0%}."
        )


def _header(*columns: str) -> Iterator[str]:
    yield _line(*columns)
    yield _line(*("---",) * len(columns))


def _line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


#: Units that read better on a page, by the unit of the quantity: name and size.
_READABLE = {
    "B": ("GB", 1e9),
    "s": ("ms", 1e-3),
    "gCO2e": ("tCO2e", 1e6),
    "1": ("%", 0.01),
}


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
    text = f"{found:.1%} ({sign}\N{NO-BREAK SPACE}{target:.1%})"
    return f"**{text}**" if missed else text


def _ratio(found: float | None, target: float | None) -> str:
    if found is None:
        return "–"
    if target is None:
        return f"{found:.2f}"
    text = f"{found:.2f} (≤ {target:.2f})"
    return f"**{text}**" if found > target else text
