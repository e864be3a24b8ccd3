"""Layouts that are tried where a request does not say how a model is divided."""

import pytest

from service.catalog.snapshot import CatalogSnapshot
from service.core.memory.training.memory import training_memory
from service.estimation.resolution import Problems
from service.estimation.training.fitting import is_beyond
from service.estimation.training.requests import TrainingRequest
from service.estimation.training.setup import ResolvedTraining, as_told


def run(snapshot: CatalogSnapshot, tensor: int, zero_stage: int) -> ResolvedTraining:
    asked = {
        "model": "meta-llama/Llama-3.1-70B",
        "accelerator": "nvidia-h100-sxm-80gb",
        "accelerator_count": 64,
        "parallelism": {"tensor": tensor},
        "training": {"framework": "megatron-lm", "zero_stage": zero_stage},
    }
    return as_told(TrainingRequest.model_validate(asked), snapshot, Problems())


@pytest.mark.parametrize("tensor", [1, 2, 4, 8])
def test_no_stage_makes_fit_whatis_beyond_it(
    packaged_snapshot: CatalogSnapshot, tensor: int
) -> None:
    whole, divided = (run(packaged_snapshot, tensor, stage) for stage in (0, 1))
    if is_beyond(whole.memory, (1,)):
        assert not divided.memory.fits
    # A further stage divides gradients, of which nothing is told then.
    assert not is_beyond(whole.memory, (1, 2))


def test_whether_a_run_fits_is_told_without_what_ranges_reach_over(
    packaged_snapshot: CatalogSnapshot,
) -> None:
    one = run(packaged_snapshot, 8, 1)
    setup = one.setup
    whole = training_memory(setup.deployment, setup.micro_batch, setup.settings, one.overheads)
    assert one.memory.total_bytes.value == whole.total_bytes.value
    assert one.memory.headroom_bytes.value == whole.headroom_bytes.value
    assert one.memory.fits == whole.fits
