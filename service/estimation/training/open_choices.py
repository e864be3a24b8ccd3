"""What a request leaves open that decides how fast a run is: ranges that reach over it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from statistics import NormalDist

from service.core.engines import FALLBACK_ENGINE
from service.core.estimate.training import TrainingSpeed, TrainingSpeedSetup, reaching
from service.core.explanation import EstimateWarning
from service.core.interval import Z_90
from service.core.memory.training.memory import TrainingMemory
from service.core.memory.training.settings import TrainingSettings
from service.core.otherwise import RARE_RATIO, Other
from service.estimation.training.batches import assumes_steps
from service.estimation.training.memory import CHOICES, told_by
from service.estimation.training.requests import TrainingRequest
from service.estimation.training.untold import EXPERTS_HIDE, can_hide_experts

#: Other choices are told from so many times the speed on: less lies within intervals.
_WORTH_TELLING = 1.05
_WORTH_TELLING_OF_BATCHES = 1.25
#: Sequences of a micro-batch that are tried at most.
_MOST_SEQUENCES = 64
#: How many runs have so many times the usual sequences, or still fewer or more [-]. Of the sources
#: of training in hardware_catalog/measurements it is 9 % if the framework is known and 22 % if not,
#: 33 % and 15 %, 2026.
_SMALLER = ((0.5, 0.2),)
_LARGER = ((2.0, 0.33), (4.0, 0.15))
#: A run that does not fit was run otherwise in any case [-].
_WITHOUT_THAT_NONE = 1.0
_BATCH, _SCHEDULE = "micro_batch_size", "pipeline_schedule"
#: Of pipelines whose schedule nobody tells, others than the usual one that are in use [-]: those
#: of Megatron-DeepSpeed, DeepSpeed and torchtitan unless told, beside those of Megatron-LM.
_OTHER_SCHEDULE = 0.33
#: Of pipelines that send tokens to experts beyond fast links, those that hide it behind computation
#: of another micro-batch, and as many that do not [-]: DeepSeek-V3 (DualPipe) and half of NVIDIA's
#: recipes on Hopper do.
#: Source: DeepSeek-AI, DeepSeek-V3 Technical Report, 2024, section 3.2.1; NVIDIA, Megatron Bridge,
#: recipes for performance (overlap_moe_expert_parallel_comm), 2025.
_OTHER_OVERLAP = 0.5
_STEPS = "gradient_accumulation_steps"
#: So many times the micro-batches that are assumed for a pipeline, or still fewer, and how many
#: runs have them [-]: 15 % where each of eight sources of the same counts once. 8 % have four times
#: as many or more, which would move no end of a range.
_FEWER_STEPS, _OF_FEWER_STEPS = 0.25, 0.15


def with_open_choices(
    speed: TrainingSpeed, request: TrainingRequest, memory: TrainingMemory
) -> TrainingSpeed:
    """A speed whose range reaches over micro-batches and ways to fit that nobody told.

    Others take fewer sequences than people usually do, or more, as far as they may fit. A run
    that does not fit as it is taken to be was run otherwise: with layers recomputed or, where
    nothing says by which framework, with states and weights divided. As many as may lack memory,
    though they fit by the estimate, recompute layers.

    Parameters
    ----------
    speed
        The speed of a run with a usual micro-batch where no other was asked for.
    request, memory
        What was asked, and the memory that it takes.
    """
    setup, asked = speed.setup, request.training
    others: dict[str, list[Other[TrainingSpeedSetup]]] = {}
    if asked.micro_batch_size is None and asked.sequence_lengths is None:
        shares = asked.global_batch_size is not None or asked.global_batch_tokens is not None
        batches = [
            Other(other, share)
            for number, share in _other_batches(memory)
            if (other := _in_batches(setup, number, shares=shares)) is not None
        ]
        if batches:
            others[_BATCH] = batches
    if assumes_steps(asked, float(setup.settings.gradient_accumulation_steps)):
        others[_STEPS] = [Other(_in_steps(setup, _FEWER_STEPS), _OF_FEWER_STEPS)]
    schedules = list(_other_schedules(setup, request))
    if schedules:
        others[_SCHEDULE] = schedules
    hidden = _hidden_otherwise(setup, request)
    if hidden is not None:
        others[EXPERTS_HIDE] = [Other(replace(setup, settings=hidden), _OTHER_OVERLAP)]
    lacking = _may_lack(memory)
    if lacking > RARE_RATIO:
        for name, recomputing in _recomputing(setup, request):
            others[name] = [Other(replace(setup, settings=recomputing), lacking)]
    if memory.fits_certainty == "no":
        for name, settings in _fitting(setup, request):
            others[name] = [Other(replace(setup, settings=settings), _WITHOUT_THAT_NONE)]
    return reaching(speed, others)


def _other_schedules(
    setup: TrainingSpeedSetup, request: TrainingRequest
) -> Iterator[Other[TrainingSpeedSetup]]:
    """The same pipeline by the other common schedule, where nothing says by which."""
    settings, asked = setup.settings, request.training
    stages = setup.deployment.parallelism.pipeline
    told = asked.pipeline_schedule or asked.virtual_stages or asked.framework
    if stages == 1 or told or settings.pipeline_schedule != "interleaved":
        return
    plain = replace(settings, pipeline_schedule="1f1b", virtual_stages=1)
    yield Other(replace(setup, settings=plain), _OTHER_SCHEDULE)


def _hidden_otherwise(
    setup: TrainingSpeedSetup, request: TrainingRequest
) -> TrainingSettings | None:
    """Settings whose messages to experts hide, or do not, if nobody told; None where none can.

    Who hides them recomputes no whole layers: a run that is taken to recompute them so as to fit
    may recompute modules instead.
    """
    asked, settings = request.training, setup.settings
    hides = settings.expert_overlap_ratio is None
    if hides and asked.activation_checkpointing is None:
        kept = settings.activation_checkpointing
        settings = replace(
            settings, activation_checkpointing="selective-modules" if kept == "full" else kept
        )
    layout = (setup.deployment.accelerator, setup.deployment.parallelism)
    if asked.expert_overlap_ratio is not None or not can_hide_experts(settings, *layout):
        return None
    return replace(settings, expert_overlap_ratio=1.0 if hides else None)


def _in_batches(
    setup: TrainingSpeedSetup, sequences: float, *, shares: bool
) -> TrainingSpeedSetup | None:
    """The same run in other micro-batches; None if they do not share its step's sequences."""
    batch, settings = setup.micro_batch, setup.settings
    if shares:
        steps = float(settings.gradient_accumulation_steps * batch.sequences) / sequences
        if steps < 1.0 or steps % 1.0:
            return None
        settings = replace(settings, gradient_accumulation_steps=steps)
    return replace(setup, micro_batch=replace(batch, sequences=sequences), settings=settings)


