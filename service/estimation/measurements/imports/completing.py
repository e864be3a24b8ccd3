"""Runs of a file, completed by what the user says of the deployment, as measurements.

What the user says wins over the file, with a warning. What neither says is told as a fault with
its place, unless it has a usual value, which is listed as assumed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import orjson
from pydantic import ValidationError

from service.catalog.entries.documents import escape
from service.catalog.entries.references import UnknownReference
from service.catalog.snapshot import CatalogSnapshot
from service.estimation.faults import fault
from service.estimation.measurements.imports.names import find_model, models_of_size
from service.estimation.measurements.imports.reading import FileFault
from service.estimation.measurements.imports.runs import Run, Told
from service.estimation.measurements.quantities import Kind
from service.estimation.measurements.requests import MeasurementRequest
from service.estimation.references import TAGS

#: Parts of a request that are one value, whatever is in them.
_WHOLE = frozenset({"/model", "/accelerator", "/region"})
_OF_IMPACTS = frozenset({"region", "electricity", "hardware", "site", "energy_kwh"})
_COLLECTIONS = {
    "/model": "models",
    "/accelerator": "accelerators",
    "/region": "regions",
    "/serving/engine": "engines",
    "/training/framework": "engines",
}
#: Where the engine or framework stands, and its release.
_SOFTWARE: Mapping[Kind, tuple[str, str]] = {
    "inference": ("/serving/engine", "/serving/engine_version"),
    "training": ("/training/framework", "/training/framework_version"),
}
_ONLY_OF_OTHERS = {"inference": ("training",), "training": ("serving", "workload")}
_SETTINGS = frozenset({"catalog_revision", "as_of"})
#: What has no usual value, by kind; several pointers where any of them will do.
_NEEDED: Mapping[Kind, tuple[tuple[str, ...], ...]] = {
    "inference": (
        ("/model",),
        ("/accelerator",),
        ("/accelerator_count", "/parallelism/tensor", "/parallelism/data"),
        ("/serving/engine",),
        ("/workload/input_tokens",),
        ("/workload/output_tokens",),
        ("/workload/concurrency", "/workload/requests_per_s"),
    ),
    "training": (
        ("/model",),
        ("/accelerator",),
        ("/accelerator_count", "/parallelism/data", "/parallelism/tensor"),
        ("/training/framework",),
        ("/training/micro_batch_size",),
        ("/training/sequence_length",),
    ),
    "impacts": (("/region",),),
}
#: What has a usual value, which is assumed.
_USUAL: Mapping[Kind, tuple[str, ...]] = {
    "inference": ("/precision/weights", "/precision/kv_cache"),
    "training": (
        "/precision/weights",
        "/training/optimizer",
        "/training/activation_checkpointing",
        "/training/zero_stage",
    ),
    "impacts": (),
}
#: A version without what stands behind its numbers ("0.11.1rc2", "0.6.4.post1").
_RELEASE = re.compile(r"[bv]?\d{1,9}(?:\.\d{1,9}){0,5}")
_MOST_FAULTS = 50
_LONGEST_NOTES = 2000


@dataclass(frozen=True, slots=True)
class Remark:
    """Something about a document that is not wrong: a code and a sentence."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Understood:
    """What became of a run.

    ``document`` is None where faults keep it from being one; ``fields`` says where each part of
    the request came from.
    """

    place: str
    document: MeasurementRequest | None
    fields: Mapping[str, Told]
    measured: Mapping[str, Told]
    warnings: tuple[Remark, ...]
    faults: tuple[FileFault, ...]


def completed(
    run: Run, deployment: Mapping[str, Any], snapshot: CatalogSnapshot, *, id_: str, file: str
) -> Understood | None:
    """A run as a measurement; None for one that the file can do without and nobody completed.

    Parameters
    ----------
    run
        What the file says.
    deployment
        What the user says, in the form of a request.
    snapshot
        The catalog, in which names are looked up.
    id_, file
        Name of the document, and of the file.
    """
    told = _flat(deployment)
    kind: Kind = run.kind or ("training" if "training" in deployment else "inference")
    if run.optional and not any(pointer == "/model" for pointer in told):
        return None
    warnings: list[Remark] = []
    faults = _of_another_kind(run, deployment)
    fields = _in_catalog(run, told, kind, snapshot, faults)
    for pointer, value in told.items():
        if not _belongs(pointer, kind):
            continue
        before = fields.get(f"/request{pointer}")
        said = before is not None and before.origin == "file"
        if before is not None and said and not _same(pointer, before.value, value, snapshot):
            message = (
                f"/request{pointer}: {before.place} says {_shown(before.value)}; "
                f"{_shown(value)} of the deployment is used"
            )
            warnings.append(Remark("file_contradicted", message))
        fields[f"/request{pointer}"] = Told(value, "deployment", "deployment")
    if kind == "training":
        _share_batches(run, fields, faults)
    _add_release(run, kind, fields, snapshot)
    if not run.measured:
        faults.append(FileFault("the run has no figure that is known", "/measured"))
    known = {fault.pointer for fault in faults}
    faults += (fault for fault in _missing(kind, fields) if fault.pointer not in known)
    document = None if faults else _document(run, kind, fields, id_, file, faults)
    return Understood(
        run.place, document, fields, run.measured, tuple(warnings), tuple(faults[:_MOST_FAULTS])
    )


