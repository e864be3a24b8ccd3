"""What a training framework takes beside states and activations, as measured distributions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from math import hypot

from service.core.architecture.tensors import TensorClass
from service.core.deployment import Accelerator, Deployment
from service.core.elementwise import Number
from service.core.engines import FALLBACK_ENGINE
from service.core.interval import Interval, from_log_sigma, product
from service.core.learning import Correction
from service.core.lightweight import computed_once, lightweight
from service.core.memory.training.activations import LayerMaking
from service.core.memory.training.settings import TrainingSettings
from service.core.number_formats import NumberFormat

#: What ids of calibrations begin with that hold figures of a framework.
CALIBRATIONS = "memory-training/"
#: 4-bit formats of bitsandbytes, whose layers put out what they take in.
_BNB_4_BITS = frozenset({"bnb-nf4", "bnb-nf4-single-quant"})
#: Its 8-bit format, whose layers do so, too, and keep what they take in. Source: bitsandbytes
#: bitsandbytes/autograd/_functions.py (MatMul8bitLt.forward), 2025.
_BNB_8_BITS = "bnb-int8"
_LARGEST_NARROW_BITS = 8.0
_WIDE_BITS = 32.0
#: More elements than any rank updates.
_ALL_ELEMENTS = 1e12


@lru_cache(maxsize=64)
def _wide_remainder(weights: NumberFormat) -> NumberFormat:
    """A format whose tensors that are not quantised have 32 bits."""
    return replace(weights, remainder_bits=_WIDE_BITS)


@lightweight
class FrameworkRuntime:
    """Runtime memory of one training framework, per accelerator.

    ``context_bytes`` is what driver and libraries hold outside the allocator,
    ``unified_context_bytes`` the same where the accelerator's memory is the host's [B],
    ``collectives_bytes`` what communication adds for each kind of group of accelerators [B].
    ``fragmentation_ratio`` is what the allocator reserves beyond the temporary tensors it hands out
    (``expandable_ratio`` where its segments can grow), ``activation_ratio`` these over their
    formula. ``bytes_per_logit`` is what the plain loss holds at once per logit: logits and their
    gradients in 16 and 32 bit [B]; of a framework with ``loss_part_tokens`` logits and their
    probabilities in 32 bit, and gradients of so many tokens of each sequence. With states in 32 bit
    the optimizer's step holds ``step_bytes_per_element`` beside states and gradients [B], for at
    most ``step_elements`` at once; with narrower ones as much less. How it makes layers say
    ``quantised_input_bytes``, ``joint_projections``, ``repeated_heads``, ``wide_scores``,
    ``weighs_activations`` and ``keeps_gathered``, see :class:`LayerMaking`; with
    ``narrow_operands`` it keeps operands of 8 or fewer bits as such.
    Beside a base of bitsandbytes that is whole on each rank, one that is
    ``wide_beside_quantised`` holds in 32 bit what is not quantised, and makes activations in that.
    One with a ``loss_in_kernel`` makes no logits outside the kernel of a fused loss, and one that
    ``copies_gradients`` exchanges those that are not divided in buckets beside them. Where weights
    are gathered, one that ``gathers_as_used`` lets embedding and head go while layers run. One with
    an ``own_head`` holds the matrix that makes logits beside the embedding that it is, and one with
    a ``quantised_head`` quantises it with the base of QLoRA.

    A ``flat_step`` copies gradients into flat tensors, for which the segments of activations are
    too small, so that it comes on top of them. With a ``flat_zero_step`` that is so with ZeRO 1 and
    2, of all that the rank updates at once. A framework that ``keeps_gradients`` makes room for
    all of them before the first pass; any other lets them go after each step. One with
    ``wide_tables`` keeps states of embeddings in 32 bit under optimizers of 8 bits, one with
    ``whole_scales`` divides no scales of a base of bitsandbytes, and one with
    ``whole_bucket_elements`` makes room for two buckets of as many gradients in ZeRO 2, however few
    there are. One with ``logits_of_loss`` makes those alone that the loss looks at. Sizes that
    follow from shapes are off by ``size_log_sigma``, the standard deviation of their logarithm [-],
    to which ``unmeasured_log_sigma`` adds in runs of a kind that nobody measured. Of one that was
    ``compared``, measurements bear out what is stated.
    """

    framework: str
    calibration: str
    context_bytes: Interval
    collectives_bytes: Interval
    fragmentation_ratio: Interval
    activation_ratio: Interval
    bytes_per_logit: float
    step_bytes_per_element: float
    step_elements: float
    quantised_input_bytes: float
    keeps_gradients: bool = False
    flat_step: bool = False
    wide_tables: bool = False
    whole_scales: bool = False
    whole_bucket_elements: float = 0.0
    logits_of_loss: bool = False
    narrow_operands: bool = False
    own_head: bool = False
    quantised_head: bool = False
    joint_projections: bool = False
    repeated_heads: bool = False
    wide_scores: bool = False
    weighs_activations: bool = False
    wide_beside_quantised: bool = False
    loss_in_kernel: bool = False
    copies_gradients: bool = False
    gathers_as_used: bool = False
    keeps_gathered: bool = False
    flat_zero_step: bool = False
    loss_part_tokens: float = 0.0
    compared: bool = True
    size_log_sigma: float = 0.0
    unmeasured_log_sigma: float = 0.0
    unified_context_bytes: Interval | None = None
    expandable_ratio: Interval | None = None

    def making(self, deployment: Deployment, settings: TrainingSettings) -> LayerMaking:
        """How layers are made, as far as that decides what they keep."""
        base = deployment.precision.weights
        frozen = settings.freezes_few_bits(base)
        narrow = frozen and base.bits_per_element < _LARGEST_NARROW_BITS
        return LayerMaking(
            self.quantised_input_bytes if narrow else 0.0,
            self.joint_projections,
            self.repeated_heads,
            wide_scores=self.wide_scores,
            weighs_activations=self.weighs_activations,
            keeps_inputs=frozen and base.listed_id == _BNB_8_BITS,
            keeps_gathered=self.keeps_gathered,
        )

    def widens(self, deployment: Deployment, settings: TrainingSettings) -> bool:
        """Whether what surrounds a quantised base, and activations, have 32 bits."""
        base = deployment.precision.weights.listed_id
        whole = settings.zero_stage < 3
        return (
            self.wide_beside_quantised
            and settings.freezes_few_bits(deployment.precision.weights)
            and whole
            and (base in _BNB_4_BITS or base == _BNB_8_BITS)
        )

    def widens_matrices(self, deployment: Deployment, settings: TrainingSettings) -> bool:
        """Whether a matrix that is unpacked for its gradient has 32 bits, as what goes through."""
        is_8_bit = deployment.precision.weights.listed_id == _BNB_8_BITS
        return is_8_bit and self.widens(deployment, settings)

    def as_held(self, deployment: Deployment, settings: TrainingSettings) -> Deployment:
        """The deployment with the head and what surrounds it as the framework holds them."""
        architecture, precision = deployment.architecture, deployment.precision
        if self.widens(deployment, settings):
            precision = replace(precision, weights=_wide_remainder(precision.weights))
        if self.own_head and architecture.tied_embeddings:
            head = replace(architecture.embedding[0], name="lm_head", tensor_class=TensorClass.HEAD)
            architecture = replace(
                architecture, tied_embeddings=False, head=(*architecture.head, head)
            )
        if self.quantised_head and settings.freezes_few_bits(precision.weights):
            weights = precision.weights
            classes = weights.quantised_classes | {TensorClass.HEAD}
            precision = replace(precision, weights=replace(weights, quantised_classes=classes))
        return replace(deployment, architecture=architecture, precision=precision)

    def stepping(self, settings: TrainingSettings) -> FrameworkRuntime:
        """The same with its optimizer's step as it is with settings."""
        return self._flat if self.flat_zero_step and settings.zero_stage in (1, 2) else self

    @computed_once
    def _flat(self) -> FrameworkRuntime:
        return replace(self, flat_step=True, step_elements=_ALL_ELEMENTS)

    @computed_once
    def expanding(self) -> FrameworkRuntime:
        """The same where the allocator's segments grow, as far as that is known."""
        if self.expandable_ratio is None:
            return self
        return replace(self, fragmentation_ratio=self.expandable_ratio, flat_step=False)

    @computed_once
    def unmeasured(self) -> FrameworkRuntime:
        """The same for runs of a kind that nobody measured."""
        return replace(
            self,
            size_log_sigma=hypot(self.size_log_sigma, self.unmeasured_log_sigma),
            activation_ratio=product(
                self.activation_ratio, from_log_sigma(1.0, self.unmeasured_log_sigma)
            ),
            unmeasured_log_sigma=0.0,
        )

    def context_of(self, accelerator: Accelerator) -> Interval:
        """What the driver holds for the process on an accelerator [B]."""
        unified = self.unified_context_bytes if accelerator.unified_memory else None
        return self.context_bytes if unified is None else unified

    def sized(self, size_bytes: Number) -> Interval:
        """A size that follows from shapes, as far as what is held can be off it [B]."""
        return from_log_sigma(size_bytes, self.size_log_sigma)

    def corrected(self, correction: Correction) -> FrameworkRuntime:
        """The same with what is measured corrected."""
        return replace(
            self,
            context_bytes=correction.of(self.context_bytes),
            collectives_bytes=correction.of(self.collectives_bytes),
            fragmentation_ratio=correction.of(self.fragmentation_ratio),
            activation_ratio=correction.of(self.activation_ratio),
        )


@dataclass(frozen=True, slots=True)
class TrainingOverheads:
    """Runtime memory by training framework."""

    frameworks: Mapping[str, FrameworkRuntime]

    def of(self, framework: str) -> FrameworkRuntime:
        """Figures of a framework, or the fallback's where it has none of its own."""
        return self.frameworks.get(framework) or self.frameworks[FALLBACK_ENGINE]

    def corrected(self, framework: str, correction: Correction) -> TrainingOverheads:
        """The same with the figures of a framework corrected."""
        return TrainingOverheads(
            {**self.frameworks, framework: self.of(framework).corrected(correction)}
        )
