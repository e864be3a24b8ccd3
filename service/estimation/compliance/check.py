"""Use case: how a site, a company or a model stands to the rules of a place on a day."""

from __future__ import annotations

import datetime
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.compliance import (
    EUROPEAN_UNION,
    MEMBERS,
    Comparison,
    Condition,
    Fact,
    Finding,
    Rule,
    check,
)
from service.core.deployment import Region
from service.core.explanation import EstimateWarning, Formula, Step, explain
from service.core.interval import exact
from service.estimation.answers import frame, grounds
from service.estimation.compliance.answers import (
    Compliance,
    ComplianceAnswer,
    FailedRequirement,
    RuleFinding,
)
from service.estimation.compliance.localities import (
    LOCALITY,
    NO_LOCALITY,
    localities,
    locality_of,
    states_by_name,
)
from service.estimation.compliance.requests import FACTS, ComplianceRequest, RuleFacts
from service.estimation.detail import WHOLE, Detail
from service.estimation.rejection import FieldError, Rejected
from service.estimation.resolution import Problems, is_placed, resolve_region

_ADVICE = EstimateWarning(
    "not_legal_advice",
    "each rule carries its source and the day it was read; the list is not complete, rules "
    "change, and none of this is legal advice",
)


def compliance_answer(
    request: ComplianceRequest, snapshot: CatalogSnapshot, detail: Detail = WHOLE
) -> ComplianceAnswer:
    """Every rule of the catalog that may hold in the place, with a verdict and its reason."""
    problems = Problems()
    region = problems.resolved(
        problems.attempt("/region", lambda: resolve_region(request.region, snapshot))
    )
    found = check_rules(request, region, snapshot)
    return {
        **frame(snapshot.revision),
        "region": region.id,
        **found.answer,
        **grounds(
            snapshot,
            found.warnings,
            [("regions", region), *found.entries],
            (lambda: found.steps) if request.explain or detail.has("explanation") else None,
            detail=detail,
        ),
    }


@dataclass(frozen=True, slots=True)
class RuleCheck:
    """Findings shaped for an answer, with the rules, comparisons and warnings behind them."""

    answer: Compliance
    entries: tuple[tuple[str, Entry[Any]], ...]
    steps: tuple[Step, ...]
    warnings: tuple[EstimateWarning, ...]


def check_rules(
    given: RuleFacts,
    region: Entry[Region],
    snapshot: CatalogSnapshot,
    known: Mapping[str, Fact] | None = None,
) -> RuleCheck:
    """Every rule that may hold in a place, with a verdict and its reason.

    Parameters
    ----------
    given
        The day, and what is known.
    region
        The place.
    snapshot
        Has the rules.
    known
        Further facts, where the caller states none.

    Raises
    ------
    Rejected
        If the request says nowhere: rules are those of a place.
    """
    if not is_placed(region):
        raise Rejected([FieldError("/region", "is required with compliance: name the place")])
    places = places_around(region, snapshot)
    facts = dict(known or {}) | _facts(given, region)
    warnings = [_ADVICE]
    here = [
        entry
        for entry in snapshot.rules.values()
        if not entry.value.regions or entry.value.regions & places
    ]
    if given.locality is not None:
        names = localities(entry.value for entry in here)
        named = locality_of(given.locality, names, states_by_name(snapshot.regions))
        if named.id is None and names:
            warnings.append(_locality_unknown(given.locality, region.id, named.near))
        elif named.id is not None:
            facts[LOCALITY] = named.id
    on = given.on.isoformat()
    found = [
        (entry, check(entry.value, facts, places, on))
        for entry in here
        if given.subject in (None, entry.document["subject"])
    ]
    verdicts = Counter(finding.verdict for _, finding in found)
    answer: Compliance = {
        "on": on,
        "places": sorted(places),
        "verdicts": {
            "fail": verdicts["fail"],
            "due": verdicts["due"],
            "unknown": verdicts["unknown"],
            "pass": verdicts["pass"],
            "not_applicable": verdicts["not_applicable"],
        },
        "missing": sorted({fact for _, finding in found for fact in finding.missing}),
        "rules": [_rule(entry, finding, facts) for entry, finding in sorted(found, key=_urgency)],
    }
    return RuleCheck(
        answer=answer,
        entries=tuple(("rules", entry) for entry, _ in found),
        steps=tuple(step for entry, _ in found for step in _steps(entry, facts)),
        warnings=tuple(warnings),
    )


