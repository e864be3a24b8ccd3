"""Answers as bytes, those to questions that differ in their load alone by straight-line code.

Whoever tries loads on one deployment asks the same again but for a few numbers. The first such
questions are answered as any other. Then one is computed with numbers that note what becomes of
them (:mod:`service.core.tracing`), and what was noted answers the next ones: the same arithmetic,
and between its figures the same text. Where a load leads to other decisions than those noted, it is
answered as any other again, until there is code for that as well. Code is made in a thread of its
own, so that no answer waits for it.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import BoundedSemaphore, Lock
from typing import Any, TypeAlias, cast

import orjson
from cachetools import LRUCache

from service.catalog.derived import derived
from service.catalog.snapshot import CatalogSnapshot
from service.core.tracing import MARKED, Place, Tape, Traced
from service.estimation.programs import Program, compiled
from service.estimation.references import Request
from service.estimation.rejection import Rejected
from service.estimation.rows import Rows

_log = logging.getLogger(__name__)

#: Numbers of a workload in which questions of one kind differ.
LOADS = ("input_tokens", "output_tokens", "concurrency", "requests_per_s")
#: Code costs as much as some dozens of answers, and is made after as many were computed without.
ANSWERED_BEFORE = 40
#: Sets of decisions that there is code for, of one kind of questions.
_MOST_PROGRAMS = 12
#: Kinds of questions that are told apart, and code for all of them, which takes some 0.1 MB each.
_MOST_KINDS = 1_024
_MOST_PROGRAMS_IN_ALL = 128
#: Longer questions hold whole models, which nobody varies the load of so often.
_LONGEST_BYTES = 4_096
#: Questions of one kind that are answered column by column, and fewest that are worth it.
_MOST_ROWS = 1_024
_FEWEST_ROWS = 32
#: Makes code, one after the other.
CODING = ThreadPoolExecutor(1, thread_name_prefix="coding")
#: Code that may be waited for; beyond, questions are computed until there is room.
_ROOM = BoundedSemaphore(8)
#: A figure alone, and one within a text.
_PLACES = re.compile(rf'"\ue002(\d+)\ue003"|{MARKED}')

Respond: TypeAlias = Callable[[Any, CatalogSnapshot], Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class _Prepared:
    """Code for the figures of an answer, and the text between them, which begins and ends it.

    The first ``numbers`` of the code's results are figures, the rest are words; ``order`` tells
    which comes where.
    """

    program: Program
    rows: Rows
    between: tuple[bytes, ...]
    numbers: int
    order: tuple[int, ...]

    def answer(self, loads: Mapping[str, float]) -> bytes | None:
        """The answer to a load; None for one that is decided otherwise."""
        try:
            found = self.program(*loads.values())
        except (ArithmeticError, ValueError):
            return None
        return None if found is None else self._told(found)

    def answers(self, loads: Sequence[Mapping[str, float]]) -> list[bytes | None]:
        """The answers to many loads; None for those that are decided otherwise."""
        try:
            rows = self.rows([[load[name] for load in loads] for name in loads[0]])
        except (ArithmeticError, ValueError):
            return [self.answer(load) for load in loads]
        return [None if found is None else self._told(found) for found in rows]

    def _told(self, found: tuple[Any, ...]) -> bytes:
        told = orjson.dumps(found[: self.numbers])[1:-1].split(b",")
        told += [word.encode() for word in found[self.numbers :]]
        pieces = [b""] * (len(self.between) + len(self.order))
        pieces[::2] = self.between
        pieces[1::2] = [told[at] for at in self.order]
        return b"".join(pieces)


@dataclass(slots=True)
class _Kind:
    """Questions that differ in their load alone: how many were computed, and code for others.

    ``settled`` says that no code is to be made: none is possible, or some is being made.
    """

    computed: int = 0
    settled: bool = False
    prepared: list[_Prepared] = field(default_factory=list)


class _Kinds:
    """Kinds of questions to one catalog, those asked last."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kinds: LRUCache[tuple[str, str], _Kind] = LRUCache(_MOST_KINDS)
        self._prepared: LRUCache[tuple[str, str], _Kind] = LRUCache(
            _MOST_PROGRAMS_IN_ALL, getsizeof=lambda kind: len(kind.prepared)
        )

    def of(self, key: tuple[str, str]) -> _Kind:
        """The kind of a question."""
        with self._lock:
            kind = self._prepared.get(key) or self._kinds.get(key)
            if kind is None:
                kind = self._kinds[key] = _Kind()
            return kind

    def keep(self, key: tuple[str, str], kind: _Kind, prepared: _Prepared) -> None:
        """Have more code answer questions of a kind; kinds not asked for longest lose theirs."""
        with self._lock:
            kind.computed = 0
            kind.prepared = [*kind.prepared, prepared]
            self._kinds.pop(key, None)
            self._prepared[key] = kind


@derived()
def _kinds_of(snapshot: CatalogSnapshot) -> _Kinds:  # noqa: ARG001 - kept with it
    return _Kinds()


def answer_bytes(respond: Respond, request: Any, snapshot: CatalogSnapshot) -> bytes:
    """An answer as JSON.

    Parameters
    ----------
    respond
        Answers requests of this type, from the request and the catalog alone.
    request, snapshot
        What is asked, and the catalog.

    Raises
    ------
    Rejected
        If it cannot be answered.
    """
    asked = _asked(request, snapshot)
    if asked is None:
        return orjson.dumps(respond(request, snapshot))
    for prepared in asked.kind.prepared:
        told = prepared.answer(asked.loads)
        if told is not None:
            return told
    return _computed(respond, request, snapshot, asked)


