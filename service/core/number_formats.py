"""Number formats of weights, KV cache and activations, with the bits they really take.

A format is stored bits per element with its scales and zero points, the tensor classes it leaves
in 16 bit, and the arithmetic the matrix units run it in. Weight-only formats (AWQ, GPTQ, NF4,
GGUF) are dequantised to 16 bit before multiplication, so they save bytes but no FLOPs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import mul
from types import MappingProxyType
from typing import NamedTuple

from service.core.architecture.roles import role
from service.core.architecture.tensors import Tensor, TensorClass

_ALL_LINEAR = frozenset(
    {
        TensorClass.ATTENTION,
        TensorClass.STATE,
        TensorClass.DENSE_FFN,
        TensorClass.EXPERT,
        TensorClass.SHARED_EXPERT,
    }
)
#: What ends the id of a listed format as a checkpoint departs from it.
OF_CHECKPOINT = "-checkpoint"
_FEED_FORWARD = frozenset({TensorClass.DENSE_FFN, TensorClass.EXPERT, TensorClass.SHARED_EXPERT})
_EVERYTHING = frozenset(TensorClass)
_GGUF_MATRICES = _ALL_LINEAR | {TensorClass.EMBEDDING, TensorClass.HEAD}
#: Scales of blocks of 64 elements in bitsandbytes: of 8 bits with one of 32 for 256 of them, or of
#: 32 bits.
_DOUBLE_QUANT_BITS = 8.0 / 64.0 + 32.0 / (64.0 * 256.0)
_SINGLE_QUANT_BITS = 32.0 / 64.0
#: Elements of ggml's blocks with scales of scales.
_SUPER_BLOCK = 256
#: What families call a projection of queries, keys and values in one, which files keep so.
_FUSED_PROJECTIONS = ("qkv_proj", "query_key_value", "c_attn", "Wqkv")


@dataclass(frozen=True, slots=True, eq=False)
class NumberFormat:
    """A number format, compared by identity so that work derived from it can be cached.

    ``bits_per_element`` includes scales and zero points, of which ``scale_bits`` lie in tensors
    that are no parameters. ``quantised_classes`` are the tensor classes stored in it; the rest stay
    in ``remainder_bits``. ``by_class_bits`` overrides single classes and ``by_tensor_bits`` single
    tensors by what they do, under the name that most families give them (GGUF mixes).
    ``matrix_precision`` is the precision whose peak applies to its matrix products. ``source`` says
    where the layout is defined. In a cache an element takes ``cache_bits_per_element`` where that
    differs from a weight, and each key or value vector of a head ``vector_scale_bytes`` more.
    Engines may widen a matrix of a ``widened_whole`` format to 16 bit in one piece, and one of a
    format ``widened_for_many`` where it has so many rows that kernels of its own take longer;
    ``super_blocks`` have scales of scales, which take more operations to unpack; and kernels of one
    with ``padded_experts`` want them padded; checkpoints in one that ``repeats_table`` store a
    shared embedding table twice. Matrices whose rows blocks of 256 elements do not divide are
    stored as its ``ragged`` form says, if it has one. Kernels of formats with ``row_operations``
    multiply row by row on lanes of 32 bit, in so many operations a weight.
    """

    id: str
    bits_per_element: float
    matrix_precision: str
    source: str
    quantised_classes: frozenset[TensorClass] = _EVERYTHING
    remainder_bits: float = 16.0
    by_class_bits: Mapping[TensorClass, float] = field(default_factory=lambda: MappingProxyType({}))
    by_tensor_bits: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    cache_bits_per_element: float | None = None
    vector_scale_bytes: float = 0.0
    widened_whole: bool = False
    widened_for_many: bool = False
    padded_experts: bool = False
    repeats_table: bool = False
    super_blocks: bool = False
    ragged: NumberFormat | None = None
    scale_bits: float = 0.0
    row_operations: float = 0.0

    @property
    def listed_id(self) -> str:
        """Id of the listed format that it is, or that it departs from."""
        return self.id.removesuffix(OF_CHECKPOINT)

    def tensor_bits(self, tensor: Tensor) -> float:
        """Stored bits per element of the given tensor."""
        stored = self.of_rows(tensor.input_features)
        of_role = stored.by_tensor_bits.get(role(tensor)) if stored.by_tensor_bits else None
        return stored.bits(tensor.tensor_class) if of_role is None else of_role

    def of_rows(self, elements: int) -> NumberFormat:
        """How matrices with so many elements a row are stored."""
        return self if self.ragged is None or elements % _SUPER_BLOCK == 0 else self.ragged

    def bits(self, tensor_class: TensorClass) -> float:
        """Stored bits per element of a tensor of the given class."""
        if tensor_class in self.by_class_bits:
            return self.by_class_bits[tensor_class]
        if tensor_class in self.quantised_classes:
            return self.bits_per_element
        return self.remainder_bits

    @property
    def unmixed(self) -> NumberFormat:
        """The same without tensors that a mix stores in bits of their own; the same object."""
        return _unmixed(self) if self.by_tensor_bits and self.id == self.listed_id else self

    @property
    def bytes_per_element(self) -> float:
        """Stored bytes per element, for caches and activations."""
        if self.cache_bits_per_element is not None:
            return self.cache_bits_per_element / 8.0
        return self.bits_per_element / 8.0

    def multiplied_in(self, matrix_precision: str) -> NumberFormat:
        """The same format where products run in a precision; the same object each time."""
        return self if matrix_precision == self.matrix_precision else _as(self, matrix_precision)

    def vector_bytes(self, elements: float) -> float:
        """Bytes of one cached key or value vector of a head, with its scale."""
        return elements * self.bytes_per_element + self.vector_scale_bytes


@lru_cache(maxsize=256)
def _unmixed(number_format: NumberFormat) -> NumberFormat:
    ragged = number_format.ragged
    bare: Mapping[str, float] = MappingProxyType({})
    return replace(
        number_format,
        by_tensor_bits=bare,
        ragged=None if ragged is None else replace(ragged, by_tensor_bits=bare),
    )


@lru_cache(maxsize=256)
def _as(number_format: NumberFormat, matrix_precision: str) -> NumberFormat:
    return replace(number_format, matrix_precision=matrix_precision)


def _plain(id_: str, bits: float, matrix_precision: str) -> NumberFormat:
    return NumberFormat(id_, bits, matrix_precision, "IEEE 754-2019 and vendor data types")


_OCP_MX = "OCP Microscaling Formats (MX) v1.0, 2023, section 5 (32-element blocks, 8-bit scale)"
_VLLM_CACHE = (
    "vllm-project/vllm vllm/v1/kv_cache_interface.py, 2026 (32-bit scale a token and head)"
)
_GGML = "ggml-org/ggml src/ggml-common.h block structures, 2024"
#: ExLlama's own formats, by its generation.
_EXL = {
    2: "turboderp-org/exllamav2 README and doc/convert.md, 2025 (mixes of 2 to 8 bits, head of 6)",
    3: "turboderp-org/exllamav3 doc/exl3.md and doc/convert.md, 2025-2026 (trellises, head of 6)",
}
_MLX = (
    "ml-explore/mlx mlx.core.quantize and mlx.nn.quantize, 2025 (affine, groups of 64; linear and "
    "embedding layers)"
)
_GGUF_MIX = "ggml-org/llama.cpp src/llama-quant.cpp tensor type choices, 2026; block sizes: ggml"


#: Operations of a lane for a weight and row in AutoAWQ's kernel of one vector: mask, shift, two
#: conversions, zero point, scale, and a multiplication that adds (gemv_cuda.cu, 2023). Nothing in
#: it waits for memory, so that lanes are busy; within a fifth.
_VECTOR_OPERATIONS = 7.0


@lru_cache(maxsize=256)
def grouped_int4(id_: str, group_size: int, zero_points: bool) -> NumberFormat:
    """Four-bit integers with a 16-bit scale, and a 4-bit zero point if asked, per group.

    AWQ and GPTQ keep embeddings, head, norms and routers in 16 bit.

    References
    ----------
    Lin et al., AWQ, 2023, https://arxiv.org/abs/2306.00978; packing as in AutoAWQ's WQLinear
    (qweight 4 bit, qzeros 4 bit per group, scales 16 bit per group), whose GEMV packing is that of
    kernels for one row.
    """
    bits = 4.0 + (16.0 + (4.0 if zero_points else 0.0)) / group_size
    return NumberFormat(
        id_,
        bits,
        "bf16",
        "AutoAWQ WQLinear packing, 2023; arXiv:2306.00978",
        _ALL_LINEAR,
        widened_whole=id_.startswith("gptq"),
        widened_for_many=id_ == "awq-int4",
        repeats_table=id_.startswith("awq"),
        row_operations=_VECTOR_OPERATIONS if id_.endswith("gemv") else 0.0,
    )


class _Block(NamedTuple):
    """Bits per element of a ggml block: of its structure over its elements.

    ``ragged_bits`` are those of the block that stands in for one of 256 elements where that does
    not divide the rows of a matrix.
    """

    bits: float
    ragged_bits: float


def _mixed(*parts: tuple[float, _Block]) -> _Block:
    """What layers come to that store so large shares of a tensor in some blocks."""
    shares, blocks = zip(*parts, strict=True)
    means = (sum(map(mul, shares, each)) for each in zip(*blocks, strict=True))
    return _Block(*means)


def _halves(one: _Block, other: _Block) -> _Block:
    return _mixed((0.5, one), (0.5, other))


def _gguf(
    id_: str,
    block: _Block,
    head: _Block | None = None,
    embedding: _Block | None = None,
    fused: _Block | None = None,
    **tensors: _Block,
) -> NumberFormat:
    """A mix of llama.cpp's, with projections of queries, keys and values that are ``fused``."""
    of_class = {TensorClass.HEAD: head, TensorClass.EMBEDDING: embedding}
    if fused is not None:
        tensors |= dict.fromkeys(_FUSED_PROJECTIONS, fused)

    def stored(ragged: NumberFormat | None) -> NumberFormat:
        at = 0 if ragged else 1
        return NumberFormat(
            id_,
            block[at],
            "fp16",
            _GGML if head is None else _GGUF_MIX,
            _GGUF_MATRICES,
            remainder_bits=32.0,
            by_class_bits=MappingProxyType(
                {TensorClass.OTHER: 16.0}
                | {kind: one[at] for kind, one in of_class.items() if one is not None}
            ),
            by_tensor_bits=MappingProxyType({name: one[at] for name, one in tensors.items()}),
            widened_whole=True,
            super_blocks=id_.startswith("gguf-iq") or "_k" in id_,
            ragged=ragged,
        )

    return stored(stored(None))


