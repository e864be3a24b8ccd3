"""How long the stages of a pipeline wait: for the first and last micro-batches, and the slowest."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from service.core.architecture.sharding import PIPELINE_ENDS
from service.core.elementwise import Number, maximum
from service.core.memory.training.settings import TrainingSettings
from service.core.recipes import InterleavedRounds

#: Places for layers that may stay empty where people let stages differ by one [-]: a choice of this
#: service, beyond which a plain schedule wastes less.
_MOST_EMPTY = 1.0 / 16.0
#: Forward, backward for activations and backward for weights take about the same; a schedule that
#: computes the last while others wait leaves one of the three.
_ZERO_BUBBLE_PARTS = 3.0
#: Of these three parts, those that a pair of stages waits for each pair that stands before it where
#: micro-batches enter at both ends: a forward and backward side by side and a backward, without
#: gradients of weights three times over.
_BOTH_ENDS_PARTS = 3.0 + 2.0 - 3.0


def fill_rounds(micro_batches: Number, stages: int, rounds: InterleavedRounds | None) -> bool:
    """Whether micro-batches come in rounds as an interleaved schedule takes them.

    References
    ----------
    NVIDIA/Megatron-LM, megatron/core/pipeline_parallel/schedules.py, 2025 (rounds of as many as
    there are stages, which no smaller one may follow); PyTorch,
    torch/distributed/pipelining/schedules.py, 2025 (ScheduleInterleaved1F1B: as many rounds as
    stages go into micro-batches, all alike)
    """
    match rounds:
        case "whole":
            return bool(micro_batches % stages == 0)
        case "equal":
            return bool(micro_batches % max(1, int(micro_batches // stages)) == 0)
        case None:
            return True


def most_virtual_stages(layers: int, stages: int) -> int:
    """Stages that a rank can have in an interleaved schedule, embedding and head counting, too."""
    return max(layers // stages, (layers + PIPELINE_ENDS) // stages)


def fills_stages(layers: int, stages: int, virtual_stages: int) -> bool:
    """Whether layers, or layers with embedding and head, fill stages of a rank alike."""
    parts = stages * virtual_stages
    return stages > 1 and (layers % parts == 0 or (layers + PIPELINE_ENDS) % parts == 0)


def filling_virtual_stages(layers: int, stages: int) -> list[int]:
    """Stages of a rank, more than one, that layers fill alike."""
    most = most_virtual_stages(layers, stages)
    return [n for n in range(2, most + 1) if fills_stages(layers, stages, n)]


def usual_virtual_stages(layers: int, stages: int) -> int:
    """Stages of a rank that people choose: of two layers if these fill them alike, else of more.

    Where none fill them alike, those of which only a few have a layer less; one where there are
    none. Most published runs that interleave have stages of one layer or two.

    References
    ----------
    MLCommons, MLPerf Training 3.0 to 4.1, configurations of GPT-3; NVIDIA, Megatron Bridge,
    performance summary, 2025; NVIDIA/Megatron-LM, megatron/training/arguments.py,
    --pipeline-model-parallel-layout, 2025 (stages of any layers, as 61 on 32 stages)
    """
    ends = layers + PIPELINE_ENDS
    alike = [n for n in filling_virtual_stages(layers, stages) if ends // (stages * n) > 1]
    if alike:
        return max(alike)

    def nearly_filled(virtual: int) -> bool:
        each = ceil(ends / (stages * virtual))
        return each > 1 and each * stages * virtual - ends <= _MOST_EMPTY * ends

    numbers = range(2, most_virtual_stages(layers, stages) + 1)
    return max((n for n in numbers if nearly_filled(n)), default=1)


def slowest_stage_ratio(
    layers: Sequence[int], head_ratio: Number, from_both_ends: bool = False
) -> Number:
    """Time of the stage with most to do over that of the average stage [-].

    Parameters
    ----------
    layers
        Layers of each stage.
    head_ratio
        Share of the time of all stages that is the head's and its loss', which the last stage
        has. It is less than their share of operations where layers wait for messages, memory or
        the host as well [-].
    from_both_ends
        Whether a rank has two stages, the first with the last, and micro-batches enter at both.
    """
    stages = len(layers)
    if stages == 1:
        return 1.0
    layer_ratio = (1.0 - head_ratio) / sum(layers)
    if from_both_ends:
        pairs = [own + mirror for own, mirror in zip(layers, reversed(layers), strict=True)]
        both = maximum(max(pairs) * layer_ratio, pairs[0] * layer_ratio + head_ratio)
        return stages / 2.0 * both
    return stages * maximum(max(layers) * layer_ratio, layers[-1] * layer_ratio + head_ratio)


def filling_ratio(settings: TrainingSettings, stages: int) -> float:
    """Shares of a stage in a micro-batch for which stages wait for the first and the last [-].

    References
    ----------
    Narayanan et al., 2021, section 2.2, https://arxiv.org/abs/2104.04473; Qi et al., Zero Bubble
    Pipeline Parallelism, 2023, section 2 (ZB-H1), https://arxiv.org/abs/2401.10241; DeepSeek-AI,
    DeepSeek-V3 Technical Report, 2024, table 2, https://arxiv.org/abs/2412.19437
    """
    if settings.from_both_ends:
        return max(stages / 2 - 1, 0) * _BOTH_ENDS_PARTS / _ZERO_BUBBLE_PARTS
    if settings.pipeline_schedule == "zero-bubble":
        return (stages - 1) / _ZERO_BUBBLE_PARTS
    return (stages - 1) / settings.virtual_stages


def pipeline_wait_s(
    micro_batch_s: Number,
    micro_batches: Number,
    stages: int,
    filling: float,
    slowest_ratio: Number,
) -> Number:
    """Time in which a stage waits in a step [s].

    Parameters
    ----------
    micro_batch_s
        Time of a micro-batch forward and backward through all stages [s].
    micro_batches, stages, filling
        Micro-batches of a step, stages, and what :func:`filling_ratio` says.
    slowest_ratio
        Time of the slowest stage over the average, for which all others wait [-].
    """
    return (filling + micro_batches * (slowest_ratio - 1.0)) * micro_batch_s / stages
