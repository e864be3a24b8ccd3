"""The first pages of a report: what a meeting decides on, in words that need no appendix."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.verdict.figures import KeyFigure
from service.estimation.verdict.names import names_of
from service.estimation.verdict.verdict import Verdict
from service.estimation.wording import in_a_sentence
from service.reports.document import Section, Table, Text

Answer = Mapping[str, Any]

#: Columns of choices beside your own plan: more do not fit on a page.
_MOST_COLUMNS = 3
#: Limits that are told with what they excluded.
_MOST_LIMITS = 3
#: What is said where there is no choice.
NOTHING = "None of the candidates meets all limits."
_PLAN = "Your plan"
#: What holds for every report.
_TO_SAY = (
    "Figures are estimates for planning, neither measurements nor a quotation. In nine cases out "
    "of ten, the measured figure lies in the range beside it.",
    "Prices are list prices, without discounts, taxes, network, storage or staff.",
    "Before buying, measure with your own model and load, and report it: estimates learn.",
)


@dataclass(frozen=True, slots=True)
class Plan:
    """A plan as a column: what it is called, its hardware and place, and its figures."""

    name: str
    hardware: str
    figures: tuple[KeyFigure, ...]


def first_pages(
    answer: Answer,
    verdict: Verdict | None,
    plans: Sequence[Plan],
    excluded: Sequence[tuple[str, int, str]],
    snapshot: CatalogSnapshot,
) -> Iterator[Section]:
    """The answer, its figures, what limits it, what to do, and what the choices are.

    Parameters
    ----------
    answer
        The recommendation.
    verdict
        On your own plan, or else on the first choice; None where there is neither.
    plans
        Your own plan, if there is one, and the choices.
    excluded
        What limits excluded: name, candidates, and in words, the most first.
    snapshot
        Holds names.
    """
    choices = answer["choices"]
    yield Section("The answer", tuple(_answer(answer, verdict, choices, snapshot)))
    if plans:
        yield Section("The figures", (_figures(plans),))
    yield Section("What limits it", tuple(_limits(verdict, excluded)))
    yield Section("What to do", tuple(_to_do(choices)))
    if choices:
        yield Section(
            "The choices", (*_how_sure(choices[0]), _choices(choices, plans)), new_page=True
        )
        yield before_you_decide()


def before_you_decide() -> Section:
    """What figures and prices of every report are, and are not."""
    return Section("Before you decide", tuple(Text(one) for one in _TO_SAY))


def plans_of(
    answer: Answer, figures: Any, snapshot: CatalogSnapshot, most: int = _MOST_COLUMNS
) -> list[Plan]:
    """Your own plan and the first choices as columns; ``figures`` tells those of an estimate."""
    found = []
    own = answer.get("baseline")
    if own is not None:
        names = names_of(own["estimate"]["deployment"], snapshot)
        found.append(Plan(_PLAN, names.hardware, figures(own["estimate"], snapshot)))
    for choice in answer["choices"][:most]:
        names = names_of(choice["estimate"]["deployment"], snapshot)
        found.append(Plan(_best_for(choice), names.hardware, figures(choice["estimate"], snapshot)))
    return found


def _best_for(choice: Mapping[str, Any]) -> str:
    words = ", ".join(one.replace("_", " ") for one in choice["priorities"])
    return f"{words[0].upper()}{words[1:]}"


def _answer(
    answer: Answer,
    verdict: Verdict | None,
    choices: Sequence[Mapping[str, Any]],
    snapshot: CatalogSnapshot,
) -> Iterator[Text]:
    own = answer.get("baseline") is not None
    if choices:
        first = choices[0]
        names = names_of(first["estimate"]["deployment"], snapshot)
        place = in_a_sentence(names.place)
        yield Text(f"Choose {names.hardware} in {place}, with {names.weights} weights.", "strong")
        against = first["against"]
        if against is not None and against["in_words"]:
            plan = "your own plan" if against["plan"] == "baseline" else "the cheapest choice"
            yield Text(f"Against {plan}: {against['in_words']}.")
    else:
        yield Text(NOTHING, "strong")
        yield Text("The closest candidates, and what would have to change, are in the appendix.")
    if verdict is not None:
        yield Text(f"{'Your own plan: ' if own else ''}{verdict.text}")


def _figures(plans: Sequence[Plan]) -> Table:
    """The figures that carry the verdict, a column for each plan."""
    rows = [("Hardware", *(plan.hardware for plan in plans))]
    for at, first in enumerate(plans[0].figures):
        rows.append((first.name, *(_in_words(plan.figures[at]) for plan in plans)))
    return Table(
        ("", *(plan.name for plan in plans)),
        tuple(rows),
        "Best estimates with their 90 % intervals",
        tuple(range(1, len(plans) + 1)),
    )


def _in_words(one: KeyFigure) -> str:
    unit = one.text.partition(" ")[2]
    ends = one.range_text.removesuffix(f" {unit}")
    return f"{one.text} ({ends})" if ends else one.text


def _limits(verdict: Verdict | None, excluded: Sequence[tuple[str, int, str]]) -> Iterator[Text]:
    if verdict is not None and verdict.limiting:
        yield Text(verdict.limiting)
    for name, _, text in excluded[:_MOST_LIMITS]:
        count, _, closest = text.partition("; ")
        more = f"; {closest}" if closest else ""
        limit = name.removesuffix(", at least")
        yield Text(f"{count} options were ruled out by this limit: {limit}{more}.")
    if not excluded:
        yield Text("No limit excluded anything.")


def _to_do(choices: Sequence[Mapping[str, Any]]) -> Iterator[Text]:
    if not choices:
        yield Text("1. Relax one of the limits, or allow more accelerators or other places.")
        yield Text("2. Ask again: the appendix has the request.")
        return
    first = choices[0]
    steps = ["Agree on the limits: they decide more than any figure does."]
    if not first["robustness"]["clear_winner"]:
        steps.append("Compare the choices below: several are almost equally good.")
    steps.append("Ask for prices and delivery times: list prices were used, and stock was not.")
    start = first.get("start")
    if start is not None:
        steps.append("Measure the choice with your own traffic; the appendix has the command.")
    else:
        steps.append("Measure the choice with your own model before ordering more of it.")
    steps.append("Send what you measured to the service: its estimates learn from it.")
    for at, step in enumerate(steps, 1):
        yield Text(f"{at}. {step}")


def _choices(choices: Sequence[Mapping[str, Any]], plans: Sequence[Plan]) -> Table:
    """The choices in a line each, with how far their figures can be trusted."""
    shown = [plan for plan in plans if plan.name != _PLAN]
    return Table(
        ("Best for", "Hardware", "Against the plan", "Confidence"),
        tuple(
            (
                plan.name,
                plan.hardware,
                (choice["against"] or {}).get("in_words", ""),
                choice["confidence"],
            )
            for choice, plan in zip(choices, shown, strict=True)
        ),
        "Each is best for something",
    )


def _how_sure(first: Mapping[str, Any]) -> Iterator[Text]:
    told = first["robustness"]["in_words"]
    yield Text(
        "How sure is the first choice? The comparison was repeated with all figures varied within "
        f"their uncertainty, and the weights of the priorities by half. It was the {told}."
    )
