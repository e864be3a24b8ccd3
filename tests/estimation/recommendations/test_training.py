"""Recommendations of training against single estimates, brute force and public experience."""

import numpy as np
import orjson
import pytest

from service.core.search.ranking import burdens, weight_row
from service.core.search.training_candidates import training_candidates
from service.core.search.workloads import METRICS
from service.estimation.recommendations.training.recommend import training_recommendation_answer
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest
from service.estimation.recommendations.training.search import search_training_candidates
from service.estimation.recommendations.training.space import resolve_training_search
from service.estimation.rejection import Rejected
from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest
from tests.estimation.recommendations.pasted import CONFIG
from tests.estimation.recommendations.row_footprints import row_footprint, stressed

MODEL = "meta-llama/Llama-3.1-8B"
SMALL = {
    "model": MODEL,
    "training": {"tokens": 2e9, "sequence_length": 4096, "global_batch_size": 64},
    "limits": {"days": 10.0},
    "search": {
        "accelerators": ["nvidia-h100-sxm-80gb", "nvidia-l40s-48gb", "amd-mi300x-192gb"],
        "regions": ["aws/eu-north-1", "aws/us-east-1", "azure/norwayeast"],
        "precisions": ["bf16"],
        "max_accelerators": 16,
    },
    "usd_per_accelerator_hour": {"nvidia-l40s-48gb": 1.2},
}


def asked(**changes):
    return TrainingRecommendationRequest.model_validate(SMALL | changes)


def single_estimate(model, search, rows, row, snapshot):
    """What a request says that asks about a row of a search."""
    space = search.spaces[0]
    variant, layout = space.variants[rows.variant[row]], space.layouts[rows.layout[row]]
    settings = variant.settings
    return training_estimate(
        EstimateTrainingRequest.model_validate(
            {
                "model": model,
                "accelerator": search.context.accelerators[rows.offer[row]].id,
                "region": "aws/us-east-1",
                "precision": {"weights": variant.precision.weights.id},
                "parallelism": {
                    name: getattr(layout, name)
                    for name in ("tensor", "pipeline", "data", "context", "expert")
                },
                "training": {
                    "framework": settings.framework,
                    "method": settings.method,
                    "sequence_length": 4096,
                    "micro_batch_size": int(rows.micro_batch_size[row]),
                    "gradient_accumulation_steps": int(rows.gradient_accumulation_steps[row]),
                    "activation_checkpointing": settings.activation_checkpointing,
                    "pipeline_schedule": settings.pipeline_schedule,
                    "virtual_stages": settings.virtual_stages,
                    "zero_stage": settings.zero_stage,
                    "offload": {"optimizer": settings.offload.optimizer},
                    "tokens": 2e9,
                },
            }
        ),
        snapshot,
    )


