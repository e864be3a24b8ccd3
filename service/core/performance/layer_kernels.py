"""Kernels of layers that are not dense, beside those of dense ones."""

from __future__ import annotations

from service.core.architecture.model import LatentAttention, LayerGroup, MixtureOfExperts

#: Kernels of a dense layer whose elementwise operations are fused: two norms with sums, products of
#: queries with keys and values, rotations, a cache that is written, attention, its output, a
#: product of gates with what they let through, their activation, and the product after it (vLLM,
#: llama.py, 2025).
DENSE_KERNELS = 10.0
#: Routed experts have a router, a choice, two kernels that sort what was chosen, two grouped
#: products, an activation and a sum in place of three kernels (vLLM, fused_moe.py, 2025).
_ROUTED_KERNELS = 5.0
#: Where one call routes, multiplies and adds up, it has a kernel that routes, two grouped products,
#: the first with its activation, and a sum, beside the router (FlashInfer, trtllm_fused_moe, 2025).
_FUSED_KERNELS = 2.0
#: Experts that all tokens pass beside these have two products, an activation and a sum (vLLM,
#: shared_fused_moe.py, 2025).
_SHARED_KERNELS = 4.0
#: Latent attention narrows queries and what is cached, with a norm each, widens queries, and has
#: products with latents before and after attention (vLLM, mla.py, 2025).
_LATENT_KERNELS = 5.0


def added_layers(group: LayerGroup) -> float:
    """Dense layers that have as many kernels as layers of a group have beyond dense ones [-]."""
    kernels = 0.0
    if isinstance(group.feed_forward, MixtureOfExperts):
        kernels += _ROUTED_KERNELS
        kernels += _SHARED_KERNELS * (group.feed_forward.shared_intermediate_size > 0)
    kernels += _LATENT_KERNELS * isinstance(group.mixer, LatentAttention)
    return group.count * kernels / DENSE_KERNELS


#: Dense layers that have as many kernels as one call saves in a layer of routed experts [-].
FUSED_CALL_LAYERS = (_ROUTED_KERNELS - _FUSED_KERNELS) / DENSE_KERNELS
