"""What else an accelerator holds while a model trains on it: another model, its results, an engine.

References
----------
huggingface/trl trl/trainer/dpo_trainer.py and trl/experimental/gkd/gkd_trainer.py, 2025: the frozen
model's results join what the trained one's forward pass has left; Rafailov et al., DPO, 2023,
https://arxiv.org/abs/2305.18290
"""

from __future__ import annotations

from dataclasses import dataclass

from service.core.deployment import Deployment
from service.core.elementwise import Number
from service.core.lightweight import lightweight
from service.core.memory.training.settings import TrainingSettings


@dataclass(frozen=True, slots=True)
class Beside:
    """What stands beside the trained model on its accelerators.

    ``deployment`` and ``settings`` are those of a model that only computes forward, with the
    trained one's layout and micro-batches; None without one. It ``holds_weights`` of its own unless
    it is the trained one's base, and ``works_in_loss`` unless its results are all there before any
    micro-batch is trained on. ``held_bytes`` are there throughout, ``loss_bytes_per_token`` while
    the loss of a micro-batch is computed.
    """

    deployment: Deployment | None = None
    settings: TrainingSettings | None = None
    holds_weights: bool = True
    works_in_loss: bool = True
    held_bytes: Number = 0.0
    loss_bytes_per_token: Number = 0.0


@lightweight
class BesideBytes:
    """What that takes on a pipeline stage [B].

    ``held_bytes`` throughout, ``loss_bytes_per_token`` and ``passing_bytes`` of the whole
    micro-batch while its loss is computed.
    """

    held_bytes: Number = 0.0
    loss_bytes_per_token: Number = 0.0
    passing_bytes: Number = 0.0


NOTHING = Beside()
