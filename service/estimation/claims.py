"""Use case: circulating figures, recomputed from the catalog and the core."""

from __future__ import annotations

from difflib import get_close_matches
from functools import lru_cache
from math import isfinite
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.core.claims import CLAIMS
from service.core.claims.claim import DOCUMENTS, MODELS, Claim, Facts
from service.estimation.answers import frame

#: What the list can be narrowed by, with the values there are.
FILTERS: dict[str, tuple[str, ...]] = {
    "verdict": ("wrong", "conditional", "unsupported", "unit", "internal", "right"),
    "document": tuple(DOCUMENTS),
}


class UnknownClaim(LookupError):  # noqa: N818 - the name says what happened to the caller
    """There is no claim of that id; ``suggestions`` are near."""

    def __init__(self, suggestions: list[str]) -> None:
        super().__init__(", ".join(suggestions))
        self.suggestions = suggestions


def claims_answer(snapshot: CatalogSnapshot, wanted: dict[str, str]) -> dict[str, Any]:
    """All claims, or those with a verdict or of a document."""
    kept = [
        claim
        for claim in CLAIMS
        if wanted.get("verdict", claim.verdict) == claim.verdict
        and wanted.get("document", claim.documents[0]) in claim.documents
    ]
    return frame(snapshot.revision) | {"items": [_answer(snapshot, claim) for claim in kept]}


def claim_answer(snapshot: CatalogSnapshot, id_: str) -> dict[str, Any]:
    """One claim.

    Raises
    ------
    UnknownClaim
        If there is none of that id.
    """
    for claim in CLAIMS:
        if claim.id == id_:
            return _answer(snapshot, claim)
    raise UnknownClaim(get_close_matches(id_[:100], [claim.id for claim in CLAIMS], n=3))


def _answer(snapshot: CatalogSnapshot, claim: Claim) -> dict[str, Any]:
    return {
        "id": claim.id,
        "documents": [{"id": id_, "title": DOCUMENTS[id_]} for id_ in claim.documents],
        "subject": claim.subject,
        "stated": claim.stated,
        "recomputed": _recomputed(snapshot, claim),
        "unit": claim.unit,
        "verdict": claim.verdict,
        "note": claim.note,
    }


@lru_cache(maxsize=1024)
def _recomputed(snapshot: CatalogSnapshot, claim: Claim) -> float | None:
    """The right figure; None where there is none, or the catalog lacks what it needs."""
    if claim.recompute is None:
        return None
    facts = _facts(snapshot)
    try:
        value = claim.recompute(facts)
    except KeyError:
        return None
    return value if isfinite(value) else None


@lru_cache(maxsize=16)
def _facts(snapshot: CatalogSnapshot) -> Facts:
    return Facts(
        accelerators={id_: entry.value for id_, entry in snapshot.accelerators.items()},
        models={
            name: snapshot.models[id_].value
            for name, id_ in MODELS.items()
            if id_ in snapshot.models
        },
    )
