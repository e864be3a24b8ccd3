"""What trainers and papers call methods, adapters and optimizers, by the names that requests have.

Case, spaces and underscores do not matter. A method may be called by its adapter ("DoRA") or by its
optimizer ("GaLore"), and by what it is for ("SFT"), which trains all weights unless adapters are
named.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from service.core.memory.training.settings import Adapter, Optimizer

#: How people train weights.
Method: TypeAlias = Literal["full", "lora", "qlora"]

_BETWEEN = re.compile(r"[\s_-]+")
_ALL_WEIGHTS = (
    *("fft", "full-ft", "full-parameter", "full-parameters", "full-weights", "all-weights"),
    *("full-fine-tuning", "full-finetuning", "full-fine-tune", "full-finetune"),
    *("fine-tuning", "finetuning", "fine-tune", "finetune", "sft", "full-sft"),
    *("pre-training", "pretraining", "pre-train", "pretrain", "continued-pretraining", "cpt"),
)
_METHODS: Mapping[str, str] = {
    **dict.fromkeys(_ALL_WEIGHTS, "full"),
    **dict.fromkeys(("peft", "lora-sft", "sft-lora"), "lora"),
    **dict.fromkeys(("q-lora", "qlora-4bit", "lora-4bit", "4bit-lora"), "qlora"),
}
#: Other ways to begin adapters, or to step them, whose sizes are those of LoRA.
#: Source: PEFT, LoraConfig.init_lora_weights and optimizers/loraplus.py, 2025.
_AS_LORA = ("pissa", "olora", "loftq", "eva", "corda", "lora+", "loraplus", "lora-plus")
_ADAPTERS: Mapping[str, str] = {
    **dict.fromkeys(_AS_LORA, "lora"),
    **dict.fromkeys(("rs-lora", "rank-stabilized-lora"), "rslora"),
    "lorafa": "lora-fa",
    **dict.fromkeys(("ia-3", "(ia)3", "(ia)^3"), "ia3"),
    "prompt-tuning": "prompt",
    "prefix-tuning": "prefix",
    **dict.fromkeys(("ln", "ln-tuning", "norm-tuning", "layernorm-tuning", "layernorms"), "norms"),
}
_OPTIMIZERS: Mapping[str, str] = {
    **dict.fromkeys(("adam", "adamw-torch", "adamw-torch-fused", "adamw-hf"), "adamw"),
    **dict.fromkeys(("adamw-apex-fused", "fused-adam", "fusedadam", "cpuadam"), "adamw"),
    **dict.fromkeys(("adam-8bit", "adam8bit", "adamw8bit", "adamw-bnb-8bit"), "adamw-8bit"),
    "paged-adamw-32bit": "paged-adamw",
    "paged-adamw8bit": "paged-adamw-8bit",
    "lion-32bit": "lion",
    "galore": "galore-adamw",
    "apollo-adamw": "apollo",
}
#: Objectives that are no method, and take more than one model.
_OBJECTIVES = frozenset(
    {"dpo", "grpo", "ppo", "rlhf", "rl", "rlvr", "gspo", "dapo", "rloo", "gkd", "kd"}
    | {"distillation", "knowledge-distillation"}
)


def _plain(given: str) -> str:
    return _BETWEEN.sub("-", given.strip().casefold())


def _named(given: object, known: tuple[str, ...], called: Mapping[str, str]) -> object:
    """The name that a request has for what is given, or what is given where none is known."""
    if not isinstance(given, str):
        return given
    typed = _plain(given)
    return called.get(typed, typed if typed in known else given)


def _method(given: object) -> object:
    """A method by any of its names.

    Raises
    ------
    PydanticCustomError
        If it is an objective, which is asked for elsewhere.
    """
    found = _named(given, get_args(Method), _METHODS)
    if isinstance(found, str) and _plain(found) in _OBJECTIVES:
        told = (
            f"must be full, lora or qlora, which say how weights are trained; {found} says what "
            "for: ask /v1/estimates/post-training, which takes any of them"
        )
        raise PydanticCustomError("method", "{text}", {"text": told})
    return found


def _adapter(given: object) -> object:
    return _named(given, get_args(Adapter), _ADAPTERS)


def _optimizer(given: object) -> object:
    return _named(given, get_args(Optimizer), _OPTIMIZERS)


MethodName = Annotated[Method, BeforeValidator(_method, json_schema_input_type=Method)]
AdapterName = Annotated[Adapter, BeforeValidator(_adapter, json_schema_input_type=Adapter)]
OptimizerName = Annotated[Optimizer, BeforeValidator(_optimizer, json_schema_input_type=Optimizer)]


def settings_of_method(given: object) -> object:
    """Settings of training with a method that is called by its adapter or optimizer told apart.

    As given where it is called otherwise, or settings beside it contradict it.
    """
    if not isinstance(given, Mapping) or not isinstance(given.get("method"), str):
        return given
    implied = _implied(_plain(given["method"]))
    contradicts = any(
        given.get(field) is not None and readers(given[field]) != implied.get(field)
        for field, readers in (("adapter", _adapter), ("optimizer", _optimizer))
        if field in implied
    )
    return given if contradicts else {**given, **implied}


def _implied(method: str) -> Mapping[str, Any]:
    """What a method says that is called by its adapter, on a base as it is or (q-) quantised."""
    if _named(method, get_args(Method), _METHODS) in get_args(Method):
        return {}
    for name, base in ((method, "lora"), (method.removeprefix("q").removeprefix("-"), "qlora")):
        adapter = _adapter(name)
        if adapter in get_args(Adapter):
            return {"method": base, "adapter": adapter}
    optimizer = _optimizer(method)
    if isinstance(optimizer, str) and optimizer.startswith(("galore", "apollo")):
        return {"method": "full", "optimizer": optimizer}
    return {}
