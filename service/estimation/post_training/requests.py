"""What callers may ask about distillation, DPO and GRPO."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import ConfigDict, Field, model_validator

from service.estimation.detail import FieldPaths, Grounded
from service.estimation.references import AcceleratorReference, Degree, ModelReference, Request
from service.estimation.requests import (
    OutputTokens,
    ParallelismRequest,
    PrecisionRequest,
    ServingRequest,
)
from service.estimation.training.requests import PlacedTrainingRequest

Objective = Literal["distillation", "dpo", "grpo"]

_STUDENT: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8,
    "region": "aws/eu-north-1",
}
_SETTINGS: dict[str, Any] = {
    "zero_stage": 3,
    "activation_checkpointing": "full",
    "cross_entropy": "fused",
    "sequence_length": 4096,
}
EXAMPLE_DISTILLATION: dict[str, Any] = _STUDENT | {
    "training": _SETTINGS,
    "distillation": {"teacher": {"model": "meta-llama/Llama-3.1-70B"}},
}
EXAMPLE_DPO: dict[str, Any] = _STUDENT | {
    "training": _SETTINGS | {"method": "lora", "micro_batch_size": 1, "sequence_length": 2048},
    "dpo": {"reference": "base"},
}
EXAMPLE_GRPO: dict[str, Any] = _STUDENT | {
    "training": _SETTINGS
    | {"micro_batch_size": 1, "gradient_accumulation_steps": 8, "sequence_length": 2048},
    "grpo": {"prompt_tokens": 512, "completion_tokens": 1024},
}


class TeacherRequest(Request):
    """A model whose results another one learns from."""

    model: ModelReference = Field(examples=["meta-llama/Llama-3.1-70B"])
    """Catalog id or alias; hf:organisation/name for a model on the Hugging Face Hub; or {'config':
    …} with a config.json."""
    precision: PrecisionRequest = PrecisionRequest()
    """Formats of the teacher, which is only read: any format will do."""
    placement: Literal["same", "own", "stored"] = "same"
    """same: on the student's accelerators, beside it; own: on accelerators of its own, where it
    works ahead of the student and sends its logits; stored: its logits were computed once for all
    data and are read from storage."""
    zero_stage: Literal[0, 3] | None = None
    """3 divides a teacher's weights among data-parallel ranks; if null, as the student's are."""
    accelerator: AcceleratorReference | None = None
    """Accelerator of the teacher, if it has its own or computes in advance; if null, the
    student's."""
    accelerator_count: Degree | None = None
    """How many of them; if null, as many as the student has."""
    parallelism: ParallelismRequest | None = None
    """The teacher's layout on its own accelerators; if null, the student's on the student's kind
    and number, else data parallelism."""
    top_logits: int | None = Field(None, ge=1, le=1_000_000)
    """Logits of a token that are sent or stored, the largest ones with their indices; if null,
    all."""
    epochs: float = Field(1.0, ge=1e-3, le=1e4)
    """How often the run passes through the data, whose logits are stored once."""


class DistillationRequest(Request):
    """A student that learns a teacher's distribution over tokens."""

    teacher: TeacherRequest


class DpoRequest(Request):
    """Direct preference optimisation: pairs of a chosen and a rejected answer."""

    reference: Literal["copy", "base", "stored"] | None = None
    """What the model must stay near to. copy: a frozen copy of it beside it; base: the frozen
    weights below its adapters, with these switched off; stored: log-probabilities that were
    computed once for all data. If null, as trainers do: base for adapters, copy for method full."""
    reference_zero_stage: Literal[0, 3] | None = None
    """3 divides a copy's weights among data-parallel ranks; if null, as those of the model are."""
    reference_epochs: float = Field(1.0, ge=1e-3, le=1e4)
    """How often the run passes through the data, for which stored log-probabilities serve."""


