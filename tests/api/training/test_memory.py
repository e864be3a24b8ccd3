"""Training memory as clients ask for it."""

from __future__ import annotations

import pytest

from tests.api.estimates.test_inference import answer, walk

PATH = "/v1/memory/training"
RUN = {
    "model": "meta-llama/Llama-2-7b-hf",
    "accelerator": "nvidia-a100-sxm-80gb",
    "training": {"sequence_length": 2048},
}
PARTS = ("weights", "gradients", "optimizer", "activations", "logits", "runtime")


def with_training(**settings) -> dict:
    return RUN | {"training": RUN["training"] | settings}


async def test_states_of_a_7b_model_take_twelve_or_sixteen_bytes_a_parameter(client):
    pure = await answer(client, PATH, with_training(master_weights=False))
    parameters = pure["deployment"]["total_parameters"]
    assert pure["trained_parameters"] == parameters
    assert pure["weights_bytes"]["value"] == pure["gradients_bytes"]["value"] == 2 * parameters
    assert pure["optimizer_bytes"]["value"] == 8 * parameters
    mixed = await answer(client, PATH, with_training())
    assert mixed["optimizer_bytes"]["value"] == 12 * parameters
    assert mixed["fits"] is False
    assert mixed["shortfall_bytes"]["value"] == pytest.approx(
        mixed["total_bytes"]["value"] - mixed["capacity_bytes"]
    )


async def test_parts_make_up_the_total_and_are_ordered_intervals(client):
    body = await answer(client, PATH, with_training(zero_stage=1))
    total = sum(body[f"{part}_bytes"]["value"] for part in PARTS)
    assert total == pytest.approx(body["total_bytes"]["value"])
    within = ("libraries", "communication", "update")
    assert sum(body[f"{part}_bytes"]["value"] for part in within) < body["runtime_bytes"]["value"]
    intervals = [part for part in walk(body) if set(part) == {"value", "low", "high"}]
    assert len(intervals) > 20
    for part in intervals:
        assert part["low"] <= part["value"] <= part["high"]


async def test_figures_of_the_answer_are_figures_of_the_steps(client):
    body = await answer(client, PATH, with_training() | {"explain": True})
    values = [step["value"] for step in body["explanation"]]
    named = [f"{part}_bytes" for part in (*PARTS, "total", "host", "nvme", "headroom", "libraries")]
    for name in (*named, "max_micro_batch_size"):
        assert body[name]["value"] in values, name
    assert all(step["source"] for step in body["explanation"])


async def test_flat_query_parameters_ask_the_same(client):
    posted = await answer(
        client,
        PATH,
        RUN
        | {
            "accelerator_count": 4,
            "training": {
                "method": "lora",
                "lora_targets": ["q_proj", "v_proj"],
                "zero_stage": 3,
                "offload": {"optimizer": "cpu", "activations": "cpu"},
            },
        },
    )
    response = await client.get(
        PATH,
        params={
            "model": RUN["model"],
            "accelerator": RUN["accelerator"],
            "accelerator_count": 4,
            "method": "lora",
            "lora_targets": "q_proj, v_proj",
            "zero_stage": 3,
            "offload_optimizer": "cpu",
            "offload_activations": "cpu",
        },
    )
    assert response.status_code == 200, response.text
    assert response.json() == posted
    assert response.headers["etag"]
    assert posted["trained_parameters"] == 8_388_608
    assert posted["host_bytes"]["value"] > 0


async def test_every_pipeline_stage_is_reported_and_the_fullest_is_the_answer(client):
    body = await answer(
        client,
        PATH,
        {
            "model": "meta-llama/Llama-3.1-70B",
            "accelerator": "nvidia-h100-sxm-80gb",
            "parallelism": {"tensor": 8, "pipeline": 4},
            "training": {"gradient_accumulation_steps": 16, "activation_checkpointing": "full"}
            | {"pipeline_schedule": "1f1b"},
        },
    )
    stages = body["stages"]
    assert [stage["stage"] for stage in stages] == [0, 1, 2, 3]
    assert sum(stage["layers"] for stage in stages) == 80
    assert [stage["micro_batches_in_flight"] for stage in stages] == [4, 3, 2, 1]
    totals = [stage["total_bytes"]["value"] for stage in stages]
    assert max(totals) == totals[body["fullest_stage"]] == body["total_bytes"]["value"]
    assert all(stage["logits_bytes"]["value"] == 0 for stage in stages[:-1])
    assert stages[-1]["logits_bytes"]["value"] > 0


