"""Refits of made measurements find what made them; left-out sources are estimated without them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from service.calibration import power, speed, training_terms
from service.calibration.documents import document_text
from service.calibration.groups import Group, by_source
from service.calibration.hierarchy import Fitted
from service.calibration.kinds import FAMILY, alike
from service.calibration.left_out import (
    left_out_figures,
    with_entries,
)
from service.calibration.speed_terms import TERMS
from service.calibration.timed import WIDENINGS, TimedPart, mechanism_of
from service.catalog.snapshot import CatalogSnapshot
from service.core.interval import exact
from service.estimation.calibrations import calibration
from service.estimation.levels import engine_keys
from service.estimation.measurements.computed import computed
from service.estimation.measurements.documents import MeasurementDocument
from service.validation.left_out import LeftOutFigure, read_left_out
from service.validation.tables import LeftOutInvalid, table_text

#: Constants that make rows: what the hardware family reaches, and what the engine adds.
_TRUE = {"memory_ratio": 0.70, "layer_s": 1e-4}


def _document(
    source: str, model: str, concurrency: int, accelerator: str = "h100", **measured: float
) -> MeasurementDocument:
    return MeasurementDocument.model_validate(
        {
            "id": f"{model}-{accelerator}-{concurrency}",
            "kind": "inference",
            "request": {
                "model": model,
                "accelerator": accelerator,
                "serving": {"engine": "vllm", "engine_version": "newest"},
                "workload": {
                    "input_tokens": 512,
                    "output_tokens": 256,
                    "concurrency": concurrency,
                },
            },
            "measured": measured or {"tpot_s": 0.01},
            "source": source,
        }
    )


_SOURCES = {"vllm-arg-utils": "llama-3.1-8b", "sglang-pull-5893": "qwen2.5-7b"}


@pytest.fixture(scope="module")
def rows(packaged_snapshot: CatalogSnapshot) -> list[speed.MeasuredSpeed]:
    """Figures of two sources and two accelerators, as known constants would make them."""
    documents = [
        _document(source, model, concurrency, accelerator)
        for source, model in _SOURCES.items()
        for accelerator in ("h100", "a100-80gb")
        for concurrency in (1, 8, 64)
    ]
    found = speed.measured_speeds(documents, packaged_snapshot)
    usual = {term.name: term.usual for term in speed.ALL_TERMS}
    values = {name: np.full((len(found), 1), value) for name, value in (usual | _TRUE).items()}
    logs = speed.predictor(found)(range(len(found)), values)[:, 0]
    return [
        replace(
            row,
            measured=float(np.exp(log)),
            document=row.document.model_copy(update={"measured": {"tpot_s": float(np.exp(log))}}),
        )
        for row, log in zip(found, logs, strict=True)
    ]


def _of(rows: list[speed.MeasuredSpeed], source: str) -> Group:
    return next(one for one in by_source(row.document for row in rows) if one.key == source)


@pytest.fixture(scope="module")
def fitted(rows: list[speed.MeasuredSpeed]) -> Fitted:
    return speed.fit_speed(rows)


@pytest.fixture(scope="module")
def part(rows: list[speed.MeasuredSpeed], packaged_snapshot: CatalogSnapshot) -> TimedPart:
    return speed.speed_part(rows, packaged_snapshot)


def test_a_fit_explains_the_rows_that_its_constants_made(
    rows: list[speed.MeasuredSpeed], fitted: Fitted
) -> None:
    assert len(rows) == 12
    assert np.abs(fitted.residuals).max() < 0.03
    keys = rows[0].keys
    reached = next(term for term in speed.ALL_TERMS if term.name == "memory_ratio")
    assert fitted.values(keys)["memory_ratio"] < reached.usual_of[keys["family"]]


def test_rows_of_one_deployment_are_computed_as_each_alone(
    rows: list[speed.MeasuredSpeed],
) -> None:
    usual = {term.name: np.full((len(rows), 2), term.usual) for term in speed.ALL_TERMS}
    usual["memory_ratio"][:, 1] = 0.5
    together = speed.predictor(rows)(range(len(rows)), usual)
    for at, row in enumerate(rows):
        one = {name: values[at : at + 1] for name, values in usual.items()}
        assert speed.predictor([row])([0], one) == pytest.approx(together[at : at + 1])
    assert (together[:, 1] > together[:, 0]).all()


def test_what_cannot_be_fitted_to_is_left_out(packaged_snapshot: CatalogSnapshot) -> None:
    low = _document("s", "llama-3.1-8b", 1).model_copy(update={"confidence": "low"})
    far = _document("s", "llama-3.1-8b", 1, tpot_s=60.0)
    memory = _document("s", "llama-3.1-8b", 1, weights_bytes=16e9)
    unknown = _document("s", "a-model-of-nobody", 1)
    assert speed.measured_speeds([low, far, memory, unknown], packaged_snapshot) == []
    fast = speed.measured_speeds([_document("s", "llama-3.1-8b", 1)], packaged_snapshot)
    assert fast[0].keys["family"] == "nvidia-hopper"
    assert fast[0].keys["kernels"] == "compiled/nvidia-hopper"


def test_a_source_counts_less_by_the_row_the_more_it_has(
    rows: list[speed.MeasuredSpeed],
) -> None:
    few = [*rows[:6], rows[6]]
    weights = speed.weights_of(few)
    assert weights[-1] > weights[0]
    assumed = rows[0].document.model_copy(update={"assumed": ("/request/model",)})
    halved = speed.weights_of([replace(rows[0], document=assumed), *rows[1:]])
    assert halved[0] == pytest.approx(0.5 * speed.weights_of(rows)[0])


def test_entries_say_where_constants_hold(
    part: TimedPart, packaged_snapshot: CatalogSnapshot
) -> None:
    entries = {entry.id: entry for entry in part.entries()}
    assert entries["speed/hardware"].figures.keys() >= {"memory_ratio", "matrix_32bit_ratio"}
    hopper = entries["speed/hardware/nvidia-hopper"]
    assert hopper.applies_to == {
        "part": "speed/hardware",
        "vendor": "nvidia",
        "family": "nvidia-hopper",
    }
    assert "3 of sglang-pull-5893" in hopper.note
    # What messages over slots usually take is known; nobody measured it here.
    assert not entries["speed/links/pcie"].fitted
    assert "speed/hosts/nvidia/laptop" not in entries
    assert "id: speed/engines/vllm" in document_text((), entries.values())
    changed = with_entries(packaged_snapshot, [*entries.values(), *part.spreads()])
    h100 = packaged_snapshot.find("accelerators", "h100").value
    found = calibration(changed, "vllm", h100).performance
    keys = {"vendor": "nvidia", "family": "nvidia-hopper"}
    expected = part.fitted.values(keys)["memory_ratio"]
    assert found.hardware.memory_ratio == pytest.approx(expected, rel=0.01)


def test_every_source_is_estimated_without_its_own_rows(
    part: TimedPart,
    rows: list[speed.MeasuredSpeed],
    packaged_snapshot: CatalogSnapshot,
    tmp_path,
) -> None:
    source = "vllm-arg-utils"
    notes = " ".join(entry.note for entry in part.entries_without(_of(rows, source)))
    assert source not in notes
    assert "sglang-pull-5893" in notes
    documents = [row.document for row in rows]
    quantities = frozenset({"tpot_s"})
    by_group = left_out_figures(documents, quantities, packaged_snapshot, [part])
    found = [figure for _, figures in by_group for figure in figures]
    assert [figure.source for figure in found] == sorted(row.source for row in rows)
    assert all(figure.low < figure.value < figure.high for figure in found)
    inside = sum(figure.low <= figure.measured <= figure.high for figure in found)
    assert inside >= 0.8 * len(found)
    path = tmp_path / "left_out.csv"
    path.write_text(table_text(found, LeftOutFigure, "abc"))
    digest, read = read_left_out(path)
    assert digest == "abc"
    assert [one.id for one in read] == [one.id for one in found]
    assert read[0].value == pytest.approx(found[0].value, rel=1e-5)


def test_a_family_that_is_left_out_whole_is_estimated_by_what_stands_in(
    part: TimedPart, rows: list[speed.MeasuredSpeed], packaged_snapshot: CatalogSnapshot
) -> None:
    """Nobody measured it then, so that its ranges are wider than those of a source left out."""
    documents = [row.document for row in rows]
    quantities = frozenset({"tpot_s"})

    def widths(groups: list[Group]) -> dict[str, float]:
        found = left_out_figures(documents, quantities, packaged_snapshot, [part], groups)
        return {one.id: one.high / one.low for _, figures in found for one in figures}

    families = [one for one in alike(documents, packaged_snapshot) if one.kind == FAMILY]
    assert {one.key for one in families} == {"nvidia-hopper", "nvidia-ampere"}
    whole, alone = widths(families), widths(by_source(documents))
    assert whole.keys() == alone.keys()
    assert sum(whole.values()) > sum(alone.values())


def test_spreads_go_by_what_times_are_spent_on(part: TimedPart) -> None:
    spreads = {entry.id: entry.figures for entry in part.spreads()}
    assert spreads.keys() == {"speed/spread", "speed/spread/decode"}
    wider = spreads["speed/spread"]
    assert wider.items() >= {**WIDENINGS, **speed.ROUTED_WIDENINGS}.items()
    assert wider["unmeasured_engines_generation_overhead_spread_ratio"] > 0.3
    assert wider["unmeasured_hardware_family_memory_spread_ratio"] > 0.0
    assert "unmeasured_hardware_family_overhead_spread_ratio" not in wider
    assert all(value > 0.0 for figures in spreads.values() for value in [max(figures.values())])


@pytest.mark.parametrize("mechanism", ["compute", "memory"])
def test_what_unmeasured_hardware_reaches_is_widened_by_mechanism(
    part: TimedPart, mechanism: str
) -> None:
    """Of the parts and mechanisms that are named, and of no others."""

    def ratios(of: TimedPart) -> dict[str, float]:
        wider = next(one for one in of.spreads() if one.id == "speed/spread").figures
        return {name: value for name, value in wider.items() if name.startswith("unmeasured_")}

    alike = ratios(replace(part, mechanism_ratios={}))
    wider = ratios(replace(part, mechanism_ratios={("speed/hardware", mechanism): 3.0}))
    changed = {name for name in alike if wider[name] != alike[name]}
    assert changed == {
        f"unmeasured_hardware_{level}_{mechanism}_spread_ratio" for level in ("vendor", "family")
    }
    for name in changed:
        assert wider[name] == pytest.approx(3.0 * alike[name], rel=0.01)


def test_a_source_has_no_part_in_the_spread_that_it_is_judged_by(
    part: TimedPart, rows: list[speed.MeasuredSpeed]
) -> None:
    for source in _SOURCES:
        group = _of(rows, source)
        for entry in part.spreads(group):
            assert source not in entry.note
        without = {entry.id: entry for entry in part.entries_without(group)}
        assert source not in without["speed/spread/decode"].note


def test_intervals_are_wider_the_less_was_measured(
    part: TimedPart, packaged_snapshot: CatalogSnapshot
) -> None:
    entries = [*part.entries(), *part.spreads()]
    known = {entry.id for entry in entries}
    assert {"speed/engines/vllm", "speed/hardware/nvidia-hopper"} <= known

    def width(*, without: tuple[str, ...]) -> float:
        left = [entry for entry in entries if not entry.id.endswith(without)]
        catalog = with_entries(packaged_snapshot, left if without else entries)
        document = _document("s", "llama-3.1-8b", 8)
        figure = computed(document, catalog).read("tpot_s")
        return float(figure.high / figure.low)

    measured = width(without=())
    engine = width(without=("engines/vllm",))
    family = width(without=("hardware/nvidia-hopper",))
    neither = width(without=("engines/vllm", "hardware/nvidia-hopper"))
    assert 1.0 < measured < min(engine, family)
    assert family < neither
    # What stands in for a family's memory moves how much of a step waits for the host instead.
    assert engine < 1.01 * neither


def test_every_term_belongs_to_a_mechanism() -> None:
    by_host = {
        term.name
        for term in (*speed.ALL_TERMS, *training_terms.ALL_TERMS)
        if mechanism_of(term.name) == "overhead"
    }
    assert by_host == {
        *("step_s", "layer_s", "expert_s", "sequence_s", "prompt_layer_s", "host_ratio"),
        *("prompt_product_s", "told_s", "served_s", "ranks_s", "prompts_s"),
        *("backend_layer_ratio", "replayed_ratio", "expert_kernel_s"),
        "sharded_layer_s",
    }


@pytest.mark.parametrize("text", ["", "id,quantity\n", "# constants x\nid\n1\n"])
def test_a_file_that_is_no_comparison_is_told(tmp_path, text: str) -> None:
    path = tmp_path / "left_out.csv"
    path.write_text(text)
    with pytest.raises(LeftOutInvalid, match="has not the columns"):
        read_left_out(path)


def test_power_comes_from_watts_or_from_energy_and_rate(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    rate = 2000.0
    documents = [
        _document("vllm-arg-utils", "llama-3.1-8b", 8, accelerator_power_w=400.0),
        _document(
            "vllm-arg-utils",
            "llama-3.1-8b",
            16,
            accelerator_energy_per_output_token_j=0.25,
            output_tokens_per_s=rate,
        ),
        _document(
            "vllm-arg-utils",
            "llama-3.1-8b",
            32,
            accelerator_energy_per_request_j=0.3 * 256,
            output_tokens_per_s=rate,
        ),
        _document("vllm-arg-utils", "llama-3.1-8b", 8, accelerator_energy_per_request_j=10.0),
    ]
    slow = {
        id_: replace(entry, value={**entry.value, "memory_ratio": exact(0.3)})
        for id_, entry in packaged_snapshot.calibrations.items()
        if id_.startswith("speed/hardware")
    }
    slower = replace(packaged_snapshot, calibrations={**packaged_snapshot.calibrations, **slow})
    asked: list[str] = []

    def without(group: Group) -> CatalogSnapshot:
        asked.append(group.key)
        return slower

    found = power.measured_powers(documents, packaged_snapshot, without)
    assert asked == ["vllm-arg-utils"]
    assert [row.measured for row in found] == pytest.approx([400.0, 500.0, 600.0])
    assert found[0].keys == {"memory": "hbm", "hardware": "hbm/nvidia-hopper"}
    fitted = power.fit_power(found)
    assert np.abs(fitted.residuals).max() < 0.2
    # What is drawn by constants of speed that never saw the source follows what they say of it.
    places, rows = fitted.values({}), range(len(found))
    constants = {name: np.full((len(found), 1), value) for name, value in places.items()}
    seen, unseen = (
        predict(found)(rows, constants) for predict in (power.predictor, power.unseen_predictor)
    )
    assert all(unseen < seen)


def test_engines_differ_by_what_their_source_issues_before_anyone_timed_them(packaged_snapshot):
    """Fused layers have fewer kernels; batches managed in Python hold steps up, in C++ hardly."""
    terms = {term.name: term for term in TERMS["speed/engines"]}

    def usual(name: str, engine: str) -> float:
        keys = engine_keys(engine, packaged_snapshot.engines)
        return float(terms[name].value(terms[name].usual_place(keys)))

    assert usual("layer_s", "autoawq") < usual("layer_s", "transformers")
    assert usual("layer_s", "exllama") < usual("layer_s", "autoawq")
    assert usual("layer_s", "tgi") == usual("layer_s", "vllm") < usual("layer_s", "tgi@before-2.0")
    assert usual("sequence_s", "tgi") > 10.0 * usual("sequence_s", "tensorrt-llm")
