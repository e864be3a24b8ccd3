"""Techniques for the load, the caches and the scheduler of an inference engine."""

from __future__ import annotations

from collections.abc import Iterator

from service.core.memory.inference.memory import InferenceMemory
from service.core.techniques import references as by
from service.core.techniques.changes import inference_formats, serving, workload
from service.core.techniques.technique import InferenceChange, Technique

#: The largest share of memory that is proposed for an engine.
_MOST_UTILIZATION_RATIO = 0.95
_CHUNKS_TOKENS = (2048, 512)
_CACHE_FORMATS = ("fp8", "int4")


def _concurrency(memory: InferenceMemory) -> Iterator[InferenceChange]:
    most = int(memory.max_concurrency.value)
    if 1 <= most < memory.workload.concurrency:
        yield workload(f"let at most {most} requests run at once", concurrency=float(most))


def _context(memory: InferenceMemory) -> Iterator[InferenceChange]:
    asked, longest = memory.workload, memory.max_context_tokens.value
    fitting = longest - asked.output_tokens
    if 1 <= fitting < asked.input_tokens:
        prompt = int(fitting)
        yield workload(f"prompts of at most {prompt} tokens", input_tokens=float(prompt))


def _utilization(memory: InferenceMemory) -> Iterator[InferenceChange]:
    if memory.serving.memory_utilization_ratio < _MOST_UTILIZATION_RATIO:
        yield serving(
            f"let the engine use {_MOST_UTILIZATION_RATIO:.0%} of memory",
            memory_utilization_ratio=_MOST_UTILIZATION_RATIO,
        )


def _chunks(memory: InferenceMemory) -> Iterator[InferenceChange]:
    for tokens in _CHUNKS_TOKENS:
        if tokens < memory.serving.chunked_prefill_tokens:
            yield serving(
                f"prompts in parts of at most {tokens} tokens", chunked_prefill_tokens=tokens
            )


def _cache_formats(memory: InferenceMemory) -> Iterator[InferenceChange]:
    now = memory.deployment.precision.kv_cache.bytes_per_element
    for name, most in zip(_CACHE_FORMATS, (1.0, 0.5), strict=True):
        if now > most * 1.2:
            yield inference_formats(f"store the KV cache in {name}", kv_cache=name)


