"""Headers that say that an entry was asked for by a former id (RFC 9745)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from urllib.parse import quote

from service.catalog.entries.references import Renaming


def deprecation_headers(renamings: Iterable[Renaming]) -> Mapping[str, str]:
    """``Deprecation`` since when, and ``Link`` to the entries of today; none without renamings."""
    found = tuple(renamings)
    if not found:
        return {}
    since = min(datetime.fromisoformat(one.since).replace(tzinfo=UTC) for one in found)
    links = (f'</v1/{one.collection}/{quote(one.new)}>; rel="successor-version"' for one in found)
    return {"Deprecation": f"@{since.timestamp():.0f}", "Link": ", ".join(links)}
