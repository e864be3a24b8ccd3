"""Distillation and DPO: a training step beside forward passes of a model that stays as it is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Deployment
from service.core.elementwise import Number
from service.core.estimate.composition import Phase, forward_speed, sent_s
from service.core.estimate.training import TrainingSpeed, TrainingSpeedSetup
from service.core.explanation import EstimateWarning
from service.core.interval import exact
from service.core.memory.training.beside import NOTHING, Beside
from service.core.memory.training.memory import TrainingMemory, training_memory
from service.core.memory.training.settings import MicroBatch, TrainingSettings
from service.estimation.post_training.answers import PoolMemory
from service.estimation.post_training.parts import (
    TEACHER,
    TRAINING,
    Parts,
    Pooled,
    Prepared,
    Run,
    below,
    memory_of,
    phase_of,
    pool_of,
    training_pool,
)
from service.estimation.post_training.requests import (
    DpoRequest,
    RewardModelRequest,
    TeacherRequest,
)
from service.estimation.rejection import Rejected
from service.estimation.requests import ParallelismRequest
from service.estimation.resolution import Problems
from service.estimation.training.calibrations import TrainingFigures
from service.estimation.training.requests import TrainingRequest, TrainingSettingsRequest
from service.estimation.training.resolve import resolve_training
from service.estimation.training.setup import ResolvedTraining
from service.estimation.training.speed import resolved_speed

#: Bytes of a logit or log-probability that is sent or stored, of its index, and of it in 32 bit.
_SENT, _INDEX, _WIDE = 2.0, 4.0, 4.0
#: Sequences of a pair: the chosen and the rejected one.
PAIR = 2.0
_BASE_ASSUMED = EstimateWarning(
    "reference_assumed",
    "the request does not name the reference: the base below the adapters is taken, with these "
    "switched off, as trainers do; a copy of the model beside it would take its weights again",
    about="dpo.reference",
)


def trained(run: Run, beside: Beside, problems: Problems) -> tuple[TrainingMemory, TrainingSpeed]:
    """Memory and speed of an optimizer step with what stands beside the model.

    Raises
    ------
    Rejected
        If anything was noted before.
    """
    problems.stop_if_any()
    setup, resolved = run.resolved.setup, run.resolved
    memory = training_memory(
        setup.deployment, setup.micro_batch, setup.settings, resolved.overheads, beside
    )
    speed = resolved_speed(setup, run.figures, memory, run.request)
    return memory, replace(speed, run=None)


def reference(
    run: Run, kind: str, zero_stage: int | None, pointer: str, problems: Problems
) -> Beside:
    """A reference beside the model: a frozen copy, or the base that its adapters hang on."""
    if kind == "base" and run.resolved.setup.settings.method == "full":
        problems.add(
            pointer,
            "method full leaves no frozen base; use method lora or qlora, or a copy",
        )
    if kind not in ("copy", "base"):
        return NOTHING
    if zero_stage is not None and kind == "base":
        problems.add(f"{pointer}_zero_stage", "a base is divided as the model is; leave it out")
    return Beside(run.deployment, run.frozen_settings(zero_stage), holds_weights=kind == "copy")


def passes(beside: Beside, speed: TrainingSpeed, sequences: float) -> TrainingSpeed:
    """The forward pass of what stands beside the model, over so many sequences.

    A copy and a base are the model itself, whose weights they may hold in another division.
    """
    setup = speed.setup
    if beside.deployment is not None and beside.settings is not None:
        setup = replace(setup, deployment=beside.deployment, settings=beside.settings)
    return forward_speed(setup, sequences)


def dpo(run: Run, asked: DpoRequest, problems: Problems) -> Parts:
    """Pairs, of whose answers a reference tells the probability as well."""
    kind = asked.reference or _usual_reference(run, asked)
    beside = reference(run, kind, asked.reference_zero_stage, "/dpo/reference", problems)
    memory, speed = trained(run, beside, problems)
    pooled, prepared = training_pool(run), None
    phases = [phase_of("training", TRAINING, speed, run.figures)]
    forward = passes(beside, speed, run.sequences)
    if kind == "stored":
        # One log-probability in 32 bit for each answer.
        each_bytes = _WIDE / run.sequence_tokens
        prepared = Prepared(pooled, forward, run.figures, each_bytes, asked.reference_epochs)
    else:
        phases.append(phase_of("reference", TRAINING, forward, run.figures))
    assumed = () if asked.reference or kind != "base" else (_BASE_ASSUMED,)
    return Parts(
        *(memory, speed, (pooled,), tuple(phases), 1.0, run.sequences),
        prepared=prepared,
        warnings=assumed,
    )


def _usual_reference(run: Run, asked: DpoRequest) -> str:
    """The reference that trainers take where nobody says.

    Of adapters it is the base, unless a copy is told how to be divided.

    References
    ----------
    TRL, trl/trainer/dpo_trainer.py; LLaMA-Factory, src/llamafactory/train/trainer_utils.py
    (create_ref_model); torchtune, recipes/lora_dpo_distributed.py, 2025
    """
    adapts = run.resolved.setup.settings.method != "full"
    return "base" if adapts and asked.reference_zero_stage is None else "copy"


def distillation(run: Run, asked: TeacherRequest, problems: Problems) -> Parts:
    """A student and its teacher, beside it, apart from it, or in advance."""
    found = _teacher(run, asked, problems)
    problems.stop_if_any()
    teacher = problems.resolved(found)
    deployment, figures = teacher.setup.deployment, teacher.figures(run.snapshot)
    settings = run.frozen_settings(asked.zero_stage)
    sent_bytes = logit_bytes(deployment, asked.top_logits)
    beside = _beside_student(run, asked, deployment, settings, sent_bytes)
    memory, speed = trained(run, beside, problems)
    host = figures.host(deployment.accelerator)
    calibration = figures.efficiency
    forward = forward_speed(
        replace(
            speed.setup,
            deployment=deployment,
            settings=settings,
            calibration=calibration,
            host=host,
        ),
        run.sequences,
    )
    student = training_pool(run)
    pools: tuple[Pooled, ...] = (student,)
    phases = [phase_of("training", TRAINING, speed, run.figures)]
    own = pool_of(
        TEACHER,
        deployment,
        teacher.accelerator,
        teacher.model.id,
        calibration.performance.power,
        figures.infrastructure,
    )
    prepared = teacher_memory = None
    each_bytes = sent_bytes * run.sequences * run.sequence_tokens / student.pool.accelerators
    match asked.placement:
        case "same":
            phases.append(phase_of("teacher", TRAINING, forward, figures))
        case "own":
            pools = (student, own)
            phases.append(phase_of("teacher", TEACHER, forward, figures))
            link_ratio = run.figures.efficiency.performance.hardware.link_ratio
            seconds = sent_s(run.deployment, each_bytes, float(link_ratio), apart=True)
            phases.append(Phase("logits_sent", TEACHER, exact(seconds), exact(0.0)))
        case "stored":
            prepared = Prepared(own, forward, figures, sent_bytes, asked.epochs)
            read_s = each_bytes / speed.setup.host.nvme_bytes_per_s
            late_s = max(float(read_s - speed.step.step_s), 0.0)
            phases.append(Phase("logits_read", TRAINING, exact(late_s), exact(0.0)))
    if asked.placement != "same":
        teacher_memory = _alone(run, forward.setup)
    return Parts(
        memory,
        speed,
        pools,
        tuple(phases),
        1.0,
        run.sequences,
        works_ahead=asked.placement == "own",
        teacher_memory=teacher_memory,
        prepared=prepared,
        warnings=(*teacher.warnings, *_vocabularies(run, deployment)),
        entries=tuple(teacher.entries(run.snapshot)),
    )


@dataclass(frozen=True, slots=True)
class RewardModel:
    """A model that judges completions: what it holds of an accelerator [B], and how it runs."""

    held_bytes: Number
    setup: TrainingSpeedSetup
    resolved: ResolvedTraining
    figures: TrainingFigures


def reward_model(run: Run, asked: RewardModelRequest, problems: Problems) -> RewardModel:
    """The reward model in the layout of the run, with a score in place of its logits.

    Raises
    ------
    Rejected
        If there is no such model, or the layout does not divide it.
    """
    teacher = TeacherRequest(
        model=asked.model, precision=asked.precision, zero_stage=asked.zero_stage
    )
    found = _teacher(run, teacher, problems, "/grpo/reward_model")
    problems.stop_if_any()
    resolved = problems.resolved(found)
    figures, setup = resolved.figures(run.snapshot), resolved.setup
    architecture = scoring(setup.deployment.architecture)
    deployment = replace(setup.deployment, architecture=architecture)
    # No logits: what is fused writes none.
    settings = replace(run.frozen_settings(asked.zero_stage), cross_entropy="fused")
    batch = run.resolved.setup.micro_batch
    held = training_memory(deployment, batch, settings, run.resolved.overheads)
    return RewardModel(
        held.weights_bytes.value,
        TrainingSpeedSetup(
            deployment=deployment,
            settings=settings,
            micro_batch=batch,
            calibration=figures.efficiency,
            host=figures.host(deployment.accelerator),
        ),
        resolved,
        figures,
    )


@lru_cache(maxsize=64)
def scoring(architecture: ModelArchitecture) -> ModelArchitecture:
    """The model with a score in place of its logits."""
    return replace(architecture, head=(), tied_embeddings=False, generates=False)


def logit_bytes(deployment: Deployment, top: int | None) -> float:
    """What is sent or stored of a token: all logits in 16 bit, or the largest with indices [B]."""
    vocabulary = deployment.architecture.vocab_size
    if top is None or top >= vocabulary:
        return vocabulary * _SENT
    return top * (_SENT + _INDEX)


def _beside_student(
    run: Run,
    asked: TeacherRequest,
    deployment: Deployment,
    settings: TrainingSettings,
    sent_bytes: float,
) -> Beside:
    """What the student's accelerators hold of its teacher: the model, or logits that have come."""
    if asked.placement == "same":
        return Beside(deployment, settings)
    # What came is there in 32 bit as well, unless a loss by parts widens a part at a time.
    widened = settings.cross_entropy in ("plain", "half-precision")
    values = min(asked.top_logits or deployment.architecture.vocab_size, sent_bytes / _SENT)
    each = sent_bytes + (values * _WIDE if widened else 0.0)
    return Beside(loss_bytes_per_token=each / run.deployment.parallelism.tensor)