def _in_steps(setup: TrainingSpeedSetup, times: float) -> TrainingSpeedSetup:
    """The same run with so many times the micro-batches a step, in whole rounds of a pipeline."""
    stages = setup.deployment.parallelism.pipeline
    each = max(round(float(setup.settings.gradient_accumulation_steps) * times / stages), 1)
    settings = replace(setup.settings, gradient_accumulation_steps=float(each * stages))
    return replace(setup, settings=settings)


def _other_batches(memory: TrainingMemory) -> Iterator[tuple[float, float]]:
    """Sequences of other micro-batches, each with how many runs have it or one further off [-]."""
    taken = float(memory.micro_batch.sequences)
    for times, share in _SMALLER:
        if taken * times >= 1.0:
            yield float(int(taken * times)), share
    most = min(float(memory.max_micro_batch_size.high), _MOST_SEQUENCES)
    for times, share in _LARGER:
        if taken * times <= most:
            yield taken * times, share


def _may_lack(memory: TrainingMemory) -> float:
    """How many runs that fit by the estimate lack memory, as far as it may be off [-]."""
    headroom = memory.headroom_bytes
    if not memory.fits or headroom.low >= 0.0:
        return 0.0
    return NormalDist().cdf(-Z_90 * float(headroom.value / (headroom.value - headroom.low)))


def _recomputing(
    setup: TrainingSpeedSetup, request: TrainingRequest
) -> Iterator[tuple[str, TrainingSettings]]:
    """Settings of the same run that recomputes layers, where nobody told what is recomputed."""
    settings = setup.settings
    none = settings.activation_checkpointing == "none"
    if request.training.activation_checkpointing is None and none:
        yield "activation_checkpointing", replace(settings, activation_checkpointing="full")


def _fitting(
    setup: TrainingSpeedSetup, request: TrainingRequest
) -> Iterator[tuple[str, TrainingSettings]]:
    """Settings of the same run by which more fits, of what nobody told."""
    asked, settings = request.training, setup.settings
    parallelism = setup.deployment.parallelism
    if asked.activation_checkpointing is None and settings.activation_checkpointing != "full":
        yield "activation_checkpointing", replace(settings, activation_checkpointing="full")
    divisible = parallelism.data * parallelism.context > 1 and parallelism.pipeline == 1
    if asked.zero_stage is None and divisible and settings.framework == FALLBACK_ENGINE:
        yield "zero_stage", replace(settings, zero_stage=3)


def speed_warnings(speed: TrainingSpeed) -> Iterator[EstimateWarning]:
    """What to say about choices that nobody told and that speed depends on."""
    usual = float(speed.step.step_s)
    for name, times in speed.otherwise_s.items():
        ratios = [usual / float(one.found) for one in times]
        ratio = max(ratios, key=lambda one: max(one, 1.0 / one))
        least = _WORTH_TELLING_OF_BATCHES if name == _BATCH else _WORTH_TELLING
        if max(ratio, 1.0 / ratio) >= least:
            yield EstimateWarning(
                "speed_left_open",
                f"the request does not say {CHOICES[name]}: with another common choice the run has "
                f"{ratio:.2f} times the speed. The range covers both; state it to narrow the range",
                about=told_by(name),
            )
