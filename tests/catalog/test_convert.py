from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.catalog.entries.convert import (
    UNKNOWN_COUNTRY,
    accelerator_from_document,
    interconnect_from_document,
    memory_tier_from_document,
)
from service.catalog.entries.documents import DocumentInvalid
from service.catalog.entries.entry import FigureOrigin
from service.catalog.entries.models import model_from_document
from service.catalog.snapshot import snapshot_from_documents
from service.core.interval import Interval
from tests.catalog.examples import accelerator, figure, region, small_catalog

SNAPSHOT = snapshot_from_documents(small_catalog(), revision=3)
BARE = {"figures": {"memory_bytes": 24e9, "memory_bandwidth_bytes_per_s": 1e12}}


def test_figures_become_the_cores_values() -> None:
    document = accelerator(
        memory_usable_bytes=figure(79e9),
        idle_power_w=figure(70, low=60, high=90),
        scale_out_bandwidth_bytes_per_s=figure(50e9),
        scale_out_latency_s=figure(5e-6),
    )
    entry = accelerator_from_document(document)
    value = entry.value
    assert value.memory_bytes == 79e9
    assert value.peak_flops_per_s == {"bf16": 1e15}
    assert value.idle_power_w == Interval(70, 60, 90)
    assert (value.scale_up.bandwidth_bytes_per_s, value.scale_up.latency_s) == (450e9, 9e-6)
    assert value.scale_out is not None
    assert value.scale_out.latency_s == 5e-6
    assert value.embodied_kgco2e is None
    assert entry.stood_in == ()
    assert entry.origins["idle_power_w"] == FigureOrigin(
        "accelerators", "acme-one-80gb", "sheet", 2024, "datasheet"
    )


def test_what_nobody_states_is_unknown_or_a_named_stand_in() -> None:
    entry = accelerator_from_document(BARE, SNAPSHOT.defaults)
    assert entry.value.thermal_design_power_w is None
    assert entry.value.peak_flops_per_s == {}
    assert entry.value.scale_out is None
    assert entry.value.scale_up.bandwidth_bytes_per_s == 15e9
    assert entry.value.scale_up_domain_accelerators == 8
    assert set(entry.stood_in) == {
        "scale_up_bandwidth_bytes_per_s",
        "scale_up_latency_s",
        "scale_up_domain_accelerators",
    }
    assert entry.origins["scale_up_latency_s"].entry_id == "catalog/stand-ins"
    assert entry.origins["memory_bytes"] == FigureOrigin(
        "accelerators", "inline", None, None, "given"
    )


def test_the_host_link_serves_where_there_is_nothing_better() -> None:
    figures = BARE["figures"] | {"host_link_bandwidth_bytes_per_s": 63e9}
    entry = accelerator_from_document({"figures": figures}, SNAPSHOT.defaults)
    assert entry.value.scale_up.bandwidth_bytes_per_s == 63e9
    assert "host_link_bandwidth_bytes_per_s" in entry.origins


def test_a_region_takes_from_its_parents_what_it_lacks() -> None:
    entry = SNAPSHOT.find("regions", "aws/eu-north-1")
    assert entry.value.grid_gco2e_per_kwh == Interval(40, 32, 50)
    assert entry.value.pue_ratio == Interval(1.2, 1.1, 1.3)
    assert entry.value.ewif_l_per_kwh == Interval(2, 2, 2)
    assert entry.value.wue_l_per_kwh is None
    assert entry.origins["grid_gco2e_per_kwh"].entry_id == "country/SE"
    assert entry.origins["grid_gco2e_per_kwh"].year == 2024
    assert entry.origins["pue_ratio"].entry_id == "aws/eu-north-1"
    assert entry.stood_in == ()


def test_a_region_as_of_an_earlier_year() -> None:
    document = SNAPSHOT.regions["aws/eu-north-1"].document
    grid = SNAPSHOT.region(document, as_of=2023).value.grid_gco2e_per_kwh
    assert grid is not None
    assert grid.value == 50
    before_all = SNAPSHOT.region(document, as_of=2015)
    assert before_all.value.grid_gco2e_per_kwh == grid
    assert before_all.origins["grid_gco2e_per_kwh"].year == 2022


def test_an_unknown_pue_is_the_documented_average() -> None:
    entry = SNAPSHOT.region({"figures": {"grid_gco2e_per_kwh": 0}})
    assert entry.value.pue_ratio == Interval(1.5, 1.1, 1.9)
    assert entry.value.grid_gco2e_per_kwh == Interval(0, 0, 0)
    assert entry.value.country == UNKNOWN_COUNTRY
    assert entry.stood_in == ("pue_ratio",)


