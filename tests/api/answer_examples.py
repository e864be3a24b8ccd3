"""Makes the answers that the OpenAPI document shows: ``python -m tests.api.answer_examples``.

They are real answers, with the long lists cut short. Run it when an answer changes shape.
"""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
from asgi_lifespan import LifespanManager

import service.api
from service import ENGINE_VERSION
from service.api.app import create_app
from service.api.sweeps.access import shown_sweep
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.answers import warning_entries
from service.estimation.charts.memory import MemoryChartRequest
from service.estimation.comparison.answers import BatchAnswer
from service.estimation.measurements.answers import Measurement, measured_figure
from service.estimation.measurements.compared import compared
from service.estimation.measurements.imports.requests import MeasurementImportRequest
from service.estimation.measurements.requests import MeasurementRequest
from service.estimation.recommendations.requests import (
    BatchRequest,
)
from service.estimation.remarks import told
from service.estimation.reports.answers import ReportAnswer
from service.estimation.reports.requests import ReportRequest
from service.estimation.sweeps.chunks import evaluate_chunk
from service.estimation.sweeps.kinds import evaluated_chunk, resolved_sweep
from service.estimation.sweeps.plan import resolve_study
from service.estimation.sweeps.requests import SweepRequest
from service.estimation.sweeps.training_requests import TrainingSweepRequest
from service.estimation.use_cases import USE_CASES
from service.jobs.content import packed, shown
from service.settings import Settings

FILE = Path(service.api.__file__).parent / "static" / "examples.json"

CATALOG = {
    "Accelerator": ("accelerators", "nvidia-h100-sxm-80gb"),
    "Platform": ("platforms", "nvidia-dgx-h100"),
    "Model": ("models", "meta-llama/Llama-3.1-70B"),
    "Region": ("regions", "aws/eu-north-1"),
    "MemoryTier": ("memory-tiers", "cxl-2.0-ddr5-direct"),
    "Instance": ("instances", "aws/p5.48xlarge"),
    "Engine": ("engines", "sglang"),
    "Rule": ("rules", "de-enefg-new-pue"),
    "Interconnect": ("interconnects", "nvlink-4"),
    "Source": ("sources", "nvidia-h100-datasheet"),
}
DECISIONS = (
    ("/estimates/batch", BatchRequest, BatchAnswer),
    ("/reports/sci", ReportRequest, ReportAnswer),
)


_REVISION = {
    "revision": 12,
    "created_at": "2026-11-02T09:30:00+00:00",
    "author": "ada",
    "reason": "power limit measured",
    "content_hash": "d6a40d2d8b1e6a4c2a3f7b0e8c9d5f1a2b3c4d5e6f708192a3b4c5d6e7f80912",
    "from_package": False,
    "entry_count": 1004,
    "own": False,
}
_KEY = {
    "id": "5u3hckqv6zbdm2wa",
    "name": "build server",
    "organisation": "acme",
    "scopes": ["own:write"],
    "created_at": "2026-11-02T09:30:00+00:00",
    "created_by": "ada of acme",
    "expires_at": "2027-11-02T09:30:00+00:00",
    "revoked_at": None,
    "holds": True,
}
#: What a database with a history would answer; the application here has none.
HISTORY: dict[str, Any] = {
    "CatalogRevision": _REVISION,
    "CatalogRevisionPage": {"items": [_REVISION], "next_cursor": None},
    "CatalogDifference": {
        "older": 11,
        "newer": 12,
        "added": 0,
        "removed": 0,
        "changed": 1,
        "items": [
            {
                "collection": "accelerators",
                "id": "nvidia-t4-16gb",
                "change": "changed",
                "fields": [
                    {
                        "pointer": "/figures/thermal_design_power_w/value",
                        "before": 70,
                        "after": 71,
                        "missing": None,
                    }
                ],
                "more_fields": 0,
            }
        ],
        "more_items": 0,
    },
    "ApiKeyPage": {"items": [_KEY]},
    "NewApiKey": _KEY | {"key": "headroom_5u3hckqv6zbdm2wa_…"},
    "CatalogImport": {
        "dry_run": True,
        "revision": None,
        "catalog_revision": 12,
        "added": 1,
        "removed": 0,
        "changed": 0,
        "items": [
            {
                "collection": "sources",
                "id": "own/quote-2026-11",
                "change": "added",
                "fields": [],
                "more_fields": 0,
            }
        ],
        "more_items": 0,
    },
}