class GenerationRequest(Request):
    """How completions are generated: an inference deployment of the model that is trained."""

    placement: Literal["same", "own"] = "same"
    """same: on the accelerators that train, by turns; own: on accelerators of its own."""
    works_ahead: bool = False
    """With accelerators of its own: whether it generates for the next step while this one trains,
    with weights that are a step old."""
    sleeps: bool = True
    """On the accelerators that train: whether the engine gives its memory back while they do."""
    accelerator: AcceleratorReference | None = None
    """Accelerator, if it has its own; if null, the one that trains."""
    accelerator_count: Degree | None = None
    """How many of them; if null, as many as train."""
    parallelism: ParallelismRequest | None = None
    """Layout of the engine; if null, what most people run."""
    precision: PrecisionRequest = PrecisionRequest()
    """Formats of the engine, into which weights are brought; if weights is null, 16 bit."""
    serving: ServingRequest = ServingRequest()


class RewardModelRequest(Request):
    """A model that judges completions with one forward pass, beside the model that is trained."""

    model: ModelReference = Field(examples=["meta-llama/Llama-3.1-8B"])
    """Catalog id or alias; hf:organisation/name for a model on the Hugging Face Hub; or {'config':
    …} with a config.json. A score takes the place of its logits."""
    precision: PrecisionRequest = PrecisionRequest()
    """Formats of the reward model, which is only read: any format will do."""
    zero_stage: Literal[0, 3] | None = None
    """3 divides its weights among data-parallel ranks; if null, as those of the model are."""


class CriticRequest(Request):
    """A value model that is trained beside the policy, by the same settings and in its layout."""

    model: ModelReference | None = Field(None, examples=["meta-llama/Llama-3.2-1B"])
    """Catalog id or alias, as of the policy; a value takes the place of its logits. If null, the
    policy's model."""
    precision: PrecisionRequest | None = None
    """Formats of the critic; if null, the policy's."""


class GrpoRequest(Request):
    """Group relative policy optimisation: several completions of each prompt, and their rewards.

    With a critic and one completion of each prompt it is PPO.
    """

    samples_per_prompt: int = Field(8, ge=1, le=100_000)
    """Completions of each prompt, which are judged beside each other."""
    prompts: int | None = Field(None, ge=1, le=1_000_000)
    """Prompts of a step; if null, as many as one optimizer step takes."""
    prompt_tokens: int = Field(512, ge=1, le=10_000_000)
    """Tokens of a prompt."""
    completion_tokens: OutputTokens | None = None
    """Generated tokens: a number, or how lengths differ. If null, what sequence_length leaves."""
    iterations: int = Field(1, ge=1, le=1_000)
    """How often each completion is trained on."""
    kl_reference: Literal["none", "copy", "base"] = "none"
    """What the model must stay near to: nothing, a frozen copy beside it, or the frozen weights
    below its adapters."""
    kl_reference_zero_stage: Literal[0, 3] | None = None
    """3 divides a copy's weights among data-parallel ranks; if null, as those of the model are."""
    reward_model: RewardModelRequest | None = None
    """A model that judges completions, on the accelerators that train and in their layout; null
    where rewards follow from rules or tests."""
    critic: CriticRequest | None = None
    """A value model with gradients and optimizer states of its own, as PPO has it; null where
    completions of a prompt are judged beside each other."""
    reward_s: float = Field(0.0, ge=0.0, le=1e6)
    """Time in a step that computing rewards takes beside all else, such as running tests."""
    generation: GenerationRequest = GenerationRequest()


class PostTrainingRequest(PlacedTrainingRequest):
    """A training run whose loss needs more than the model: give one of its three objectives."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [EXAMPLE_DISTILLATION, EXAMPLE_DPO, EXAMPLE_GRPO]}
    )

    distillation: DistillationRequest | None = None
    """Learn a teacher's distribution; training.tokens are the student's."""
    dpo: DpoRequest | None = None
    """Learn from pairs: training.micro_batch_size counts pairs, of two sequences each."""
    grpo: GrpoRequest | None = None
    """Learn from rewards of completions that the model generates; training.sequence_length is what
    prompts and completions are filled up to."""
    include: Grounded = ()
    fields: FieldPaths = ()

    @model_validator(mode="after")
    def _one_objective(self) -> PostTrainingRequest:
        if sum(one is not None for one in (self.distillation, self.dpo, self.grpo)) != 1:
            raise ValueError("give one of distillation, dpo and grpo")
        return self

    @property
    def objective(self) -> Objective:
        """Which of them is given."""
        if self.distillation is not None:
            return "distillation"
        return "dpo" if self.dpo is not None else "grpo"
