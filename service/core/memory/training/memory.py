"""Memory of a training run on its fullest accelerator, and what it keeps elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

from service.core.architecture.sharding import stage_layer_counts
from service.core.deployment import Deployment
from service.core.elementwise import Label, Number, Truth, maximum, minimum
from service.core.interval import (
    Interval,
    certainty,
    exact,
    independent_sum,
    product,
    scale,
    shift,
    shortfall,
)
from service.core.memory.fullest import fullest
from service.core.memory.inference.runtime import communicates
from service.core.memory.training.activations import (
    HALF_BYTES,
    LayerSavings,
    gathered_bytes_per_token,
    kept_by_layers,
    layer_savings,
    micro_batches_in_flight,
    stored_bytes,
    working_bytes,
)
from service.core.memory.training.micro_batch import MicroBatchRoom
from service.core.memory.training.runtime import FrameworkRuntime, TrainingOverheads
from service.core.memory.training.settings import MicroBatch, TrainingSettings
from service.core.memory.training.state import StageState, stage_state

#: Layers whose activations stay on the accelerator while the others are offloaded: the one in use
#: and the one on its way.
_RESIDENT_LAYERS = 2.0

_HALF, _FULL = 2.0, 4.0  # bytes of an element in 16 and in 32 bit


@dataclass(frozen=True, slots=True)
class TrainingMemory:
    """Memory on the fullest accelerator [B], and in host memory and on NVMe per accelerator.

    ``activations_bytes`` are what stays until the backward pass and what the backward pass of a
    layer holds beside it, as far as this is not within the room of ``logits_bytes``, whose peak is
    over before. ``update_bytes`` is what the optimizer's step holds beyond the room of both.
    ``communication_bytes`` are gathered parameters and message buffers, ``libraries_bytes`` context
    and collectives, ``unallocated_bytes`` these and fragmentation: what no tensor takes.
    ``runtime_bytes`` is ``update_bytes``, ``communication_bytes`` and ``unallocated_bytes``
    together. ``room`` is what the fullest stage leaves to micro-batches, ``rooms`` those of all
    stages that may be the fullest, the rest being the same. ``savings`` is what
    layers keep, ``without_optimizer_bytes`` the total less optimizer states, and ``parts`` are what
    a figure is the sum of. Host memory and NVMe are those of the stage that needs most of each.
    """

    deployment: Deployment
    micro_batch: MicroBatch
    settings: TrainingSettings
    framework: FrameworkRuntime
    state: StageState
    micro_batches_in_flight: Number
    weights_bytes: Interval
    gradients_bytes: Interval
    optimizer_bytes: Interval
    activations_bytes: Interval
    logits_bytes: Interval
    update_bytes: Interval
    communication_bytes: Interval
    libraries_bytes: Interval
    unallocated_bytes: Interval
    runtime_bytes: Interval
    total_bytes: Interval
    capacity_bytes: Number
    headroom_bytes: Interval
    host_bytes: Number
    nvme_bytes: Number
    stored_activations_bytes: Number
    working_bytes: Number
    savings: tuple[LayerSavings, ...]
    logits_bytes_per_token: float
    without_optimizer_bytes: Interval
    communication_parts_bytes: Mapping[str, float]
    host_parts_bytes: Mapping[str, Number]
    nvme_parts_bytes: Mapping[str, Number]
    room: MicroBatchRoom
    rooms: Mapping[str, MicroBatchRoom]

    @property
    def fits(self) -> Truth:
        """Whether the accelerator holds the whole memory."""
        return self.headroom_bytes.value >= 0.0

    @property
    def fits_certainty(self) -> Label:
        """How sure that is: "yes", "likely", "unlikely" or "no"."""
        return certainty(self.headroom_bytes)

    @property
    def shortfall_bytes(self) -> Interval:
        """Memory that is missing [B]."""
        return shortfall(self.headroom_bytes)

    @property
    def max_micro_batch_size(self) -> Interval:
        """Sequences that fit on all stages: another than the fullest may grow faster [-]."""
        sizes = [room.sequences for room in self.rooms.values()]
        return Interval(
            reduce(minimum, (each.value for each in sizes)),
            reduce(minimum, (each.low for each in sizes)),
            reduce(minimum, (each.high for each in sizes)),
        )

    @property
    def stage_sequences(self) -> Mapping[str, Number]:
        """Sequences that fit on each of the decisive stages [-]."""
        return {stage: room.sequences.value for stage, room in self.rooms.items()}

    @property
    def stored_bytes_per_token(self) -> float:
        """What all layers of the model keep for each token [B/token]."""
        return kept_by_layers(self.savings)[0]

    @property
    def stored_bytes_per_pair(self) -> float:
        """What all layers of the model keep for each pair of a sequence's tokens [B]."""
        return kept_by_layers(self.savings)[1]

    @property
    def widest_layer(self) -> LayerSavings:
        """The layer whose backward pass holds most."""
        return max(
            self.savings, key=lambda each: float(each.working_bytes(self.micro_batch.tokens))
        )


