"""GRPO: completions that an inference deployment generates, their rewards, and updates."""

from __future__ import annotations

from dataclasses import replace
from math import ceil

from service.core.estimate.composition import Phase, PoolName, forward_speed, sent_s
from service.core.estimate.inference import inference_energy
from service.core.explanation import EstimateWarning
from service.core.interval import Interval, exact, scale
from service.core.memory.inference.memory import InferenceMemory
from service.core.memory.training.beside import Beside
from service.core.memory.training.memory import TrainingMemory
from service.estimation.answers import figure
from service.estimation.inference.deployment import ComputedDeployment, compute_deployment
from service.estimation.inference.estimate import makespan
from service.estimation.inference.lengths import mean_and_spread
from service.estimation.learning.deployments import learnt_deployment
from service.estimation.post_training.critic import critic, states_bytes
from service.estimation.post_training.frozen import passes, reference, reward_model, trained
from service.estimation.post_training.parts import (
    GENERATION,
    TRAINING,
    Parts,
    Pooled,
    Run,
    below,
    phase_of,
    pool_of,
    training_pool,
    waiting_phase,
)
from service.estimation.post_training.requests import GrpoRequest
from service.estimation.rejection import Rejected
from service.estimation.requests import DeploymentRequest, OutputTokens, WorkloadRequest
from service.estimation.resolution import Problems

_PLACE = "/grpo/generation"
_SECONDS_PER_HOUR = 3_600.0
_WATTS = 1_000.0
#: Most completions of a step, as many as a workload may have.
_MOST = 1_000_000


def grpo(run: Run, asked: GrpoRequest, problems: Problems) -> Parts:
    """Generation, judging, log-probabilities and updates of a step."""
    run = run.looking_at(1.0 - min(asked.prompt_tokens / run.sequence_tokens, 1.0))
    beside = reference(
        run, asked.kl_reference, asked.kl_reference_zero_stage, "/grpo/kl_reference", problems
    )
    judge = None if asked.reward_model is None else reward_model(run, asked.reward_model, problems)
    valued = None if asked.critic is None else critic(run, asked.critic, problems)
    kept = (0.0 if judge is None else judge.held_bytes) + (
        0.0 if valued is None else valued.held_bytes
    )
    # Its log-probabilities are all there before the first micro-batch is trained on, and scores.
    beside = Beside(
        beside.deployment,
        beside.settings,
        holds_weights=beside.holds_weights,
        works_in_loss=False,
        held_bytes=kept,
    )
    each = asked.samples_per_prompt
    prompts = asked.prompts or ceil(run.sequences / each)
    completions = prompts * each
    if completions > _MOST:
        problems.add("/grpo/samples_per_prompt", f"a step has at most {_MOST} completions")
    _check_placement(asked, problems)
    written = _completion_tokens(run, asked, problems)
    memory, speed = trained(run, beside, problems)
    same = asked.generation.placement == "same"
    sleeping = same and asked.generation.sleeps
    generated = _generated(
        run, asked, completions, written, _resident_bytes(memory) if sleeping else 0.0, problems
    )
    engine_bytes = _engine_bytes(generated.memory, sleeping=sleeping) if same else 0.0
    if engine_bytes:
        held = replace(beside, held_bytes=beside.held_bytes + engine_bytes)
        memory, speed = trained(run, held, problems)
    if valued is not None:
        # Both are trained by turns: what is larger with the other's states beside it is needed.
        policy_bytes = states_bytes(memory) - valued.held_bytes
        memory = max(memory, valued.beside(run, policy_bytes), key=_total)
    updates = asked.iterations * ceil(completions / run.sequences)
    student, engine = training_pool(run), _engine_pool(generated)
    pools: tuple[Pooled, ...] = (student,) if same else (student, engine)
    where: PoolName = TRAINING if same else GENERATION
    link_ratio = run.figures.efficiency.performance.hardware.link_ratio
    sent = sent_s(
        generated.resolved.deployment,
        float(generated.memory.weights_bytes.value),
        float(link_ratio),
        apart=not same,
    )
    if generated.latency.burst is None:
        problems.refuse("/grpo", "the model generates nothing")
    generation_s = makespan(generated.latency.requests_per_s, generated.latency.burst)
    phases = [
        Phase("generation", where, generation_s, _generation_kwh(generated, generation_s)),
        waiting_phase("weights_sent", pools[-1].pool, exact(sent)),
    ]
    if asked.reward_s:
        phases.append(waiting_phase("reward", pools[-1].pool, exact(asked.reward_s)))
    if judge is not None:
        judged = forward_speed(judge.setup, float(completions))
        phases.append(phase_of("reward_model", TRAINING, judged, judge.figures))
    if valued is not None:
        values = forward_speed(valued.speed.setup, float(completions))
        phases.append(phase_of("values", TRAINING, values, valued.figures))
    passed = passes(beside, speed, float(completions))
    if updates > 1:
        own = passes(Beside(), speed, float(completions))
        phases.append(phase_of("old_policy", TRAINING, own, run.figures))
    if asked.kl_reference != "none":
        phases.append(phase_of("reference", TRAINING, passed, run.figures))
    phases.append(phase_of("training", TRAINING, speed, run.figures, float(updates)))
    if valued is not None:
        phases.append(phase_of("critic", TRAINING, valued.speed, valued.figures, float(updates)))
    others = [one.resolved for one in (judge, valued) if one is not None]
    resolved = generated.resolved
    return Parts(
        memory,
        speed,
        pools,
        tuple(phases),
        float(updates),
        float(completions),
        works_ahead=asked.generation.works_ahead,
        generated_tokens=completions * float(resolved.workload.output_tokens),
        generation_memory={
            "total_bytes": figure(generated.memory.total_bytes),
            "capacity_bytes": float(generated.memory.capacity_bytes),
            "fits": generated.fits,
        },
        warnings=(
            *(() if asked.prompts else (_prompts_warning(prompts, each),)),
            *generated.warnings,
            *(said for one in others for said in one.warnings),
        ),
        entries=(
            *resolved.entries(),
            *(entry for one in others for entry in one.entries(run.snapshot)),
        ),
    )


