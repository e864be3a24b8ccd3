"""Commands that start training runs as they were estimated."""

import json
import shlex

import pytest

from service.estimation.launching.training import run_start_of
from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest
from tests.estimation.launching.test_start import told


def started(snapshot, framework, batch, layers=32, **changes):
    body = {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "accelerator_count": 16,
        "parallelism": {"data": 16},
        "region": "aws/us-east-1",
        "training": {"sequence_length": 8192, "tokens": 2.0**33, "framework": framework},
    }
    training = body["training"] | changes.pop("training", {})
    asked = EstimateTrainingRequest.model_validate(body | changes | {"training": training})
    run = training_estimate(asked, snapshot)["deployment"]
    accelerator = snapshot.find("accelerators", asked.accelerator).value
    return run_start_of(framework, run, layers, batch, accelerator, snapshot)


def test_torchtitan_is_told_shards_batches_and_what_is_recomputed(packaged_snapshot):
    start = started(
        packaged_snapshot,
        "torchtitan",
        64,
        training={"zero_stage": 3, "micro_batch_size": 2, "gradient_accumulation_steps": 2}
        | {"activation_checkpointing": "full"},
    )
    flags = told(start["command"])
    assert flags["--nnodes"] == "2"
    assert flags["--nproc-per-node"] == "8"
    assert "--parallelism.data_parallel_shard_degree -1 " in start["command"]
    assert flags["--training.local_batch_size"] == "2"
    assert flags["--training.global_batch_size"] == "64"
    assert flags["--training.steps"] == str(2**33 // 8192 // 64)
    assert flags["--activation_checkpoint.mode"] == "full"
    assert "--parallelism.tensor_parallel_degree" not in flags
    assert any("2 machines" in note for note in start["notes"])


def test_torchtune_has_recipes_of_their_own_for_one_card(packaged_snapshot):
    """Those of several take torchrun's flags, and those of one refuse them."""
    adapter = {"method": "lora", "lora_rank": 8, "micro_batch_size": 4}
    changes = {"accelerator_count": 1, "parallelism": {}, "training": adapter}
    alone = started(packaged_snapshot, "torchtune", 4, **changes)["command"]
    assert alone.startswith("tune run lora_finetune_single_device --config CONFIG ")
    assert "--nproc_per_node" not in alone
    both = {"accelerator_count": 2, "parallelism": {"data": 2}, "training": adapter}
    together = started(packaged_snapshot, "torchtune", 8, **both)["command"]
    assert together.startswith("tune run --nnodes 1 --nproc_per_node 2 lora_finetune_distributed")


def test_megatron_divides_405b_as_was_published(packaged_snapshot):
    """Embedding and head stand for two layers, so that 126 fill 16 stages of eight parts."""
    start = started(
        packaged_snapshot,
        "megatron-lm",
        2048,
        layers=126,
        model="meta-llama/Llama-3.1-405B",
        accelerator_count=16384,
        parallelism={"tensor": 8, "pipeline": 16, "data": 128},
        training={"zero_stage": 1, "gradient_accumulation_steps": 16, "micro_batch_size": 1}
        | {"pipeline_schedule": "interleaved", "virtual_stages": 8},
    )
    flags = told(start["command"])
    assert flags["--tensor-model-parallel-size"] == "8"
    assert flags["--pipeline-model-parallel-size"] == "16"
    assert flags["--num-virtual-stages-per-pipeline-rank"] == "8"
    assert {"--account-for-embedding-in-pipeline-split", "--sequence-parallel"} <= set(flags)
    assert {"--account-for-loss-in-pipeline-split", "--use-distributed-optimizer"} <= set(flags)
    assert flags["--train-samples"] == str(2**33 // 8192)
    assert not [note for note in start["notes"] if note.startswith("set ")]


def test_megatron_is_refused_nothing_that_its_arguments_ask_for(packaged_snapshot):
    """What validate_args of Megatron-LM asserts of groups that share work, and of its own FSDP."""
    asked = {"zero_stage": 1, "activation_checkpointing": "selective"}
    split = {"parallelism": {"data": 4, "tensor": 4}}
    shared = started(packaged_snapshot, "megatron-lm", 16, training=asked, **split)["command"]
    assert shared.startswith("CUDA_DEVICE_MAX_CONNECTIONS=1 torchrun ")
    assert "--overlap-grad-reduce --overlap-param-gather" in shared
    assert "--recompute-granularity selective" in shared
    sharded = started(packaged_snapshot, "megatron-lm", 16, training={"zero_stage": 3}, **split)
    flags = told(sharded["command"])
    assert sharded["command"].startswith("torchrun ")
    assert flags["--ckpt-format"] == "fsdp_dtensor"
    assert "--no-gradient-accumulation-fusion" in flags
    # 61 layers fill 16 stages no more evenly with the embedding and the loss, and 32 nearly.
    uneven = started(
        packaged_snapshot,
        "megatron-lm",
        64,
        layers=61,
        model="deepseek-ai/DeepSeek-V3",
        accelerator_count=256,
        parallelism={"data": 16, "pipeline": 16, "expert": 16},
        training={"zero_stage": 1, "gradient_accumulation_steps": 16},
    )
    layout = told(uneven["command"])["--pipeline-model-parallel-layout"]
    assert (layout.count("t"), layout.count("|"), layout[0], layout[-1]) == (61, 31, "E", "L")
    operators = asked | {"activation_checkpointing": "selective-operators"}
    notes = started(packaged_snapshot, "megatron-lm", 16, training=operators)["notes"]
    assert any(note.startswith("set what is recomputed") for note in notes)


def test_a_launcher_of_its_own_starts_all_machines(packaged_snapshot):
    start = started(packaged_snapshot, "deepspeed", 32, training={"zero_stage": 2})
    assert any(note.startswith("name the 2 machines in /job/hostfile") for note in start["notes"])
    assert not any("run it on each" in note for note in start["notes"])


def test_deepspeed_reads_its_configuration(packaged_snapshot):
    start = started(
        packaged_snapshot,
        "deepspeed",
        32,
        training={"zero_stage": 2, "gradient_accumulation_steps": 2}
        | {"offload": {"optimizer": "cpu"}},
    )
    assert "--deepspeed_config ds_config.json" in start["command"]
    assert json.loads(start["file"]["content"]) == {
        "bf16": {"enabled": True},
        "train_batch_size": 32,
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 2,
        "zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}},
    }


def test_deepspeed_is_told_of_second_copies_and_narrow_messages(packaged_snapshot):
    start = started(
        packaged_snapshot,
        "deepspeed",
        32,
        training={"zero_stage": 3, "secondary_shard_degree": 8}
        | {"weight_gather_dtype": "int8", "gradient_scatter_dtype": "int4"},
    )
    told = json.loads(start["file"]["content"])["zero_optimization"]
    assert told["zero_hpz_partition_size"] == 8
    assert told["zero_quantized_weights"] is told["zero_quantized_gradients"] is True


@pytest.mark.parametrize(
    ("training", "engine"),
    [
        ({"zero_stage": 3}, "torchtitan"),
        ({"zero_stage": 1}, "megatron-lm"),
        ({"zero_stage": 3, "method": "qlora", "lora_rank": 32}, "torchtune"),
    ],
)
def test_any_framework_is_started_as_one_that_can_be_told_the_run(
    packaged_snapshot, training, engine
):
    start = started(packaged_snapshot, "default", 16, training=training)
    assert start["engine"] == engine
    assert not [note for note in start["notes"] if note.startswith("set ")]
    if engine == "torchtune":
        assert {"lora_finetune_distributed", "model.lora_rank=32"} <= set(
            shlex.split(start["command"])
        )


def test_a_run_is_started_by_what_runs_on_its_hardware(packaged_snapshot):
    """DeepSpeed, which divides states for PEFT, runs on no TPU, and torchtune on no Trainium."""
    adapter = {"method": "lora", "lora_rank": 8}
    alone = {"accelerator_count": 1, "parallelism": {}, "training": adapter}
    divided = {
        "accelerator_count": 4,
        "parallelism": {"data": 4},
        "training": {**adapter, "zero_stage": 1},
    }
    assert started(packaged_snapshot, "default", 4, accelerator="trn2", **alone) is None
    assert started(packaged_snapshot, "default", 4, accelerator="tpu-v5p", **divided) is None
    tpu = started(packaged_snapshot, "default", 4, accelerator="tpu-v5p", **alone)
    assert tpu["engine"] == "peft"
    gaudi = started(packaged_snapshot, "default", 4, accelerator="gaudi3", **divided)
    assert "--use_deepspeed" in gaudi["command"]


def test_what_cannot_be_told_is_said(packaged_snapshot):
    asked = {"fp8_recipe": "rowwise"}
    fp8 = {"weights": "bf16", "activations": "fp8"}
    start = started(packaged_snapshot, "torchtitan", 16, training=asked, precision=fp8)
    said = "set the scaling of 8-bit operands to rowwise in torchtitan's own configuration"
    assert said in start["notes"]
    asked = {"fp8_recipe": "blockwise"}
    start = started(packaged_snapshot, "megatron-lm", 16, training=asked, precision=fp8)
    assert "--fp8-recipe blockwise" in start["command"]
    asked = {"zero_stage": 3}
    start = started(packaged_snapshot, "megatron-lm", 16, training=asked)
    assert "--data-parallel-sharding-strategy optim_grads_params" in start["command"]


def test_every_way_to_start_says_all_that_it_can_with_a_source(packaged_snapshot):
    sources = {one.id for one in packaged_snapshot.sources.values()}
    starting = [
        one for one in packaged_snapshot.engines.values() if "starts_training" in one.document
    ]
    assert len(starting) >= 6
    for engine in starting:
        assert engine.document["starts_training"]["source"] in sources
        assert "training" in engine.document["workloads"]
    for engine in packaged_snapshot.engines.values():
        for one in engine.document.get("started_as", ()):
            assert "starts_training" in packaged_snapshot.engines[one].document


def test_megatron_is_told_what_predicts_further_ahead(packaged_snapshot):
    """61 layers and one that predicts: two on each of two stages a rank, as its users run it."""
    changes = {
        "model": "deepseek-ai/DeepSeek-V3",
        "accelerator": "nvidia-gb200-186gb",
        "accelerator_count": 256,
        "parallelism": {"data": 16, "pipeline": 16, "expert": 16},
        "layers": 61,
    }
    asked = {"zero_stage": 1, "prediction_layers": 1, "gradient_accumulation_steps": 16}
    start = started(packaged_snapshot, "megatron-lm", 256, training=asked, **changes)
    flags = told(start["command"])
    assert flags["--mtp-num-layers"] == "1"
    assert flags["--pipeline-model-parallel-layout"] == "Et|" + "tt|" * 30 + "mL"
    # The layout says how many stages a rank has, and Megatron-LM refuses both.
    assert "--num-virtual-stages-per-pipeline-rank" not in start["command"]
    assert "--account-for-embedding-in-pipeline-split" not in start["command"]
    assert "--grad-reduce-in-bf16" not in start["command"]
    asked |= {"prediction_layers": 0, "gradient_dtype": "bf16"}
    start = started(packaged_snapshot, "megatron-lm", 256, training=asked, **changes)
    assert "--mtp-num-layers" not in start["command"]
    assert "--grad-reduce-in-bf16" in start["command"]
