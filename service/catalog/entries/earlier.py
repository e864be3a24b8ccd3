"""Documents that earlier releases stored, in the form of this one.

Stored revisions are never changed, and what was asked of one can be asked again.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import hypot

from service.catalog.entries.documents import Document
from service.core.deployment import memory_kind

#: What requests could name before engines were entries of the catalog.
_INFERENCE = ("vllm", "sglang", "tensorrt-llm", "llama.cpp")
_TRAINING = ("default", "torchtitan", "litgpt", "llm-foundry", "megatron-lm", "deepspeed")
_RELEASES = {"vllm-before-0.6": "vllm", "transformers-before-4.36": "transformers"}

#: Ids of the power of hardware that was not measured, then and now.
_POWER_OF_ANY, _POWER = "power/default", "power"

#: What every engine started with, and what it prepared for, by how much memory there was.
_START: Document = {
    "max_running_sequences": 1024,
    "chunked_prefill_tokens": 8192,
    "memory_utilization_ratio": 0.9,
    "whole_prompts": False,
}
_PREPARED, _LARGE = "profiled_sequences", "large_profiled_sequences"

#: What ids of engines' memory begin with, and what came with the levels of memory.
_RUNTIME, _COUNTED_SINCE = "memory-runtime/", "memory/engines"
#: What shares of peaks have become, and what an H100 draws at most, beyond idle, over its peaks.
_WORK = {
    "memory_ratio": ("memory_j_per_byte", 629.0 / 3.35e12),
    "compute_ratio": ("matrix_j_per_flop", 629.0 / 9.894e14),
}
#: What unmeasured levels add to the spread of power.
_ADDED = {
    "unmeasured_power_vendor_log_sigma": "unmeasured_power_memory_log_sigma",
    "unmeasured_power_family_log_sigma": "unmeasured_power_hardware_log_sigma",
}
#: Figures of the server by what they are called now.
_SERVER = {
    "host_power_w": "host_idle_w",
    "server_embodied_kgco2e": "embodied_kgco2e",
    "server_adpe_kgsbeq": "embodied_adpe_kgsbeq",
    "server_primary_energy_mj": "embodied_primary_energy_mj",
    "server_mass_kg": "mass_kg",
}

#: Figures of calibrations that were 1 or 0 under another name.
_TRUTHS = (
    *("launch_bound", "half_accumulation", "prefills_whole", "reserves_cache"),
    *("activations_in_share", "graphs_in_share"),
)

#: Of a step of training, and of the messages in it.
_BACKENDS = "speed/backends"
_TRAINING_SPREAD, _MESSAGES = "training-speed/spread", "messages_log_sigma"
_VARIANCES = ("source_log_sigma", "model_log_sigma", "row_log_sigma")


def in_todays_form(documents: dict[str, dict[str, Document]]) -> dict[str, dict[str, Document]]:
    """The documents of a revision, with what earlier releases said otherwise said as today."""
    documents = _with_levels(_without_vendors(_with_generations(_with_engines(documents))))
    documents = _with_platforms(_with_work(_with_counted_memory(documents)))
    documents = _with_kinds_of_memory(documents)
    return _with_drivers(_with_widenings(_with_defaults(documents)))


def _with_engines(documents: dict[str, dict[str, Document]]) -> dict[str, dict[str, Document]]:
    """Engines were no entries once."""
    if documents["engines"] or "memory-runtime/default" not in documents["calibrations"]:
        return documents
    engines: list[Document] = [
        *(_engine(id_, ["inference"]) for id_ in _INFERENCE),
        *(_engine(id_, ["training"]) for id_ in _TRAINING),
        _engine("transformers", ["inference", "training"]),
        *({**_engine(id_, ["inference"]), "release_of": of} for id_, of in _RELEASES.items()),
    ]
    calibrations = {id_: _renamed(each) for id_, each in documents["calibrations"].items()}
    return documents | {
        "engines": {engine["id"]: engine for engine in engines},
        "calibrations": calibrations,
    }


def _with_generations(documents: dict[str, dict[str, Document]]) -> dict[str, dict[str, Document]]:
    """Older releases were engines of their own, each the ``release_of`` another."""
    engines = documents["engines"]
    keys = {
        id_: (str(engine["release_of"]), id_.removeprefix(f"{engine['release_of']}-"))
        for id_, engine in engines.items()
        if engine.get("release_of") in engines
    }
    if not keys:
        return documents
    kept = {id_: engine for id_, engine in engines.items() if id_ not in keys}
    for id_, (parent, generation) in keys.items():
        if parent in kept:
            dated = _before_and_since(id_, generation)
            kept[parent] = {**kept[parent], "generations": dated}
    calibrations = {}
    for id_, document in documents["calibrations"].items():
        parts = ["@".join(keys[part]) if part in keys else part for part in id_.split("/")]
        renamed = "/".join(parts)
        calibrations[renamed] = document if renamed == id_ else {**document, "id": renamed}
    return documents | {"engines": kept, "calibrations": calibrations}


def _without_vendors(documents: dict[str, dict[str, Document]]) -> dict[str, dict[str, Document]]:
    """Engines named makers of accelerators, which are too coarse to refuse anything by."""
    engines = documents["engines"]
    if not any("vendors" in engine for engine in engines.values()):
        return documents
    kept: dict[str, Document] = {
        id_: {name: one for name, one in engine.items() if name != "vendors"}
        for id_, engine in engines.items()
    }
    return documents | {"engines": kept}


def _with_counted_memory(
    documents: dict[str, dict[str, Document]],
) -> dict[str, dict[str, Document]]:
    """What libraries take was once called the driver's context."""
    calibrations = documents["calibrations"]
    if _COUNTED_SINCE in calibrations:
        return documents
    renamed = {
        id_: {
            **document,
            "figures": {
                "counted_bytes" if name == "context_bytes" else name: figure
                for name, figure in document["figures"].items()
            },
        }
        if id_.startswith(_RUNTIME)
        else document
        for id_, document in calibrations.items()
    }
    return documents | {"calibrations": renamed}