TECHNIQUES = (
    Technique(
        id="concurrency-limit",
        name="Fewer requests at once",
        category="scheduling",
        applies_to=("inference",),
        reach="same-result",
        saves=("kv_cache", "activations"),
        formula="caches of a running request × requests that run; the others wait",
        saving="the caches of the requests that wait",
        time_cost="waiting before the first token; smaller batches make fewer tokens a second",
        quality="unchanged",
        use_when="bursts may wait",
        avoid_when="the first token is urgent, or arrivals exceed what the smaller batch can do",
        set_by=("workload.concurrency", "serving.max_running_sequences"),
        references=(by.VLLM_ARGUMENTS,),
        inference=_concurrency,
    ),
    Technique(
        id="context-limit",
        name="A shorter context",
        category="scheduling",
        applies_to=("inference",),
        reach="other-recipe",
        saves=("kv_cache",),
        formula="longest context = (capacity·share − weights − activations − runtime) / bytes a "
        "token / requests",
        saving="the caches of the tokens left out",
        time_cost="gains time: less is read at every token",
        quality="what is cut off is not known to the model",
        use_when="most of a long context is not needed, or is found by retrieval",
        avoid_when="the whole document matters",
        set_by=("workload.input_tokens", "serving.max_model_len"),
        references=(by.VLLM_ARGUMENTS,),
        inference=_context,
    ),
    Technique(
        id="memory-share",
        name="A larger share of memory for the engine",
        category="scheduling",
        applies_to=("inference",),
        reach="same-result",
        saves=("kv_cache",),
        formula="usable bytes = capacity × share",
        saving="nothing; there is more room",
        time_cost="none",
        quality="unchanged",
        use_when="nothing else runs on the accelerator",
        avoid_when="other processes, or peaks that the engine does not count, need the rest",
        set_by=("serving.memory_utilization_ratio",),
        references=(by.VLLM_ARGUMENTS,),
        inference=_utilization,
    ),
    Technique(
        id="chunked-prefill",
        name="Prompts in parts",
        category="scheduling",
        applies_to=("inference",),
        reach="same-result",
        saves=("activations",),
        formula="activations ∝ tokens of a scheduler step; logits ∝ sampled sequences × vocabulary",
        saving="activations beyond a part of the prompt",
        time_cost="prompts take more steps, and each reads the weights; running requests are "
        "delayed less",
        quality="unchanged",
        use_when="prompts are long and requests run beside them",
        avoid_when="parts become so short that steps no longer fill the accelerator",
        set_by=("serving.chunked_prefill_tokens",),
        references=(by.SARATHI,),
        inference=_chunks,
    ),
    Technique(
        id="kv-cache-quantisation",
        name="A quantised KV cache",
        category="cache",
        applies_to=("inference",),
        reach="near-same-result",
        saves=("kv_cache",),
        formula="2·L·a_kv·d_h·(bits + scales)/8 bytes a token",
        saving="half in 8 bit, nearly three quarters in 4",
        time_cost="gains time where reading the cache is what takes it; values are widened on use",
        quality="8 bit is rarely noticed; 4 bit depends on model and grouping",
        use_when="contexts are long or many",
        avoid_when="the cache is small beside the weights",
        set_by=("precision.kv_cache",),
        references=(by.KIVI, by.FP8),
        aliases=("kv-quantisation", "kv-quantization"),
        inference=_cache_formats,
    ),
    Technique(
        id="paged-attention",
        name="Paged KV cache",
        category="cache",
        applies_to=("inference",),
        reach="same-result",
        saves=("kv_cache",),
        formula="waste = b·(block/2)·bytes a token instead of b·(longest − actual)·bytes a token",
        saving="what is reserved for tokens that never come; about half a block a sequence remains",
        time_cost="none to speak of: a table look-up a block",
        quality="unchanged",
        use_when="always; the engines that estimates know do it",
        avoid_when="every sequence has the same, known length",
        set_by=("serving.kv_block_tokens",),
        references=(by.PAGED_ATTENTION,),
    ),
    Technique(
        id="prefix-caching",
        name="Shared prefixes",
        category="cache",
        applies_to=("inference",),
        reach="same-result",
        saves=("kv_cache",),
        formula="s_p·(n − 1)·bytes a token less for n requests with s_p tokens in common",
        saving="caches of a prefix are held once; prompts shrink to their new tokens",
        time_cost="gains time: TTFT × (1 − hits·s_p/s)",
        quality="unchanged",
        use_when="system prompts, documents or conversations repeat",
        avoid_when="prompts have nothing in common, or prefixes are evicted before they are used",
        set_by=("workload.prefix_cached_ratio",),
        references=(by.RADIX_ATTENTION,),
        aliases=("resident-kv-cache",),
    ),
    Technique(
        id="kv-cache-offload",
        name="KV cache in slower memory",
        category="offload",
        applies_to=("inference",),
        reach="same-result",
        saves=("kv_cache",),
        formula="caches of parked sequences = tokens × bytes a token, in host memory or beyond",
        saving="the caches of all sequences that do not run",
        time_cost="bytes / link bandwidth before a sequence goes on, instead of computing its "
        "prompt again; caches read at every token are far too much for a host link",
        quality="unchanged",
        use_when="sessions pause and come back",
        avoid_when="the sequence is running",
        set_by=(
            "serving.offload.parked_sequences",
            "serving.offload.kv_cache_ratio",
            "serving.memory_tiers",
        ),
        references=(by.FLEXGEN,),
    ),
    Technique(
        id="speculative-decoding",
        name="Speculative decoding",
        category="scheduling",
        applies_to=("inference",),
        reach="same-result",
        saves=(),
        formula="costs the draft model's weights and its caches, P_draft·β + tokens·bytes a token",
        saving="none: it takes memory to gain time",
        time_cost="gains time: (1 − α^(k+1))/(1 − α) tokens a step for k drafts accepted at rate "
        "α, less the draft's own steps",
        quality="unchanged: tokens follow the large model's distribution",
        use_when="few requests run, and decoding waits for memory",
        avoid_when="batches are large enough to keep the accelerator busy",
        set_by=(),
        references=(by.SPECULATIVE,),
    ),
)