def answers_bytes(
    respond: Respond, requests: Sequence[Any], snapshot: CatalogSnapshot
) -> Iterator[bytes | Rejected]:
    """Answers to many requests as JSON, in their order, or why one cannot be answered.

    Those that differ in their load alone, and that there is code for, are answered together.
    """
    for first in range(0, len(requests), _MOST_ROWS):
        part = requests[first : first + _MOST_ROWS]
        ready = _ready([_asked(request, snapshot) for request in part])
        for request, told in zip(part, ready, strict=True):
            try:
                yield answer_bytes(respond, request, snapshot) if told is None else told
            except Rejected as rejected:
                yield rejected


def _ready(asked: Sequence[_Asked | None]) -> list[bytes | None]:
    """Answers to those questions of which there are enough of a kind that there is code for."""
    found: list[bytes | None] = [None] * len(asked)
    by_kind: dict[tuple[str, str], list[int]] = {}
    for at, one in enumerate(asked):
        if one is not None and one.kind.prepared:
            by_kind.setdefault(one.key, []).append(at)
    for places in by_kind.values():
        left = {at: one for at in places if (one := asked[at]) is not None}
        for prepared in asked[places[0]].kind.prepared:  # type: ignore[union-attr]
            if len(left) < _FEWEST_ROWS:
                break
            told = prepared.answers([one.loads for one in left.values()])
            for at, answer in zip(tuple(left), told, strict=True):
                if answer is not None:
                    found[at] = answer
                    del left[at]
    return found


@dataclass(frozen=True, slots=True)
class _Asked:
    """A question that has a load, told apart from others by the rest of it."""

    loads: Mapping[str, float]
    key: tuple[str, str]
    kind: _Kind
    kinds: _Kinds


def _asked(request: Any, snapshot: CatalogSnapshot) -> _Asked | None:
    """The load of a question and its kind; None for one without, or that is too long to keep."""
    loads = _loads_of(request)
    if not loads:
        return None
    # What is given, and as what: code for 1 is none for 1.0, nor for a field that is left out.
    forms = ",".join(f"{name}:{type(value).__name__}" for name, value in loads.items())
    rest = request.model_dump_json(exclude_unset=True, exclude={"workload": set(loads)})
    if len(rest) > _LONGEST_BYTES:
        return None
    kinds, key = _kinds_of(snapshot), (f"{type(request).__name__} {forms}", rest)
    return _Asked(loads, key, kinds.of(key), kinds)


def _computed(respond: Respond, request: Any, snapshot: CatalogSnapshot, asked: _Asked) -> bytes:
    """The answer that code does not give, and code for the next ones where it is time for it."""
    answer = orjson.dumps(respond(request, snapshot))
    kind = asked.kind
    kind.computed += 1
    if (
        kind.computed >= ANSWERED_BEFORE
        and not kind.settled
        and len(kind.prepared) < _MOST_PROGRAMS
        and _ROOM.acquire(blocking=False)
    ):
        kind.settled = True
        CODING.submit(_code, respond, request, snapshot, asked, answer)
    return answer


def _code(
    respond: Respond, request: Any, snapshot: CatalogSnapshot, asked: _Asked, answer: bytes
) -> None:
    """Make code that answers as ``respond`` did, if it can be made."""
    try:
        found = _prepare(respond, request, snapshot, asked.loads)
        # The code has to repeat what is known, at least.
        if found is not None and found.answer(asked.loads) == answer:
            asked.kinds.keep(asked.key, asked.kind, found)
            asked.kind.settled = False
    except Exception:
        _log.exception("code for answers could not be made")
    finally:
        _ROOM.release()


def _loads_of(request: Request) -> dict[str, float]:
    """Numbers of a question's load that were given, by name."""
    workload = getattr(request, "workload", None)
    if workload is None:
        return {}
    given = workload.__dict__
    return {
        name: given[name]
        for name in LOADS
        if name in workload.model_fields_set and type(given[name]) in (int, float)
    }


def _prepare(
    respond: Respond, request: Any, snapshot: CatalogSnapshot, loads: Mapping[str, float]
) -> _Prepared | None:
    """Code that answers as ``respond`` does; None where it does what code cannot repeat."""
    tape = Tape()
    traced = {name: tape.input(value) for name, value in loads.items()}
    workload = request.workload.model_copy(update=traced)
    figures: list[Place] = []

    def noted(figure: Any) -> str:
        if type(figure) is not Traced:
            raise TypeError(type(figure).__name__)
        figures.append(figure.place)
        return f"\ue002{len(figures) - 1}\ue003"

    try:
        answer = respond(request.model_copy(update={"workload": workload}), snapshot)
        text = orjson.dumps(answer, default=noted).decode()
    except Exception as error:
        _log.debug("no code answers questions like this", exc_info=error)
        return None
    between = _PLACES.split(text)
    alone, within = between[1::3], between[2::3]
    words = [Place(int(at)) for at in within if at is not None]
    order, next_word = [], len(figures)
    for at in alone:
        order.append(next_word if at is None else int(at))
        next_word += at is None
    return _Prepared(
        compiled(tape, [*figures, *words]),
        Rows(tape, [*figures, *words], [type(value) for value in loads.values()]),
        tuple(part.encode() for part in cast("list[str]", between[::3])),
        len(figures),
        tuple(order),
    )
