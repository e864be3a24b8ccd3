"""How people run what has no room as it is: from quantised files, or partly on the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import ceil, inf

from service.catalog.snapshot import CatalogSnapshot
from service.core.engines import USUAL_ENGINE_OF_GGUF
from service.core.explanation import EstimateWarning
from service.estimation.impacts.requests import ImpactsRequest
from service.estimation.inference.deployment import ComputedDeployment, compute_deployment
from service.estimation.learning.deployments import learnt_deployment
from service.estimation.rejection import Rejected
from service.estimation.requests import DeploymentRequest, OffloadRequest
from service.estimation.resolution import Problems

#: Memory that fits in machines of one's own, by kind: two modules of 48 GB in laptops and small
#: ones, four in desktops, eight of 128 GB in workstations; servers hold as much as is asked [B].
_ROOM_BYTES: Mapping[str, float] = {
    "laptop": 96e9,
    "mini-pc": 96e9,
    "desktop": 192e9,
    "workstation": 1024e9,
    "soc-board": 0.0,
}


def computed_deployment(
    request: DeploymentRequest | ImpactsRequest, snapshot: CatalogSnapshot, problems: Problems
) -> ComputedDeployment:
    """Memory and latency of a deployment as its engine runs it.

    A model that has no room as it ships, on a machine of one's own, is run from the files of
    llama.cpp where a request names neither engine nor format. What has no room in the accelerators
    is left to the host by engines that do so untold. Where a request says what lies outside, or
    nothing can, it stays as it is.

    Raises
    ------
    Rejected
        With everything that is wrong with the request, and all that ``problems`` held before.
    """
    found = compute_deployment(learnt_deployment(request, snapshot, problems))
    if found.fits:
        return found
    quantised = _quantised(request, found, snapshot)
    if quantised is not None:
        return quantised
    if not _spills(found, snapshot):
        return found
    engine = snapshot.engines[found.resolved.serving.engine].value
    ratio = _layers_ratio(found) if engine.spills_layers else 0.0
    offload = OffloadRequest(weights_ratio=ratio, kv_cache_ratio=ratio)
    serving = request.serving.model_copy(update={"offload": offload})
    spilling = request.model_copy(update={"serving": serving})
    try:
        spilled = compute_deployment(learnt_deployment(spilling, snapshot, Problems()))
    except Rejected:
        return found
    tiers, platform = spilled.tiers, found.resolved.deployment.accelerator.platform
    if tiers is None or not spilled.fits:
        return found
    held = tiers.held_outside({"host"}).value
    machines = platform.machines(found.resolved.deployment.parallelism.accelerator_count)
    if held > machines * _ROOM_BYTES.get(platform.kind, inf):
        return found
    warning = EstimateWarning(
        "spilled_to_host",
        f"the accelerators lack {found.memory.shortfall_bytes.value / 1e9:.1f} GB each: "
        f"{engine.name} leaves {held / 1e9:.1f} GB to the host, whose processors compute it, as it "
        "does where it is told nothing",
    )
    return replace(spilled, warnings=(warning, *spilled.warnings))


def _quantised(
    request: DeploymentRequest | ImpactsRequest,
    found: ComputedDeployment,
    snapshot: CatalogSnapshot,
) -> ComputedDeployment | None:
    """The same from quantised files, where the model has room in them alone; else None.

    llama.cpp's are what programs for one's own machine load (Ollama, library: tags of no format are
    Q4_K_M; LM Studio, Models: the largest that fits, Q4_K_M as a rule).
    """
    kind = found.resolved.deployment.accelerator.platform.kind
    told = request.serving.engine is not None or request.precision.weights is not None
    engine = snapshot.engines[found.resolved.serving.engine].value
    if told or kind not in _ROOM_BYTES or engine.id == USUAL_ENGINE_OF_GGUF:
        return None
    serving = request.serving.model_copy(update={"engine": USUAL_ENGINE_OF_GGUF})
    other = request.model_copy(update={"serving": serving})
    try:
        smaller = compute_deployment(learnt_deployment(other, snapshot, Problems()))
    except Rejected:
        return None
    if not smaller.fits:
        return None
    warning = EstimateWarning(
        "quantised_to_fit",
        f"as {engine.name} runs it, the accelerators lack "
        f"{found.memory.shortfall_bytes.value / 1e9:.1f} GB each: the model is estimated in "
        f"{smaller.resolved.deployment.precision.weights.listed_id.upper()} with llama.cpp, as "
        "people run it on machines of their own; name an engine or a format for another",
    )
    return replace(smaller, warnings=(warning, *smaller.warnings))


def _layers_ratio(found: ComputedDeployment) -> float:
    """Share of whole layers, with their caches, that the accelerators have no room for [-]."""
    memory, layers = found.memory, found.resolved.deployment.architecture.layer_count
    held = memory.weights_bytes.value + memory.kv_cache_bytes.value
    return float(min(ceil(layers * memory.shortfall_bytes.value / held) / layers, 1.0))


def _spills(found: ComputedDeployment, snapshot: CatalogSnapshot) -> bool:
    """Whether an engine leaves to the host, untold, what a deployment has no room for."""
    resolved = found.resolved
    if resolved.tiers is not None or resolved.deployment.accelerator.unified_memory:
        return False
    entry = snapshot.engines.get(resolved.serving.engine)
    return entry is not None and entry.value.spills(resolved.serving.engine_generation)
