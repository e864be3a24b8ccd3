"""Entries of levels: what rows say of them, and what is usual where there is no row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

from service.calibration.documents import CalibrationEntry, document_of
from service.calibration.hierarchy import Keys, Level, Term, fit
from service.calibration.levels import level_entries
from service.catalog.snapshot import CatalogSnapshot
from service.core.elementwise import FloatArray
from service.core.interval import exact
from service.estimation.levels import (
    ASSUMPTION,
    SPEED,
    backend_keys,
    held,
    inference_link_of,
    measured_families,
    speed_keys,
    training_link_of,
)

_PART = "speed/hardware"
_KINDS = ("vendor", "family")
_LEVELS = (Level("vendor", 0.1), Level("family", 0.1))
_USUAL = {"red-2": 0.3, "blue": 0.8, "quick-like/red-2": 0.4}
_RATIO = Term("memory_ratio", 0.5, 0.1, 0.9, 0.3, _LEVELS, usual_of=_USUAL)
_OTHER = Term("overlap_ratio", 0.5, 0.1, 0.9, 0.3, _LEVELS)
#: Of names that are no engine's nothing is known.
_STEP_S = Term("step_s", 0.5, 0.1, 0.9, 0.3, (Level("engine", 0.1),), usual_of={"quick": 0.2})


@dataclass(frozen=True)
class _Row:
    source: str
    model: str
    keys: Keys


def _predict(rows: Sequence[int], values: Mapping[str, FloatArray]) -> FloatArray:
    del rows
    logs: FloatArray = np.log(values["memory_ratio"])
    return logs


@pytest.fixture(scope="module")
def entries(packaged_snapshot: CatalogSnapshot) -> dict[str, CalibrationEntry]:
    """Entries by two rows of one family, which reaches more than is usual."""
    row = _Row("vllm-arg-utils", "model", {"vendor": "red", "family": "red-1"})
    parts = {_PART: (_RATIO, _OTHER), "speed/engines": (_STEP_S,)}
    terms = [term for each in parts.values() for term in each]
    found = fit(_predict, [0.7, 0.7], [row.keys] * 2, terms, [50.0] * 2)
    written = level_entries(parts, found, [row, row], packaged_snapshot)
    return {entry.id: entry for entry in written}


def test_what_is_usual_of_hardware_that_nobody_measured_is_written(entries):
    usual = entries[f"{_PART}/red-2"]
    assert usual.applies_to == {"part": _PART, "vendor": "red", "family": "red-2"}
    # It shares what rows say of all hardware and of its vendor, from its own usual value.
    shift = entries[_PART].figures["memory_ratio"] - 0.5
    assert shift > 0.0
    assert 0.3 + 0.8 * shift < usual.figures["memory_ratio"] < 0.7
    assert set(usual.figures) == {"memory_ratio"}
    assert (usual.source, usual.fitted) == (ASSUMPTION, False)
    assert entries[f"{_PART}/blue"].applies_to == {"part": _PART, "vendor": "blue"}


def test_what_is_usual_of_a_class_on_a_family_is_none_of_the_family(entries):
    assert f"{_PART}/quick-like/red-2" not in entries


def test_what_is_usual_of_what_is_no_engine_is_not_written(entries):
    parts = {id_.rpartition("/")[0] for id_ in entries}
    assert parts == {"speed", _PART}


def test_usual_values_hold_and_still_count_as_unmeasured(entries, packaged_snapshot):
    usual = document_of(entries[f"{_PART}/red-2"])
    made = packaged_snapshot.calibrations[f"{_PART}/nvidia-hopper"]
    origins = {
        name: replace(origin, source=ASSUMPTION, kind="assumed")
        for name, origin in (("memory_ratio", made.origins["memory_ratio"]),)
    }
    value = {"memory_ratio": made.value["memory_ratio"]}
    entry = replace(made, id=usual["id"], document=usual, value=value, origins=origins)
    calibrations = {**packaged_snapshot.calibrations, usual["id"]: entry}
    snapshot = replace(packaged_snapshot, calibrations=calibrations)
    found = held(snapshot, _PART, _KINDS, {"vendor": "red", "family": "red-2"})
    assert found.entries[-1] == usual["id"]
    assert found.missing == _KINDS
    assert "red-2" not in measured_families(snapshot)
    assert "nvidia-hopper" in measured_families(snapshot)


def test_what_is_usual_of_an_engine_says_more_than_what_it_is_like(packaged_snapshot):
    """SGLang is like vLLM; what its source tells of it holds in place of what vLLM measured."""
    part = "speed/engines"
    keys = speed_keys("sglang", "nvidia-hopper", "scale-up", packaged_snapshot.engines)
    like = held(packaged_snapshot, part, SPEED[part], keys)
    made = packaged_snapshot.calibrations[f"{part}/vllm"]
    origins = {"layer_s": replace(made.origins["layer_s"], source=ASSUMPTION, kind="assumed")}
    entry = replace(made, id=f"{part}/sglang", value={"layer_s": exact(1e-5)}, origins=origins)
    snapshot = replace(
        packaged_snapshot, calibrations={**packaged_snapshot.calibrations, entry.id: entry}
    )
    found = held(snapshot, part, SPEED[part], keys)
    assert found.figures == {**like.figures, "layer_s": exact(1e-5)}
    assert found.entries == (*like.entries, entry.id)
    assert found.missing == like.missing


def test_engines_on_hardware_of_other_vendors_than_measured_are_not_measured(packaged_snapshot):
    def missing(family):
        keys = speed_keys("vllm@0.14", family, "scale-up", packaged_snapshot.engines)
        part = "speed/engines"
        return held(packaged_snapshot, part, SPEED[part], keys).missing

    assert missing("nvidia-hopper") == missing("nvidia-volta") == ()
    # What issues steps there is a project of its own, whose time nobody measured.
    for family in ("google-tpu-v6e", "intel-gaudi", "aws-neuron"):
        assert missing(family) == ("engine", "generation")


def test_backends_of_an_engine_are_no_projects_beside_it(packaged_snapshot):
    """HIP compiles the sources of CUDA; what Vulkan adds on a family has a level of its own."""
    calibrations = {
        id_: entry
        for id_, entry in packaged_snapshot.calibrations.items()
        if not id_.startswith(
            ("speed/kernels/llama.cpp-like/amd-", "speed/kernels/llama.cpp-like/intel-")
        )
    }
    snapshot = replace(packaged_snapshot, calibrations=calibrations)
    release = "llama.cpp@2025"

    def missing(family, backend):
        keys = speed_keys(release, family, "pcie", snapshot.engines)
        part = "speed/engines"
        return held(snapshot, part, SPEED[part], keys | backend_keys(backend, family)).missing

    assert missing("amd-rdna3.5", "hip") == missing("amd-rdna3.5", "vulkan") == ()
    assert missing("intel-xe2", "vulkan") == ()
    # SYCL has sources of its own.
    assert missing("intel-xe2", "sycl") == ("engine", "generation")


@pytest.mark.parametrize(("weight", "measured"), [(8e-3, True), (1e-9, False)])
def test_rows_that_tell_little_of_a_level_still_tell_that_it_was_measured(
    packaged_snapshot, weight, measured
):
    row = _Row("vllm-arg-utils", "model", {"vendor": "red", "family": "red-1"})
    found = fit(_predict, [0.5], [row.keys], (_RATIO, _OTHER), [weight])
    assert found.informed_ratio(_RATIO, "family", "red-1") < 0.02
    written = level_entries({_PART: (_RATIO, _OTHER)}, found, [row], packaged_snapshot)
    entries = [one for one in written if one.id == f"{_PART}/red-1"]
    assert len(entries) == measured
    assert all(entry.fitted and len(entry.figures) == 1 for entry in entries)


@pytest.mark.parametrize(
    ("accelerator", "link"),
    [
        ("google-tpu-v5e", "torus"),
        ("google-tpu-v7x", "torus"),
        ("aws-trainium1", "ring"),
        ("nvidia-h100-sxm-80gb", "scale-up"),
        ("nvidia-l40s-48gb", "pcie"),
    ],
)
def test_chips_in_a_torus_do_not_wait_as_long_as_in_a_ring(packaged_snapshot, accelerator, link):
    assert inference_link_of(packaged_snapshot.accelerators[accelerator].value) == link


def test_links_of_tori_carry_messages_beside_computation(packaged_snapshot):
    """Collectives of GPUs take some of the multiprocessors that compute meanwhile."""

    def of(accelerator):
        return training_link_of(packaged_snapshot.accelerators[accelerator].value)

    assert of("google-tpu-v5p") == of("google-tpu-v6e") == "torus"
    assert of("aws-trainium1") == "ring"
    assert of("nvidia-h100-sxm-80gb") == of("amd-mi300x-192gb") == "scale-up"
    assert of("nvidia-rtx-4090-24gb") == "pcie"