@pytest.mark.parametrize("model", [MODEL, "mistralai/Mixtral-8x7B-v0.1"])
def test_rows_are_what_single_estimates_say(packaged_snapshot, model):
    accelerators = [
        "nvidia-h100-sxm-80gb",
        "nvidia-l40s-48gb",
        "amd-mi300x-192gb",
        "nvidia-gb200-186gb",
        "google-tpu-v5p",
    ]
    request = asked(
        model=model,
        training=SMALL["training"] | {"methods": ["full", "lora"], "offload": True},
        search=SMALL["search"] | {"accelerators": accelerators, "max_accelerators": 32},
    )
    search = resolve_training_search(request, packaged_snapshot)
    space = search.spaces[0]
    rows, _ = training_candidates(search.models[0].value, space, search.demand, search.environment)
    assert len(rows) > 2000
    # Every pipeline depth, sharding and recomputation is among what is compared.
    picked = np.random.default_rng(7).choice(len(rows), 60, replace=False)
    seen = set()
    for row in picked:
        variant, layout = space.variants[rows.variant[row]], space.layouts[rows.layout[row]]
        settings = variant.settings
        seen.add((settings.zero_stage, settings.activation_checkpointing, layout.pipeline > 1))
        estimate = single_estimate(model, search, rows, row, packaged_snapshot)
        memory, speed = estimate["memory"], estimate["latency"]
        free = memory["headroom_bytes"]["value"] / memory["capacity_bytes"]
        assert rows.headroom_ratio[row] == pytest.approx(free)
        assert rows.host_bytes[row] == pytest.approx(memory["host_bytes"]["value"])
        assert rows.step_s[row] == pytest.approx(speed["step_s"]["value"])
        assert rows.mfu_ratio[row] == pytest.approx(speed["mfu_ratio"]["value"])
        days = speed["run"]["days"]
        assert rows.wall_s[row] / 86_400.0 == pytest.approx(days["value"])
        assert rows.wall_spread_ratio[row] == pytest.approx(days["high"] / days["value"])
        energy = estimate["energy"]["it_energy_run_kwh"]
        assert rows.it_wh[row] / 1000.0 == pytest.approx(energy["value"])
        assert rows.it_wh_spread_ratio[row] == pytest.approx(energy["high"] / energy["value"])
        assert rows.power_w[row] == pytest.approx(estimate["energy"]["it_power_w"]["value"])
    assert len({stage for stage, _, _ in seen}) == 3
    assert len({kind for _, kind, _ in seen}) == 3
    assert len({deep for _, _, deep in seen}) == 2


def test_messages_to_experts_hide_in_a_search_as_in_its_estimates(packaged_snapshot):
    """Beside a pipeline, beyond fast links: overlap_moe_expert_parallel_comm of Megatron-LM."""
    model = "Qwen/Qwen3-30B-A3B"
    request = asked(
        model=model,
        training=SMALL["training"] | {"framework": "megatron-lm", "global_batch_size": 512},
        search=SMALL["search"]
        | {
            "accelerators": ["nvidia-h100-sxm-80gb"],
            "accelerator_counts": [128],
            "max_accelerators": 128,
        },
    )
    search = resolve_training_search(request, packaged_snapshot)
    space = search.spaces[0]
    rows, _ = training_candidates(search.models[0].value, space, search.demand, search.environment)
    seen = set()
    for row in range(len(rows)):
        layout = space.layouts[rows.layout[row]]
        again = space.variants[rows.variant[row]].settings.activation_checkpointing
        kind = (layout.expert, layout.pipeline > 1, again)
        if layout.expert == 1 or kind in seen:
            continue
        seen.add(kind)
        estimate = single_estimate(model, search, rows, row, packaged_snapshot)
        assert rows.step_s[row] == pytest.approx(estimate["latency"]["step_s"]["value"])
    assert {(64, True, "none"), (64, True, "full"), (8, True, "none"), (64, False, "none")} <= seen


def test_the_best_score_is_that_of_brute_force(packaged_snapshot):
    search = resolve_training_search(asked(), packaged_snapshot)
    found = search_training_candidates(search)
    placed = found.placed
    weights = weight_row({m: search.weights[m] for m in METRICS}, placed.metrics)
    best = np.nanmin(burdens(placed.metrics, weights, placed.units.least))

    context = search.context
    rows, _ = training_candidates(
        search.models[0].value, search.spaces[0], search.demand, search.environment
    )
    alive = np.flatnonzero((rows.headroom_ratio >= 0.0) & (rows.wall_s <= 10 * 86_400.0))
    tensor = np.array([layout.tensor for layout in search.spaces[0].layouts])
    brute = np.inf
    for place, rents in enumerate(context.prices.rents):
        hourly = context.prices.usd_per_hour(
            rents, rows.offer[alive], rows.accelerators[alive], tensor[rows.layout[alive]]
        )
        for row, usd in zip(alive, hourly, strict=True):
            one, hours = row_footprint(rows, row, context, place), rows.accelerator_hours[row]
            line = [
                1.0 - min(rows.headroom_ratio[row], search.kind.headroom_target_ratio),
                rows.wall_s[row],
                one.total_location_gco2e.value / 1000.0,
                one.water_stress_weighted_l.value,
                usd * hours / rows.accelerators[row],
                one.facility_energy_kwh.value,
            ]
            brute = min(brute, burdens(np.array([line]), weights, placed.units.least)[0])
    # Near-ties within the tolerance may stand for one another.
    assert best == pytest.approx(brute, abs=0.05)


