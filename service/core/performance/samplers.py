"""How long releases of engines take to choose tokens, beside those that sort all logits."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sampler:
    """Releases that find the most likely tokens without sorting all of them.

    They take ``ratio`` of the time of sorting on hardware families whose ids begin with one of
    ``families``. ``releases`` are keys of releases, or ids of engines for all of theirs.
    """

    releases: frozenset[str]
    families: tuple[str, ...]
    ratio: float
    source: str


_MEASURED = "512 rows of 131,072 logits, of which a share is kept (top-p)"
#: The first that holds counts.
SAMPLERS = (
    Sampler(
        frozenset({"vllm@0.21", "sglang@overlapped", "sglang@0.5.3", "sglang@0.5.10"}),
        ("nvidia-",),
        0.372 / 6.150,
        f"vLLM, pull request 40376, 2026: {_MEASURED}, take FlashInfer 0.372 ms where sorting "
        "takes 6.150; the default from then on, and that of SGLang on CUDA (--sampling-backend)",
    ),
    Sampler(
        frozenset({"vllm@0.17", "vllm@0.21"}),
        ("",),
        2.013 / 6.150,
        f"vLLM, pull request 40376, 2026: {_MEASURED}, take the kernels of pull request 33538 "
        "2.013 ms; they search for the least probable that is kept",
    ),
)


def sampling_ratio(release: str, family: str) -> float:
    """Time that a release takes to choose tokens on a hardware family, over that of sorting [-]."""
    found = (
        one.ratio for one in SAMPLERS if release in one.releases and family.startswith(one.families)
    )
    return next(found, 1.0)
