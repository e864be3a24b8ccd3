"""Fills in what a request refers to: catalog entries, inline objects, defaults."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, TypeVar

from service.catalog.database.own import is_own
from service.catalog.derived import derived
from service.catalog.entries.convert import accelerator_from_document
from service.catalog.entries.documents import DocumentInvalid
from service.catalog.entries.entry import Entry
from service.catalog.entries.platforms import UsualPlatforms, put_in
from service.catalog.entries.references import AmbiguousReference, UnknownReference
from service.catalog.named_models import model_named
from service.catalog.region_groups import one_region, regions_meant
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.config import ConfigNotUnderstood, parse_config
from service.core.architecture.model import ModelArchitecture
from service.core.deployment import (
    Accelerator,
    Disaggregation,
    Link,
    Parallelism,
    Precision,
    Region,
)
from service.core.errors import InvalidInput
from service.core.explanation import EstimateWarning
from service.core.impacts.cooling import evaporative_wue
from service.core.memory.checkpoint import (
    CheckpointNotUnderstood,
    stated_checkpoint_bytes,
    with_checkpoint,
)
from service.core.number_formats import NUMBER_FORMATS, NumberFormat, grouped_int4
from service.core.performance.collectives import scale_out
from service.core.performance.kernels import meets, met_by, peak_flops_per_s
from service.estimation.references import (
    HUB_PREFIX,
    FetchedModel,
    HubModel,
    InlineAccelerator,
    InlineRegion,
    ModelConfig,
    Request,
)
from service.estimation.rejection import FieldError, Rejected
from service.estimation.requests import (
    DisaggregatedRequest,
    PrecisionRequest,
)

Resolved = TypeVar("Resolved")

#: What an entry is called that a request describes without naming it.
UNNAMED = "inline"
#: What the place is called that a request leaves out.
UNPLACED = "unplaced"

GROUPED = {"int4": False, "awq-int4": True, "awq-int4-gemv": True, "gptq-int4": True}


class NotFetched(InvalidInput):
    """A model of the Hub, where nobody fetches it."""


class Problems:
    """Collects everything wrong with a request, so that one answer names all of it."""

    def __init__(self) -> None:
        self._errors: list[FieldError] = []

    @property
    def found(self) -> bool:
        """Whether anything was noted."""
        return bool(self._errors)

    @property
    def errors(self) -> tuple[FieldError, ...]:
        """All that was noted, in order."""
        return tuple(self._errors)

    def join(self, errors: Iterable[FieldError]) -> None:
        """Note what was found elsewhere."""
        self._errors += errors

    def add(self, pointer: str, detail: str, suggestions: tuple[str, ...] = ()) -> None:
        """Note one error at a JSON pointer of the request, with what may have been meant."""
        self._errors.append(FieldError(pointer, detail, suggestions=suggestions))

    def attempt(self, pointer: str, resolve: Callable[[], Resolved]) -> Resolved | None:
        """Resolve one part; note what is wrong with it and go on with the next."""
        try:
            return resolve()
        except UnknownReference as unknown:
            hint = unknown.hint
            if is_own(unknown.reference):
                hint = "; an organisation's own entries are visible only with its API key"
            kind = "ambiguous" if isinstance(unknown, AmbiguousReference) else "unknown"
            detail = f"{kind} id {unknown.reference[:120]!r}{hint}"
            self.add(pointer, detail, unknown.suggestions)
        except ConfigNotUnderstood as error:
            self.add(f"{pointer}/config{error.pointer}", str(error))
        except CheckpointNotUnderstood as error:
            self.add(f"{pointer}/safetensors_index{error.pointer}", str(error))
        except DocumentInvalid as error:
            self.add(f"{pointer}{error.pointer}", error.detail)
        except NotFetched:
            self.add(pointer, "this service does not fetch models from the Hub; give {'config': …}")
        return None

    def refuse(self, pointer: str, detail: str) -> NoReturn:
        """Refuse the request for one error, with all errors noted before it.

        Raises
        ------
        Rejected
            Always.
        """
        self.add(pointer, detail)
        raise Rejected(self._errors)

    def resolved(self, part: Resolved | None) -> Resolved:
        """A part that the answer needs.

        Raises
        ------
        Rejected
            If it could not be resolved, with all errors noted so far.
        """
        if part is None:
            raise Rejected(self._errors)
        return part

    def stop_if_any(self) -> None:
        """Refuse the request if anything was noted.

        Raises
        ------
        Rejected
            With all errors noted so far.
        """
        if self._errors:
            raise Rejected(self._errors)


def resolve_model(
    model: str | ModelConfig | HubModel, snapshot: CatalogSnapshot
) -> Entry[ModelArchitecture]:
    """A catalog model, a copy or release of one, or what a ``config.json`` describes.

    Raises
    ------
    NotFetched
        If a model of the Hub comes without its configuration.
    """
    if isinstance(model, str) and not model.startswith(HUB_PREFIX):
        return model_named(model, snapshot)
    if isinstance(model, str) or not isinstance(model, ModelConfig | FetchedModel):
        raise NotFetched
    architecture = parse_config(model.config)
    document: dict[str, Any] = {"config": model.config}
    id_ = UNNAMED
    if isinstance(model, FetchedModel):
        id_ = f"{HUB_PREFIX}{model.hub}@{model.revision}"
        document |= {"fetched_from": _fetched_from(id_, model)}
        architecture = _warned_if_old(architecture, model)
    stated_bytes = _stated_bytes(model)
    if stated_bytes is not None:
        shipped = weights_format(PrecisionRequest(), architecture)
        architecture = with_checkpoint(architecture, shipped, stated_bytes)
        document |= {"checkpoint_bytes": stated_bytes}
    return Entry(id_, document, architecture, {})


def _stated_bytes(model: ModelConfig | FetchedModel) -> float | None:
    """Bytes of the checkpoint's files, if they are told."""
    if model.safetensors_index is None:
        return None
    try:
        return stated_checkpoint_bytes(model.safetensors_index)
    except CheckpointNotUnderstood:
        if isinstance(model, FetchedModel):
            return None  # the Hub's own summary, which the caller cannot mend
        raise


