"""Files of another kind, broken ones, and those that are meant to do harm."""

from __future__ import annotations

import pickle
import struct

import pytest

from service.estimation.measurements.imports.pickles import plain_pickle
from service.estimation.measurements.imports.reading import Content, FileRefused
from service.estimation.measurements.imports.registry import read_runs
from tests.estimation.measurements.imports.conftest import FILES


def refusal(data: bytes, format_id: str | None = None):
    with pytest.raises(FileRefused) as refused:
        read_runs(Content(data), format_id)
    return refused.value.faults[0]


@pytest.mark.parametrize(
    ("data", "seems"),
    [
        (b"%PDF-1.7 ...", "a PDF document"),
        (b"PK\x03\x04....", "a ZIP archive"),
        (b"\x1f\x8b\x08....", "a gzip archive; unpack it first"),
        (b"GGUF\x03\0\0\0", "a GGUF model"),
        (b"\x80\x04N.", "a pickle without a memory snapshot"),
        (b"\xff\xfa\xfb", "no text"),
        (b"<!DOCTYPE html><html>", "a web page"),
        (b"<a/>", "XML"),
        (b"name,price\napple,3\n", "a table with the columns name, price"),
        (b"Dear all, this is a letter.\nBye", "plain text"),
        (b'{"architectures": ["X"], "model_type": "llama"}', "the config.json of a model"),
        (b'{"kind": "inference", "request": {}, "measured": {}}', "Headroom's own form"),
        (b'{"a": 1, "b": 2}', "JSON with the keys a, b"),
        (b'["a", 2]', "JSON without an object"),
    ],
)
def test_a_file_of_another_kind_is_named_for_what_it_seems_to_be(data, seems):
    assert seems in refusal(data).detail


def test_sizes_and_emptiness(monkeypatch):
    assert refusal_of_content(b"  \n").detail == "the file is empty"
    monkeypatch.setattr("service.estimation.measurements.imports.reading.MOST_BYTES", 10)
    assert "larger than 10" in refusal_of_content(b"a" * 11).detail


def refusal_of_content(data: bytes):
    with pytest.raises(FileRefused) as refused:
        Content(data)
    return refused.value.faults[0]


def test_a_broken_line_is_told_with_line_and_column():
    lines = (FILES / "sglang-bench-serving.jsonl").read_bytes().splitlines()
    lines[1] = lines[1].replace(b'"completed": 12', b'"completed": oops')
    fault = refusal(b"\n".join(lines))
    assert fault.position == (2, lines[1].index(b"oops") + 1)
    assert "line 2, column" in str(fault)


def test_a_broken_object_over_several_lines_is_told_where_it_breaks():
    data = (FILES / "trainer_state.json").read_bytes().replace(b'"epoch": 0.75,', b'"epoch": ,', 1)
    assert refusal(data).position == (5, 12)


def test_a_line_of_another_kind_among_results():
    data = (FILES / "sglang-bench-serving.jsonl").read_bytes() + b'{"a": 1}\n'
    fault = refusal(data)
    assert fault.position == (3, 1)
    assert "is not a result of bench_serving" in fault.detail


def test_rows_that_do_not_fit_the_header():
    data = (FILES / "nvidia-smi.csv").read_bytes() + b"1, 2\n"
    fault = refusal(data)
    assert fault.position == (50, 1)
    assert fault.detail == "the row has 2 cells, the header 6"
    data = (FILES / "nvidia-smi.csv").read_bytes().replace(b"71.50 W", b"hot", 1)
    assert refusal(data).detail == "'hot' is not a reading"


def test_readings_that_the_driver_does_not_have():
    data = b"index, power.draw [W]\n0, [N/A]\n0, [Not Supported]\n"
    assert refusal(data).detail == "has no reading of power"
    idle = b"index, utilization.gpu [%], power.draw [W]\n0, 0 %, 60 W\n0, 3 %, 61 W\n"
    assert "no accelerator was busy" in refusal(idle).detail


