"""Settings that change nothing beside others, of which a request is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from service.core.explanation import EstimateWarning
from service.estimation.references import Request


def unused(
    part: Request, pointer: str, names: Sequence[str], reason: str
) -> Iterator[EstimateWarning]:
    """What to say of settings with other values than by default that mean nothing.

    Parameters
    ----------
    part, pointer
        The part of a request that has the settings, and its name.
    names, reason
        Settings that mean nothing, and why.
    """
    fields = type(part).model_fields
    asked = [name for name in names if getattr(part, name) != fields[name].default]
    if asked:
        change = "changes" if len(asked) == 1 else "change"
        yield EstimateWarning(
            "setting_unused",
            f"{reason}: {' and '.join(asked)} {change} nothing",
            about=f"{pointer}.{asked[0]}",
        )
