"""Use case: circulating figures, recomputed from the catalog and the core."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from service.catalog.derived import derived
from service.catalog.entries.texts import Text, packaged_texts
from service.catalog.snapshot import CatalogSnapshot
from service.core.claims import RECOMPUTED
from service.core.claims.facts import MODELS, Facts
from service.estimation.answers import Answer, frame

#: wrong: the figure does not follow from what it is about; conditional: right only under settings
#: that are not stated; unsupported: the cited source does not say it; unit: the number is right in
#: another unit; internal: two figures of the documents contradict each other; right: confirmed.
Verdict: TypeAlias = Literal["wrong", "conditional", "unsupported", "unit", "internal", "right"]

#: Documents that state claims, by number.
DOCUMENTS: Mapping[str, str] = MappingProxyType(
    {
        "000": "Paper on memory, speed and environmental limits of AI infrastructure",
        "001": "Memory considerations for large language models",
        "002": "Questions and answers on bottlenecks",
        "003": "Strategies for GPU memory",
        "004": "Guide to GPU memory for large language models",
    }
)


_INFRASTRUCTURE = "infrastructure/default"
_MORATORIA = "local_moratoria_count"


class ClaimDocument(Answer):
    """A document that a claim stands in."""

    id: str
    title: str


class ClaimEntry(Answer):
    """What a document states, and what it comes to."""

    id: str
    documents: list[ClaimDocument]
    subject: str
    """What the claim is about."""
    stated: str
    """What the document states."""
    recomputed: float | None
    """The right figure in `unit`, recomputed; null if there is none."""
    unit: str | None
    verdict: Verdict
    """wrong; conditional: right only under conditions that are not stated; unsupported: the cited
    source does not say it; unit: right in another unit; internal: the documents contradict each
    other; right."""
    note: str
    """Why the verdict is what it is."""


class ClaimPage(Answer):
    """Claims."""

    catalog_revision: int
    engine_version: str
    items: list[ClaimEntry]


#: What the list can be narrowed by, with the values there are.
FILTERS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"verdict": get_args(Verdict), "document": tuple(DOCUMENTS)}
)


def claims_answer(snapshot: CatalogSnapshot, wanted: Mapping[str, str]) -> ClaimPage:
    """All claims, or those with a verdict or of a document."""
    kept = [
        text
        for text in packaged_texts()["claims"].by_id.values()
        if wanted.get("verdict") in (None, text.fields["verdict"])
        and wanted.get("document") in (None, *text.fields["documents"])
    ]
    return {**frame(snapshot.revision), "items": [_answer(snapshot, text) for text in kept]}


def claim_answer(snapshot: CatalogSnapshot, name: str) -> ClaimEntry:
    """One claim.

    Raises
    ------
    UnknownReference
        If there is none of that id.
    """
    texts = packaged_texts()["claims"]
    return _answer(snapshot, texts.by_id[texts.find(name)])


def _answer(snapshot: CatalogSnapshot, text: Text) -> ClaimEntry:
    fields = text.fields
    cited = [f"{one['publisher']}, {one['year']}, {one['url']}" for one in text.sources]
    return {
        "id": fields["id"],
        "documents": [{"id": id_, "title": DOCUMENTS[id_]} for id_ in fields["documents"]],
        "subject": fields["subject"],
        "stated": fields["stated"],
        "recomputed": _recomputed(snapshot, fields["id"]),
        "unit": fields["unit"],
        "verdict": fields["verdict"],
        "note": " ".join([fields["note"], *(f"Source: {source}." for source in cited)]),
    }


@derived(most=1024)
def _recomputed(snapshot: CatalogSnapshot, claim_id: str) -> float | None:
    """The right figure; None where there is none, or the catalog lacks what it needs."""
    recompute = RECOMPUTED.get(claim_id)
    if recompute is None:
        return None
    facts = _facts(snapshot)
    try:
        value = recompute(facts)
    except KeyError:
        return None
    return value if isfinite(value) else None


@derived()
def _facts(snapshot: CatalogSnapshot) -> Facts:
    return Facts(
        accelerators={id_: entry.value for id_, entry in snapshot.accelerators.items()},
        models={
            name: snapshot.models[id_].value
            for name, id_ in MODELS.items()
            if id_ in snapshot.models
        },
        memory_tiers={id_: entry.value for id_, entry in snapshot.memory_tiers.items()},
        hardware_life_years=float(
            snapshot.calibrations[_INFRASTRUCTURE].value["hardware_life_years"].value
        ),
        local_moratoria=sum(
            float(entry.value[_MORATORIA].value)
            for entry in snapshot.calibrations.values()
            if _MORATORIA in entry.value
        ),
        rules_in_force=frozenset(
            id_ for id_, entry in snapshot.rules.items() if entry.value.status == "in_force"
        ),
    )