@pytest.mark.parametrize(
    "data",
    [
        b'{"a":' * 100_000,
        b"[" * 100_000,
        b'{"model_id": NaN, "a": ' + b"[" * 100_000,
        b'{"avg_latency": ' + b"1" * 10_000 + b', "latencies": [], "percentiles": {}, "x": NaN}',
        b'{"model_id": "\\ud800", "request_rate": 1}',
        b'"' + b"\\u0000" * 1_000 + b'"',
    ],
)
def test_json_that_is_meant_to_do_harm(data):
    assert refusal(data).detail


def test_a_table_of_another_kind_behind_one_of_results():
    data = (FILES / "llama-bench.md").read_bytes()
    other = data.replace(b"build:", b"| model | test |\n| a | pp512 |\nbuild:")
    assert refusal(other).detail == "the row has 2 cells, the header 8"


def test_a_format_that_there_is_not():
    fault = refusal(b'{"a": 1}', "excel")
    assert fault.pointer == "/format"
    assert "llama-bench" in fault.detail


def test_a_file_that_is_not_of_the_format_that_was_named():
    for format_id in ("vllm-bench", "guidellm", "megatron-lm", "nvidia-smi", "trainer-state"):
        assert refusal(b"nothing of the kind", format_id).detail


class Runs:
    """What a hostile pickle calls when it is read."""

    def __reduce__(self):
        return (print, ("harm",))


def test_a_pickle_that_would_run_something_is_refused(capsys):
    data = pickle.dumps({"segments": [Runs()], "device_traces": []})
    fault = refusal(data)
    assert "it holds more than plain values" in fault.detail
    assert fault.detail.startswith("byte ")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_pickles_of_plain_values(protocol):
    shared = ["x", 1.5]
    value = {
        "segments": [{"device": 0, "sizes": (1, 2), "more": [*range(300)], "big": 1 << 40}],
        "flags": (True, False, None, (), (1,), (1, 2, 3, 4)),
        "again": [shared, shared, {}],
        "text": "ü" * 300,
        5: -7,
    }
    assert plain_pickle(pickle.dumps(value, protocol=protocol)) == value


@pytest.mark.parametrize(
    "data",
    [
        b"\x80",
        b"\x80\x09.",
        b"\x80\x04",
        b"\x80\x04.",
        b"\x80\x04e.",
        b"\x80\x04]e.",
        b"\x80\x04h\x05.",
        b"\x80\x04X\xff\xff\xff\xff.",
        b"\x80\x04\x8d" + b"\xff" * 8 + b".",
        b"\x80\x04\x8a\xff" + b"\x01" * 255 + b".",
        b"\x80\x04r\xff\xff\xff\x7f.",
        b"\x80\x04N\x87.",
        b"\x80\x04}](K\x01u.",
        b"\x80\x04}(]K\x01u.",
        b"\x80\x04}(K\x01u.",
        b"\x80\x04N(K\x01e.",
        b"\x80\x04\x8c\xffab.",
        b"\x80\x04cos\nsystem\n.",
    ],
)
def test_broken_pickles(data):
    with pytest.raises(FileRefused, match=r"byte"):
        plain_pickle(data)


def test_an_index_far_out_takes_no_memory():
    """The library's own reader makes room for all indices before it."""
    data = b"\x80\x04Nr" + struct.pack("<I", 2**31 - 1) + b"."
    assert plain_pickle(data) is None


def test_a_list_that_holds_itself():
    data = b"\x80\x02]q\x00h\x00a."
    found = plain_pickle(data)
    assert found[0] is found


def test_a_snapshot_whose_parts_are_no_snapshot():
    for value in (
        {"segments": [], "device_traces": []},
        {"segments": [{"device": 0, "total_size": "a", "allocated_size": 1}], "device_traces": []},
        {"segments": [{"device": 0, "total_size": 1, "allocated_size": -1}], "device_traces": []},
        {"segments": 5, "device_traces": 7},
        ["total_size"],
    ):
        assert refusal(pickle.dumps(value)).detail


def test_events_that_make_no_sense_are_passed_over():
    events = [{"action": "alloc", "size": "x"}, 5, {"action": 1}, {"size": -4, "action": "alloc"}]
    segment = {"device": 0, "total_size": 8, "allocated_size": 4}
    [run] = read_runs(Content(pickle.dumps({"segments": [segment], "device_traces": [events]})))[1]
    assert run.measured["allocated_bytes"].value == 4.0
