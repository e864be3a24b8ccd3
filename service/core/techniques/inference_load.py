"""Techniques for the load, the caches and the scheduler of an inference engine."""

from __future__ import annotations

from collections.abc import Iterator

from service.core.memory.inference.memory import InferenceMemory
from service.core.number_formats import NUMBER_FORMATS
from service.core.techniques.changes import inference_formats, serving, workload
from service.core.techniques.technique import InferenceChange, Technique

#: The largest share of memory that is proposed for an engine.
_MOST_UTILIZATION_RATIO = 0.95
_CHUNKS_TOKENS = (2048, 512)
#: Formats that engines hold caches in, those of 8 bits before those of 4.
_CACHE_FORMATS = ("fp8", "gguf-q8_0", "int8", "nvfp4", "gguf-q4_0", "int4")


def _concurrency(memory: InferenceMemory) -> Iterator[InferenceChange]:
    most = int(memory.max_concurrency.value)
    if 1 <= most < memory.workload.concurrency:
        yield workload(f"run at most {most} requests at once", concurrency=float(most))


def _context(memory: InferenceMemory) -> Iterator[InferenceChange]:
    asked, longest = memory.workload, memory.max_context_tokens.value
    fitting = longest - asked.output_tokens
    if 1 <= fitting < asked.input_tokens:
        prompt = int(fitting)
        yield workload(f"limit prompts to {prompt} tokens", input_tokens=float(prompt))


def _utilization(memory: InferenceMemory) -> Iterator[InferenceChange]:
    if memory.serving.memory_utilization_ratio < _MOST_UTILIZATION_RATIO:
        yield serving(
            f"let the engine use {_MOST_UTILIZATION_RATIO:.0%} of memory",
            memory_utilization_ratio=_MOST_UTILIZATION_RATIO,
            share_by_engine=False,
        )


def _chunks(memory: InferenceMemory) -> Iterator[InferenceChange]:
    for tokens in _CHUNKS_TOKENS:
        if tokens < memory.serving.chunked_prefill_tokens:
            yield serving(
                f"process prompts in parts of at most {tokens} tokens",
                chunked_prefill_tokens=tokens,
            )


def _cache_formats(memory: InferenceMemory) -> Iterator[InferenceChange]:
    now = memory.deployment.precision.kv_cache.bits_per_element
    for name in _CACHE_FORMATS:
        if now > NUMBER_FORMATS[name].bits_per_element * 1.2:
            yield inference_formats(f"store the KV cache in {name}", kv_cache=name)


TECHNIQUES = (
    Technique("concurrency-limit", "same-result", inference=_concurrency),
    Technique("context-limit", "other-recipe", inference=_context),
    Technique("memory-share", "same-result", inference=_utilization),
    Technique("chunked-prefill", "same-result", inference=_chunks),
    Technique("kv-cache-quantisation", "near-same-result", inference=_cache_formats),
    Technique("paged-attention", "same-result"),
    Technique("prefix-caching", "same-result"),
    Technique("kv-cache-offload", "same-result"),
    Technique("speculative-decoding", "same-result"),
)
