"""Headers that say that something goes away (RFC 9745, RFC 8594), as docs/stability.md has it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from urllib.parse import quote

from service.catalog.entries.references import Renaming
from service.estimation.renamed import RenamedName

#: What is deprecated works at least so long; docs/stability.md promises it.
KEPT_FOR = timedelta(days=365)
#: Where the policy stands in every service.
POLICY = "/docs/stability"


def deprecation_headers(renamings: Iterable[Renaming | RenamedName]) -> Mapping[str, str]:
    """Headers of an answer to a question that names entries or fields as before; none without any.

    ``Deprecation`` says since when, ``Sunset`` until when the first of them works at least, and
    ``Link`` leads to the policy and to the entries of today.
    """
    found = tuple(renamings)
    if not found:
        return {}
    since = min(datetime.fromisoformat(one.since).replace(tzinfo=UTC) for one in found)
    links = (
        f'</v1/{one.collection}/{quote(one.new)}>; rel="successor-version"'
        for one in found
        if isinstance(one, Renaming)
    )
    policy = (f'<{POLICY}>; rel="{relation}"; type="text/html"' for relation in _RELATIONS)
    return {
        "Deprecation": f"@{since.timestamp():.0f}",
        "Sunset": format_datetime(since + KEPT_FOR, usegmt=True),
        "Link": ", ".join((*links, *policy)),
    }


#: The policy tells of both ends.
_RELATIONS = ("deprecation", "sunset")
