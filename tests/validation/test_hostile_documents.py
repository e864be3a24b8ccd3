"""Whatever stands in a document, it is compared or refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.measurements.quantities import QUANTITIES
from service.validation.packaged import Packaged
from service.validation.reading import FileInvalid, Line, read_file
from service.validation.report.assessed import assess, report
from service.validation.report.console import shown

SOUND: dict[str, dict[str, Any]] = {
    "inference": {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "accelerator_count": 2,
        "precision": {"weights": "fp8", "kv_cache": "bf16"},
        "parallelism": {"tensor": 2},
        "workload": {"input_tokens": 100, "output_tokens": 100, "concurrency": 4},
        "serving": {"engine": "vllm", "engine_version": "0.6.3"},
    },
    "training": {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "training": {"method": "lora", "framework": "torchtitan", "sequence_length": 512},
    },
    "impacts": {"accelerator_hours": 10.0, "accelerator": "nvidia-l4-24gb", "region": "country/FR"},
}
HOSTILE = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=12),
    st.sampled_from(
        [
            *("max", "nvidia-h100", "hf:meta-llama/x", "own/x", "[/red]", "=1+1", "a\0b", "\ud800"),
            *("0.5.3", "1e99", "newest", "gguf-q4_0", "bnb-nf4", "int8", "deepseek-ai/DeepSeek-V3"),
        ]
    ),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=6), st.integers(), max_size=2),
)


def _places(value: Any, before: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    found = [before] if before else []
    if isinstance(value, dict):
        found += [place for name, part in value.items() for place in _places(part, (*before, name))]
    return found


def _changed(value: Any, place: tuple[str, ...], new: Any) -> Any:
    if not place:
        return new
    if not isinstance(value, dict):
        return value
    return value | {place[0]: _changed(value.get(place[0]), place[1:], new)}


@settings(max_examples=150)
@given(data=st.data())
def test_no_document_breaks_the_report(
    packaged: Packaged, tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    kind = data.draw(st.sampled_from(sorted(SOUND)))
    names = st.sampled_from([*QUANTITIES, "happiness", "step_time_s"])
    measured = data.draw(st.dictionaries(names, st.floats(1e-6, 1e12), min_size=1, max_size=3))
    document: Any = {"kind": kind, "request": SOUND[kind], "measured": measured}
    if data.draw(st.booleans()):
        document["limits"] = {"ttft_p99_s": 2.0}
    for _ in range(data.draw(st.integers(0, 3))):
        place = data.draw(st.sampled_from(_places(document)))
        place = (*place, data.draw(st.text(max_size=5))) if data.draw(st.booleans()) else place
        document = _changed(document, place, data.draw(HOSTILE))
    folder = tmp_path_factory.getbasetemp()
    found = assess(_read(document, folder, packaged.snapshot), packaged.snapshot, "own")
    told = report(found, packaged.remarks)
    assert json.dumps(told, allow_nan=False)
    assert shown({"own": told}).renderables
    assert told["rows_used"] + told["rows_refused"] + told["rows_of_low_confidence"] == 1


def _read(document: Any, folder: Path, snapshot: CatalogSnapshot) -> tuple[Line, ...]:
    path = folder / "hostile.jsonl"
    path.write_text(json.dumps(document), encoding="utf-8")
    try:
        return read_file(path, snapshot)
    except FileInvalid as invalid:
        return (Line(1, None, str(invalid), ()),)
