"""Settings of training that change nothing beside others, of which a request is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from service.core.explanation import EstimateWarning
from service.core.memory.training.adapters import LOW_RANK
from service.core.memory.training.settings import TrainingSettings
from service.estimation.idle import unused
from service.estimation.training.requests import TrainingRequest

_OF_ADAPTERS = (
    "lora_rank",
    "lora_targets",
    "trained_tensors",
    "adapter_dtype",
    "adapter_dropout",
    "virtual_tokens",
    "boft_block_size",
    "boft_factors",
)
_OF_PROMPTS = ("virtual_tokens",)
_OF_BOFT = ("boft_block_size", "boft_factors")
_OF_RANKS = ("lora_rank",)


def unused_settings(
    request: TrainingRequest, settings: TrainingSettings
) -> Iterator[EstimateWarning]:
    """What to say of settings that are asked for and mean nothing beside the others.

    Parameters
    ----------
    request
        What was asked for.
    settings
        What it comes to, with what the framework does where nothing is said.
    """
    if request.precision.kv_cache is not None:
        yield EstimateWarning(
            "setting_unused",
            "training keeps no KV cache: a format of it changes nothing",
            about="precision.kv_cache",
        )
    for reason, names in _idle(settings).items():
        yield from unused(request.training, "training", names, reason)


def _idle(settings: TrainingSettings) -> Mapping[str, tuple[str, ...]]:
    """Names of settings that mean nothing, by the reason."""
    adapter = settings.adapter
    idle: dict[str, tuple[str, ...]] = {}
    if settings.method == "full":
        idle["full training has no adapters"] = _OF_ADAPTERS
    else:
        idle[f"the adapter {adapter} has no such setting"] = (
            *(() if adapter in LOW_RANK else _OF_RANKS),
            *(() if adapter in ("prompt", "prefix") else _OF_PROMPTS),
            *(() if adapter == "boft" else _OF_BOFT),
        )
    if settings.optimizer not in ("galore-adamw", "galore-adamw-8bit", "apollo"):
        idle[f"the optimizer {settings.optimizer} keeps no moments of a chosen rank"] = (
            "optimizer_rank",
        )
    if settings.cross_entropy not in ("chunked", "fused"):
        idle[f"with cross_entropy {settings.cross_entropy} all tokens are taken at once"] = (
            "cross_entropy_chunk_tokens",
        )
    if settings.expert_capacity_factor is None:
        idle["experts without a capacity take the tokens that chose them"] = ("expert_padding",)
    if not settings.zero_stage:
        idle["with zero_stage 0 each data-parallel rank holds all states"] = (
            "data_parallel_shard_degree",
            "weight_gather_dtype",
            "gradient_scatter_dtype",
        )
    if settings.activation_checkpointing != "full":
        idle["only full activation_checkpointing recomputes blocks of layers"] = (
            "checkpoint_every",
            "recomputed_layers",
        )
    return idle
