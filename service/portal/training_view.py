"""The page about training as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any, get_args

from service.catalog.snapshot import CatalogSnapshot
from service.core.memory.training.settings import Optimizer
from service.estimation.formatting import duration, gigabytes, money, number
from service.estimation.recommendations.training.recommend import training_recommendation_answer
from service.estimation.rejection import FieldError
from service.estimation.training.choices import CHECKPOINTING, training_memory_choices
from service.estimation.training.estimate import training_estimate
from service.estimation.verdict.figures import days, emissions
from service.estimation.verdict.memory import memory_parts
from service.estimation.verdict.names import optimizer_name
from service.estimation.verdict.verdict import training_verdict
from service.portal.advice import Column, Recommender, advice
from service.portal.charts import training_pictures
from service.portal.figures import COST, Layout, in_unit, litres, power, sections, table
from service.portal.options import TRAINED_WEIGHT_FORMATS
from service.portal.places import PLACES, where_searched
from service.portal.rendering import form, rendered, sources
from service.portal.settled import AS_THE_FRAMEWORK, settled
from service.portal.training_questions import LAYOUT, TrainingPageRequest
from service.portal.views import own_name
from service.portal.why import why
from service.reports.training_recommendation import TRAINING_TERMS, training_recommendation_document


def _percent(ratio: float) -> str:
    return f"{number(ratio * 100.0)}%"


#: The figures of a run that pages and reports show.
RUN_FIGURES: Layout = (
    (
        "Memory per accelerator",
        (
            ("Weights", "memory.weights_bytes", gigabytes),
            ("Gradients", "memory.gradients_bytes", gigabytes),
            ("Optimizer states", "memory.optimizer_bytes", gigabytes),
            ("Working memory", "memory.activations_bytes", gigabytes),
            ("Logits", "memory.logits_bytes", gigabytes),
            ("Engine and driver", "memory.runtime_bytes", gigabytes),
            ("Total", "memory.total_bytes", gigabytes),
            ("Free", "memory.headroom_bytes", gigabytes),
            ("On the host, each", "memory.host_bytes", gigabytes),
            ("Largest micro-batch that fits", "memory.max_micro_batch_size", number),
        ),
    ),
    (
        "Speed",
        (
            ("A step", "latency.step_s", duration),
            ("Tokens, all accelerators", "latency.tokens_per_s", in_unit("tokens/s")),
            (
                "Tokens, each accelerator",
                "latency.tokens_per_s_per_accelerator",
                in_unit("tokens/s"),
            ),
            ("Share of peak used (MFU)", "latency.mfu_ratio", _percent),
            ("Achieved, each", "latency.model_tflops_per_accelerator", in_unit("TFLOP/s")),
            (
                "Achieved, with recomputation",
                "latency.hardware_tflops_per_accelerator",
                in_unit("TFLOP/s"),
            ),
            ("Whole run", "latency.run.days", days),
            ("Accelerator-hours", "latency.run.accelerator_hours", in_unit("h")),
        ),
    ),
    (
        "Energy and footprint of the run",
        (
            ("Power of the machines", "energy.it_power_w", power),
            ("Energy, including the building", "impacts.run.facility_energy_kwh", in_unit("kWh")),
            ("Emissions", "impacts.run.carbon.total_gco2e", emissions),
            (
                "of which electricity",
                "impacts.run.carbon.operational_location_gco2e",
                emissions,
            ),
            (
                "of which hardware",
                "impacts.run.carbon.embodied_gco2e",
                emissions,
            ),
            ("Water", "impacts.run.water.total_l", litres),
            ("Electronic waste", "impacts.run.e_waste_kg", in_unit("kg")),
        ),
    ),
    (
        COST,
        (
            ("Per hour", "cost.rented.usd_per_hour", money),
            ("Per million tokens", "cost.rented.usd_per_million_tokens", money),
            ("Whole run", "cost.rented.usd_run", money),
        ),
    ),
)
#: Settings that the form chooses among, as they are read.
_CHOICES: dict[str, dict[str, str]] = {
    "method": {
        "full": "All weights",
        "lora": "LoRA adapters",
        "qlora": "QLoRA: adapters on 4-bit weights",
    },
    "optimizer": {name: optimizer_name(name) for name in get_args(Optimizer)},
    "zero_stage": {
        "": AS_THE_FRAMEWORK,
        "0": "0: nothing divided",
        "1": "1: optimizer states",
        "2": "2: also gradients",
        "3": "3: also weights (FSDP)",
    },
    "activation_checkpointing": {
        "": AS_THE_FRAMEWORK,
        "none": "nothing",
        "selective": "attention scores",
        "selective-modules": "norms and activations",
        "selective-operators": "every other matrix product",
        "full": "whole layers",
    },
    "pipeline_schedule": {
        "": AS_THE_FRAMEWORK,
        "1f1b": "1F1B",
        "gpipe": "GPipe: all forward first",
        "interleaved": "interleaved",
        "zero-bubble": "zero bubble",
        "dualpipe": "DualPipe: from both ends",
    },
    "offload_optimizer": {"none": "on the accelerator", "cpu": "host memory", "nvme": "NVMe"},
    "offload_parameters": {"none": "on the accelerator", "cpu": "host memory", "nvme": "NVMe"},
}

#: Heads of the columns by what is computed again.
_AGAIN = {
    "none": "no recomputation",
    "selective": "recompute attention scores",
    "selective-modules": "recompute norms and activations",
    "selective-operators": "recompute every other matrix product",
    "full": "recompute whole layers",
}


def training_page(
    request: TrainingPageRequest,
    snapshot: CatalogSnapshot,
    *,
    answer_only: bool = False,
    home: str = "",
) -> str:
    """The page about a training run, or only its answer; ``home`` is the service's address."""
    estimate = training_estimate(request.estimate, snapshot)
    found = request.with_ids(estimate["deployment"])
    said = training_verdict(estimate, snapshot, found.days, found.usd, own_name(found))
    recommended = (
        training_recommendation_answer(found.recommendation(snapshot), snapshot)
        if found.recommend
        else None
    )
    return rendered(
        "training.html",
        **_form(found.form_fields(), (), snapshot),
        answer_only=answer_only,
        home=home,
        request=found,
        estimate=estimate,
        verdict=said,
        reasons={figure.id: why(figure, estimate) for figure in said.figures},
        memory=memory_parts(estimate["memory"]),
        sections=sections(estimate, RUN_FIGURES),
        grid=_grid(found, estimate["deployment"], snapshot),
        settled=settled(found, estimate["deployment"]),
        checkpointing=CHECKPOINTING,
        again=_AGAIN,
        searched=where_searched(found.search_in, found.region, snapshot),
        pictures=list(training_pictures(found, snapshot)),
        sources=sources(estimate),
        remarks=[one["message"] for one in estimate["warnings"]],
        advice=None if recommended is None else advice(found, recommended, snapshot, RUNS),
    )


