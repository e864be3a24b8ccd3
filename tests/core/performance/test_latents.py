"""Latents: expanded for prompts, attended to as they are kept in decoding."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.core.architecture.config import parse_config
from service.core.deployment import Parallelism, Precision
from service.core.number_formats import NUMBER_FORMATS
from service.core.performance.release_kernels import expands_latents
from service.core.performance.step import step_time
from service.core.performance.steps import StepLoad, StepTime
from service.core.performance.work import RankWork, rank_work
from tests.core.deployments import CALIBRATION, H100

BF16 = NUMBER_FORMATS["bf16"]
HEADS, LAYERS, LATENT, ROPE, NOPE, VALUE = 16, 27, 512, 64, 128, 128
#: The attention of DeepSeek-V2 Lite, with dense layers.
LITE = {
    "model_type": "deepseek_v2",
    "hidden_size": 2048,
    "intermediate_size": 10944,
    "moe_intermediate_size": 1408,
    "num_hidden_layers": LAYERS,
    "first_k_dense_replace": LAYERS,
    "n_routed_experts": 64,
    "n_shared_experts": 2,
    "num_experts_per_tok": 6,
    "num_attention_heads": HEADS,
    "num_key_value_heads": HEADS,
    "kv_lora_rank": LATENT,
    "q_lora_rank": None,
    "qk_nope_head_dim": NOPE,
    "qk_rope_head_dim": ROPE,
    "v_head_dim": VALUE,
    "vocab_size": 102400,
}
PROMPT = StepLoad(4096.0, 1.0, 2048.0, 0.0, 0.0)
DECODING = StepLoad(0.0, 0.0, 0.0, 16.0, 4096.0)
BOTH = StepLoad(4096.0, 1.0, 2048.0, 16.0, 4096.0)


def work() -> RankWork:
    return rank_work(parse_config(LITE), Precision(BF16, BF16, BF16), Parallelism())


def step(load: StepLoad, expands: bool) -> StepTime:
    engine = replace(CALIBRATION.engine, expands_latents=expands)
    calibration = replace(CALIBRATION, engine=engine)
    return step_time(work(), load, H100, Parallelism(), calibration)


def test_a_prompt_attends_by_heads_of_their_own_size():
    pairs = 4096.0 * 2048.0
    kept = 2.0 * LAYERS * HEADS * (LATENT + ROPE + LATENT)
    expanded = 2.0 * LAYERS * HEADS * (NOPE + ROPE + VALUE)
    saved = step(PROMPT, False).flops - step(PROMPT, True).flops
    assert saved == pytest.approx((kept - expanded) * pairs)
    assert step(PROMPT, True).total_s < step(PROMPT, False).total_s


def test_decoding_attends_to_latents_as_they_are_kept():
    assert step(DECODING, True) == step(DECODING, False)
    # Beside a prompt, too.
    prompt, both = step(PROMPT, True), step(BOTH, True)
    attended = 16.0 * 4096.0 * 2.0 * LAYERS * HEADS * (LATENT + ROPE + LATENT)
    alone = (
        step(DECODING, True).flops - step(replace(DECODING, decode_context_tokens=0.0), True).flops
    )
    assert alone == pytest.approx(attended)
    without = step(replace(BOTH, decode_context_tokens=0.0), True)
    assert both.flops - without.flops == pytest.approx(attended)
    assert both.flops > prompt.flops


def test_what_is_chosen_token_by_token_is_attended_to_as_it_is_kept():
    indexed = LITE | {
        "model_type": "deepseek_v32",
        "q_lora_rank": 1536,
        "index_head_dim": 128,
        "index_n_heads": 64,
        "index_topk": 2048,
    }
    made = rank_work(parse_config(indexed), Precision(BF16, BF16, BF16), Parallelism())
    assert all(one.of_prompts(True) == one.flops_per_pair for one in made.attention)
    # Keys of the index are compared in 8 bits, at twice the rate where there are units for them.
    [index] = [one for one in made.attention if one.operands == "fp8"]
    without = replace(
        H100, peak_flops_per_s={"bf16": H100.peak_flops_per_s["bf16"], "fp32": 66.9e12}
    )
    alone = replace(made, attention=(index,), products=())
    fast, slow = (
        step_time(alone, PROMPT, one, Parallelism(), CALIBRATION).compute_s
        for one in (H100, without)
    )
    assert slow == pytest.approx(2.0 * fast, rel=1e-3)


def test_servers_expand_them_and_llama_cpp_does_not():
    assert all(map(expands_latents, ("vllm@v1", "sglang", "tensorrt-llm@1.x")))
    assert not expands_latents("llama.cpp@2026")