async def test_the_largest_micro_batch_fits_on_every_stage(client):
    # The first stage is the fullest at one sequence, the logits of the last grow faster.
    run = {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "parallelism": {"pipeline": 3},
        "training": {
            "gradient_accumulation_steps": 8,
            "activation_checkpointing": "full",
            "sequence_length": 1024,
        },
    }
    first = await answer(client, PATH, run)
    most = int(first["max_micro_batch_size"]["value"])
    for size, fits in ((most, True), (most + 1, False)):
        asked = run | {"training": run["training"] | {"micro_batch_size": size}}
        body = await answer(client, PATH, asked)
        assert body["fits"] is fits
        assert all(stage["fits"] for stage in body["stages"]) is fits
    assert first["fullest_stage"] != body["fullest_stage"]


@pytest.mark.parametrize(
    ("changes", "pointer", "hint"),
    [
        (
            {"parallelism": {"tensor": 3}},
            "/parallelism/tensor",
            "degrees that work: 2, 4",
        ),
        ({"parallelism": {"pipeline": 33}}, "/parallelism/pipeline", "at most 32"),
        (
            {"accelerator_count": 8, "parallelism": {"tensor": 4, "data": 1}},
            "/accelerator_count",
            "data 2 would work",
        ),
        # What no number of accelerators makes possible is said with their number.
        (
            {"accelerator_count": 8, "parallelism": {"tensor": 3}},
            "/parallelism/tensor",
            "degrees that work: 2, 4",
        ),
        (
            {"training": {"framework": "deepspeed", "optimizer": "galore-adamw"}},
            "/training/optimizer",
            "use one of these, or another framework",
        ),
        ({"parallelism": {"expert": 2}}, "/parallelism/expert", "only 1 works"),
        ({"parallelism": {"context": 3}}, "/parallelism/context", "multiple of 3"),
        ({"precision": {"weights": "int4"}}, "/precision/weights", "qlora"),
        ({"precision": {"activations": "int4"}}, "/precision/activations", "bf16"),
        (
            {"training": {"pipeline_schedule": "1f1b", "virtual_stages": 2}},
            "/training/virtual_stages",
            "interleaved",
        ),
        (
            {"training": {"pipeline_schedule": "interleaved"}},
            "/training/pipeline_schedule",
            "at least 2",
        ),
        (
            {
                "parallelism": {"pipeline": 8},
                "training": {"pipeline_schedule": "interleaved", "virtual_stages": 5},
            },
            "/training/virtual_stages",
            "at most 4",
        ),
        (
            {"training": {"method": "lora", "lora_targets": ["queries"]}},
            "/training/lora_targets/0",
            "q_proj",
        ),
        (
            {"training": {"method": "lora", "lora_targets": []}},
            "/training/lora_targets",
            "at least one",
        ),
        (
            {"training": {"method": "lora", "trained_tensors": ["head"]}},
            "/training/trained_tensors/0",
            "lm_head",
        ),
        ({"training": {"checkpoint_every": 64}}, "/training/checkpoint_every", "32 layers"),
        ({"training": {"adapter": "dora"}}, "/training/adapter", "use method lora"),
        (
            {"training": {"method": "lora", "adapter": "boft", "boft_block_size": 7}},
            "/training/boft_block_size",
            "use one of 2, 4, 8",
        ),
        (
            {
                "model": "deepseek-ai/DeepSeek-V3",
                "training": {"method": "lora", "adapter": "prefix"},
            },
            "/training/adapter",
            "latents",
        ),
        (
            {"training": {"optimizer_in_backward": True, "gradient_accumulation_steps": 2}},
            "/training/gradient_accumulation_steps",
            "use 1",
        ),
        (
            {"training": {"optimizer_in_backward": True, "offload": {"optimizer": "cpu"}}},
            "/training/offload/optimizer",
            "use none",
        ),
        (
            {"training": {"optimizer_in_backward": True, "gradient_sum_dtype": "fp32"}},
            "/training/gradient_sum_dtype",
            "use none",
        ),
        (
            {"training": {"framework": "llm.c", "method": "lora"}},
            "/training/method",
            "by full",
        ),
        (
            {"parallelism": {"tensor": 2}, "training": {"framework": "litgpt"}},
            "/parallelism/tensor",
            "use 1",
        ),
        (
            {
                "parallelism": {"pipeline": 2, "data": 2},
                "training": {"framework": "megatron-deepspeed", "zero_stage": 2},
            },
            "/training/zero_stage",
            "use that, or pipeline 1",
        ),
    ],
)
async def test_the_impossible_is_refused_with_what_would_work(client, changes, pointer, hint):
    response = await client.post(PATH, json=RUN | changes)
    assert response.status_code == 422, response.text
    named = {error["pointer"]: error["detail"] for error in response.json()["errors"]}
    assert hint in named[pointer]


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"training": {"framework": "megatron-lm"}}, "overheads_not_measured"),
        ({"training": {"zero_stage": 3}}, "zero_divides_nothing"),
        ({"training": {"offload": {"parameters": "cpu"}}}, "offload_needs_zero_3"),
        ({"training": {"sequence_length": 8192}}, "context_beyond_model"),
        (
            {"parallelism": {"pipeline": 4}, "training": {"gradient_accumulation_steps": 1}},
            "pipeline_underfilled",
        ),
        ({"parallelism": {"pipeline": 5}}, "stages_not_alike"),
        ({"training": {"pipeline_schedule": "zero-bubble"}}, "schedule_unused"),
        (
            {
                "parallelism": {"pipeline": 4},
                "training": {"pipeline_schedule": "interleaved", "virtual_stages": 1},
            },
            "schedule_unused",
        ),
        (
            {"precision": {"weights": "bf16"}, "training": {"method": "qlora"}},
            "base_not_quantised",
        ),
        ({"model": "Qwen3-8B-Q4_K_M.gguf", "training": {"method": "lora"}}, "weights_widened"),
        (
            {"accelerator": "apple-m2-ultra-192gb", "training": {"offload": {"optimizer": "cpu"}}},
            "offload_to_same_memory",
        ),
        (
            {"accelerator": "apple-m2-ultra-192gb", "training": {"optimizer": "paged-adamw"}},
            "paged_nowhere",
        ),
        ({}, "does_not_fit"),
    ],
)
async def test_what_a_careful_colleague_would_mention(client, changes, code):
    body = await answer(client, PATH, RUN | changes)
    assert code in {warning["code"] for warning in body["warnings"]}


