"""Hugging Face Trainer: ``trainer_state.json`` of a run that has ended.

References
----------
huggingface/transformers, ``TrainerState`` and ``speed_metrics``, 2026.
"""

from __future__ import annotations

from service.estimation.measurements.imports.reading import Content, Part
from service.estimation.measurements.imports.runs import FileFormat, Run, has

_KEYS = ("log_history", "global_step", "total_flos")


def _recognise(content: Content) -> bool:
    return has(content.whole, _KEYS)


def _read(content: Content) -> list[Run]:
    state = content.json
    run = Run("transformers Trainer", state.place, kind="training")
    run.tell("/training/framework", Part("transformers", state.pointer))
    summary = next(
        (entry for entry in state.parts("log_history") if has(entry, ["train_steps_per_second"])),
        None,
    )
    if summary is None:
        raise state.fault(
            "log_history has no train_steps_per_second: the run has not ended, and its speed is "
            "not known"
        )
    steps, samples = (summary.number(f"train_{name}_per_second") for name in ("steps", "samples"))
    per_device, count = state.number("train_batch_size"), state.number("global_step")
    run.count("/training/micro_batch_size", per_device)
    run.measure("samples_per_s", samples)
    if steps is not None and steps.value > 0:
        run.measure("step_s", Part(1.0 / steps.value, steps.pointer))
    seconds, tokens = summary.number("train_runtime"), state.number("num_input_tokens_seen")
    if tokens is not None and seconds is not None and seconds.value > 0:
        run.measure("tokens_per_s", Part(tokens.value / seconds.value, tokens.pointer))
    if samples is None or steps is None or samples.value <= 0 or steps.value <= 0:
        return [run]
    batch = round(samples.value / steps.value)
    if tokens is not None and tokens.value > 0 and count is not None and count.value > 0 and batch:
        length = Part(tokens.value / (count.value * batch), tokens.pointer)
        run.count("/training/sequence_length", length, inferred=True)
    run.notes.append(f"{batch} sequences a step over all accelerators")
    if per_device is not None and per_device.value > 0:
        run.batches = max(1, round(batch / per_device.value))
    run.notes.append("times include evaluation and saving, if there was any")
    return [run]


TRAINER_STATE = FileFormat("trainer-state", "Hugging Face trainer_state.json", _recognise, _read)
