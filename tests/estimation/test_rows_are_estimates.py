"""A row of many says what the estimate of its own request says: one pipeline for both."""

from dataclasses import replace
from math import nan

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.core.estimate.inference import estimate_inference, inference_energy
from service.core.impacts.footprint import footprint
from service.core.interval import exact
from service.core.search.regions import in_usual_site
from service.core.search.training_candidates import training_candidates
from service.estimation.inference.deployment import resolve_deployment
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.recommendations.training.requests import TrainingRecommendationRequest
from service.estimation.recommendations.training.space import resolve_training_search
from service.estimation.rejection import Rejected
from service.estimation.resolution import Problems
from service.estimation.sweeps.chunks import evaluate_chunk
from service.estimation.sweeps.plan import resolve_study
from service.estimation.sweeps.requests import SweepRequest
from service.estimation.training.estimate import training_estimate
from service.estimation.training.requests import EstimateTrainingRequest
from tests.conftest import packaged_catalog

#: Sums in another order leave rounding, and nothing else.
CLOSE = 1e-12

MODELS = (
    "meta-llama/Llama-3.1-8B",
    "meta-llama/Llama-3.1-70B",
    "mistralai/Mixtral-8x7B-v0.1",
    "google/gemma-3-27b-it",
    "deepseek-ai/DeepSeek-V3",
)
ACCELERATORS = (
    "nvidia-h100-sxm-80gb",
    "nvidia-h200-sxm-141gb",
    "nvidia-a100-sxm-80gb",
    "nvidia-l40s-48gb",
    "nvidia-rtx-4090-24gb",
    "nvidia-v100-sxm-32gb",
    "nvidia-gb200-186gb",
    "amd-mi300x-192gb",
    "amd-mi210-64gb",
    "intel-gaudi3-128gb",
    "google-tpu-v6e",
    "apple-m3-ultra-512gb",
)
REGIONS = ("aws/eu-north-1", "aws/us-east-1", "gcp/europe-north1", "country/SE", "country/IN")
TIERS = ("ddr5-8ch", "cxl-2.0-ddr5-direct", "nvme-gen5")


ways_to_decode = st.one_of(
    st.none(),
    st.fixed_dictionaries(
        {"draft_tokens": st.integers(1, 6)},
        optional={
            "acceptance_ratio": st.floats(0.1, 0.95),
            "draft_model": st.just("meta-llama/Llama-3.2-1B"),
        },
    ),
)
tiers = st.one_of(
    st.just({}),
    st.fixed_dictionaries(
        {
            "memory_tiers": st.lists(
                st.fixed_dictionaries(
                    {"tier": st.sampled_from(TIERS), "units": st.integers(1, 8)},
                    optional={"capacity_bytes": st.floats(1e10, 4e12)},
                ),
                min_size=1,
                max_size=2,
                unique_by=lambda tier: tier["tier"],
            )
        },
        optional={
            "offload": st.fixed_dictionaries(
                {},
                optional={
                    "kv_cache_ratio": st.floats(0.0, 0.5),
                    "weights_ratio": st.floats(0.0, 0.5),
                    "parked_sequences": st.integers(0, 500),
                },
            )
        },
    ),
)


def lengths(least, most):
    """One length for all requests, or how they differ."""
    means = st.floats(float(least), float(most))
    return st.one_of(
        st.integers(least, most),
        means.flatmap(
            lambda mean: st.floats(1.0, 3.5).map(lambda ratio: {"mean": mean, "p95": mean * ratio})
        ),
        st.just({"tokens": [10, 300, 2500], "shares": [5, 3, 1]}),
    )


