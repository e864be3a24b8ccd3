"""What a caller may have meant by a field or a choice that does not exist."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, get_args

from typing_extensions import TypeAliasType

from service.descriptions import descriptions
from service.estimation.nearest import hint, nearest
from service.estimation.references import CatalogRequest, Request
from service.estimation.use_cases import USE_CASES

_QUOTED = re.compile(r"'([^']*)'")
#: So many fields are listed where none is near; objects have fewer.
_MOST_LISTED = 40


#: Endings of names that are in another unit than all names here, with what is to be said of it.
_OTHER_UNITS = (
    (re.compile(r"_(ms|us|ns|millis\w*)$"), "times are in seconds"),
    (re.compile(r"_([kmgt]i?b|[kmgt]igabytes?)$", re.IGNORECASE), "sizes are in bytes"),
    (re.compile(r"(^|_)(eur|gbp|chf|jpy|cny|currency)(_|$)"), "money is in US dollars"),
    (re.compile(r"_percent$"), "shares are ratios from 0 to 1"),
)
#: What engines and benchmarks call fields, with the names that they have here: of several, that
#: which a request has.
_CALLED_ELSEWHERE: Mapping[str, tuple[str, ...]] = {
    "gpu": ("accelerator",),
    "gpus": ("accelerator_count",),
    "gpu_type": ("accelerator",),
    "gpu_count": ("accelerator_count",),
    "num_gpus": ("accelerator_count",),
    "count": ("accelerator_count",),
    "tp": ("tensor",),
    "tp_size": ("tensor",),
    "tensor_parallel": ("tensor",),
    "tensor_parallel_size": ("tensor",),
    "pp": ("pipeline",),
    "pp_size": ("pipeline",),
    "pipeline_parallel_size": ("pipeline",),
    "dp": ("data",),
    "dp_size": ("data",),
    "data_parallel_size": ("data",),
    "batch": ("concurrency", "micro_batch_size"),
    "batch_size": ("concurrency", "micro_batch_size"),
    "gbs": ("global_batch_size",),
    "global_batch": ("global_batch_size",),
    "train_batch_size": ("global_batch_size",),
    "batch_tokens": ("global_batch_tokens",),
    "tokens_per_step": ("global_batch_tokens",),
    "isl": ("input_tokens",),
    "input_len": ("input_tokens",),
    "prompt_tokens": ("input_tokens",),
    "osl": ("output_tokens",),
    "output_len": ("output_tokens",),
    "max_tokens": ("output_tokens",),
    "seq_len": ("sequence_length",),
    "max_seq_length": ("sequence_length", "max_model_len"),
    "context_length": ("max_model_len", "sequence_length"),
    "ctx_size": ("max_model_len",),
    "num_ctx": ("max_model_len",),
    "epochs": ("tokens",),
    "num_train_epochs": ("tokens",),
    "max_steps": ("tokens",),
    "rank": ("lora_rank",),
    "r": ("lora_rank",),
    "target_modules": ("lora_targets",),
    "gradient_checkpointing": ("activation_checkpointing",),
    "per_device_train_batch_size": ("micro_batch_size",),
    "dtype": ("weights",),
    "kv_cache_dtype": ("kv_cache",),
    "quantization": ("weights",),
    "qps": ("requests_per_s",),
    "rps": ("requests_per_s",),
    "request_rate": ("requests_per_s",),
    "max_num_seqs": ("max_running_sequences",),
    "gpu_memory_utilization": ("memory_utilization_ratio",),
}
#: No request has fields deeper than this below the place where one of them was sent.
_DEEPEST = 3


def unknown_field(
    name: str,
    known: Iterable[str],
    below: Mapping[str, str] | None = None,
    elsewhere: str | None = None,
) -> tuple[str, tuple[str, ...]]:
    """What to say of a field that does not exist, and which ones may have been meant.

    Parameters
    ----------
    name
        What was sent.
    known
        Fields that there are at its place.
    below
        Paths of fields of objects at its place, by name.
    elsewhere
        Where a question that goes further takes it.
    """
    fields = sorted(known)
    path = (below or {}).get(name)
    if path is not None:
        return f"unknown field; did you mean {path}?", (path,)
    if elsewhere is not None:
        return f"unknown field: this answer does not depend on it; {elsewhere} takes it", ()
    near = called_elsewhere(name, fields, below) or nearest(name, fields)
    listed = f" (known: {', '.join(fields[:_MOST_LISTED])})" if fields and not near else ""
    unit = next((f", {told}" for other, told in _OTHER_UNITS if other.search(name)), "")
    return f"unknown field{unit}{hint(near)}{listed}", near


def called_elsewhere(
    name: str, known: Iterable[str], below: Mapping[str, str] | None = None
) -> tuple[str, ...]:
    """The field that other tools call so, if a request has it; with its path where it is deeper.

    Parameters
    ----------
    name
        What was sent.
    known
        Fields that there are at its place.
    below
        Paths of fields of objects at its place, by name.
    """
    paths = dict(below or {}) | {one: one for one in known}
    meant = (paths[one] for one in _CALLED_ELSEWHERE.get(name.casefold(), ()) if one in paths)
    first = next(meant, None)
    return () if first is None else (first,)


def asked_elsewhere(name: str, model: type[Request]) -> str | None:
    """The path of a question that takes all that this one takes, and a field more."""
    paths = [
        use_case.path
        for use_case in USE_CASES.values()
        if name in use_case.request.model_fields
        and model.model_fields.keys() <= use_case.request.model_fields.keys()
    ]
    estimates = (path for path in paths if path.startswith("/estimates/"))
    return f"/v1{next(estimates, paths[0])}" if paths else None


def required_field(model: type[Request], place: Sequence[str | int]) -> str:
    """What to say of a field that is missing: that it is required, and what it is."""
    name = str(place[-1])
    told = next((said for one in requests_at(model, place[:-1]) if (said := _what(one, name))), "")
    return f"is required ({told})" if told else "is required"


def _what(model: type[Request], name: str) -> str:
    """The first part of a field's description."""
    return re.split(r"(?<!e\.g)\. |; |\.$", descriptions(model).get(name, ""))[0]


