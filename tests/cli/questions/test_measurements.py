"""``headroom measurements import``: files of tools, in a terminal."""

from __future__ import annotations

import json

import pytest

from service.estimation.measurements.documents import MeasurementDocument
from tests.estimation.measurements.imports.conftest import FILES

SGLANG = str(FILES / "sglang-bench-serving.jsonl")
VLLM = str(FILES / "vllm-bench-serve-detailed.json")
GIVEN = ("-d", "accelerator=h100", "-d", "accelerator_count=1")


@pytest.fixture
def importing(headroom, monkeypatch):
    monkeypatch.delenv("HEADROOM_SERVER", raising=False)
    return lambda *words: headroom("measurements", "import", *words)


def test_a_dry_run_shows_what_was_understood(importing, tmp_path):
    output = tmp_path / "own.jsonl"
    outcome = importing(SGLANG, *GIVEN, "--dry-run", "--output", str(output))
    assert outcome.status == 0
    for text in (
        "sglang-bench-serving.jsonl: SGLang bench_serving, 2 runs",
        "line 1 /server_info/model_path",
        "inferred: line 1 /total_input_tokens",
        "estimated",
    ):
        assert text in outcome.printed
    assert not output.exists()


def test_documents_of_several_files_are_written_in_one_form(importing, tmp_path):
    output = tmp_path / "own.jsonl"
    outcome = importing(SGLANG, VLLM, *GIVEN, "--output", str(output))
    assert outcome.status == 0
    documents = [
        MeasurementDocument.model_validate_json(line) for line in output.read_text().splitlines()
    ]
    assert [one.id for one in documents] == [
        "sglang-bench-serving.jsonl-1",
        "sglang-bench-serving.jsonl-2",
        "vllm-bench-serve-detailed.json",
    ]


def test_a_fault_in_one_file_keeps_all_from_being_written(importing, tmp_path):
    output = tmp_path / "own.jsonl"
    guidellm = str(FILES / "guidellm.json")
    outcome = importing(VLLM, guidellm, *GIVEN, "--output", str(output))
    assert outcome.status == 1
    assert "documents.1.request.serving.engine" in outcome.complaints
    assert "Nothing was stored or written." in outcome.complaints
    assert not output.exists()
    outcome = importing(VLLM, guidellm, *GIVEN, "-d", '{"serving": {"engine": "vllm"}}', "--json")
    assert outcome.status == 0
    assert [one["format"] for one in json.loads(outcome.printed)] == ["vllm-bench", "guidellm"]


def test_the_deployment_may_stand_in_a_file(importing, tmp_path):
    said = tmp_path / "deployment.json"
    said.write_text('{"accelerator": "a100-80gb", "workload": {"concurrency": 4}}')
    outcome = importing(VLLM, "-d", f"@{said}", "-d", "accelerator_count=1", "--json")
    [answer] = json.loads(outcome.printed)
    assert answer["documents"][0]["document"]["request"]["accelerator"] == "a100-80gb"
    assert answer["documents"][0]["warnings"][0]["code"] == "file_contradicted"


def test_a_snapshot_that_is_no_text_is_sent_as_well(importing):
    outcome = importing(str(FILES / "torch-memory-snapshot.pickle"), *GIVEN)
    assert outcome.status == 1
    assert "documents.0.request.model: the file does not say it" in outcome.complaints


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"Dear all", "it seems to be plain text"),
        (b'{"model_id": 1,}', "line 1, column 15: letter.txt: is not JSON"),
        (b"\x80\x04cos\nsystem\n.total_size", "it holds more than plain values"),
    ],
)
def test_files_that_cannot_be_read(importing, tmp_path, content, told):
    file = tmp_path / "letter.txt"
    file.write_bytes(content)
    outcome = importing(str(file))
    assert outcome.status == 1
    assert told in " ".join(outcome.complaints.split())


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("-d", "accelerator"), "must be FIELD=VALUE, JSON or @FILE"),
        (("-d", "{broken"), "is not a JSON object"),
        (("-d", "@/nowhere.json"), "No such file"),
        (("-d", "a=1", "-d", "a.b=2"), "is not an object"),
    ],
)
def test_a_deployment_that_cannot_be_read(importing, given, told):
    outcome = importing(VLLM, *given)
    assert outcome.status == 2
    assert told in " ".join(outcome.complaints.split())


def test_a_server_that_is_away(importing):
    outcome = importing(VLLM, *GIVEN, "--server", "http://127.0.0.1:1")
    assert outcome.status == 3
