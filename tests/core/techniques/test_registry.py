"""Every technique has its text, and does to a setup what the text says."""

from __future__ import annotations

from dataclasses import replace

import pytest

from service.catalog.entries.references import UnknownReference
from service.catalog.entries.texts import packaged_texts
from service.core.deployment import (
    Deployment,
    InferenceWorkload,
    Parallelism,
    Precision,
    ServingSettings,
)
from service.core.memory.inference.memory import inference_memory
from service.core.memory.training.memory import training_memory
from service.core.memory.training.settings import MicroBatch, TrainingSettings
from service.core.number_formats import NUMBER_FORMATS
from service.core.search.workloads import WORKLOAD_KINDS
from service.core.techniques.registry import TECHNIQUES
from service.core.techniques.setup import InferenceSetup, TrainingSetup
from service.estimation.techniques import FILTERS
from tests.core.calibrations import packaged_overheads, packaged_training_overheads
from tests.core.deployments import H100, architecture

TEXTS = packaged_texts()["techniques"]
TRAINING = packaged_training_overheads()
RUNTIME = packaged_overheads()
FORMATS = NUMBER_FORMATS
FP32 = Precision(FORMATS["fp32"], FORMATS["bf16"], FORMATS["fp32"])
BF16 = Precision(FORMATS["bf16"], FORMATS["bf16"], FORMATS["bf16"])

#: A wasteful run to which every technique of training can do something.
WASTEFUL = TrainingSettings(
    attention="eager",
    fused_kernels=False,
    gradient_bytes=4.0,
    gradient_accumulation_steps=4,
    sequence_parallel=False,
)

#: Parts that a technique makes larger while it saves others: whole gradients of the layer in use,
#: adapters beside the weights, a master copy among the states, inputs gathered around the last
#: product.
COSTS = {
    "zero-3": {"activations"},
    # Adapters keep their products of low rank.
    "lora": {"weights", "activations"},
    "qlora": {"activations"},
    "mixed-precision": {"optimizer"},
    "sequence-parallelism": {"logits"},
}


def training_setup(technique: str) -> TrainingSetup:
    parallelism = Parallelism(tensor=2, data=4)
    settings = WASTEFUL
    if technique in ("paged-optimizer", "optimizer-offload"):
        settings = replace(settings, zero_stage=1)
    if technique == "parameter-offload":
        settings = replace(settings, zero_stage=3)
    if technique == "whole-shard-group":
        settings = replace(settings, zero_stage=3, data_parallel_shard_degree=2)
    model = "mixtral-8x7b" if technique == "expert-parallelism" else "llama-70b"
    precision = FP32 if technique == "mixed-precision" else BF16
    deployment = Deployment(architecture(model), precision, H100, parallelism)
    return TrainingSetup(deployment, MicroBatch(8.0, 4096.0), settings)


def inference_setup(technique: str) -> InferenceSetup:
    model = "mixtral-8x7b" if technique == "expert-parallelism" else "llama-70b"
    parallelism = Parallelism(tensor=2, data=4)
    deployment = Deployment(architecture(model), BF16, H100, parallelism)
    # A single prompt that is too long, or many requests of which a few fit.
    load = InferenceWorkload(8192.0, 256.0, 8.0 if technique == "chunked-prefill" else 256.0)
    if technique in ("concurrency-limit", "context-limit"):
        deployment = replace(deployment, parallelism=Parallelism(tensor=4))
    return InferenceSetup(
        deployment, load, ServingSettings(max_running_sequences=int(load.concurrency))
    )


def trained(setup: TrainingSetup):
    return training_memory(setup.deployment, setup.micro_batch, setup.settings, TRAINING)


def served(setup: InferenceSetup):
    return inference_memory(setup.deployment, setup.workload, setup.serving, RUNTIME)


def test_every_technique_has_a_text_and_the_reverse():
    ids = [technique.id for technique in TECHNIQUES]
    assert len(ids) == len(set(ids))
    assert set(ids) == set(TEXTS.by_id)


def test_names_are_found():
    for technique_id, text in TEXTS.by_id.items():
        for name in (technique_id, technique_id.upper(), *text.fields.get("aliases", ())):
            assert TEXTS.find(name) == technique_id
    with pytest.raises(UnknownReference) as unknown:
        TEXTS.find("zero-4")
    assert "zero-3" in unknown.value.suggestions


def test_workloads_name_techniques_that_are_listed():
    named = {name for kind in WORKLOAD_KINDS.values() for name in kind.techniques}
    known = {*TEXTS.by_id}.union(*(one.fields.get("aliases", ()) for one in TEXTS.by_id.values()))
    assert named <= known


@pytest.mark.parametrize("technique", TECHNIQUES, ids=lambda technique: technique.id)
def test_texts_and_behaviour_agree(technique):
    text = TEXTS.by_id[technique.id]
    assert text.sources
    planned = (technique.training, technique.inference)
    for kind, proposals in zip(("training", "inference"), planned, strict=True):
        assert proposals is None or kind in text.fields["applies_to"]
    assert "set_by" in text.fields or planned == (None, None)


def test_filters_know_the_categories_of_the_texts():
    used = {text.fields["category"] for text in TEXTS.by_id.values()}
    assert sorted(used) == list(FILTERS["category"])


@pytest.mark.parametrize(
    "technique",
    [one for one in TECHNIQUES if one.training is not None],
    ids=lambda technique: technique.id,
)
def test_training_techniques_shrink_what_they_say(technique):
    before = trained(training_setup(technique.id))
    changes = list(technique.training(before))
    assert changes
    assert len({change.summary for change in changes}) == len(changes)
    sizes = parts(before)
    shrunk = set()
    for change in changes:
        changed = change.apply(training_setup(technique.id))
        assert changed != training_setup(technique.id)
        after = parts(trained(changed))
        shrunk |= {part for part, size in sizes.items() if after[part] < size}
        grown = {part for part, size in sizes.items() if after[part] > size * 1.000001}
        assert grown <= COSTS.get(technique.id, set())
    assert {*TEXTS.by_id[technique.id].fields["saves"]} - {"kv_cache"} <= shrunk


def test_host_memory_is_proposed_where_it_is_another_memory():
    start = inference_setup("memory-tiers")
    [tiers] = [technique for technique in TECHNIQUES if technique.id == "memory-tiers"]
    [change] = tiers.inference(served(start))
    assert change.apply(start) == replace(start, in_host_memory=True)
    shared = replace(start.deployment, accelerator=replace(H100, unified_memory=True))
    assert not list(tiers.inference(served(replace(start, deployment=shared))))


def parts(memory) -> dict[str, float]:
    """Sizes of the parts, where activations count the room that they share with logits.

    Both are as they are at the loss, whatever gradients take over from them.
    """
    moments = memory.moments
    passing = moments.stored_bytes + max(moments.logits_bytes, moments.working_bytes)
    return {
        "weights": memory.weights_bytes.value,
        "gradients": memory.gradients_bytes.value,
        "optimizer": memory.optimizer_bytes.value,
        "activations": passing,
        "logits": moments.logits_bytes,
    }


@pytest.mark.parametrize(
    "technique",
    [one for one in TECHNIQUES if one.inference is not None and one.id != "memory-tiers"],
    ids=lambda technique: technique.id,
)
def test_inference_techniques_gain_room(technique):
    start = inference_setup(technique.id)
    before = served(start)
    changes = list(technique.inference(before))
    assert changes
    gained = [
        served(change.apply(start)).headroom_bytes.value - before.headroom_bytes.value
        for change in changes
    ]
    assert max(gained) > 0
