"""A document as others write it, made into one that can be compared.

Files come from many hands. What means nothing here is left out, what has no measurements of its own
is answered as its class, and each such step is told; nothing is done in silence. Reports to the
service are not treated so: their sender can be asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from service.catalog.entries.references import UnknownReference
from service.catalog.snapshot import CatalogSnapshot
from service.core.engines import (
    CLASSES,
    FALLBACK_ENGINE,
    Engine,
    EngineWorkload,
    UnknownVersion,
    class_of_unknown,
    release_of,
)
from service.core.errors import InvalidInput
from service.estimation.faults import fault
from service.estimation.inference.filling import MOST
from service.estimation.measurements.documents import MeasurementDocument
from service.estimation.measurements.mended import mended
from service.estimation.measurements.releases import engine_said, release_said
from service.estimation.references import TAGS

#: Rates of a whole deployment, which offline runs measure with as many requests as fit.
_THROUGHPUT = frozenset(
    (
        *("output_tokens_per_s", "total_tokens_per_s", "requests_per_s", "output_throughput"),
        "request_throughput",
    )
)
#: Fields that requests of other kinds have: they would be taken for one of those.
_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "inference": ("region", "energy_kwh", "accelerator_hours", "training"),
    "training": ("region", "energy_kwh", "accelerator_hours"),
}
#: What leaves no doubt: a field that no request has, and a whole number with a fraction.
_MENDABLE = frozenset(("extra_forbidden", "int_from_float"))
#: Fields that name a release.
_VERSIONS = ("engine_version", "framework_version")
#: Fields that are left out before a document is taken to be of no use.
_MOST_LEFT_OUT = 40


class NotUnderstood(InvalidInput):
    """A document that is none: what is wrong with it, and where."""

    def __init__(self, pointer: str, detail: str) -> None:
        super().__init__(f"{pointer}: {detail}" if pointer else detail)
        self.pointer = pointer
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Understood:
    """A document, and what was done to understand it."""

    document: MeasurementDocument
    warnings: tuple[str, ...]


def understood(given: Mapping[str, Any], snapshot: CatalogSnapshot) -> Understood:
    """A document of a file.

    Parameters
    ----------
    given
        What a line of the file holds.
    snapshot
        The catalog, which says what engines are known.

    Raises
    ------
    NotUnderstood
        If it is no measurement, or a value in it is of no use.
    """
    plain, warnings = mended(given)
    if plain.get("measured") == {} != given["measured"]:
        raise NotUnderstood("/measured", "none of its figures is a positive number")
    if isinstance(plain.get("request"), Mapping):
        _complete(plain, snapshot, warnings)
    for _ in range(_MOST_LEFT_OUT):
        try:
            return Understood(MeasurementDocument.model_validate(plain), tuple(warnings))
        except ValidationError as invalid:
            errors = invalid.errors(include_url=False, include_context=False)
            if not {error["type"] for error in errors} <= _MENDABLE:
                raise _first(invalid) from None
            for error in errors[:_MOST_LEFT_OUT]:
                place = tuple(part for part in error["loc"] if part not in TAGS)
                named = f"/{'/'.join(map(str, place))}"
                if error["type"] == "extra_forbidden":
                    plain = _changed(plain, place, None)
                    if not any(said.endswith(f" is taken from {named}") for said in warnings):
                        warnings.append(f"{named[:200]} is not known and left out")
                else:
                    whole = max(round(error["input"]), 1)
                    plain = _changed(plain, place, whole)
                    warnings.append(f"{named[:200]} is a whole number; {whole} is taken")
    raise NotUnderstood("", f"more than {_MOST_LEFT_OUT} levels of unknown fields")


def _complete(plain: dict[str, Any], snapshot: CatalogSnapshot, warnings: list[str]) -> None:
    """Fill in what files leave to their reader: settings of a run, engines, offline loads."""
    request: dict[str, Any] = plain["request"]
    warnings += [
        f"/request/{name} is not known and left out"
        for name in _ELSEWHERE.get(str(plain.get("kind")), ())
        if request.pop(name, None) is not None
    ]
    if plain.get("kind") == "training":
        training = request.setdefault("training", {})
        if isinstance(training, Mapping):
            request["training"] = _known_engine(
                dict(training), "framework", "training", plain, snapshot, warnings
            )
    elif plain.get("kind") == "inference":
        serving = request.get("serving", {})
        if isinstance(serving, Mapping):
            request["serving"] = _known_engine(
                dict(serving), "engine", "inference", plain, snapshot, warnings
            )
        workload, measured = request.get("workload", {}), plain.get("measured")
        if isinstance(workload, Mapping) and isinstance(measured, Mapping):
            offline = workload.get("concurrency") is None and workload.get("requests_per_s") is None
            if offline and _THROUGHPUT & set(measured):
                request["workload"] = dict(workload) | {"concurrency": MOST}
                warnings.append(
                    "neither concurrency nor requests_per_s is given: as many requests in flight "
                    "as fit are assumed"
                )


def _known_engine(
    settings: dict[str, Any],
    field: str,
    workload: EngineWorkload,
    document: Mapping[str, Any],
    snapshot: CatalogSnapshot,
    warnings: list[str],
) -> dict[str, Any]:
    """Settings whose engine the catalog has: the one named, or what stands for its class."""
    named = settings.get(field)
    if named is not None and not isinstance(named, str):
        return settings
    if named == FALLBACK_ENGINE and workload == "training":
        # That is any framework: the file says as much as if it named none.
        settings = {name: one for name, one in settings.items() if name not in (field, *_VERSIONS)}
        named = None
    said = _engine_said(named, workload, document, snapshot)
    if said is not None:
        warnings.append(
            f"{field} is {'not given' if named is None else named}; {said} is taken from /engine"
        )
        settings, named = settings | {field: said}, said
    if named is None:
        return settings
    versions: list[str] = [name for name in _VERSIONS if name in settings]
    try:
        engine = snapshot.find("engines", named).value
        if workload in engine.workloads:
            kept = _known_release(settings, engine, named, versions, warnings)
            return _dated(kept, f"{field}_version", document, engine, snapshot, warnings)
    except UnknownReference:
        pass
    weights = _weights(document["request"]) if workload == "inference" else None
    class_ = CLASSES[class_of_unknown(named, weights, workload)]
    warnings.append(
        f"{field} {named[:80]!r} is not known; {class_.reference} stands in for it, as for all "
        f"that are {class_.id}"
    )
    kept = {name: value for name, value in settings.items() if name not in versions}
    return kept | {field: class_.reference}


def _engine_said(
    named: str | None,
    workload: EngineWorkload,
    document: Mapping[str, Any],
    snapshot: CatalogSnapshot,
) -> str | None:
    """The engine that a document tells of in words, where its request leaves that open."""
    try:
        return engine_said(document, named, workload, snapshot)
    except UnknownReference:
        return None


def _known_release(
    settings: dict[str, Any], engine: Engine, named: str, versions: list[str], warnings: list[str]
) -> dict[str, Any]:
    """Settings without a version that means no release of the engine."""
    kept = dict(settings)
    for name in versions:
        if not isinstance(settings[name], str):
            continue
        try:
            release_of(engine, settings[name], named)
        except UnknownVersion as unknown:
            del kept[name]
            warnings.append(f"{name}: {unknown}; the newest release is taken")
    return kept


def _dated(
    settings: dict[str, Any],
    version: str,
    document: Mapping[str, Any],
    engine: Engine,
    snapshot: CatalogSnapshot,
    warnings: list[str],
) -> dict[str, Any]:
    """Settings with the release of the day where they name none."""
    if settings.get(version) is not None:
        return settings
    said = release_said(document, engine, str(settings[version.removesuffix("_version")]), snapshot)
    if said is None:
        return settings
    release, pointer = said
    warnings.append(f"{version} is not given; {release} is taken from {pointer}")
    return settings | {version: release}


def _weights(request: Mapping[str, Any]) -> str | None:
    precision = request.get("precision")
    weights = precision.get("weights") if isinstance(precision, Mapping) else None
    return weights if isinstance(weights, str) else None


def _changed(value: Any, place: tuple[str | int, ...], new: int | None) -> Any:
    """A document with a number at a place in it, or without what is there if None."""
    first, *rest = place
    if isinstance(value, list):
        kept = list(value)
        assert isinstance(first, int)  # noqa: S101 - a place within a list
        kept[first] = _changed(kept[first], tuple(rest), new)
        return kept
    if rest:
        return value | {first: _changed(value[first], tuple(rest), new)}
    if new is None:
        return {name: part for name, part in value.items() if name != first}
    return value | {first: new}


def _first(invalid: ValidationError) -> NotUnderstood:
    error = invalid.errors(include_url=False, include_input=False)[0]
    place = "".join(f"/{part}" for part in error["loc"] if part not in TAGS)
    return NotUnderstood(place[:200], fault(error)[:300])
