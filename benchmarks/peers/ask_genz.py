"""Asks GenZ; runs in its environment."""

import contextlib
import io
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

from GenZ.LLM_inference import decode_moddeling, prefill_moddeling  # noqa: E402
from GenZ.Models import ModelConfig  # noqa: E402

SYSTEMS = {
    "nvidia-a100-sxm-40gb": "A100_40GB_GPU",
    "nvidia-a100-sxm-80gb": "A100_80GB_GPU",
    "nvidia-h100-sxm-80gb": "H100_GPU",
    "amd-mi300x-192gb": "MI300X",
}
BITS = {"bf16": "bf16", "fp16": "bf16", "fp8": "fp8", "int8": "int8"}


def answer(question: dict, _: Path) -> float | None:
    """The measured figure as GenZ estimates it, in SI units; None if it does not model it."""
    shape = question["shape"]
    system = SYSTEMS.get(question["accelerator"])
    bits = BITS.get(question["weights"].split(":")[0])
    if question["kind"] != "inference" or None in (shape, system, bits):
        return None
    model = ModelConfig(
        model="asked",
        vocab_size=shape["vocab"],
        hidden_size=shape["hidden"],
        intermediate_size=shape["intermediate"],
        num_ffi=2 if shape["gated"] else 1,
        num_decoder_layers=shape["layers"],
        num_attention_heads=shape["heads"],
        head_dim=shape["head_dim"],
        num_key_value_heads=shape["kv_heads"],
        num_experts=shape["experts"],
        expert_top_k=shape["experts_per_token"],
        moe_intermediate_size=shape["intermediate"] if shape["experts"] > 1 else None,
    )
    around = {
        "model": model,
        "batch_size": max(round(question["concurrency"]), 1),
        "input_tokens": round(question["input_tokens"]),
        "system_name": system,
        "bits": bits,
        "tensor_parallel": question["tensor"],
        "pipeline_parallel": question["pipeline"],
        "parallelism_heirarchy": f"TP{{{question['tensor']}}}_EP{{1}}_PP{{{question['pipeline']}}}",
    }
    quantity = question["quantity"]
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            if quantity == "prefill_tokens_per_s":
                milliseconds = prefill_moddeling(**around)["Latency"]
                return around["batch_size"] * around["input_tokens"] / milliseconds * 1000.0
            tokens = round(question["output_tokens"])
            seconds = decode_moddeling(**around, output_tokens=tokens, Bb=1)["Latency"] / 1000.0
    except Exception:  # whatever it raises, it has no answer
        return None
    if quantity in ("itl_p50_s", "tpot_s", "tpot_p50_s"):
        return seconds
    if quantity in ("decode_tokens_per_s", "request_tokens_per_s"):
        return 1.0 / seconds
    if quantity == "output_tokens_per_s":
        return around["batch_size"] * question["data"] / seconds
    return None
