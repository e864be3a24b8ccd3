"""Answers about a site's social licence."""

from __future__ import annotations

from typing import Literal

from service.estimation.answers import Answer, Interval, Repeatable

SocialPartName = Literal[
    "moratoria",
    "legislation",
    "grid_connection",
    "water",
    "noise",
    "local_benefit",
    "disputes",
    "transparency",
]


class SocialPart(Answer):
    """One part of the index."""

    name: SocialPartName
    """The part."""
    weight_ratio: float
    """Share of all weights."""
    concern_ratio: Interval | None
    """0: none is known; 1: as much as anywhere; null where the indicator is not known."""
    indicator: str
    """What the part is read from."""
    indicator_value: Interval | None
    """In the unit that the indicator names."""
    year: int | None
    """Year of the indicator."""
    source: str | None
    """Id of a source, "request" for what was given, null where nothing is known."""


class SocialLicenceAnswer(Repeatable):
    """An index of concern with all its parts. It is no probability that a site is refused."""

    region: str
    index: Interval | None
    """0 to 100, the weighted mean of the parts that are known; its ends let every unknown part be
    nothing or everything. Null where no part is known."""
    known_weight_ratio: float
    """Share of the weights whose parts are known."""
    parts: list[SocialPart]
    """All parts, known or not."""
    failed_rules: list[str] | None
    """Ids of rules that fail with the facts given, which count whatever the index is; null without
    facts."""
