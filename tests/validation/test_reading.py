"""Files of measurements: understood where they can be, refused with the place where not."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.validation.reading import FileInvalid, Line, read_file, read_files

DOCUMENT: dict[str, Any] = {
    "kind": "inference",
    "request": {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "workload": {"input_tokens": 1024, "output_tokens": 128, "concurrency": 8},
    },
    "measured": {"tpot_s": 0.012},
}


def one(snapshot: CatalogSnapshot, folder: Path, document: dict[str, Any]) -> Line:
    path = folder / "own.jsonl"
    path.write_text(json.dumps(document) + "\n")
    [line] = read_file(path, snapshot)
    return line


def changed(**request: Any) -> dict[str, Any]:
    return DOCUMENT | {"request": DOCUMENT["request"] | request}


def test_unknown_fields_are_left_out_and_named(snapshot: CatalogSnapshot, tmp_path: Path) -> None:
    workload = DOCUMENT["request"]["workload"] | {"users": 3}
    line = one(snapshot, tmp_path, changed(workload=workload, region="fr") | {"author": "me"})
    assert line.document is not None
    assert "/request/workload/users is not known and left out" in line.warnings
    assert "/author is not known and left out" in line.warnings


def test_an_unknown_engine_is_answered_as_another_with_a_warning(
    snapshot: CatalogSnapshot, tmp_path: Path
) -> None:
    line = one(snapshot, tmp_path, changed(serving={"engine": "swift-engine"}))
    assert line.document is not None
    assert line.document.request.serving.engine == "vllm"  # type: ignore[union-attr]
    assert line.warnings == (
        "engine 'swift-engine' is not known; vllm stands in for it, as for all that are compiled",
    )
    gguf = changed(serving={"engine": "swift-engine"}, precision={"weights": "gguf-q4_0"})
    assert "llama.cpp stands in" in one(snapshot, tmp_path, gguf).warnings[0]
    run = {
        "kind": "training",
        "request": {
            "model": "meta-llama/Llama-3.1-8B",
            "accelerator": "nvidia-h100-sxm-80gb",
            "training": {"framework": "own-trainer"},
        },
        "measured": {"step_time_s": 3.0},
    }
    trained = one(snapshot, tmp_path, run)
    assert "transformers stands in" in trained.warnings[0]
    assert trained.document is not None
    assert dict(trained.document.figures) == {"step_s": 3.0}


def test_a_version_that_means_nothing_is_the_newest_with_a_note(
    snapshot: CatalogSnapshot, tmp_path: Path
) -> None:
    serving = {"engine": "vllm", "engine_version": "the good one"}
    line = one(snapshot, tmp_path, changed(serving=serving))
    assert line.document is not None
    assert line.document.request.serving.engine_version is None  # type: ignore[union-attr]
    assert "the newest release is taken" in line.warnings[0]


@pytest.mark.parametrize(
    ("told", "release", "place"),
    [
        ({"engine": "vLLM 0.5.2; Python: 3.10.12"}, "0.5.2", "/engine"),
        ({"engine": "vLLM as of 2024-04-30"}, "2024-04-30", "/engine"),
        ({"engine": "CUDA 12.4, vLLM", "measured_on": "2024-05"}, "2024-05", "/measured_on"),
        ({"source": "mlperf-inference-v4.1"}, "2024", "/source"),
    ],
)
def test_a_release_that_nobody_names_is_that_of_the_day(
    snapshot: CatalogSnapshot, tmp_path: Path, told: dict[str, str], release: str, place: str
) -> None:
    line = one(snapshot, tmp_path, changed(serving={"engine": "vllm"}) | told)
    assert line.document is not None
    assert line.document.request.serving.engine_version == release  # type: ignore[union-attr]
    assert f"engine_version is not given; {release} is taken from {place}" in line.warnings
    assert f"{place} is not known and left out" not in line.warnings
    named = changed(serving={"engine": "vllm", "engine_version": "0.11"}) | told
    line = one(snapshot, tmp_path, named)
    assert line.document is not None
    assert line.document.request.serving.engine_version == "0.11"  # type: ignore[union-attr]


def test_offline_throughput_ran_as_much_as_fits(snapshot: CatalogSnapshot, tmp_path: Path) -> None:
    lengths = {"input_tokens": 1024, "output_tokens": 128}
    offline = changed(workload=lengths) | {"measured": {"output_tokens_per_s": 9000.0}}
    line = one(snapshot, tmp_path, offline)
    assert line.document is not None
    assert line.document.request.workload.concurrency == "max"  # type: ignore[union-attr]
    assert "as many requests in flight as fit" in line.warnings[0]
    # A time of one request is not of that kind.
    alone = one(snapshot, tmp_path, changed(workload=lengths))
    assert alone.document is not None
    assert alone.document.request.workload.concurrency == 1  # type: ignore[union-attr]


def test_a_training_run_may_leave_its_settings_out(
    snapshot: CatalogSnapshot, tmp_path: Path
) -> None:
    run = {"model": "meta-llama/Llama-3.1-8B", "accelerator": "nvidia-h100-sxm-80gb"}
    line = one(
        snapshot, tmp_path, {"kind": "training", "request": run, "measured": {"mfu_ratio": 0.4}}
    )
    assert line.document is not None
    assert line.document.kind == "training"


def test_slips_are_put_right_and_told(snapshot: CatalogSnapshot, tmp_path: Path) -> None:
    document = changed(workload={"input_tokens": 293.7, "output_tokens": 128, "concurrency": 4})
    line = one(snapshot, tmp_path, document | {"assumed": ["workload.input_tokens (a mean)"]})
    assert line.document is not None
    assert line.document.request.workload.input_tokens == 294  # type: ignore[union-attr]
    assert line.document.assumed == ("/request/workload/input_tokens",)
    assert any("/request/workload/input_tokens is a whole number" in one for one in line.warnings)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (DOCUMENT | {"kind": "cooking"}, "/kind: must be inference"),
        (DOCUMENT | {"measured": {"tpot_s": -1}}, "/measured: none of its figures"),
        (DOCUMENT | {"measured": {}}, "/measured: "),
        (DOCUMENT | {"request": "none"}, "/request"),
        (changed(workload={"input_tokens": "many"}), "/request/workload/input_tokens"),
        (DOCUMENT | {"measured": {"tpot_s": True}}, "/measured: none of its figures"),
    ],
)
def test_a_useless_document_is_refused_alone(
    snapshot: CatalogSnapshot, tmp_path: Path, document: dict[str, Any], said: str
) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(f"{json.dumps(DOCUMENT)}\n\n{json.dumps(document)}\n")
    good, bad = read_file(path, snapshot)
    assert good.document is not None
    assert bad.document is None
    assert bad.number == 3
    assert said in str(bad.refusal)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"kind": "inference",\n', "line 2, column 22: not JSON"),
        ('{"kind": }\n', "line 2, column 10: not JSON: Expecting value"),
        ("7\n", "line 2, column 1: must be a JSON object"),
        ('{"kind": "inference"}\n', "no measurement: request, measured is missing"),
        ('{"kind": NaN}\n', "NaN is not a number"),
        ('{"a":' * 40 + "1" + "}" * 40 + "\n", "nested more than 32 levels"),
        ("[" * 100_000 + "\n", "line 2"),
        ('{"kind": "' + "x" * 1_100_000 + '"}\n', "longer than"),
    ],
)
def test_a_broken_line_is_told_and_nothing_is_read(
    snapshot: CatalogSnapshot, tmp_path: Path, text: str, said: str
) -> None:
    path = tmp_path / "own.jsonl"
    path.write_text(json.dumps(DOCUMENT) + "\n" + text)
    with pytest.raises(FileInvalid) as broken:
        read_file(path, snapshot)
    assert str(broken.value).startswith("own.jsonl, line 2")
    assert said in str(broken.value)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "is empty"),
        (b"\n \n", "is empty"),
        (gzip.compress(b"{}", mtime=0), "gzip"),
        (b"PK\x03\x04zip", "ZIP"),
        (b'\xff\xfe{\x00"\x00', "UTF-16"),
        (b"\xf8\x01", "not UTF-8 at byte 0"),
        (json.dumps([DOCUMENT]).encode(), "a JSON array"),
        (json.dumps(DOCUMENT, indent=1).encode(), "one document over many lines"),
        (b"row_id,model,metric,value,unit\n1,a,b,2,s\n", "one number per row"),
        (b"time,power,memory\n1,2,3\n", "CSV"),
        (b"<html></html>", "web page"),
        (
            b'{"model_id": "m", "request_rate": "inf", "request_throughput": 3.1,'
            b' "total_token_throughput": 9.0}',
            "import it with `./headroom measurements import`",
        ),
        (
            b'{"model_type": "llama 8B", "n_prompt": 512, "n_gen": 0, "avg_ts": 3.0}',
            "import it with",
        ),
    ],
)
def test_a_file_of_another_kind_is_named(
    snapshot: CatalogSnapshot, tmp_path: Path, data: bytes, said: str
) -> None:
    path = tmp_path / "own.jsonl"
    path.write_bytes(data)
    with pytest.raises(FileInvalid, match=r"own\.jsonl: ") as other:
        read_file(path, snapshot)
    assert said in str(other.value)


def test_a_folder_is_read_by_its_files(snapshot: CatalogSnapshot, tmp_path: Path) -> None:
    with pytest.raises(FileInvalid, match="no such file"):
        read_files(tmp_path / "none", snapshot)
    (tmp_path / "latency_inference.csv").write_text("row_id\n")
    with pytest.raises(FileInvalid, match="no longer read"):
        read_files(tmp_path, snapshot)
    for name in ("a.jsonl", "b.jsonl"):
        (tmp_path / name).write_text(json.dumps(DOCUMENT))
    (tmp_path / "sources.jsonl").write_text(json.dumps({"id": "somebody", "title": "Figures"}))
    assert list(read_files(tmp_path, snapshot)) == ["a.jsonl", "b.jsonl"]
    assert list(read_files(tmp_path / "a.jsonl", snapshot)) == ["a.jsonl"]
