"""How many elements of a tensor one rank holds, as inference and training engines divide them."""

from __future__ import annotations

from math import ceil, isqrt

from service.core.architecture.model import (
    Attention,
    LatentAttention,
    LayerGroup,
    ModelArchitecture,
    StateMixer,
)
from service.core.architecture.tensors import Shard, Tensor
from service.core.deployment import Parallelism

#: Vocabulary rows are padded to a multiple of this before they are divided.
#: Source: vLLM VocabParallelEmbedding, DEFAULT_VOCAB_PADDING_SIZE, 2024.
VOCABULARY_PADDING_ROWS = 64
#: What training counts as layers beside the model's own where these do not divide: the embedding
#: on the first stage, and the head with its loss on the last.
#: Source: Megatron-LM, account_for_embedding_in_pipeline_split and
#: account_for_loss_in_pipeline_split, 2024; Grattafiori et al., The Llama 3 Herd of Models, 2024,
#: section 3.3.2 (126 layers on 16 stages).
PIPELINE_ENDS = 2


def kv_heads(group: LayerGroup) -> int:
    """KV heads of a group's mixer: the bound on dividing keys and values."""
    mixer = group.mixer
    if isinstance(mixer, Attention):
        return mixer.kv_heads
    if isinstance(mixer, StateMixer):
        return mixer.heads
    if isinstance(mixer, LatentAttention):
        return mixer.query_heads
    return 1


def rank_shape(
    tensor: Tensor, parallelism: Parallelism, kv_head_count: int
) -> tuple[float, float, float]:
    """Copies, input features and output features of a tensor on the fullest rank [-].

    References
    ----------
    Shoeybi et al., Megatron-LM, 2019, section 3, https://arxiv.org/abs/1909.08053 (column and row
    division); vLLM QKVParallelLinear and FusedMoE, 2024 (KV head replication, expert division).
    """
    copies: float = tensor.copies
    rows: float = tensor.input_features
    columns: float = tensor.output_features
    tensor_ranks = parallelism.tensor
    match tensor.shard:
        case Shard.COLUMN:
            columns = columns / tensor_ranks
        case Shard.ROW:
            rows = rows / tensor_ranks
        case Shard.KV_HEADS:
            columns = columns * ceil(kv_head_count / tensor_ranks) / kv_head_count
        case Shard.VOCABULARY:
            # Tables are (vocabulary × hidden): the vocabulary is the output side of the head
            # and, by the same convention here, of the embedding.
            padded = ceil(columns / VOCABULARY_PADDING_ROWS) * VOCABULARY_PADDING_ROWS
            columns = columns if tensor_ranks == 1 else padded / tensor_ranks
        case Shard.EXPERT_COLUMN:
            copies = ceil(copies / parallelism.expert)
            columns = columns / parallelism.expert_tensor
        case Shard.EXPERT_ROW:
            copies = ceil(copies / parallelism.expert)
            rows = rows / parallelism.expert_tensor
        case Shard.REPLICATED:
            pass
    return copies, rows, columns


def rank_elements(tensor: Tensor, parallelism: Parallelism, kv_head_count: int) -> float:
    """Elements of a tensor that the fullest rank holds."""
    copies, rows, columns = rank_shape(tensor, parallelism, kv_head_count)
    return copies * rows * columns


def stage_layer_counts(layer_count: int, pipeline: int) -> tuple[int, ...]:
    """Layers of each pipeline stage: as even as they go, later stages (not the last) first.

    References
    ----------
    vLLM ``get_pp_indices``, 2024: remainder layers go to the stages before the last one, because
    the last stage also holds the head.
    """
    base, remainder = divmod(layer_count, pipeline)
    counts = [base] * pipeline
    for offset in range(remainder):
        counts[-(offset + 2) % pipeline] += 1
    return tuple(counts)


def trained_layer_counts(layer_count: int, pipeline: int, predictions: int = 0) -> tuple[int, ...]:
    """Layers of each pipeline stage in training: alike but for the last, which has what is left.

    Where they divide, or do with embedding and head as layers, these count and all are alike.
    ``predictions`` of the layers predict further ahead, which the last stage has, and the head
    once more for each.

    References
    ----------
    Megatron-LM, 2025: account_for_embedding_in_pipeline_split, account_for_loss_in_pipeline_split,
    decoder_last_pipeline_num_layers; Megatron Bridge, recipes/deepseek/deepseek_v3.py, 2025 (61
    layers and one that predicts on 16 stages: 15 of four, and two beside the losses)
    """
    heads = 1 + predictions if predictions else 0
    most = ceil((layer_count + heads) / pipeline)
    last = layer_count - (pipeline - 1) * most
    if predictions and pipeline > 1 and last >= predictions:
        return (most,) * (pipeline - 1) + (last,)
    most = ceil(layer_count / pipeline)
    last = layer_count - (pipeline - 1) * most
    divides = layer_count % pipeline == 0 or (layer_count + PIPELINE_ENDS) % pipeline == 0
    if divides or last < 1:
        return stage_layer_counts(layer_count, pipeline)
    return (most,) * (pipeline - 1) + (last,)


def stage_layers(architecture: ModelArchitecture, parallelism: Parallelism) -> tuple[int, ...]:
    """Layers of each pipeline stage of a model that is trained."""
    return trained_layer_counts(
        architecture.layer_count, parallelism.pipeline, architecture.trained_predictions
    )


def divisors(number: int) -> list[int]:
    """Numbers of ranks among which so many like things can be divided evenly, in order."""
    small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
    return sorted({*small, *(number // n for n in small)})
