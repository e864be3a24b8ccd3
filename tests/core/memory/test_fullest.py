"""The fullest stage, whatever the shape of its figures."""

from dataclasses import dataclass

import numpy as np
import pytest

from service.core.elementwise import Number
from service.core.memory.fullest import fullest


@dataclass(frozen=True)
class Stage:
    """A stage with a size."""

    size: Number


@pytest.mark.parametrize(
    ("sizes", "found"),
    [
        ((1.0, 2.0), 2.0),
        ((np.array(3.0), np.array(2.0)), 3.0),
        ((np.array([]), np.array([])), []),
        ((np.array([1.0, 5.0]), np.array([2.0, 2.0])), [2.0, 5.0]),
        ((np.array([1.0, 1.0]), 2.0), 2.0),
    ],
)
def test_each_element_is_of_its_fullest_stage(sizes, found):
    largest = fullest([Stage(one) for one in sizes], lambda stage: stage.size)
    assert np.array_equal(largest.size, found)
