"""What kinds of runs measurements of training memory are of: others are less well known.

Formulas of the others follow from papers and from the code of frameworks alike. What nobody
measured may still hold what nobody has read of, as far as frameworks differ from each other.
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


def is_measured(deployment: Deployment, settings: TrainingSettings, beside: Beside) -> bool:
    """Whether a run is of a kind whose memory somebody published.

    That are dense models in 16 bit and more, trained whole or by LoRA, on a quantised base by one
    rank alone, with Adam, with states where they are used, and with nothing beside.

    Parameters
    ----------
    deployment, settings
        What is trained, on what, and how.
    beside
        What stands beside the model.
    """
    adapts = settings.method != "full"
    divided_base = settings.method == "qlora" and settings.zero_stage > 0
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
