"""Values that formulas make by the hundred: immutable to the type checker, cheap to make."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

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

    One that is frozen at run time takes several times as long to make. It has slots unless it
    keeps properties that are computed once.
    """
    slots = not any(isinstance(part, cached_property) for part in vars(declared).values())
    return dataclass(slots=slots, unsafe_hash=True)(declared)
