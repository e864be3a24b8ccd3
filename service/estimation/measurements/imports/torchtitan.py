"""torchtitan's log: lines of steps, with what it says of model, device and batch before them.

References
----------
pytorch/torchtitan 0.3, components/metrics.py and trainer.py, 2026.
"""

from __future__ import annotations

import re

from service.estimation.measurements.imports.reading import Content, Part, parsed_number, refused
from service.estimation.measurements.imports.runs import FileFormat, Run
from service.estimation.measurements.imports.training_logs import middle, read_number, settled, span

_STEP = re.compile(r"(?<!validate )\bstep:\s{0,8}\d")
_MEMORY = re.compile(r"\bmemory:\s{0,8}([\d.]+)GiB\(")
_RATE = re.compile(r"\btps:\s{0,8}([\d,]+)")
_SHARE = re.compile(r"\bmfu:\s{0,8}([\d.]+)%")
_CAPACITY = re.compile(r"\bCUDA capacity: (.{2,80}?) with [\d.]+GiB memory")
_MODEL = re.compile(r"\bModel (\S{1,80}) (\S{1,80}) size: ([\d,]+) total parameters")
_BATCH = re.compile(
    r"local batch size (\d+), global batch size (\d+), "
    r"(?:gradient accumulation steps (\d+), )?sequence length (\d+)"
)
_MESH = re.compile(
    r"device mesh with parallelism: pp=(\d+), dp_replicate=(\d+), dp_shard=(-?\d+), "
    r"cp=(\d+), tp=(\d+), ep=(\d+)"
)
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2}) \d{2}:\d{2}:\d{2}")
_GIB = 1_073_741_824.0
#: Lines before the first step that are looked at: a configuration may be printed there.
_MOST_BEFORE = 20_000


def _recognise(content: Content) -> bool:
    text = content.text
    if text is None or "tps:" not in text:
        return False
    return any(_is_step(line) for number, line in content.lines() if number <= _MOST_BEFORE)


def _is_step(line: str) -> bool:
    found = _RATE.search(line) and _MEMORY.search(line) and _STEP.search(line)
    return found is not None


def _read(content: Content) -> list[Run]:
    run = Run("torchtitan", "the file", kind="training")
    rates: list[Part] = []
    shares: list[Part] = []
    memory: list[Part] = []
    for number, line in content.lines():
        if not _is_step(line):
            _note_start(run, line, number)
            continue
        for kept, pattern in ((memory, _MEMORY), (rates, _RATE), (shares, _SHARE)):
            found = pattern.search(line)
            if found is not None:
                kept.append(read_number(found[1].replace(",", ""), number))
        time = _TIME.search(line)
        run.day(None if time is None else time[1])
    if not rates:
        raise refused("has no line of a step")
    run.tell("/training/framework", Part("torchtitan", line=rates[0].line))
    run.measure("tokens_per_s_per_accelerator", middle(rates))
    run.measure("mfu_ratio", middle(shares), 0.01)
    peak = max(settled(memory), key=lambda part: part.value)
    run.measure("reserved_bytes", peak, _GIB)
    run.notes.append(f"steps: {span(rates)}")
    return [run]


def _note_start(run: Run, line: str, number: int) -> None:
    """What is printed before the first step."""
    device, model, batch = _CAPACITY.search(line), _MODEL.search(line), _BATCH.search(line)
    if device is not None:
        run.tell("/accelerator", Part(device[1], line=number))
    if model is not None:
        run.tell("/model", Part(f"{model[1]} {model[2]}", line=number), inferred=True)
        run.parameters = parsed_number(model[3].replace(",", ""))
    mesh = _MESH.search(line)
    if mesh is not None:
        pipeline, copies, shards, context, tensor, expert = (int(one[:9]) for one in mesh.groups())
        for name, degree in (
            ("pipeline", pipeline),
            ("data", copies * shards),
            ("context", context),
            ("tensor", tensor),
            ("expert", expert),
        ):
            run.count(f"/parallelism/{name}", Part(degree, line=number))
        if shards > 1:
            run.suppose("/training/zero_stage", 3, f"line {number}: dp_shard={shards}")
            if copies > 1:
                run.count("/training/data_parallel_shard_degree", Part(shards, line=number))
    if batch is not None:
        local, whole = int(batch[1][:12]), int(batch[2][:12])
        run.count("/training/micro_batch_size", Part(local, line=number))
        run.count("/training/sequence_length", Part(int(batch[4][:12]), line=number))
        run.notes.append(f"{whole} sequences a step over all accelerators")
        run.batches = max(1, round(whole / max(1, local)))
        if batch[3] is not None:
            steps = Part(int(batch[3][:12]), line=number)
            run.count("/training/gradient_accumulation_steps", steps)


TORCHTITAN = FileFormat("torchtitan", "torchtitan log", _recognise, _read)