def measurement_example(asked: MeasurementRequest, snapshot: CatalogSnapshot) -> dict[str, Any]:
    """A report as it would be kept first, without a database to keep it in."""
    found = compared(asked, snapshot)
    computed = found.computed
    example = {
        "id": 1,
        "created_at": "2026-11-02T09:30:00+00:00",
        "organisation": None,
        "author": None,
        "kind": computed.kind,
        "model": computed.model,
        "accelerator": computed.accelerator,
        "family": computed.family,
        "catalog_revision": snapshot.revision,
        "engine_version": ENGINE_VERSION,
        "document": asked.model_dump(mode="json", exclude_defaults=True),
        "deployment": computed.deployment,
        "figures": [measured_figure(figure) for figure in found.figures],
        "out_of_memory_foreseen": None,
        "refused": [],
        "warnings": warning_entries(computed.warnings),
    }
    return dict(told(example, Measurement, asked, snapshot))


def sweep_examples(snapshot: CatalogSnapshot) -> dict[str, Any]:
    """A sweep and a page of its rows, as they would be kept, without a database to keep them in."""
    asked = SweepRequest.model_json_schema()["examples"][0]
    study = resolve_study(SweepRequest.model_validate(asked, strict=True), snapshot)
    [chunk] = study.chunks
    rows = evaluate_chunk(study, chunk)
    at = datetime(2026, 11, 2, 9, 30, tzinfo=UTC)
    kept = {
        "id": UUID("3f0c1d52-6d0f-4c8e-9a51-6f6f0f5e7d10"),
        "status": "succeeded",
        "problem": None,
        "created_at": at,
        "started_at": at,
        "finished_at": at,
        "catalog_revision": snapshot.revision,
        "engine_version": ENGINE_VERSION,
        "configuration_count": study.configurations,
        "chunk_count": 1,
        "chunks_done": 1,
        "configurations_done": study.configurations,
        "rows": len(rows),
        "request": json.dumps(asked).encode(),
    }
    excluded = [
        {"reason": reason, "configurations": count} for reason, count in rows.excluded.items()
    ]
    runs = TrainingSweepRequest.model_json_schema()["examples"][0]
    trained = resolved_sweep(TrainingSweepRequest.model_validate(runs, strict=True), snapshot)
    run_rows = evaluated_chunk(trained, 0)
    return {
        "Sweep": shown_sweep(kept, excluded, keep_days=30.0),
        "TrainingSweepRowPage": {
            "id": "7a8d2c1e-51b0-4b7e-8f0a-2d9c4f6b3e21",
            "catalog_revision": snapshot.revision,
            "engine_version": ENGINE_VERSION,
            "rows": len(run_rows),
            "items": shown(packed(run_rows), 0, 1),
            "next_cursor": "1",
        },
        "SweepRowPage": {
            "id": str(kept["id"]),
            "catalog_revision": snapshot.revision,
            "engine_version": ENGINE_VERSION,
            "rows": len(rows),
            "items": shown(packed(rows), 0, 1),
            "next_cursor": "1",
        },
    }


