"""What a page says of hardware that nobody can estimate: how many hold a model, and its limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from pydantic import ValidationError

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.bounds.estimate import bounds_answer
from service.estimation.bounds.requests import BoundsRequest
from service.estimation.rejection import FieldError, Rejected

_ASKED = "estimates/bounds"
#: Fields of the page by those of the question about bounds.
_SAME = {
    "model": "model",
    "accelerator": "accelerator",
    "region": "region",
    "sequences": "concurrency",
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
}
#: What fields say that leave it to the question.
_LEFT_OPEN = (None, "", "max")


@dataclass(frozen=True, slots=True)
class Bounds:
    """The answer about bounds, and the query that asks it of the API."""

    answer: Mapping[str, Any]
    query: str


def bounds_of(
    fields: Mapping[str, Any], errors: Iterable[FieldError], snapshot: CatalogSnapshot
) -> Bounds | None:
    """What hardware allows at most, where that is all that can be said of what a page was asked.

    Parameters
    ----------
    fields
        What the page was asked.
    errors
        What is wrong with it: refused hardware names the question about bounds.
    snapshot
        The catalog.
    """
    if not any(_ASKED in error.detail for error in errors):
        return None
    asked = {name: fields[of] for name, of in _SAME.items() if fields.get(of) not in _LEFT_OPEN}
    if fields.get("weights"):
        asked["precision"] = {"weights": fields["weights"]}
    try:
        answer = bounds_answer(BoundsRequest.model_validate(asked), snapshot)
    except (ValidationError, Rejected):
        return None
    flat = {name: value for name, value in asked.items() if name != "precision"}
    return Bounds(answer, urlencode(flat | asked.get("precision", {})))