@cache
def paths_below(model: type[Request]) -> Mapping[str, str]:
    """Paths of the fields of objects within a request, by name; of several the shortest."""
    found: dict[str, str] = {}
    level: list[tuple[str, type[Request]]] = [("", model)]
    for _ in range(_DEEPEST):
        level = [
            (f"{before}{name}.", inner)
            for before, holder in level
            for name, field in holder.model_fields.items()
            for inner in _requests_in(field.annotation)
            if not issubclass(inner, CatalogRequest)
        ]
        for before, inner in level:
            for name in inner.model_fields:
                found.setdefault(name, f"{before}{name}")
    return found


def choices_near(error: Mapping[str, Any]) -> tuple[str, ...]:
    """Choices like the one that was given, of an error that names all that there are."""
    given = error.get("input")
    expected = error.get("ctx", {}).get("expected")
    if not isinstance(given, str) or not isinstance(expected, str):
        return ()
    return nearest(given, _QUOTED.findall(expected))


def fields_at(model: type[Request], place: Sequence[str | int]) -> frozenset[str]:
    """Fields that requests have at a place, whichever of several kinds of object is meant there."""
    return frozenset(name for one in requests_at(model, place) for name in one.model_fields)


def requests_at(model: type[Request], place: Sequence[str | int]) -> set[type[Request]]:
    """Kinds of object that may stand at a place of a request."""
    here = {model}
    for part in place:
        holding = [one for one in here if part in one.model_fields]
        if holding:  # else a position in a list, or a name of the caller's own
            here = {
                inner
                for one in holding
                for inner in _requests_in(one.model_fields[str(part)].annotation)
            }
    return here


def _requests_in(annotation: Any) -> Iterator[type[Request]]:
    """Kinds of objects that a field may hold."""
    if isinstance(annotation, TypeAliasType):
        annotation = annotation.__value__
    if isinstance(annotation, type) and issubclass(annotation, Request):
        yield annotation
    for part in get_args(annotation):
        yield from _requests_in(part)