def test_choices_show_the_figures_of_their_estimates(packaged_snapshot):
    answer = training_recommendation_answer(asked(), packaged_snapshot)
    for choice in answer["choices"]:
        candidate, estimate = choice["candidate"], choice["estimate"]
        metrics, run = candidate["metrics"], estimate["latency"]["run"]
        assert candidate["days"] == run["days"]["value"]
        assert metrics["latency"] == pytest.approx(run["days"]["value"] * 86_400.0, rel=1e-12)
        said = estimate["impacts"]["run"]
        carbon = said["carbon"]["total_gco2e"]["value"] / 1000.0
        assert metrics["carbon"] == pytest.approx(carbon, rel=1e-12)
        assert metrics["water"] == pytest.approx(stressed(said["water"]), rel=1e-12)
        energy = said["facility_energy_kwh"]["value"]
        assert metrics["energy"] == pytest.approx(energy, rel=1e-12)


def test_choices_meet_the_limits_and_say_why(packaged_snapshot):
    request = asked(limits={"days": 5.0, "usd": 3000.0, "headroom_ratio_at_least": 0.05})
    answer = training_recommendation_answer(request, packaged_snapshot)
    assert "balanced" in answer["choices"][0]["priorities"]
    for choice in answer["choices"]:
        estimate, candidate = choice["estimate"], choice["candidate"]
        assert estimate["memory"]["fits"]
        assert estimate["latency"]["run"]["days"]["value"] <= 5.0
        assert candidate["metrics"]["cost"] <= 3000.0
        assert candidate["headroom_ratio"] >= 0.05
        assert {limit["verdict"] for limit in choice["limits"]} == {"pass"}
        parts = [part["factor_ratio"] for part in choice["compared"]]
        assert np.prod(parts) == pytest.approx(candidate["score_ratio"])
        # A step takes the batch asked for, whatever the layout.
        how = candidate["training"]
        sequences = how["micro_batch_size"] * how["gradient_accumulation_steps"]
        assert sequences * candidate["parallelism"]["data"] == 64
    by = {
        priority: choice["candidate"]["metrics"]
        for choice in answer["choices"]
        for priority in choice["priorities"]
    }
    assert by["lowest_carbon"]["carbon"] <= by["fastest"]["carbon"] * 1.02
    assert by["fastest"]["latency"] <= by["cheapest"]["latency"] * 1.02
    assert by["cheapest"]["cost"] <= by["lowest_carbon"]["cost"] * 1.02
    assert training_recommendation_answer(request, packaged_snapshot) == answer


