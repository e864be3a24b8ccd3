"""Memory of a training run on its fullest accelerator, and what it keeps elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, replace
from functools import reduce
from math import inf

from numpy import ndarray

from service.core.architecture.sharding import stage_layers
from service.core.deployment import Deployment
from service.core.elementwise import Label, Number, Truth, both, floor, label, maximum, minimum
from service.core.interval import (
    Interval,
    certainty,
    exact,
    independent_sum,
    product,
    scale,
    shift,
    shortfall,
    without,
)
from service.core.lightweight import lightweight
from service.core.memory.fullest import fullest
from service.core.memory.training.activations import LayerSavings, layer_savings
from service.core.memory.training.adapted_weights import adapted_weights_bytes
from service.core.memory.training.adapters import virtual_tokens
from service.core.memory.training.beside import NOTHING, Beside, BesideBytes
from service.core.memory.training.buffers import (
    gathered_bytes,
    kinds_of_groups,
    logits_bytes,
    reduces_apart,
    result_bytes,
)
from service.core.memory.training.choices import SIZES, others_of
from service.core.memory.training.kept import (
    kept_by_layers,
    micro_batches_in_flight,
    stored_bytes,
    working_bytes,
)
from service.core.memory.training.measured import is_measured
from service.core.memory.training.micro_batch import MicroBatchRoom
from service.core.memory.training.moments import Moments, late_gradients, step_bytes
from service.core.memory.training.narrowed import input_bytes, narrow_bytes, narrowed_weights_bytes
from service.core.memory.training.places import paged_total, places_of
from service.core.memory.training.runtime import FrameworkRuntime, TrainingOverheads
from service.core.memory.training.settings import LeftOpen, MicroBatch, TrainingSettings
from service.core.memory.training.state import StageState, stage_state
from service.core.otherwise import reaching, reaching_figures

#: Layers whose activations stay while others are offloaded: the one in use and the one on its way.
_RESIDENT_LAYERS = 2.0


@lightweight
class TrainingMemory:
    """Memory on the fullest accelerator [B], and in host memory and on NVMe per accelerator.

    Parts add up to the fullest moment of a step: ``activations_bytes`` and ``logits_bytes`` are
    what micro-batches take beyond the room that gradients have at the end (see `Moments`), and
    ``update_bytes`` is what the optimizer's step takes beyond the room of both. ``reused_bytes``
    are gradients that the allocator holds apart although they could have taken over that room.
    ``communication_bytes`` are gathered parameters and message buffers, ``libraries_bytes`` context
    and collectives, ``unallocated_bytes`` these and fragmentation: what no tensor takes.
    ``usable_bytes`` of the capacity need not stay free. ``runtime_bytes`` is ``update_bytes``,
    ``communication_bytes`` and ``unallocated_bytes`` together. ``room`` is what the fullest stage
    leaves to micro-batches, ``rooms`` those of all stages that may be the fullest, the rest being
    the same. ``savings`` is what layers keep, ``without_optimizer_bytes`` the total less optimizer
    states, and ``parts`` are what a figure is the sum of; ``beside`` is what stands beside the
    model, part of weights and logits. Host memory, NVMe and the memory tier are those of the stage
    that needs most of each. ``otherwise`` is the same run by other outcomes of choices left open,
    over which intervals reach.
    """

    deployment: Deployment
    micro_batch: MicroBatch
    settings: TrainingSettings
    framework: FrameworkRuntime
    state: StageState
    moments: Moments
    kinds_of_groups_count: int
    context_bytes: Interval
    micro_batches_in_flight: Number
    weights_bytes: Interval
    gradients_bytes: Interval
    optimizer_bytes: Interval
    activations_bytes: Interval
    logits_bytes: Interval
    update_bytes: Interval
    reused_bytes: Number
    communication_bytes: Interval
    libraries_bytes: Interval
    unallocated_bytes: Interval
    runtime_bytes: Interval
    total_bytes: Interval
    capacity_bytes: Number
    usable_bytes: Number
    headroom_bytes: Interval
    host_bytes: Number
    nvme_bytes: Number
    tier_bytes: Number
    stored_activations_bytes: Number
    working_bytes: Number
    savings: tuple[LayerSavings, ...]
    logits_bytes_per_token: Number
    without_optimizer_bytes: Interval
    communication_parts_bytes: Mapping[str, float]
    host_parts_bytes: Mapping[str, Number]
    nvme_parts_bytes: Mapping[str, Number]
    tier_parts_bytes: Mapping[str, Number]
    beside: BesideBytes
    room: MicroBatchRoom
    rooms: Mapping[str, MicroBatchRoom]
    otherwise: Mapping[LeftOpen, tuple[TrainingMemory, ...]] = field(default_factory=dict)

    @property
    def fits(self) -> Truth:
        """Whether the accelerator holds the whole memory, and the host what is kept there."""
        return both(self.headroom_bytes.value >= 0.0, self.others_suffice)

    @property
    def host_suffices(self) -> Truth:
        """Whether the host holds what is kept there; it does where nobody says what it has."""
        most = self.settings.offload.host_memory_bytes
        return self.host_bytes <= (inf if most is None else most)

    @property
    def tier_suffices(self) -> Truth:
        """Whether the accelerator's share of the memory tier holds what is kept there."""
        tier = self.settings.offload.tier
        return self.tier_bytes <= (inf if tier is None else tier.capacity_bytes)

    @property
    def others_suffice(self) -> Truth:
        """Whether host and memory tier hold what is kept there."""
        return both(self.host_suffices, self.tier_suffices)

    @property
    def fits_certainty(self) -> Label:
        """How sure that is: "yes", "likely", "unlikely" or "no"."""
        return label(self.others_suffice, certainty(self.headroom_bytes), "no")

    @property
    def allocated_bytes(self) -> Interval:
        """What tensors take at the peak, by the allocator of the framework [B].

        Paged states lie in memory of the driver.
        """
        paged = self.optimizer_bytes.value if self.settings.paged else 0.0
        return without(self.total_bytes, shift(self.unallocated_bytes, self.reused_bytes + paged))

    @property
    def reserved_bytes(self) -> Interval:
        """What the allocator of the framework takes from the driver [B]."""
        paged = self.optimizer_bytes.value if self.settings.paged else 0.0
        return shift(without(self.total_bytes, self.libraries_bytes), -paged)

    @property
    def shortfall_bytes(self) -> Interval:
        """Memory that is missing [B]."""
        return shortfall(self.headroom_bytes)

    @property
    def max_micro_batch_size(self) -> Interval:
        """Sequences that fit on all stages: another than the fullest may grow faster [-]."""
        sizes = [room.sequences for room in self.rooms.values()]
        most = Interval(
            reduce(minimum, (each.value for each in sizes)),
            reduce(minimum, (each.low for each in sizes)),
            reduce(minimum, (each.high for each in sizes)),
        )
        others = others_of(self.otherwise)
        found = reaching(most, [one.then(lambda each: each.max_micro_batch_size) for one in others])
        return Interval(found.value, floor(found.low), floor(found.high))

    @property
    def paged_bytes(self) -> Number:
        """Optimizer states that find no room and are paged out to the host [B]."""
        return self.host_parts_bytes.get("paged_optimizer", 0.0)

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
    beside: Beside = NOTHING,
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
    beside
        What else the accelerators hold.

    References
    ----------
    Rajbhandari et al., ZeRO, 2019, https://arxiv.org/abs/1910.02054; Korthikanti et al., 2022,
    https://arxiv.org/abs/2205.05198; Ren et al., ZeRO-Offload, 2021,
    https://arxiv.org/abs/2101.06840
    """
    found = usual_memory(deployment, micro_batch, settings, overheads, beside)
    weights = deployment.precision.weights
    others = {}
    # What does not fit is not chosen instead of what does, nor of what takes less; of several runs
    # at once each choice counts.
    alone, total = found.fits.__class__ is not ndarray, found.total_bytes.value
    fits_alone = alone and bool(found.fits)
    for choice in settings.left_open:
        if choice.is_open(settings, weights):
            held = choice.deployed(deployment)
            ways = settings.otherwise(choice)
            by_others = (usual_memory(held, micro_batch, one, overheads, beside) for one in ways)
            decides = choice.to_fit or fits_alone
            others[choice] = tuple(
                one
                for one in by_others
                if not (decides or (alone and one.total_bytes.value > total)) or one.fits
            )
    others = {choice: by_others for choice, by_others in others.items() if by_others}
    if not others:
        return found
    spread = reaching_figures(found, others_of(others), SIZES)
    room = _headroom(found.usable_bytes, spread["total_bytes"])
    return replace(found, otherwise=others, headroom_bytes=room, **spread)


def _headroom(usable: Number, total: Interval) -> Interval:
    return Interval(usable - total.value, usable - total.high, usable - total.low)


def usual_memory(
    deployment: Deployment,
    micro_batch: MicroBatch,
    settings: TrainingSettings,
    overheads: TrainingOverheads,
    beside: Beside = NOTHING,
) -> TrainingMemory:
    """The same by its very settings alone: values, without what intervals reach over [B]."""
    if deployment.accelerator.unified_memory:
        # The host's memory is its own: states cannot be paged out to it.
        settings = settings.kept_whole
    pipeline = deployment.parallelism.pipeline
    layers = stage_layers(deployment.architecture, deployment.parallelism)
    # Earlier stages hold more micro-batches, the deepest more layers, the last the logits.
    decisive = {0, layers.index(max(layers)), pipeline - 1}
    stages = [
        _on_stage(stage, deployment, micro_batch, settings, overheads, beside)
        for stage in sorted(decisive)
    ]
    if len(stages) == 1:
        return stages[0]
    host = fullest(stages, lambda stage: stage.host_bytes)
    nvme = fullest(stages, lambda stage: stage.nvme_bytes)
    tier = fullest(stages, lambda stage: stage.tier_bytes)
    return replace(
        fullest(stages, lambda stage: stage.total_bytes.value),
        rooms={name: room for stage in stages for name, room in stage.rooms.items()},
        host_bytes=host.host_bytes,
        host_parts_bytes=host.host_parts_bytes,
        nvme_bytes=nvme.nvme_bytes,
        nvme_parts_bytes=nvme.nvme_parts_bytes,
        tier_bytes=tier.tier_bytes,
        tier_parts_bytes=tier.tier_parts_bytes,
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
    beside: Beside = NOTHING,
) -> TrainingMemory:
    framework = overheads.of(settings.release).stepping(settings)
    if settings.expandable_segments:
        framework = framework.expanding
    if not is_measured(deployment, settings, beside):
        framework = framework.unmeasured
    deployment = framework.as_held(deployment, settings)
    architecture, parallelism = deployment.architecture, deployment.parallelism
    structural = settings.structural
    micro_batch = replace(micro_batch, tokens=micro_batch.tokens + virtual_tokens(settings))
    state = stage_state(
        architecture,
        deployment.precision,
        parallelism,
        structural,
        stage,
        wide_tables=framework.wide_tables,
        whole_scales=framework.whole_scales,
    )
    element_bytes = result_bytes(deployment, wide=framework.widens(deployment, settings))
    making = framework.making(deployment, settings)
    narrow = narrow_bytes(deployment, settings) if framework.narrow_operands else None
    if narrow is not None:
        making = replace(making, input_bytes=input_bytes(narrow, settings.scaling))
    savings = layer_savings(architecture, parallelism.of_layers, structural, making, element_bytes)
    share = state.layers / architecture.layer_count
    in_flight = micro_batches_in_flight(settings, parallelism.pipeline, stage)
    context = parallelism.context

    stored = in_flight * stored_bytes(
        savings, share, micro_batch.sequences, micro_batch.tokens, context
    )
    moved: Number = 0.0
    if settings.offload.activations != "none":
        resident = minimum(stored, stored * _RESIDENT_LAYERS / (state.layers * in_flight))
        stored, moved = resident, stored - resident
    working = working_bytes(savings, micro_batch.sequences, micro_batch.tokens, context)
    messages, whole_gradients = gathered_bytes(deployment, settings, framework, state)
    if narrow is not None:
        messages["narrowed_weights"] = narrowed_weights_bytes(
            architecture, parallelism.of_layers, structural, deployment, share
        )
    messages |= adapted_weights_bytes(deployment, structural, state.layers, element_bytes)
    gathered = sum(messages.values())
    own_each, own_part = logits_bytes(deployment, settings, framework, state, micro_batch.tokens)
    guest = _beside(stage, beside, micro_batch, overheads, context)
    logits_each = own_each + guest.loss_bytes_per_token
    logits_part = own_part + guest.passing_bytes
    logits = logits_each * micro_batch.sequences * micro_batch.tokens / context + logits_part
    places = places_of(state, settings)
    late = late_gradients(places.gradients_bytes, settings, framework)
    step = step_bytes(state, settings, framework)
    moments = Moments(
        stored_bytes=stored,
        logits_bytes=logits,
        working_bytes=working + whole_gradients,
        late_bytes=late,
        step_bytes=step,
        activation_ratio=framework.activation_ratio,
        flat_step=framework.flat_step,
    )
    reused: Number = 0.0
    if reduces_apart(settings, parallelism):
        reused, moments = moments.reused_bytes, replace(moments, late_bytes=0.0)
    activations, losses, update = moments.activations, moments.logits, moments.update_bytes

    temporary = independent_sum((activations, losses, exact(gathered + update)))
    groups = kinds_of_groups(parallelism, settings)
    context_bytes = framework.context_of(deployment.accelerator)
    held = independent_sum((context_bytes, scale(framework.collectives_bytes, groups)))
    unallocated = independent_sum((held, product(framework.fragmentation_ratio, temporary)))

    capacity = deployment.accelerator.memory_bytes
    usable = capacity * (1.0 - settings.memory_reserve_ratio)
    weights = places.weights_bytes + guest.held_bytes
    fixed = weights + places.gradients_bytes + gathered
    around = (activations, losses, unallocated)
    rest = independent_sum((framework.sized(fixed + update), *around))
    kept, away = places.optimizer_bytes, places.away_bytes
    away[settings.offload.activations]["activations"] = moved
    host = away["cpu"]
    if settings.paged:
        # Unified memory pages optimizer states out where the accelerator has no room for them.
        kept = minimum(kept, maximum(usable - rest.value, 0.0))
        host["paged_optimizer"] = places.optimizer_bytes - kept
    on_top = step if framework.flat_step else 0.0
    room = MicroBatchRoom(
        capacity_bytes=usable - fixed - on_top - (0.0 if settings.paged else kept),
        libraries_bytes=held,
        communication_bytes=gathered + on_top,
        framework=framework,
        backward_bytes=(stored + working) / micro_batch.sequences,
        loss_bytes=stored / micro_batch.sequences + logits_each * micro_batch.tokens / context,
        working_bytes=working / micro_batch.sequences,
        whole_gradients_bytes=whole_gradients,
        loss_chunk_bytes=logits_part,
        late_bytes=moments.late_bytes,
        update_bytes=step - on_top,
    )
    total = independent_sum((framework.sized(fixed + update + kept), *around))
    if settings.paged:
        total = paged_total(total, rest, usable)
    return TrainingMemory(
        moments=moments,
        kinds_of_groups_count=groups,
        context_bytes=context_bytes,
        deployment=deployment,
        micro_batch=micro_batch,
        settings=settings,
        framework=framework,
        state=state,
        micro_batches_in_flight=in_flight,
        weights_bytes=framework.sized(weights),
        gradients_bytes=framework.sized(places.gradients_bytes),
        optimizer_bytes=framework.sized(kept),
        activations_bytes=activations,
        logits_bytes=losses,
        update_bytes=exact(update),
        reused_bytes=reused,
        communication_bytes=exact(gathered),
        libraries_bytes=held,
        unallocated_bytes=unallocated,
        runtime_bytes=shift(unallocated, update + gathered),
        total_bytes=total,
        capacity_bytes=capacity,
        usable_bytes=usable,
        headroom_bytes=_headroom(usable, total),
        host_bytes=sum(host.values()),
        nvme_bytes=sum(away["nvme"].values()),
        tier_bytes=sum(away["tier"].values()),
        stored_activations_bytes=stored,
        working_bytes=working,
        savings=savings,
        logits_bytes_per_token=logits_each,
        without_optimizer_bytes=rest,
        communication_parts_bytes=messages,
        host_parts_bytes=host,
        nvme_parts_bytes=away["nvme"],
        tier_parts_bytes=away["tier"],
        beside=guest,
        room=room,
        rooms={f"stage_{stage}": room},
    )


def _beside(
    stage: int,
    beside: Beside,
    micro_batch: MicroBatch,
    overheads: TrainingOverheads,
    context: int,
) -> BesideBytes:
    """What stands beside the model on a stage; a frozen one works on the same micro-batches.

    Its widest layer is gone when its logits are there.
    """
    deployment, settings = beside.deployment, beside.settings
    each = beside.loss_bytes_per_token
    if deployment is None or settings is None:
        return BesideBytes(beside.held_bytes, each)
    frozen = _on_stage(stage, deployment, micro_batch, settings, overheads)
    tokens = micro_batch.sequences * micro_batch.tokens / context
    held = beside.held_bytes + (frozen.state.weights_bytes if beside.holds_weights else 0.0)
    if not beside.works_in_loss:
        return BesideBytes(held, each)
    return BesideBytes(
        held_bytes=held,
        loss_bytes_per_token=each
        + maximum(frozen.logits_bytes_per_token, frozen.working_bytes / tokens),
        passing_bytes=frozen.room.loss_chunk_bytes + sum(frozen.communication_parts_bytes.values()),
    )