@st.composite
def questions(draw):
    """Sweeps of a few configurations of everything that they may ask about."""
    serving = draw(tiers) | draw(
        st.fixed_dictionaries(
            {"engine": st.sampled_from(("vllm", "sglang", "tensorrt-llm", "llama.cpp"))},
            optional={
                "max_running_sequences": st.sampled_from((4, 64, 256)),
                "chunked_prefill_tokens": st.sampled_from((512, 8192)),
                "memory_utilization_ratio": st.floats(0.5, 0.95),
            },
        )
    )
    if serving["engine"] == "llama.cpp":
        # Ranges of estimates reach over the room that it takes unless told, which rows do not.
        serving["max_model_len"] = 16_384
    speculative = draw(ways_to_decode)
    if speculative is not None:
        serving["speculative"] = speculative
    return {
        "models": [draw(st.sampled_from(MODELS))],
        "workload": {
            "input_tokens": draw(lengths(1, 9000)),
            "output_tokens": draw(lengths(2, 900)),
            "prefix_cached_ratio": draw(st.sampled_from((0.0, 0.3, 0.9))),
            "calls_per_task": draw(st.sampled_from((1, 7))),
        },
        "space": {
            "accelerators": draw(
                st.lists(st.sampled_from(ACCELERATORS), min_size=1, max_size=4, unique=True)
            ),
            "regions": draw(
                st.lists(st.sampled_from(REGIONS), min_size=1, max_size=2, unique=True)
            ),
            "precisions": draw(
                st.lists(
                    st.sampled_from(("bf16", "fp8", "int8", "awq-int4", "nvfp4")),
                    min_size=1,
                    max_size=2,
                    unique=True,
                )
            ),
            "kv_caches": [draw(st.sampled_from(("bf16", "fp8")))],
            "parallelisms": [
                {
                    "tensor": draw(st.sampled_from((1, 2, 4, 8))),
                    "pipeline": draw(st.sampled_from((1, 1, 2, 4))),
                    "expert": draw(st.sampled_from((1, 1, 2, 4, 8))),
                }
            ],
            "concurrencies": draw(
                st.lists(st.integers(1, 700), min_size=1, max_size=3, unique=True)
            ),
            "accelerator_counts": draw(
                st.one_of(st.none(), st.just([8, 64]), st.just([16]), st.just([1, 8]))
            ),
            "placement": "anywhere",
        },
        "serving": serving,
        "power_limit_w": draw(st.sampled_from((None, None, 250.0, 500.0))),
        "facility": draw(
            st.sampled_from(({}, {}, {"pue_ratio": 1.31}, {"site_class": "enterprise"}))
        ),
        "keep": "candidates",
    }


def figure(row, columns, name):
    return tuple(columns[f"{name}{end}"][row] for end in ("", "_low", "_high"))


def said(estimate):
    """Figures of an estimate under the names that rows have."""
    memory, latency, energy = estimate["memory"], estimate["latency"], estimate["energy"]
    tokens, year = estimate["impacts"]["per_1k_tokens"], estimate["impacts"]["per_year"]
    return {
        "total_bytes": memory["total_bytes"],
        "headroom_bytes": memory["headroom_bytes"],
        **{name: latency[name] for name in ("ttft_s", "tpot_s", "e2e_s", "output_tokens_per_s")},
        "requests_per_s": latency["requests_per_s"],
        "it_energy_per_request_wh": energy["it_energy_per_request_wh"],
        "it_power_w": energy["it_power_w"],
        "operational_gco2e_per_1k_tokens": tokens["carbon"]["operational_location_gco2e"],
        "gco2e_per_1k_tokens": tokens["carbon"]["total_gco2e"],
        "l_per_1k_tokens": tokens["water"]["total_l"],
        "kwh_per_year": year["facility_energy_kwh"],
        "l_per_year": year["water"]["total_l"],
    }


def limit_of(limit_w, accelerator, snapshot):
    """The limit that a single estimate takes: none where nothing more is ever drawn."""
    most_w = snapshot.accelerators[accelerator].value.thermal_design_power_w
    return None if limit_w is None or limit_w >= most_w else limit_w


