"""Every input of a search and of a chart moves a figure or a warning, or is refused with a reason.

What chooses accelerators, places and models is small here, so that a search takes a moment.
"""

from __future__ import annotations

from typing import Any

import pytest

from service.charts.frame import style_of
from service.estimation.charts.kinds import CHART_KINDS
from service.estimation.inference.requests import InferenceRequest
from service.estimation.plans.requests import FleetPlanRequest
from service.estimation.projections.requests import ProjectionRequest
from service.estimation.recommendations.requests import RecommendationRequest
from service.estimation.training.requests import TrainingRequest
from service.estimation.use_cases import USE_CASES
from tests.estimation.inputs import (
    ECHOED,
    LABELS,
    NOT_FIGURES,
    TOLD,
    Changes,
    inputs,
    put,
    unmoved,
)

H100, H200, L4 = "nvidia-h100-sxm-80gb", "nvidia-h200-sxm-141gb", "nvidia-l4-24gb"
US, DE = "country/US", "country/DE"

#: What answers repeat of limits, weights and settings beside what follows from them.
REPEATED = ECHOED | {"limits", "weights", "workload_kind", "request", "start"}
REPEATED |= {"threshold", "weight_ratio"}

#: What both searches take.
PLACED: Changes = {
    "list_prices": ({"search.regions": ["aws/us-east-1"]}, False),
    "usd_per_accelerator_hour": ({}, {H100: 9.0}),
    "platform": ({}, "server-pcie"),
    "power_limit_w": ({}, 400.0),
    "facility.pue_ratio": ({}, 1.6),
    "facility.site_class": ({}, "home"),
    "weights.headroom": ({"weights": {"cost": 1.0}}, 0.5),
    "weights.latency": ({"weights": {"cost": 1.0}}, 0.5),
    "weights.carbon": ({"weights": {"cost": 1.0}}, 0.5),
    "weights.water": ({"weights": {"cost": 1.0}}, 0.5),
    "weights.energy": ({"weights": {"cost": 1.0}}, 0.5),
    "weights.cost": ({"weights": {"latency": 1.0}}, 0.5),
    "ownership.amortisation_years": ({}, 2.0),
    "ownership.electricity_usd_per_kwh": ({}, 0.5),
    "ownership.purchase_usd_per_accelerator": ({}, {H100: 9e4}),
    "search.accelerators": ({}, [H200]),
    "search.include_unmeasured": (
        {"search": {"where": ["laptop"], "regions": [DE], "max_accelerators": 1}},
        True,
    ),
    "search.max_accelerators": ({}, 1),
    "search.placement": (
        {"search.regions": ["aws/us-east-1", "aws/eu-central-2"]},
        "anywhere",
    ),
    "search.precisions": ({}, ["fp8"]),
    "search.regions": ({}, ["country/PL"]),
    "search.where": (
        {"search.accelerators": [H100, "nvidia-rtx-4090-24gb"], "search.where": ["owned"]},
        ["workstation"],
    ),
    "search.without_regions": ({"search.regions": [US, DE]}, [DE]),
    "limits.headroom_ratio_at_least": ({}, 0.9),
    "limits.it_power_w": ({}, 600.0),
    "limits.usd_per_hour": ({}, 1.0),
    "limits.usd_per_month": ({}, 500.0),
    "limits.water_stress_ratio": ({"search.regions": [US, DE]}, 0.5),
    "limits.weight_bits_at_least": ({"search.precisions": None}, 12.0),
    "limits.implied": ({}, False),
    "limits.site.rack_kw": ({}, 5.0),
    "limits.site.accelerators_per_rack": ({"limits.site": {"rack_kw": 5.0}}, 2),
    "limits.site.facility_power_w": ({}, 600.0),
    **{
        f"limits.site.noise.{name}": (
            {
                "limits.site": {
                    "noise": {
                        "at_most_db": 45.0,
                        "receptor_distance_m": 50.0,
                        "machine_sound_power_db": 95.0,
                    }
                }
            },
            value,
        )
        for name, value in {
            "at_most_db": 20.0,
            "barrier_db": 30.0,
            "building_loss_db": 5.0,
            "machine_sound_power_db": 120.0,
            "propagation": "line",
            "receptor_distance_m": 2.0,
        }.items()
    },
    "limits.compliance.require": (
        {"limits.compliance": {"on": "2027-11-22", "it_power_kw": 1000.0, "pue_ratio": 1.9}},
        "pass",
    ),
}
#: Machines and models that are given whole, facts of rules and the caller's own plan are perturbed
#: where they are asked about alone.
ELSEWHERE = frozenset({"model", "models", "platform", "limits.compliance", "baseline"})

