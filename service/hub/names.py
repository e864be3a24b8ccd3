"""Names of models on the Hub, checked before they become part of an address."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote

from service.core.errors import InvalidInput

#: What the Hub allows: an organisation, if any, and a name. None begins with a dot or a dash.
_REPOSITORY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}(/[A-Za-z0-9_][A-Za-z0-9_.-]{0,95})?")
#: A branch, a tag or a commit.
_REVISION = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,127}")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class NameInvalid(InvalidInput):
    """Something that cannot be the name of a model on the Hub."""


@dataclass(frozen=True, slots=True)
class HubName:
    """A model at a revision. Both are checked when it is made.

    Raises
    ------
    NameInvalid
        If one of them cannot be a name.
    """

    repository: str
    revision: str = "main"

    def __post_init__(self) -> None:
        if not _REPOSITORY.fullmatch(self.repository) or ".." in self.repository:
            raise NameInvalid("is not the name of a model on the Hub; it must be organisation/name")
        if not _REVISION.fullmatch(self.revision) or ".." in self.revision:
            raise NameInvalid("is not a revision; it must be a branch, a tag or a commit")

    @property
    def is_pinned(self) -> bool:
        """Whether it can only ever mean the same files."""
        return is_commit(self.revision)

    @property
    def revision_in_path(self) -> str:
        """The revision as one segment of an address."""
        return quote(self.revision, safe="")

    def __str__(self) -> str:
        at = "" if self.revision == "main" else f"@{self.revision}"
        return self.repository + at


def hub_name(text: str) -> HubName:
    """The model that ``organisation/name`` or ``organisation/name@revision`` means.

    Raises
    ------
    NameInvalid
        If it means none.
    """
    repository, marked, revision = text.partition("@")
    return HubName(repository, revision) if marked else HubName(repository)


def is_commit(text: object) -> bool:
    """Whether a text is a commit's hash."""
    return isinstance(text, str) and _COMMIT.fullmatch(text) is not None
