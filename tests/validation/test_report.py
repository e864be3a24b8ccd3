"""The report adds up, and the accuracy that is claimed is the accuracy that there is."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from service.validation.left_out import (
    LeftOutFigure,
    left_out_of,
    read_left_out,
)
from service.validation.packaged import Packaged
from service.validation.report.assessed import Assessed, report
from service.validation.report.document import accuracy_document
from service.validation.report.remarks import Remark, read_remarks
from service.validation.report.targets import TARGETS
from service.validation.tables import DIGEST, LeftOutInvalid
from tests.validation.accuracy import RENEW, found_accuracy, recorded_accuracy

SUMMARY = {
    *("rows_used", "figures", "median_error_ratio", "p90_error_ratio", "coverage_ratio"),
    *("median_width_ratio", "median_signed_error_ratio"),
}


def test_documents_are_used_apart_or_refused(
    packaged: Packaged, by_file: dict[str, Assessed]
) -> None:
    for name, one in by_file.items():
        found = report(one, packaged.remarks)
        used, refused = found["rows_used"], found["rows_refused"]
        assert used + refused + found["rows_of_low_confidence"] == found["rows"], name
        assert sum(found["refusals"].values()) == refused
        for by in ("by_metric", "by_source", "by_family", "by_engine_class"):
            assert sum(group["figures"] for group in found[by].values()) == found["figures"]
            assert all(set(group) == SUMMARY for group in found[by].values())
        assert len(found["worst"]) == min(found["figures"], 15)
        assert all(row["reason"] for row in found["worst"])
        assert found.keys() >= SUMMARY


#: How far the median and the 90th percentile of the error may move without being written down.
_SLACK = (0.01, 0.03)


def test_accuracy_is_that_of_the_record(packaged: Packaged, assessed: Assessed) -> None:
    """Worse, it has to be said; better, the record has to hold what was won."""
    found, recorded = found_accuracy(packaged, assessed), recorded_accuracy()
    shape = {target: set(parts) for target, parts in found.items()}
    assert shape == {target: set(parts) for target, parts in recorded.items()}, RENEW
    moved = {
        (target, part): (errors, recorded[target][part])
        for target, parts in found.items()
        for part, errors in parts.items()
        if any(
            abs(now - before) > slack
            for now, before, slack in zip(errors, recorded[target][part], _SLACK, strict=True)
        )
    }
    assert not moved, f"errors now and on record; if that is meant: {RENEW}"


def test_every_figure_belongs_to_one_target(assessed: Assessed) -> None:
    for entry in assessed.figures:
        covering = [target.name for target in TARGETS if target.covers(entry)]
        assert len(covering) == 1, (entry.kind, entry.quantity)


def test_most_documents_can_be_compared(assessed: Assessed) -> None:
    assert sum(assessed.refusals.values()) < 0.05 * assessed.documents
    assert len(assessed.figures) > 2_500


def test_out_of_memory_is_foreseen(assessed: Assessed) -> None:
    right = [id_ for id_, agrees in assessed.fit_tests if agrees]
    assert len(assessed.fit_tests) >= 5
    assert len(right) >= len(assessed.fit_tests) - 1


def test_the_page_leads_with_what_was_left_out(packaged: Packaged, assessed: Assessed) -> None:
    entry = next(one for one in assessed.figures if one.quantity == "tpot_s")
    twice = LeftOutFigure(
        entry.id, "tpot_s", entry.figure.measured, 2.0 * entry.figure.measured, 0.0, 1.0,
        entry.source, entry.model, entry.accelerator, entry.family, entry.engine,
        "efficiency_not_measured",
    )  # fmt: skip
    page = accuracy_document(assessed, assessed, replace(packaged, left_out=(twice,)))
    short, decode = [line for line in page.splitlines() if line.startswith("| Decode")][:2]
    assert short.endswith(" | 1 | 1 | 100.0% | 100.0% | 100.0% |")
    cells = [cell.strip() for cell in decode.split("|")]
    assert cells[2].startswith("1 of ")
    assert cells[3] == "**100.0% (≤\N{NO-BREAK SPACE}12.0%)**"
    assert cells[7] != "–"
    [known] = re.findall(r"^\| Decode: .* \| 0 \| – .*\| 1 \| 100.0% ", page, re.MULTILINE)
    assert known


def test_the_page_says_where_a_peer_is_closer(packaged: Packaged, assessed: Assessed) -> None:
    [peer, *_] = packaged.peers
    known = {(one.id, one.quantity): one.figure.measured for one in assessed.figures}
    right = replace(peer, values={key: known[key] for key in peer.values if key in known})
    page = accuracy_document(assessed, assessed, replace(packaged, peers=(right,)))
    lines = [line for line in page.splitlines() if f"| {peer.name} {peer.version} |" in line]
    assert lines
    assert all(line.endswith(f"| **{peer.name} {peer.version}** |") for line in lines)


def test_left_out_comparisons_are_read_and_joined(assessed: Assessed, tmp_path) -> None:
    entry = next(one for one in assessed.figures if one.quantity == "tpot_s")
    path = tmp_path / "left_out.csv"
    head = "id,quantity,measured,value,low,high,source,model,accelerator,family,engine,stand_ins"
    path.write_text(
        f"{DIGEST}0123\n{head}\n{entry.id},tpot_s,0.01,0.02,0.01,0.03,{entry.source},m,a,f,e,x y\n"
    )
    digest, figures = read_left_out(path)
    assert digest == "0123"
    [joined] = left_out_of(figures, assessed.figures)
    assert joined.figure.value == 0.02
    assert joined.stand_ins == ("x", "y")
    assert joined.figure.measured == entry.figure.measured
    path.write_text(f"{DIGEST}0123\nid,quantity\n")
    with pytest.raises(LeftOutInvalid, match="has not the columns"):
        read_left_out(path)
    path.write_text(f"{DIGEST}0123\n{head}\nx,tpot_s,much,0.02,0.01,0.03,s,m,a,f,e,\n")
    with pytest.raises(LeftOutInvalid, match="could not convert"):
        read_left_out(path)


def test_every_remark_is_about_something(packaged: Packaged, assessed: Assessed) -> None:
    everything = (*assessed.figures, *assessed.sanity)
    for remark in packaged.remarks:
        facts = Remark(remark.reason, remark.about, None)
        assert any(facts.explains(entry) for entry in everything), remark.about


def test_remarks_know_their_facts(tmp_path) -> None:
    path = tmp_path / "remarks.yaml"
    path.write_text("- about: {colour: red}\n  reason: none\n")
    with pytest.raises(ValueError, match="no fact colour"):
        read_remarks(path)