def _exllama(generation: int, bits: float) -> NumberFormat:
    """A mix of ExLlama's that comes to a mean width of so many bits, scales included.

    Converters keep the head in six bits unless told otherwise, in eight where all else has as many.
    """
    return NumberFormat(
        f"exl{generation}-{bits}bpw",
        bits,
        "fp16",
        _EXL[generation],
        _ALL_LINEAR,
        by_class_bits=MappingProxyType({TensorClass.HEAD: 8.0 if bits >= 8.0 else 6.0}),
        widened_whole=True,
    )


def _mlx(bits: int) -> NumberFormat:
    """MLX's own format: groups of 64 with a scale and a bias of 16 bit, in all matrices."""
    return NumberFormat(f"mlx-{bits}bit", bits + (16.0 + 16.0) / 64.0, "bf16", _MLX, _GGUF_MATRICES)


def _first_eighth(first: _Block, rest: _Block) -> _Block:
    """A tensor that the first eighth of the layers stores otherwise than the rest."""
    return _mixed((1.0 / 8.0, first), (7.0 / 8.0, rest))


_Q8_0, _MXFP4 = _Block(8.5, 8.5), _Block(4.25, 4.25)
_Q4_0, _Q4_1, _Q5_0, _Q5_1, _IQ4_NL = (_Block(each, each) for each in (4.5, 5.0, 5.5, 6.0, 4.5))
_Q4_K, _Q5_K, _Q6_K = _Block(4.5, _Q5_0.bits), _Block(5.5, _Q5_1.bits), _Block(6.5625, _Q8_0.bits)
_Q2_K, _Q3_K, _IQ1_S, _IQ1_M, _IQ2_XXS, _IQ2_XS, _IQ2_S, _IQ3_XXS, _IQ3_S, _IQ4_XS = (
    _Block(each, _IQ4_NL.bits)
    for each in (2.625, 3.4375, 1.5625, 1.75, 2.0625, 2.3125, 2.5625, 3.0625, 3.4375, 4.25)
)