SERVED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "workload": {"input_tokens": 2000, "output_tokens": 200, "requests_per_s": 4.0},
    "search": {
        "accelerators": [H100],
        "regions": [DE],
        "max_accelerators": 2,
        "precisions": ["bf16"],
    },
}
OF_SERVING: Changes = PLACED | {
    "workload_kind": ({}, "batch-inference"),
    "workload.requests_per_s": ({}, 40.0),
    "workload.concurrency": ({"workload.requests_per_s": None}, 64),
    "workload.prefix_cached_ratio": ({}, 0.9),
    "workload.calls_per_task": ({"workload_kind": "agentic"}, 5),
    "workload.tool_s": ({"workload_kind": "agentic", "workload.calls_per_task": 5}, 9.0),
    "workload.context_growth_tokens": ({"workload.calls_per_task": 5}, 2000.0),
    "workload.context_kept_cached": (
        {"workload.calls_per_task": 5, "workload.context_growth_tokens": 2000.0},
        True,
    ),
    **{
        f"workload.{side}.{name}": ({f"workload.{side}": {"mean": 800.0, "p95": 2000.0}}, value)
        for side in ("input_tokens", "output_tokens")
        for name, value in {"mean": 1000.0, "p95": 1500.0}.items()
    },
    **{
        f"workload.{side}.{name}": (
            {f"workload.{side}": {"tokens": [200, 4000], "shares": [0.5, 0.5]}},
            value,
        )
        for side in ("input_tokens", "output_tokens")
        for name, value in {"tokens": [200, 8000], "shares": [0.1, 0.9]}.items()
    },
    "search.allow_conversions": ({"search.precisions": None}, True),
    "search.kv_caches": ({}, ["fp8"]),
    "search.reserve_ratio": ({}, 0.9),
    "search.disaggregated": (
        {"workload.requests_per_s": 20.0, "search.max_accelerators": 8},
        True,
    ),
    "search.speculative[].draft_tokens": (
        {"search.speculative": [{"draft_tokens": 2, "acceptance_ratio": 0.9}]},
        6,
    ),
    "search.speculative[].acceptance_ratio": (
        {"search.speculative": [{"draft_tokens": 2, "acceptance_ratio": 0.9}]},
        0.2,
    ),
    "serving.engine": ({}, "sglang"),
    "serving.engine_version": ({"serving.engine": "vllm"}, "0.6"),
    "serving.backend": (
        {"serving.engine": "llama.cpp", "limits.implied": False, "workload.requests_per_s": 0.5},
        "vulkan",
    ),
    "serving.usage_context": ({}, "offline"),
    "serving.attention_density_ratio": ({}, 0.2),
    "serving.chunked_prefill_tokens": ({}, 512),
    "serving.enforce_eager": ({}, True),
    "serving.flash_attention": ({}, False),
    "serving.kv_block_tokens": ({}, 256),
    "serving.max_model_len": ({}, 1024),
    "serving.max_running_sequences": ({"workload.requests_per_s": 40.0}, 4),
    "serving.memory_utilization_ratio": ({}, 0.5),
    "serving.reserved_bytes": ({}, 2e10),
    "serving.limit_mm_per_prompt": ({"model": "meta-llama/Llama-3.2-11B-Vision-Instruct"}, 8),
    "limits.ttft_s": ({}, 0.02),
    "limits.tpot_s": ({}, 0.001),
    "limits.e2e_s": ({}, 0.5),
    "limits.task_s": ({"workload_kind": "agentic"}, 0.5),
    "limits.percentile": (
        {"limits": {"ttft_s": 0.1}, "workload.requests_per_s": 20.0},
        "p99",
    ),
    "limits.kgco2e_per_year": ({}, 10.0),
    "limits.l_per_year": ({}, 10.0),
}
#: Settings of tiers, drafts and pools are those of estimates; what a search takes of them whole is
#: perturbed above.
OF_ESTIMATES = frozenset({"serving.memory_tiers", "serving.offload", "serving.speculative"}) | {
    "serving.disaggregated",
    "search.speculative[].draft_model",
    "search.speculative[].draft_precision",
}

