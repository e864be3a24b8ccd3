"""What a page says of hardware that nobody can estimate: how many hold a model, and its limits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from pydantic import ValidationError

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.bounds.answers import BoundsAnswer
from service.estimation.bounds.estimate import bounds_answer
from service.estimation.bounds.requests import BoundsRequest
from service.estimation.formatting import duration, gigabytes, number
from service.estimation.rejection import FieldError, Rejected
from service.estimation.remarks import told
from service.portal.figures import UNKNOWN, Line, Section, in_unit, line
from service.portal.rendering import sources

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
#: What is shown: name, where it stands in the answer, how it is worded.
_FIGURES = (
    (
        "Memory",
        (
            ("Weights", "memory.weights_bytes", gigabytes),
            ("KV cache", "memory.kv_cache_bytes", gigabytes),
            ("Total", "memory.held_bytes", gigabytes),
            ("Of one accelerator", "memory.memory_bytes", gigabytes),
            ("Accelerators, at least", "memory.least_accelerator_count", number),
        ),
    ),
    (
        "Times that no software can beat",
        (
            ("First token, all at once", "speed.least_ttft_s", duration),
            ("Each next token, all at once", "speed.least_tpot_s", duration),
            ("Each next token, one after another", "speed.least_tpot_in_turn_s", duration),
        ),
    ),
    (
        "Rates that nothing can exceed",
        (
            ("For one user", "speed.most_output_tokens_per_s_per_user", in_unit("tokens/s")),
            ("For all users", "speed.most_output_tokens_per_s", in_unit("tokens/s")),
        ),
    ),
    (
        "A year in use",
        (
            ("Power of the machines", "it_power_w", in_unit("kW", 1e3)),
            ("Emissions per year", "per_year.carbon.total_gco2e", in_unit("t CO₂e", 1e6)),
            ("Water per year", "per_year.water.total_l", in_unit("m³", 1e3)),
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """The answer about bounds, its figures in words, and the query that asks it of the API."""

    answer: Mapping[str, Any]
    accelerator: str
    sections: tuple[Section, ...]
    sources: Sequence[Mapping[str, Any]]
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
        request = BoundsRequest.model_validate(asked)
        answer = told(bounds_answer(request, snapshot), BoundsAnswer, request, snapshot)
    except (ValidationError, Rejected):
        return None
    flat = {name: value for name, value in asked.items() if name != "precision"}
    return Bounds(
        answer,
        snapshot.accelerators[answer["accelerator"]].value.name,
        tuple(
            Section(title, tuple(_line(name, path, words, answer) for name, path, words in lines))
            for title, lines in _FIGURES
        ),
        sources(answer),
        urlencode(flat | asked.get("precision", {})),
    )


def _line(name: str, path: str, words: Any, answer: Mapping[str, Any]) -> Line:
    """A figure in words: most are limits, which have no interval."""
    found: Any = answer
    for part in path.split("."):
        found = None if found is None else found[part]
    if isinstance(found, int | float):
        return Line(name, words(found))
    return Line(name, UNKNOWN) if found is None else line(name, found, words)