def test_a_spread_never_takes_pue_below_one() -> None:
    entry = SNAPSHOT.region({"parent": "country/SE", "figures": {"pue_ratio": 1.2}})
    assert entry.value.pue_ratio.low == 1.0
    assert entry.value.country == "SE"


def test_a_model_is_parsed() -> None:
    entry = model_from_document({"config": small_catalog()["models"]["acme/tiny"]["config"]})
    assert entry.value.layer_count == 2
    assert entry.id == "inline"


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"figures": None}, "/figures"),
        ({"figures": []}, "/figures"),
        ({"figures": {"memory_bytes": 1e9}}, "/figures/memory_bandwidth_bytes_per_s"),
        ({"colour": "green"}, ""),
        ({"name": ""}, "/name"),
        ({"name": "x" * 201}, "/name"),
        ({"name": "nul\0"}, "/name"),
        ({"name": "\ud800"}, "/name"),
        ({"vendor": 7}, "/vendor"),
        ({"unified_memory": 1}, "/unified_memory"),
        ({"scale_up_domain_accelerators": True}, "/scale_up_domain_accelerators"),
        ({"scale_up_domain_accelerators": 0}, "/scale_up_domain_accelerators"),
        ({"scale_up_domain_accelerators": 10**30}, "/scale_up_domain_accelerators"),
    ],
)
def test_hostile_accelerators(change: dict[str, Any], pointer: str) -> None:
    with pytest.raises(DocumentInvalid) as caught:
        accelerator_from_document({**BARE, **change}, SNAPSHOT.defaults)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize(
    ("given", "pointer"),
    [
        (float("nan"), ""),
        (float("inf"), ""),
        (10**400, ""),
        (-1, ""),
        (0, ""),
        (True, ""),
        ("80e9", ""),
        ([80e9], ""),
        ({}, ""),
        ({"value": 80e9, "low": 1e9}, ""),
        ({"value": 80e9, "low": 81e9, "high": 82e9}, ""),
        ({"value": 80e9, "low": 79e9, "high": "much"}, "/high"),
        ({"value": 80e9, "year": 20.5}, "/year"),
        ({"value": 80e9, "year": 10**9}, "/year"),
        ({"value": 80e9, "source": 3}, "/source"),
        ({"value": 80e9, "unit": "GB"}, ""),
    ],
)
def test_hostile_figures(given: Any, pointer: str) -> None:
    figures = BARE["figures"] | {"memory_bytes": given}
    with pytest.raises(DocumentInvalid) as caught:
        accelerator_from_document({"figures": figures}, SNAPSHOT.defaults)
    assert caught.value.pointer == f"/figures/memory_bytes{pointer}"


@pytest.mark.parametrize(
    ("document", "pointer"),
    [
        (None, ""),
        ([], ""),
        ({"parent": "country/XX"}, "/parent"),
        ({"parent": ["country/SE"]}, "/parent"),
        ({"figures": {"pue_ratio": 0.9}}, "/figures/pue_ratio"),
        ({"figures": {"pue_ratio": [1.1, {"value": 99}]}}, "/figures/pue_ratio/1/value"),
        ({"figures": {"pue_ratio": [1.1] * 1000}}, "/figures/pue_ratio"),
        ({"figures": {"sunshine_ratio": 1}}, "/figures"),
        ({"figures": 5}, "/figures"),
        ({"country": 5}, "/country"),
        ({1: 2}, ""),
    ],
)
def test_hostile_regions(document: Any, pointer: str) -> None:
    with pytest.raises(DocumentInvalid) as caught:
        SNAPSHOT.region(document)
    assert caught.value.pointer == pointer


@pytest.mark.parametrize("document", [{}, {"config": None}, {"config": {}}, {"config": 5}, 5])
def test_hostile_models(document: Any) -> None:
    with pytest.raises(DocumentInvalid):
        model_from_document(document)


TINY = small_catalog()["models"]["acme/tiny"]
RELEASE = {
    "id": "acme/tiny-AWQ",
    "base_model": "acme/tiny",
    "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128},
}


