"""The largest micro-batch that a pipeline stage has room for."""

from __future__ import annotations

from service.core.elementwise import Number, floor, maximum, minimum, where
from service.core.interval import Interval
from service.core.lightweight import lightweight
from service.core.memory.training.runtime import FrameworkRuntime


@lightweight
class MicroBatchRoom:
    """What a stage has left for temporary tensors, and what these take [B].

    ``capacity_bytes`` is what weights, gradients, optimizer states and messages leave of the
    accelerator. Each sequence takes ``backward_bytes`` as the backward pass begins,
    ``working_bytes`` as it ends and ``loss_bytes`` in the loss, which take
    ``whole_gradients_bytes`` and ``loss_chunk_bytes`` in any case; until it ends, ``late_bytes`` of
    gradients are not there yet. ``update_bytes`` is what the optimizer's step takes.
    """

    capacity_bytes: Number
    libraries_bytes: Interval
    communication_bytes: float
    framework: FrameworkRuntime
    backward_bytes: Number
    loss_bytes: Number
    working_bytes: Number
    whole_gradients_bytes: float
    loss_chunk_bytes: Number
    late_bytes: Number
    update_bytes: float

    @property
    def room_bytes(self) -> Number:
        """Room for temporary tensors beside libraries and fragmentation [B]."""
        return self._room(self.libraries_bytes.value, self.framework.fragmentation_ratio.value)

    @property
    def sequences(self) -> Interval:
        """Sequences that fit; the ends take all that is uncertain at its ends [-]."""
        held = self.libraries_bytes
        slack, ratio = self.framework.fragmentation_ratio, self.framework.activation_ratio
        return Interval(
            self._most(held.value, slack.value, ratio.value),
            self._most(held.high, slack.high, ratio.high),
            self._most(held.low, slack.low, ratio.low),
        )

    def _room(self, held: Number, fragmentation: Number) -> Number:
        left = self.capacity_bytes - held - self.communication_bytes * fragmentation
        return left / (1.0 + fragmentation)

    def _most(self, held: Number, fragmentation: Number, ratio: Number) -> Number:
        room = self._room(held, fragmentation)
        early = (room + self.late_bytes) / ratio
        fitting = minimum(
            minimum(
                (early - self.whole_gradients_bytes) / self.backward_bytes,
                (early - self.loss_chunk_bytes) / self.loss_bytes,
            ),
            (room / ratio - self.whole_gradients_bytes) / self.working_bytes,
        )
        return where(room >= self.update_bytes, maximum(floor(fitting), 0.0), 0.0)
