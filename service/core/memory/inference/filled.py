"""What the process of an engine holds that takes its share of the memory when it starts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from service.core.elementwise import Number, maximum, minimum
from service.core.interval import (
    Interval,
    at_least,
    at_most,
    from_log_sigma,
    independent_sum,
    scale,
)
from service.core.memory.inference.activations import images_peak_bytes, step_peak_bytes

if TYPE_CHECKING:
    from service.core.memory.inference.memory import InferenceMemory

#: How far what tools show as used is off what an engine counts: drivers keep some of the memory for
#: themselves, half a gigabyte of 80, which some tools count and others do not [-].
_SHOWN_LOG_SIGMA = 0.02


def filled_bytes(memory: InferenceMemory) -> Interval:
    """What the process holds of the accelerator, whose caches fill its share whatever the load [B].

    Caches take what all else that counts leaves of the share, so that what is uncertain of that
    moves caches, and not the sum. What lies beside the share comes on top. Temporary tensors that
    the engine measured when it started, and gave back, are held as far as steps of the load reach
    them. What is loaded is held in any case, where a share has no room for it, too.

    References
    ----------
    vllm-project/vllm, vllm/worker/worker.py, 2024 (the allocator's cache is emptied after the
    profile), and vllm/v1/worker/gpu_worker.py, 2025 (sampling is run again for as many sequences as
    may run, so that its tensors stay)
    """
    engine = memory.engine
    beside = [from_log_sigma(memory.usable_bytes, _SHOWN_LOG_SIGMA)]
    reached = activations_of_load(memory)
    if engine.activations_in_share:
        profiled = memory.activations_bytes
        given_back = maximum(profiled.value - reached.value, 0.0)
        beside.append(
            Interval(
                -given_back,
                -given_back * profiled.high / profiled.value,
                -given_back * profiled.low / profiled.value,
            )
        )
    else:
        beside.append(reached)
    if not engine.graphs_in_share:
        beside.append(memory.graphs_bytes)
    if engine.context_in_share < 1.0:
        beside.append(scale(memory.context_bytes, 1.0 - engine.context_in_share))
    loaded = independent_sum((memory.weights_bytes, memory.libraries_bytes, memory.context_bytes))
    return at_most(at_least(independent_sum(beside), loaded), memory.capacity_bytes)


def activations_of_load(memory: InferenceMemory) -> Interval:
    """Activations at the peak of the steps that the load makes, where that is what is held [B]."""
    engine, shape, workload = memory.engine, memory.shape, memory.workload
    if engine.keeps_peak:
        return memory.activations_bytes
    running = maximum(memory.concurrency_per_replica * 1.0, 1.0)
    prompts = workload.beams.prompt_copies * workload.input_tokens
    tokens = minimum(shape.step_tokens, running * prompts)
    sampled: Number = minimum(shape.sampled_sequences, running * workload.beams.width)
    if engine.whole_prompt_logits:
        sampled = tokens
    made = replace(shape, step_tokens=tokens, sampled_sequences=sampled, repeated_bytes=0.0)
    peak = memory.plan.peak
    return engine.activations(step_peak_bytes(peak, made), images_peak_bytes(peak, made))
