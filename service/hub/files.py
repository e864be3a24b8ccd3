"""What was fetched of a model, and its cache on disk."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson

from service.cached_files import write_whole
from service.hub.names import HubName, is_commit

#: Files kept; beyond, the ones that were written first go.
_MOST_FILES = 1_000
_MOST_FILE_BYTES = 10_000_000


@dataclass(frozen=True, slots=True)
class HubFiles:
    """What a model's repository held at a commit.

    ``elements_by_type`` sums up its safetensors files, None where the Hub tells nothing of them.
    ``year`` is that of the repository's last change, ``confirmed_at`` the time [s since 1970] at
    which the Hub last said that the revision asked for is this commit.
    """

    repository: str
    commit: str
    url: str
    year: int
    config: Mapping[str, Any]
    elements_by_type: Mapping[str, int] | None
    confirmed_at: float


class FileCache:
    """Keeps what was fetched in a folder, one file a model and revision.

    A folder that cannot be written or read is as good as an empty one.
    """

    def __init__(self, folder: Path, endpoint: str) -> None:
        self._folder = folder
        self._endpoint = endpoint

    def read(self, name: HubName) -> HubFiles | None:
        """What is kept of a model at a revision, if anything that can be understood."""
        try:
            with self._path(name).open("rb") as file:
                kept = orjson.loads(file.read(_MOST_FILE_BYTES))
            found = HubFiles(**kept)
        except (OSError, ValueError, TypeError):
            return None
        sound = is_commit(found.commit) and isinstance(found.config, dict)
        return found if sound and isinstance(found.confirmed_at, float) else None

    def write(self, name: HubName, files: HubFiles) -> None:
        """Keep it, whole or not at all."""
        with contextlib.suppress(OSError):
            write_whole(self._path(name), orjson.dumps(asdict(files)))
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        held = sorted(self._folder.glob("*.json"), key=lambda path: path.stat().st_mtime)
        for path in held[: max(len(held) - _MOST_FILES, 0)]:
            path.unlink(missing_ok=True)

    def _path(self, name: HubName) -> Path:
        whole = "\0".join((self._endpoint, name.repository, name.revision))
        return self._folder / f"{sha256(whole.encode()).hexdigest()[:40]}.json"