def training_steps_page(request: TrainingPageRequest, snapshot: CatalogSnapshot) -> str:
    """How everything about a training run was computed, step by step."""
    estimate = training_estimate(request.estimate, snapshot)
    return rendered(
        "steps.html",
        request=request.with_ids(estimate["deployment"]),
        estimate=estimate,
        verdict=training_verdict(estimate, snapshot, model=own_name(request)),
        sources=sources(estimate),
        here="Train a model",
        title="How it was computed",
        trail=((f"training?{request.link()}", "The answer"),),
    )


def refused_training_page(
    given: Mapping[str, str],
    errors: Iterable[FieldError],
    snapshot: CatalogSnapshot,
    *,
    answer_only: bool = False,
) -> str:
    """The page with what was given, and what is wrong with it."""
    defaults = {name: field.default for name, field in TrainingPageRequest.model_fields.items()}
    fields = defaults | {name: given[name] for name in defaults if name in given}
    shown = _form(fields, errors, snapshot)
    return rendered("training.html", **shown, answer_only=answer_only, request=None, estimate=None)


def training_table(request: TrainingPageRequest, snapshot: CatalogSnapshot) -> list[dict[str, Any]]:
    """Every figure of the estimate that the page shows, as rows."""
    return table(training_estimate(request.estimate, snapshot))


def _grid(
    request: TrainingPageRequest, deployment: Mapping[str, Any], snapshot: CatalogSnapshot
) -> list[dict[str, Any]]:
    """Memory by ZeRO stage, one row each, and way to recompute, one cell each.

    ``deployment`` is the run as it was understood, which one of the cells is.
    """
    rows = []
    choices = training_memory_choices(request.estimate, snapshot)
    for stage, cells in groupby(choices, key=lambda choice: choice["zero_stage"]):
        rows.append({"stage": stage, "cells": [_cell(request, deployment, cell) for cell in cells]})
    return rows


def _cell(
    request: TrainingPageRequest, deployment: Mapping[str, Any], choice: Mapping[str, Any]
) -> dict[str, Any]:
    memory = choice["memory"]
    if memory is None:
        return {"link": ""}
    run = deployment["training"]
    changed = {name: choice[name] for name in ("zero_stage", "activation_checkpointing")}
    batches = {name: run[name] for name in ("micro_batch_size", "gradient_accumulation_steps")}
    # One degree that is said keeps the others from being chosen anew.
    layout = {
        name: degree
        for name in LAYOUT
        if (degree := deployment["parallelism"][name]) > 1 or name == "tensor"
    }
    narrowly = memory["fits"] and memory["fits_certainty"] != "yes"
    return {
        "total": gigabytes(memory["total_bytes"]["value"]),
        "fits": memory["fits"],
        "word": "narrowly" if narrowly else "fits" if memory["fits"] else "too large",
        "asked": all(run[name] == value for name, value in changed.items()),
        "link": request.link(**changed, **batches, **layout),
    }


def _form(
    fields: Mapping[str, Any], errors: Iterable[FieldError], snapshot: CatalogSnapshot
) -> dict[str, Any]:
    return form(fields, errors, snapshot) | {
        "choices": _CHOICES,
        "places": PLACES,
        "weight_formats": TRAINED_WEIGHT_FORMATS,
        "layout_given": any(fields[name] for name in (*LAYOUT, "power_limit_w")),
        "offload_given": any(
            fields[name] != "none" for name in ("offload_optimizer", "offload_parameters")
        ),
    }


def _fields(candidate: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the form that ask about a candidate."""
    return {
        **{name: candidate[name] for name in ("accelerator", "accelerator_count", "region")},
        "weights": candidate["precision"]["weights"],
        **{name: candidate["parallelism"][name] for name in LAYOUT},
        **candidate["training"],
        "offload_parameters": "none",
        "power_limit_w": None,
    }


#: What the page recommends.
RUNS = Recommender(
    answer=training_recommendation_answer,
    document=training_recommendation_document,
    terms=TRAINING_TERMS,
    settings=TRAINING_TERMS.settings,
    columns=(
        Column("Length of the run", "latency.run.days", days, "latency"),
        Column("Cost of the run", "cost.rented.usd_run", money, "cost"),
        Column("CO₂e of the run", "impacts.run.carbon.total_gco2e", emissions, "carbon"),
    ),
    fields=_fields,
)
