"""Names as sentences have them."""

from __future__ import annotations

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.estimation.wording import in_a_sentence, sentence


@pytest.mark.parametrize(
    ("name", "within"),
    [
        ("United States", "the United States"),
        ("Dominican Republic", "the Dominican Republic"),
        ("Cayman Islands", "the Cayman Islands"),
        ("Sweden", "Sweden"),
        ("Stockholm (AWS)", "Stockholm (AWS)"),
    ],
)
def test_some_places_have_an_article(name: str, within: str) -> None:
    assert in_a_sentence(name) == within


def test_ids_are_told_as_names(packaged_snapshot: CatalogSnapshot) -> None:
    assert sentence("the grid of country/US", packaged_snapshot) == "The grid of the United States."
    assert sentence("country/NL is small", packaged_snapshot) == "The Netherlands is small."
