"""Measurements beside what the core computes of the same configuration."""

from __future__ import annotations

from typing import Any

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.measurements.compared import ComparedDocument, compared
from service.estimation.measurements.documents import MeasurementDocument
from tests.conftest import packaged_catalog

DEPLOYMENT: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-h100-sxm-80gb",
    "workload": {"input_tokens": 1024, "output_tokens": 128, "concurrency": 8},
}


@pytest.fixture(scope="module")
def snapshot() -> CatalogSnapshot:
    return packaged_catalog()


def beside(snapshot: CatalogSnapshot, request: dict[str, Any], *names: str) -> dict[str, float]:
    found = document(snapshot, request, dict.fromkeys(names, 1.0))
    return {figure.quantity: figure.value for figure in found.figures}


def document(
    snapshot: CatalogSnapshot,
    request: dict[str, Any],
    measured: dict[str, Any],
    **more: Any,
) -> ComparedDocument:
    kind = "training" if "training" in request else "inference"
    given = {"kind": kind, "request": request, "measured": measured} | more
    return compared(MeasurementDocument.model_validate(given), snapshot)


def test_rates_are_amounts_over_times(snapshot: CatalogSnapshot) -> None:
    found = beside(
        snapshot,
        DEPLOYMENT,
        *("ttft_s", "tpot_s", "e2e_s", "prefill_tokens_per_s", "decode_tokens_per_s"),
        *("request_tokens_per_s", "output_tokens_per_s", "total_tokens_per_s", "requests_per_s"),
    )
    assert found["prefill_tokens_per_s"] == pytest.approx(1024 / found["ttft_s"])
    assert found["decode_tokens_per_s"] == pytest.approx(1.0 / found["tpot_s"])
    assert found["request_tokens_per_s"] == pytest.approx(128 / found["e2e_s"])
    assert found["total_tokens_per_s"] == pytest.approx(found["requests_per_s"] * (1024 + 128))
    assert found["output_tokens_per_s"] == pytest.approx(found["requests_per_s"] * 128)


def test_prompts_of_a_batch_that_a_script_hands_over_are_computed_together(
    snapshot: CatalogSnapshot,
) -> None:
    load = DEPLOYMENT["workload"] | {"concurrency": 4}
    for engine, prompts in (("transformers", 4), ("vllm", 1)):
        asked = DEPLOYMENT | {"serving": {"engine": engine}, "workload": load}
        found = beside(snapshot, asked, "ttft_s", "prefill_tokens_per_s")
        rate = prompts * 1024 / found["ttft_s"]
        assert found["prefill_tokens_per_s"] == pytest.approx(rate)


def test_memory_of_all_accelerators_is_a_sum(snapshot: CatalogSnapshot) -> None:
    tensor = DEPLOYMENT | {"accelerator_count": 2, "serving": {"engine": "transformers"}}
    found = beside(snapshot, tensor, "process_bytes", "process_total_bytes")
    assert found["process_total_bytes"] == pytest.approx(2 * found["process_bytes"])
    staged = tensor | {"parallelism": {"pipeline": 2}}
    names = ("allocated_total_bytes", "activations_bytes", "weights_bytes")
    one = beside(snapshot, DEPLOYMENT | {"serving": {"engine": "transformers"}}, *names)
    two = beside(snapshot, staged, *names)
    # Stages together hold one model and its caches, and each its own activations.
    assert two["allocated_total_bytes"] - 2 * two["activations_bytes"] == pytest.approx(
        one["allocated_total_bytes"] - one["activations_bytes"]
    )


def test_what_allocates_ahead_takes_its_share(snapshot: CatalogSnapshot) -> None:
    serving = {"memory_utilization_ratio": 0.5, "engine": "vllm"}
    found = beside(snapshot, DEPLOYMENT | {"serving": serving}, "process_bytes", "reserved_bytes")
    whole = beside(snapshot, DEPLOYMENT | {"serving": serving | {"memory_utilization_ratio": 1.0}},
                   "process_bytes")  # fmt: skip
    # What lies outside the share, such as the driver's context, is the same of any share.
    outside = 2.0 * found["process_bytes"] - whole["process_bytes"]
    assert 0.0 < outside < 4e9
    assert found["reserved_bytes"] < found["process_bytes"]


def test_goodput_is_the_highest_rate_that_keeps_the_limits(snapshot: CatalogSnapshot) -> None:
    limits = {"ttft_p99_s": 0.5, "tpot_p99_s": 0.015}
    [found] = document(
        snapshot, DEPLOYMENT, {"goodput_requests_per_s": 10.0}, limits=limits
    ).figures
    for factor, kept in ((0.999, True), (1.001, False)):
        workload = DEPLOYMENT["workload"] | {"requests_per_s": found.value * factor}
        at_rate = beside(snapshot, DEPLOYMENT | {"workload": workload}, *limits)
        assert all(at_rate[name] <= most for name, most in limits.items()) is kept


def test_goodput_needs_limits(snapshot: CatalogSnapshot) -> None:
    found = document(snapshot, DEPLOYMENT, {"goodput_requests_per_s": 10.0})
    assert found.is_empty
    assert "needs limits" in found.refused["goodput_requests_per_s"]


