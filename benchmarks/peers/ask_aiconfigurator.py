"""Asks aiconfigurator; runs in its environment."""

import hashlib
import json
import logging
import warnings
from pathlib import Path

warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)

from aiconfigurator.cli.api import cli_estimate  # noqa: E402

SYSTEMS = {
    "nvidia-a100-sxm-80gb": "a100_sxm",
    "nvidia-h100-sxm-80gb": "h100_sxm",
    "nvidia-h200-sxm-141gb": "h200_sxm",
    "nvidia-b200-sxm-180gb": "b200_sxm",
    "nvidia-l40s-48gb": "l40s",
}
BACKENDS = {"vllm": "vllm", "vllm@before-0.6": "vllm", "tensorrt-llm": "trtllm", "sglang": "sglang"}
PRODUCTS = {
    "bf16": "bfloat16",
    "fp16": "bfloat16",
    "fp8": "fp8",
    "int8": "int8_wo",
    "awq-int4": "int4_wo",
    "gptq-int4": "int4_wo",
    "int4": "int4_wo",
    "nvfp4": "nvfp4",
}
CLASSES = {
    "llama": "LlamaForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "llama4": "Llama4ForConditionalGeneration",
}
CACHES = {"bf16": "bfloat16", "fp16": "bfloat16", "fp8": "fp8", "int8": "int8"}


def answer(question: dict, folder: Path) -> float | None:
    """The measured figure as aiconfigurator estimates it, in SI units; None if it has no data."""
    if question["kind"] != "inference" or not question["config"]:
        return None
    system = SYSTEMS.get(question["accelerator"])
    backend = BACKENDS.get(question["engine"])
    product = PRODUCTS.get(question["weights"].split(":")[0])
    cache = CACHES.get(question["kv_cache"])
    architecture = CLASSES.get(question["config"].get("model_type"))
    if None in (system, backend, product, cache, architecture):
        return None
    config = question["config"] | {"architectures": [architecture]}
    # It remembers configurations by their path.
    written = json.dumps(config, sort_keys=True)
    folder = folder / hashlib.sha256(written.encode()).hexdigest()
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(written)
    experts = {"moe_tp_size": question["tensor"] // question["expert"]}
    experts["moe_ep_size"] = question["expert"]
    try:
        found = cli_estimate(
            str(folder),
            system,
            backend_name=backend,
            isl=round(question["input_tokens"]),
            osl=round(question["output_tokens"]),
            batch_size=max(round(question["concurrency"]), 1),
            tp_size=question["tensor"],
            pp_size=question["pipeline"],
            gemm_quant_mode=product,
            kvcache_quant_mode=cache,
            **(experts if (question["shape"] or {}).get("experts", 2) > 1 else {}),
        )
    except Exception:  # whatever it raises, it has no answer
        return None
    quantity = question["quantity"]
    if quantity in ("itl_p50_s", "tpot_s", "tpot_p50_s"):
        return float(found.tpot) / 1000.0
    if quantity in ("decode_tokens_per_s", "request_tokens_per_s"):
        return 1000.0 / float(found.tpot)
    if quantity == "output_tokens_per_s":
        return float(found.raw["tokens/s"]) * question["data"]
    return None
