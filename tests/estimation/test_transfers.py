from __future__ import annotations

from typing import Any

import pytest

from service.core.interval import exact
from service.core.memory.transfers import Load, loaded_latency_s, transfer
from service.estimation.storage.transfers import TransferRequest, transfer_answer


@pytest.fixture(scope="module")
def moved(packaged_snapshot):
    def ask(**fields: Any) -> dict[str, Any]:
        answer = transfer_answer(TransferRequest.model_validate(fields), packaged_snapshot)
        return {row["id"]: row for row in answer["rows"]}

    return ask


def test_bytes_over_links_take_as_long_as_their_bandwidth_says(moved):
    rows = moved(bytes=300e9, interconnects=["pcie-4-x16", "nvlink-3"])
    assert list(rows) == ["nvlink-3", "pcie-4-x16"]
    assert rows["nvlink-3"]["transfer_s"]["value"] == pytest.approx(1.0)
    half = moved(bytes=300e9, interconnects=["nvlink-3"], efficiency_ratio=0.5)
    assert half["nvlink-3"]["transfer_s"]["value"] == pytest.approx(2.0)


def test_others_take_bandwidth_and_make_wait():
    # M/D/1: at half load the wait is half a service time.
    assert loaded_latency_s(exact(1.0), 0.5).value == 1.5
    assert loaded_latency_s(exact(1.0), 0.9).value == pytest.approx(5.5)
    busy = transfer(1e9, 64e9, exact(250e-9), Load(utilisation_ratio=0.5, users=4.0))
    assert busy.bandwidth_bytes_per_s.value == pytest.approx(8e9)
    assert busy.transfer_s.value == pytest.approx(375e-9 + 1e9 / 8e9)


def test_single_accesses_are_as_many_as_latency_allows(moved):
    tier = "cxl-2.0-ddr5-direct"
    one = moved(bytes=1e9, tiers=[tier], access_bytes=64)[tier]
    many = moved(bytes=1e9, tiers=[tier], access_bytes=64, outstanding=10_000)[tier]
    assert one["bandwidth_bytes_per_s"]["value"] == pytest.approx(64 / 250e-9)
    assert many["bandwidth_bytes_per_s"]["value"] == pytest.approx(36e9)


def test_memories_are_compared_by_energy_price_and_making(moved):
    rows = moved(bytes=1e9, tiers=["gddr6", "hbm3e", "ddr5-8ch"])
    # 7.5 pJ for each of 8e9 bits.
    assert rows["gddr6"]["transfer_energy_j"]["value"] == pytest.approx(0.06)
    assert rows["ddr5-8ch"]["price_usd"]["value"] > 0.0
    assert rows["hbm3e"]["price_usd"] is None
    stated = moved(bytes=1e9, tiers=["hbm3e"], ddr5_usd_per_gb=4.0)
    assert stated["hbm3e"]["price_usd"]["value"] == pytest.approx(18.0)
    assert rows["hbm3e"]["embodied_kgco2e"]["high"] > rows["ddr5-8ch"]["embodied_kgco2e"]["high"]


def test_a_pool_has_the_bandwidth_of_its_link(moved):
    pool = "cxl-ddr5-multi-headed"
    assert moved(bytes=1e9, tiers=[pool])[pool]["transfer_s"] is None
    row = moved(bytes=63e9, tiers=["cxl-pond"], link_bytes_per_s=63e9, users=8)[pool]
    assert row["transfer_s"]["value"] == pytest.approx(8.0, rel=1e-6)


def test_without_names_there_is_everything(moved):
    assert len(moved(bytes=1.0)) > 70


def test_what_nobody_prices_is_told_where_it_is_asked_for(packaged_snapshot):
    request = TransferRequest(bytes=1e9, tiers=("hbm3", "cxl-2.0-ddr5-direct", "nvme-gen5"))
    answer = transfer_answer(request, packaged_snapshot)
    told = {warning["code"]: warning["message"] for warning in answer["warnings"]}
    assert "cxl-2.0-ddr5-direct" in told["price_unknown"]
    assert "hbm3" in told["energy_unknown"]
    assert "cxl-2.0-ddr5-direct" not in told["energy_unknown"]


def test_a_bit_through_cxl_takes_that_of_its_memory_and_of_its_link(moved):
    names = ("pcie-5-x16", "nvlink-c2c"), ("ddr5-8ch", "cxl-2.0-ddr5-direct", "cxl-pooled")
    rows = moved(bytes=1e9, interconnects=list(names[0]), tiers=list(names[1]))
    energy = {id_: row["energy_pj_per_bit"] for id_, row in rows.items()}
    link, chip = energy["pcie-5-x16"]["value"], energy["ddr5-8ch"]["value"]
    # 143 mA at 1.2 V and 3 mA at 2.5 V over 4 lines of 3.2 Gbit/s, at the voltage of DDR5.
    current = (143 * 1.2 + 3 * 2.5) / (4 * 3.2)
    assert chip == pytest.approx(current * (1.1 / 1.2) ** 2, rel=0.01)
    assert link == pytest.approx(5 * energy["nvlink-c2c"]["value"])
    assert energy["cxl-2.0-ddr5-direct"]["value"] == pytest.approx(chip + link)
    assert energy["cxl-2.0-ddr5-switch-pooled"]["value"] == pytest.approx(chip + 2 * link)
    joules = rows["pcie-5-x16"]["transfer_energy_j"]["value"]
    assert joules == pytest.approx(8e9 * link * 1e-12)
