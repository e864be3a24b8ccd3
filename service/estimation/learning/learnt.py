"""What own measurements did to an estimate, and how it is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import exp
from types import MappingProxyType

from service.core.explanation import EstimateWarning, Formula, Step, explain, paths
from service.core.interval import Z_90
from service.core.learning import IMPLAUSIBLE_RATIO, NO_CORRECTIONS, Corrections, Taught
from service.estimation.answers import CalibrationUsed, ChannelCorrection

#: What each channel is called in a sentence.
_CALLED: Mapping[str, str] = MappingProxyType(
    {
        "decode": "the time of decoding",
        "prefill": "the time of prompts",
        "step": "the time of a training step",
        "memory": "memory beside weights and caches",
        "power": "power above idle",
    }
)
_SOURCE = "Gaussian posterior on log errors, see the page about the method"
#: Corrections within this of 1 are not worth a word.
_UNCHANGED_RATIO = 0.005


@dataclass(frozen=True, slots=True)
class Lesson:
    """What reports say of one channel of a deployment.

    ``log_sigma`` is its published spread [-].
    """

    taught: Taught
    log_sigma: float

    @property
    def correction_ratio(self) -> float:
        """What the published figure is multiplied by [-]."""
        return self.taught.correction.ratio

    @property
    def own_log_sigma(self) -> float:
        """What is left of the spread [-]."""
        return self.log_sigma * self.taught.correction.spread_ratio

    @property
    def spread_ratio(self) -> float:
        """What is left of the spread over what was published [-]."""
        return self.taught.correction.spread_ratio

    @property
    def reports(self) -> str:
        """The reports that it comes from."""
        return "reports " + ", ".join(str(id_) for id_ in self.taught.shared_ratio)


@dataclass(frozen=True, slots=True)
class Learnt:
    """What reports of a revision say of a deployment, by channel.

    ``ignored`` are reports of like deployments that are too far off to be true.
    """

    revision: int
    lessons: Mapping[str, Lesson]
    ignored: tuple[int, ...]

    @property
    def corrections(self) -> Corrections:
        """The lessons as the core takes them."""
        if not self.lessons:
            return NO_CORRECTIONS
        return Corrections(
            **{channel: lesson.taught.correction for channel, lesson in self.lessons.items()}
        )

    @property
    def reports(self) -> tuple[int, ...]:
        """Numbers of the reports that say something of the deployment."""
        return tuple(
            sorted({id_ for one in self.lessons.values() for id_ in one.taught.shared_ratio})
        )

    @property
    def summary(self) -> str:
        """What the reports did, in a sentence."""
        count = len(self.reports)
        if not count:
            return "None of your reports is about anything like this."
        moved = [
            f"{_CALLED[channel]} by {_percent(lesson.correction_ratio)}"
            for channel, lesson in self.lessons.items()
            if abs(lesson.correction_ratio - 1.0) >= _UNCHANGED_RATIO
        ]
        whose = "1 report of yours" if count == 1 else f"{count} reports of yours"
        if not moved:
            return f"{whose} confirmed the published estimate."
        return f"{whose} moved {_joined(moved)}."

    @property
    def block(self) -> CalibrationUsed:
        """What an answer says of it."""
        return {
            "mode": "own",
            "revision": self.revision,
            "reports": list(self.reports),
            "corrections": {channel: _written(one) for channel, one in self.lessons.items()},
            "summary": self.summary,
        }

    def warnings(self) -> Iterator[EstimateWarning]:
        """What to say about reports that moved nothing."""
        if self.ignored:
            named = ", ".join(str(id_) for id_ in self.ignored)
            yield EstimateWarning(
                "reports_ignored",
                f"figures of your report{'s' if len(self.ignored) > 1 else ''} {named} are more "
                f"than {IMPLAUSIBLE_RATIO:.0f} times off their estimates and were left out; "
                "withdraw or repeat what was reported by mistake",
            )

    def steps(self) -> tuple[Step, ...]:
        """How the spread of each channel came about."""
        return tuple(
            step
            for channel, lesson in self.lessons.items()
            for step in explain(lesson, _formulas(channel))
        )


def learnt_steps(learnt: Learnt | None) -> tuple[Step, ...]:
    """Steps of what own measurements changed, none without them."""
    return () if learnt is None else learnt.steps()


def _formulas(channel: str) -> tuple[Formula, ...]:
    return (
        Formula(
            f"{channel}_own_log_sigma",
            "log_sigma * spread_ratio",
            _SOURCE,
            "own_log_sigma",
            paths("log_sigma", "spread_ratio", "reports"),
            unit="1",
        ),
    )


def _written(lesson: Lesson) -> ChannelCorrection:
    before, after = (exp(2.0 * Z_90 * each) for each in (lesson.log_sigma, lesson.own_log_sigma))
    taught = lesson.taught
    return {
        "correction_ratio": lesson.correction_ratio,
        "published_log_sigma": lesson.log_sigma,
        "own_log_sigma": lesson.own_log_sigma,
        "published_width_ratio": before,
        "own_width_ratio": after,
        "reports": [
            {"report": id_, "likeness_ratio": share, "weight_ratio": taught.weight_ratio[id_]}
            for id_, share in taught.shared_ratio.items()
        ],
    }


def _percent(ratio: float) -> str:
    sign = "+" if ratio >= 1.0 else "−"
    return f"{sign}{abs(ratio - 1.0) * 100.0:.0f} %"


def _joined(parts: list[str]) -> str:
    return " and ".join([", ".join(parts[:-1]), parts[-1]]) if len(parts) > 1 else parts[0]
