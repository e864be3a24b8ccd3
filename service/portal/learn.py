"""Pages that say how estimates are made: claims, techniques, and where to read on."""

from __future__ import annotations

from collections.abc import Mapping

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.claims import claims_answer
from service.estimation.formatting import number
from service.estimation.techniques import techniques_answer
from service.portal.rendering import rendered

#: Verdicts on claims in words.
_VERDICTS: Mapping[str, str] = {
    "wrong": "wrong",
    "conditional": "right only under unstated conditions",
    "unsupported": "not said by the source it cites",
    "unit": "right in another unit",
    "internal": "in conflict with another figure of the same documents",
    "right": "right",
}
#: Units of claims that are counted.
_COUNTED = ("moratorium", "rule", "token", "work", "year")
#: What a technique leaves as it is, in words.
_REACHES: Mapping[str, str] = {
    "same-result": "same result on the same accelerators",
    "near-same-result": "almost the same result",
    "more-accelerators": "same result on more accelerators",
    "other-recipe": "another recipe, workload or model",
}
#: Where to read on: address, name, what it says.
_CHAPTERS = (
    ("docs/methodology", "Method", "every formula, with its source and what it leaves out"),
    ("docs/accuracy", "Accuracy", "estimates beside published measurements, with all misses"),
    ("claims", "Claims", "widespread figures about models and memory, recomputed"),
    ("techniques", "Techniques", "what saves memory, what it costs, and when to use it"),
    ("catalog/rules", "Rules", "laws and standards that sites, companies and models are held to"),
    ("catalog", "Catalog", "hardware, models, places and prices, each figure with its source"),
    ("docs/index", "Documentation", "tutorial, how-to guides and reference"),
    ("docs", "API", "every operation, with fields, limits and examples"),
    (
        "docs/how-to/measurements",
        "Report a measurement",
        "measured something else? Send it, and estimates learn from it",
    ),
)


def learn_page(snapshot: CatalogSnapshot) -> str:
    """Where everything that stands behind a figure can be read."""
    return rendered(
        "learn.html",
        here="How we know",
        title="How we know",
        trail=(),
        chapters=_CHAPTERS,
        revision=snapshot.revision,
    )


def claims_page(snapshot: CatalogSnapshot) -> str:
    """Circulating figures beside what they come to, by verdict."""
    claims = [
        {
            **claim,
            "verdict_in_words": _VERDICTS[claim["verdict"]],
            "computed": ""
            if claim["recomputed"] is None
            else _computed(claim["recomputed"], claim["unit"] or ""),
        }
        for claim in claims_answer(snapshot, {})["items"]
    ]
    return rendered(
        "claims.html",
        here="How we know",
        title="Claims, recomputed",
        trail=(("learn", "How we know"),),
        claims=claims,
        counts=[
            (words, count)
            for verdict, words in _VERDICTS.items()
            if (count := sum(claim["verdict"] == verdict for claim in claims))
        ],
    )


def _computed(value: float, unit: str) -> str:
    """What a claim comes to, with its unit as people write it."""
    if unit == "share":
        return f"{number(100.0 * value)}%"
    if unit == "-":
        return f"{number(value)} ×"
    plural = "s" if unit in _COUNTED and value != 1.0 else ""
    return f"{number(value)} {unit}{plural}".strip()


def techniques_page(snapshot: CatalogSnapshot) -> str:
    """What saves memory, in the order in which it is usually tried."""
    techniques = techniques_answer({})["items"]
    return rendered(
        "techniques.html",
        here="How we know",
        title="Techniques that save memory",
        trail=(("learn", "How we know"),),
        techniques=techniques,
        reaches=_REACHES,
        revision=snapshot.revision,
    )