def _of_another_kind(run: Run, deployment: Mapping[str, Any]) -> list[FileFault]:
    """Parts of the deployment that no run of this kind has."""
    others = _ONLY_OF_OTHERS.get(run.kind or "", ())
    detail = f"the file is about {run.kind}, which has no such part"
    return [FileFault(detail, f"/request/{name}") for name in others if name in deployment]


def _flat(deployment: Mapping[str, Any]) -> dict[str, Any]:
    """Parts of what the user says, by pointer within the request."""
    found: dict[str, Any] = {}

    def walk(part: Mapping[str, Any], prefix: str, depth: int) -> None:
        for key, value in part.items():
            pointer = f"{prefix}/{escape(str(key))}"
            if isinstance(value, Mapping) and value and pointer not in _WHOLE and depth < 8:
                walk(value, pointer, depth + 1)
            elif value is not None:
                found[pointer] = value

    walk(deployment, "", 0)
    return found


def _belongs(pointer: str, kind: Kind) -> bool:
    """Whether a part is about this kind: one deployment completes all runs of a file."""
    name = pointer.split("/")[1]
    if name in _SETTINGS:
        return False
    return (name in _OF_IMPACTS) == (kind == "impacts")


def _in_catalog(
    run: Run,
    told: Mapping[str, Any],
    kind: Kind,
    snapshot: CatalogSnapshot,
    faults: list[FileFault],
) -> dict[str, Told]:
    """The run's fields with ids of the catalog in the place of the tool's names."""
    fields = dict(run.fields)
    model, accelerator = fields.get("/request/model"), fields.get("/request/accelerator")
    if model is not None:
        _find_model(run, model, fields, snapshot, None if "/model" in told else faults)
    if accelerator is not None:
        _find_accelerator(accelerator, fields, snapshot, None if "/accelerator" in told else faults)
    region = fields.get("/request/region")
    if region is not None and kind == "impacts":
        _find_region(region, fields, snapshot)
    return fields


def _find_model(
    run: Run,
    model: Told,
    fields: dict[str, Told],
    snapshot: CatalogSnapshot,
    faults: list[FileFault] | None,
) -> None:
    known = find_model(snapshot, str(model.value))
    if known is not None:
        origin = model.origin if known.exact else "inferred"
        fields["/request/model"] = Told(known.id, model.place, origin)
        if known.weights is not None:
            place = f"{model.place}: the name of the model"
            fields.setdefault("/request/precision/weights", Told(known.weights, place, "inferred"))
        return
    sized = _of_size(run, snapshot)
    if len(sized) == 1:
        place = f"{model.place}: {run.parameters:,.0f} parameters"
        fields["/request/model"] = Told(sized[0], place, "inferred")
        return
    del fields["/request/model"]
    if faults is None:
        return
    near = sized or list(snapshot.references["models"].suggestions(str(model.value)))
    hint = f"; could be {', '.join(near[:5])}" if near else ""
    faults.append(
        FileFault(
            f"the catalog has no {_shown(model.value)}, which {model.place} names{hint}; give the "
            "model in the deployment",
            "/request/model",
        )
    )


def _of_size(run: Run, snapshot: CatalogSnapshot) -> list[str]:
    if run.parameters is None:
        return []
    return models_of_size(snapshot, run.parameters, run.parameters_rounded_to)


def _find_accelerator(
    accelerator: Told,
    fields: dict[str, Told],
    snapshot: CatalogSnapshot,
    faults: list[FileFault] | None,
) -> None:
    try:
        entry = snapshot.find("accelerators", str(accelerator.value))
        fields["/request/accelerator"] = Told(entry.id, accelerator.place, accelerator.origin)
    except UnknownReference as unknown:
        del fields["/request/accelerator"]
        if faults is None:
            return
        hint = f"; could be {', '.join(unknown.suggestions)}" if unknown.suggestions else ""
        faults.append(
            FileFault(
                f"the catalog has no {_shown(accelerator.value)}, which {accelerator.place} "
                f"names{hint}; give the accelerator in the deployment",
                "/request/accelerator",
            )
        )


def _find_region(region: Told, fields: dict[str, Told], snapshot: CatalogSnapshot) -> None:
    """A country by its code or name; one that the catalog lacks is refused with the rest."""
    try:
        entry = snapshot.find("regions", str(region.value))
    except UnknownReference:
        return
    fields["/request/region"] = Told(entry.id, region.place, region.origin)


