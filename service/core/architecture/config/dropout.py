"""Where a configuration says that a model is trained with dropout.

Frameworks that build models from their configurations train with it, Hugging Face Transformers
above all; of keys that a configuration leaves out the family's defaults count.
"""

from __future__ import annotations

from collections.abc import Mapping

from service.core.architecture.config.fields import Fields
from service.core.architecture.model import DropoutSite

#: Probabilities by what is dropped: attention's weights, and what a layer's parts add to the
#: residual stream. Source: configuration classes of Hugging Face transformers, 2026; Qwen, MPT and
#: Phi-3-small: those published with the checkpoints.
_KEYS: Mapping[DropoutSite, tuple[str, ...]] = {
    "attention": (
        *("attention_probs_dropout_prob", "attention_dropout_prob", "attention_dropout"),
        *("attn_dropout_prob", "attn_pdrop"),
    ),
    "residual": (
        *("hidden_dropout_prob", "hidden_dropout", "resid_pdrop", "residual_dropout"),
        *("resid_dropout", "ffn_dropout_prob", "dropout"),
    ),
}


def dropout_of(fields: Fields) -> frozenset[DropoutSite]:
    """What a model drops in training unless told otherwise."""
    return frozenset(
        site for site, keys in _KEYS.items() if any(fields.is_above_zero(key) for key in keys)
    )
