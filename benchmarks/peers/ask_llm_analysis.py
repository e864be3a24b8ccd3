"""Asks llm-analysis; runs in its environment.

Its efficiencies are the caller's to state. None is known before a measurement, so that its own
defaults stand: peak compute, memory and links.
"""

import contextlib
import io
import json
import warnings
from pathlib import Path

warnings.simplefilter("ignore")

from llm_analysis.analysis import infer, train  # noqa: E402

CARDS = {
    "nvidia-a100-sxm-40gb": "a100-sxm-40gb",
    "nvidia-a100-sxm-80gb": "a100-sxm-80gb",
    "nvidia-a100-pcie-40gb": "a100-pcie-40gb",
    "nvidia-a100-pcie-80gb": "a100-pcie-80gb",
    "nvidia-h100-sxm-80gb": "h100-sxm-80gb",
    # The same chip with other memory.
    "nvidia-h100-sxm-96gb-hbm2e": "h100-sxm-80gb",
    "nvidia-h100-pcie-80gb": "h100-pcie-80gb",
    "nvidia-a10g-24gb": "a10g-pcie-24gb",
    "nvidia-rtx-a6000-48gb": "a6000-48gb",
    "nvidia-v100-sxm2-16gb": "v100-sxm-16gb",
    "nvidia-v100-sxm2-32gb": "v100-sxm-32gb",
}
FORMATS = {"bf16": "w16a16e16", "fp16": "w16a16e16", "int8": "w8a16e16"}
RECOMPUTED = {"none": 0, "selective": 1, "full": 2}


def answer(question: dict, folder: Path) -> float | None:
    """The measured figure as llm-analysis estimates it, in SI units; None if it does not."""
    shape = question["shape"]
    card = CARDS.get(question["accelerator"])
    if shape is None or card is None or shape["head_dim"] * shape["heads"] != shape["hidden"]:
        return None
    served = question["kind"] == "inference"
    # For inference it knows two matrices a block: three of a gated block are 1.5 times as wide.
    width = shape["intermediate"] * (1.5 if served and shape["gated"] else 1.0)
    path = folder / "asked.json"
    path.write_text(
        json.dumps(
            {
                "name": f"asked {hash(json.dumps(shape))}",
                "num_layers": shape["layers"],
                "n_head": shape["heads"],
                "hidden_dim": shape["hidden"],
                "vocab_size": shape["vocab"],
                "max_seq_len": 131072,
                "num_key_value_heads": shape["kv_heads"],
                "ffn_embed_dim": round(width),
                "expansion_ratio": width / shape["hidden"],
                "model_type": "llama",
                "moe_num_experts": shape["experts"],
                "moe_top_k": shape["experts_per_token"],
            }
        )
    )
    ask = _served if served else _trained
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            return ask(question, str(path), card)
    except (Exception, SystemExit):  # whatever it raises, it has no answer
        return None


def _served(question: dict, path: str, card: str) -> float | None:
    name = FORMATS.get(question["weights"].split(":")[0])
    if name is None:
        return None
    batch = max(round(question["concurrency"]), 1)
    tokens = max(round(question["output_tokens"]), 2)
    found = infer(
        path,
        card,
        name,
        "ERROR",
        batch_size_per_gpu=batch,
        tp_size=question["tensor"],
        pp_size=question["pipeline"],
        seq_len=round(question["input_tokens"]),
        num_tokens_to_generate=tokens,
    )
    seconds = found["decode_latency"]
    quantity = question["quantity"]
    if quantity in ("itl_p50_s", "tpot_s", "tpot_p50_s"):
        return seconds
    if quantity in ("decode_tokens_per_s", "request_tokens_per_s"):
        return 1.0 / seconds
    if quantity == "output_tokens_per_s":
        return batch * tokens * question["data"] / found["total_latency"]
    if quantity == "prefill_tokens_per_s":
        return question["input_tokens"] * batch / found["prefill_latency"]
    return None


def _trained(question: dict, path: str, card: str) -> float | None:
    recomputed = RECOMPUTED.get(question["checkpointing"])
    if question["method"] != "full" or question["optimizer"] != "adamw" or recomputed is None:
        return None
    sequences = max(round(question["sequences"]), 1)
    found = train(
        path,
        card,
        "w16a16e16",
        "ERROR",
        batch_size_per_gpu=sequences,
        gradient_accumulation_steps=question["accumulation"],
        seq_len=round(question["tokens"]),
        total_num_tokens=round(1e12),
        activation_recomputation=recomputed,
        ds_zero=question["zero_stage"],
        dp_size=question["data"],
        tp_size=question["tensor"],
        pp_size=question["pipeline"],
        flash_attn=question["flash"],
        mlp_gated_linear_units=question["shape"]["gated"],
    )
    if question["quantity"].endswith("_bytes"):
        held = found["weight_memory_per_gpu"] + found["gradient_memory_per_gpu"]
        held += found["optimizer_state_memory_per_gpu"] + found["activation_memory_per_gpu"]
        ranks = question["tensor"] * question["pipeline"] * question["data"]
        return held * (ranks if question["quantity"].endswith("_total_bytes") else 1)
    step_s = found["latency_per_iter"]
    tokens = sequences * question["tokens"] * question["accumulation"]
    if question["quantity"] == "step_s":
        return step_s
    if question["quantity"] == "tokens_per_s_per_accelerator":
        return tokens / step_s / (question["tensor"] * question["pipeline"])
    if question["quantity"] == "samples_per_s":
        return sequences * question["accumulation"] * question["data"] / step_s
    return None
