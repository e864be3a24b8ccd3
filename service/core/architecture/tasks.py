"""What engines hold of a model that generates text, or embeds or ranks sequences in one pass."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from service.core.architecture.model import ModelArchitecture, Task
from service.core.architecture.tensors import TensorClass


def usual_task(architecture: ModelArchitecture) -> Task:
    """What a model is for unless it is said: what it was made for; other encoders embed."""
    if architecture.made_for != "generate":
        return architecture.made_for
    return "generate" if architecture.generates else "embed"


@lru_cache(maxsize=256)
def for_task(architecture: ModelArchitecture, task: Task) -> ModelArchitecture:
    """A model as engines hold it for a task.

    To embed or rank takes one pass over a sequence and the state of its last tokens: the output
    matrix is not loaded, and no cache outlives the pass. Heads for pooling and scores are a few
    vectors, which are not counted.

    References
    ----------
    vLLM, Pooling models, 2025, https://docs.vllm.ai/en/stable/models/pooling_models.html
    """
    if task == "generate" or not architecture.generates:
        return architecture
    return replace(
        architecture,
        generates=False,
        head=tuple(
            tensor
            for tensor in architecture.head
            if tensor.tensor_class is not TensorClass.HEAD and not tensor.name.startswith("lm_head")
        ),
    )
