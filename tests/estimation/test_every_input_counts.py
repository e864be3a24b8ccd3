"""Every input of an operation moves a figure or a warning: nothing is asked for in name only.

For each operation a sound request and, for every field of its request, another value. Fields
that choose a catalog, or an explanation, move no figure and are left out by name; those that choose
how much is told are held to that, for each operation. A field that is added without a line here
fails.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.bounds.requests import BoundsRequest
from service.estimation.impacts.requests import ElectricityRequest, HardwareRequest, SiteRequest
from service.estimation.profile.requests import MemoryProfileRequest
from service.estimation.projections.memory_choice import MemoryChoiceRequest
from service.estimation.projections.requests import ProjectionRequest
from service.estimation.requests import DeploymentRequest
from service.estimation.retrieval.requests import RetrievalRequest
from service.estimation.society.requests import SocialLicenceRequest
from service.estimation.storage.requests import NearMemoryRequest, StoreRequest
from service.estimation.storage.transfers import TransferRequest
from service.estimation.use_cases import USE_CASES

#: What chooses the state of the catalog and of own measurements, and what is told beside figures.
NOT_FIGURES = {"catalog_revision", "as_of", "calibration", "calibration_revision", "explain"}
#: What chooses how much of an answer is told, and moves nothing that is.
TOLD = {"include", "fields"}
SMALL = {"model": "meta-llama/Llama-3.1-8B", "accelerator": "nvidia-h100-sxm-80gb"}
ENERGY = {"energy_kwh": 1e3, "region": "country/DE"}
HOURS = {"accelerator_hours": 1e3, "accelerator": "nvidia-h100-sxm-80gb", "region": "country/DE"}
HEARD = {
    "sound_sources": [{"count": 4, "sound_power_db": 90}],
    "receptor_distance_m": 100,
    "noise_limit_db": 40,
}
TOWER = {"cooling": "evaporative-tower"}
CONTRACT = {"contracted_ratio": 0.5}

#: Of each question: the class whose fields are perturbed, where they stand in the request, and for
#: each field the request that it is perturbed in with the value that it gets.
Changes = dict[str, tuple[dict[str, Any], Any]]


def each(base: dict[str, Any], **values: Any) -> Changes:
    return {name: (base, value) for name, value in values.items()}


CASES: tuple[tuple[str, type[BaseModel], tuple[str, ...], frozenset[str], Changes], ...] = (
    (
        "memory/transfers",
        TransferRequest,
        (),
        frozenset(),
        each(
            {"bytes": 1e9, "tiers": ["cxl-2.0-ddr5-direct", "hbm3e"]},
            bytes=2e9,
            interconnects=["pcie-4-x16"],
            tiers=["gddr6"],
            link_bytes_per_s=1e9,
            efficiency_ratio=0.5,
            utilisation_ratio=0.5,
            users=3,
            access_bytes=64.0,
            ddr5_usd_per_gb=5.0,
        )
        | each({"bytes": 1e9, "tiers": ["hbm3"], "access_bytes": 64.0}, outstanding=8),
    ),
    (
        "estimates/bounds",
        BoundsRequest,
        (),
        frozenset(),
        each(
            SMALL | {"region": "country/SE"},
            model="meta-llama/Llama-3.1-70B",
            accelerator="nvidia-l40s-48gb",
            precision={"weights": "fp8"},
            platform={"like": "server-pcie-8"},
            power_limit_w=300.0,
            accelerator_count=4,
            sequences=64,
            input_tokens=4096,
            output_tokens=2048,
            region="country/FR",
            facility={"pue_ratio": 2.0},
        ),
    ),
    (
        "social-licence",
        SocialLicenceRequest,
        (),
        frozenset(),
        each(
            {"region": "aws/us-east-1"},
            region="aws/eu-central-1",
            site=HEARD,
            homes_distance_m=50.0,
            local_benefit_ratio=0.2,
            disputes_count=3,
            published_ratio=0.1,
            weights={"water": 1.0},
            compliance={"on": "2026-11-21"},
        ),
    ),
    (
        "memory/stores",
        StoreRequest,
        (),
        frozenset(),
        each(
            {
                "vectors": 1e6,
                "dimensions": 1024,
                "added_per_day": 10.0,
                "retrieved_chunks": 4,
                "chunk_tokens": 128,
                "model": SMALL["model"],
            },
            vectors=2e6,
            dimensions=512,
            bytes_per_element=2.0,
            links_per_vector=16,
            payload_bytes=100.0,
            added_per_day=20.0,
            retention_days=30.0,
            days=30.0,
            embedding_model="BAAI/bge-large-en-v1.5",
            model="meta-llama/Llama-3.1-70B",
            precision={"kv_cache": "fp8"},
            retrieved_chunks=5,
            chunk_tokens=64,
            tier="ddr5-8ch",
        ),
    ),
    (
        "memory/near-memory",
        NearMemoryRequest,
        (),
        frozenset(),
        each(
            {"model": SMALL["model"], "tier": "sram-groq-lpu-v1", "tokens": 1000},
            tier="sram-cerebras-wse-3",
            model="meta-llama/Llama-3.1-70B",
            precision={"weights": "int8"},
            sequences=64,
            tokens=100_000,
            program_bytes_per_chip=1e8,
            hop_s=1e-6,
        )
        | each({"tier": "sram-groq-lpu-v1", "stored_bytes": 1e9}, stored_bytes=2e9)
        | each(
            {"model": SMALL["model"], "tier": "sangam-cxl-pim"},
            memory_bound_time_ratio=0.5,
            accelerator=SMALL["accelerator"],
        ),
    ),
    (
        "projections/memory-choice",
        MemoryChoiceRequest,
        (),
        frozenset(),
        each(
            {
                "size_gb": 80.0,
                "lifetime_tokens": 1e12,
                "extra_s_per_token": 1e-6,
                "power_w": 1000.0,
            },
            size_gb=40.0,
            lifetime_tokens=1e11,
            extra_s_per_token=1e-5,
            power_w=500.0,
            slow_memory="lpddr5x",
            fast_over_slow_making=1.5,
            region="country/SE",
        ),
    ),
    (
        "projections",
        ProjectionRequest,
        (),
        frozenset(),
        each(
            {"training_kgco2e": 1e5, "requests_per_day": 1e6, "gco2e_per_request": 0.2},
            training_kgco2e=2e5,
            requests_per_day=2e6,
            gco2e_per_request=0.4,
            growth_per_year_ratio=0.5,
            days=50,
            points=7,
        ),
    ),
    (
        "memory/profile",
        MemoryProfileRequest,
        (),
        # Those of a deployment are inference's own, perturbed with its memory.
        frozenset(DeploymentRequest.model_fields),
        each(
            SMALL | {"precision": {"weights": "bf16"}},
            training={"micro_batch_size": 2},
            training_precision={"weights": "fp32"},
            activation_constant=30.0,
            reserved_tokens=9000,
            pruning={"structure": "2:4"},
        ),
    ),
    (
        "retrieval",
        RetrievalRequest,
        (),
        frozenset(DeploymentRequest.model_fields),
        each(
            SMALL | {"region": "country/SE"},
            region="country/FR",
            facility={"pue_ratio": 2.0},
            embedding={"model": "BAAI/bge-large-en-v1.5"},
            search={"vectors": 1e6, "dimensions": 1024},
            retrieved_chunks=50,
            chunk_tokens=1024,
        ),
    ),
    (
        "impacts",
        ElectricityRequest,
        ("electricity",),
        frozenset(),
        each(
            ENERGY,
            contracted_ratio=0.5,
            residual_gco2e_per_kwh=100.0,
            marginal_gco2e_per_kwh=300.0,
            matching="hourly",
        )
        | each(ENERGY | {"electricity": CONTRACT}, contracted_gco2e_per_kwh=50.0)
        | each(
            ENERGY | {"electricity": CONTRACT | {"matching": "hourly"}}, hourly_matched_ratio=0.3
        ),
    ),
    (
        "impacts",
        HardwareRequest,
        ("hardware",),
        frozenset(),
        each(
            HOURS,
            life_years=3.0,
            second_life_years=2.0,
            reused_ratio=0.5,
            collected_ratio=0.9,
            added_memory_gb=100.0,
            treatment_kgco2e_per_kg=0.1,
        )
        | each(HOURS | {"hardware": {"in_use_ratio": 0.5}}, amortisation="busy-hours")
        | each(HOURS | {"hardware": {"amortisation": "busy-hours"}}, in_use_ratio=0.5)
        | each(HOURS | {"hardware": {"added_memory_gb": 100.0}}, added_memory="hbm3"),
    ),
    (
        "impacts",
        SiteRequest,
        ("site",),
        frozenset(),
        each(ENERGY | {"site": {}}, cooling="dry", rack_kw=20.0)
        | each(
            ENERGY | {"site": TOWER | {"wet_bulb_celsius": 10.0}},
            wet_bulb_celsius=20.0,
            cycles_of_concentration=3.0,
            evaporative_ratio=0.5,
        )
        | each(ENERGY | {"region": "aws/eu-north-1", "site": {}}, municipal_supply_l_per_day=1e6)
        | each(
            ENERGY | {"site": HEARD},
            sound_sources=[{"sound_power_db": 100}],
            receptor_distance_m=200.0,
            propagation="line",
            air_absorption_db=2.0,
            barrier_db=10.0,
            directivity_db=3.0,
            noise_limit_db=50.0,
        )
        | each(
            ENERGY | {"site": {"rack_kw": 20.0}},
            liquid_cooled_ratio=0.5,
            air_temperature_rise_k=8.0,
            hard_disk_ratio=0.5,
            rack_fan_speed_ratio=1.2,
            mounting="isolated",
        )
        | each(HOURS | {"site": {}}, accelerators_per_rack=32)
        | each(ENERGY | {"site": {"mean_it_kw": 1e3}}, area_m2=1e4)
        | each(ENERGY | {"site": {"area_m2": 1e4}}, mean_it_kw=2e3),
    ),
)
#: What answers repeat of the question, and sources.
ECHOED = {
    *("provenance", "deployment", "region", "tier", "model", "bytes", "days", "matching"),
    *("contracted_ratio", "amortisation", "life_years", "second_life_years", "in_use_ratio"),
    *("reused_ratio", "limit_db", "distance_m", "supply_l_per_day", "activation_constant"),
    *("reserved_tokens", "sparsity_ratio", "structure", "indicator_value"),
}
#: Fields that go together, so that neither can be asked about without the other.
TOGETHER = {"amortisation", "in_use_ratio", "area_m2", "mean_it_kw"}


def questions() -> list[Any]:
    return [pytest.param(*case, id="/".join((case[0], *case[2]))) for case in CASES]


def figures(question: str, body: dict[str, Any], snapshot: CatalogSnapshot) -> Any:
    """Figures and warnings of an answer, without what it says of the question and its sources."""
    use_case = USE_CASES[question]
    return bare(use_case.compute(use_case.request.model_validate(body), snapshot))


def bare(part: Any) -> Any:
    """The same without what only repeats the question."""
    if isinstance(part, dict):
        return {name: bare(inner) for name, inner in part.items() if name not in ECHOED}
    return [bare(inner) for inner in part] if isinstance(part, list) else part


def put(body: dict[str, Any], place: tuple[str, ...], name: str, value: Any) -> dict[str, Any]:
    if not place:
        return body | {name: value}
    inner = body.get(place[0], {})
    return body | {place[0]: put(inner, place[1:], name, value)}


@pytest.mark.parametrize(("question", "kind", "place", "left", "changes"), questions())
def test_every_input_moves_a_figure_or_a_warning(
    packaged_snapshot, question, kind, place, left, changes
):
    assert set(changes) == set(kind.model_fields) - NOT_FIGURES - TOLD - left
    known: dict[str, Any] = {}
    for name, (base, value) in changes.items():
        plain = base
        if name in TOGETHER:
            # One of the two alone is refused: compare with neither of them.
            plain = base | {place[0]: {}}
        if str(plain) not in known:
            known[str(plain)] = figures(question, plain, packaged_snapshot)
        moved = figures(question, put(base, place, name, value), packaged_snapshot)
        assert moved != known[str(plain)], f"{question}: {name} moves nothing"


#: A sound request of each operation whose own fields are perturbed.
SOUND = {
    question: next(iter(changes.values()))[0]
    for question, _, place, _, changes in CASES
    if not place
}


@pytest.mark.parametrize("question", SOUND)
def test_what_is_included_is_added_and_fields_leave_the_rest_out(packaged_snapshot, question):
    use_case = USE_CASES[question]

    def told(**asked: list[str]) -> dict[str, Any]:
        request = use_case.request.model_validate(SOUND[question] | asked)
        return dict(use_case.respond(request, packaged_snapshot))

    usual = told()
    assert set(use_case.groups) == {"provenance", "explanation"}
    sourced = told(include=["provenance"])
    entries = sourced["provenance"].pop("entries")
    # Projections of figures that are all given need no entry of the catalog.
    assert bool(entries) is (question != "projections")
    assert sourced == usual
    explained = told(include=["explanation"])
    assert explained.pop("explanation")
    assert explained == usual
    one, *_, other = usual
    assert told(fields=[one]) == {one: usual[one]}
    assert told(fields=[other, one]) == {one: usual[one], other: usual[other]}
    assert told(fields=["provenance.entries"]) == {"provenance": {"entries": entries}}
