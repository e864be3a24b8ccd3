"""What vision towers are made of: projections, norms and encoder layers, as tensors.

A tensor whose name begins with ``vision.`` is used for each patch, another one for each token that
the language model reads.
"""

from __future__ import annotations

from service.core.architecture.config.fields import Fields
from service.core.architecture.config.parts import linear
from service.core.architecture.tensors import Shard, Tensor, TensorClass

MAX_IMAGE = 100_000
CHANNELS = 3


def projection(
    name: str, inputs: int, outputs: int, *, bias: bool, row: bool = False, copies: int = 1
) -> tuple[Tensor, ...]:
    """A projection and its bias, ``row``-divided ones by their inputs."""
    shard = Shard.ROW if row else Shard.COLUMN
    return linear(name, TensorClass.OTHER, inputs, outputs, shard, bias=bias, copies=copies)


def vectors(name: str, width: int, copies: int = 1) -> Tensor:
    """Parameters that multiply no activations: tables of positions, tokens, scales."""
    return Tensor(name, TensorClass.OTHER, 1, width, Shard.REPLICATED, copies)


def layer_norms(name: str, width: int, copies: int, *, bias: bool) -> tuple[Tensor, ...]:
    """Norms alike."""
    weight = Tensor(name, TensorClass.NORM, 1, width, Shard.REPLICATED, copies)
    shift = Tensor(f"{name}.bias", TensorClass.BIAS, 1, width, Shard.REPLICATED, copies)
    return (weight, shift) if bias else (weight,)


def encoder(
    fields: Fields,
    layers: int,
    *,
    attention_bias: bool,
    mlp_bias: bool,
    gated: bool,
    norm_bias: bool,
    output_bias: bool | None = None,
    kv_width: int | None = None,
) -> tuple[Tensor, ...]:
    """``layers`` encoder layers: four attention projections, a feed-forward part, two norms."""
    width, inner = fields.size("hidden_size"), fields.size("intermediate_size")
    tensors: tuple[Tensor, ...] = ()
    for name, made in (("q_proj", width), ("k_proj", kv_width), ("v_proj", kv_width)):
        tensors += projection(
            f"vision.{name}", width, made or width, bias=attention_bias, copies=layers
        )
    out = attention_bias if output_bias is None else output_bias
    tensors += projection("vision.o_proj", width, width, bias=out, row=True, copies=layers)
    for name in ("gate_proj", "up_proj") if gated else ("fc1",):
        tensors += projection(f"vision.{name}", width, inner, bias=mlp_bias, copies=layers)
    down = "down_proj" if gated else "fc2"
    tensors += projection(f"vision.{down}", inner, width, bias=mlp_bias, row=True, copies=layers)
    return tensors + layer_norms("vision.norms", width, 2 * layers, bias=norm_bias)


def patch_elements(fields: Fields) -> int:
    """Elements of one image patch [-]."""
    return CHANNELS * fields.size("patch_size", MAX_IMAGE) ** 2


def grid(fields: Fields) -> int:
    """Patches of an image [-]."""
    return (fields.size("image_size", MAX_IMAGE) // fields.size("patch_size", MAX_IMAGE)) ** 2
