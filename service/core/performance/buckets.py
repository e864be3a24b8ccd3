"""Lengths that programs hold caches in, where these are compiled ahead of time."""

from __future__ import annotations

from dataclasses import dataclass
from math import log


@dataclass(frozen=True, slots=True)
class CacheBuckets:
    """Engines whose programs attend to all of a cache that is held in lengths of their own.

    Such a length is ``ratio`` of the tokens in it on average: where each is twice the one before,
    ``1/ln 2``, lengths of answers having no favourite among them.
    """

    engine: str
    ratio: float
    source: str


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