def _same(pointer: str, before: Any, value: Any, snapshot: CatalogSnapshot) -> bool:
    """Whether the user says the same as the file, perhaps by another name of the catalog."""
    if before == value:
        return True
    collection = _COLLECTIONS.get(pointer)
    if collection is None or not isinstance(value, str):
        return False
    try:
        return bool(snapshot.find(collection, value).id == before)
    except UnknownReference:
        return False


def _share_batches(run: Run, fields: dict[str, Told], faults: list[FileFault]) -> None:
    """Micro-batches of each rank, where the file tells those of all ranks together."""
    pointer = "/request/training/gradient_accumulation_steps"
    if run.batches is None or pointer in fields:
        return
    degrees = {name: _degree(fields, name) for name in ("tensor", "pipeline", "context", "data")}
    count = fields.get("/request/accelerator_count")
    data = degrees["data"]
    if data is None:
        if count is None or not isinstance(count.value, int):
            return
        others = (degrees[name] or 1 for name in ("tensor", "pipeline", "context"))
        data = count.value
        for degree in others:
            data //= degree
    steps, rest = divmod(run.batches, max(1, data))
    if rest or not steps:
        faults.append(
            FileFault(
                f"{run.batches:,} micro-batches a step do not divide among {data:,} data-parallel "
                "ranks; give the parallelism, or training.gradient_accumulation_steps",
                pointer,
            )
        )
        return
    fields[pointer] = Told(steps, f"{run.batches:,} micro-batches over {data:,} ranks", "inferred")


def _degree(fields: Mapping[str, Told], name: str) -> int | None:
    told = fields.get(f"/request/parallelism/{name}")
    return told.value if told is not None and isinstance(told.value, int) else None


def _missing(kind: Kind, fields: Mapping[str, Told]) -> Iterable[FileFault]:
    for pointers in _NEEDED[kind]:
        if any(f"/request{pointer}" in fields for pointer in pointers):
            continue
        names = " or ".join(pointer[1:].replace("/", ".") for pointer in pointers[:2])
        yield FileFault(
            f"the file does not say it; give {names} in the deployment", f"/request{pointers[0]}"
        )


def _document(
    run: Run, kind: Kind, fields: Mapping[str, Told], id_: str, file: str, faults: list[FileFault]
) -> MeasurementRequest | None:
    assumed = [pointer for pointer, told in fields.items() if told.origin == "inferred"]
    assumed += [
        f"/request{pointer}" for pointer in _USUAL[kind] if f"/request{pointer}" not in fields
    ]
    body = {
        "id": id_,
        "kind": kind,
        "request": _nested(fields),
        "measured": {name: told.value for name, told in run.measured.items()},
        "locator": f"{file}: {run.place}"[:500],
        "tool": run.tool_text,
        "confidence": run.confidence or ("medium" if assumed else "high"),
        "assumed": assumed[:40],
    }
    if run.limits:
        body["limits"] = run.limits
    if run.measured_on is not None:
        body["measured_on"] = run.measured_on
    if run.notes:
        body["notes"] = "; ".join(run.notes)[:_LONGEST_NOTES]
    try:
        return MeasurementRequest.model_validate_json(orjson.dumps(body), strict=True)
    except ValidationError as error:
        faults += _as_faults(error)
    except orjson.JSONEncodeError:
        faults.append(FileFault("a number or a text of the deployment cannot be stored"))
    return None


def _as_faults(error: ValidationError) -> list[FileFault]:
    found = error.errors(include_url=False, include_input=False)
    return [
        FileFault(
            fault(item)[:500],
            "".join(f"/{escape(str(part))[:200]}" for part in item["loc"] if part not in TAGS),
        )
        for item in found[:_MOST_FAULTS]
    ]


def _nested(fields: Mapping[str, Told]) -> dict[str, Any]:
    """The request that parts by pointer make up."""
    request: dict[str, Any] = {}
    for pointer, told in fields.items():
        keys = [_unescaped(key) for key in pointer.split("/")[2:]]
        inner = request
        for key in keys[:-1]:
            below = inner.setdefault(key, {})
            if not isinstance(below, dict):
                below = inner[key] = {}
            inner = below
        inner[keys[-1]] = told.value
    return request


def _unescaped(key: str) -> str:
    return re.sub("~1", "/", key).replace("~0", "~")


def _shown(value: Any) -> str:
    return repr(value)[:80]


def _add_release(run: Run, kind: Kind, fields: dict[str, Told], snapshot: CatalogSnapshot) -> None:
    """The release of the engine or framework that the file names, unless the user names another."""
    engine, version = _SOFTWARE.get(kind, ("", ""))
    found = None if run.release is None else _RELEASE.match(run.release)
    said, kept = run.fields.get(f"/request{engine}"), fields.get(f"/request{engine}")
    if found is None or said is None or kept is None:
        return
    if _same(engine, said.value, kept.value, snapshot):
        fields.setdefault(f"/request{version}", Told(found[0], "the version", "file"))