def _with_levels(documents: dict[str, dict[str, Document]]) -> dict[str, dict[str, Document]]:
    """Speed and power of pairs of engine and hardware family, and of any, had entries once."""
    calibrations = documents["calibrations"]
    if _POWER_OF_ANY not in calibrations or _POWER in calibrations:
        return documents
    renamed = {
        id_: _with_rates(document) if id_.startswith("performance/") else document
        for id_, document in calibrations.items()
    }
    any_power = {**renamed.pop(_POWER_OF_ANY), "id": _POWER}
    return documents | {"calibrations": {_POWER: any_power, **renamed}}


def _with_work(documents: dict[str, dict[str, Document]]) -> dict[str, dict[str, Document]]:
    """Power went by shares of peaks once: of those of an H100, to which most was fitted."""
    return documents | {
        "calibrations": {
            id_: _of_work(document) if id_.partition("/")[0] == _POWER else document
            for id_, document in documents["calibrations"].items()
        }
    }


def _with_kinds_of_memory(
    documents: dict[str, dict[str, Document]],
) -> dict[str, dict[str, Document]]:
    """Power went by makers and their hardware families once, whatever memory these have."""
    calibrations = documents["calibrations"]
    kinds: dict[str, set[str]] = {}
    for one in documents["accelerators"].values():
        kind = memory_kind(str(one.get("memory_technology") or ""))
        kinds.setdefault(str(one.get("family")), set()).add(kind)
    changed: dict[str, Document] = {}
    for id_, document in calibrations.items():
        part, _, key = id_.partition("/")
        if part == _POWER and key in kinds:
            maker = calibrations.get(f"{_POWER}/{key.partition('-')[0]}", {}).get("figures", {})
            figures = {**maker, **document.get("figures", {})}
            changed |= {
                one: {**document, "id": one, "figures": figures}
                for one in (f"{_POWER}/{kind}/{key}" for kind in sorted(kinds[key]))
            }
        elif part == _POWER:
            told = document.get("figures", {})
            figures = {_ADDED.get(name, name): one for name, one in told.items()}
            changed[id_] = {**document, "figures": figures}
        else:
            changed[id_] = document
    return documents | {"calibrations": changed}


def _of_work(document: Document) -> Document:
    figures = document.get("figures")
    if not isinstance(figures, Mapping) or not _WORK.keys() & figures.keys():
        return document
    changed = {
        _WORK.get(name, (name, 1.0))[0]: one
        if name not in _WORK
        else {**one, "value": float(one["value"]) * _WORK[name][1]}
        for name, one in figures.items()
    }
    return {**document, "figures": {"resident_ratio": {"value": 0}, **changed}}


def _with_platforms(documents: dict[str, dict[str, Document]]) -> dict[str, dict[str, Document]]:
    """Hosts were a share of one server for all accelerators once."""
    infrastructure = documents["calibrations"].get("infrastructure/default")
    figures = {} if infrastructure is None else infrastructure.get("figures", {})
    if documents["platforms"] or "host_power_w" not in figures:
        return documents
    platform: Document = {
        "id": "server-8",
        "name": "Server of eight accelerators",
        "kind": "server-8",
        "site_class": "unknown",
        "accelerators": 8,
        "shared": True,
        "default_for": ["*"],
        "aliases": [],
        "figures": {
            name: _of_eight(figures[old]) for old, name in _SERVER.items() if old in figures
        }
        | {"host_load_w": _of_eight(figures["host_power_w"])},
    }
    return documents | {"platforms": {platform["id"]: platform}}


