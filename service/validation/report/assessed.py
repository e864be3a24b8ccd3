"""What the measurements of files say about the estimates."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.core.engines import engine_of_release
from service.estimation.measurements.compared import ComparedDocument, compared
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.rejection import Rejected
from service.validation.reading import Line
from service.validation.report.remarks import Remark, remark_on
from service.validation.report.statistics import Compared, accuracy, stand_ins

#: What a document without a source counts as.
NO_SOURCE = "no source given"
_LOW = "low"
_NOTHING_RUNS = "–"
_WORST = 15


@dataclass(frozen=True, slots=True)
class Assessed:
    """What became of the documents of a file.

    ``used`` are those of high and medium confidence of which something was compared, with their
    ``figures``; ``sanity`` are the figures of those of low confidence. ``refusals`` counts reasons
    for documents, ``figure_refusals`` for single figures; ``fit_tests`` says of documents that ran
    out of memory whether the estimate agrees. ``warnings`` counts what was done to understand them.
    """

    documents: int
    used: int
    figures: tuple[Compared, ...]
    low_documents: int
    sanity: tuple[Compared, ...]
    refusals: Mapping[str, int]
    figure_refusals: Mapping[str, int]
    fit_tests: tuple[tuple[str, bool], ...]
    warnings: Mapping[str, int]


def assess(lines: Iterable[Line], snapshot: CatalogSnapshot, name: str = "") -> Assessed:
    """Hold the documents of a file against their estimates.

    Parameters
    ----------
    lines
        The file.
    snapshot
        The catalog that estimates are made from.
    name
        Stands for the ids that documents do not have.
    """
    figures: list[Compared] = []
    sanity: list[Compared] = []
    refusals: Counter[str] = Counter()
    figure_refusals: Counter[str] = Counter()
    fit_tests: list[tuple[str, bool]] = []
    warnings: Counter[str] = Counter()
    count = used = low = 0
    for line in lines:
        count += 1
        warnings.update(line.warnings)
        if line.document is None:
            refusals[line.refusal or ""] += 1
            continue
        id_ = line.document.id or f"{name} line {line.number}"
        try:
            found = compared(line.document, snapshot)
        except Rejected as rejected:
            error = rejected.errors[0]
            refusals[f"the request is refused: {error.pointer}: {error.detail[:160]}"] += 1
            continue
        if found.is_empty:
            refusals["; ".join(sorted(found.refused.values()))[:200]] += 1
            continue
        figure_refusals.update(found.refused.values())
        entries = _entries(found, id_, snapshot)
        if line.document.confidence == _LOW:
            low += 1
            sanity += entries
            continue
        used += 1
        figures += entries
        if found.foresaw is not None:
            fit_tests.append((id_, found.foresaw))
    return Assessed(
        count,
        used,
        tuple(figures),
        low,
        tuple(sanity),
        dict(refusals),
        dict(figure_refusals),
        tuple(fit_tests),
        dict(warnings),
    )


def together(found: Iterable[Assessed]) -> Assessed:
    """What became of the documents of several files."""
    listed = list(found)

    def counted(counts: Callable[[Assessed], Mapping[str, int]]) -> dict[str, int]:
        total: Counter[str] = Counter()
        for one in listed:
            total.update(counts(one))
        return dict(total)

    return Assessed(
        documents=sum(one.documents for one in listed),
        used=sum(one.used for one in listed),
        figures=tuple(entry for one in listed for entry in one.figures),
        low_documents=sum(one.low_documents for one in listed),
        sanity=tuple(entry for one in listed for entry in one.sanity),
        refusals=counted(lambda one: one.refusals),
        figure_refusals=counted(lambda one: one.figure_refusals),
        fit_tests=tuple(test for one in listed for test in one.fit_tests),
        warnings=counted(lambda one: one.warnings),
    )


def report(
    found: Assessed, remarks: Sequence[Remark], left_out: Sequence[Compared] | None = None
) -> dict[str, Any]:
    """The outcome as plain data; ratios are dimensionless.

    ``left_out`` are comparisons of the same figures by constants that were fitted without their
    source; None where there are none.
    """
    right = sum(agrees for _, agrees in found.fit_tests)
    told: dict[str, Any] = {
        **summary(found.figures),
        "rows": found.documents,
        "rows_used": found.used,
        "rows_refused": sum(found.refusals.values()),
        "rows_of_low_confidence": found.low_documents,
        "figures_implausible": sum(entry.figure.implausible for entry in found.figures),
        "by_metric": by(found.figures, lambda entry: entry.quantity),
        "by_source": by(found.figures, lambda entry: entry.source),
        "by_family": by(found.figures, lambda entry: entry.family),
        "by_engine_class": by(found.figures, lambda entry: entry.engine_class),
        "refusals": _ordered(found.refusals),
        "figure_refusals": _ordered(found.figure_refusals),
        "warnings": _ordered(found.warnings),
        "fit_tests": {
            "rows": len(found.fit_tests),
            "right": right,
            "wrong": len(found.fit_tests) - right,
            "wrong_rows": [id_ for id_, agrees in found.fit_tests if not agrees],
        },
        "low_confidence": summary(found.sanity),
        "worst": worst(found.figures, remarks, _WORST),
    }
    if left_out is not None:
        told["left_out"] = summary(left_out) | {
            "by_metric": by(left_out, lambda entry: entry.quantity),
            "by_source": by(left_out, lambda entry: entry.source),
        }
    return told


def summary(compared: Sequence[Compared]) -> dict[str, Any]:
    """Documents, figures and accuracy of a group of comparisons, as plain data."""
    found = accuracy(compared)
    return {
        "rows_used": len({(entry.source, entry.id) for entry in compared}),
        "figures": found.figures,
        "median_error_ratio": found.median_error_ratio,
        "p90_error_ratio": found.p90_error_ratio,
        "coverage_ratio": found.coverage_ratio,
        "median_width_ratio": found.median_width_ratio,
        "median_signed_error_ratio": found.bias_ratio,
    }


def by(compared: Sequence[Compared], key: Callable[[Compared], str]) -> dict[str, dict[str, Any]]:
    """Summaries of groups, by their names."""
    groups: dict[str, list[Compared]] = defaultdict(list)
    for entry in compared:
        groups[key(entry)].append(entry)
    return {name: summary(group) for name, group in sorted(groups.items())}


def worst(
    compared: Iterable[Compared], remarks: Sequence[Remark], most: int
) -> list[dict[str, Any]]:
    """The comparisons that are furthest off, with the likely reason."""
    ordered = sorted(compared, key=lambda entry: (-abs(entry.figure.error_ratio), entry.id))
    return [
        {
            "id": entry.id,
            "source": entry.source,
            "metric": entry.quantity,
            "model": entry.model,
            "accelerator": entry.accelerator,
            "accelerator_count": entry.accelerators,
            "measured": entry.figure.measured,
            "estimate": entry.figure.value,
            "low": entry.figure.low,
            "high": entry.figure.high,
            "error_ratio": entry.figure.error_ratio,
            "inside": entry.figure.inside,
            "implausible": entry.figure.implausible,
            "reason": remark_on(entry, remarks),
        }
        for entry in ordered[:most]
    ]


def configuration_of(document: MeasurementDocument) -> str:
    """What tells a configuration from others of its source."""
    asked = document.request.model_dump(mode="json", exclude_defaults=True)
    return sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


def _entries(found: ComparedDocument, id_: str, snapshot: CatalogSnapshot) -> list[Compared]:
    document, computed = found.document, found.computed
    echoed: Mapping[str, Any] = computed.deployment
    engine = snapshot.engines.get(engine_of_release(computed.software))
    class_ = _NOTHING_RUNS
    if engine is not None and computed.kind != "impacts":
        class_ = engine.value.classes.get(computed.kind, _NOTHING_RUNS)
    configuration = configuration_of(document)
    warnings = tuple(warning.message for warning in computed.warnings)
    stood_in = stand_ins(computed.warnings)
    return [
        Compared(
            figure=figure,
            kind=computed.kind,
            id=id_,
            source=document.source or NO_SOURCE,
            configuration=configuration,
            model=computed.model,
            accelerator=computed.accelerator,
            accelerators=int(echoed.get("accelerator_count", 1)),
            family=computed.family,
            engine=computed.software,
            engine_class=class_,
            weights=str(echoed.get("precision", {}).get("weights", "")),
            output_tokens=float(echoed.get("workload", {}).get("output_tokens", 1.0)),
            warnings=warnings,
            stand_ins=stood_in,
        )
        for figure in found.figures
    ]


def _ordered(counts: Mapping[str, int]) -> dict[str, int]:
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))