def _locality_unknown(asked: str, region: str, near: tuple[str, ...]) -> EstimateWarning:
    could = f"; rules there name {', '.join(near)}" if near else ""
    return EstimateWarning(
        "locality_unknown",
        f"no rule of {region} names {asked[:80]!r}{could}: whether rules of towns and counties "
        f"apply is unknown. Send {NO_LOCALITY!r} for a place without rules of its own",
    )


_SIGNS: Mapping[Comparison, str] = {
    "at_most": "<=",
    "below": "<",
    "at_least": ">=",
    "above": ">",
    "is": "==",
    "before": "<",
    "from": ">=",
}


def _steps(entry: Entry[Rule], facts: dict[str, Fact]) -> Iterator[Step]:
    """Every comparison of a rule that the facts decide; its value is 1 where it holds."""
    rule = entry.value
    for condition in (*rule.applies, *rule.requires):
        holds = condition.holds(facts)
        if holds is None:
            continue
        formula = Formula(
            f"{entry.id}: {condition.fact}",
            f"fact {_SIGNS[condition.comparison]} limit",
            str(entry.document["source"]),
            "holds",
            unit="1",
        )
        compared = {"fact": facts[condition.fact], "limit": condition.value, "holds": holds}
        yield from explain(compared, (formula,))


_ORDER = {"fail": 0, "due": 1, "unknown": 2, "pass": 3, "not_applicable": 4}


def _urgency(one: tuple[Entry[Rule], Finding]) -> tuple[int, str]:
    entry, finding = one
    return _ORDER[finding.verdict], entry.id


def places_around(region: Entry[Region], snapshot: CatalogSnapshot) -> frozenset[str]:
    """A region with all that contain it: its parents, its country, and the Union."""
    found = {region.id}
    parent = region.document.get("parent")
    while isinstance(parent, str) and parent in snapshot.regions and parent not in found:
        found.add(parent)
        parent = snapshot.regions[parent].document.get("parent")
    country = region.value.country
    if country:
        found.add(f"country/{country}")
        if country in MEMBERS:
            found.add(EUROPEAN_UNION)
    return frozenset(found)


def _facts(request: RuleFacts, region: Entry[Region]) -> dict[str, Fact]:
    """What is known, as rules compare it."""
    facts: dict[str, Fact] = {"pue_ratio": region.value.pue_ratio}
    for name in FACTS:
        value = getattr(request, name)
        if value is None or name == LOCALITY:
            continue
        if isinstance(value, bool | str):
            facts[name] = value
        elif isinstance(value, datetime.date):
            facts[name] = value.isoformat()
        else:
            facts[name] = exact(float(value))
    facts["noise_receptor"] = any(
        getattr(request, name) is not None
        for name in ("receptor_zone", "noise_day_db", "noise_night_db")
    )
    return facts


def _rule(entry: Entry[Rule], finding: Finding, facts: dict[str, Fact]) -> RuleFinding:
    document = entry.document
    return {
        "id": entry.id,
        "name": document["name"],
        "subject": document["subject"],
        "effect": document["effect"],
        "status": document["status"],
        "verdict": finding.verdict,
        "reason": finding.reason,
        "due_on": finding.due_on,
        "met": finding.met,
        "missing": list(finding.missing),
        "failed": [_failed(condition, facts) for condition in finding.failed],
        "section": document.get("section"),
        "checked_on": document["checked_on"],
        "source": document["source"],
        "notes": document.get("notes"),
    }


def _failed(condition: Condition, facts: dict[str, Fact]) -> FailedRequirement:
    known = facts[condition.fact]
    return {
        "fact": condition.fact,
        "comparison": condition.comparison,
        "limit": condition.value,
        "value": known if isinstance(known, str | bool) else float(known.value),
    }
