"""Groups of data-parallel ranks that each hold a copy of what ZeRO divides (hybrid sharding)."""

from __future__ import annotations

from math import gcd

from service.core.architecture.sharding import divisors
from service.core.deployment import Accelerator, Parallelism
from service.core.memory.training.settings import TrainingSettings
from service.core.recipes import Recipes
from service.estimation.resolution import Problems
from service.estimation.training.requests import TrainingSettingsRequest

#: What stands for as many ranks as a machine has.
OF_A_MACHINE = "machine"
GROUPED = "data_parallel_shard_degree"
_PLACE = f"/training/{GROUPED}"


def with_shard_degree(
    asked: TrainingSettingsRequest,
    recipes: Recipes,
    parallelism: Parallelism,
    accelerator: Accelerator | None,
) -> TrainingSettingsRequest:
    """What was asked, with the ranks of a group as a number; None where all ranks are one.

    Those of a machine are as many as are in it together, beside what divides a copy of the model.
    Where nothing is divided, none are grouped untold.
    """
    told = asked.data_parallel_shard_degree or recipes.unless_told.get(GROUPED)
    degree = told if isinstance(told, int) else None
    if told == OF_A_MACHINE and accelerator is not None:
        room = int(accelerator.platform.accelerators_of_a_host)
        each = max(room // (parallelism.tensor * parallelism.context), 1)
        degree = gcd(each, parallelism.data)
        if degree * parallelism.context == 1:
            degree = None
    untold = asked.data_parallel_shard_degree is None
    if untold and (degree == parallelism.data or not asked.zero_stage):
        degree = None
    return asked.model_copy(update={GROUPED: degree})


def check_shard_groups(
    settings: TrainingSettings, parallelism: Parallelism, problems: Problems
) -> None:
    """Note groups that do not make up the data-parallel ranks, or have nothing to divide."""
    degree = settings.data_parallel_shard_degree
    if degree is None or not settings.zero_stage:
        return
    if parallelism.data % degree:
        working = ", ".join(str(n) for n in divisors(parallelism.data) if n > 1)
        problems.add(
            _PLACE,
            f"{parallelism.data} data-parallel ranks do not make groups of {degree}"
            + (f"; these work: {working}" if working else "; leave it out"),
        )
        return
    if degree * parallelism.context == 1 and parallelism.data > 1:
        problems.add(
            _PLACE, "a group of one rank divides nothing; use zero_stage 0 for whole copies"
        )
    shared = parallelism.expert * parallelism.expert_tensor
    group = degree * parallelism.context * parallelism.tensor
    if group % shared:
        problems.add(
            _PLACE,
            f"a group holds all experts, and its {group} accelerators are no multiple of the "
            f"{shared} among which they are divided; use more ranks in a group, or fewer for "
            "experts",
        )
