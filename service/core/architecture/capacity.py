"""Models whose experts take a limited number of tokens.

References
----------
Lepikhin et al., GShard, 2020, section 2.2, https://arxiv.org/abs/2006.16668; Fedus et al., Switch
Transformers, 2021, section 2.2 (capacity factor), https://arxiv.org/abs/2101.03961
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from service.core.architecture.model import MixtureOfExperts, ModelArchitecture


@lru_cache(maxsize=256)
def at_capacity(architecture: ModelArchitecture, ratio: float) -> ModelArchitecture:
    """The model whose experts take ``ratio`` of the tokens that chose them [-]."""
    if ratio == 1.0 or not architecture.routes:
        return architecture
    groups = tuple(
        replace(group, feed_forward=replace(group.feed_forward, capacity_ratio=ratio))
        if isinstance(group.feed_forward, MixtureOfExperts)
        else group
        for group in architecture.groups
    )
    return replace(architecture, groups=groups)