async def test_a_quantised_base_is_assumed_for_qlora(client):
    body = await answer(client, PATH, with_training(method="qlora", optimizer="paged-adamw-8bit"))
    assert body["deployment"]["precision"]["weights"] == "bnb-nf4"
    assert body["fits"] is True
    assert body["weights_bytes"]["value"] < 5e9


async def test_tensors_trained_whole_count_as_trained(client):
    adapters = with_training(method="lora", lora_targets=["q_proj", "v_proj"])
    beside = with_training(
        method="lora", lora_targets=["q_proj", "v_proj"], trained_tensors=["lm_head"]
    )
    one, two = [await answer(client, PATH, asked) for asked in (adapters, beside)]
    assert two["trained_parameters"] - one["trained_parameters"] == 4096 * 32000


async def test_a_run_that_the_host_cannot_hold_does_not_fit(client):
    asked = with_training(zero_stage=0, offload={"optimizer": "cpu", "host_memory_bytes": 200e9})
    roomy = await answer(client, PATH, asked)
    assert roomy["fits"] is True
    asked["training"]["offload"]["host_memory_bytes"] = roomy["host_bytes"]["value"] / 2
    short = await answer(client, PATH, asked)
    assert short["total_bytes"] == roomy["total_bytes"]
    assert short["fits"] is False
    assert short["fits_certainty"] == "no"
    codes = {warning["code"] for warning in short["warnings"]}
    assert "host_memory_short" in codes
    # The accelerator itself has room.
    assert "does_not_fit" not in codes


async def test_memory_that_the_host_shares_pages_nothing_out(client):
    asked = with_training(optimizer="paged-adamw") | {"accelerator": "apple-m2-ultra-192gb"}
    paged = await answer(client, PATH, asked)
    asked["training"]["optimizer"] = "adamw"
    plain = await answer(client, PATH, asked)
    assert paged["total_bytes"] == plain["total_bytes"]
    assert paged["host_bytes"] == plain["host_bytes"]


async def test_states_that_are_paged_out_take_time(client):
    asked = with_training(optimizer="paged-adamw", sequence_length=512)
    memory = await answer(client, PATH, asked)
    speed = await answer(client, "/v1/latency/training", asked)
    assert memory["host_bytes"]["value"] > 0
    assert speed["parts"]["offload_stall_s"] > 0
    small = asked | {"model": "meta-llama/Llama-3.2-1B"}
    assert (await answer(client, "/v1/latency/training", small))["parts"]["offload_stall_s"] == 0