def test_percentiles_are_those_of_how_requests_come(snapshot: CatalogSnapshot) -> None:
    workload = DEPLOYMENT["workload"] | {"requests_per_s": 5.0}
    names = [f"{stem}_{share}_s" for stem in ("ttft", "tpot", "e2e") for share in ("p50", "p99")]
    for asked in (DEPLOYMENT, DEPLOYMENT | {"workload": workload}):
        found = beside(snapshot, asked, *names)
        for stem in ("ttft", "tpot", "e2e"):
            assert found[f"{stem}_p50_s"] <= found[f"{stem}_p99_s"]


def test_as_many_as_fit_fill_the_memory(snapshot: CatalogSnapshot) -> None:
    workload = {"input_tokens": 16_384, "output_tokens": 1024, "concurrency": "max"}
    found = document(snapshot, DEPLOYMENT | {"workload": workload}, {"output_tokens_per_s": 900.0})
    ran = found.computed.deployment["workload"]
    assert isinstance(ran, dict)
    counted = ran["concurrency"]
    assert isinstance(counted, int)
    more = document(
        snapshot,
        DEPLOYMENT | {"workload": workload | {"concurrency": counted + 1}},
        {"output_tokens_per_s": 900.0},
    )
    codes = [warning.code for warning in more.computed.warnings]
    assert 1 < counted < 1024
    assert "does_not_fit" in codes
    slots = {"max_running_sequences": 4}
    few = document(
        snapshot,
        DEPLOYMENT | {"workload": workload, "serving": slots, "parallelism": {"data": 2}},
        {"output_tokens_per_s": 900.0},
    )
    assert few.computed.deployment["workload"]["concurrency"] == 8  # type: ignore[index, call-overload]


def test_running_out_of_memory_is_compared(snapshot: CatalogSnapshot) -> None:
    large = DEPLOYMENT | {"model": "meta-llama/Llama-3.1-70B"}
    assert document(snapshot, large, {"out_of_memory": True}).foresaw is True
    assert document(snapshot, DEPLOYMENT, {"out_of_memory": True}).foresaw is False
    assert document(snapshot, DEPLOYMENT, {"tpot_s": 0.01}).foresaw is None


def test_a_training_run_is_read_from_the_same_step(snapshot: CatalogSnapshot) -> None:
    request = {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "accelerator_count": 8,
        "training": {"micro_batch_size": 2, "sequence_length": 4096, "zero_stage": 3},
    }
    names = ("step_s", "tokens_per_s", "tokens_per_s_per_accelerator", "samples_per_s")
    found = beside(snapshot, request, *names)
    tokens = 8 * 2 * 4096
    assert found["tokens_per_s"] == pytest.approx(tokens / found["step_s"])
    assert found["tokens_per_s_per_accelerator"] == pytest.approx(found["tokens_per_s"] / 8)
    assert found["samples_per_s"] == pytest.approx(found["tokens_per_s"] / 4096)
    refused = document(snapshot, request, {"it_energy_j": 1.0}).refused
    assert refused == {"it_energy_j": "energy of a run needs training.tokens"}


def test_the_time_of_a_step_needs_its_sequences(snapshot: CatalogSnapshot) -> None:
    request = {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "accelerator_count": 8,
        "training": {"framework": "torchtitan"},
    }
    found = document(snapshot, request, {"tokens_per_s": 1.0, "step_s": 1.0})
    # A rate is much the same of any micro-batch; a step's time is that of its sequences.
    assert [figure.quantity for figure in found.figures] == ["tokens_per_s"]
    assert "needs training.global_batch_size, or micro_batch_size" in found.refused["step_s"]
    request["training"] = {"framework": "torchtitan", "micro_batch_size": 2}
    assert document(snapshot, request, {"step_s": 1.0}).refused == {}


def test_what_follows_from_a_request_is_not_compared(snapshot: CatalogSnapshot) -> None:
    request = {
        "model": "meta-llama/Llama-3.1-8B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "accelerator_count": 8,
        "training": {"micro_batch_size": 2},
    }
    found = document(snapshot, request, {"step_s": 1.0, "global_batch_sequences": 16.0})
    assert [figure.quantity for figure in found.figures] == ["step_s"]
    assert "follows from the request" in found.refused["global_batch_sequences"]


def test_implausible_figures_are_marked(snapshot: CatalogSnapshot) -> None:
    [right] = document(snapshot, DEPLOYMENT, {"tpot_s": 0.01}).figures
    [milliseconds] = document(snapshot, DEPLOYMENT, {"tpot_s": 10.0}).figures
    assert not right.implausible
    assert milliseconds.implausible


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"measured": {"tpot_s": 1.0, "mean_tpot_s": 1.0}}, "tpot_s is given twice"),
        ({"measured": {"tpot_s": True}}, "only out_of_memory is true"),
        ({"measured": {"out_of_memory": 2.0}}, "only out_of_memory is true"),
        ({"measured": {"tpot_s": float("inf")}}, "finite"),
        ({"measured": {"tpot_s": 1e30}}, "less than or equal"),
        ({"limits": {"process_bytes": 1.0}}, "not a time that users wait"),
        ({"kind": "training"}, "not one of training"),
        ({"measured_on": "2024-13"}, "pattern"),
    ],
)
def test_contradictions_are_refused(given: dict[str, Any], said: str) -> None:
    base = {"kind": "inference", "request": DEPLOYMENT, "measured": {"tpot_s": 1.0}}
    with pytest.raises(ValueError, match=said):
        MeasurementDocument.model_validate(base | given)
