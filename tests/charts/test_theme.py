"""Charts can be read: colours stand out from their background, and text from its colour."""

from __future__ import annotations

import pytest

from service.charts.theme import OKABE_ITO, THEMES, contrast_ratio, ink_on


def test_contrast_is_that_of_the_standard():
    assert contrast_ratio("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast_ratio("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("name", THEMES)
def test_text_and_lines_stand_out(name):
    theme = THEMES[name]
    for colour in (theme.ink, theme.muted):
        assert contrast_ratio(colour, theme.background) >= 4.5
    for colour in theme.lines:
        assert colour in OKABE_ITO.values()
        assert contrast_ratio(colour, theme.background) >= 3.0


@pytest.mark.parametrize("colour", [*OKABE_ITO.values(), "#999999"])
def test_figures_on_bars_can_be_read(colour):
    assert contrast_ratio(ink_on(colour), colour) >= 4.5
