"""What holds of every accelerator, whoever made it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from tests.conftest import packaged

ACCELERATORS = packaged()["accelerators"]
EVERY = pytest.mark.parametrize("entry", ACCELERATORS.values(), ids=lambda entry: entry["id"])
#: Each of these formats is multiplied at least as fast as the one before it.
FASTER = ("tf32", "bf16", "fp8", "fp4")
#: Most that a device has reached with a kind of memory [GB/s], rounded up.
MOST_GB_PER_S = {
    "GDDR5": 400,
    "GDDR5X": 550,
    "GDDR6": 1000,
    "GDDR6X": 1020,
    "GDDR7": 2048,
    "HBM": 5000,
    "HBM2": 1560,
    "HBM2e": 3700,
    "HBM3": 5400,
    "HBM3e": 8600,
    "HBM4": 22000,
    "LPDDR4": 35,
    "LPDDR4X": 600,
    "LPDDR5": 820,
    "LPDDR5X": 1230,
    "DDR4": 210,
    "DDR5": 850,
}


def values(entry: Mapping[str, Any]) -> dict[str, float]:
    return {name: figure["value"] for name, figure in entry["figures"].items()}


@EVERY
def test_narrower_formats_are_no_slower(entry: Mapping[str, Any]) -> None:
    told = values(entry)
    peaks = [told[key] for form in FASTER if (key := f"peak_{form}_flops_per_s") in told]
    assert all(one <= next_ for one, next_ in pairwise(peaks)), peaks
    assert told.get("peak_fp16_accumulate_flops_per_s", 1e20) >= told.get(
        "peak_fp16_flops_per_s", 0.0
    )


@EVERY
def test_figures_are_of_one_device(entry: Mapping[str, Any]) -> None:
    told = values(entry)
    assert told.get("memory_usable_bytes", 0.0) <= told["memory_bytes"]
    assert told.get("idle_power_w", 0.0) < told.get("thermal_design_power_w", 1e6)
    for figure in entry["figures"].values():
        low, high = figure.get("low", figure["value"]), figure.get("high", figure["value"])
        assert low <= figure["value"] <= high


@EVERY
def test_memory_is_no_faster_than_its_kind(entry: Mapping[str, Any]) -> None:
    if entry["memory_technology"] != "SRAM":
        most = MOST_GB_PER_S[entry["memory_technology"]] * 1e9
        assert values(entry)["memory_bandwidth_bytes_per_s"] <= most


@EVERY
def test_16_bit_peaks_are_dense(entry: Mapping[str, Any]) -> None:
    """Matrix units do 2, 4, 8 or 16 times the FP32 rate; a sparse figure would be twice that."""
    told = values(entry)
    peaks = [told[key] for form in ("bf16", "fp16") if (key := f"peak_{form}_flops_per_s") in told]
    fp32 = told.get("peak_fp32_flops_per_s")
    others = ("cpu-x86", "intel-gaudi", "nvidia-blackwell")
    if peaks and fp32 and not entry["family"].startswith(others):
        assert max(peaks) <= 17.0 * fp32


def test_what_people_buy_has_a_price_of_a_date_and_kind() -> None:
    """What the vendor asked at launch is no price of shops, and none holds for long."""
    files = packaged()
    prices = {
        entry_id: entry["figures"]["price_usd"]
        for collection in ("accelerators", "platforms")
        for entry_id, entry in files[collection].items()
        if "price_usd" in entry["figures"]
    }
    assert len(prices) >= 60
    for entry_id, price in prices.items():
        assert price["price_kind"] in ("launch", "list", "street"), entry_id
        assert price["date"][:4] == str(price["year"]), entry_id
