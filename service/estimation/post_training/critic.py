"""PPO's critic: a value model that is trained on the policy's accelerators, by turns with it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from service.core.estimate.training import TrainingSpeed
from service.core.memory.training.beside import Beside
from service.core.memory.training.memory import TrainingMemory, training_memory
from service.estimation.post_training.frozen import scoring
from service.estimation.post_training.parts import Run, below
from service.estimation.post_training.requests import CriticRequest
from service.estimation.rejection import Rejected
from service.estimation.resolution import Problems
from service.estimation.training.calibrations import TrainingFigures
from service.estimation.training.requests import TrainingRequest
from service.estimation.training.resolve import resolve_training
from service.estimation.training.setup import ResolvedTraining
from service.estimation.training.speed import resolved_speed

_PLACE = "/grpo/critic"


@dataclass(frozen=True, slots=True)
class Critic:
    """The critic as a run of its own, with a value in place of its logits."""

    resolved: ResolvedTraining
    figures: TrainingFigures
    memory: TrainingMemory
    speed: TrainingSpeed

    @property
    def held_bytes(self) -> float:
        """What it keeps while the policy is trained [B]."""
        return states_bytes(self.memory)

    def beside(self, run: Run, policy_bytes: float) -> TrainingMemory:
        """Memory while the critic is trained and the policy's states are kept."""
        setup, overheads = self.resolved.setup, run.resolved.overheads
        kept = Beside(held_bytes=policy_bytes)
        return training_memory(setup.deployment, setup.micro_batch, setup.settings, overheads, kept)


def states_bytes(memory: TrainingMemory) -> float:
    """Weights, gradients and optimizer states [B]."""
    parts = (memory.weights_bytes, memory.gradients_bytes, memory.optimizer_bytes)
    return float(sum(part.value for part in parts))


def critic(run: Run, asked: CriticRequest, problems: Problems) -> Critic:
    """The critic by the settings of the run and in its layout.

    Raises
    ------
    Rejected
        If there is no such model, or settings or layout do not fit it.

    References
    ----------
    Schulman et al., Proximal Policy Optimization Algorithms, 2017, section 5,
    https://arxiv.org/abs/1707.06347; Ouyang et al., InstructGPT, 2022, appendix C.4,
    https://arxiv.org/abs/2203.02155 (a value model of its own)
    """
    request = run.request
    fields = {name: getattr(request, name) for name in TrainingRequest.model_fields}
    fields["model"] = request.model if asked.model is None else asked.model
    fields["precision"] = request.precision if asked.precision is None else asked.precision
    same = {"micro_batch_size": run.resolved.asked.micro_batch_size}
    fields["training"] = request.training.model_copy(update=same)
    places = {"/model": f"{_PLACE}/model", "/precision": f"{_PLACE}/precision", "": _PLACE}
    try:
        resolved = resolve_training(
            TrainingRequest.model_construct(**fields), run.snapshot, Problems()
        )
    except Rejected as rejected:
        below(problems, places, rejected)
        problems.stop_if_any()
        raise
    setup = resolved.setup
    deployment = replace(setup.deployment, architecture=scoring(setup.deployment.architecture))
    # No logits: what is fused writes none.
    settings = replace(setup.settings, cross_entropy="fused")
    setup = replace(setup, deployment=deployment, settings=settings)
    resolved = replace(resolved, setup=setup)
    figures = resolved.figures(run.snapshot)
    memory = training_memory(deployment, setup.micro_batch, settings, run.resolved.overheads)
    speed = replace(resolved_speed(setup, figures, memory, request), run=None)
    return Critic(resolved, figures, memory, speed)
