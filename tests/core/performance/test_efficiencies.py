"""Shares of peak that products reach, by the width of their operands."""

import pytest

from service.core.interval import exact
from service.core.performance.calibration import matrix_ratios

SHARES = {"matrix_32bit_ratio": exact(0.7), "matrix_16bit_ratio": exact(0.7)}
NARROW = {"narrow_8bit_ratio": exact(0.9), "narrow_4bit_ratio": exact(0.5)}


def test_narrow_products_are_as_far_from_their_peak_as_16_bit_ones():
    """What keeps matrix units of a family waiting keeps them waiting at any width."""
    found = matrix_ratios(SHARES | NARROW)
    assert found == pytest.approx({32: 0.7, 16: 0.7, 8: 0.63, 4: 0.35})
    slower = matrix_ratios(SHARES | NARROW | {"matrix_16bit_ratio": exact(0.35)})
    assert slower[8] == pytest.approx(found[8] / 2.0)


def test_revisions_of_the_catalog_that_know_shares_of_narrow_peaks_keep_their_meaning():
    own = {"matrix_8bit_ratio": exact(0.6), "matrix_4bit_ratio": exact(0.4)}
    assert matrix_ratios(SHARES | own) == pytest.approx({32: 0.7, 16: 0.7, 8: 0.6, 4: 0.4})