TRAINED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.2-1B",
    "training": {"tokens": 1e9, "sequence_length": 2048},
    "search": {
        "accelerators": [H100],
        "regions": [DE],
        "max_accelerators": 2,
        "precisions": ["bf16"],
    },
}
EXPERTS = {
    "model": "deepseek-ai/DeepSeek-V3",
    "training.global_batch_size": 15360,
    "search.accelerator_counts": [2048],
    "search.max_accelerators": 2048,
    "search.precisions": ["fp8"],
}
FAILING = {"training.failures": {"per_accelerator_day": 0.1}}
OF_TRAINING: Changes = {
    name: change
    for name, change in PLACED.items()
    if name not in {"limits.implied", "search.precisions", "limits.weight_bits_at_least"}
} | {
    "search.precisions": ({}, ["fp8"]),
    # Runs are in 16 bit unless 8 are asked for.
    "limits.weight_bits_at_least": ({"search.precisions": ["bf16", "fp8"]}, 12.0),
    "limits.implied": ({"training.tokens": 1e13, "search.max_accelerators": 1}, False),
    "search.accelerator_counts": ({}, [1]),
    "limits.days": ({}, 0.01),
    "limits.kgco2e": ({}, 0.001),
    "limits.litres": ({}, 0.001),
    "limits.usd": ({}, 0.01),
    "training.tokens": ({}, 2e9),
    "training.sequence_length": ({}, 4096),
    "training.global_batch_size": ({}, 64),
    "training.methods": ({}, ["lora"]),
    "training.lora_rank": ({"training.methods": ["lora"]}, 128),
    "training.optimizers": ({}, ["adamw-8bit"]),
    "training.framework": ({}, "torchtitan"),
    "training.framework_version": ({"training.framework": "transformers"}, "4.40"),
    "training.offload": ({}, True),
    "training.host_memory_bytes": ({"training.offload": True}, 1e9),
    "training.memory_tier.tier": (
        {
            "model": "meta-llama/Llama-3.1-8B",
            "search.max_accelerators": 1,
            "training.offload": True,
            # Memory of the host, where it suffices, is better in all that a search weighs.
            "training.host_memory_bytes": 1e9,
            "training.memory_tier": {"tier": "ddr5-8ch", "capacity_bytes": 1e12},
        },
        "cxl-2.0-ddr5-direct",
    ),
    "training.expert_dispatch": (EXPERTS, "per-machine"),
    "training.expert_machines": (EXPERTS | {"training.expert_dispatch": "per-machine"}, 2),
    "training.expert_overlap_ratio": (EXPERTS, 1.0),
    "training.secondary_shard_degree": (
        {"search.accelerator_counts": [8], "search.max_accelerators": 8},
        2,
    ),
    "training.weight_gather_dtype": (
        {"search.accelerator_counts": [8], "search.max_accelerators": 8},
        "int8",
    ),
    "training.gradient_scatter_dtype": (
        {"search.accelerator_counts": [8], "search.max_accelerators": 8},
        "int4",
    ),
    "training.expert_capacity_factor": (EXPERTS, 0.5),
    "training.expert_padding": (EXPERTS | {"training.expert_capacity_factor": 1.5}, True),
    "training.pipeline_schedule": (EXPERTS, "zero-bubble"),
    "training.data_parallel_shard_degree": (
        {"search.accelerator_counts": [8], "search.max_accelerators": 8},
        2,
    ),
    "training.failures.per_accelerator_day": (FAILING, 0.5),
    "training.failures.restart_s": (FAILING, 3000.0),
    "training.failures.checkpoint_interval_s": (FAILING, 60.0),
    "training.failures.checkpoint_write_s": (FAILING, 100.0),
    "training.failures.other_losses_ratio": (FAILING, 0.3),
}
#: What requests of their own ask, whose inputs are perturbed there.
ASKED_ALONE = {
    name
    for kind in (
        *(InferenceRequest, TrainingRequest, RecommendationRequest),
        *(FleetPlanRequest, ProjectionRequest),
    )
    for name in kind.model_fields
}
#: Of each chart what it has beside what it draws, in a sound request.
DEPLOYED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": H100,
    "workload": {"input_tokens": 1000, "output_tokens": 200, "concurrency": 16},
}
OF_REGIONS: Changes = {
    "regions": ({}, ["country/DE", "country/FR"]),
    "shown": ({}, 3),
    "impact": ({}, "water"),
    "basis": ({}, "per_year"),
}
CHARTS: dict[str, tuple[dict[str, Any], Changes]] = {
    "impacts-by-region": (DEPLOYED | {"region": "aws/eu-north-1"}, OF_REGIONS),
    "impacts-map": (DEPLOYED | {"region": "aws/eu-north-1"}, OF_REGIONS),
    "memory-breakdown": (DEPLOYED, {"phases": ({}, "both")}),
    "roofline": (DEPLOYED, {}),
    "sensitivity": (
        DEPLOYED | {"region": "aws/eu-north-1"},
        {"figure": ({}, "tpot_s"), "change_ratio": ({}, 0.5)},
    ),
    "throughput-latency": (
        DEPLOYED,
        {
            "concurrencies": ({}, [1, 8]),
            "latency": ({}, "tpot_s"),
            "limit_s": ({}, 0.05),
            "phases": ({}, "both"),
        },
    ),
    "pareto-front": (SERVED, {"x": ({}, "cost"), "y": ({}, "water")}),
    "fleet-over-years": (
        FleetPlanRequest.model_json_schema()["examples"][0],
        {"shows": ({}, "money")},
    ),
    "impact-over-time": (
        {"training_kgco2e": 5e5, "requests_per_day": 1e6, "gco2e_per_request": 0.2},
        {"points": ({}, 7), "days": ({}, 30)},
    ),
}
#: Settings of the training that is drawn beside serving, by the charts that draw it.
TRAINED_BESIDE: Changes = {
    f"training.{name}": ({"phases": "both"}, value)
    for name, value in {
        "method": "lora",
        "sequence_length": 1024,
        "micro_batch_size": 2,
        "optimizer": "adamw-8bit",
        "activation_checkpointing": "full",
    }.items()
}
CASES: dict[str, tuple[dict[str, Any], Changes, frozenset[str]]] = {
    "recommendations": (SERVED, OF_SERVING, OF_ESTIMATES),
    "recommendations/training": (TRAINED, OF_TRAINING, frozenset({"training.memory_tier", "run"})),
}


