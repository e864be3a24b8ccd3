"""Values that formulas make by the hundred: immutable to the type checker, cheap to make."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property
from types import new_class
from typing import TYPE_CHECKING, Any, TypeVar, cast, dataclass_transform

Declared = TypeVar("Declared")

if TYPE_CHECKING:
    computed_once = cached_property
else:

    class computed_once(cached_property):  # noqa: N801 - used as a decorator
        """The standard library's ``cached_property`` without the lock that it has before 3.12."""

        def __get__(self, instance: Any, owner: Any = None) -> Any:
            """The value, computed where the instance does not have it yet."""
            if instance is None:
                return self
            found = instance.__dict__[self.attrname] = self.func(instance)
            return found


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def lightweight(declared: type[Declared]) -> type[Declared]:
    """Declares a dataclass that nothing assigns to, which the type checker sees to.

    One that is frozen at run time takes several times as long to make. It has slots, and a
    dictionary beside them where it keeps properties that are computed once.
    """
    if not any(isinstance(part, cached_property) for part in vars(declared).values()):
        return dataclass(slots=True, unsafe_hash=True)(declared)
    return _with_slots(dataclass(unsafe_hash=True)(declared))


def _with_slots(declared: type[Declared]) -> type[Declared]:
    """The class with a slot for each field, and a dictionary for what is computed once alone.

    It is not there before anything is, and Python fills slots in less time.
    """
    inherited = {name for base in declared.__mro__[1:] for name in getattr(base, "__slots__", ())}
    own = [each.name for each in fields(declared)]  # type: ignore[arg-type]
    held = (*own, "__dict__", "__weakref__")
    body = {name: part for name, part in vars(declared).items() if name not in held}
    body["__slots__"] = tuple(name for name in held if name not in inherited)
    found: Any = new_class(declared.__name__, declared.__bases__, {}, lambda new: new.update(body))
    return cast("type[Declared]", found)