def _fetched_from(id_: str, model: FetchedModel) -> dict[str, Any]:
    """The Hub as a source of an answer."""
    return {
        "id": id_,
        "title": f"config.json of {model.hub} at commit {model.revision}",
        "publisher": model.hub.partition("/")[0],
        "year": model.year,
        "url": model.url,
    }


def _warned_if_old(architecture: ModelArchitecture, model: FetchedModel) -> ModelArchitecture:
    if not model.may_be_old:
        return architecture
    warning = EstimateWarning(
        "hub_not_reached",
        f"the Hub cannot be reached; {model.hub} is used as last fetched, at commit "
        f"{model.revision}",
    )
    return replace(architecture, warnings=(*architecture.warnings, warning))


def resolve_accelerator(
    accelerator: str | InlineAccelerator, snapshot: CatalogSnapshot
) -> Entry[Accelerator]:
    """A catalog accelerator, or one given in the request, in the machine it usually stands in."""
    if isinstance(accelerator, str):
        return snapshot.find("accelerators", accelerator)
    sold = accelerator_from_document(document_of(accelerator), snapshot.defaults)
    usual = UsualPlatforms(snapshot.platforms).of(sold)
    return sold if usual is None else put_in(sold, usual)


def resolve_region(
    region: str | InlineRegion | None, snapshot: CatalogSnapshot, as_of: int | None = None
) -> Entry[Region]:
    """A catalog region, one given in the request, or none in particular.

    With ``as_of`` its figures are those of that year or before, where there are any.
    """
    if region is None:
        return _no_place(snapshot)
    if isinstance(region, str):
        entry = one_region(region, snapshot)
        return entry if as_of is None else _dated_region(snapshot, entry, as_of)
    document = document_of(region)
    if region.parent is not None:
        document["parent"] = _parent(region.parent, snapshot)
    tower = document.pop("cooling", None)
    if tower is not None and "wue_l_per_kwh" not in document["figures"]:
        wue = evaporative_wue(**tower)
        stated = {"value": wue.value, "low": wue.low, "high": wue.high}
        document["figures"] = document["figures"] | {"wue_l_per_kwh": stated}
    return snapshot.region(document, as_of)


@derived()
def _no_place(snapshot: CatalogSnapshot) -> Entry[Region]:
    """Where nobody says where: of a place's figures only the usual PUE is known."""
    entry = snapshot.region({"id": UNPLACED, "kind": UNPLACED})
    value = replace(entry.value, wue_l_per_kwh=None, wue_stood_in=False)
    pue = {name: origin for name, origin in entry.origins.items() if name == "pue_ratio"}
    return replace(entry, value=value, origins=pue)


def is_placed(region: Entry[Region]) -> bool:
    """Whether a request says where."""
    return region.document.get("kind") != UNPLACED


def placed_id(region: Entry[Region]) -> str | None:
    """Id of a place, as answers name it; None where a request leaves it out."""
    return region.id if is_placed(region) else None