def _prompts_warning(prompts: int, each: int) -> EstimateWarning:
    """What to say of prompts of a step that nobody told.

    References
    ----------
    verl, verl/trainer/config/ppo_trainer.yaml (train_batch_size 1024); OpenRLHF,
    openrlhf/cli/train_ppo_ray.py (rollout_batch_size 1024), 2025
    """
    return EstimateWarning(
        "prompts_assumed",
        f"the request does not say how many prompts a step has: {prompts} with {each} completions "
        "each are taken, as many as one optimizer step trains on. Runs often take hundreds, whose "
        "completions are generated side by side, in less time each; state grpo.prompts",
        about="grpo.prompts",
    )


def _engine_bytes(memory: InferenceMemory, *, sleeping: bool) -> float:
    """What an engine on the accelerators that train holds of them while they do [B].

    One that sleeps gives weights and caches back; graphs that it has captured stay.

    References
    ----------
    vllm-project/vllm pull requests 23482 and 45623, 2025-2026 (graphs are captured outside of the
    pool that sleeping frees)
    """
    if sleeping:
        return float(memory.graphs_bytes.value)
    return float(memory.process_bytes.value - memory.serving.reserved_bytes)


def _total(memory: TrainingMemory) -> float:
    return float(memory.total_bytes.value)


def _check_placement(asked: GrpoRequest, problems: Problems) -> None:
    """Note what accelerators of its own would be needed for, and what they leave no sense to."""
    generation = asked.generation
    if generation.placement == "own":
        return
    for name in ("accelerator", "accelerator_count"):
        if getattr(generation, name) is not None:
            problems.add(
                f"{_PLACE}/{name}", "the engine has the accelerators that train; use placement own"
            )
    if generation.works_ahead:
        problems.add(
            f"{_PLACE}/works_ahead",
            "accelerators that train cannot generate at the same time; use placement own",
        )


