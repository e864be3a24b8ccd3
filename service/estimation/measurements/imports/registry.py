"""The formats that are read, and what a file seems to be that is none of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from service.estimation.measurements.imports.aiperf import AIPERF
from service.estimation.measurements.imports.energy_meters import CODECARBON, ZEUS
from service.estimation.measurements.imports.guidellm import GUIDELLM
from service.estimation.measurements.imports.llama_bench import LLAMA_BENCH
from service.estimation.measurements.imports.megatron import MEGATRON
from service.estimation.measurements.imports.memory_snapshot import MEMORY_SNAPSHOT
from service.estimation.measurements.imports.mlperf import MLPERF
from service.estimation.measurements.imports.power_series import DCGM, NVIDIA_SMI
from service.estimation.measurements.imports.reading import Content, FileRefused, refused
from service.estimation.measurements.imports.runs import FileFormat, Run
from service.estimation.measurements.imports.sglang_bench import SGLANG_BENCH
from service.estimation.measurements.imports.torchtitan import TORCHTITAN
from service.estimation.measurements.imports.trainer_state import TRAINER_STATE
from service.estimation.measurements.imports.trtllm_bench import TRTLLM_BENCH
from service.estimation.measurements.imports.vllm_bench import VLLM_BENCH

#: Formats by id, in the order in which a file is held against them.
FORMATS: Mapping[str, FileFormat] = MappingProxyType(
    {
        one.id: one
        for one in (
            *(VLLM_BENCH, SGLANG_BENCH, AIPERF, GUIDELLM, TRTLLM_BENCH, LLAMA_BENCH, MLPERF),
            *(MEMORY_SNAPSHOT, TRAINER_STATE, MEGATRON, TORCHTITAN),
            *(NVIDIA_SMI, DCGM, ZEUS, CODECARBON),
        )
    }
)

#: Runs that one file may hold.
_MOST_RUNS = 2_000

#: What other files begin with.
_MAGIC = {
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a ZIP archive, or a file of an office program",
    b"\x1f\x8b": "a gzip archive; unpack it first",
    b"\x28\xb5\x2f\xfd": "a zstd archive; unpack it first",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GGUF": "a GGUF model, which is given as a model and not as a measurement",
    b"SQLite format 3": "a SQLite database",
    b"\x7fELF": "a program",
    b"PAR1": "a Parquet table",
    b"\x93NUMPY": "a NumPy array",
    b"\x80": "a pickle without a memory snapshot",
}


def read_runs(content: Content, format_id: str | None = None) -> tuple[FileFormat, list[Run]]:
    """The format of a file and the runs in it.

    Parameters
    ----------
    content
        The file.
    format_id
        Id of its format; None to recognise it from the content.

    Raises
    ------
    FileRefused
        If it is of none of the formats, saying what it seems to be, or is broken, with the place.
    """
    chosen = _recognised(content) if format_id is None else _named(format_id)
    runs = chosen.read(content)
    if len(runs) > _MOST_RUNS:
        raise refused(f"the file has {len(runs):,} runs; at most {_MOST_RUNS:,} are read")
    if not runs:
        raise refused(f"the {chosen.title} holds no run")
    return chosen, runs


def _named(format_id: str) -> FileFormat:
    if format_id not in FORMATS:
        raise refused(f"no format {format_id[:40]!r}; there are {', '.join(FORMATS)}", "/format")
    return FORMATS[format_id]


def recognised(content: Content) -> FileFormat | None:
    """The format of a file by its content; None if it is none of those that are read."""
    return next((one for one in FORMATS.values() if one.recognise(content)), None)


def _recognised(content: Content) -> FileFormat:
    found = recognised(content)
    if found is not None:
        return found
    if content.is_json:
        _ = content.json_lines  # says where it is broken, if it is
    raise refused(
        f"the file is in none of the {len(FORMATS)} known formats; it seems to be {_seems(content)}"
    )


def _seems(content: Content) -> str:
    for magic, told in _MAGIC.items():
        if content.data.startswith(magic):
            return told
    text = content.text
    if text is None:
        return "no text"
    start = text.lstrip()[:200].casefold()
    if start.startswith(("<!doctype html", "<html")):
        return "a web page"
    if start.startswith("<"):
        return "XML"
    if content.is_json:
        return _seems_json(content)
    if _is_table(content):
        columns = ", ".join(content.header[:6])
        return f"a table with the columns {columns[:120]}"
    return "plain text"


def _is_table(content: Content) -> bool:
    """Whether a second row has as many cells as the first, of more than one."""
    try:
        return len(content.header) > 1 and next(content.rows(), None) is not None
    except FileRefused:
        return False


def _seems_json(content: Content) -> str:
    first = next(iter(content.json_lines), None)
    if first is None or not isinstance(first.value, dict):
        return "JSON without an object"
    keys = set(first.value)
    if {"kind", "request", "measured"} <= keys:
        return (
            "a measurement in Headroom's own form, which POST /v1/measurements and "
            "./headroom validate take"
        )
    if {"architectures", "model_type"} & keys:
        return "the config.json of a model"
    return f"JSON with the keys {', '.join(map(str, list(first.value)[:6]))[:120]}"
