"""Architectures built by hand from published shapes, for checks against published figures."""

from service.core.architecture.model import (
    Attention,
    DenseFeedForward,
    LatentAttention,
    LayerGroup,
    MixtureOfExperts,
    ModelArchitecture,
    Span,
    StateMixer,
)
from service.core.architecture.tensors import Shard, Tensor, TensorClass
from service.core.deployment import Accelerator, Link


def attention(hidden, heads, kv_heads, head_dim, span=Span.FULL, window=None, bias=False):
    kind = TensorClass.ATTENTION
    tensors = (
        Tensor("q_proj", kind, hidden, heads * head_dim, Shard.COLUMN),
        Tensor("k_proj", kind, hidden, kv_heads * head_dim, Shard.KV_HEADS),
        Tensor("v_proj", kind, hidden, kv_heads * head_dim, Shard.KV_HEADS),
        Tensor("o_proj", kind, heads * head_dim, hidden, Shard.ROW),
    )
    if bias:
        width = (heads + 2 * kv_heads) * head_dim
        tensors += (Tensor("qkv_bias", TensorClass.BIAS, 1, width, Shard.COLUMN),)
    return Attention(heads, kv_heads, head_dim, head_dim, span, window, False, tensors)


def feed_forward(hidden, intermediate, gated=True):
    kind = TensorClass.DENSE_FFN
    tensors = (
        Tensor("up_proj", kind, hidden, intermediate, Shard.COLUMN),
        Tensor("down_proj", kind, intermediate, hidden, Shard.ROW),
    )
    if gated:
        tensors = (Tensor("gate_proj", kind, hidden, intermediate, Shard.COLUMN), *tensors)
    return DenseFeedForward(intermediate, gated, tensors)


def experts(hidden, intermediate, count, per_token, shared=0):
    kind = TensorClass.EXPERT
    tensors = (
        Tensor("gate", TensorClass.ROUTER, hidden, count, Shard.REPLICATED),
        Tensor("experts.gate_proj", kind, hidden, intermediate, Shard.EXPERT_COLUMN, count),
        Tensor("experts.up_proj", kind, hidden, intermediate, Shard.EXPERT_COLUMN, count),
        Tensor("experts.down_proj", kind, intermediate, hidden, Shard.EXPERT_ROW, count),
    )
    if shared:
        kind = TensorClass.SHARED_EXPERT
        tensors += (
            Tensor("shared.gate_proj", kind, hidden, shared, Shard.COLUMN),
            Tensor("shared.up_proj", kind, hidden, shared, Shard.COLUMN),
            Tensor("shared.down_proj", kind, shared, hidden, Shard.ROW),
        )
    return MixtureOfExperts(count, per_token, intermediate, shared, True, tensors)


def latent_attention(indexer=False):
    """The mixer of DeepSeek-V3, and with an indexer that of V3.2."""
    kind = TensorClass.ATTENTION
    tensors = (
        Tensor("q_a_proj", kind, 7168, 1536, Shard.REPLICATED),
        Tensor("q_b_proj", kind, 1536, 128 * 192, Shard.COLUMN),
        Tensor("kv_a_proj_with_mqa", kind, 7168, 576, Shard.REPLICATED),
        Tensor("kv_b_proj", kind, 512, 128 * 256, Shard.COLUMN),
        Tensor("o_proj", kind, 128 * 128, 7168, Shard.ROW),
    )
    index = (128, 2048) if indexer else (None, None)
    return LatentAttention(128, 1536, 512, 128, 64, 128, *index, tensors)


def state_mixer(hidden, heads, recurrent, convolution):
    tensors = (Tensor("in_proj", TensorClass.STATE, hidden, 2 * hidden, Shard.COLUMN),)
    return StateMixer("mamba2", heads, recurrent, convolution, 0.0, tensors)


def layers(count, mixer, ffn, hidden):
    norms = (Tensor("norms", TensorClass.NORM, 1, 2 * hidden, Shard.REPLICATED),)
    return LayerGroup(count, mixer, ffn, norms)


def model(hidden, vocab, groups, tied=False, max_position=None):
    table = Tensor("embed_tokens", TensorClass.EMBEDDING, hidden, vocab, Shard.VOCABULARY)
    norm = Tensor("norm", TensorClass.NORM, 1, hidden, Shard.REPLICATED)
    head = Tensor("lm_head", TensorClass.HEAD, hidden, vocab, Shard.VOCABULARY)
    return ModelArchitecture(
        model_type="handmade",
        hidden_size=hidden,
        vocab_size=vocab,
        max_position_embeddings=max_position,
        tied_embeddings=tied,
        groups=tuple(groups),
        embedding=(table,),
        head=(norm,) if tied else (norm, head),
    )


def dense(
    depth, hidden, heads, kv_heads, intermediate, vocab, head_dim=None, gated=True, tied=False,
    bias=False, max_position=None,
):  # fmt: skip
    mixer = attention(hidden, heads, kv_heads, head_dim or hidden // heads, bias=bias)
    group = layers(depth, mixer, feed_forward(hidden, intermediate, gated), hidden)
    return model(hidden, vocab, [group], tied, max_position)


LLAMA_2_7B = dense(32, 4096, 32, 32, 11008, 32000)
LLAMA_3_8B = dense(32, 4096, 32, 8, 14336, 128256, max_position=8192)
LLAMA_31_70B = dense(80, 8192, 64, 8, 28672, 128256, max_position=131072)
# Round shapes of the checks: "7B" and "13B" with multi-head attention.
MHA_13B = dense(40, 5120, 40, 40, 13824, 32000)
MQA_13B = dense(40, 5120, 40, 1, 13824, 32000)
DEEPSEEK_V3 = model(
    7168,
    129280,
    [
        layers(3, latent_attention(), feed_forward(7168, 18432), 7168),
        layers(58, latent_attention(), experts(7168, 2048, 256, 8, 2048), 7168),
    ],
)
GEMMA_3_27B = model(
    5376,
    262208,
    [
        layers(
            52,
            attention(5376, 32, 16, 128, Span.SLIDING, 1024),
            feed_forward(5376, 21504),
            5376,
        ),
        layers(10, attention(5376, 32, 16, 128), feed_forward(5376, 21504), 5376),
    ],
    tied=True,
    max_position=131072,
)


def accelerator(memory_bytes=80e9):
    return Accelerator(
        id="test-80gb",
        name="Test 80 GB",
        vendor="test",
        family="nvidia-hopper",
        memory_bytes=memory_bytes,
        memory_bandwidth_bytes_per_s=3.35e12,
        peak_flops_per_s={"bf16": 989e12},
        scale_up=Link(450e9, 1e-6),
        scale_up_domain_accelerators=8,
        scale_out=None,
        host_link_bandwidth_bytes_per_s=None,
        thermal_design_power_w=700.0,
        idle_power_w=None,
        embodied_kgco2e=None,
    )
