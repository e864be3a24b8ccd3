"""Beam search as it was asked for, on engines that are known to do it."""

from __future__ import annotations

from service.catalog.snapshot import CatalogSnapshot
from service.core.deployment import ONE_BEAM, Beams
from service.core.engines import Engine
from service.core.hardware import Hardware
from service.estimation.requests import ServingRequest
from service.estimation.resolution import Problems


def resolve_beams(
    width: int,
    engine: Engine,
    hardware: Hardware,
    serving: ServingRequest,
    snapshot: CatalogSnapshot,
    problems: Problems,
    *,
    generates: bool,
) -> Beams:
    """The beams of each request; notes engines and settings that beam search does not go with.

    Parameters
    ----------
    width
        Continuations that are decoded of each prompt [-].
    engine, hardware
        What decodes them, and on what.
    serving
        Settings as they were asked for.
    snapshot
        The catalog, whose engines are named where this one has no beam search.
    problems
        What is wrong with the request.
    generates
        Whether anything is decoded at all.
    """
    if width == 1:
        return ONE_BEAM
    if not generates:
        problems.add("/workload/beam_width", "embedding and ranking decode no tokens; use 1")
    for name in ("speculative", "disaggregated"):
        if getattr(serving, name) is not None:
            problems.add(
                f"/serving/{name}",
                "cannot be estimated together with beam search; leave one of them out",
            )
    if engine.beam_caches is None:
        problems.add(
            "/workload/beam_width",
            f"{engine.name} has no beam search, or none whose speed is known; on this accelerator "
            f"it can be estimated for: {', '.join(_with_beams(hardware, snapshot)) or 'none'}",
        )
    return Beams(float(width), engine.beam_caches == "copied")


def _with_beams(hardware: Hardware, snapshot: CatalogSnapshot) -> list[str]:
    """Ids of engines that decode by beam search on an accelerator."""
    engines = (entry.value for entry in snapshot.engines.values())
    return sorted(one.id for one in engines if one.beam_caches and one.runs_on(hardware))
