"""Platforms of the catalog: complete, one for every accelerator, and what they say of power."""

from __future__ import annotations

from typing import Any

import pytest

from service.catalog.entries.documents import DocumentInvalid
from service.catalog.entries.earlier import in_todays_form
from service.catalog.entries.entry import CatalogDefaults
from service.catalog.entries.platforms import SITE_CLASS, UsualPlatforms, platform_from_document
from service.catalog.snapshot import snapshot_from_documents
from tests.catalog.examples import figure, platform, small_catalog

#: Accelerators and where most of them stand.
USUAL = {
    "nvidia-h100-sxm-80gb": "nvidia-dgx-h100",
    "nvidia-a100-sxm-80gb": "nvidia-dgx-a100",
    "nvidia-b200-sxm-180gb": "nvidia-dgx-b200",
    "nvidia-gb200-186gb": "nvidia-gb200-nvl72",
    "nvidia-h100-pcie-80gb": "server-pcie-8",
    "nvidia-a100-pcie-80gb": "server-pcie-4",
    "nvidia-l4-24gb": "server-inference",
    "nvidia-l40s-48gb": "server-pcie-8",
    "nvidia-a10g-24gb": "server-inference",
    "nvidia-t4-16gb": "server-inference",
    "nvidia-rtx-4090-24gb": "desktop",
    "nvidia-rtx-4090-laptop-16gb": "laptop",
    "nvidia-rtx-6000-ada-48gb": "workstation",
    "nvidia-rtx-a6000-48gb": "workstation",
    "nvidia-rtx-pro-6000-blackwell-server-96gb": "server-pcie-8",
    "nvidia-gb10-128gb": "nvidia-dgx-spark",
    "nvidia-jetson-agx-orin-64gb": "jetson-developer-kit",
    "amd-mi300x-192gb": "amd-instinct-platform",
    "amd-rx-7900-xtx-24gb": "desktop",
    "amd-radeon-pro-w7900-48gb": "workstation",
    "amd-ryzen-ai-max-395-128gb": "framework-desktop",
    "amd-ryzen-ai-9-hx-370-32gb": "mini-pc",
    "amd-epyc-9654": "server-cpu",
    "apple-m2-ultra-192gb": "mac-studio-m2-ultra",
    "apple-m4-32gb": "mac-mini-m4",
    "apple-m3-pro-36gb": "macbook-pro-14",
    "raspberry-pi-5-16gb": "raspberry-pi-5",
    "google-tpu-v5e": "google-tpu-host",
    "aws-trainium2": "server-asic",
    "intel-gaudi3-128gb": "intel-gaudi-server",
}


def test_every_accelerator_stands_somewhere(packaged_snapshot):
    lone = [
        entry.id
        for entry in packaged_snapshot.accelerators.values()
        if entry.value.platform.id not in packaged_snapshot.platforms
    ]
    assert lone == []


@pytest.mark.parametrize(("accelerator", "expected"), USUAL.items())
def test_accelerators_stand_where_most_of_them_do(packaged_snapshot, accelerator, expected):
    assert packaged_snapshot.accelerators[accelerator].value.platform.id == expected


def test_there_are_platforms_of_all_kinds(packaged_snapshot):
    kinds = {entry.value.platform.kind for entry in packaged_snapshot.platforms.values()}
    assert len(packaged_snapshot.platforms) >= 40
    assert kinds == {
        *("server-8", "server-superchip", "server-pcie", "server-asic", "server-cpu", "rack"),
        *("workstation", "desktop", "mini-pc", "laptop", "soc-board", "phone"),
    }
    sites = {entry.value.platform.site_class for entry in packaged_snapshot.platforms.values()}
    known = {id_.removeprefix(SITE_CLASS) for id_ in packaged_snapshot.calibrations}
    assert sites <= known


def test_hosts_draw_no_less_at_work_and_no_more_than_is_rated(packaged_snapshot):
    for entry in packaged_snapshot.platforms.values():
        one = entry.value.platform
        idle, load = one.host_idle_w, one.host_load_w
        assert idle.low <= idle.value <= idle.high, entry.id
        assert idle.value <= load.value <= one.rated_power_w, entry.id
        if entry.value.integrated:
            assert load.value == 0.0, entry.id
            assert one.supply_efficiency_ratio == 1.0, entry.id


