"""Memory that an engine keeps free beside its share where nobody tells it a share.

Some engines work out their share of memory from what a run will take besides: more where graphs and
messages span several accelerators, where copies of attention share experts, where a draft model has
steps of its own, and where images are encoded. A share that is told is taken as it is.

References
----------
sgl-project/sglang, python/sglang/srt/server_args.py, 2026 (the reserve that mem_fraction_static
leaves, and adjust_mem_fraction_for_vlm)
"""

from __future__ import annotations

from service.core.architecture.model import ImageEncoder
from service.core.deployment import Deployment, ServingSettings
from service.core.elementwise import Number, where
from service.core.memory.inference.runtime import EngineRuntime

#: Accelerators from which on graphs are captured for twice as many sequences.
_WIDE_ACCELERATORS = 4
#: Memory from which on they are in any case, and the share says so [B].
_LARGE_BYTES = 160 * 2.0**30
#: Share of the memory that is kept at most for the number of accelerators (SGLang, 2025: 0.79
#: instead of 0.88 from 16 on).
_MOST_KEPT_RATIO = 0.09
#: Layers times width squared of the tower that the share is made for (a ViT-L of 24 layers).
_USUAL_TOWER = 24 * 1024**2
#: How much of the share a tower takes that is twice as large as that, and between which factors.
_TOWER_SENSITIVITY, _LEAST_FACTOR, _MOST_FACTOR = 0.1, 0.8, 1.05


def kept_bytes(engine: EngineRuntime, deployment: Deployment, serving: ServingSettings) -> Number:
    """What an engine keeps free on an accelerator beside what one accelerator's share leaves [B].

    Parameters
    ----------
    engine
        What it keeps by accelerator, copy and draft model; nothing of an engine that states none.
    deployment
        The model and how it is laid out.
    serving
        Whether the share is the engine's own, and whether tokens are drafted.
    """
    if not serving.share_by_engine:
        return 0.0
    parallelism = deployment.parallelism
    copies = parallelism.joined_copies
    together = parallelism.replica_accelerators * copies
    kept: Number = engine.kept_rank_bytes * (together - 1)
    if engine.kept_rank_ratio > 0.0:
        ratio = min(engine.kept_rank_ratio * (together - 1), _MOST_KEPT_RATIO)
        kept = kept + ratio * deployment.accelerator.memory_bytes
    if parallelism.tensor * copies >= _WIDE_ACCELERATORS and engine.kept_wide_bytes > 0.0:
        large = deployment.accelerator.memory_bytes >= _LARGE_BYTES
        kept = kept + where(large, 0.0, engine.kept_wide_bytes)
    if copies > 1:
        kept = kept + engine.kept_copy_bytes * copies
    if serving.speculation is not None:
        own = serving.speculation.architecture is None
        kept = kept + (engine.kept_draft_bytes if own else engine.kept_draft_model_bytes)
    images = deployment.architecture.images
    if images is not None and engine.images_share_ratio < 1.0:
        share = deployment.accelerator.memory_bytes * serving.memory_utilization_ratio - kept
        kept = kept + share * (1.0 - engine.images_share_ratio * _tower_factor(images))
    return kept


def _tower_factor(images: ImageEncoder) -> float:
    """What a tower's size makes of the share of models that read images [-]."""
    ratio = images.layers * images.width**2 / _USUAL_TOWER if images.layers else 1.0
    factor = 1.0 - _TOWER_SENSITIVITY * (ratio - 1.0)
    return max(_LEAST_FACTOR, min(_MOST_FACTOR, factor))
