"""Lengths that programs take prompts and hold caches in, where these are compiled ahead of time."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from service.core.elementwise import Number, ceil, maximum, minimum
from service.core.elementwise import log as log_of

#: What rounding may leave of a length that a program has.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class CacheBuckets:
    """Engines whose programs attend to all of a cache that is held in lengths of their own.

    Such a length is ``ratio`` of the tokens in it on average: where each is twice the one before,
    ``1/ln 2``, lengths of answers having no favourite among them.
    """

    engine: str
    ratio: float
    source: str


@dataclass(frozen=True, slots=True)
class PromptBuckets:
    """Engines that fill prompts up to the next length that they have a program for.

    Such lengths are ``least_tokens`` and each double of them.
    """

    engine: str
    least_tokens: float
    source: str


@dataclass(frozen=True, slots=True)
class GraphSizes:
    """Releases that fill steps of decoding up to the next number of sequences that has a graph.

    There are many such numbers up to ``dense_sequences``, and beyond that each double of them.
    """

    releases: frozenset[str]
    dense_sequences: float
    source: str


#: Where more sequences are computed than there are.
GRAPH_SIZES = (
    GraphSizes(
        frozenset({"tensorrt-llm@1.x"}),
        128.0,
        "TensorRT-LLM, llm_args.py, 2025: _generate_cuda_graph_batch_sizes with enable_padding, as "
        "trtllm-bench and NVIDIA's guides set it: each eighth up to 128, then powers of two, until "
        "each 64th took their place, which gave up to 1.3 times the tokens (pull request 12895, "
        "2026). Without padding other numbers have no graph at all",
    ),
)
#: Where more is computed of prompts than there is.
PROMPT_BUCKETS = (
    PromptBuckets(
        "transformers-neuronx",
        64.0,
        "Transformers NeuronX, bucket.py, 2024: half of 128 tokens and of each double of them, up "
        "to which prompts are padded (base.py, _prepare_for_par_ctx_rhs_padding)",
    ),
    PromptBuckets(
        "jetstream",
        16.0,
        "JetStream, token_utils.py, 2025: DEFAULT_PREFILL_BUCKETS of 16 tokens and each double of "
        "them, the nearest of which prompts are padded to",
    ),
)
#: Where more is attended to than there is.
CACHE_BUCKETS = (
    CacheBuckets(
        "transformers-neuronx",
        1.0 / log(2.0),
        "Transformers NeuronX, bucket.py, 2024: programs for 128 tokens and each double of them; "
        "AWS Neuron, Decode Context-Length Bucketing, 2026: a step reads all blocks of its program",
    ),
)


def bucket_ratio(engine: str) -> float:
    """Tokens that programs of an engine attend to in a cache, over those in it [-]."""
    return next((one.ratio for one in CACHE_BUCKETS if one.engine == engine), 1.0)


def prompt_bucket_tokens(engine: str) -> float:
    """The least length that an engine fills prompts up to; 0 where it takes them as they are."""
    return next((one.least_tokens for one in PROMPT_BUCKETS if one.engine == engine), 0.0)


def dense_graph_sequences(release: str) -> float:
    """Sequences from which a release has graphs for each double of them alone; 0 if for all."""
    found = (one.dense_sequences for one in GRAPH_SIZES if release in one.releases)
    return next(found, 0.0)


def graph_ratio(sequences: Number, doubled_from: float) -> Number:
    """Sequences that a graph computes, over those that decode [-].

    Numbers of sequences have no favourite among them, so that a graph computes ``1/ln 2`` times as
    many on average where each is for twice as many as the one before. It is taken to grow towards
    that from ``doubled_from`` to its double.
    """
    beyond = minimum(maximum(sequences / doubled_from - 1.0, 0.0), 1.0)
    ratio: Number = 1.0 + (1.0 / log(2.0) - 1.0) * beyond
    return ratio


def filled_tokens(tokens: Number, least_tokens: float, alike: bool) -> Number:
    """Tokens that a program computes of a prompt [token].

    Parameters
    ----------
    tokens
        Those of the prompt, or their mean.
    least_tokens
        The shortest program; each is twice as long as the one before. 0: prompts are not filled up.
    alike
        Whether prompts are equally long. Of lengths that have no favourite, a program is ``1/ln 2``
        times as long on average.
    """
    if not least_tokens:
        return tokens
    least = maximum(tokens, least_tokens)
    if not alike:
        return least / log(2.0)
    doubled = ceil(log_of(least / least_tokens) / log(2.0) - _ROUNDING)
    filled: Number = least_tokens * 2.0**doubled
    return filled
