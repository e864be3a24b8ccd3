"""Methods, adapters and optimizers go by what trainers and papers call them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from service.estimation.training.requests import TrainingSettingsRequest


def understood(**asked):
    found = TrainingSettingsRequest.model_validate(asked)
    return found.method, found.adapter, found.optimizer


@pytest.mark.parametrize(
    ("method", "meant"),
    [
        ("LoRA", ("lora", "lora", "adamw")),
        ("QLoRA", ("qlora", "lora", "adamw")),
        ("Full", ("full", "lora", "adamw")),
        # What a run is for says nothing of adapters.
        ("SFT", ("full", "lora", "adamw")),
        ("full fine-tuning", ("full", "lora", "adamw")),
        ("pretraining", ("full", "lora", "adamw")),
        # Adapters say the method, with a q for a quantised base.
        ("DoRA", ("lora", "dora", "adamw")),
        ("QDoRA", ("qlora", "dora", "adamw")),
        ("lora-fa", ("lora", "lora-fa", "adamw")),
        ("prefix tuning", ("lora", "prefix", "adamw")),
        ("IA3", ("lora", "ia3", "adamw")),
        # Another beginning of LoRA has its size.
        ("PiSSA", ("lora", "lora", "adamw")),
        # Optimizers that make all weights trainable.
        ("GaLore", ("full", "lora", "galore-adamw")),
        ("apollo_mini", ("full", "lora", "apollo-mini")),
    ],
)
def test_a_method_goes_by_other_names(method, meant):
    assert understood(method=method) == meant


def test_adapters_and_optimizers_go_by_other_names():
    assert understood(method="lora", adapter="DoRA")[1] == "dora"
    assert understood(method="lora", adapter="prompt_tuning")[1] == "prompt"
    assert understood(optimizer="paged_adamw_32bit")[2] == "paged-adamw"
    assert understood(optimizer="AdamW")[2] == "adamw"


def test_what_stands_beside_a_method_may_say_the_same_and_nothing_else():
    assert understood(method="DoRA", adapter="dora")[:2] == ("lora", "dora")
    assert understood(method="QDoRA", adapter="DoRA")[:2] == ("qlora", "dora")
    with pytest.raises(ValidationError):
        understood(method="DoRA", adapter="vera")
    with pytest.raises(ValidationError):
        understood(method="GaLore", optimizer="sgd")


@pytest.mark.parametrize("objective", ["dpo", "GRPO", "PPO", "distillation"])
def test_an_objective_is_no_method_and_is_led_to_where_it_is_asked(objective):
    with pytest.raises(ValidationError, match="/v1/estimates/post-training"):
        understood(method=objective)


@pytest.mark.parametrize("given", ["adapters", "", 3, None, ["lora"]])
def test_what_is_no_method_is_refused(given):
    with pytest.raises(ValidationError):
        understood(method=given)