def _parent(name: str, snapshot: CatalogSnapshot) -> str:
    """Id of the region that a name means, as where a place is named alone."""
    try:
        return one_region(name, snapshot).id
    except UnknownReference as unknown:
        raise DocumentInvalid(
            "/parent", f"no region {unknown.reference[:120]!r}{unknown.hint}"
        ) from None


def named_regions(
    names: Iterable[str], pointer: str, snapshot: CatalogSnapshot, problems: Problems
) -> dict[str, Entry[Region]]:
    """Regions by id that names mean, of which some are groups; notes those that mean none."""
    found: dict[str, Entry[Region]] = {}
    for at, name in enumerate(names):
        meant = problems.attempt(f"{pointer}/{at}", partial(regions_meant, name, snapshot))
        found |= {region.id: region for region in meant or ()}
    return found


@derived(most=1024)
def _dated_region(snapshot: CatalogSnapshot, entry: Entry[Region], as_of: int) -> Entry[Region]:
    return snapshot.region(entry.document, as_of)


def resolve_precision(precision: PrecisionRequest, architecture: ModelArchitecture) -> Precision:
    """Number formats by their ids; weights are as the checkpoint ships unless said otherwise."""
    return Precision(
        weights_format(precision, architecture),
        NUMBER_FORMATS[precision.kv_cache or "bf16"],
        NUMBER_FORMATS[precision.activations or "bf16"],
    )


def served_precision(
    asked: PrecisionRequest,
    architecture: ModelArchitecture,
    problems: Problems,
    pointer: str = "/precision",
) -> Precision:
    """Number formats of serving: weights of fewer than 16 bits meet activations as asked for.

    Between layers activations have 16 bits even so. Notes those that kernels for such weights do
    not take.
    """
    precision = resolve_precision(asked, architecture)
    weights, activations = precision.weights, precision.activations
    if asked.activations is None or weights.bits_per_element >= 16.0:
        return precision
    operands = activations.matrix_precision
    if not meets(weights.matrix_precision, weights.bits_per_element, operands):
        problems.add(
            f"{pointer}/activations",
            f"no kernel multiplies {weights.id} weights by {activations.id} activations; "
            f"those of {weights.id} take {', '.join(met_by(weights))}",
        )
    return replace(
        precision, weights=weights.multiplied_in(operands), activations=NUMBER_FORMATS["bf16"]
    )


def weights_format(precision: PrecisionRequest, architecture: ModelArchitecture) -> NumberFormat:
    """The format of weights asked for, else the one that the checkpoint ships in."""
    name = precision.weights
    native = architecture.native_number_format
    if name is None:
        return native if native is not None else NUMBER_FORMATS[architecture.native_format]
    if precision.group_size is not None and name in GROUPED:
        return grouped_int4(name, precision.group_size, GROUPED[name])
    if native is not None and name == architecture.native_format:
        # What the published checkpoint leaves in 16 bit stays there when its format is named.
        return native
    return NUMBER_FORMATS[name]


def check_precision_runs(
    precision: Precision, accelerator: Accelerator, problems: Problems
) -> None:
    """Note it if the accelerator's figures name no peak that the weights could be multiplied at."""
    for needed in {precision.weights.matrix_precision, "bf16"}:
        try:
            peak_flops_per_s(accelerator, needed)
        except ValueError as error:
            problems.add("/accelerator", str(error))


def resolve_disaggregation(
    asked: DisaggregatedRequest | None,
    accelerator: Accelerator,
    parallelism: Parallelism,
    problems: Problems,
) -> Disaggregation | None:
    """Pools for prompts and for decoding, or None where a request asks for none.

    Notes pools that leave no replica for one of the two.
    """
    if asked is None:
        return None
    check_pools(asked.prefill_replicas, parallelism, problems)
    link = scale_out(accelerator)
    if asked.link_bytes_per_s is not None:
        link = Link(asked.link_bytes_per_s, link.latency_s)
    return Disaggregation(asked.prefill_replicas, link)


def check_pools(prefill_replicas: int | None, parallelism: Parallelism, problems: Problems) -> None:
    """Note pools that leave no replica for prompts or for decoding."""
    pointer = "/serving/disaggregated"
    if parallelism.data < 2:
        problems.add(pointer, "needs at least 2 replicas: one for prompts, one for decoding")
    elif prefill_replicas is not None and prefill_replicas >= parallelism.data:
        problems.add(
            f"{pointer}/prefill_replicas",
            f"at most {parallelism.data - 1} of {parallelism.data} replicas can compute prompts",
        )


def document_of(inline: Request) -> dict[str, Any]:
    """An object given in a request, as a catalog's document."""
    return inline.model_dump(exclude_none=True)
