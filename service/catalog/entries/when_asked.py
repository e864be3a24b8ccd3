"""Values that are made when they are first asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TypeVar

Value = TypeVar("Value")


class WhenAsked(Mapping[str, Value]):
    """Values by key, in the order of the keys, each made once.

    Threads that ask for the same one at once get the same one.

    Parameters
    ----------
    keys
        All keys.
    make
        What makes the value of a key; it must not fail for any of them.
    """

    def __init__(self, keys: Iterable[str], make: Callable[[str], Value]) -> None:
        self._keys = dict.fromkeys(sorted(keys))
        self._make = make
        self._made: dict[str, Value] = {}

    def __getitem__(self, key: str) -> Value:
        made = self._made.get(key)
        if made is not None:
            return made
        if key not in self._keys:
            raise KeyError(key)
        return self._made.setdefault(key, self._make(key))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