def test_a_release_is_its_base_model_in_another_format() -> None:
    effect = {"benchmark": "MMLU", "base": 70.5, "value": 67.4, "unit": "percent"}
    stated = {**effect, "year": 2024, "source": "cards", "kind": "measured"}
    document = {**RELEASE, "quality_effects": [stated], "formats": ["awq-int4"]}
    entry = model_from_document(document, {"acme/tiny": TINY}.get)
    assert entry.value.total_parameters == model_from_document(TINY).value.total_parameters
    assert entry.value.native_format == "awq-int4"
    assert entry.origins["quality_effects/MMLU"].source == "cards"


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"base_model": "acme/huge"}, "/base_model"),
        ({"base_model": 5}, "/base_model"),
        ({"base_model": "acme/tiny-GPTQ"}, "/base_model"),
        ({"quantization_config": None}, "/quantization_config"),
        ({"quantization_config": {}}, "/quantization_config"),
        ({"config": TINY["config"]}, "/config"),
        ({"formats": ["gguf-q99"]}, "/formats/0"),
    ],
)
def test_releases_that_say_too_little_or_too_much(change: dict[str, Any], pointer: str) -> None:
    others = {"acme/tiny": TINY, "acme/tiny-GPTQ": RELEASE}
    with pytest.raises(DocumentInvalid) as caught:
        model_from_document({**RELEASE, **change}, others.get)
    assert caught.value.pointer == pointer


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "id": json_values,
            "parent": json_values,
            "country": json_values,
            "figures": json_values
            | st.dictionaries(st.sampled_from(["pue_ratio", "grid_gco2e_per_kwh"]), json_values),
        },
    )
)
def test_whatever_is_given_makes_a_region_or_says_why_not(document: dict[str, Any]) -> None:
    try:
        value = SNAPSHOT.region(document).value
    except DocumentInvalid:
        return
    assert 1 <= value.pue_ratio.low <= value.pue_ratio.value <= value.pue_ratio.high


def test_nesting_without_end_is_refused() -> None:
    nested: Any = 1
    for _ in range(5000):
        nested = [nested]
    with pytest.raises(DocumentInvalid, match="deep"):
        SNAPSHOT.region({"notes": nested})


def test_parents_that_lead_back_are_refused() -> None:
    documents = small_catalog()
    documents["regions"]["country/SE"]["parent"] = "aws/eu-north-1"
    with pytest.raises(ValueError, match="circular"):
        snapshot_from_documents(documents, revision=1)


def test_a_chain_of_grandparents() -> None:
    documents = small_catalog()
    for child, parent in (("zone/a", "country/SE"), ("zone/b", "zone/a"), ("zone/c", "zone/b")):
        documents["regions"][child] = region(child, parent)
    snapshot = snapshot_from_documents(documents, revision=1)
    origin = snapshot.regions["zone/c"].origins["grid_gco2e_per_kwh"]
    assert origin.entry_id == "country/SE"


def test_a_memory_tier_keeps_what_is_known_of_it() -> None:
    tier = SNAPSHOT.find("memory-tiers", "ddr5")
    assert tier.value.bandwidth_bytes_per_s == 307.2e9
    assert tier.value.latency_s == Interval(90e-9, 80e-9, 100e-9)
    assert tier.value.capacity_bytes is None
    assert tier.value.kernel_speedup_ratio is None
    # Prices are served with their source though nothing computes with them.
    assert set(tier.origins) == {"bandwidth_bytes_per_s", "latency_s", "price_usd_per_gb"}
    inline = memory_tier_from_document({"figures": {"bandwidth_bytes_per_s": 40e9}})
    assert (inline.value.kind, inline.value.latency_s) == ("host", None)


def test_an_interconnect_needs_a_bandwidth() -> None:
    link = SNAPSHOT.find("interconnects", "PCIe 5 x16").value
    assert (link.bandwidth_bytes_per_s, link.latency_s) == (63e9, None)
    with pytest.raises(DocumentInvalid) as caught:
        interconnect_from_document({"figures": {"latency_s": 1e-6}})
    assert caught.value.pointer == "/figures/bandwidth_bytes_per_s"


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"figures": {"bandwidth_bytes_per_s": 0}}, "/figures/bandwidth_bytes_per_s"),
        ({"figures": {"memory_bound_time_ratio": 1.1}}, "/figures/memory_bound_time_ratio"),
        ({"figures": {"kernel_speedup_ratio": 0.5}}, "/figures/kernel_speedup_ratio"),
        ({"figures": {"colour": 1}}, "/figures"),
        ({"figures": {}, "vendor": "Acme"}, ""),
    ],
)
def test_hostile_memory_tiers(change: dict[str, Any], pointer: str) -> None:
    with pytest.raises(DocumentInvalid) as caught:
        memory_tier_from_document(change)
    assert caught.value.pointer == pointer
