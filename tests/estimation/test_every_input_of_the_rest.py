"""Every input of rules, comparisons, impacts, post-training, reports and sweeps moves something.

What estimates ask as well is perturbed there; here stands what these questions have of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.charts.kinds import CHART_KINDS
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.requests import PercentileLimitsRequest
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest
from service.estimation.reports.reports import report_answer
from service.estimation.reports.requests import DisclosureRequest, ReportRequest
from service.estimation.sweeps.chunks import evaluate_chunk
from service.estimation.sweeps.kinds import evaluated_chunk
from service.estimation.sweeps.plan import resolve_study
from service.estimation.sweeps.requests import SweepRequest
from service.estimation.sweeps.training import resolve_training_study
from service.estimation.sweeps.training_requests import TrainingSweepRequest
from service.estimation.training.requests import EstimateTrainingRequest
from service.estimation.use_cases import USE_CASES
from tests.estimation import (
    test_every_input_counts,
    test_every_input_of_estimates,
    test_every_input_of_plans,
    test_every_input_of_searches,
)
from tests.estimation.inputs import ECHOED, LABELS, Changes, inputs, unmoved, unmoved_by

H100, DE = "nvidia-h100-sxm-80gb", "country/DE"
DAY = {"on": "2026-11-23"}
GERMAN = {"connected_load_kw": 1000.0, "commissioned_on": "2026-08-01"}
IRISH = {"region": "country/IE", "new_capacity": True, "connection_kva": 2e4}
FAIRFAX = {"region": "US-VA", "locality": "fairfax-va", "new_site": True}
TONAL = {"region": "US-VA", "locality": "prince-william-va", "receptor_zone": "residential"}
OF_RULES: Changes = {
    "region": ({}, "country/NL"),
    "on": ({}, "2031-01-01"),
    "subject": ({}, "company"),
    "locality": ({"region": "US-VA"}, "fairfax-va"),
    "it_power_kw": ({}, 1000.0),
    "connected_load_kw": ({}, 1000.0),
    "connection_kva": ({"region": "country/IE"}, 2e4),
    "area_ha": ({"region": "country/NL"}, 20.0),
    "commissioned_on": ({}, "2027-01-01"),
    "new_site": ({"region": "US-VA"}, True),
    "new_capacity": ({"region": "country/IE"}, True),
    "defence": ({}, True),
    "pue_ratio": (GERMAN, 1.9),
    "energy_reuse_ratio": (GERMAN, 0.3),
    "renewable_ratio": (GERMAN, 0.3),
    "additional_renewable_ratio": (IRISH, 0.3),
    "dispatchable_capacity_ratio": (IRISH, 0.5),
    "receptor_zone": ({}, "residential"),
    "noise_day_db": ({}, 70.0),
    "noise_night_db": ({}, 70.0),
    "tonal_day_dbc": (TONAL, 80.0),
    "tonal_night_dbc": (TONAL, 80.0),
    "noise_above_baseline_db": (
        {"region": "US-AZ", "locality": "chandler-az", "new_site": True},
        5.0,
    ),
    "noise_study": (FAIRFAX, False),
    "building_setback_m": (FAIRFAX, 10.0),
    "equipment_setback_m": (FAIRFAX, 10.0),
    "metro_distance_m": (FAIRFAX, 10.0),
    "employees": ({}, 5000.0),
    "turnover_eur": ({}, 1e9),
    "revenue_usd": ({}, 2e9),
    "california_business": ({}, True),
    # The rule that it decides on is stayed: the reason says whether it would apply.
    "sec_registrant": ({"region": "country/US"}, True),
    "eu_model_provider": ({}, True),
    "training_flop": ({}, 1e26),
}

DEPLOYED: dict[str, Any] = {"model": "meta-llama/Llama-3.1-8B", "accelerator": H100}
COMPARED: dict[str, Any] = {
    "models": [DEPLOYED["model"]],
    "accelerators": [H100],
    "regions": [DE],
    "workload": {"input_tokens": 1000, "output_tokens": 100, "requests_per_s": 4.0},
}
OF_COMPARISONS: Changes = {
    "models": ({}, ["meta-llama/Llama-3.2-1B"]),
    "accelerators": ({}, ["nvidia-l40s-48gb"]),
    "regions": ({}, ["country/FR"]),
    "precisions[].weights": ({}, "fp8"),
    "parallelisms[].tensor": ({}, 2),
    "platform": ({}, {"like": "server-pcie-8"}),
    "power_limit_w": ({}, 400.0),
    "accelerator_count": ({}, 2),
    "workload.requests_per_s": ({}, 2.0),
    "serving.engine": ({}, "sglang"),
    "facility.pue_ratio": ({}, 1.9),
    "period.days": ({}, 10.0),
    "period.requests": ({}, 1e6),
    "period.year": ({}, 2020),
    "cost.instance": ({"regions": ["aws/us-east-1"]}, "p5.48xlarge"),
    "cost.price_kind": ({"regions": ["aws/us-east-1"]}, "spot"),
    "cost.usd_per_accelerator_hour": ({}, 1.5),
    "cost.purchase_usd_per_accelerator": ({}, 1e5),
    "cost.amortisation_years": ({"cost.purchase_usd_per_accelerator": 3e4}, 2.0),
    "cost.electricity_usd_per_kwh": ({"cost.purchase_usd_per_accelerator": 3e4}, 0.9),
    "cost.usd_per_tco2e": ({}, 100.0),
    "limits.headroom_ratio_at_least": ({}, 0.99),
    "limits.ttft_s": ({}, 1e-3),
    "limits.tpot_s": ({}, 1e-4),
    "limits.e2e_s": ({}, 1e-2),
    "limits.task_s": ({}, 1e-2),
    "limits.percentile": ({"limits.ttft_s": 0.06, "workload.requests_per_s": 12.0}, "p99"),
    "limits.usd_per_hour": ({}, 0.01),
    "limits.usd_per_month": ({}, 0.01),
    "limits.kgco2e_per_year": ({}, 1e-3),
    "limits.l_per_year": ({}, 1e-3),
    "limits.it_power_w": ({}, 1.0),
    "limits.water_stress_ratio": ({}, 1e-3),
    "limits.weight_bits_at_least": ({}, 32.0),
}

OF_IMPACTS: Changes = {
    "region": ({}, "country/FR"),
    "energy_kwh": ({}, 2e3),
    "accelerator_hours": ({"energy_kwh": None, "accelerator": H100, "accelerator_hours": 10.0}, 20),
    "accelerator": (
        {"energy_kwh": None, "accelerator": H100, "accelerator_hours": 10.0},
        "nvidia-l4-24gb",
    ),
    "power_limit_w": (
        {"energy_kwh": None, "accelerator": H100, "accelerator_hours": 10.0},
        400.0,
    ),
    "platform": ({}, "nvidia-dgx-a100"),
    "model": ({"energy_kwh": None, **DEPLOYED}, "meta-llama/Llama-3.2-1B"),
    "accelerator_count": ({"energy_kwh": None, **DEPLOYED}, 2),
    "parallelism.tensor": ({"energy_kwh": None, **DEPLOYED}, 2),
    "precision.weights": ({"energy_kwh": None, **DEPLOYED}, "fp8"),
    "workload.concurrency": ({"energy_kwh": None, **DEPLOYED}, 9),
    "serving.engine": ({"energy_kwh": None, **DEPLOYED}, "sglang"),
    "period.days": ({}, 10.0),
    "period.requests": ({}, 1e3),
    "period.year": ({}, 2020),
    "facility.pue_ratio": ({}, 2.0),
    "facility.site_class": ({}, "home"),
}

TUNED: dict[str, Any] = {
    "model": "meta-llama/Llama-3.2-1B",
    "accelerator": H100,
    "accelerator_count": 2,
    "region": DE,
    "training": {"zero_stage": 2, "sequence_length": 1024, "tokens": 1e8},
}
TEACHER = {"teacher": {"model": "meta-llama/Llama-3.1-8B"}}
TAUGHT = {"distillation": TEACHER}
AHEAD = {"distillation": {"teacher": TEACHER["teacher"] | {"placement": "own"}}}
STORED = {"distillation": {"teacher": TEACHER["teacher"] | {"placement": "stored"}}}
PREFERRED = {"dpo": {}}
REWARDED = {"grpo": {"prompt_tokens": 128, "completion_tokens": 256}}
ELSEWHERE = {"grpo.generation.placement": "own"} | REWARDED
OF_POST_TRAINING: Changes = {
    **{
        f"distillation.teacher.{name}": (base, value)
        for name, base, value in (
            ("model", TAUGHT, "meta-llama/Llama-3.2-3B"),
            ("precision.weights", TAUGHT, "fp8"),
            ("placement", TAUGHT, "own"),
            ("zero_stage", TAUGHT, 3),
            ("accelerator", AHEAD, "nvidia-h200-sxm-141gb"),
            ("accelerator_count", AHEAD, 4),
            ("parallelism.tensor", AHEAD, 2),
            ("top_logits", AHEAD, 50),
            ("epochs", STORED, 3.0),
        )
    },
    "dpo.reference": (PREFERRED, "stored"),
    "dpo.reference_zero_stage": (PREFERRED, 3),
    "dpo.reference_epochs": ({"dpo": {"reference": "stored"}}, 3.0),
    **{
        f"grpo.{name}": (REWARDED, value)
        for name, value in {
            "samples_per_prompt": 4,
            "prompts": 64,
            "prompt_tokens": 256,
            "completion_tokens": 512,
            "iterations": 2,
            "kl_reference": "copy",
            "reward_model": {"model": "meta-llama/Llama-3.2-1B"},
            "critic": {},
            "reward_s": 5.0,
            "generation.placement": "own",
            "generation.sleeps": False,
            "generation.parallelism.tensor": 2,
            "generation.precision.weights": "fp8",
            "generation.serving.engine": "sglang",
        }.items()
    },
    "grpo.completion_tokens.mean": (
        {"grpo": {"completion_tokens": {"mean": 200.0, "p95": 400.0}}},
        300.0,
    ),
    "grpo.completion_tokens.p95": (
        {"grpo": {"completion_tokens": {"mean": 200.0, "p95": 400.0}}},
        600.0,
    ),
    "grpo.completion_tokens.tokens": (
        {"grpo": {"completion_tokens": {"tokens": [100.0, 400.0], "shares": [1, 1]}}},
        [100.0, 600.0],
    ),
    "grpo.completion_tokens.shares": (
        {"grpo": {"completion_tokens": {"tokens": [100.0, 400.0], "shares": [1, 1]}}},
        [1, 3],
    ),
    "grpo.kl_reference_zero_stage": ({"grpo": REWARDED["grpo"] | {"kl_reference": "copy"}}, 3),
    "grpo.reward_model.model": (
        {"grpo": REWARDED["grpo"] | {"reward_model": {"model": "meta-llama/Llama-3.2-1B"}}},
        "meta-llama/Llama-3.2-3B",
    ),
    "grpo.reward_model.precision.weights": (
        {"grpo": REWARDED["grpo"] | {"reward_model": {"model": "meta-llama/Llama-3.2-1B"}}},
        "fp8",
    ),
    "grpo.reward_model.zero_stage": (
        {"grpo": REWARDED["grpo"] | {"reward_model": {"model": "meta-llama/Llama-3.2-1B"}}},
        3,
    ),
    "grpo.critic.model": (
        {"grpo": REWARDED["grpo"] | {"critic": {}}},
        "meta-llama/Llama-3.2-3B",
    ),
    "grpo.critic.precision.weights": ({"grpo": REWARDED["grpo"] | {"critic": {}}}, "fp32"),
    "grpo.generation.works_ahead": (ELSEWHERE, True),
    "grpo.generation.accelerator": (ELSEWHERE, "nvidia-l40s-48gb"),
    "grpo.generation.accelerator_count": (ELSEWHERE, 4),
}

#: Of each question: a sound request, its changes, and what is left: perturbed where it is asked
#: of an estimate, an impact or a search.
CASES: dict[str, tuple[dict[str, Any], Changes, frozenset[str]]] = {
    "compliance": ({"region": DE} | DAY, OF_RULES, frozenset({"region"})),
    "compare": (
        COMPARED,
        OF_COMPARISONS,
        frozenset(
            {
                *("models", "accelerators", "regions", "precisions", "parallelisms"),
                *("platform", "workload", "serving", "facility", "period"),
            }
        ),
    ),
    "impacts": (
        {"energy_kwh": 1e3, "region": DE},
        OF_IMPACTS,
        frozenset(
            {
                *("region", "model", "precision", "accelerator", "platform", "parallelism"),
                *("workload", "serving", "electricity", "hardware", "site"),
            }
        ),
    ),
    "estimates/post-training": (
        TUNED,
        OF_POST_TRAINING,
        frozenset(EstimateTrainingRequest.model_fields)
        | {
            "distillation.teacher.model",
            *(
                f"{place}.{part}"
                for place in ("distillation.teacher", "grpo.generation")
                for part in ("precision", "parallelism", "accelerator", "serving")
            ),
            *(f"grpo.reward_model.{part}" for part in ("model", "precision")),
            *(f"grpo.critic.{part}" for part in ("model", "precision")),
        },
    ),
}
#: Questions whose requests have nothing that the one they are a part of has not.
WITHIN = {
    "memory/inference": InferenceRequest,
    "latency/inference": InferenceRequest,
    "memory/training": EstimateTrainingRequest,
    "latency/training": EstimateTrainingRequest,
}


@pytest.mark.parametrize("question", CASES)
def test_every_input_moves_a_figure_or_a_warning(packaged_snapshot, question):
    base, changes, left = CASES[question]
    asked = inputs(USE_CASES[question].request, left)
    assert asked - set(changes) - LABELS == set()
    echoed = ECHOED | REPEATED if question == "compare" else ECHOED
    assert unmoved(question, base, changes, packaged_snapshot, echoed) == []


@pytest.mark.parametrize("question", WITHIN)
def test_a_part_of_an_estimate_asks_nothing_else(question):
    assert set(USE_CASES[question].request.model_fields) <= set(WITHIN[question].model_fields)


def test_every_operation_is_perturbed():
    perturbed = {case[0] for case in test_every_input_counts.CASES} | set(CASES) | set(WITHIN)
    for other in (
        test_every_input_of_estimates,
        test_every_input_of_plans,
        test_every_input_of_searches,
    ):
        perturbed |= set(other.CASES)
    assert perturbed == set(USE_CASES)
    assert set(test_every_input_of_searches.CHARTS) == set(CHART_KINDS)


FACTS: Changes = {
    f"disclosure.{name}": (
        {
            "disclosure": {
                "diesel_l": 10.0,
                "diesel_kgco2e_per_l": 2.7,
                "refrigerant_leak_kg": 1.0,
                "refrigerant_gwp": 675.0,
                "training_tokens": 1e12,
                "model_parameters": 1e9,
            }
        },
        value,
    )
    for name, value in {
        "functional_unit": "per_year",
        "role": "customer",
        "diesel_l": 100.0,
        "diesel_kgco2e_per_l": 3.0,
        "refrigerant_leak_kg": 5.0,
        "refrigerant_gwp": 2088.0,
        "grid_loss_ratio": 0.06,
        "upstream_gco2e_per_kwh": 40.0,
        "total_energy_kwh": 1e7,
        "reused_heat_kwh": 5e3,
        "renewable_kwh": 5e3,
        "water_input_l": 1e8,
        "model_parameters": 2e9,
        "training_tokens": 2e12,
    }.items()
}


def test_every_fact_of_a_report_moves_a_line(packaged_snapshot: CatalogSnapshot) -> None:
    asked = inputs(DisclosureRequest)
    assert {f"disclosure.{name}" for name in asked} == set(FACTS)
    base = DEPLOYED | {"region": DE, "period": {"days": 365.0}}

    def told(body: Mapping[str, Any]) -> Any:
        request = ReportRequest.model_validate(body)
        kinds = ("sci", "ghg-protocol", "eed", "csrd", "ai-act-annex-xi")
        return [report_answer(kind, request, packaged_snapshot)["lines"] for kind in kinds]

    assert unmoved_by(told, base, FACTS) == []


SWEPT: dict[str, Any] = {
    "models": [DEPLOYED["model"]],
    "workload": {"input_tokens": 1000, "output_tokens": 100},
    "space": {
        "accelerators": [H100],
        "accelerator_counts": [1, 2],
        "precisions": ["bf16"],
        "concurrencies": [1, 32],
        "regions": ["aws/eu-north-1"],
    },
    "keep": "candidates",
}
COUNTED = {"workload.requests_per_s": 30.0, "space.accelerator_counts": None}
OF_SWEEPS: Changes = {
    "models": ({}, ["meta-llama/Llama-3.2-1B"]),
    "workload.input_tokens": ({}, 4000),
    "space.accelerators": ({}, ["nvidia-l40s-48gb"]),
    "space.regions": ({}, ["country/PL"]),
    "space.precisions": ({}, ["fp8"]),
    "space.kv_caches": ({}, ["fp8"]),
    "space.parallelisms[].tensor": ({"space.parallelisms": [{"tensor": 1}]}, 2),
    "space.parallelisms[].pipeline": ({"space.parallelisms": [{"tensor": 1}]}, 2),
    "space.parallelisms[].expert": (
        {
            "models": ["mistralai/Mixtral-8x7B-v0.1"],
            "space.accelerators": ["nvidia-h200-sxm-141gb"],
            "space.parallelisms": [{"tensor": 2}],
        },
        2,
    ),
    "space.concurrencies": ({}, [7]),
    "space.accelerator_counts": ({}, [4]),
    "space.reserve_ratio": (COUNTED | {"space.concurrencies": None}, 0.8),
    "space.max_accelerators": ({}, 1),
    "space.placement": ({"space.regions": ["aws/eu-north-1", "aws/eu-central-2"]}, "anywhere"),
    "keep": ({"limits.ttft_s": 1e-4}, "survivors"),
    "platform": ({}, {"like": "server-pcie-8"}),
    "power_limit_w": ({}, 400.0),
    "facility.pue_ratio": ({}, 1.9),
    "usd_per_accelerator_hour": ({}, {H100: 9.0}),
    "list_prices": ({}, False),
    "serving.engine": ({}, "sglang"),
    "limits.percentile": (
        COUNTED | {"limits.ttft_s": 0.12, "space.concurrencies": None},
        "p99",
    ),
}
#: What rows repeat of the question.
REPEATED = {"model", "accelerator", "region", "weights", "kv_cache", "tensor", "pipeline"}
REPEATED |= {"expert", "data", "accelerator_count", "concurrency_per_replica"}


def rows_of(rows: Any) -> Any:
    """Figures of rows, without what they repeat of the question."""
    return {name: column.tolist() for name, column in rows.columns.items() if name not in REPEATED}


def test_every_input_of_a_sweep_moves_a_row(packaged_snapshot: CatalogSnapshot) -> None:
    left = {"models", "workload", "platform", "serving", "facility", "limits", "name"}
    left |= {"space.accelerators", "space.regions"}
    assert inputs(SweepRequest, frozenset(left)) - set(OF_SWEEPS) == set()
    # Limits are those of comparisons and searches, which are perturbed there.
    limits = {name for name in OF_COMPARISONS if name.startswith("limits.")}
    assert {f"limits.{name}" for name in inputs(PercentileLimitsRequest)} <= limits

    def swept(body: Mapping[str, Any]) -> Any:
        study = resolve_study(SweepRequest.model_validate(body), packaged_snapshot)
        return [rows_of(evaluate_chunk(study, chunk)) for chunk in study.chunks]

    assert unmoved_by(swept, SWEPT, OF_SWEEPS) == []


def test_every_input_of_a_sweep_of_training_moves_a_row(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    # Whatever is searched is that of recommendations, perturbed there.
    own = set(TrainingSweepRequest.model_fields)
    assert own - set(TrainingRecommendationRequest.model_fields) == {"name", "keep"}
    base = {
        "model": "meta-llama/Llama-3.2-1B",
        "training": {"tokens": 1e9, "sequence_length": 2048},
        "search": {"accelerators": [H100], "accelerator_counts": [1], "regions": [DE]},
        "limits": {"days": 0.01},
        "keep": "candidates",
    }
    changes: Changes = {
        "keep": ({}, "survivors"),
        "training.tokens": ({}, 2e9),
        "search.accelerators": ({}, ["nvidia-l40s-48gb"]),
        "limits.days": ({}, 1e3),
    }

    def swept(body: Mapping[str, Any]) -> Any:
        study = resolve_training_study(TrainingSweepRequest.model_validate(body), packaged_snapshot)
        return [rows_of(evaluated_chunk(study, at)) for at in range(len(study.chunks))]

    assert unmoved_by(swept, base, changes) == []
