"""Speculative decoding of a request: which draft, accepted how often."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from service.catalog.entries.entry import Entry
from service.catalog.snapshot import CatalogSnapshot
from service.core.architecture.model import ModelArchitecture
from service.core.deployment import Parallelism, Speculation
from service.core.engines import EngineRelease
from service.core.explanation import EstimateWarning
from service.core.interval import Z_90, Interval
from service.core.performance.inference.speculation import expected_tokens
from service.core.search.batch_evaluation import SpeculationOption
from service.estimation.layouts import check_division
from service.estimation.loaded_formats import loaded_precision
from service.estimation.requests import SpeculativeRequest
from service.estimation.resolution import Problems, resolve_model, served_precision

#: Share of drafted tokens that are accepted. Source: Leviathan, Kalman, Matias, Fast Inference
#: from Transformers via Speculative Decoding, 2023, table 3, https://arxiv.org/abs/2211.17192
#: (0.5 to 0.9 between tasks and drafts).
_USUAL_ACCEPTANCE = Interval(0.7, 0.5, 0.9)


@dataclass(frozen=True, slots=True)
class ResolvedSpeculation:
    """The draft of a request; ``log_sigma`` is what not knowing the acceptance adds to TPOT."""

    value: Speculation
    draft: Entry[ModelArchitecture] | None
    log_sigma: float
    warnings: tuple[EstimateWarning, ...]


def resolve_speculation(
    asked: SpeculativeRequest | None,
    parallelism: Parallelism,
    release: EngineRelease,
    snapshot: CatalogSnapshot,
    problems: Problems,
    pointer: str = "/serving/speculative",
) -> ResolvedSpeculation | None:
    """The draft that a request asks for at ``pointer``, or None where it asks for none.

    It is loaded as the engine's ``release`` loads models where nobody says. Notes a draft model
    that is unknown, or that cannot be divided as the model is.
    """
    if asked is None:
        return None
    draft = None
    if asked.draft_model is not None:
        wanted = asked.draft_model
        place = f"{pointer}/draft_model"
        draft = problems.attempt(place, lambda: resolve_model(wanted, snapshot))
        if draft is not None:
            if not draft.value.generates or draft.value.encoder is not None:
                problems.add(place, f"{draft.id} has an encoder and cannot draft")
            check_division(draft.value, parallelism, place, problems)
    acceptance, log_sigma = asked.acceptance_ratio, 0.0
    warnings: list[EstimateWarning] = []
    if draft is not None:
        warnings += draft.value.warnings
    if acceptance is None:
        usual, drafted = _USUAL_ACCEPTANCE, asked.draft_tokens
        acceptance = float(usual.value)
        most = expected_tokens(usual.high, drafted) / expected_tokens(usual.low, drafted)
        log_sigma = log(most) / 2.0 / Z_90
        warnings.append(
            EstimateWarning(
                "acceptance_assumed",
                "70 % of drafted tokens are assumed to be accepted (50 to 90 %), which depends "
                "on the task: state your own share if you know it",
            )
        )
    precision = None
    if draft is not None and release.engine in snapshot.engines:
        loaded = loaded_precision(asked.draft_precision, draft.value, release, snapshot)
        precision = served_precision(loaded, draft.value, problems, f"{pointer}/draft_precision")
    value = Speculation(
        draft_tokens=asked.draft_tokens,
        acceptance_ratio=acceptance,
        architecture=None if draft is None else draft.value,
        precision=precision,
    )
    return ResolvedSpeculation(value, draft, log_sigma, tuple(warnings))


def speculation_option(resolved: ResolvedSpeculation | None) -> SpeculationOption:
    """A way to decode as searches try it; token by token without a draft."""
    if resolved is None:
        return SpeculationOption()
    return SpeculationOption(resolved.value, resolved.log_sigma)