def _teacher(
    run: Run, asked: TeacherRequest, problems: Problems, place: str = "/distillation/teacher"
) -> ResolvedTraining | None:
    """The teacher on its accelerators, resolved as a run of which nothing is trained."""
    request = run.request
    own = asked.placement != "same"
    if not own:
        for name in ("accelerator", "accelerator_count", "parallelism"):
            if getattr(asked, name) is not None:
                problems.add(f"{place}/{name}", "a teacher beside the student has the student's")
        if asked.top_logits is not None:
            problems.add(f"{place}/top_logits", "a teacher beside the student sends no logits")
    count = (
        request.accelerator_count if asked.accelerator_count is None else asked.accelerator_count
    )
    parallelism = asked.parallelism
    if parallelism is None and asked.accelerator is None and asked.accelerator_count is None:
        layout = run.deployment.parallelism
        parallelism = ParallelismRequest(
            **{name: getattr(layout, name) for name in ParallelismRequest.model_fields}
        )
        count = None
    training = request.training
    same_kind = asked.accelerator is None
    question = TrainingRequest(
        model=asked.model,
        precision=asked.precision,
        accelerator=request.accelerator if asked.accelerator is None else asked.accelerator,
        platform=request.platform if same_kind else None,
        power_limit_w=request.power_limit_w if same_kind else None,
        accelerator_count=count,
        parallelism=parallelism,
        training=TrainingSettingsRequest(
            method="lora",
            framework=training.framework,
            framework_version=training.framework_version,
            # Those of the run, which it computes: it has none of its own.
            micro_batch_size=1,
            sequence_length=run.resolved.asked.sequence_length,
        ),
    )
    places = {"/model": f"{place}/model", "/precision": f"{place}/precision"}
    if own:
        places |= {
            f"/{name}": f"{place}/{name}"
            for name in ("accelerator_count", "accelerator", "parallelism")
        }
    try:
        return resolve_training(question, run.snapshot, Problems())
    except Rejected as rejected:
        below(problems, places, rejected)
        return None


def _alone(run: Run, setup: TrainingSpeedSetup) -> PoolMemory:
    """Memory of a teacher on accelerators where nothing is trained."""
    batch = MicroBatch(setup.micro_batch.sequences, setup.micro_batch.tokens)
    return memory_of(
        training_memory(setup.deployment, batch, setup.settings, run.resolved.overheads)
    )


def _vocabularies(run: Run, teacher: Deployment) -> list[EstimateWarning]:
    """What to say where student and teacher do not have the same tokens."""
    own, other = run.deployment.architecture.vocab_size, teacher.architecture.vocab_size
    if own == other:
        return []
    return [
        EstimateWarning(
            "vocabularies_differ",
            f"the student's vocabulary has {own} tokens and the teacher's {other}: their logits "
            "can be compared only if one vocabulary is the other with padding",
        )
    ]
