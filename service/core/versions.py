"""Texts that mean a release of software: versions, numbers of builds, and dates."""

from __future__ import annotations

import re
from calendar import monthrange
from dataclasses import dataclass

#: A year, month or day, and whatever is said of it after that.
DATE = re.compile(r"((?:19|20)\d\d)(?:-(\d\d)(?:-(\d\d))?)?(?=$|[\s/,(])")
#: Numbers between dots, or the number of a build, with what is usual before and after them.
_VERSION = re.compile(
    r"(?:version|release|v|r|b)?[- ]?(\d{1,9}(?:\.\d{1,9}){0,5})"
    r"(?=$|[\s.,+(_-]|(?:rc|a|b|post|dev)\d)"
)


@dataclass(frozen=True, slots=True)
class KnownRelease:
    """A release that is known to exist, by its version and the month in which it was seen."""

    version: str
    seen: str


def version_of(text: str) -> tuple[int, ...] | None:
    """The numbers of a version, whatever stands before and after them; None where it is none."""
    found = _VERSION.match(text.casefold())
    return None if found is None else tuple(map(int, found[1].split(".")))


def is_day(date: re.Match[str]) -> bool:
    """Whether the calendar has such a day, or month."""
    year, month, day = int(date[1]), int(date[2] or 1), int(date[3] or 1)
    return 1 <= month <= 12 and 1 <= day <= monthrange(year, month)[1]


def last_day(date: re.Match[str]) -> str:
    """The last day that a date may mean, so that a month counts as whole."""
    return f"{date[1]}-{date[2] or '12'}-{date[3] or '31'}"


def is_newer(version: tuple[int, ...] | None, known: KnownRelease | None) -> bool:
    """Whether a version is newer than the newest release that is known, if any is."""
    newest = None if known is None else version_of(known.version)
    return version is not None and newest is not None and version > newest
