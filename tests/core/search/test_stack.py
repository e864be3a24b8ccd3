"""Stacks carry every figure of everything in them, or refuse."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

from service.core.engine_defaults import StartSettings
from service.core.interval import Interval
from service.core.search.batch_evaluation import AcceleratorOption
from service.core.search.stack import SEVERAL, stacked, stacking_key
from service.core.search.training_candidates import TrainingAcceleratorOption
from service.core.stacking import Stacking, declared
from service.estimation.calibrations import calibration
from service.estimation.training.calibrations import training_figures


@pytest.fixture(scope="module")
def option(packaged_snapshot):
    accelerator = packaged_snapshot.find("accelerators", "nvidia-h100-sxm-80gb").value
    figures = training_figures(packaged_snapshot, "default", accelerator)
    return (
        AcceleratorOption(
            accelerator,
            calibration(packaged_snapshot, "vllm", accelerator).performance,
            StartSettings(1024.0, 8192.0, 0.9),
        ),
        TrainingAcceleratorOption(accelerator, figures.efficiency, figures.host(accelerator)),
    )


def parts(value, path=()):
    """Every field of a value and of the values in it, with its declaration and how to reach it."""
    for name, stacking in declared(type(value)):
        inner = getattr(value, name)
        yield (*path, name), stacking
        if is_dataclass(inner) and not isinstance(inner, Interval):
            yield from parts(inner, (*path, name))


def read(value, path):
    for name in path:
        value = getattr(value, name)
    return value


def written(value, path, changed):
    """The value with another one at the end of a path."""
    name, *rest = path
    inner = written(getattr(value, name), rest, changed) if rest else changed
    return replace(value, **{name: inner})


def another(value):
    """Something of the same kind that differs."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, Interval):
        return Interval(value.value * 2.0, value.low * 1.5, value.high * 3.0)
    if isinstance(value, Mapping):
        return {key: each * 2.0 + 1.0 for key, each in value.items()}
    if isinstance(value, frozenset):
        return value | {"another"}
    if isinstance(value, str):
        return f"not {value}"
    return 1.0 if value is None else value * 2.0 + 1.0


def numbers(value):
    """The numbers that a figure is made of; NaN for what is not known."""
    if isinstance(value, Interval):
        return (value.value, value.low, value.high)
    return tuple(value.values()) if isinstance(value, Mapping) else (value,)


@pytest.mark.parametrize("which", [0, 1])
def test_a_stack_carries_both_values_of_any_one_figure_or_refuses(option, which):
    one, seen = option[which], set()
    for path, stacking in parts(one):
        value = read(one, path)
        if is_dataclass(value) and not isinstance(value, Interval):
            continue
        other = written(one, path, another(value))
        seen.add(stacking)
        if stacking is Stacking.ALIKE:
            assert stacking_key(one) != stacking_key(other), path
            with pytest.raises(ValueError, match=path[-1]):
                stacked([one, other], 3)
            continue
        assert stacking_key(one) == stacking_key(other), path
        together = read(stacked([one, other], 3), path)
        if stacking is Stacking.NAME:
            assert together == SEVERAL, path
            continue
        before, after = numbers(value), numbers(read(other, path))
        if value is None:
            before = (np.nan,) * len(after)
        for column, first, second in zip(numbers(together), before, after, strict=True):
            expected = np.repeat([float(first), float(second)], 3)
            np.testing.assert_array_equal(np.broadcast_to(column, 6), expected, str(path))
    assert seen == set(Stacking)


@pytest.mark.parametrize("which", [0, 1])
def test_every_field_in_a_stack_is_declared(option, which):
    kinds = {type(option[which])}
    for path, _ in parts(option[which]):
        inner = read(option[which], path)
        if is_dataclass(inner) and not isinstance(inner, Interval):
            kinds.add(type(inner))
    for kind in kinds:
        assert [name for name, _ in declared(kind)] == [field.name for field in fields(kind)]
    assert len(kinds) >= 6


def test_a_class_that_declares_nothing_is_refused():
    with pytest.raises(TypeError, match="value, low, high"):
        declared(Interval)
