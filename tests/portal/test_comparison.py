"""Which of several deployments is best is only said where it shows."""

from __future__ import annotations

import pytest

from service.estimation.formatting import duration, number
from service.portal.comparison import ComparePageRequest, _cells, compare_page


def estimate(path, value, low, high):
    outer, inner = path.split(".")
    return {outer: {inner: {"value": value, "low": low, "high": high}}}


@pytest.mark.parametrize(
    ("path", "figures", "marks"),
    [
        ("latency.ttft_s", [(1.0, 0.9, 1.1), (2.0, 1.8, 2.2)], ["best", ""]),
        ("latency.ttft_s", [(1.0, 0.5, 2.1), (2.0, 1.8, 2.2)], ["perhaps best", ""]),
        ("latency.ttft_s", [(1.0, 0.9, 1.1), (1.0001, 0.9, 1.1)], ["", ""]),
        ("latency.requests_per_s", [(1.0, 0.9, 1.1), (2.0, 1.8, 2.2)], ["", "best"]),
        ("latency.ttft_s", [(1.0, 0.9, 1.1), None], ["", ""]),
        ("latency.ttft_s", [(3, 2, 4), (1, 1, 1), (2, 2, 2)], ["", "best", ""]),
    ],
)
def test_the_best_is_marked_by_how_sure_it_is(path, figures, marks):
    words = duration if path.endswith("_s") else number
    estimates = [None if figure is None else estimate(path, *figure) for figure in figures]
    assert [cell.best for cell in _cells(estimates, path, words)] == marks


def test_columns_are_the_first_with_what_is_different():
    request = ComparePageRequest.model_validate(
        {"tensor": 8, "weights": "bf16", "weights_2": "fp8", "accelerator_count_3": 4}
    )
    (_, first), (second_number, second), (_, third) = request.columns
    assert (second_number, second.weights, second.tensor) == (2, "fp8", 8)
    assert (third.accelerator_count, third.weights, third.tensor) == (4, "bf16", None)
    assert first.weights == "bf16"


def test_an_empty_comparison_has_an_example_and_a_given_one_does_not():
    assert len(ComparePageRequest.model_validate({}).columns) == 2
    (_, _), (_, second) = ComparePageRequest.model_validate({"region_2": "country/FR"}).columns
    assert second.accelerator == ComparePageRequest().accelerator


def test_a_comparison_says_what_each_is_best_at(packaged_snapshot):
    asked = {"model": "llama-3.1-8b", "accelerator": "l40s", "region": "DE", "concurrency": 8}
    asked |= {"engine": "vllm", "engine_version": "0.21"}
    request = ComparePageRequest(**asked, accelerator_2="rtx-4090")
    # One of an accelerator that is named without a number, as on the page of an answer.
    assert [one.accelerator_count for _, one in request.columns] == [1, 1]
    page = compare_page(request, packaged_snapshot)
    assert "<p>The first, 1 × L40S, answers sooner.</p>" in page
    assert "<p>The second, 1 × GeForce RTX 4090, costs less per token, and perhaps " in page


def test_of_three_one_is_best_and_of_two_one_is_better(packaged_snapshot):
    asked = {"model": "llama-3.1-8b", "accelerator": "l40s", "region": "DE", "concurrency": 8}
    asked |= {"engine": "vllm", "engine_version": "0.21", "accelerator_2": "rtx-4090"}
    three = ComparePageRequest(**asked, accelerator_3="nvidia-a10-24gb")
    assert "costs least per token" in compare_page(three, packaged_snapshot)
