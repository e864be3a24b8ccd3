"""The three moments of a training step at which its memory may be fullest.

At the loss everything is there that the backward pass needs, and the logits; gradients only where
an earlier micro-batch or a buffer of all of them holds them already. At the end of the backward
pass all gradients are there, and what the last layer computes with. In the optimizer's step nothing
of the micro-batch is left. Weights and optimizer states are there throughout.

References
----------
Order of operations of torch.nn.Module, torch.autograd and torch.optim in PyTorch, 2025,
https://pytorch.org/docs
"""

from __future__ import annotations

from collections.abc import Callable

from service.core.elementwise import Number, maximum, minimum, where
from service.core.interval import Interval
from service.core.lightweight import lightweight
from service.core.memory.training.runtime import FrameworkRuntime
from service.core.memory.training.settings import TrainingSettings
from service.core.memory.training.state import StageState

_FULL = 4.0  # bytes of an element in 32 bit


@lightweight
class Moments:
    """What micro-batches, gradients and the step hold beside weights and states [B].

    ``stored_bytes`` stays from the forward to the backward pass, ``logits_bytes`` is the loss,
    ``working_bytes`` the backward pass of the widest layer, all by their formulas, of which the
    framework takes ``activation_ratio``. ``late_bytes`` are gradients that come in only after the
    loss; ``step_bytes`` are temporary tensors of the optimizer's step, which come on top where they
    find no room (``flat_step``).
    """

    stored_bytes: Number
    logits_bytes: Number
    working_bytes: Number
    late_bytes: Number
    step_bytes: float
    activation_ratio: Interval
    flat_step: bool = False

    @property
    def activations(self) -> Interval:
        """Activations beyond the room that gradients have by then [B].

        Working sets are counted as far as they are not within the room of the logits, which are
        gone before.
        """
        return self._each(self._activations)

    @property
    def logits(self) -> Interval:
        """Logits and loss beyond the room that gradients have by then [B]."""
        return self._each(self._logits)

    @property
    def reused_bytes(self) -> Number:
        """Gradients that take over room of activations and logits [B]."""
        return self._reused(self.activation_ratio.value)

    @property
    def update_bytes(self) -> Number:
        """What the optimizer's step takes beyond the room of activations and logits [B]."""
        if self.flat_step:
            return self.step_bytes
        return maximum(self.step_bytes - self.activations.value - self.logits.value, 0.0)

    def _beside(self) -> Number:
        return maximum(self.working_bytes - self.logits_bytes, 0.0)

    def _reused(self, ratio: Number) -> Number:
        passing = self.stored_bytes + self.logits_bytes + self._beside() - self.working_bytes
        return minimum(self.late_bytes, ratio * passing)

    def _logits(self, ratio: Number) -> Number:
        return maximum(ratio * self.logits_bytes - self._reused(ratio), 0.0)

    def _activations(self, ratio: Number) -> Number:
        beyond = maximum(self._reused(ratio) - ratio * self.logits_bytes, 0.0)
        return ratio * (self.stored_bytes + self._beside()) - beyond

    def _each(self, size: Callable[[Number], Number]) -> Interval:
        ratio = self.activation_ratio
        return Interval(size(ratio.value), size(ratio.low), size(ratio.high))


def late_gradients(
    gradients_bytes: Number, settings: TrainingSettings, framework: FrameworkRuntime
) -> Number:
    """Gradients that are not there yet when the loss is computed [B].

    With several micro-batches those of the earlier ones are, and a framework with a buffer for all
    of them always has them.
    """
    if framework.keeps_gradients:
        return 0.0
    return where(settings.gradient_accumulation_steps > 1, 0.0, gradients_bytes)


def step_bytes(state: StageState, settings: TrainingSettings, framework: FrameworkRuntime) -> float:
    """Temporary tensors of the optimizer's step [B].

    There are none where states lie elsewhere, and are updated there. A framework whose gradients
    lie in a buffer copies parts of it, whatever the optimizer; elsewhere it is the optimizer's own
    doing, which may work in place or tensor by tensor, and find the subspace of a gradient.

    References
    ----------
    torch/optim/adam.py (_multi_tensor_adam) of PyTorch 2.6, 2025; bitsandbytes csrc/kernels.cu,
    2025; deepspeed/runtime/zero/stage3.py and ops/adam/cpu_adam.py, 2025
    """
    if settings.offload.optimizer != "none":
        return 0.0
    at_once = framework.step_elements
    if not framework.keeps_gradients:
        if settings.updates_in_place:
            return 0.0
        if settings.updates_one_by_one:
            at_once = min(at_once, state.largest_trained_elements)
    temporary = min(state.updated_elements, at_once) * (
        framework.step_bytes_per_element * settings.optimizer_state_bytes / _FULL
    )
    return max(temporary, state.projection_bytes)
