"""Changes that are proposed are judged as their own requests would be, and none is impossible."""

from contextlib import contextmanager
from unittest import mock

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from service.core.techniques.changes import inference_formats
from service.estimation.inference import mitigations as of_inference
from service.estimation.inference.estimate import inference_estimate, inference_memory_answer
from service.estimation.inference.requests import InferenceRequest
from service.estimation.mitigations import NOTHING_TO_CHANGE
from service.estimation.rejection import Rejected
from service.estimation.requests import MemoryInferenceRequest
from service.estimation.training import mitigations as of_training
from service.estimation.training.estimate import training_memory_answer
from service.estimation.training.requests import MemoryTrainingRequest
from tests.conftest import packaged_catalog as catalog

DEGREES = ("tensor", "pipeline", "expert", "data", "context")
QUIETLY = settings(
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


@contextmanager
def searches(module):
    """What is asked for mitigations: start, judge and proposals of each question.

    These are held to requests here, on walks of their own: the search that they are made for is
    spared, in the question and in all requests that changes are compared with.
    """
    with mock.patch.object(module, "mitigations", return_value=NOTHING_TO_CHANGE) as asked:
        yield asked.call_args_list


def changed(draw, start, propose):
    """Setups on a walk through proposals, and those that result from leaving one out."""
    now, taken = start, []
    for _ in range(draw(st.integers(1, 4))):
        proposed = [change for _, changes in propose(now) for change in changes]
        if not proposed:
            break
        taken.append(draw(st.sampled_from(proposed)))
        now = taken[-1].apply(now)
        yield now
    for without in taken[:-1]:
        again = start
        for change in taken:
            again = again if change is without else change.apply(again)
        yield again


def degrees(layout):
    return {name: getattr(layout, name) for name in DEGREES}


def formats(precision, *names):
    return {name: getattr(precision, name).id for name in names}


deployments = st.fixed_dictionaries(
    {
        "model": st.sampled_from(("meta-llama/Llama-3.1-8B", "mistralai/Mixtral-8x7B-v0.1")),
        "accelerator": st.sampled_from(("nvidia-h100-sxm-80gb", "nvidia-l40s-48gb")),
        "parallelism": st.fixed_dictionaries(
            {
                "tensor": st.sampled_from((1, 2, 4)),
                "pipeline": st.sampled_from((1, 2)),
                "data": st.sampled_from((1, 2, 4, 6)),
            },
            optional={"expert": st.sampled_from((2, 4))},
        ),
        "workload": st.fixed_dictionaries(
            {
                "input_tokens": st.sampled_from((2000, 30_000)),
                "output_tokens": st.just(20),
                "concurrency": st.sampled_from((300, 5000)),
            }
        ),
        "serving": st.fixed_dictionaries(
            {},
            optional={
                "disaggregated": st.fixed_dictionaries(
                    {}, optional={"prefill_replicas": st.sampled_from((1, 2, 3))}
                ),
                "speculative": st.fixed_dictionaries(
                    {"draft_model": st.just("meta-llama/Llama-3.2-1B"), "draft_tokens": st.just(3)}
                ),
            },
        ),
    }
)


def inference_request(question, setup):
    layout, load, serving = setup.deployment.parallelism, setup.workload, setup.serving
    return MemoryInferenceRequest.model_validate(
        question
        | {
            "parallelism": degrees(layout),
            "precision": formats(setup.deployment.precision, "weights", "kv_cache"),
            "workload": {
                "input_tokens": int(load.input_tokens),
                "output_tokens": int(load.output_tokens),
                "concurrency": int(load.concurrency),
            },
            "serving": question["serving"]
            | {
                "memory_utilization_ratio": serving.memory_utilization_ratio,
                "chunked_prefill_tokens": serving.chunked_prefill_tokens,
            },
        }
    )


@given(question=deployments, data=st.data())
@QUIETLY
def test_changes_of_deployments_are_judged_as_requests(question, data):
    with searches(of_inference) as found:
        try:
            inference_memory_answer(MemoryInferenceRequest.model_validate(question), catalog())
        except Rejected:
            assume(False)
        assume(found)
        start, judge, propose = found[0].args
        for setup in changed(data.draw, start, propose):
            if not setup.in_host_memory:
                asked = inference_request(question, setup)
                compare(judge(setup), lambda one=asked: inference_memory_answer(one, catalog()))


def test_no_format_is_proposed_that_the_engine_does_not_read():
    question = {
        "model": "meta-llama/Llama-3.1-70B",
        "accelerator": "nvidia-rtx-3090-24gb",
        "workload": {"input_tokens": 2000, "output_tokens": 20},
        # One that does not leave to the host what has no room.
        "serving": {"engine": "llama.cpp", "engine_version": "2025"},
    }
    with searches(of_inference) as found:
        inference_memory_answer(MemoryInferenceRequest.model_validate(question), catalog())
    start, judge, _ = found[0].args
    assert judge(start) is not None
    assert judge(inference_formats("", weights="gguf-q2_k").apply(start)) is not None
    assert judge(inference_formats("", weights="awq-int4").apply(start)) is None


runs = st.fixed_dictionaries(
    {
        "model": st.sampled_from(("meta-llama/Llama-3.1-70B", "mistralai/Mixtral-8x7B-v0.1")),
        "accelerator": st.sampled_from(("nvidia-h100-sxm-80gb", "nvidia-l40s-48gb")),
        "parallelism": st.fixed_dictionaries(
            {
                "tensor": st.sampled_from((1, 2)),
                "pipeline": st.sampled_from((1, 2, 5)),
                "data": st.sampled_from((1, 2, 4, 6)),
                "context": st.sampled_from((1, 2)),
            },
            optional={"expert": st.sampled_from((2, 4))},
        ),
        "training": st.fixed_dictionaries(
            {
                "sequence_length": st.sampled_from((6, 4096, 4100)),
                "micro_batch_size": st.sampled_from((1, 6)),
                "gradient_accumulation_steps": st.sampled_from((1, 8)),
            },
            optional={
                "virtual_stages": st.sampled_from((1, 5, 16)),
                "pipeline_schedule": st.just("interleaved"),
                "zero_stage": st.sampled_from((1, 3)),
            },
        ),
    }
)


def training_request(question, setup):
    chosen, batch = setup.settings, setup.micro_batch
    dtypes = {4.0: "fp32", 2.0: "bf16"}
    kept = ("optimizer", "parameters", "activations")
    same = (
        *("method", "optimizer", "master_weights", "activation_checkpointing", "checkpoint_every"),
        *("attention", "fused_kernels", "cross_entropy", "sequence_parallel", "zero_stage"),
    )
    return MemoryTrainingRequest.model_validate(
        question
        | {
            "parallelism": degrees(setup.deployment.parallelism),
            "precision": formats(setup.deployment.precision, "weights", "activations"),
            "training": question["training"]
            | {name: getattr(chosen, name) for name in same}
            | {
                "gradient_dtype": dtypes[chosen.gradient_bytes],
                "sequence_length": int(batch.tokens),
                "micro_batch_size": int(batch.sequences),
                "gradient_accumulation_steps": int(chosen.gradient_accumulation_steps),
                "offload": {name: getattr(chosen.offload, name) for name in kept},
            },
        }
    )


@given(question=runs, data=st.data())
@QUIETLY
def test_changes_of_runs_are_judged_as_requests(question, data):
    with searches(of_training) as found:
        try:
            training_memory_answer(MemoryTrainingRequest.model_validate(question), catalog())
        except Rejected:
            assume(False)
        assume(found)
        start, judge, propose = found[0].args
        for setup in changed(data.draw, start, propose):
            asked = training_request(question, setup)
            compare(judge(setup), lambda one=asked: training_memory_answer(one, catalog()))


def compare(judged, answer):
    """A setup is judged exactly where its request is answered, and as that is."""
    if judged is None:
        with pytest.raises(Rejected):
            answer()
        return
    said = answer()
    assert judged.total_bytes.value == pytest.approx(said["total_bytes"]["value"], rel=1e-12)
    assert judged.fits == said["fits"]
    assert 0.0 < judged.token_s < float("inf")


def test_pools_are_not_merged_into_one_replica():
    request = InferenceRequest.model_validate(
        {
            "model": "meta-llama/Llama-3.1-8B",
            "accelerator": "nvidia-h100-sxm-80gb",
            "accelerator_count": 8,
            "parallelism": {"tensor": 2, "data": 4},
            "serving": {"disaggregated": {}},
            "workload": {"input_tokens": 9000, "output_tokens": 20, "concurrency": 5000},
            "region": "country/SE",
        }
    )
    helping = inference_estimate(request, catalog())["memory"]["would_help"]
    said = {one["change"] for one in helping}
    # Four replicas become two, which are still one for prompts and one for decoding.
    assert "use fewer replicas, with tensor parallelism 4 on the same accelerators" in said
    assert not any("tensor parallelism 8" in change for change in said)
