"""What engines start with where settings say nothing: slots, chunks, their share of memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Literal, TypeAlias

from service.core.elementwise import Number
from service.core.errors import NotFound
from service.core.hardware import NO_HARDWARE, Hardware, HardwareList
from service.core.stacking import FIGURE

#: How requests reach an engine: through its server, or from a script that hands over all at once.
UsageContext: TypeAlias = Literal["server", "offline"]


@dataclass(frozen=True, slots=True)
class StartSettings:
    """What an engine runs with, as settings or its own defaults have it.

    It runs ``max_running_sequences`` at once [-], a step computes ``chunked_prefill_tokens`` at
    most [token], and it may use ``memory_utilization_ratio`` of the memory [-]. ``prompts_apart``
    is 1 where a step computes prompts or decodes, and 0 where it does both [-].
    """

    max_running_sequences: Number = field(metadata=FIGURE)
    chunked_prefill_tokens: Number = field(metadata=FIGURE)
    memory_utilization_ratio: Number = field(metadata=FIGURE)
    prompts_apart: Number = field(default=0.0, metadata=FIGURE)


#: Share of a memory that is no larger than what is kept free [-].
_LEAST_SHARE = 0.01
#: Names of what an engine starts with.
STARTED = tuple(each.name for each in fields(StartSettings))
#: Those that settings may ask for.
START_SETTINGS = tuple(name for name in STARTED if name != "prompts_apart")


@dataclass(frozen=True, slots=True)
class Start:
    """Where and how an engine is started.

    ``memory_bytes`` are those of one accelerator [B]; a sequence has ``longest_tokens`` at most,
    None where nothing says so [token].
    """

    hardware: Hardware
    memory_bytes: float
    usage: UsageContext
    longest_tokens: float | None


@dataclass(frozen=True, slots=True)
class DefaultsRule:
    """Defaults that hold where all conditions do; None where the rule does not say.

    It holds for one ``usage`` or any, on accelerators in ``hardware`` (any if empty) that are not
    in ``but_not`` and have at least ``least_memory_bytes`` [B], and for sequences of at most
    ``most_sequence_tokens`` [token]. With ``whole_prompts`` a step has room for the longest
    sequence, too; with ``prompts_apart`` one that computes prompts decodes nothing. Where the share
    of memory is all but ``kept_bytes`` [B], these say it in its place.
    """

    max_running_sequences: float | None = None
    chunked_prefill_tokens: float | None = None
    memory_utilization_ratio: float | None = None
    kept_bytes: float | None = None
    whole_prompts: bool | None = None
    prompts_apart: bool | None = None
    usage: UsageContext | None = None
    hardware: HardwareList = NO_HARDWARE
    but_not: HardwareList = NO_HARDWARE
    least_memory_bytes: float = 0.0
    most_sequence_tokens: float | None = None

    def holds(self, start: Start) -> bool:
        """Whether it says what an engine starts with there."""
        most, longest = self.most_sequence_tokens, start.longest_tokens
        return (
            self.usage in (None, start.usage)
            and (not self.hardware.names or self.hardware.has(start.hardware))
            and not self.but_not.has(start.hardware)
            and start.memory_bytes >= self.least_memory_bytes
            and (most is None or (longest is not None and longest <= most))
        )

    def says(self, name: str, start: Start) -> float | None:
        """What it says of a setting there, if anything."""
        if name == "memory_utilization_ratio" and self.kept_bytes is not None:
            return max(1.0 - self.kept_bytes / start.memory_bytes, _LEAST_SHARE)
        value = getattr(self, name)
        return None if value is None else float(value)


#: Sets of rules that are the engine's own: of its generation, and of all its releases.
_OWN_SETS = 2


class NoDefault(NotFound):
    """That no rule says what an engine starts with."""


def starting_with(
    sets: Iterable[Iterable[DefaultsRule]], start: Start, asked: dict[str, float | None]
) -> StartSettings:
    """What an engine runs with: what settings ask for, else its defaults.

    Parameters
    ----------
    sets
        Rules of the generation, of the engine, and of those whose stand in, the nearest first.
        Within a set, later rules outdo earlier ones.
    start
        Where and how it is started.
    asked
        What settings ask for by name, None where they leave it to the engine.

    Raises
    ------
    NoDefault
        If no rule states a value that settings leave open.
    """
    held = [[rule for rule in rules if rule.holds(start)] for rules in sets]

    def stated(name: str) -> float:
        for rules in held:
            for rule in reversed(rules):
                if (value := rule.says(name, start)) is not None:
                    return value
        raise NoDefault(name)

    def own(name: str) -> float:
        """What the engine's own rules say, 0 if nothing: those of others do not stand in."""
        return next(
            (
                value
                for rules in held[:_OWN_SETS]
                for rule in reversed(rules)
                if (value := rule.says(name, start)) is not None
            ),
            0.0,
        )

    values = {
        name: stated(name) if (value := asked.get(name)) is None else float(value)
        for name in START_SETTINGS
    }
    if asked.get("chunked_prefill_tokens") is None and stated("whole_prompts"):
        longest = start.longest_tokens or 0.0
        values["chunked_prefill_tokens"] = max(values["chunked_prefill_tokens"], longest)
    return StartSettings(**values, prompts_apart=own("prompts_apart"))