def training_memory(
    deployment: Deployment,
    micro_batch: MicroBatch,
    settings: TrainingSettings,
    overheads: TrainingOverheads,
) -> TrainingMemory:
    """Memory of a training run on its fullest accelerator [B].

    Parameters
    ----------
    deployment
        Model, number formats, accelerator and parallelism. ``precision.weights`` is what weights
        are stored in (of a frozen base, for QLoRA), ``precision.activations`` what they are
        computed in.
    micro_batch
        Sequences and tokens that a data-parallel rank computes at once; may be arrays.
    settings
        How it is trained.
    overheads
        Measured runtime memory by framework.

    References
    ----------
    Rajbhandari et al., ZeRO, 2019, https://arxiv.org/abs/1910.02054; Korthikanti et al., 2022,
    https://arxiv.org/abs/2205.05198; Ren et al., ZeRO-Offload, 2021,
    https://arxiv.org/abs/2101.06840
    """
    pipeline = deployment.parallelism.pipeline
    layers = stage_layer_counts(deployment.architecture.layer_count, pipeline)
    # Earlier stages hold more micro-batches, the deepest more layers, the last the logits.
    decisive = {0, layers.index(max(layers)), pipeline - 1}
    stages = [
        _on_stage(stage, deployment, micro_batch, settings, overheads) for stage in sorted(decisive)
    ]
    if len(stages) == 1:
        return stages[0]
    host = fullest(stages, lambda stage: stage.host_bytes)
    nvme = fullest(stages, lambda stage: stage.nvme_bytes)
    return replace(
        fullest(stages, lambda stage: stage.total_bytes.value),
        rooms={name: room for stage in stages for name, room in stage.rooms.items()},
        host_bytes=host.host_bytes,
        host_parts_bytes=host.host_parts_bytes,
        nvme_bytes=nvme.nvme_bytes,
        nvme_parts_bytes=nvme.nvme_parts_bytes,
    )


def training_stages(
    deployment: Deployment,
    micro_batch: MicroBatch,
    settings: TrainingSettings,
    overheads: TrainingOverheads,
) -> tuple[TrainingMemory, ...]:
    """Memory of every pipeline stage of a training run, each with what fits on it alone.

    Parameters and references as for :func:`training_memory`.
    """
    return tuple(
        _on_stage(stage, deployment, micro_batch, settings, overheads)
        for stage in range(deployment.parallelism.pipeline)
    )


