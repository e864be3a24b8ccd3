"""Every input of an estimate moves a figure or a warning, those of objects within it, too."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.use_cases import USE_CASES
from tests.estimation.inputs import LABELS, Changes, inputs, unmoved

CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
    "torch_dtype": "bfloat16",
}
INDEX = {"metadata": {"total_size": 40_000_000_000}}
OWN = {
    "family": "nvidia-hopper",
    "figures": {
        "memory_bytes": 80e9,
        "memory_bandwidth_bytes_per_s": 3e12,
        "peak_bf16_flops_per_s": 9e14,
        "thermal_design_power_w": 700.0,
        "idle_power_w": 70.0,
        "scale_up_bandwidth_bytes_per_s": 4e11,
    },
}
MACHINE = {"like": "server-8"}
PLACE = {"parent": "aws/eu-north-1"}
TOWER = {
    "figures": {"pue_ratio": 1.2, "grid_gco2e_per_kwh": 300.0},
    "country": "DE",
    "cooling": {"wet_bulb_celsius": 15.0},
}
CARDS = {"like": "server-pcie-8"}
JOINED = CARDS | {
    "scale_up_link": "fabric",
    "figures": {"scale_up_bandwidth_bytes_per_s": 2e11},
}
SLOTS = CARDS | {
    "scale_up_link": "pcie-3-x16",
    "figures": {"scale_up_bandwidth_bytes_per_s": 1e10},
}
L40S = "nvidia-l40s-48gb"
TWO = {"accelerator_count": None, "parallelism": {"tensor": 2}}
EIGHT = {"accelerator_count": None, "parallelism": {"tensor": 8}}
TIER = {"serving.memory_tiers": [{"tier": "ddr5-8ch"}]}
DRAFTS = {"serving.speculative.draft_model": "meta-llama/Llama-3.2-1B"}
CROWDED = {
    "workload.concurrency": 4096,
    "workload.input_tokens": 16,
    "workload.output_tokens": 64,
}
IMAGES = {
    "model": "Qwen/Qwen2.5-VL-7B-Instruct",
    "workload.images_per_request": 2,
}
RATED = {"workload.requests_per_s": 5.0, "workload.concurrency": 1}

HARDWARE: Changes = {
    "accelerator": ({}, "nvidia-h200-sxm-141gb"),
    "accelerator.family": ({"accelerator": OWN}, "amd-cdna3"),
    "accelerator.figures": ({"accelerator": OWN}, OWN["figures"] | {"memory_bytes": 96e9}),
    "accelerator.form_factor": ({"accelerator": OWN}, "pcie"),
    "accelerator.memory_technology": ({"accelerator": OWN}, "GDDR6"),
    "accelerator.scale_up_link": ({"accelerator": OWN, "platform": SLOTS} | TWO, "nvlink-4"),
    "accelerator.scale_up_domain_accelerators": (
        {"accelerator": OWN} | EIGHT,
        2,
    ),
    "accelerator_count": ({"parallelism": None}, 16),
    "platform": ({}, "server-8"),
    "platform.like": ({"platform": MACHINE}, "workstation"),
    "platform.site_class": ({"platform": MACHINE, "region": "country/DE"}, "home"),
    "platform.accelerators": ({"platform": MACHINE}, 4),
    "platform.shared": ({"platform": CARDS, "accelerator": L40S} | TWO, False),
    "platform.integrated": ({"platform": MACHINE}, True),
    "platform.contains_accelerators": ({"platform": MACHINE}, True),
    "platform.peer_to_peer": ({"platform": CARDS, "accelerator": L40S} | TWO, False),
    "platform.scale_up_link": ({"platform": JOINED, "accelerator": L40S} | TWO, "pcie-3-x16"),
    "platform.scale_up_domain_accelerators": ({"platform": JOINED} | EIGHT, 2),
    "platform.figures": ({"platform": MACHINE}, {"host_idle_w": 200.0, "host_load_w": 900.0}),
    "power_limit_w": ({}, 400.0),
    "region": ({}, "aws/eu-central-1"),
    "region.parent": ({"region": PLACE}, "aws/eu-central-1"),
    "region.country": ({"region": TOWER, "compliance": {"on": "2026-11-21"}}, "FR"),
    "region.figures": ({"region": PLACE}, {"pue_ratio": 1.7}),
    "region.cooling.wet_bulb_celsius": ({"region": TOWER}, 5.0),
    "region.cooling.cycles_of_concentration": ({"region": TOWER}, 3.0),
    "region.cooling.evaporative_ratio": ({"region": TOWER}, 0.5),
    "facility.site_class": ({"region": "country/DE"}, "home"),
    "facility.pue_ratio": ({}, 1.9),
    "cost.instance": ({"region": "aws/us-east-1"}, "p5.4xlarge"),
    "cost.price_kind": ({"region": "aws/us-east-1"}, "spot"),
    "cost.usd_per_accelerator_hour": ({}, 1.5),
    "cost.purchase_usd_per_accelerator": ({}, 1e5),
    "cost.amortisation_years": ({"cost.purchase_usd_per_accelerator": 3e4}, 2.0),
    "cost.electricity_usd_per_kwh": ({"cost.purchase_usd_per_accelerator": 3e4}, 0.9),
    "cost.usd_per_tco2e": ({}, 100.0),
}
PARALLEL: Changes = {
    "parallelism.tensor": ({"parallelism": {"data": 2}, "accelerator_count": None}, 2),
    "parallelism.pipeline": ({"parallelism": {"data": 2}, "accelerator_count": None}, 2),
    "parallelism.data": ({"parallelism": {"data": 2}, "accelerator_count": None}, 8),
    "parallelism.context": ({"parallelism": {"data": 2}, "accelerator_count": None}, 2),
    "parallelism.expert": (
        {"model": "mistralai/Mixtral-8x7B-v0.1", "parallelism": {"tensor": 4, "data": 2}},
        4,
    ),
}

SERVED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8,
    "parallelism": {"data": 8},
    "region": "aws/eu-north-1",
    "workload": {"concurrency": 64},
}
SERVING: Changes = {
    "model": ({}, "Qwen/Qwen2.5-7B"),
    "model.config": ({"model": {"config": CONFIG}}, CONFIG | {"num_hidden_layers": 16}),
    "model.safetensors_index": ({"model": {"config": CONFIG}}, INDEX),
    "precision.weights": ({}, "fp8"),
    "precision.kv_cache": ({}, "fp8"),
    "precision.activations": ({"precision.weights": "fp8"}, "bf16"),
    "precision.group_size": ({"precision.weights": "int4"}, 32),
    "network_round_trip_s": ({}, 0.05),
    "period.requests": ({}, 1e6),
    "period.days": ({}, 30.0),
    "period.year": ({}, 2020),
    **{
        f"limits.{name}": (RATED, 10.0)
        for name in (
            *("ttft_s", "tpot_s", "e2e_s", "ttft_p50_s", "tpot_p50_s", "e2e_p50_s"),
            *("ttft_p95_s", "tpot_p95_s", "e2e_p95_s", "ttft_p99_s", "tpot_p99_s", "e2e_p99_s"),
        )
    },
    "limits.percentile": (RATED | {"limits.ttft_s": 1.0}, "p95"),
    "workload.task": ({}, "embed"),
    "workload.input_tokens": ({}, 512),
    "workload.input_tokens.mean": ({"workload.input_tokens": {"mean": 1e3, "p95": 2e3}}, 1500.0),
    "workload.input_tokens.p95": ({"workload.input_tokens": {"mean": 1e3, "p95": 2e3}}, 3e3),
    "workload.input_tokens.tokens": (
        {"workload.input_tokens": {"tokens": [1e3, 2e3], "shares": [1, 1]}},
        [1e3, 4e3],
    ),
    "workload.input_tokens.shares": (
        {"workload.input_tokens": {"tokens": [1e3, 2e3], "shares": [1, 1]}},
        [1, 3],
    ),
    "workload.output_tokens": ({}, 64),
    "workload.output_tokens.mean": ({"workload.output_tokens": {"mean": 1e2, "p95": 2e2}}, 150.0),
    "workload.output_tokens.p95": ({"workload.output_tokens": {"mean": 1e2, "p95": 2e2}}, 3e2),
    "workload.output_tokens.tokens": (
        {"workload.output_tokens": {"tokens": [1e2, 2e2], "shares": [1, 1]}},
        [1e2, 4e2],
    ),
    "workload.output_tokens.shares": (
        {"workload.output_tokens": {"tokens": [1e2, 2e2], "shares": [1, 1]}},
        [1, 3],
    ),
    "workload.images_per_request": (IMAGES, 4),
    "workload.image_width_px": (IMAGES, 512),
    "workload.image_height_px": (IMAGES, 512),
    "workload.audio_s": ({"model": "Qwen/Qwen2-Audio-7B-Instruct"}, 20.0),
    "workload.concurrency": ({}, 128),
    "workload.requests_per_s": ({}, 3.0),
    "workload.arrivals": ({}, "at_once"),
    "workload.beam_width": ({"serving.engine": "tensorrt-llm"}, 4),
    "workload.prefix_cached_ratio": ({}, 0.5),
    "workload.calls_per_task": ({}, 4),
    "workload.tool_s": ({"workload.calls_per_task": 4}, 1.0),
    "workload.context_growth_tokens": ({"workload.calls_per_task": 4}, 500),
    "workload.context_kept_cached": (
        {"workload.calls_per_task": 4, "workload.context_growth_tokens": 500},
        True,
    ),
    "accelerator.unified_memory": ({"accelerator": OWN} | TIER, True),
    "serving.engine": ({}, "sglang"),
    "serving.engine_version": ({}, "0.5.3"),
    "serving.backend": ({"serving.engine": "llama.cpp"}, "vulkan"),
    "serving.usage_context": ({}, "offline"),
    "serving.memory_utilization_ratio": ({}, 0.5),
    "serving.kv_block_tokens": ({}, 128),
    "serving.max_model_len": ({}, 8192),
    "serving.chunked_prefill_tokens": ({}, 512),
    "serving.max_running_sequences": ({}, 4),
    "serving.reserved_bytes": ({}, 1e10),
    "serving.enforce_eager": ({}, True),
    "serving.flash_attention": ({}, False),
    "serving.attention_density_ratio": ({}, 0.1),
    "serving.limit_mm_per_prompt": ({"model": "meta-llama/Llama-3.2-11B-Vision-Instruct"}, 8),
    "serving.speculative": ({}, {"acceptance_ratio": 0.8}),
    "serving.speculative.draft_model": (DRAFTS, "meta-llama/Llama-3.2-3B"),
    "serving.speculative.draft_model.config": (
        {"serving.speculative.draft_model": {"config": CONFIG}},
        CONFIG | {"num_hidden_layers": 16},
    ),
    "serving.speculative.draft_model.safetensors_index": (
        {"serving.speculative.draft_model": {"config": CONFIG}},
        INDEX,
    ),
    "serving.speculative.draft_precision.weights": (DRAFTS, "fp8"),
    "serving.speculative.draft_precision.kv_cache": (DRAFTS, "fp8"),
    "serving.speculative.draft_precision.activations": (
        DRAFTS | CROWDED | {"serving.speculative.draft_precision.weights": "fp8"},
        "bf16",
    ),
    "serving.speculative.draft_precision.group_size": (
        DRAFTS | {"serving.speculative.draft_precision.weights": "int4"},
        32,
    ),
    "serving.speculative.draft_tokens": (DRAFTS, 8),
    "serving.speculative.acceptance_ratio": (DRAFTS, 0.9),
    "serving.disaggregated": ({}, {}),
    "serving.disaggregated.prefill_replicas": ({"serving.disaggregated": {}}, 2),
    "serving.disaggregated.link_bytes_per_s": ({"serving.disaggregated": {}}, 1e9),
    "serving.memory_tiers": ({"serving.offload.weights_ratio": 0.3}, ["cxl-2.0-ddr5-direct"]),
    "serving.memory_tiers[].price_usd_per_gb": (
        {"serving.memory_tiers": [{"tier": "cxl-2.0-ddr5-direct"}]}
        | {"serving.offload.weights_ratio": 0.3},
        9.0,
    ),
    "serving.offload.weights_ratio": (TIER, 0.3),
    "serving.offload.kv_cache_ratio": (TIER, 0.3),
    "serving.offload.parked_sequences": (TIER, 5000),
    "serving.offload.overlap_ratio": (TIER | {"serving.offload.weights_ratio": 0.3}, 0.9),
    **{
        f"serving.memory_tiers[].{name}": (TIER | {"serving.offload.weights_ratio": 0.3}, value)
        for name, value in {
            "tier": "cxl-2.0-ddr5-direct",
            "units": 2,
            "capacity_bytes": 1e11,
            "shared_by": 64,
            "link_bytes_per_s": 1e9,
            "link_efficiency_ratio": 0.5,
            "energy_pj_per_bit": 20.0,
        }.items()
    },
}

TRAINED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "accelerator_count": 8,
    "parallelism": {"data": 8},
    "region": "aws/eu-north-1",
    "training": {"zero_stage": 3, "activation_checkpointing": "full", "tokens": 1e10},
}
LORA = {"training.method": "lora"}
BOFT = LORA | {"training.adapter": "boft"}
EXPERTS = {
    "model": "Qwen/Qwen3-235B-A22B",
    "accelerator_count": 64,
    "parallelism": {"data": 64, "expert": 64},
}
PIPELINE = {
    "parallelism": {"pipeline": 4, "data": 2},
    "training.gradient_accumulation_steps": 8,
    "training.zero_stage": 1,
}
FAR = {
    "training.offload.optimizer": "tier",
    "training.offload.memory_tier": {"tier": "cxl-2.0-ddr5-direct"},
}
FETCHED = FAR | {"training.offload.parameters": "tier"}
FILLED = {"training.micro_batch_size": 4}
TRAINING: Changes = {
    "accelerator.unified_memory": ({"accelerator": OWN, "training.offload.optimizer": "cpu"}, True),
    "model": ({}, "Qwen/Qwen2.5-7B"),
    "model.config": ({"model": {"config": CONFIG}}, CONFIG | {"num_hidden_layers": 16}),
    "model.safetensors_index": ({"model": {"config": CONFIG}}, INDEX),
    "year": ({}, 2020),
    "precision.weights": ({}, "fp32"),
    "precision.activations": ({}, "fp32"),
    "precision.kv_cache": ({}, "fp8"),
    "precision.group_size": ({"training.method": "qlora", "precision.weights": "int4"}, 32),
    **{
        f"training.{name}": ({}, value)
        for name, value in {
            "method": "lora",
            "trained_tensors": "lm_head",
            "optimizer": "adamw-8bit",
            "optimizer_in_backward": True,
            "optimizer_state_dtype": "bf16",
            "master_weights": False,
            "gradient_dtype": "fp32",
            "prediction_layers": 1,
            "gradient_sum_dtype": "fp32",
            "micro_batch_size": 2,
            "gradient_accumulation_steps": 4,
            "global_batch_size": 64,
            "global_batch_tokens": 1e6,
            "sequence_length": 2048,
            "packed_document_tokens": 512.0,
            "activation_checkpointing": "none",
            "checkpoint_every": 4,
            "recomputed_layers": 8,
            "attention": "eager",
            "fused_kernels": False,
            "dropout": True,
            "cross_entropy": "fused",
            "zero_stage": 1,
            "data_parallel_shard_degree": 2,
            "weight_gather_dtype": "int8",
            "gradient_scatter_dtype": "int4",
            "persistent_elements": 1_000_000,
            "expandable_segments": True,
            "memory_reserve_ratio": 0.3,
            "framework": "torchtitan",
            "tokens": 2e10,
            "mfu_ratio": 0.3,
        }.items()
    },
    "training.trained_tensors": (LORA, "lm_head"),
    "training.lora_rank": (LORA, 64),
    "training.lora_targets": (LORA, "q_proj,v_proj"),
    "training.adapter": (LORA, "dora"),
    "training.adapter_dtype": (LORA, "fp32"),
    "training.adapter_dropout": (LORA | {"training.activation_checkpointing": "none"}, True),
    "training.virtual_tokens": (LORA | {"training.adapter": "prefix"}, 200),
    "training.boft_block_size": (BOFT, 8),
    "training.boft_factors": (BOFT, 2),
    "training.optimizer_rank": ({"training.optimizer": "galore-adamw"}, 256),
    "training.cross_entropy_chunk_tokens": ({"training.cross_entropy": "fused"}, 4096),
    "training.sequence_parallel": (
        {"parallelism": {"tensor": 8}, "training.activation_checkpointing": "none"},
        False,
    ),
    "training.fp8_recipe": ({"precision": {"weights": "bf16", "activations": "fp8"}}, "rowwise"),
    "training.expert_dispatch": (EXPERTS, "per-machine"),
    "training.expert_machines": (EXPERTS | {"training.expert_dispatch": "per-machine"}, 1),
    "training.expert_overlap_ratio": (EXPERTS, 1.0),
    "training.secondary_shard_degree": ({"accelerator_count": 8, "training.zero_stage": 3}, 4),
    "training.expert_capacity_factor": (EXPERTS, 0.5),
    "training.expert_padding": (EXPERTS | {"training.expert_capacity_factor": 1.5}, True),
    "training.pipeline_schedule": (PIPELINE, "gpipe"),
    "training.virtual_stages": (PIPELINE | {"training.pipeline_schedule": "interleaved"}, 2),
    "training.framework_version": ({"training.framework": "megatron-lm"}, "0.8"),
    "training.sequence_lengths.mean": (
        FILLED | {"training.sequence_lengths": {"mean": 1e3, "p95": 2e3}},
        1500.0,
    ),
    "training.sequence_lengths.p95": (
        FILLED | {"training.sequence_lengths": {"mean": 1e3, "p95": 2e3}},
        3e3,
    ),
    "training.sequence_lengths.tokens": (
        FILLED | {"training.sequence_lengths": {"tokens": [1e3, 2e3], "shares": [1, 1]}},
        [1e3, 4e3],
    ),
    "training.sequence_lengths.shares": (
        FILLED | {"training.sequence_lengths": {"tokens": [1e3, 2e3], "shares": [1, 1]}},
        [1, 3],
    ),
    "training.offload.optimizer": ({}, "cpu"),
    "training.offload.parameters": ({}, "cpu"),
    "training.offload.activations": ({}, "cpu"),
    "training.offload.host_memory_bytes": ({"training.offload.optimizer": "cpu"}, 1e9),
    **{
        f"training.offload.memory_tier.{name}": (FAR, value)
        for name, value in {
            "tier": "ddr5-8ch",
            "units": 2,
            "capacity_bytes": 1e9,
            "shared_by": 64,
            "price_usd_per_gb": 9.0,
            "energy_pj_per_bit": 20.0,
        }.items()
    },
    **{
        f"training.offload.memory_tier.{name}": (
            FETCHED,
            value,
        )
        for name, value in {"link_bytes_per_s": 1e9, "link_efficiency_ratio": 0.01}.items()
    },
    "training.offload.memory_tier": (FAR, "ddr5-8ch"),
    "training.failures.per_accelerator_day": ({}, 0.1),
    "training.failures.checkpoint_interval_s": ({}, 60.0),
    "training.failures.checkpoint_write_s": ({}, 100.0),
    "training.failures.restart_s": ({"training.failures.per_accelerator_day": 0.1}, 9000.0),
    "training.failures.other_losses_ratio": ({}, 0.3),
}

CASES: dict[str, tuple[dict[str, Any], Changes, set[str]]] = {
    "estimates/inference": (SERVED, SERVING | PARALLEL | HARDWARE, LABELS),
    "estimates/training": (TRAINED, PARALLEL | HARDWARE | TRAINING, LABELS),
}


@pytest.mark.parametrize("question", CASES)
def test_every_input_moves_a_figure_or_a_warning(packaged_snapshot, question):
    base, changes, left = CASES[question]
    # What facts do to verdicts is perturbed where rules alone are asked about.
    asked = inputs(USE_CASES[question].request, frozenset({"compliance"}))
    assert set(changes) >= asked - left
    assert unmoved(question, base, changes, packaged_snapshot) == []
