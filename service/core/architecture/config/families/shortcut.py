"""LongCat-Flash: pairs of layers with one set of experts, of which some compute nothing.

Sizes and quirks are those of Hugging Face transformers' longcat_flash
(https://github.com/huggingface/transformers, 2026).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from service.core.architecture.config.family import PRE_NORMS, Family
from service.core.architecture.config.fields import MAX_EXPERTS, MAX_LAYERS, Fields
from service.core.architecture.config.parts import (
    dense,
    experts,
    latent_attention,
    linear,
    norm,
)
from service.core.architecture.model import LayerGroup, MixtureOfExperts
from service.core.architecture.tensors import Shard, Tensor, TensorClass

_DENSE, _EXPERTS = dense(), experts()


def _experts_and_identities(fields: Fields) -> MixtureOfExperts:
    """Routed experts beside ones that hand tokens on: the router sees both.

    Which share of a token's choices computes varies from token to token; training holds its mean
    at the share of experts that do.

    References
    ----------
    Meituan, LongCat-Flash, 2025, section 2.1, https://arxiv.org/abs/2509.01322
    """
    count = fields.size("num_experts", maximum=MAX_EXPERTS)
    every = count + fields.count("zero_expert_num")
    chosen = fields.size("num_experts_per_tok", maximum=every)
    computing = max(1, round(chosen * count / every))
    part = _EXPERTS(fields.replaced(num_experts_per_tok=computing))
    router = (
        *linear(
            "classifier",
            TensorClass.ROUTER,
            fields.size("hidden_size"),
            every,
            Shard.REPLICATED,
            bias=fields.flag("router_bias"),
        ),
        Tensor("e_score_correction_bias", TensorClass.BIAS, 1, every, Shard.REPLICATED),
    )
    routed = tuple(one for one in part.tensors if one.tensor_class is TensorClass.EXPERT)
    return replace(part, tensors=router + routed)


def _pairs(fields: Fields, layers: int) -> tuple[LayerGroup, ...]:  # noqa: ARG001 - one shape
    """Two layers of attention and a dense part each, and experts that reach over both."""
    pairs = fields.size("num_layers", MAX_LAYERS)
    hidden = fields.size("hidden_size")
    norms = tuple(tensor for name in PRE_NORMS for tensor in norm(name, hidden))
    return (
        LayerGroup(2 * pairs, latent_attention(fields), _DENSE(fields), norms),
        LayerGroup(pairs, None, _experts_and_identities(fields), (), beside=True),
    )


_LONGCAT_FLASH = Family(
    defaults={
        "q_lora_rank": 1536,
        "kv_lora_rank": 512,
        "qk_nope_head_dim": 128,
        "qk_rope_head_dim": 64,
        "v_head_dim": 128,
        "num_experts": 512,
        "zero_expert_num": 256,
        "num_experts_per_tok": 12,
        "moe_intermediate_size": 2048,
    },
    groups=_pairs,
)

SHORTCUT_FAMILIES: Mapping[str, Family] = {"longcat_flash": _LONGCAT_FLASH}
