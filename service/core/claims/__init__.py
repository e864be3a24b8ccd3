"""Figures that circulate about memory, speed and impact of language models, computed again."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from service.core.claims.facts import Recompute
from service.core.claims.hardware import HARDWARE_CLAIMS
from service.core.claims.impact import IMPACT_CLAIMS
from service.core.claims.inference import INFERENCE_CLAIMS
from service.core.claims.training import TRAINING_CLAIMS
from service.core.claims.words import WORD_CLAIMS

#: The right figure of each claim that has one, in the claim's unit.
RECOMPUTED: Mapping[str, Recompute] = MappingProxyType(
    {**INFERENCE_CLAIMS, **TRAINING_CLAIMS, **HARDWARE_CLAIMS, **IMPACT_CLAIMS, **WORD_CLAIMS}
)