@pytest.mark.parametrize("question", CASES)
def test_every_input_of_a_search_moves_a_figure_or_a_warning(packaged_snapshot, question):
    base, changes, left = CASES[question]
    asked = inputs(USE_CASES[question].request, ELSEWHERE | left)
    assert asked - set(changes) - LABELS == set()
    assert unmoved(question, base, changes, packaged_snapshot, REPEATED) == []


@pytest.mark.parametrize("kind", CHART_KINDS)
def test_every_input_of_a_chart_moves_what_is_drawn(packaged_snapshot, kind):
    chart, (base, changes) = CHART_KINDS[kind], CHARTS[kind]
    own = set(chart.request.model_fields) - ASKED_ALONE - NOT_FIGURES - TOLD - {"style"}
    assert own - set(changes) == set()
    beside = TRAINED_BESIDE if "training" in chart.request.model_fields else {}

    def drawn(asked: dict[str, Any]) -> Any:
        shown = chart.use_case(chart.request.model_validate(asked), packaged_snapshot)
        return shown["title"], shown["description"], shown["series"], shown["limits"]

    for path, (others, value) in {**changes, **beside}.items():
        asked = dict(base)
        for place, given in others.items():
            asked = put(asked, place, given)
        assert drawn(put(asked, path, value)) != drawn(asked), path


@pytest.mark.parametrize("change", [{"theme": "dark"}, {"width_px": 400}, {"height_px": 900}])
def test_looks_of_a_chart_move_its_drawing_alone(packaged_snapshot, change):
    chart, (base, _) = CHART_KINDS["memory-breakdown"], CHARTS["memory-breakdown"]
    shown = chart.use_case(chart.request.model_validate(base), packaged_snapshot)
    usual = {"theme": "light", "width_px": 640, "height_px": None}
    plain, other = (style_of(*one.values()) for one in (usual, usual | change))
    assert chart.draw(shown, plain) != chart.draw(shown, other)
