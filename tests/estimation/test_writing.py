"""Results of the core as answers of the same names."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter

from service.core import interval as core
from service.core.elementwise import Number
from service.estimation.answers import Answer, Interval
from service.estimation.references import Request
from service.estimation.writing import repeated, valued, written


class Part(Answer):
    """A part."""

    size_bytes: float


class Whole(Answer):
    """All kinds of fields."""

    total_s: Interval
    limit_s: Interval | None
    room_bytes: float | None
    count: int
    fits: bool
    verdict: Literal["yes", "no"]
    part: Part | None
    parts: list[Part]
    by_name_bytes: dict[str, float]


@dataclass(frozen=True)
class PartResult:
    size_bytes: int


@dataclass(frozen=True)
class WholeResult:
    total_s: core.Interval
    limit_s: core.Interval | None
    room_bytes: float | None
    part: PartResult | None
    count: float = 3.0
    fits: int = 1
    verdict: str = "yes"
    parts: tuple[PartResult, ...] = (PartResult(1), PartResult(2))
    unwritten: str = "stays in the core"

    @property
    def by_name_bytes(self) -> dict[str, int]:
        return {"a": 1}


def test_every_kind_of_field_is_written() -> None:
    known = core.Interval(2.0, 1.0, 3.0)
    result = WholeResult(known, known, 4.0, PartResult(5))
    figure = {"value": 2.0, "low": 1.0, "high": 3.0}
    answer = written(result, Whole)
    assert answer == {
        "total_s": figure,
        "limit_s": figure,
        "room_bytes": 4.0,
        "count": 3,
        "fits": True,
        "verdict": "yes",
        "part": {"size_bytes": 5.0},
        "parts": [{"size_bytes": 1.0}, {"size_bytes": 2.0}],
        "by_name_bytes": {"a": 1.0},
    }
    assert isinstance(answer["count"], int)
    assert answer["fits"] is True


def test_what_is_unknown_or_without_bound_is_null() -> None:
    endless = core.Interval(2.0, 1.0, inf)
    for limit_s, room_bytes in ((None, None), (endless, inf)):
        answer = written(WholeResult(endless, limit_s, room_bytes, None), Whole)
        assert (answer["limit_s"], answer["room_bytes"], answer["part"]) == (None, None, None)


class PartRequest(Request):
    """A part that is asked for."""

    size_bytes: Annotated[int, Field(ge=1)] = 2


class WholeRequest(Request):
    """A whole that is asked for."""

    kind: Literal["thin", "thick"] = "thin"
    engine: str = "alias"
    sequences: int = Field(4, ge=1, description="How many.")
    block_tokens: int = 16
    part: PartRequest = PartRequest()


@dataclass(frozen=True)
class WholeValue:
    engine: str
    sequences: Number
    block_tokens: int
    spread_ratio: float = 0.5


def test_a_value_takes_fields_of_the_same_names_and_what_is_resolved():
    value = valued(WholeValue, WholeRequest(sequences=8), engine="id")
    assert value == WholeValue("id", 8.0, 16, 0.5)
    assert type(value.sequences) is float
    assert type(value.block_tokens) is int


def test_an_answer_repeats_a_request_without_its_limits_and_defaults():
    schema = TypeAdapter(repeated(WholeRequest, "engine")).json_schema()
    assert schema["description"] == "A whole that is asked for."
    assert schema["required"] == ["kind", "sequences", "block_tokens", "part"]
    assert schema["properties"]["kind"]["enum"] == ["thin", "thick"]
    assert schema["properties"]["sequences"] == {"title": "Sequences", "type": "integer"}
    assert schema["$defs"]["Part"]["required"] == ["size_bytes"]
    assert not schema["additionalProperties"]
