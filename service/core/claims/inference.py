"""Claims about the memory of inference."""

from __future__ import annotations

from dataclasses import replace

from service.core.architecture.model import Attention, ModelArchitecture
from service.core.claims.claim import Claim, Facts, cache_bytes

_GB = 1e9
_MB = 1e6


def _grouped(architecture: ModelArchitecture, heads: int) -> ModelArchitecture:
    """The same with so many KV heads."""
    groups = tuple(
        replace(group, mixer=replace(group.mixer, kv_heads=heads))
        if isinstance(group.mixer, Attention)
        else group
        for group in architecture.groups
    )
    return replace(architecture, groups=groups)


def _cache_of_13b(facts: Facts) -> float:
    return cache_bytes(facts.models["13B"], 4096, sequences=32) / _GB


def _cache_of_128_users(facts: Facts) -> float:
    return cache_bytes(facts.models["13B"], 8192, sequences=128) / _GB


def _cache_with_grouped_heads(facts: Facts) -> float:
    return cache_bytes(_grouped(facts.models["7B"], 8), 4096) / _GB


def _cache_per_token_of_13b(facts: Facts) -> float:
    return cache_bytes(facts.models["13B"], 1) / _MB


def _int8_of_fp16(_: Facts) -> float:
    return 80.0 * 8.0 / 16.0


def _gib_over_gb(_: Facts) -> float:
    return 2.0**30 / 1e9 - 1.0


INFERENCE_CLAIMS: tuple[Claim, ...] = (
    Claim(
        "kv-cache-13b-batch-32",
        ("002",),
        "KV cache of a 13B model, 32 sequences of 4096 tokens",
        "about 52 GB",
        "GB",
        "wrong",
        "Keys and values of 40 layers of 5120 in 16 bit take 0.82 MB a token. Half of the right "
        "figure is what 8-bit caches take.",
        _cache_of_13b,
    ),
    Claim(
        "kv-cache-growth",
        ("002",),
        "How the KV cache grows",
        "quadratically with sequence length and batch size",
        "GB",
        "wrong",
        "It is linear in each, and so in their product. The figure is 128 users of 8192 tokens of "
        "a 13B model.",
        _cache_of_128_users,
    ),
    Claim(
        "kv-cache-by-hidden-size",
        ("001",),
        "KV cache computed from the hidden size",
        "2 · layers · tokens · hidden size · bytes",
        "GB",
        "conditional",
        "Right for multi-head attention only: KV heads × head dimension count. The figure is a 7B "
        "model with 8 KV heads at 4096 tokens, a quarter of its multi-head cache.",
        _cache_with_grouped_heads,
    ),
    Claim(
        "paged-attention-saving",
        ("001",),
        "What paging the KV cache saves",
        "10 to 30 %",
        "MB/token",
        "conditional",
        "It depends on reserved length less used length: 60 to 80 % was wasted before it (Kwon et "
        "al., 2023, https://arxiv.org/abs/2309.06180). The figure is the cache of a 13B model per "
        "token, which a documentation page gives as 1.5 MB.",
        _cache_per_token_of_13b,
    ),
    Claim(
        "quantising-80-gb",
        ("004",),
        "Weights of 80 GB quantised to 8 bit",
        "20 GB",
        "GB",
        "conditional",
        "From 32 bit. From 16 bit, in which models ship, 80 GB become 40; caches and activations "
        "stay as they are.",
        _int8_of_fp16,
    ),
    Claim(
        "kv-cache-complexity",
        ("001",),
        "What the KV cache does to the work of generating S tokens",
        "O(S²) becomes O(S)",
        None,
        "conditional",
        "Of projections and feed-forward parts, yes. Attention over S tokens stays O(S²).",
    ),
    Claim(
        "attention-memory-quadratic",
        ("004",),
        "Memory of attention",
        "scales quadratically",
        None,
        "conditional",
        "Only where scores are stored. With FlashAttention and a KV cache it is linear.",
    ),
    Claim(
        "snippet-units",
        ("004",),
        "A snippet prints KB, MB and GB",
        "divides by 1024",
        "share",
        "unit",
        "These are KiB, MiB and GiB; the figure is how far GiB and GB are apart.",
        _gib_over_gb,
    ),
    Claim(
        "inference-state",
        ("003",),
        "What inference needs",
        "only weights and a small state",
        None,
        "conditional",
        "The KV cache outgrows the weights with long contexts or many users.",
    ),
)
