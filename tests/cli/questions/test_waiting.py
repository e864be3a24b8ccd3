"""Searches show on a terminal how far they are."""

from io import StringIO

import pytest
from rich.console import Console

from service.cli.questions import asking
from service.core.search.progress import nobody
from service.estimation.progress import watcher


@pytest.mark.parametrize(
    ("question", "terminal", "shown"),
    [
        ("recommendations/training", True, True),
        ("recommendations", False, False),
        ("estimates/inference", True, False),
    ],
)
def test_a_search_on_a_terminal_shows_its_share(monkeypatch, question, terminal, shown):
    written = StringIO()
    monkeypatch.setattr(
        asking, "notices", Console(file=written, force_terminal=terminal, width=100)
    )
    with asking._waiting(question):
        assert (watcher() is not nobody) is shown
        watcher()(0.5)
    assert watcher() is nobody
    assert ("searching configurations and places" in written.getvalue()) is shown