async def make() -> dict[str, Any]:
    """Examples by the name of the schema that they show."""
    found: dict[str, Any] = {}
    app = create_app(Settings(embedded_database=False, log_level="error"))
    async with LifespanManager(app, startup_timeout=None):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            for operation in USE_CASES.values():
                question = operation.request.model_json_schema()["examples"][0]
                response = await client.post(f"/v1{operation.path}", json=question)
                found[operation.answer.__name__] = response.raise_for_status().json()
            for path, request, answer in DECISIONS:
                question = request.model_json_schema()["examples"][0]
                response = await client.post(f"/v1{path}", json=question)
                found[answer.__name__] = response.raise_for_status().json()
            question = MemoryChartRequest.model_json_schema()["examples"][0]
            chart = (await client.post("/v1/charts/memory-breakdown", json=question)).json()
            found["ChartAnswer"] = chart
            found["VegaLiteChart"] = chart["vega_lite"]
            snapshot = app.state.shared.store.snapshot
            asked = MeasurementRequest.model_validate(
                MeasurementRequest.model_json_schema()["examples"][0], strict=False
            )
            found["Measurement"] = measurement_example(asked, snapshot)
            found["MeasurementPage"] = {"items": [found["Measurement"]], "next_cursor": None}
            found["MeasurementSummary"] = {
                "items": [
                    {
                        **{name: found["Measurement"][name] for name in ("model", "accelerator")},
                        "family": found["Measurement"]["family"],
                        "metric": "tpot_s",
                        "count": 12,
                        "mean_error_ratio": 0.021,
                        "median_error_ratio": 0.017,
                        "coverage_ratio": 0.92,
                    }
                ]
            }
            imported = MeasurementImportRequest.model_json_schema()["examples"][0]
            response = await client.post("/v1/measurements/imports", json=imported)
            found["MeasurementImport"] = response.raise_for_status().json()
            whole = sweep_examples(snapshot)
            found["ClaimEntry"] = (await client.get("/v1/claims/kv-cache-13b-batch-32")).json()
            found["ClaimPage"] = (await client.get("/v1/claims?verdict=unit")).json()
            found["WorkloadPage"] = (await client.get("/v1/workloads")).json()
            for name, (collection, id_) in CATALOG.items():
                page = (await client.get(f"/v1/{collection}?limit=1&q={id_}")).json()
                found[f"{name}Entry"] = page["items"][0]
                found[f"{name}Page"] = page
            found["TechniqueEntry"] = (await client.get("/v1/techniques/zero-3")).json()
            found["TechniquePage"] = {"items": [found["TechniqueEntry"]]}
            found["RegionGroups"] = (await client.get("/v1/region-groups")).json()
            found["OfferPage"] = (await client.get("/v1/offers?limit=1")).json()
            found["GridAnswer"] = (await client.get("/v1/grid/country/GB")).json()
            found |= HISTORY
            link = "/?model=llama-3.1-8b&accelerator=l40s"
            found["OEmbedAnswer"] = (await client.get("/oembed", params={"url": link})).json()
            found["SearchAnswer"] = (
                await client.get("/v1/catalog/search?q=H100 80GB SXM5&limit=3")
            ).json()
            found["Liveness"] = (await client.get("/livez")).json()
            found["Readiness"] = (await client.get("/readyz")).json()
            problem = await client.post(
                "/v1/memory/inference",
                json={"model": "lama-3.1-70b", "accelerator": "nvidia-h100-sxm-80gb"},
                headers={"X-Request-ID": "example-1"},
            )
            found["ProblemDetails"] = problem.json()
    examples = {name: shortened(example) for name, example in found.items()} | whole
    return dict(sorted(examples.items()))


def shortened(value: Any) -> Any:
    """The same with fewer parts, and two figures and one source of each entry of the catalog."""
    if isinstance(value, list):
        return [shortened(item) for item in value]
    if not isinstance(value, dict):
        return value
    result = {name: shortened(inner) for name, inner in value.items()}
    for name, most in (
        ("figures", 2),
        ("sources", 1),
        ("choices", 1),
        ("front", 2),
        ("rows", 1),
        ("series", 2),
        ("layer", 1),
    ):
        kept = result.get(name)
        if isinstance(kept, list):
            result[name] = kept[:most]
        elif isinstance(kept, dict) and "total_bytes" not in kept:
            result[name] = dict(list(kept.items())[:most])
    return result


if __name__ == "__main__":
    FILE.write_text(json.dumps(asyncio.run(make()), indent=1, ensure_ascii=False) + "\n")
