"""The report of one estimate: its verdict and the figures that carry it first, then all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.formatting import gigabytes
from service.estimation.verdict.memory import memory_parts
from service.estimation.verdict.verdict import Verdict
from service.estimation.wording import spoken
from service.reports.document import Bar, Bars, Document, Section, Table, Text, renamed
from service.reports.first_pages import before_you_decide

#: A group of figures: its title, and its lines of name, value and interval.
Group = tuple[str, Sequence[tuple[str, str, str]]]


def estimate_document(
    estimate: Mapping[str, Any],
    verdict: Verdict,
    load: str,
    groups: Sequence[Group],
    snapshot: CatalogSnapshot,
    title: str = "",
) -> Document:
    """The document of an estimate.

    Parameters
    ----------
    estimate
        Answer of ``inference_estimate`` or ``training_estimate``.
    verdict
        On that estimate.
    load
        The load that it holds for, in words.
    groups
        All figures that a page shows, in words.
    snapshot
        Holds names.
    title
        What stands before the model and its hardware in the title.
    """
    names = verdict.names
    key = tuple((one.name, one.text, one.range_text, one.note) for one in verdict.figures)
    sources = {
        one["id"]: one for entry in estimate["provenance"]["entries"] for one in entry["sources"]
    }
    memory = estimate["memory"]
    parts = memory_parts(memory)
    most_bytes = max(part.size_bytes for part in parts)
    written = Document(
        title=f"{title} {names.model} on {names.hardware}".strip(),
        subtitle=f"{names.weights}, {names.place}; {load}; catalog revision "
        f"{estimate['catalog_revision']}, engine {estimate['engine_version']}",
        sections=(
            Section(
                "The answer",
                (Text(verdict.headline, "strong"), *(Text(one) for one in verdict.sentences)),
            ),
            Section(
                "The figures",
                (Table(("Figure", "Estimate", "90 % interval", "Note"), key, "", (1, 2)),),
            ),
            *([Section("What limits it", (Text(verdict.limiting),))] if verdict.limiting else []),
            Section(
                "Memory of one accelerator",
                (
                    Bars(
                        tuple(
                            Bar(one.name, one.size_bytes / most_bytes, gigabytes(one.size_bytes))
                            for one in parts
                        ),
                        f"Of {gigabytes(memory['capacity_bytes'])}",
                    ),
                ),
            ),
            before_you_decide(),
            Section(
                "Appendix: all figures",
                tuple(
                    Table(("Figure", "Estimate", "90 % interval"), tuple(lines), title, (1, 2))
                    for title, lines in groups
                ),
                new_page=True,
            ),
            Section(
                "What to know",
                tuple(Text(one["message"], "note") for one in estimate["warnings"]),
            ),
            Section(
                "Sources",
                (
                    Table(
                        ("Source", "Publisher", "Year", "Address"),
                        tuple(
                            (
                                str(one["title"]),
                                str(one["publisher"]),
                                str(one["year"] or ""),
                                one["url"] or "",
                            )
                            for _, one in sorted(sources.items())
                        ),
                    ),
                ),
            ),
        ),
    )
    return renamed(written, lambda text: spoken(text, snapshot))