def test_a_full_machine_of_its_usual_accelerators_stays_below_what_it_is_rated(packaged_snapshot):
    for entry in packaged_snapshot.accelerators.values():
        machine, most_w = entry.value.platform, entry.value.most_power_w
        if most_w is None:
            continue
        whole = machine.accelerators * most_w + machine.host_load_w.value
        assert whole / machine.supply_efficiency_ratio <= machine.rated_power_w * 1.06, entry.id


def test_what_a_platform_lacks_is_as_in_the_one_that_it_is_like(packaged_snapshot):
    dgx = packaged_snapshot.platforms["nvidia-dgx-h100"]
    assert dgx.value.platform.accelerators == 8
    assert dgx.origins["host_load_w"].entry_id == "server-8"
    assert dgx.origins["rated_power_w"].entry_id == "nvidia-dgx-h100"


def test_machines_say_how_fast_their_cores_are_where_it_is_known(packaged_snapshot):
    def ratio(name):
        return packaged_snapshot.platforms[name].value.platform.core_time_ratio

    assert ratio("nvidia-dgx-h100") == ratio("mac-studio") == 1.0
    assert ratio("desktop-265k") == ratio("desktop") < ratio("workstation") < 1.0
    assert 1.0 < ratio("minisforum-ms-r1") < ratio("thelio-astra") < ratio("raspberry-pi-egpu")


def converted(document: dict[str, Any], others: dict[str, Any] | None = None):
    stand_ins = snapshot_from_documents(small_catalog(), 0).defaults
    return platform_from_document(document, others or {}, {}, stand_ins).value


def test_integrated_machines_need_no_host():
    board = platform(integrated=True, accelerators=1, shared=False, figures={})
    found = converted(board)
    assert found.platform.host_load_w.value == 0.0
    assert found.platform.whole_ratio == 1.0
    assert converted(board | {"contains_accelerators": False}).platform.whole_ratio == 0.0


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"figures": {"host_idle_w": figure(1.0)}}, "/figures/host_load_w"),
        ({"figures": {"host_idle_w": figure(-1.0)}}, "/figures/host_idle_w/value"),
        ({"figures": {"weight_kg": figure(1.0)}}, "/figures"),
        ({"accelerators": 0}, "/accelerators"),
        ({"accelerators": 2.5}, "/accelerators"),
        ({"shared": "yes"}, "/shared"),
        ({"like": "nowhere"}, "/like"),
        ({"like": "acme-box"}, "/like"),
        ({"like": 7}, "/like"),
        ({"colour": "black"}, ""),
    ],
)
def test_hostile_platforms_are_refused_with_their_place(changes, pointer):
    document = platform() | changes
    with pytest.raises(DocumentInvalid) as refused:
        converted(document, {"acme-box": document})
    assert refused.value.pointer == pointer


def test_a_site_of_no_known_class_has_the_average_of_all():
    document = platform(site_class="unheard-of")
    assert converted(document).platform.site_pue_ratio.value == pytest.approx(1.5)
    with pytest.raises(DocumentInvalid, match="no class of sites"):
        platform_from_document(document, {}, {}, CatalogDefaults())


def test_the_platform_that_names_an_accelerator_most_exactly_is_its_own():
    catalog = small_catalog()
    exact = platform() | {"id": "exact", "aliases": [], "default_for": ["acme-one-80gb"]}
    form = platform() | {
        "id": "form",
        "aliases": [],
        "default_for": [],
        "default_form_factors": ["sxm"],
    }
    catalog["platforms"] |= {"exact": exact, "form": form}
    snapshot = snapshot_from_documents(catalog, 0)
    one = snapshot.accelerators["acme-one-80gb"]
    assert one.value.platform.id == "exact"
    rest = {id_: entry for id_, entry in snapshot.platforms.items() if id_ == "form"}
    usual = UsualPlatforms(rest).of(one)
    assert usual is not None
    assert usual.id == "form"
    assert UsualPlatforms({}).of(one) is None