def test_rent_is_that_of_whole_instances_of_the_cloud(packaged_snapshot):
    answer = training_recommendation_answer(
        asked(
            search=SMALL["search"]
            | {"accelerators": ["nvidia-h100-sxm-80gb"], "regions": ["aws/us-east-1"]}
        ),
        packaged_snapshot,
    )
    rents = {
        entry.value.accelerators: entry.value.price_in("aws/us-east-1").usd_per_hour
        for entry in packaged_snapshot.instances.values()
        if entry.value.provider == "aws" and entry.value.accelerator == "nvidia-h100-sxm-80gb"
    }
    for one in answer["front"]:
        count = one["accelerator_count"]
        # A run takes whole machines, as far as it fills them.
        group = min(count, 8)
        cheapest = min(-(-count // size) * usd for size, usd in rents.items() if size >= group)
        assert one["usd_per_hour"] == pytest.approx(cheapest)
        rented = one["usd_per_hour"] * one["days"] * 24.0
        assert one["metrics"]["cost"] == pytest.approx(rented)
    choice = answer["choices"][0]
    assert choice["estimate"]["cost"]["rented"]["usd_per_hour"]["value"] == pytest.approx(
        choice["candidate"]["usd_per_hour"]
    )


def test_tighter_limits_never_add_survivors(packaged_snapshot):
    sizes = []
    for days in (30.0, 5.0, 2.0, 1.0):
        answer = training_recommendation_answer(asked(limits={"days": days}), packaged_snapshot)
        sizes.append(answer["searched"]["candidates"])
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]


def test_a_further_accelerator_changes_nobodys_order(packaged_snapshot):
    def ordered(accelerators):
        request = asked(search=SMALL["search"] | {"accelerators": accelerators})
        answer = training_recommendation_answer(request, packaged_snapshot)
        named = [orjson.dumps({**one, "score_ratio": 0}) for one in answer["front"]]
        return named, answer["searched"]["candidates"]

    (few, candidates), (more, further) = (
        ordered(SMALL["search"]["accelerators"] + added) for added in ([], ["nvidia-a100-sxm-80gb"])
    )
    assert candidates < further
    both = set(few) & set(more)
    assert len(both) > 3
    assert [one for one in few if one in both] == [one for one in more if one in both]


def test_more_tokens_never_cost_less(packaged_snapshot):
    costs = []
    for times in (1.0, 2.0, 8.0):
        run = SMALL["training"] | {
            "tokens": times * SMALL["training"]["tokens"],
            "global_batch_size": 128,
        }
        choices = training_recommendation_answer(asked(training=run, limits={}), packaged_snapshot)[
            "choices"
        ]
        cheapest = next(one for one in choices if "cheapest" in one["priorities"])
        costs.append(cheapest["candidate"]["metrics"]["cost"])
    assert costs == sorted(costs)
    assert costs[0] > 0.0


def test_without_survivors_it_says_what_comes_closest(packaged_snapshot):
    answer = training_recommendation_answer(asked(limits={"days": 0.01}), packaged_snapshot)
    assert answer["choices"] == []
    assert "nothing_meets_the_limits" in {warning["code"] for warning in answer["warnings"]}
    nearest = answer["least_violating"][0]
    assert nearest["must_change"][0]["limit"] == "days"
    days = next(entry for entry in answer["excluded"] if entry["limit"] == "days")
    assert days["nearest_value"] == pytest.approx(nearest["must_change"][0]["value"], rel=0.5)


def test_where_nothing_can_be_laid_out_no_closest_one_is_promised(packaged_snapshot):
    search = {
        "accelerators": ["nvidia-h100-sxm-80gb"],
        "accelerator_counts": [16384],
        "regions": ["aws/us-east-1"],
    }
    asked = {"model": "llama-3.1-8b", "training": {"tokens": 1e12}, "search": search}
    answer = training_recommendation_answer(
        TrainingRecommendationRequest.model_validate(asked), packaged_snapshot
    )
    assert (answer["choices"], answer["least_violating"]) == ([], [])
    assert [one["limit"] for one in answer["excluded"]] == ["divides_global_batch"]
    [said] = [one for one in answer["warnings"] if one["code"] == "nothing_meets_the_limits"]
    assert "listed" not in said["message"]


def test_what_does_not_even_hold_the_states_lacks_memory(packaged_snapshot):
    search = SMALL["search"] | {"accelerators": ["nvidia-l40s-48gb"], "max_accelerators": 1}
    answer = training_recommendation_answer(
        asked(
            model="meta-llama/Llama-3.1-70B",
            training=SMALL["training"] | {"offload": False},
            search=search,
        ),
        packaged_snapshot,
    )
    (nearest,) = answer["least_violating"]
    (change,) = nearest["must_change"]
    assert change["limit"] == "memory_bytes"
    # 16 bytes a parameter of 70.6 billion, on an accelerator of 47.7 GB.
    assert change["must_rise_by"] == pytest.approx(16.0 * 70.55e9 - 47.7e9, rel=0.01)


def test_a_run_that_failures_never_let_end_is_no_choice(packaged_snapshot):
    run = SMALL["training"] | {
        "failures": {"per_accelerator_day": 900.0, "checkpoint_interval_s": 1e6}
    }
    answer = training_recommendation_answer(
        asked(training=run, limits={"implied": False}), packaged_snapshot
    )
    assert answer["choices"] == []
    (never,) = [one for one in answer["excluded"] if one["limit"] == "makes_progress"]
    assert never["candidates"] > 0


def test_what_only_infers_is_refused_or_left_out(packaged_snapshot):
    named = ["aws-inferentia2", "aws-trainium2", "groq-lpu-v1"]
    search = SMALL["search"] | {"accelerators": named, "max_accelerators": 64}
    with pytest.raises(Rejected) as refused:
        resolve_training_search(asked(search=search), packaged_snapshot)
    assert [one.pointer for one in refused.value.errors] == ["/search/accelerators"] * 2
    everything = {name: one for name, one in SMALL["search"].items() if name != "accelerators"}
    everything |= {"placement": "anywhere", "include_unmeasured": True}
    resolved = resolve_training_search(asked(search=everything), packaged_snapshot)
    found = {entry.id for entry in resolved.context.accelerators}
    assert found & set(named) == {"aws-trainium2"}


def test_a_7b_model_is_fine_tuned_as_people_do(packaged_snapshot):
    """QLoRA fits a consumer card, LoRA one of 24 GB and more, all weights take several.

    Dettmers et al., QLoRA, 2023, https://arxiv.org/abs/2305.14314 (7B on a card of 12 GB or less);
    Rajbhandari et al., ZeRO, 2019 (16 bytes a parameter: 112 GB for 7B, on no card of 80 GB).
    """
    run = {"tokens": 1e7, "sequence_length": 512, "global_batch_size": 16, "offload": False}

    def counts(method, accelerator, most):
        answer = training_recommendation_answer(
            TrainingRecommendationRequest.model_validate(
                {
                    "model": "meta-llama/Llama-2-7b",
                    "training": run | {"methods": [method]},
                    "search": {
                        "accelerators": [accelerator],
                        "regions": ["country/US"],
                        "precisions": ["bf16"],
                        "max_accelerators": most,
                    },
                }
            ),
            packaged_snapshot,
        )
        return {choice["candidate"]["accelerator_count"] for choice in answer["choices"]}

    assert counts("qlora", "nvidia-rtx-4070-12gb", 1) == {1}
    assert counts("lora", "nvidia-rtx-4090-24gb", 1) == {1}
    assert counts("full", "nvidia-h100-sxm-80gb", 1) == set()
    assert min(counts("full", "nvidia-h100-sxm-80gb", 8)) in (2, 4)


def test_the_usual_batch_lets_short_runs_have_steps(packaged_snapshot):
    for tokens, sequence_length, sequences in (
        (15e12, 8192, 2048),
        (2e9, 4096, 128),
        (1e6, 2048, 1),
        (1.0, 4096, 1),
    ):
        request = asked(training={"tokens": tokens, "sequence_length": sequence_length})
        search = resolve_training_search(request, packaged_snapshot)
        assert search.demand.global_batch_sequences == sequences


def test_long_sequences_are_shared_among_ranks(packaged_snapshot):
    run = {"tokens": 1e9, "sequence_length": 131_072, "global_batch_size": 8}
    answer = training_recommendation_answer(asked(training=run, limits={}), packaged_snapshot)
    assert any(one["parallelism"]["context"] > 1 for one in answer["front"])


def test_sequences_longer_than_the_model_takes_are_said_before_all_else(packaged_snapshot):
    answer = training_recommendation_answer(asked(model="EleutherAI/pythia-1b"), packaged_snapshot)
    assert answer["choices"] == []
    first = answer["excluded"][0]
    assert (first["limit"], first["threshold"]) == ("context_length", 2048.0)
    assert answer["least_violating"][0]["must_change"][0]["limit"] == "context_length"


def test_contradictions_are_named():
    search = SMALL["search"] | {"accelerator_counts": [32, 64]}
    with pytest.raises(ValueError, match="32 is more than 16"):
        asked(search=search)


def test_what_has_no_kernels_for_a_method_is_counted(packaged_snapshot):
    answer = training_recommendation_answer(
        asked(
            training=SMALL["training"] | {"methods": ["qlora"]},
            search=SMALL["search"]
            | {"accelerators": ["amd-mi300x-192gb", "google-tpu-v5p"], "precisions": None},
        ),
        packaged_snapshot,
    )
    assert answer["choices"] == []
    assert "format_or_power_unknown" in {one["limit"] for one in answer["excluded"]}


def test_a_batch_that_does_not_divide_among_ranks_is_said(packaged_snapshot):
    answer = training_recommendation_answer(
        asked(
            training=SMALL["training"] | {"global_batch_size": 7},
            search=SMALL["search"] | {"accelerator_counts": [8, 16]},
        ),
        packaged_snapshot,
    )
    excluded = {one["limit"]: one["candidates"] for one in answer["excluded"]}
    assert excluded["divides_global_batch"] > 0


def test_models_without_a_name_are_trained(packaged_snapshot):
    models = [{"config": CONFIG}, {"config": CONFIG | {"num_hidden_layers": 32}}]
    answer = training_recommendation_answer(asked(model=None, models=models), packaged_snapshot)
    assert {choice["candidate"]["model"] for choice in answer["choices"]} == {"inline 0"}


def test_the_layout_of_llama_3_405b_is_chosen(packaged_snapshot):
    # Published: 8 tensor-parallel ranks, 16 stages with interleaving, 30.84 million hours
    # (Grattafiori et al., 2024, table 4; model card).
    request = asked(
        model="meta-llama/Llama-3.1-405B",
        training={
            "tokens": 15.6e12,
            "sequence_length": 8192,
            "global_batch_size": 2048,
            "framework": "megatron-lm",
        },
        limits={},
        search={
            "accelerators": ["nvidia-h100-sxm-80gb"],
            "regions": ["country/US"],
            "precisions": ["bf16"],
            "max_accelerators": 16_384,
            "accelerator_counts": [16_384],
        },
    )
    choice = training_recommendation_answer(request, packaged_snapshot)["choices"][0]
    candidate = choice["candidate"]
    assert " --pipeline-model-parallel-size 16 " in choice["start"]["command"]
    assert candidate["parallelism"] == {
        "tensor": 8,
        "pipeline": 16,
        "data": 128,
        "expert": 1,
        "context": 1,
    }
    assert candidate["training"]["pipeline_schedule"] == "interleaved"
    assert candidate["accelerator_hours"] == pytest.approx(30.84e6, rel=0.25)
    assert (
        choice["request"]["training"]["virtual_stages"] == candidate["training"]["virtual_stages"]
    )


def test_a_run_on_98304_accelerators_has_a_layout_with_as_many(packaged_snapshot):
    # As many H100 as one site has trained with (xAI, Colossus, 2024, about 100,000).
    request = asked(
        model="meta-llama/Llama-3.1-405B",
        training={
            "tokens": 15.6e12,
            "sequence_length": 8192,
            "global_batch_size": 24_576,
            "framework": "megatron-lm",
        },
        limits={},
        search={
            "accelerators": ["nvidia-h100-sxm-80gb"],
            "regions": ["country/US"],
            "precisions": ["bf16"],
            "max_accelerators": 100_000,
            "accelerator_counts": [98_304],
        },
    )
    candidate = training_recommendation_answer(request, packaged_snapshot)["choices"][0][
        "candidate"
    ]
    layout = candidate["parallelism"]
    assert layout["tensor"] == 8
    assert layout["tensor"] * layout["pipeline"] * layout["data"] == 98_304
    assert candidate["training"]["zero_stage"] == 1


def test_stages_of_zero_are_those_that_a_framework_has(packaged_snapshot):
    request = asked(training=SMALL["training"] | {"framework": "torchtitan"}, limits={})
    space = resolve_training_search(request, packaged_snapshot).spaces[0]
    assert {one.settings.zero_stage for one in space.variants} == {0, 2, 3}


def test_interleaved_stages_have_as_many_layers_each(packaged_snapshot):
    request = asked(
        model="meta-llama/Llama-3.1-70B", training=SMALL["training"] | {"framework": "megatron-lm"}
    )
    search = resolve_training_search(request, packaged_snapshot)
    space = search.spaces[0]
    rows, _ = training_candidates(search.models[0].value, space, search.demand, search.environment)
    seen = set()
    for variant, layout in zip(rows.variant, rows.layout, strict=True):
        settings, stages = space.variants[variant].settings, space.layouts[layout].pipeline
        if settings.pipeline_schedule == "interleaved":
            assert 80 % (stages * settings.virtual_stages) == 0
            seen.add((stages, settings.virtual_stages))
    assert (4, 4) in seen
    assert (1, 2) not in seen


def test_tensors_are_divided_as_far_as_fast_links_of_all_that_is_searched_reach(packaged_snapshot):
    def widest(*accelerators):
        search = SMALL["search"] | {"accelerators": list(accelerators), "max_accelerators": 64}
        request = asked(model="meta-llama/Llama-3.1-70B", search=search)
        return max(
            layout.tensor
            for layout in resolve_training_search(request, packaged_snapshot).spaces[0].layouts
        )

    assert widest("nvidia-gb200-186gb") == 64
    assert widest("nvidia-h100-sxm-80gb") == 8
    assert widest("nvidia-gb200-186gb", "nvidia-h100-sxm-80gb") == 8


def test_a_search_has_only_what_its_framework_trains(packaged_snapshot):
    run = SMALL["training"] | {"methods": ["full"]}
    divided = resolve_training_search(asked(training=run), packaged_snapshot).spaces[0].layouts
    assert any(layout.tensor > 1 for layout in divided)
    own = resolve_training_search(asked(training=run | {"framework": "litgpt"}), packaged_snapshot)
    assert {
        layout.tensor * layout.pipeline * layout.context for layout in own.spaces[0].layouts
    } == {1}
    staged = resolve_training_search(
        asked(training=run | {"framework": "megatron-deepspeed"}), packaged_snapshot
    ).spaces[0]
    deep = [layout for layout in staged.layouts if layout.pipeline > 1 and layout.data > 1]
    stages = {
        variant.settings.zero_stage
        for variant in staged.variants
        if any(variant.suits(layout, 32, [64]) for layout in deep)
    }
    assert stages == {1}


def test_a_search_names_methods_that_its_framework_has_not(packaged_snapshot):
    run = SMALL["training"] | {"methods": ["full", "lora"], "framework": "llm.c"}
    with pytest.raises(Rejected) as refused:
        resolve_training_search(asked(training=run), packaged_snapshot)
    [problem] = refused.value.errors
    assert problem.pointer == "/training/methods/1"
    assert "but by full" in problem.detail


def test_a_run_ends_before_later_ones_overtake_it_unless_told_otherwise(packaged_snapshot):
    run = {"tokens": 5e12, "sequence_length": 8192, "framework": "megatron-lm"}
    search = {"accelerators": ["nvidia-h100-sxm-80gb"], "max_accelerators": 64}
    body = {"model": "meta-llama/Llama-3.1-8B", "training": run, "search": search}

    def asked(**limits):
        request = TrainingRecommendationRequest.model_validate(body | {"limits": limits})
        return training_recommendation_answer(request, packaged_snapshot)

    usual, open_ended, short = asked(), asked(implied=False), asked(days=150)
    [implied] = usual["implied"]
    assert implied["field"] == "limits.days"
    longest = {
        name: max(choice["candidate"]["days"] for choice in one["choices"])
        for name, one in (("usual", usual), ("open", open_ended), ("short", short))
    }
    assert longest["short"] <= 150 < longest["usual"] <= implied["value"] < longest["open"]
    assert implied["value"] == pytest.approx(9 / 12 * 365.25)
    assert open_ended["implied"] == short["implied"] == []


LARGE = {
    "model": "meta-llama/Llama-3.1-70B",
    "training": {"tokens": 1e9, "sequence_length": 4096},
    "search": {
        "accelerators": ["nvidia-h100-sxm-80gb"],
        "accelerator_counts": [8],
        "regions": ["aws/us-east-1"],
    },
}


def large(snapshot, **run):
    request = asked(**LARGE | {"training": LARGE["training"] | run})
    return training_recommendation_answer(request, snapshot)


def test_more_accelerators_are_searched_where_those_on_demand_do_not_do(packaged_snapshot):
    body = {"model": "llama-3.1-8b", "training": {"tokens": 1e11}, "limits": {"days": 0.5}}
    body["search"] = {"accelerators": ["h100-sxm"]}
    request = TrainingRecommendationRequest.model_validate(body)
    answer = training_recommendation_answer(request, packaged_snapshot)
    assert answer["choices"][0]["candidate"]["accelerator_count"] > 64
    assert "search.max_accelerators" not in {one["field"] for one in answer["implied"]}


def test_states_go_elsewhere_where_nothing_fits_without(packaged_snapshot):
    # Eight of them have 640 GB; weights, gradients and states of 70 billion parameters take 1.1 TB.
    strict = large(packaged_snapshot, offload=False)
    assert strict["choices"] == []
    found = large(packaged_snapshot)
    chosen = found["choices"][0]["candidate"]
    assert chosen["training"]["offload_optimizer"] != "none"
    assert "offload_tried" in {warning["code"] for warning in found["warnings"]}


def test_states_in_a_memory_tier_take_no_more_than_a_share_of_it(packaged_snapshot):
    def places(**tier):
        named = {"tier": "cxl-2.0-ddr5-direct", "shared_by": 8} | tier
        request = asked(
            **LARGE | {"training": LARGE["training"] | {"memory_tier": named, "offload": True}}
        )
        search = resolve_training_search(request, packaged_snapshot)
        assert search.tier is not None
        [space] = search.spaces
        tiers = {variant.settings.offload.optimizer for variant in space.variants}
        assert tiers == {"none", "cpu", "nvme", "tier"}
        rows, _ = training_candidates(
            search.models[0].value, space, search.demand, search.environment
        )
        held = search.bounds(search.models[0].value)["tier_memory_bytes"]
        return search.tier.capacity_bytes, held, float(rows.tier_bytes.max())

    capacity, held, most = places(capacity_bytes=8e12)
    assert capacity == held == 1e12
    assert most > 0.0
    host = large(
        packaged_snapshot,
        host_memory_bytes=1e9,
        offload=True,
        memory_tier={"tier": "cxl-2.0-ddr5-direct", "capacity_bytes": 8e12},
    )
    chosen = host["choices"][0]["candidate"]
    assert chosen["training"]["offload_optimizer"] in ("nvme", "tier")


def test_searches_of_adapters_load_a_base_as_single_estimates_do(packaged_snapshot):
    run = SMALL["training"] | {"methods": ["lora"], "framework": "transformers"}
    search = SMALL["search"] | {"precisions": ["int8"]}
    found = resolve_training_search(asked(training=run, search=search), packaged_snapshot)
    bases = {variant.precision.weights.id for variant in found.spaces[0].variants}
    assert bases == {"bnb-int8"}
