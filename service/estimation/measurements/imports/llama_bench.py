"""``llama-bench``: its JSON, JSON lines, CSV and Markdown.

A test reads a prompt (pp), writes tokens (tg), or both (pg), perhaps behind a context that is
there already (depth). Each of them is a document of its own.

References
----------
ggml-org/llama.cpp, tools/llama-bench/llama-bench.cpp, 2026.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from service.estimation.measurements.imports.names import cache_format, gguf_format
from service.estimation.measurements.imports.reading import Content, Part, refused
from service.estimation.measurements.imports.runs import FileFormat, Run, has

_KEYS = ("model_type", "n_prompt", "n_gen", "avg_ts")
_NS = 1e-9
#: What people write for all of them, whatever the model has.
_ALL_LAYERS = 99
_TEST = re.compile(r"(?:pp\s?(\d+))?\s?\+?\s?(?:tg\s?(\d+))?(?:\s?@\s?d(\d+))?")
_SPEED = re.compile(r"([\d.]+)\s*(?:±\s*[\d.]+)?")
_BUILD = re.compile(r"^build: (\w+) \((\d+)\)")
_DEVICE = re.compile(r"^\s*Device \d+: ([^,]+),")
_PARAMETERS = re.compile(r"(\d{1,6})(\.?\d{0,6}) ([BM])")
_UNITS = {"B": 1e9, "M": 1e6}
_TABLE = frozenset({"model", "test", "t/s"})
#: Lines before the table that are looked at.
_MOST_BEFORE = 200
#: What it calls backends, and those of several builds or drivers of which it does not say which.
_BACKENDS = {
    "CUDA": "cuda",
    "ROCm": "hip",
    "Vulkan": "vulkan",
    "Metal": "metal",
    "MTL": "metal",
    "SYCL": "sycl",
    "CANN": "cann",
    "OpenCL": "opencl",
}
_SEVERAL = frozenset({"hip", "vulkan"})
_COLUMNS = {"ngl": "n_gpu_layers", "sm": "split_mode", "fa": "flash_attn", "nkvo": "no_kv_offload"}


def _recognise(content: Content) -> bool:
    if content.is_json:
        return has(next(iter(content.objects), None), _KEYS)
    return set(_KEYS) <= set(content.header) or _table_header(content) is not None


def _read(content: Content) -> list[Run]:
    runs = [_run(part) for part in _results(content)]
    if not runs:
        raise refused("has no result of llama-bench")
    return runs


def _results(content: Content) -> Iterator[Part]:
    if content.is_json:
        yield from content.json_lines
    elif set(_KEYS) <= set(content.header):
        yield from content.rows()
    else:
        yield from _table(content)


def _table_header(content: Content) -> list[str] | None:
    for number, line in content.lines():
        cells = _cells(line) if line.lstrip().startswith("|") else []
        if set(cells) >= _TABLE:
            return cells
        if number > _MOST_BEFORE:
            break
    return None


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _table(content: Content) -> Iterator[Part]:
    """Rows of the Markdown table in the form of the other outputs."""
    header: list[str] | None = None
    shared: dict[str, object] = {}
    rows: list[tuple[int, dict[str, object]]] = []
    devices: list[str] = []
    for number, line in content.lines():
        device, build = _DEVICE.match(line), _BUILD.match(line)
        if device is not None:
            devices.append(device[1].strip())
        elif build is not None:
            shared |= {"build_commit": build[1], "build_number": float(build[2])}
        elif line.lstrip().startswith("|"):
            cells = _cells(line)
            if set(cells) >= _TABLE:
                header = cells
            elif header is not None and not set(cells[0]) <= {"-", ":", " "}:
                rows.append((number, _row(number, header, cells)))
    shared["gpu_info"] = ", ".join(devices)
    for number, row in rows:
        yield Part(shared | row, line=number)


def _row(number: int, header: list[str], cells: list[str]) -> dict[str, object]:
    at = Part(cells, line=number)
    if len(cells) != len(header):
        raise at.fault(f"the row has {len(cells)} cells, the header {len(header)}")
    row: dict[str, object] = {
        _COLUMNS.get(name, name): cell for name, cell in zip(header, cells, strict=True)
    }
    test = _TEST.fullmatch(str(row["test"]))
    speed = _SPEED.match(str(row["t/s"]))
    if test is None or speed is None or not any(test.groups()):
        raise at.fault(f"{row['test']!r:.40} at {row['t/s']!r:.40} is not a result")
    row["model_type"] = row["model"]
    row |= {"n_prompt": test[1] or "0", "n_gen": test[2] or "0", "n_depth": test[3] or "0"}
    row["avg_ts"] = speed[1]
    return row


def _run(part: Part) -> Run:
    if not has(part, _KEYS):
        raise part.fault("is not a result of llama-bench")
    run = Run("llama-bench", part.place)
    build, commit = part.number("build_number"), part.text("build_commit")
    if build is not None:
        run.release = f"b{build.value:.0f}"
        run.version = run.release + ("" if commit is None else f" ({commit.value[:12]})")
    run.tell("/serving/engine", Part("llama.cpp", part.pointer, part.line))
    _tell_model(run, part)
    _tell_device(run, part)
    keys, values = part.text("type_k"), part.text("type_v")
    for said in (keys, values):
        if said is not None and (known := cache_format(said.value)) is not None:
            differ = keys is not None and values is not None and keys.value != values.value
            run.tell("/precision/kv_cache", Part(known, said.pointer, said.line), inferred=differ)
            break
    else:
        run.suppose("/precision/kv_cache", "fp16", "llama-bench's default")
    _tell_test(run, part)
    when = part.text("test_time")
    run.day(None if when is None else when.value)
    return run


def _tell_model(run: Run, part: Part) -> None:
    described = part.text("model_type")
    file = part.text("model_filename")
    run.tell("/model", file or described, inferred=file is None)
    count = part.number("model_n_params")
    run.parameters = None if count is None else float(count.value)
    rounded = part.text("params")
    size = None if rounded is None else _PARAMETERS.fullmatch(rounded.value)
    if size is not None:
        unit = _UNITS[size[3]]
        run.parameters = float(size[1] + size[2]) * unit
        run.parameters_rounded_to = unit * 10.0 ** -max(0, len(size[2]) - 1)
    if described is not None and (known := gguf_format(described.value)) is not None:
        run.tell("/precision/weights", Part(known, described.pointer, described.line))


def _tell_device(run: Run, part: Part) -> None:
    """The accelerator that holds the layers; the processor where none does."""
    layers, backend = part.number("n_gpu_layers"), part.first("backends", "backend")
    on_host = (layers is not None and layers.value == 0) or (
        backend is not None and str(backend.value) in ("CPU", "BLAS", "BLAS,CPU")
    )
    said = part.text("cpu_info" if on_host else "gpu_info")
    if said is not None:
        _tell_names(run, part, said)
    if on_host:
        return
    if backend is not None:
        several = str(backend.value).split(",")
        known = next((_BACKENDS[name] for name in several if name in _BACKENDS), None)
        if known is not None:
            place = Part(known, backend.pointer, backend.line)
            run.tell("/serving/backend", place, inferred=known in _SEVERAL)
    kept = part.part("no_kv_offload")
    if kept is not None and kept.value in (True, "1"):
        run.notes.append("the cache is on the host")
        run.confidence = "low"
    for name, told in (
        ("n_gpu_layers", "layers are on the accelerator, the rest perhaps on the host"),
        ("n_cpu_moe", "layers have their experts on the host"),
    ):
        number = part.number(name)
        most = _ALL_LAYERS if name == "n_gpu_layers" else 1e9
        if number is not None and 0 < number.value < most:
            run.notes.append(f"{number.value:g} {told}")
            run.confidence = "low"


def _tell_names(run: Run, part: Part, said: Part) -> None:
    names = [name.strip() for name in said.value.split(",") if name.strip()]
    if len(set(names)) > 1:
        run.notes.append(f"different accelerators: {', '.join(names)}"[:300])
        return
    run.tell("/accelerator", Part(names[0], said.pointer, said.line))
    run.tell("/accelerator_count", Part(len(names), said.pointer, said.line))
    split = part.text("split_mode")
    if len(names) > 1 and split is not None and split.value == "layer":
        place = f"{split.place}: layers are divided"
        run.suppose("/parallelism/pipeline", len(names), place)
        run.suppose("/parallelism/tensor", 1, place)


def _tell_test(run: Run, part: Part) -> None:
    prompt, written = part.number("n_prompt"), part.number("n_gen")
    depth, speed = part.number("n_depth"), part.number("avg_ts")
    if prompt is None or written is None or speed is None or speed.value <= 0:
        raise part.fault("lacks n_prompt, n_gen or avg_ts")
    behind = 0 if depth is None else int(depth.value)
    read, wrote = int(prompt.value), int(written.value)
    if not 0 <= min(behind, read, wrote) <= max(behind, read, wrote) <= 10_000_000:
        raise part.fault("n_prompt, n_gen and n_depth must be between 0 and 10,000,000")
    whole = Part(max(1, behind + read), prompt.pointer, part.line)
    run.tell("/workload/input_tokens", whole)
    run.tell("/workload/concurrency", Part(1, part.pointer, part.line))
    run.tell("/workload/output_tokens", Part(max(1, wrote), written.pointer, part.line))
    if read and behind:
        run.tell("/workload/prefix_cached_ratio", Part(behind / (behind + read), prompt.pointer))
    times = part.number("avg_ns")
    if read and wrote:
        rate = Part(wrote / (read + wrote) * speed.value, speed.pointer, part.line)
        run.measure("output_tokens_per_s", rate)
        run.measure("e2e_s", times, _NS)
        if not behind:
            run.measure("total_tokens_per_s", speed)
    elif wrote:
        run.measure("decode_tokens_per_s", speed)
        run.measure("tpot_s", Part(1.0 / speed.value, speed.pointer, part.line))
        if not behind:
            run.notes.append("starts from an empty context")
    elif read:
        if not behind:
            run.measure("prefill_tokens_per_s", speed)
        run.measure("ttft_s", Part(read / speed.value, speed.pointer, part.line))
    else:
        raise part.fault("tests neither a prompt nor written tokens")


LLAMA_BENCH = FileFormat("llama-bench", "llama-bench results", _recognise, _read)
