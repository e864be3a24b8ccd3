"""What micro-batches leave behind on a rank of what each layer keeps."""

from __future__ import annotations

from collections.abc import Sequence

from service.core.elementwise import Number, maximum, minimum
from service.core.memory.training.activations import LayerSavings
from service.core.memory.training.settings import TrainingSettings


def stored_bytes(
    savings: Sequence[LayerSavings],
    layer_share: float,
    sequences: Number,
    tokens: Number,
    context: int = 1,
) -> Number:
    """What one micro-batch leaves behind on a rank until its backward pass [B].

    Parameters
    ----------
    savings
        What each group of layers keeps.
    layer_share
        Share of the model's layers that the rank holds [-].
    sequences, tokens
        Sequences of the micro-batch and tokens of each [-].
    context
        Ranks among which a sequence's tokens are divided [-].
    """
    per_token, per_pair = kept_by_layers(savings)
    here = tokens / context
    return sequences * layer_share * (per_token + per_pair * tokens) * here


def kept_by_layers(savings: Sequence[LayerSavings]) -> tuple[float, float]:
    """Bytes that all layers keep for each token, and for each pair of a sequence's tokens [B]."""
    return (
        sum(group.count * group.stored_bytes_per_token for group in savings),
        sum(group.count * group.stored_bytes_per_pair for group in savings),
    )


def working_bytes(
    savings: Sequence[LayerSavings], sequences: Number, tokens: Number, context: int = 1
) -> Number:
    """What the backward pass of the widest layer holds beside what is stored [B].

    Parameters as for :func:`stored_bytes`.
    """
    widest: Number = 0.0
    for group in savings:
        widest = maximum(widest, group.working_bytes(tokens))
    return sequences * widest / context


def micro_batches_in_flight(settings: TrainingSettings, pipeline: int, stage: int) -> Number:
    """Micro-batches whose activations a pipeline stage holds at once [-].

    References
    ----------
    Narayanan et al., Efficient Large-Scale Language Model Training on GPU Clusters Using
    Megatron-LM, 2021, sections 2.2.1 and 2.2.2, https://arxiv.org/abs/2104.04473; DeepSeek-AI,
    DeepSeek-V3 Technical Report, 2024, table 2, https://arxiv.org/abs/2412.19437
    """
    given = settings.gradient_accumulation_steps * 1.0
    if pipeline == 1:
        return 1.0
    match settings.pipeline_schedule:
        case "gpipe":
            return given
        case "1f1b" | "zero-bubble":
            return minimum(given, float(pipeline - stage))
        case "dualpipe":
            # Of both stages of a rank together, wherever it stands.
            return minimum(given, pipeline + 1.0)
        case "interleaved":
            return minimum(given, pipeline - stage + (pipeline - 1) / settings.virtual_stages)
