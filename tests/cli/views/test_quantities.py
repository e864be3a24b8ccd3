"""Numbers as people read them."""

from __future__ import annotations

import pytest

from service.cli.views.quantities import column, figure_cells, label, quantity


@pytest.mark.parametrize(
    ("field", "number", "shown"),
    [
        ("weights_bytes", 17.638e9, "17.6 GB"),
        ("weights_bytes", 0.0, "0 B"),
        ("ttft_s", 0.1866, "187 ms"),
        ("e2e_s", 7.844, "7.84 s"),
        ("e2e_s", 7200.0, "2 h"),
        ("output_tokens_per_s", 1044.39, "1,040 tokens/s"),
        ("total_gco2e", 0.0277, "27.7 mg CO2e"),
        ("facility_energy_kwh", 64077.6, "64.1 MWh"),
        ("total_l", 388_000.0, "388 m³"),
        ("mfu_ratio", 0.3955, "39.6 %"),
        ("model_tflops_per_accelerator", 411.2, "411 TFLOP/s"),
        ("headroom_bytes", -7.5554e9, "−7.56 GB"),
        ("kv_cache_bytes_per_token", 81920.0, "81.9 kB/token"),
        ("max_concurrency", 565.0, "565"),
        ("ttft_s", None, "–"),
    ],
)
def test_units_follow_from_names_and_sizes(field, number, shown):
    assert quantity(field, number) == shown


def test_an_interval_has_the_unit_of_its_value():
    figure = {"value": 0.9, "low": 0.5, "high": 2.0}
    assert figure_cells("ttft_s", figure) == ("900 ms", "500 … 2,000")
    assert figure_cells("weights_bytes", {"value": 5, "low": 5, "high": 5}) == ("5 B", "exact")
    assert figure_cells("total_l", None) == ("–", "not known")


def test_a_column_has_one_unit():
    assert column("ttft_s", [0.001, None, 2.0]) == ("s", ["0.001", "–", "2"])


def test_a_column_of_unknowns_has_none():
    assert column("total_l", [None, None]) == ("", ["–", "–"])


def test_labels_are_words_without_units():
    assert label("kv_cache_bytes") == "KV cache"
    assert label("e_waste_kg") == "e-waste"
