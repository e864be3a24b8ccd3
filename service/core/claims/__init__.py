"""Figures that circulate about memory, speed and impact of language models, computed again."""

from __future__ import annotations

from service.core.claims.claim import Claim
from service.core.claims.hardware import HARDWARE_CLAIMS
from service.core.claims.impact import IMPACT_CLAIMS
from service.core.claims.inference import INFERENCE_CLAIMS
from service.core.claims.training import TRAINING_CLAIMS

#: All claims, by subject.
CLAIMS: tuple[Claim, ...] = (
    *INFERENCE_CLAIMS,
    *TRAINING_CLAIMS,
    *HARDWARE_CLAIMS,
    *IMPACT_CLAIMS,
)
