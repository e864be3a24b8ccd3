"""Groups of measurements that are left out whole, and their comparisons."""

from __future__ import annotations

from pathlib import Path

import pytest

from service.calibration.kinds import CLASS, ENGINE, FAMILY, FORMAT, LOAD, MODEL, alike
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.measurements.compared import ComparedFigure
from service.estimation.measurements.documents import MeasurementDocument
from service.validation.left_out import LeftOutInvalid
from service.validation.report.statistics import Compared
from service.validation.report.transfer import transferred_groups
from service.validation.transferred import (
    TransferredFigure,
    read_transferred,
    transferred_text,
)


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


def test_groups_are_told_by_what_was_estimated_without_them(tmp_path: Path) -> None:
    written = [
        TransferredFigure("family", "f", "1", "tpot_s", 1.2, 0.9, 1.5),
        TransferredFigure("family", "f", "2", "tpot_s", 2.2, 2.1, 3.0),
        TransferredFigure("engine", "e", "1", "tpot_s", 1.0, 0.9, 1.1),
    ]
    path = tmp_path / "left_out_kinds.csv"
    path.write_text(transferred_text(written, "abc"))
    assert read_transferred(path) == written
    known = [_compared("1", "x", 1.0), _compared("2", "y", 2.0)]
    # One configuration of an engine tells of nothing but itself.
    ((kind, key, _, found),) = transferred_groups(written, known)
    assert (kind, key) == ("family", "f")
    assert found["figures"] == 2
    assert found["coverage_ratio"] == pytest.approx(0.5)
    assert found["p90_error_ratio"] == pytest.approx(0.2)


def test_a_file_that_is_no_such_comparison_is_told(tmp_path: Path) -> None:
    path = tmp_path / "left_out_kinds.csv"
    path.write_text("kind,key\n")
    with pytest.raises(LeftOutInvalid):
        read_transferred(path)
