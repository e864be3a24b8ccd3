"""How alike deployments are: shares of the variance of errors, fitted to sources left out.

Each source is an organisation. How large its errors are on the whole is one thing, and what they
have in common another: errors are taken in multiples of their source's root mean square, so that
few sources that are far off do not decide for all. Variances of what rows share are then found by
maximum likelihood with an update that never makes one negative, every source counting for the root
of its rows.

References
----------
Zhou, Hu, Zhou, Lange, MM algorithms for variance components models, 2019,
https://doi.org/10.1080/10618600.2018.1529601
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import isfinite, sqrt

import numpy as np
from numpy.typing import NDArray

from service.core.learning import CHANNELS, Kin, Likeness, same_parts
from service.validation.learning.rows import SourceRow, main_channel

Matrix = NDArray[np.float64]

#: Errors of more published spreads than this say that something else is wrong.
_MOST_SPREADS = 4.0
#: Share of a figure's variance that its channel explains at least for the figure to tell of it.
_LEAST_SHARE_RATIO = 0.7
#: Largest number of rows of a source: enough, and the time grows with the cube.
_MOST_ROWS = 120
_PASSES = 100
#: Sources that what all channels share weighs as much as.
_SHRUNK_SOURCES = 3.0
_LEAST_ROW_RATIO = 0.05
_DIGITS = 3
#: What models have in common beside their own is believed by half, and counted to each model on its
#: hardware instead: some sources have much of it and most have little, which one share cannot say.
_DOUBTED = ("hardware_engine_ratio", "organisation_ratio")
_BELIEVED_RATIO = 0.5


@dataclass(frozen=True, slots=True)
class FittedLikeness:
    """Shares of a channel, and what they come from; ``sources`` are rows by source."""

    likeness: Likeness
    sources: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Block:
    """Errors of one source and one channel, one for each run, of a mean square of 1 [-]."""

    source: str
    kins: Sequence[Kin]
    errors: Matrix


def fitted_likeness(rows: Iterable[SourceRow]) -> dict[str, FittedLikeness]:
    """Shares by channel; channels of few sources lean on what all have in common."""
    blocks = _blocks(rows)
    usual = _shares([block for found in blocks.values() for block in found])
    fitted = {}
    for channel in CHANNELS:
        own = blocks.get(channel, [])
        weight = len(own) / (len(own) + _SHRUNK_SOURCES)
        shares = weight * _shares(own) + (1.0 - weight) * usual if own else usual
        fitted[channel] = FittedLikeness(
            _likeness(shares), {block.source: len(block.kins) for block in own}
        )
    return fitted


def _blocks(rows: Iterable[SourceRow]) -> dict[str, list[_Block]]:
    found: dict[tuple[str, str], list[tuple[Kin, float]]] = defaultdict(list)
    for row in rows:
        by_channel: dict[str, list[float]] = defaultdict(list)
        sigma = row.report.log_sigma
        for seen in row.report.observations:
            if seen.nonsense or not seen.tells:
                continue
            channel, share = main_channel(seen, sigma)
            error = seen.log_ratio / (seen.elasticity_ratio[channel] * (sigma[channel] or np.inf))
            if share >= _LEAST_SHARE_RATIO and isfinite(error) and sigma[channel] > 0.0:
                by_channel[channel].append(float(np.clip(error, -_MOST_SPREADS, _MOST_SPREADS)))
        for channel, errors in by_channel.items():
            found[channel, row.source].append((row.report.kin, float(np.median(errors))))
    blocks: dict[str, list[_Block]] = defaultdict(list)
    for (channel, source), runs in sorted(found.items()):
        chosen = runs[:: max(1, -(-len(runs) // _MOST_ROWS))]
        if len(chosen) > 1:
            told = np.array([error for _, error in chosen])
            size = float(np.sqrt((told**2).mean()))
            if size > 0.0:
                blocks[channel].append(_Block(source, [kin for kin, _ in chosen], told / size))
    return blocks


def _shares(blocks: Sequence[_Block]) -> Matrix:
    """Shares of the parts in the order of :class:`Likeness`, adding up to one."""
    prepared = [
        (block.errors, [*same_parts(block.kins, block.kins).values(), np.eye(len(block.kins))])
        for block in blocks
    ]
    count = len(prepared[0][1])
    variances: Matrix = np.full(count, 1.0 / count)
    for _ in range(_PASSES):
        fitted, expected = np.zeros(count), np.zeros(count)
        for errors, parts in prepared:
            covariance = sum(
                (variance * part for variance, part in zip(variances, parts, strict=True)),
                np.eye(len(errors)) * 1e-9,
            )
            inverse = np.linalg.inv(covariance)
            weighted = inverse @ errors
            weight = 1.0 / sqrt(len(errors))
            for at, part in enumerate(parts):
                fitted[at] += weight * float(weighted @ part @ weighted)
                expected[at] += weight * float((inverse * part).sum())
        variances = variances * np.sqrt(fitted / expected)
    shares: Matrix = variances / variances.sum()
    return shares


def _likeness(shares: Matrix) -> Likeness:
    """Shares with the digits that a fit can tell apart; that of a run makes up for the rest."""
    alone = max(float(shares[-1]), _LEAST_ROW_RATIO)
    scaled = shares[:-1] * (1.0 - alone) / max(float(shares[:-1].sum()), 1e-9)
    kept = {
        name: round(float(share), _DIGITS)
        for name, share in zip(Likeness.__dataclass_fields__, scaled, strict=False)
    }
    for name in _DOUBTED:
        half = round(kept[name] * _BELIEVED_RATIO, _DIGITS)
        kept["model_hardware_ratio"] += kept[name] - half
        kept[name] = half
    kept = {name: round(share, _DIGITS) for name, share in kept.items()}
    return Likeness(**kept, row_ratio=round(1.0 - sum(kept.values()), _DIGITS))


def figures_of(likeness: Likeness) -> Mapping[str, float]:
    """The shares by the names of their figures."""
    return asdict(likeness)
