"""Documents that earlier releases stored, in the form of this one.

Stored revisions are never changed, and what was asked of one can be asked again.
"""

from __future__ import annotations

from collections.abc import Mapping

from service.catalog.entries.documents import Document

#: What requests could name before engines were entries of the catalog.
_INFERENCE = ("vllm", "sglang", "tensorrt-llm", "llama.cpp")
_TRAINING = ("default", "torchtitan", "litgpt", "llm-foundry", "megatron-lm", "deepspeed")
_RELEASES = {"vllm-before-0.6": "vllm", "transformers-before-4.36": "transformers"}

#: Figures of calibrations that were 1 or 0 under another name.
_TRUTHS = (
    *("launch_bound", "half_accumulation", "prefills_whole", "reserves_cache"),
    *("activations_in_share", "graphs_in_share"),
)


def in_todays_form(documents: dict[str, dict[str, Document]]) -> dict[str, dict[str, Document]]:
    """The documents of a revision, with what earlier releases said otherwise said as today."""
    if documents["engines"] or "memory-runtime/default" not in documents["calibrations"]:
        return documents
    engines: list[Document] = [
        *(_engine(id_, ["inference"]) for id_ in _INFERENCE),
        *(_engine(id_, ["training"]) for id_ in _TRAINING),
        _engine("transformers", ["inference", "training"]),
        *({**_engine(id_, ["inference"]), "release_of": of} for id_, of in _RELEASES.items()),
    ]
    ampere: Document = {
        "id": "catalog/nvidia-ampere",
        "applies_to": {"catalog": "family", "family": "nvidia-ampere"},
        "figures": {"small_default_batch": {"value": True}},
    }
    calibrations = {id_: _renamed(each) for id_, each in documents["calibrations"].items()}
    return documents | {
        "engines": {engine["id"]: engine for engine in engines},
        "calibrations": {ampere["id"]: ampere, **calibrations},
    }


def _engine(id_: str, workloads: list[str]) -> Document:
    return {"id": id_, "name": id_, "aliases": [], "workloads": workloads}


def _renamed(document: Document) -> Document:
    figures = document.get("figures")
    if not isinstance(figures, Mapping):
        return document
    names = {f"{name}_ratio": name for name in _TRUTHS}
    return {**document, "figures": {names.get(name, name): one for name, one in figures.items()}}
