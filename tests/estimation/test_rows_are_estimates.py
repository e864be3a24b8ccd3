"""A row of many says what the estimate of its own request says: one pipeline for both."""

from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.catalog.files import read_files
from service.catalog.snapshot import snapshot_from_documents
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.estimation.rejection import Rejected
from service.estimation.sweeps.chunks import evaluate_chunk
from service.estimation.sweeps.plan import resolve_study
from service.estimation.sweeps.requests import SweepRequest
from service.settings import INSTALLATION

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


@cache
def catalog():
    """The packaged catalog."""
    files = read_files(INSTALLATION / "hardware_catalog")
    return snapshot_from_documents(files.documents, revision=1)


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
    speculative = draw(ways_to_decode)
    if speculative is not None:
        serving["speculative"] = speculative
    return {
        "models": [draw(st.sampled_from(MODELS))],
        "workload": {
            "input_tokens": draw(st.integers(1, 9000)),
            "output_tokens": draw(st.integers(2, 900)),
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


@given(question=questions(), row=st.integers(0, 10_000))
@settings(
    derandomize=True,
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.too_slow],
)
def test_a_row_of_a_sweep_is_the_estimate_of_its_request(question, row):
    snapshot = catalog()
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
            "serving": question["serving"],
        }
    )
    estimate = inference_estimate(request, snapshot)
    assert bool(columns["fits"][row]) == estimate["memory"]["fits"]
    for name, expected in said(estimate).items():
        of_row = figure(row, columns, name)
        of_estimate = (expected["value"], expected["low"], expected["high"])
        assert of_row == pytest.approx(of_estimate, rel=CLOSE, abs=0.0), (name, request)
    rented = estimate["cost"]["rented"]
    for name in ("usd_per_hour", "usd_per_million_output_tokens") if rented else ():
        # Rows say nothing of how far a price of another region may be off.
        of_row = columns[f"rented_{name}"][row]
        assert of_row == pytest.approx(rented[name]["value"], rel=CLOSE), (name, request)
