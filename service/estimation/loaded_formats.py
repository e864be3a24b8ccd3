"""What weights and caches engines load where nobody says."""

from __future__ import annotations

from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.engines import Engine, EngineRelease
from service.core.format_lists import WIDTHS
from service.estimation.requests import PrecisionRequest
from service.estimation.resolution import weights_format


def usual_file(
    asked: PrecisionRequest, architecture: ModelArchitecture, engine: Engine
) -> str | None:
    """Format in which an engine takes weights where nobody says, or a width alone; None if its own.

    Checkpoints that say a width themselves are taken as they are.
    """
    named = weights_format(asked, architecture).listed_id
    if not architecture.generates or (named in WIDTHS) is not (asked.weights is not None):
        return None
    return engine.usual_weights.get(named)


def loaded_precision(
    asked: PrecisionRequest,
    architecture: ModelArchitecture,
    release: EngineRelease,
    snapshot: CatalogSnapshot,
) -> PrecisionRequest:
    """Formats as asked for, and as engines load them where nobody says.

    Those made for serving load 32-bit checkpoints in 16 bit, and keep caches in the format that a
    checkpoint has scales for; some narrow caches with weights, and those that read GGUF files take
    the usual one of a model that writes.

    References
    ----------
    vLLM, ModelConfig, ``dtype="auto"``, 2023–2026: FP16 for checkpoints in FP32 and FP16; vLLM,
    SGLang and TensorRT-LLM, 2026: ``kv_cache_dtype="auto"`` is the checkpoint's.
    """
    engine = snapshot.engines[release.engine].value
    compiled = engine.classes.get("inference") == "compiled"
    if asked.weights is None and architecture.native_format == "fp32" and compiled:
        asked = asked.model_copy(update={"weights": "fp16"})
    file = usual_file(asked, architecture, engine)
    if file is not None:
        asked = asked.model_copy(update={"weights": file})
    cache = engine.usual_caches.get(weights_format(asked, architecture).id)
    own = architecture.native_cache_format
    if compiled and asked.weights is None and own is not None and engine.caches.has(own):
        cache = own
    if asked.kv_cache is None and cache is not None:
        asked = asked.model_copy(update={"kv_cache": cache})
    return asked