def test_revisions_before_platforms_have_the_server_that_they_meant(packaged_snapshot):
    stored = {name: dict(held) for name, held in packaged_snapshot.documents().items()}
    stored["platforms"] = {}
    old = stored["calibrations"]["infrastructure/default"]
    was = {"host_power_w": 290.0, "server_embodied_kgco2e": 520.0, "server_mass_kg": 14.6}
    figures = {name: {"value": value} for name, value in was.items()}
    stored["calibrations"]["infrastructure/default"] = old | {"figures": old["figures"] | figures}
    then = snapshot_from_documents(in_todays_form(stored), 1)
    for entry in then.accelerators.values():
        server = entry.value.platform
        assert server.host_power_w(1.0).value / server.accelerators == pytest.approx(290.0)
        assert server.site_pue_ratio.value == pytest.approx(1.56)
        assert server.embodied_kgco2e is not None
        assert server.embodied_kgco2e.value == pytest.approx(8 * 520.0)


def test_messages_of_revisions_with_a_spread_of_theirs_are_as_unsure_as_then(packaged_snapshot):
    stored = {name: dict(held) for name, held in packaged_snapshot.documents().items()}
    figures = {"source_log_sigma": 0.12, "row_log_sigma": 0.16, "messages_log_sigma": 0.5}
    stored["calibrations"]["training-speed/spread"] = {
        "id": "training-speed/spread",
        "applies_to": {"part": "training-speed/spread"},
        "figures": {name: {"value": value} for name, value in figures.items()},
    }
    then = snapshot_from_documents(in_todays_form(stored), 1)
    found = then.calibrations["training-speed/spread"].value
    assert found["waiting_spread_ratio"].value * 0.2 == pytest.approx(0.5)
    assert "messages_log_sigma" not in found


def test_interfaces_of_revisions_before_drivers_were_told_apart_are_those_of_all(packaged_snapshot):
    stored = {name: dict(held) for name, held in packaged_snapshot.documents().items()}
    calibrations = stored["calibrations"]
    known = calibrations.pop("speed/backends/vulkan/amd")
    calibrations.pop("speed/backends/vulkan/nvidia", None)
    calibrations["speed/backends/vulkan"] = {
        **known,
        "id": "speed/backends/vulkan",
        "applies_to": {"part": "speed/backends", "interface": "vulkan"},
    }
    then = snapshot_from_documents(in_todays_form(stored), 1)
    found = {
        vendor: then.calibrations[f"speed/backends/vulkan/{vendor}"] for vendor in ("amd", "nvidia")
    }
    assert found["amd"].value == found["nvidia"].value
    assert "speed/backends/vulkan" not in then.calibrations


def test_power_of_revisions_before_work_was_counted_is_that_of_an_h100(packaged_snapshot):
    stored = {name: dict(held) for name, held in packaged_snapshot.documents().items()}
    shares = {"active_ratio": 0.4, "memory_ratio": 0.5, "compute_ratio": 1.2}
    stored["calibrations"]["power"] = {
        "id": "power",
        "applies_to": {"part": "power"},
        "figures": {name: {"value": value} for name, value in shares.items()},
    }
    then = snapshot_from_documents(in_todays_form(stored), 1).calibrations["power"].value
    assert then["memory_j_per_byte"].value * 3.35e12 == pytest.approx(0.5 * 629.0)
    assert then["matrix_j_per_flop"].value * 9.894e14 == pytest.approx(1.2 * 629.0)
    assert then["resident_ratio"].value == 0.0


def test_power_of_revisions_before_kinds_of_memory_is_that_of_maker_and_family(packaged_snapshot):
    stored = {name: dict(held) for name, held in packaged_snapshot.documents().items()}
    told = {
        "nvidia": {"active_ratio": 0.4, "resident_ratio": 0.1},
        "nvidia-ampere-ga10x": {"active_ratio": 0.5},
        "spread": {"row_log_sigma": 0.1, "unmeasured_power_family_log_sigma": 0.2},
    }
    stored["calibrations"] |= {
        f"power/{key}": {
            "id": f"power/{key}",
            "applies_to": {"part": "power"},
            "figures": {name: {"value": value} for name, value in figures.items()},
        }
        for key, figures in told.items()
    }
    then = snapshot_from_documents(in_todays_form(stored), 1).calibrations
    # Cards have GDDR6 and GDDR6X, systems on a chip LPDDR5.
    for kind in ("gddr", "lpddr"):
        found = then[f"power/{kind}/nvidia-ampere-ga10x"].value
        assert {name: each.value for name, each in found.items()} == {
            "active_ratio": 0.5,
            "resident_ratio": 0.1,
        }
    assert then["power/spread"].value["unmeasured_power_hardware_log_sigma"].value == 0.2
