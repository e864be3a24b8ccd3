"""Megatron-LM's log: lines of iterations, arguments, memory.

References
----------
NVIDIA/Megatron-LM, megatron/training/training.py ``training_log`` and arguments.py
``_print_args``, 2026.
"""

from __future__ import annotations

import re

from service.estimation.measurements.imports.reading import Content, Part, parsed_number, refused
from service.estimation.measurements.imports.runs import FileFormat, Run
from service.estimation.measurements.imports.training_logs import middle, read_number, span

_ITERATION = re.compile(r"\biteration\s+(\d+)\s*/\s*\d+ \|")
_ELAPSED = re.compile(r"elapsed time per iteration \(ms\):\s*([\d.]+)")
_FLOPS = re.compile(r"throughput per GPU \(TFLOP/s/GPU\):\s*([\d.]+)")
_BATCH = re.compile(r"global batch size:\s*(\d+)")
_POWER = re.compile(r"power per GPU \(W/GPU\):\s*([\d.]+)")
_TIME = re.compile(r"\[(\d{4}-\d{2}-\d{2}) ")
_ARGUMENT = re.compile(r"^\s*(?:\[?\w+\]?:\s*)?([a-z][a-z0-9_]{2,60}) \.{2,}\s(\S{1,100})\s*$")
_MEMORY = {
    "allocated_bytes": re.compile(r"\bmax allocated:\s{0,8}([\d.]+)"),
    "reserved_bytes": re.compile(r"\bmax reserved:\s{0,8}([\d.]+)"),
}
_MIB = 1_048_576.0
_COUNTS = {
    "world_size": "/accelerator_count",
    "tensor_model_parallel_size": "/parallelism/tensor",
    "pipeline_model_parallel_size": "/parallelism/pipeline",
    "context_parallel_size": "/parallelism/context",
    "expert_model_parallel_size": "/parallelism/expert",
    "data_parallel_size": "/parallelism/data",
    "micro_batch_size": "/training/micro_batch_size",
    "seq_length": "/training/sequence_length",
    "virtual_pipeline_model_parallel_size": "/training/virtual_stages",
}
_SWITCHES = {
    "sequence_parallel": "/training/sequence_parallel",
    "moe_pad_expert_input_to_capacity": "/training/expert_padding",
}
_CHECKPOINTING = {"full": "full", "selective": "selective", "None": "none"}


def _recognise(content: Content) -> bool:
    text = content.text
    return text is not None and "elapsed time per iteration (ms):" in text


def _read(content: Content) -> list[Run]:
    run = Run("Megatron-LM", "the file", kind="training")
    steps: list[Part] = []
    flops: list[Part] = []
    powers: list[Part] = []
    arguments: dict[str, Part] = {}
    batch: Part | None = None
    for number, line in content.lines():
        argument = _ARGUMENT.match(line)
        if argument is not None:
            arguments[argument[1]] = Part(argument[2], f"/{argument[1]}", number)
        elif _ITERATION.search(line) is not None:
            for kept, pattern in ((steps, _ELAPSED), (flops, _FLOPS), (powers, _POWER)):
                found = pattern.search(line)
                if found is not None:
                    kept.append(read_number(found[1], number))
            sequences = _BATCH.search(line)
            batch = batch if sequences is None else read_number(sequences[1], number)
            time = _TIME.search(line)
            run.day(None if time is None else time[1])
        _note_memory(run, line, number)
    if not steps:
        raise refused("has no line of an iteration")
    run.tell("/training/framework", Part("megatron-lm", line=steps[0].line))
    run.measure("step_s", middle(steps), 1e-3)
    run.measure("accelerator_power_w", middle(powers))
    run.notes.append(f"steps: {span(steps)}")
    if flops and (speed := middle(flops)) is not None:
        run.notes.append(f"{speed.value:g} TFLOP/s per accelerator, as Megatron-LM counts them")
    _tell_arguments(run, arguments)
    _tell_batch(run, batch)
    return [run]


def _note_memory(run: Run, line: str, number: int) -> None:
    """The rank that takes most."""
    if "memory (MB) |" not in line:
        return
    for name, pattern in _MEMORY.items():
        found = pattern.search(line)
        if found is None:
            continue
        part = read_number(found[1], number)
        kept = run.measured.get(name)
        if kept is None or kept.value < part.value * _MIB:
            run.measure(name, part, _MIB)


def _tell_arguments(run: Run, arguments: dict[str, Part]) -> None:
    for name, pointer in _COUNTS.items():
        part = arguments.get(name)
        value = None if part is None else parsed_number(part.value)
        if part is not None and value is not None and value > 0:
            run.count(pointer, Part(value, part.pointer, part.line))
    for name, number_format in (("bf16", "bf16"), ("fp16", "fp16")):
        part = arguments.get(name)
        if part is not None and part.value == "True":
            run.tell("/precision/weights", Part(number_format, part.pointer, part.line))
    recomputed = arguments.get("recompute_granularity")
    if recomputed is not None and recomputed.value in _CHECKPOINTING:
        known = _CHECKPOINTING[recomputed.value]
        part = Part(known, recomputed.pointer, recomputed.line)
        run.tell("/training/activation_checkpointing", part)
    for name, pointer in _SWITCHES.items():
        part = arguments.get(name)
        if part is not None and part.value in ("True", "False"):
            run.tell(pointer, Part(part.value == "True", part.pointer, part.line))
    capacity = arguments.get("moe_expert_capacity_factor")
    factor = None if capacity is None else parsed_number(capacity.value)
    if capacity is not None and factor is not None:
        told = Part(factor, capacity.pointer, capacity.line)
        run.tell("/training/expert_capacity_factor", told)
    sharded = arguments.get("use_distributed_optimizer")
    if sharded is not None and sharded.value in ("True", "False"):
        stage = 1 if sharded.value == "True" else 0
        run.tell("/training/zero_stage", Part(stage, sharded.pointer, sharded.line))


def _tell_batch(run: Run, batch: Part | None) -> None:
    """Micro-batches of a step, from sequences of all ranks, and tokens per second."""
    if batch is None or batch.value <= 0:
        return
    run.notes.append(f"{batch.value:g} sequences a step over all accelerators")
    micro = run.fields.get("/request/training/micro_batch_size")
    if micro is not None:
        run.batches = max(1, round(batch.value / micro.value))
    step, length = run.measured.get("step_s"), run.fields.get("/request/training/sequence_length")
    if step is not None:
        run.measure("samples_per_s", Part(batch.value / step.value, line=batch.line))
        if length is not None:
            tokens = batch.value * length.value / step.value
            run.measure("tokens_per_s", Part(tokens, line=batch.line))


MEGATRON = FileFormat("megatron-lm", "Megatron-LM log", _recognise, _read)
