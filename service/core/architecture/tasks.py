"""What a model is used for: to generate text, or to embed or rank sequences in one pass."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Literal, TypeAlias

from service.core.architecture.model import ModelArchitecture
from service.core.architecture.tensors import TensorClass

#: generate: token after token; embed: a vector of a sequence; rerank: a score of a query with a
#: document.
Task: TypeAlias = Literal["generate", "embed", "rerank"]


def usual_task(architecture: ModelArchitecture) -> Task:
    """What a model is for unless it is said: encoders embed, others generate."""
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
