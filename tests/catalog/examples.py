"""Small documents to try the catalog's machinery on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from service.catalog.entries.offers import COLUMNS
from service.settings import INSTALLATION

Documents = dict[str, dict[str, dict[str, Any]]]


def figure(value: float, year: int = 2024, **more: Any) -> dict[str, Any]:
    return {"value": value, "year": year, "source": "sheet", "kind": "datasheet", **more}


def accelerator(entry_id: str = "acme-one-80gb", **figures: Any) -> dict[str, Any]:
    return {
        "id": entry_id,
        "name": "Acme One 80 GB",
        "vendor": "NVIDIA",
        "family": "nvidia-hopper",
        "form_factor": "sxm",
        "release_year": 2024,
        "memory_technology": "HBM3",
        "unified_memory": False,
        "aliases": ["one", "acme-one"],
        "scale_up_link": "nvlink-4",
        "scale_up_domain_accelerators": 8,
        "figures": {
            "memory_bytes": figure(80e9),
            "memory_bandwidth_bytes_per_s": figure(3.35e12),
            "peak_bf16_flops_per_s": figure(1e15),
            "scale_up_bandwidth_bytes_per_s": figure(450e9),
            "scale_up_latency_s": figure(9e-6),
            "thermal_design_power_w": figure(700),
            **figures,
        },
    }


def platform(**changes: Any) -> dict[str, Any]:
    return {
        "id": "acme-box",
        "name": "Acme Box",
        "kind": "server-8",
        "site_class": "colocation",
        "accelerators": 8,
        "shared": True,
        "default_for": ["acme-*"],
        "aliases": ["box"],
        "figures": {"host_idle_w": figure(800.0), "host_load_w": figure(1600.0)},
        **changes,
    }


def instance(*prices: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": "aws/acme.8x",
        "name": "AWS acme.8x",
        "provider": "aws",
        "accelerator": "acme-one-80gb",
        "accelerators": 8,
        "described_by": "sheet",
        "aliases": ["acme.8x"],
        "figures": {"vcpus": figure(96)},
        "prices": list(prices) or [figure(50.0)],
    }


def offers(*rows: list[Any]) -> dict[str, Any]:
    usual = [["acme.8x", "eu-north-1", "spot", 20.5, "2026-01-21", "sheet"]]
    return {"id": "aws", "columns": list(COLUMNS), "rows": list(rows) or usual}


def engine() -> dict[str, Any]:
    return {
        "id": "acme-train",
        "name": "Acme Train",
        "aliases": ["acme"],
        "workloads": ["training"],
        "source": "sheet",
    }


def rule(**changes: Any) -> dict[str, Any]:
    return {
        "id": "se-pue",
        "name": "Sweden: PUE",
        "subject": "site",
        "effect": "limit",
        "status": "in_force",
        "regions": ["country/SE"],
        "applies": [],
        "requires": [{"fact": "pue_ratio", "comparison": "at_most", "value": 1.3}],
        "source": "sheet",
        "checked_on": "2026-01-01",
        "aliases": [],
        **changes,
    }


def region(entry_id: str, parent: str | None = None, **figures: Any) -> dict[str, Any]:
    document: dict[str, Any] = {
        "id": entry_id,
        "name": entry_id,
        "kind": "cloud" if parent else "country",
        "country": "SE",
        "aliases": [],
        "figures": figures,
    }
    return document | ({"parent": parent} if parent else {})


def memory_tier(**figures: Any) -> dict[str, Any]:
    return {
        "id": "ddr5-8ch",
        "name": "DDR5, 8 channels",
        "kind": "host",
        "technology": "DDR5",
        "unit": "socket",
        "aliases": ["ddr5"],
        "figures": {
            "bandwidth_bytes_per_s": figure(307.2e9),
            "latency_s": figure(90e-9, low=80e-9, high=100e-9),
            "price_usd_per_gb": figure(5.0),
            **figures,
        },
    }


def interconnect(**figures: Any) -> dict[str, Any]:
    return {
        "id": "pcie-5-x16",
        "name": "PCIe 5.0 x16",
        "family": "pcie",
        "topology": "tree",
        "domain_endpoints": 16,
        "aliases": [],
        "figures": {"bandwidth_bytes_per_s": figure(63e9), **figures},
    }


def model() -> dict[str, Any]:
    return {
        "id": "acme/tiny",
        "aliases": ["tiny"],
        "organisation": "acme",
        "release_year": 2024,
        "licence": "apache-2.0",
        "published_parameters": figure(1e6),
        "config": {
            "model_type": "llama",
            "hidden_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "intermediate_size": 128,
            "vocab_size": 1000,
            "max_position_embeddings": 2048,
        },
        "config_source": "sheet",
    }


def stand_ins() -> dict[str, Any]:
    return {
        "id": "catalog/stand-ins",
        "applies_to": {"catalog": "stand-in"},
        "figures": {
            "pue_ratio": figure(1.5, low=1.1, high=1.9),
            "scale_up_bandwidth_bytes_per_s": figure(15e9),
            "scale_up_latency_s": figure(1e-5),
            "scale_up_domain_accelerators": figure(8),
        },
    }


def spreads() -> dict[str, Any]:
    return {
        "id": "catalog/spreads",
        "applies_to": {"catalog": "spread"},
        "figures": {"grid_gco2e_per_kwh": figure(0.25), "pue_ratio": figure(0.5)},
    }


def small_catalog() -> Documents:
    source = {
        "id": "sheet",
        "title": "Data sheet",
        "publisher": "Acme",
        "year": 2024,
        "url": "https://example.org/sheet",
        "licence": "facts only",
        "retrieved": "2026-01-01",
        "kind": "primary",
    }
    entries = {
        "accelerators": [accelerator()],
        "platforms": [platform()],
        "models": [model()],
        "regions": [
            region(
                "country/SE",
                grid_gco2e_per_kwh=[figure(50, 2022), figure(40, 2024)],
                ewif_l_per_kwh=figure(2.0),
            ),
            region("aws/eu-north-1", "country/SE", pue_ratio=figure(1.2, low=1.1, high=1.3)),
        ],
        "memory-tiers": [memory_tier()],
        "interconnects": [interconnect()],
        "instances": [instance()],
        "offers": [offers()],
        "engines": [engine()],
        "rules": [rule()],
        "sources": [source],
        "calibrations": [stand_ins(), spreads()],
    }
    return {
        collection: {document["id"]: document for document in documents}
        for collection, documents in entries.items()
    }


def write_catalog(directory: Path, documents: Documents) -> Path:
    """Write documents as catalog files (JSON is YAML), with the packaged schemas beside them."""
    folders = {"calibrations": "calibration", "memory-tiers": "memory_tiers"}
    for collection, entries in documents.items():
        folder = directory / folders.get(collection, collection)
        folder.mkdir(parents=True, exist_ok=True)
        for number, document in enumerate(entries.values()):
            (folder / f"{number}.yaml").write_text(json.dumps(document))
    schemas = directory / "schema"
    schemas.mkdir(exist_ok=True)
    for path in (INSTALLATION / "hardware_catalog" / "schema").glob("*.json"):
        (schemas / path.name).write_text(path.read_text())
    return directory