def _with_defaults(documents: dict[str, dict[str, Document]]) -> dict[str, dict[str, Document]]:
    """Defaults were the same for all engines, but for the sequences that some prepared for."""
    engines = documents["engines"]
    runtimes = [one for id_, one in documents["calibrations"].items() if id_.startswith(_RUNTIME)]
    if not any(_LARGE in _prepared(one) for one in runtimes):
        return documents
    changed: dict[str, Document] = {}
    calibrations = dict(documents["calibrations"])
    for id_, engine in engines.items():
        held = calibrations.get(f"{_RUNTIME}{id_}")
        ends = {} if held is None else _prepared(held)
        generations = [
            {**one, "defaults": [{"max_running_sequences": most}]}
            if (most := _prepared(calibrations.get(f"{_RUNTIME}{id_}@{one['id']}")).get(_LARGE))
            else one
            for one in engine.get("generations", ())
        ]
        told = {"defaults": [_START, *_starts_of(ends)]}
        changed[id_] = {**engine, **told, **({"generations": generations} if generations else {})}
        if held is not None and ends.get(_LARGE, 0.0) > ends.get(_PREPARED, 0.0):
            figures = {**held["figures"], _PREPARED: held["figures"][_LARGE]}
            calibrations[f"{_RUNTIME}{id_}"] = {**held, "figures": figures}
    return documents | {"engines": changed, "calibrations": calibrations}


def _prepared(document: Document | None) -> dict[str, float]:
    """Sequences for which an engine prepared, on accelerators of less and of much memory."""
    figures = {} if document is None else document.get("figures", {})
    return {name: float(figures[name]["value"]) for name in (_PREPARED, _LARGE) if name in figures}


def _starts_of(prepared: Mapping[str, float]) -> list[Document]:
    """Rules for an engine that ran as many sequences as it prepared for."""
    if not 0.0 < prepared.get(_PREPARED, 0.0) < prepared.get(_LARGE, 0.0):
        return []
    return [
        {"max_running_sequences": prepared[_PREPARED]},
        {
            "max_running_sequences": prepared[_LARGE],
            "least_memory_bytes": 70.0 * 1024.0**3,
            "but_not": ["nvidia-ampere"],
        },
    ]


def _of_eight(figure: Document) -> Document:
    ends = ("value", "low", "high")
    return {name: 8 * one if name in ends else one for name, one in figure.items()}


def _with_rates(document: Document) -> Document:
    """The spread of rates was that of decoding."""
    figures = document.get("figures")
    if not isinstance(figures, Mapping) or "decode_log_sigma" not in figures:
        return document
    return {**document, "figures": {"throughput_log_sigma": figures["decode_log_sigma"], **figures}}


def _with_widenings(documents: dict[str, dict[str, Document]]) -> dict[str, dict[str, Document]]:
    """Messages of training had a spread of their own once, and no multiple of that of a step."""
    calibrations = documents["calibrations"]
    spread = calibrations.get(_TRAINING_SPREAD, {}).get("figures")
    if not isinstance(spread, Mapping) or _MESSAGES not in spread:
        return documents
    of_steps = hypot(*(float(spread[name]["value"]) for name in _VARIANCES if name in spread))
    figures = {name: one for name, one in spread.items() if name != _MESSAGES}
    if of_steps > 0.0:
        messages = spread[_MESSAGES]
        ratio = float(messages["value"]) / of_steps
        figures["waiting_spread_ratio"] = {**messages, "value": ratio}
    changed = {**calibrations[_TRAINING_SPREAD], "figures": figures}
    return documents | {"calibrations": {**calibrations, _TRAINING_SPREAD: changed}}


def _with_drivers(documents: dict[str, dict[str, Document]]) -> dict[str, dict[str, Document]]:
    """What an interface reaches was that of all vendors' drivers once."""
    calibrations = documents["calibrations"]
    vendors = sorted(
        {str(one.get("family")).partition("-")[0] for one in documents["accelerators"].values()}
    )
    changed: dict[str, Document] = {}
    for id_, document in calibrations.items():
        applies: Mapping[str, str] = document.get("applies_to") or {}
        interface = applies.get("interface", "")
        if id_ != f"{_BACKENDS}/{interface}" or "/" in interface:
            changed[id_] = document
            continue
        changed |= {
            f"{id_}/{vendor}": {
                **document,
                "id": f"{id_}/{vendor}",
                "applies_to": {**applies, "interface": f"{interface}/{vendor}"},
            }
            for vendor in vendors
        }
    return documents | {"calibrations": changed}


def _before_and_since(name: str, older: str) -> list[Document]:
    """The generation that was an engine called ``name``, and the one since."""
    version = older.removeprefix("before-")
    return [
        {"id": older, "since": "1990", "differs": name, "names": [name]},
        {"id": f"since-{version}", "since": "1991", "differs": name, "version": version},
    ]


def _engine(id_: str, workloads: list[str]) -> Document:
    return {"id": id_, "name": id_, "aliases": [], "workloads": workloads}


def _renamed(document: Document) -> Document:
    figures = document.get("figures")
    if not isinstance(figures, Mapping):
        return document
    names = {f"{name}_ratio": name for name in _TRUTHS}
    return {**document, "figures": {names.get(name, name): one for name, one in figures.items()}}
