"""What kinds of runs measurements of training memory are of: others are less well known.

Formulas of all kinds follow from papers and from the code of frameworks. What nobody measured
may hold something besides that no formula knows: its range is as wide as frameworks lie apart.
"""

from __future__ import annotations

from service.core.deployment import Deployment
from service.core.memory.training.beside import NOTHING, Beside
from service.core.memory.training.settings import Adapter, Optimizer, TrainingSettings

_ADAPTERS: frozenset[Adapter] = frozenset({"lora", "rslora"})
_OPTIMIZERS: frozenset[Optimizer] = frozenset(
    {"adamw", "adamw-8bit", "paged-adamw", "paged-adamw-8bit"}
)
_HALF_BITS = 16.0
_LARGEST_QUANTISED_BITS = 8.0


def is_measured(deployment: Deployment, settings: TrainingSettings, beside: Beside) -> bool:
    """Whether a run is of a kind whose memory somebody published.

    Such runs train a dense model in 16 bits or more, whole or by LoRA (a base of 4 bits on one rank
    only), with Adam whose states stay on the accelerator, and with nothing beside the model.

    Parameters
    ----------
    deployment, settings
        What is trained, on what, and how.
    beside
        What stands beside the model.
    """
    adapts = settings.method != "full"
    base = deployment.precision.weights
    quantised = settings.freezes_few_bits(base)
    divided_base = quantised and (
        settings.zero_stage > 0 or base.bits_per_element >= _LARGEST_QUANTISED_BITS
    )
    away = settings.offload.optimizer != "none" or settings.offload.parameters != "none"
    narrow = deployment.precision.activations.bits_per_element < _HALF_BITS
    return not (
        (adapts and settings.adapter not in _ADAPTERS)
        or settings.optimizer not in _OPTIMIZERS
        or divided_base
        or away
        or narrow
        or deployment.architecture.routes
        or beside is not NOTHING
    )