def _on_stage(
    stage: int,
    deployment: Deployment,
    micro_batch: MicroBatch,
    settings: TrainingSettings,
    overheads: TrainingOverheads,
) -> TrainingMemory:
    architecture, parallelism = deployment.architecture, deployment.parallelism
    framework = overheads.of(settings.release)
    structural = settings.structural
    state = stage_state(architecture, deployment.precision, parallelism, structural, stage)
    element_bytes = _element_bytes(deployment)
    savings = layer_savings(
        architecture, parallelism, structural, framework.quantised_input_bytes, element_bytes
    )
    share = state.layers / architecture.layer_count
    in_flight = micro_batches_in_flight(settings, parallelism.pipeline, stage)
    context = parallelism.context

    stored = in_flight * stored_bytes(
        savings, share, micro_batch.sequences, micro_batch.tokens, context
    )
    moved: Number = 0.0
    if settings.offload.activations == "cpu":
        resident = minimum(stored, stored * _RESIDENT_LAYERS / (state.layers * in_flight))
        stored, moved = resident, stored - resident
    working = working_bytes(savings, micro_batch.sequences, micro_batch.tokens, context)
    messages, whole_gradients = _gathered_bytes(deployment, settings, state)
    gathered = sum(messages.values())
    logits_each, logits_part = _logits_bytes(deployment, settings, framework, stage)
    logits = logits_each * micro_batch.sequences * micro_batch.tokens / context + logits_part
    # The loss is over before the backward pass of the first layer begins: the larger one counts.
    backward = maximum(working + whole_gradients - logits, 0.0)
    ratio = framework.activation_ratio
    activations = scale(ratio, stored + backward)
    losses = scale(ratio, logits)
    step = min(state.updated_elements, framework.step_elements) * (
        framework.step_bytes_per_element * settings.optimizer_state_bytes / _FULL
    )
    update = maximum(step - activations.value - losses.value, 0.0)

    places = _places(state, settings)
    temporary = independent_sum((activations, losses, exact(gathered + update)))
    libraries = [framework.context_bytes]
    if communicates(parallelism) or parallelism.data > 1:
        libraries.append(framework.collectives_bytes)
    held = independent_sum(libraries)
    unallocated = independent_sum((held, product(framework.fragmentation_ratio, temporary)))

    capacity = deployment.accelerator.memory_bytes
    fixed = places.weights_bytes + places.gradients_bytes + gathered
    rest = shift(independent_sum((activations, losses, unallocated)), fixed + update)
    optimizer, host = places.optimizer_bytes, places.host_bytes | {"activations": moved}
    if settings.paged:
        # Unified memory pages optimizer states out where the accelerator has no room for them.
        kept = minimum(optimizer, maximum(capacity - rest.value, 0.0))
        optimizer, host["paged_optimizer"] = kept, places.optimizer_bytes - kept
    room = MicroBatchRoom(
        capacity_bytes=capacity - fixed - (0.0 if settings.paged else optimizer),
        libraries_bytes=held,
        communication_bytes=gathered,
        framework=framework,
        backward_bytes=(stored + working) / micro_batch.sequences,
        loss_bytes=stored / micro_batch.sequences + logits_each * micro_batch.tokens / context,
        whole_gradients_bytes=whole_gradients,
        loss_chunk_bytes=logits_part,
        update_bytes=step,
    )
    total = shift(rest, optimizer)
    headroom = Interval(capacity - total.value, capacity - total.high, capacity - total.low)
    return TrainingMemory(
        deployment=deployment,
        micro_batch=micro_batch,
        settings=settings,
        framework=framework,
        state=state,
        micro_batches_in_flight=in_flight,
        weights_bytes=exact(places.weights_bytes),
        gradients_bytes=exact(places.gradients_bytes),
        optimizer_bytes=exact(optimizer),
        activations_bytes=activations,
        logits_bytes=losses,
        update_bytes=exact(update),
        communication_bytes=exact(gathered),
        libraries_bytes=held,
        unallocated_bytes=unallocated,
        runtime_bytes=shift(unallocated, update + gathered),
        total_bytes=total,
        capacity_bytes=capacity,
        headroom_bytes=headroom,
        host_bytes=sum(host.values()),
        nvme_bytes=sum(places.nvme_bytes.values()),
        stored_activations_bytes=stored,
        working_bytes=working,
        savings=savings,
        logits_bytes_per_token=logits_each,
        without_optimizer_bytes=rest,
        communication_parts_bytes=messages,
        host_parts_bytes=host,
        nvme_parts_bytes=places.nvme_bytes,
        room=room,
        rooms={f"stage_{stage}": room},
    )


@dataclass(frozen=True, slots=True)
class _Places:
    """Where the parts of a rank's state are kept [B]."""

    weights_bytes: float
    gradients_bytes: float
    optimizer_bytes: Number
    host_bytes: dict[str, Number]
    nvme_bytes: dict[str, Number]


