"""What measurements have in common that hardware, engines and models are known by."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from service.calibration.groups import Group
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import LatentAttention, ModelArchitecture, StateMixer
from service.core.engines import engine_of_release
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.measurements.computed import Computed, computed
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.rejection import Rejected
from service.estimation.resolution import resolve_model

#: Kinds of groups that estimates of something that nobody measured are judged by.
FAMILY, ENGINE, CLASS, FORMAT, LOAD = "family", "engine", "engine class", "weights", "load"
MODEL = "model kind"
KINDS = (FAMILY, ENGINE, CLASS, FORMAT, MODEL, LOAD)
#: From when on a load is far from what most measure: tokens of a sequence, sequences in flight,
#: accelerators.
_LONG_TOKENS, _MANY_SEQUENCES, _MANY_ACCELERATORS = 32_768.0, 64.0, 8


def alike(documents: Iterable[MeasurementDocument], snapshot: CatalogSnapshot) -> list[Group]:
    """Groups of measurements that have a kind of hardware, software, model or load in common.

    Parameters
    ----------
    documents
        What was measured; what cannot be estimated is in no group.
    snapshot
        The catalog, which says what models and engines are.

    Returns
    -------
    list of Group
        By kind, and within it by key; a measurement is in several.
    """
    groups: dict[tuple[str, str], list[MeasurementDocument]] = {}
    for document in documents:
        if isinstance(document.request, ImpactsRequest):
            continue
        try:
            found = computed(document, snapshot)
        except Rejected:
            continue
        architecture = resolve_model(document.request.model, snapshot).value
        for named in _of(found, architecture, snapshot):
            groups.setdefault(named, []).append(document)
    ordered = sorted(groups, key=lambda named: (KINDS.index(named[0]), named[1]))
    return [Group.of(*named, groups[named]) for named in ordered]


def _of(
    found: Computed, architecture: ModelArchitecture, snapshot: CatalogSnapshot
) -> Iterator[tuple[str, str]]:
    """Kinds and keys of the groups of a measured configuration."""
    yield FAMILY, found.family
    engine = engine_of_release(found.software)
    yield ENGINE, f"{engine} ({found.kind})"
    if engine in snapshot.engines and found.kind != "impacts":
        classes = snapshot.engines[engine].value.classes
        if found.kind in classes:
            yield CLASS, classes[found.kind]
    echoed: Mapping[str, Any] = found.deployment
    yield FORMAT, str(echoed["precision"]["weights"])
    if architecture.routes:
        yield MODEL, "routed experts"
    mixers = [group.mixer for group in architecture.groups]
    if any(isinstance(mixer, LatentAttention) for mixer in mixers):
        yield MODEL, "latent attention"
    if any(isinstance(mixer, StateMixer) for mixer in mixers):
        yield MODEL, "layers with a state"
    load = echoed.get("workload", {})
    if load.get("input_tokens", 0.0) + load.get("output_tokens", 0.0) > _LONG_TOKENS:
        yield LOAD, "more than 32,768 tokens"
    if (load.get("concurrency") or 0.0) > _MANY_SEQUENCES:
        yield LOAD, "more than 64 sequences in flight"
    if echoed.get("accelerator_count", 1) > _MANY_ACCELERATORS:
        yield LOAD, "more than 8 accelerators"
