"""Groups of measurements that are left out whole, and their comparisons."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.calibration.kinds import CLASS, ENGINE, FAMILY, FORMAT, LOAD, MODEL, alike
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.measurements.compared import ComparedFigure
from service.estimation.measurements.documents import MeasurementDocument
from service.validation.left_out import LeftOutFigure
from service.validation.report.statistics import Compared
from service.validation.tables import LeftOutInvalid, read_table, table_text
from service.validation.transferred import Transferred, transferred


def _document(id_: str, model: str, **workload: float) -> MeasurementDocument:
    return MeasurementDocument.model_validate(
        {
            "id": id_,
            "kind": "inference",
            "request": {
                "model": model,
                "accelerator": "h100",
                "accelerator_count": 8,
                "serving": {"engine": "vllm"},
                "workload": {"input_tokens": 512, "output_tokens": 256, **workload},
            },
            "measured": {"tpot_s": 0.01},
            "source": "vllm-arg-utils",
        }
    )


def test_a_measurement_is_left_out_with_its_hardware_engine_model_and_load(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    documents = [
        _document("dense", "llama-3.1-8b", concurrency=8),
        _document("latent", "deepseek-v3", concurrency=200),
        _document("long", "llama-3.1-8b", input_tokens=60_000),
    ]
    groups = {(one.kind, one.key): one.documents for one in alike(documents, packaged_snapshot)}
    everything = {"dense", "latent", "long"}
    assert groups[FAMILY, "nvidia-hopper"] == everything
    assert groups[ENGINE, "vllm (inference)"] == everything
    assert [key for kind, key in groups if kind == CLASS] != []
    assert groups[MODEL, "routed experts"] == groups[MODEL, "latent attention"] == {"latent"}
    assert groups[LOAD, "more than 64 sequences in flight"] == {"latent"}
    assert groups[LOAD, "more than 32,768 tokens"] == {"long"}
    assert (LOAD, "more than 8 accelerators") not in groups
    assert set().union(*(ids for (kind, _), ids in groups.items() if kind == FORMAT)) == everything


def _compared(id_: str, configuration: str, measured: float) -> Compared:
    return Compared(
        figure=ComparedFigure("tpot_s", measured, measured, 0.9 * measured, 1.1 * measured),
        kind="inference",
        id=id_,
        source="s",
        configuration=configuration,
        model="m",
        accelerator="a",
        accelerators=1,
        family="f",
        engine="e",
        engine_class="c",
        weights="bf16",
    )


def _without(id_: str, measured: float, value: float, low: float, high: float) -> LeftOutFigure:
    return LeftOutFigure(id_, "tpot_s", measured, value, low, high, "s", "m", "a", "f", "e", "")


def test_groups_are_told_by_what_was_estimated_without_them(tmp_path: Path) -> None:
    first, second = _without("1", 1.0, 1.2, 0.9, 1.5), _without("2", 2.0, 2.2, 2.1, 3.0)
    known = [_compared("1", "x", 1.0), _compared("2", "y", 2.0)]
    # One configuration of an engine tells of nothing but itself.
    groups = [("family", "f", [first, second]), ("engine", "e", [first])]
    (found,) = written = list(transferred(groups, known))
    assert (found.kind, found.key, found.figures) == ("family", "f", 2)
    assert found.coverage_ratio == pytest.approx(0.5)
    assert found.p90_error_ratio == pytest.approx(0.2)
    assert found.median_signed_error_ratio > 0.0
    path = tmp_path / "left_out_kinds.csv"
    path.write_text(table_text(written, Transferred, "abc"))
    digest, (read,) = read_table(path, Transferred)
    assert digest == "abc"
    assert (read.quantity, read.figures) == (found.quantity, 2)
    assert read.median_width_ratio == pytest.approx(found.median_width_ratio, rel=1e-5)


def test_a_file_that_is_no_such_comparison_is_told(tmp_path: Path) -> None:
    path = tmp_path / "left_out_kinds.csv"
    path.write_text("kind,key\n")
    with pytest.raises(LeftOutInvalid):
        read_table(path, Transferred)