def _places(state: StageState, settings: TrainingSettings) -> _Places:
    """Divide a state among accelerator, host memory and NVMe.

    With an offloaded optimizer gradients follow their states as soon as they are divided (ZeRO 2
    and 3): the accelerator keeps one bucket of them.
    """
    weights, gradients, optimizer = (
        state.weights_bytes,
        state.gradients_bytes,
        state.optimizer_bytes,
    )
    host: dict[str, Number] = {}
    nvme: dict[str, Number] = {}
    away = {"cpu": host, "nvme": nvme}
    if settings.offload.optimizer != "none":
        away[settings.offload.optimizer]["optimizer"] = optimizer
        optimizer = 0.0
        if settings.zero_stage >= 2:
            host["gradients"] = gradients
            gradients = min(gradients, settings.bucket_elements * settings.gradient_bytes)
    if settings.offload.parameters != "none":
        away[settings.offload.parameters]["parameters"] = weights
        weights = 0.0
    return _Places(weights, gradients, optimizer, host, nvme)


def _element_bytes(deployment: Deployment) -> float:
    """Size of an activation: 16 bit also where products run in 8, 32 bit if computed in that."""
    return max(deployment.precision.activations.bytes_per_element, HALF_BYTES)


def _gathered_bytes(
    deployment: Deployment, settings: TrainingSettings, state: StageState
) -> tuple[dict[str, float], float]:
    """Gathered parameters and message buckets, and gradients that are whole in the backward pass.

    Fully sharded parameters are gathered for a layer and those ahead, and for what lies outside
    the layers. In a pipeline they stay gathered, and gradients whole, until the last micro-batch,
    because every micro-batch would have to gather and scatter them again.

    References
    ----------
    Zhao et al., PyTorch FSDP, 2023, sections 3.2 and 4, https://arxiv.org/abs/2304.11277;
    pytorch/torchtitan torchtitan/parallelisms, 2024 (no resharding after the forward pass in
    pipelines).
    """
    parallelism = deployment.parallelism
    computed = deployment.precision.activations
    width = min(deployment.precision.weights.bits_per_element, computed.bits_per_element) / 8.0
    messages = {}
    if settings.method == "qlora":
        messages["dequantised_matrix"] = state.largest_matrix_elements * computed.bytes_per_element
    replicas = parallelism.data * parallelism.context
    offloaded = settings.offload.parameters != "none"
    whole_gradients = 0.0
    if offloaded or (settings.zero_stage == 3 and replicas > 1):
        trained = settings.gradient_bytes * state.trainable_elements / state.elements
        if parallelism.pipeline > 1:
            messages["gathered_weights"] = state.elements * width
            messages["gathered_gradients"] = state.elements * trained
        else:
            layers = (1.0 + settings.prefetch_layers) * state.layer_elements
            messages["gathered_layers"] = layers * width
            messages["gathered_ends"] = state.end_elements * width
            whole_gradients = max(state.layer_elements, state.end_elements) * trained
    elif replicas > 1 and settings.zero_stage >= 1:
        bucket = min(settings.bucket_elements, state.trainable_elements)
        each = 2.0 + (settings.gradient_bytes if settings.zero_stage == 2 else 0.0)
        messages["buckets"] = bucket * each
    return messages, whole_gradients


def _logits_bytes(
    deployment: Deployment, settings: TrainingSettings, framework: FrameworkRuntime, stage: int
) -> tuple[float, float]:
    """Bytes per token of logits and their gradients, and bytes that do not depend on tokens.

    References
    ----------
    Hsu et al., Liger Kernel, 2024, https://arxiv.org/abs/2410.10989 (fused linear cross-entropy);
    Wijmans et al., Cut Your Losses in Large-Vocabulary Language Models, 2024,
    https://arxiv.org/abs/2411.09009
    """
    parallelism = deployment.parallelism
    if stage != parallelism.pipeline - 1:
        return 0.0, 0.0
    vocabulary = deployment.architecture.vocab_size / parallelism.tensor
    gathered = gathered_bytes_per_token(
        deployment.architecture, parallelism, settings, _element_bytes(deployment)
    )
    part = vocabulary * settings.cross_entropy_chunk_tokens * framework.bytes_per_logit
    match settings.cross_entropy:
        case "plain":
            return vocabulary * framework.bytes_per_logit + gathered, 0.0
        case "half-precision":
            # Logits, their shifted copy, log-probabilities and the gradient.
            return vocabulary * 4.0 * _HALF + gathered, 0.0
        case "chunked":
            # All logits in 16 bit with their gradients; only parts go through 32 bit.
            return vocabulary * 4.0 + gathered, part
        case "fused":
            return gathered, part
