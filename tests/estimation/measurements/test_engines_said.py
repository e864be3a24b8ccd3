"""Which engine a document means whose request names none."""

from __future__ import annotations

from typing import Any

import pytest

from service.estimation.measurements.understood import understood


@pytest.fixture(scope="module")
def trained(packaged_snapshot):
    def settings(engine: str | None = None, **training: Any) -> dict[str, Any]:
        given = {
            "kind": "training",
            "request": {
                "model": "meta-llama/Llama-3.1-8B",
                "accelerator": "nvidia-h100-sxm-80gb",
                "training": training,
            },
            "measured": {"step_s": 1.0},
            "engine": engine,
        }
        found = understood(given, packaged_snapshot)
        told = found.document.request.training.model_dump(exclude_unset=True)
        return told | {"warnings": found.warnings}

    return settings


@pytest.mark.parametrize(
    ("words", "asked", "framework", "version"),
    [
        ("torchtitan 2025-02-14, compiled", None, "torchtitan", None),
        ("MaxText", "default", "maxtext", None),
        ("NeuronX Distributed, Neuron 2.24.0", None, "neuron", None),
        # One that is built like the request's, or on it, says more than the request.
        ("NVIDIA NeMo Framework Release 24.09", "megatron-lm", "nemo", "24.09"),
        ("Megatron-DeepSpeed, 2022-02", "deepspeed", "megatron-deepspeed", "2022-02"),
        # One that is another is no word on what the request says ran.
        ("torchtitan", "megatron-lm", "megatron-lm", None),
        # A longer word is another name.
        ("Megatronics 3", None, None, None),
        # A library that others are built on tells nothing, a way to use it does.
        ("PyTorch 2.1", "default", None, None),
        ("PyTorch FSDP, 2.1", None, "fsdp", None),
    ],
)
def test_words_say_what_a_request_leaves_open(trained, words, asked, framework, version):
    told = trained(words, **({} if asked is None else {"framework": asked}))
    assert told.get("framework") == framework
    if version is not None:
        assert told["framework_version"] == version
    if framework != asked and framework is not None:
        assert any("/engine" in one for one in told["warnings"])


@pytest.mark.parametrize(
    ("words", "asked", "version"),
    [
        ("vLLM 0.5.2; Python 3.10", "vllm", "0.5.2"),
        # A part of an engine behind its name: releases are of both.
        ("LMDeploy TurboMind 0.2.0", "lmdeploy", "0.2.0"),
        ("LMDeploy (TurboMind) v0.6.1", "lmdeploy", "0.6.1"),
        # What an engine's name begins with is another's, whose versions mean nothing for it.
        ("TensorRT 10.1.0, CUDA 12.7", "tensorrt-llm", None),
        ("TensorRT-LLM, TensorRT 10.1.0", "tensorrt-llm", None),
    ],
)
def test_a_version_is_that_of_the_name_before_it(packaged_snapshot, words, asked, version):
    given = {
        "kind": "inference",
        "request": {
            "model": "meta-llama/Llama-3.1-8B",
            "accelerator": "nvidia-h100-sxm-80gb",
            "serving": {"engine": asked},
        },
        "measured": {"tpot_s": 0.01},
        "engine": words,
    }
    request = understood(given, packaged_snapshot).document.request
    assert request.serving.engine_version == version