@given(question=questions(), row=st.integers(0, 10_000))
@settings(
    derandomize=True,
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_a_row_of_a_sweep_is_the_estimate_of_its_request(question, row):
    snapshot = packaged_catalog()
    try:
        study = resolve_study(SweepRequest.model_validate(question), snapshot)
    except Rejected:
        return
    (chunk,) = study.chunks
    rows = evaluate_chunk(study, chunk)
    if not len(rows):
        return
    row %= len(rows)
    columns, texts = rows.columns, rows.texts

    def text(name):
        return texts[name][columns[name][row]]

    data = int(columns["data"][row])
    request = InferenceRequest.model_validate(
        {
            "model": question["models"][0],
            "accelerator": text("accelerator"),
            "precision": {"weights": text("weights"), "kv_cache": text("kv_cache")},
            "parallelism": {
                name: int(columns[name][row]) for name in ("tensor", "pipeline", "expert")
            }
            | {"data": data},
            "region": text("region"),
            "workload": question["workload"]
            | {"concurrency": int(columns["concurrency_per_replica"][row]) * data},
            # Rows leave nothing open: their ranges are those of a server of the newest release.
            "serving": {"engine_version": "newest", "usage_context": "server"}
            | question["serving"],
            "facility": question["facility"],
            "power_limit_w": limit_of(question["power_limit_w"], text("accelerator"), snapshot),
        }
    )
    estimate = inference_estimate(request, snapshot)
    assert bool(columns["fits"][row]) == estimate["memory"]["fits"]
    for name, expected in said(estimate).items():
        of_row = figure(row, columns, name)
        unknown = {"value": nan, "low": nan, "high": nan}
        of_estimate = tuple((expected or unknown).values())
        assert of_row == pytest.approx(of_estimate, rel=CLOSE, abs=0.0, nan_ok=True), (
            name,
            request,
        )
    rented = estimate["cost"]["rented"]
    for name in ("usd_per_hour", "usd_per_million_output_tokens") if rented else ():
        # Rows say nothing of how far a price of another region may be off.
        of_row = columns[f"rented_{name}"][row]
        assert of_row == pytest.approx(rented[name]["value"], rel=CLOSE), (name, request)


@st.composite
def runs(draw):
    """Searches of training runs, small enough to compare."""
    return {
        "model": draw(st.sampled_from(("meta-llama/Llama-3.1-8B", "mistralai/Mixtral-8x7B-v0.1"))),
        "training": {
            "tokens": draw(st.floats(1e8, 1e12)),
            "sequence_length": draw(st.sampled_from((512, 4096, 32768))),
            "global_batch_size": draw(st.sampled_from((8, 64, 256))),
            "methods": [draw(st.sampled_from(("full", "lora", "qlora")))],
            "optimizers": [draw(st.sampled_from(("adamw", "paged-adamw-8bit", "lion")))],
            "offload": draw(st.booleans()),
        },
        "search": {
            "accelerators": draw(
                st.lists(st.sampled_from(ACCELERATORS), min_size=1, max_size=4, unique=True)
            ),
            "regions": [draw(st.sampled_from(REGIONS))],
            "max_accelerators": draw(st.sampled_from((4, 16))),
        },
    }


def run_request(search, rows, row, question):
    """The request that a row of a search for training answers."""
    space, run = search.spaces[0], question["training"]
    variant, layout = space.variants[rows.variant[row]], space.layouts[rows.layout[row]]
    chosen, formats = variant.settings, variant.precision
    return EstimateTrainingRequest.model_validate(
        {
            "model": question["model"],
            "accelerator": search.context.accelerators[rows.offer[row]].id,
            "region": question["search"]["regions"][0],
            "precision": {"weights": formats.weights.id, "activations": formats.activations.id},
            "parallelism": {
                name: getattr(layout, name)
                for name in ("tensor", "pipeline", "data", "context", "expert")
            },
            "training": {
                "framework": chosen.framework,
                "method": chosen.method,
                "optimizer": chosen.optimizer,
                "sequence_length": run["sequence_length"],
                "micro_batch_size": int(rows.micro_batch_size[row]),
                "gradient_accumulation_steps": int(rows.gradient_accumulation_steps[row]),
                "activation_checkpointing": chosen.activation_checkpointing,
                "pipeline_schedule": chosen.pipeline_schedule,
                "virtual_stages": chosen.virtual_stages,
                "zero_stage": chosen.zero_stage,
                "offload": {"optimizer": chosen.offload.optimizer},
                "tokens": run["tokens"],
            },
        }
    )


@given(question=runs(), drawn=st.integers(0, 10**9))
@settings(
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_a_row_of_a_training_search_is_the_estimate_of_its_request(question, drawn):
    snapshot = packaged_catalog()
    search = resolve_training_search(
        TrainingRecommendationRequest.model_validate(question), snapshot
    )
    rows, _ = training_candidates(
        search.models[0].value, search.spaces[0], search.demand, search.environment
    )
    for row in {drawn * times % len(rows) for times in (1, 7, 31)} if len(rows) else ():
        request = run_request(search, rows, row, question)
        estimate = training_estimate(request, snapshot)
        memory, latency, energy = estimate["memory"], estimate["latency"], estimate["energy"]
        days, kwh = latency["run"]["days"], energy["it_energy_run_kwh"]
        expected = {
            "headroom_ratio": memory["headroom_bytes"]["value"] / memory["capacity_bytes"],
            "memory_spread_ratio": memory["total_bytes"]["high"] / memory["total_bytes"]["value"],
            "host_bytes": memory["host_bytes"]["value"],
            "step_s": latency["step_s"]["value"],
            "mfu_ratio": latency["mfu_ratio"]["value"],
            "power_w": energy["it_power_w"]["value"],
        }
        if days is not None:
            expected |= {
                "wall_s": days["value"] * 86_400.0,
                "it_wh": kwh["value"] * 1000.0,
                "it_wh_spread_ratio": min(kwh["high"] / kwh["value"], 1000.0),
            }
        for name, value in expected.items():
            # Headroom is the difference of two large figures.
            assert getattr(rows, name)[row] == pytest.approx(value, rel=CLOSE, abs=CLOSE), (
                name,
                request,
            )
        if days is None:
            continue
        device = search.context.accelerators[rows.offer[row]].value
        infrastructure, region = search.environment.infrastructure, search.context.regions[0].value
        region = in_usual_site(region, device.platform.site)
        worn = footprint(
            exact(rows.it_wh[row] / 1000.0),
            exact(rows.accelerator_hours[row]),
            device,
            region,
            infrastructure,
        )
        whole = estimate["impacts"]["run"]
        for of_row, said_so in (
            (worn.operational_location_gco2e, whole["carbon"]["operational_location_gco2e"]),
            (worn.total_location_gco2e, whole["carbon"]["total_gco2e"]),
            (worn.water_total_l, whole["water"]["total_l"]),
        ):
            assert (of_row is None) == (said_so is None)
            assert said_so is None or of_row.value == pytest.approx(said_so["value"], rel=CLOSE)


@given(
    rates=st.lists(st.floats(1e-3, 50.0), min_size=2, max_size=5),
    tokens=st.tuples(st.integers(1, 5000), st.integers(1, 500)),
    drafted=st.integers(0, 4),
)
@settings(derandomize=True, deadline=None, max_examples=30)
def test_arrays_of_request_rates_are_the_single_rates(rates, tokens, drafted):
    """Random arrivals, which no search asks about, beside saturated replicas."""
    resolved = resolve_deployment(
        InferenceRequest.model_validate(
            {
                "model": "meta-llama/Llama-3.1-8B",
                "accelerator": "nvidia-h100-sxm-80gb",
                "parallelism": {"data": 2},
                "region": "country/SE",
                "workload": {"input_tokens": tokens[0], "output_tokens": tokens[1]},
                "serving": {"speculative": {"draft_tokens": drafted} if drafted else None},
            }
        ),
        packaged_catalog(),
        Problems(),
    )
    infrastructure = resolved.calibration.infrastructure

    def asked(rate):
        setup = resolved.setup
        estimate = estimate_inference(
            replace(setup, workload=replace(setup.workload, requests_per_s=rate))
        )
        return estimate.latency, inference_energy(estimate, infrastructure)

    latency, energy = asked(np.array(rates))
    for index, rate in enumerate(rates):
        alone, drawn = asked(rate)
        for together, single in (
            (latency.ttft_s.value, alone.ttft_s.value),
            (latency.e2e_s.high, alone.e2e_s.high),
            (latency.requests_per_s.low, alone.requests_per_s.low),
            (latency.waiting_requests, alone.waiting_requests),
            (energy.request.it_wh.value, drawn.request.it_wh.value),
            (energy.power.it_power_w.high, drawn.power.it_power_w.high),
        ):
            row = np.broadcast_to(together, len(rates))[index]
            assert row == pytest.approx(single, rel=CLOSE, abs=1e-15)
        if alone.load.ttft_s is None:
            assert np.isnan(latency.load.ttft_s.p99[index])
        else:
            assert latency.load.ttft_s.p99[index] == pytest.approx(alone.load.ttft_s.p99, rel=CLOSE)
            assert latency.load.e2e_s.p95[index] == pytest.approx(alone.load.e2e_s.p95, rel=CLOSE)
