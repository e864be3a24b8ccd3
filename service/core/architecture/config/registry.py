"""All known families by ``model_type``, and the one used for types that are not known."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from service.core.architecture.config.families.chosen_blocks import CHOSEN_BLOCKS_FAMILIES
from service.core.architecture.config.families.compressed import COMPRESSED_FAMILIES
from service.core.architecture.config.families.encoders import ENCODER_FAMILIES
from service.core.architecture.config.families.ernie_vl import ERNIE_VL_FAMILIES
from service.core.architecture.config.families.gemma3n import GEMMA3N_FAMILIES
from service.core.architecture.config.families.gemma4 import GEMMA4_FAMILIES
from service.core.architecture.config.families.hybrid import HYBRID_FAMILIES
from service.core.architecture.config.families.latent import LATENT_FAMILIES
from service.core.architecture.config.families.layer_normed import LAYER_NORMED_FAMILIES
from service.core.architecture.config.families.llama_like import LLAMA_LIKE_FAMILIES
from service.core.architecture.config.families.per_layer import PER_LAYER_FAMILIES
from service.core.architecture.config.families.rwkv import RWKV_FAMILIES
from service.core.architecture.config.families.shortcut import SHORTCUT_FAMILIES
from service.core.architecture.config.families.sparse import SPARSE_FAMILIES
from service.core.architecture.config.families.step import STEP_FAMILIES
from service.core.architecture.config.families.unknown import UNKNOWN_FAMILY
from service.core.architecture.config.family import Family

__all__ = ["FAMILIES", "UNKNOWN_FAMILY"]

#: Families by the ``model_type`` of a configuration.
FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        **LLAMA_LIKE_FAMILIES,
        **LAYER_NORMED_FAMILIES,
        **SPARSE_FAMILIES,
        **ERNIE_VL_FAMILIES,
        **LATENT_FAMILIES,
        **HYBRID_FAMILIES,
        **GEMMA3N_FAMILIES,
        **GEMMA4_FAMILIES,
        **PER_LAYER_FAMILIES,
        **CHOSEN_BLOCKS_FAMILIES,
        **SHORTCUT_FAMILIES,
        **COMPRESSED_FAMILIES,
        **RWKV_FAMILIES,
        **STEP_FAMILIES,
        **ENCODER_FAMILIES,
    }
)
