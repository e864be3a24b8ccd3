"""Files that can be had again: written whole or not at all, in a folder of the user's own."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path


def cache_home() -> Path:
    """The folder for them: ``$XDG_CACHE_HOME/headroom`` or ``~/.cache/headroom``."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "headroom"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file of which no reader sees a part, and make its folder.

    Raises
    ------
    OSError
        If that cannot be done; nothing is left behind.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
        Path(temporary).replace(path)
    except OSError:
        Path(temporary).unlink(missing_ok=True)
        raise


def forget_all_but_latest(folder: Path, kept: int) -> None:
    """Remove all files of a folder but as many as may be ``kept``, those that were used last.

    Other processes may do the same meanwhile: whoever reads a file that goes reads it to its end.
    """

    def used_s(path: Path) -> float:
        with suppress(OSError):
            return path.stat().st_mtime
        return 0.0

    for path in sorted(folder.iterdir(), key=used_s, reverse=True)[kept:]:
        with suppress(OSError):
            path.unlink()