_FORMATS = (
    _plain("fp32", 32.0, "fp32"),
    _plain("tf32", 32.0, "tf32"),
    _plain("bf16", 16.0, "bf16"),
    _plain("fp16", 16.0, "fp16"),
    NumberFormat(
        "fp8",
        # DeepSeek-style blocks: one 32-bit scale per 128 × 128; per-tensor scales take less.
        8.0 + 32.0 / 16384.0,
        "fp8",
        "DeepSeek-V3 technical report, 2024, section 3.3, https://arxiv.org/abs/2412.19437",
        _ALL_LINEAR,
        # Caches scale a whole tensor by one constant.
        cache_bits_per_element=8.0,
        repeats_table=True,
    ),
    NumberFormat(
        "fp8-fbgemm",
        8.0,
        "fp8",
        "Grattafiori et al., The Llama 3 Herd of Models, 2024, section 6.2, "
        "https://arxiv.org/abs/2407.21783 (feed-forward matrices only, a scale a row)",
        _FEED_FORWARD,
        cache_bits_per_element=8.0,
    ),
    NumberFormat(
        "fp8-per-token-head", 8.0, "fp8", _VLLM_CACHE, _ALL_LINEAR, vector_scale_bytes=4.0
    ),
    NumberFormat(
        "int8-per-token-head", 8.0, "int8", _VLLM_CACHE, _ALL_LINEAR, vector_scale_bytes=4.0
    ),
    NumberFormat(
        "int8",
        8.0,
        "int8",
        "Xiao et al., SmoothQuant, 2022, https://arxiv.org/abs/2211.10438 (W8A8, scale a channel)",
        _ALL_LINEAR,
    ),
    grouped_int4("int4", 128, zero_points=False),
    grouped_int4("awq-int4", 128, zero_points=True),
    grouped_int4("awq-int4-gemv", 128, zero_points=True),
    grouped_int4("gptq-int4", 128, zero_points=True),
    NumberFormat(
        "gptq-int8",
        8.0 + (16.0 + 8.0) / 128.0,
        "bf16",
        "AutoGPTQ packing (qweight, qzeros, scales, group 128), 2023",
        _ALL_LINEAR,
        widened_whole=True,
    ),
    NumberFormat("mxfp4", 4.25, "mxfp8", _OCP_MX, _ALL_LINEAR, padded_experts=True),
    NumberFormat(
        "nvfp4",
        4.5,
        "fp4",
        "NVIDIA, Introducing NVFP4, 2025 (16-element blocks, 8-bit scale)",
        _ALL_LINEAR,
    ),
    NumberFormat(
        "bnb-nf4",
        4.0 + _DOUBLE_QUANT_BITS,
        "bf16",
        "Dettmers et al., QLoRA, 2023, section 3, https://arxiv.org/abs/2305.14314",
        _ALL_LINEAR,
        scale_bits=_DOUBLE_QUANT_BITS,
    ),
    NumberFormat(
        "bnb-nf4-single-quant",
        4.0 + _SINGLE_QUANT_BITS,
        "bf16",
        "Dettmers et al., QLoRA, 2023, section 3, https://arxiv.org/abs/2305.14314",
        _ALL_LINEAR,
        scale_bits=_SINGLE_QUANT_BITS,
    ),
    NumberFormat(
        "bnb-int8",
        8.0,
        "int8",
        "Dettmers et al., LLM.int8(), 2022, https://arxiv.org/abs/2208.07339",
        _ALL_LINEAR,
    ),
    _gguf("gguf-q8_0", _Q8_0),
    # llama.cpp's MXFP4_MOE: experts in MXFP4, all else in Q8_0.
    replace(
        _gguf("gguf-mxfp4", _MXFP4),
        by_class_bits=MappingProxyType(
            {TensorClass.OTHER: 16.0}
            | dict.fromkeys(_GGUF_MATRICES - {TensorClass.EXPERT}, _Q8_0.bits)
        ),
        ragged=None,
    ),
    _gguf("gguf-q6_k", _Q6_K),
    # The mixes store some layers of a tensor in more bits: half of the layers in the medium ones
    # of 4 and 5 bit, the first eighth or sixteenth in others.
    _gguf(
        "gguf-q5_k_m",
        _Q5_K,
        _Q6_K,
        fused=_Q6_K,
        v_proj=_halves(_Q5_K, _Q6_K),
        down_proj=_halves(_Q5_K, _Q6_K),
    ),
    _gguf("gguf-q5_k_s", _Q5_K, _Q6_K),
    _gguf(
        "gguf-q4_k_m",
        _Q4_K,
        _Q6_K,
        fused=_Q5_K,
        v_proj=_halves(_Q4_K, _Q6_K),
        down_proj=_halves(_Q4_K, _Q6_K),
    ),
    _gguf("gguf-q4_k_s", _Q4_K, _Q6_K, down_proj=_first_eighth(_Q5_K, _Q4_K)),
    _gguf("gguf-q5_1", _Q5_1, _Q6_K),
    _gguf("gguf-q5_0", _Q5_0, _Q6_K),
    _gguf("gguf-q4_1", _Q4_1, _Q6_K),
    _gguf("gguf-q4_0", _Q4_0, _Q6_K),
    _gguf("gguf-q3_k_l", _Q3_K, _Q6_K, fused=_Q4_K, v_proj=_Q5_K, down_proj=_Q5_K, o_proj=_Q5_K),
    _gguf(
        "gguf-q3_k_m",
        _Q3_K,
        _Q6_K,
        fused=_Q4_K,
        v_proj=_Q4_K,
        down_proj=_mixed((1.0 / 16.0, _Q5_K), (15.0 / 16.0, _Q4_K)),
        o_proj=_Q4_K,
    ),
    _gguf("gguf-q3_k_s", _Q3_K, _Q6_K),
    _gguf("gguf-q2_k", _Q2_K, _Q6_K, v_proj=_Q4_K, down_proj=_Q3_K, o_proj=_Q3_K),
    _gguf("gguf-q2_k_s", _Q2_K, _Q6_K, v_proj=_Q4_K, down_proj=_first_eighth(_Q4_K, _Q2_K)),
    # Mixes of codebook formats, as made with an importance matrix and for grouped queries.
    _gguf("gguf-iq4_nl", _IQ4_NL, _Q6_K, v_proj=_Q5_K),
    _gguf("gguf-iq4_xs", _IQ4_XS, _Q6_K, v_proj=_Q5_K),
    _gguf(
        "gguf-iq3_m",
        _IQ3_S,
        _Q6_K,
        fused=_Q4_K,
        v_proj=_Q4_K,
        o_proj=_Q4_K,
        down_proj=_first_eighth(_Q4_K, _IQ3_S),
    ),
    _gguf("gguf-iq3_s", _IQ3_S, _Q6_K, v_proj=_Q4_K),
    _gguf(
        "gguf-iq3_xs",
        _IQ3_S,
        _Q6_K,
        v_proj=_Q4_K,
        q_proj=_IQ3_XXS,
        k_proj=_IQ3_XXS,
        # The first and the last eighth of the layers keep the larger format.
        up_proj=_mixed((0.25, _IQ3_S), (0.75, _IQ3_XXS)),
    ),
    _gguf(
        "gguf-iq3_xxs",
        _IQ3_XXS,
        _Q5_K,
        _IQ3_S,
        v_proj=_Q4_K,
        q_proj=_IQ2_S,
        k_proj=_IQ2_S,
        o_proj=_IQ3_S,
    ),
    _gguf(
        "gguf-iq2_m",
        _IQ2_S,
        _Q5_K,
        _IQ3_S,
        v_proj=_Q4_K,
        o_proj=_IQ3_S,
        down_proj=_first_eighth(_IQ3_S, _IQ2_S),
    ),
    _gguf(
        "gguf-iq2_s",
        _IQ2_XS,
        _Q5_K,
        _IQ3_S,
        v_proj=_Q4_K,
        o_proj=_IQ3_S,
        down_proj=_first_eighth(_IQ3_S, _IQ2_XS),
    ),
    *(
        _gguf(id_, bits, _Q5_K, _Q2_K, v_proj=_Q4_K, down_proj=_first_eighth(_Q2_K, bits))
        for id_, bits in (("gguf-iq2_xs", _IQ2_XS), ("gguf-iq2_xxs", _IQ2_XXS))
    ),
    *(
        _gguf(
            id_,
            bits,
            _Q5_K,
            _Q2_K,
            v_proj=_Q4_K,
            o_proj=_IQ2_XXS,
            down_proj=_first_eighth(_Q2_K, bits),
        )
        for id_, bits in (("gguf-iq1_m", _IQ1_M), ("gguf-iq1_s", _IQ1_S))
    ),
    *(
        _exllama(2, bits)
        for bits in (2.25, 2.5, 3.0, 3.5, 3.75, 4.0, 4.25, 4.5, 4.65, 5.0, 5.5, 6.0, 6.5, 8.0)
    ),
    *(_exllama(3, bits) for bits in (2.0, 2.25, 2.5, 3.0, 3.5, 4.0, 5.0, 6.0, 8.0)),
    *(_mlx(bits) for bits in (2, 3, 4, 5, 6, 8)),
)

#: Every format that a request may name, by id.
NUMBER_FORMATS: Mapping[str, NumberFormat] = MappingProxyType({f.id: f for f in _FORMATS})
