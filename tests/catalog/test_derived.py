"""What is derived from a snapshot: worked out once, and gone with it."""

from __future__ import annotations

import gc
from typing import Any

from service.catalog.derived import derived
from service.catalog.snapshot import CatalogSnapshot, snapshot_from_documents
from service.estimation.inference.estimate import inference_estimate
from service.estimation.inference.requests import InferenceRequest
from service.portal.options import options
from tests.conftest import packaged

#: A revision that no other test's snapshot has.
REVISION = 987_654_321


def revisions_alive() -> set[int]:
    gc.collect()
    return {each.revision for each in gc.get_objects() if isinstance(each, CatalogSnapshot)}


def test_results_are_kept_for_each_snapshot_and_each_argument(packaged_snapshot) -> None:
    asked: list[Any] = []

    @derived(most=2)
    def times(snapshot: CatalogSnapshot, count: int) -> int:
        asked.append((snapshot, count))
        return count * len(asked)

    other = packaged_snapshot.with_reports(None)
    assert [times(packaged_snapshot, 1), times(packaged_snapshot, 2)] == [1, 4]
    assert [times(packaged_snapshot, 1), times(packaged_snapshot, 2)] == [1, 4]
    assert times(other, 1) == 3
    assert asked == [(packaged_snapshot, 1), (packaged_snapshot, 2), (other, 1)]
    times(packaged_snapshot, 3)
    assert times(packaged_snapshot, 1) == 5, "only so many are kept"


def test_a_snapshot_goes_with_all_that_was_derived_from_it() -> None:
    snapshot = snapshot_from_documents(packaged(), REVISION, checked=True)
    example = InferenceRequest.model_json_schema()["examples"][0]
    inference_estimate(InferenceRequest.model_validate(example), snapshot)
    options(snapshot)
    assert REVISION in revisions_alive()
    del snapshot
    assert REVISION not in revisions_alive()