def _completion_tokens(run: Run, asked: GrpoRequest, problems: Problems) -> OutputTokens:
    """Lengths of completions, which with their prompt must fill no more than a sequence."""
    left = int(run.sequence_tokens) - asked.prompt_tokens
    if asked.completion_tokens is None:
        if left < 1:
            problems.add(
                "/grpo/prompt_tokens",
                f"a sequence of {run.sequence_tokens:.0f} tokens leaves nothing to generate",
            )
        return max(left, 1)
    mean, _ = mean_and_spread(asked.completion_tokens)
    if mean > left:
        problems.add(
            "/grpo/completion_tokens",
            f"prompt and completion have {asked.prompt_tokens + mean:.0f} tokens, more than "
            f"training.sequence_length, {run.sequence_tokens:.0f}",
        )
    return asked.completion_tokens


def _generated(
    run: Run,
    asked: GrpoRequest,
    completions: int,
    written: OutputTokens,
    resident_bytes: float,
    problems: Problems,
) -> ComputedDeployment:
    """The inference deployment that answers all prompts of a step at once.

    Raises
    ------
    Rejected
        If there is no such deployment.
    """
    request, generation = run.request, asked.generation
    same_kind = generation.accelerator is None
    precision, serving = generation.precision, generation.serving
    if precision.weights is None:
        precision = precision.model_copy(update={"weights": "bf16"})
    if resident_bytes:
        reserved = serving.reserved_bytes + resident_bytes
        serving = serving.model_copy(update={"reserved_bytes": reserved})
    count = generation.accelerator_count
    if count is None and (generation.parallelism is None or generation.placement == "same"):
        count = run.deployment.parallelism.accelerator_count
    places = {
        "/workload": "/grpo",
        **{
            f"/{name}": f"{_PLACE}/{name}"
            for name in ("serving", "precision", "parallelism", "accelerator_count")
        },
    }
    if not same_kind:
        places["/accelerator"] = f"{_PLACE}/accelerator"
    try:
        question = DeploymentRequest(
            model=request.model,
            precision=precision,
            accelerator=request.accelerator
            if generation.accelerator is None
            else generation.accelerator,
            platform=request.platform if same_kind else None,
            power_limit_w=request.power_limit_w if same_kind else None,
            accelerator_count=count,
            parallelism=generation.parallelism,
            workload=WorkloadRequest(
                input_tokens=asked.prompt_tokens,
                output_tokens=written,
                concurrency=completions,
                arrivals="at_once",
                prefix_cached_ratio=1.0 - 1.0 / asked.samples_per_prompt,
            ),
            serving=serving,
            calibration=request.calibration,
            calibration_revision=request.calibration_revision,
        )
        return compute_deployment(learnt_deployment(question, run.snapshot, Problems()))
    except Rejected as rejected:
        below(problems, places, rejected)
        problems.stop_if_any()
        raise


def _resident_bytes(memory: TrainingMemory) -> float:
    """What training keeps on an accelerator while it generates: no gradients, no activations."""
    parts = (memory.weights_bytes, memory.optimizer_bytes, memory.libraries_bytes)
    return float(sum(part.value for part in parts))


def _engine_pool(generated: ComputedDeployment) -> Pooled:
    """The accelerators that generate."""
    resolved = generated.resolved
    return pool_of(
        GENERATION,
        resolved.deployment,
        resolved.accelerator,
        resolved.model.id,
        resolved.calibration.performance.power,
        resolved.calibration.infrastructure,
    )


def _generation_kwh(generated: ComputedDeployment, time_s: Interval) -> Interval | None:
    """IT energy of all completions of a step [kWh]."""
    resolved = generated.resolved
    if resolved.deployment.accelerator.thermal_design_power_w is None:
        return None
    energy = inference_energy(generated.estimate, resolved.calibration.infrastructure)
    return scale(energy.power.it_power_w, float(time_s.value) / _SECONDS_PER_HOUR / _WATTS)
