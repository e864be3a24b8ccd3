"""Groups of data-parallel ranks that each hold a copy of what ZeRO divides (hybrid sharding)."""

from __future__ import annotations

from math import gcd

from service.core.architecture.sharding import divisors
from service.core.deployment import Accelerator, Parallelism
from service.core.engines import Engine
from service.core.memory.training.settings import TrainingSettings
from service.core.recipes import Recipes
from service.estimation.resolution import Problems
from service.estimation.training.requests import TrainingSettingsRequest

#: What stands for as many ranks as a machine has.
OF_A_MACHINE = "machine"
GROUPED = "data_parallel_shard_degree"
SECONDARY = "secondary_shard_degree"
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
    degree = _ranks(
        asked.data_parallel_shard_degree or recipes.unless_told.get(GROUPED),
        parallelism,
        accelerator,
    )
    second = _ranks(asked.secondary_shard_degree, parallelism, accelerator)
    untold = asked.data_parallel_shard_degree is None
    if untold and (degree == parallelism.data or not asked.zero_stage):
        degree = None
    return asked.model_copy(update={GROUPED: degree, SECONDARY: second})


def _ranks(told: object, parallelism: Parallelism, accelerator: Accelerator | None) -> int | None:
    """Ranks of a group as a number: those of a machine beside what divides a copy of the model."""
    if told == OF_A_MACHINE and accelerator is not None:
        room = int(accelerator.platform.accelerators_of_a_host)
        each = max(room // (parallelism.tensor * parallelism.context), 1)
        degree = gcd(each, parallelism.data)
        return None if degree * parallelism.context == 1 else degree
    return told if isinstance(told, int) else None


def check_messages(asked: TrainingSettingsRequest, framework: Engine, problems: Problems) -> None:
    """Note second copies of weights, and formats on their way, that a framework does not have."""
    recipes = framework.recipes
    if asked.secondary_shard_degree is not None and not recipes.secondary_shards:
        problems.add(
            f"/training/{SECONDARY}",
            f"{framework.name} holds no second copy of divided weights; leave it out, or use "
            "another framework, such as deepspeed",
        )
    for name, told, known in (
        ("weight_gather_dtype", asked.weight_gather_dtype, recipes.gathers_in),
        ("gradient_scatter_dtype", asked.gradient_scatter_dtype, recipes.scatters_in),
    ):
        if told is not None and told not in known:
            others = f"use {' or '.join(sorted(known))}, " if known else "leave it out, "
            problems.add(
                f"/training/{name}",
                f"{framework.name} sends nothing in {told}; {others}or use another framework, such "
                f"as {'torchtitan' if told == 'fp8' else 'deepspeed'}",
            )


def check_shard_groups(
    settings: TrainingSettings, parallelism: Parallelism, problems: Problems
) -> None:
    """Note groups that do not make up the data-parallel ranks, or have nothing to divide."""
    _check_second_copies(settings, parallelism, problems)
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


def _check_second_copies(
    settings: TrainingSettings, parallelism: Parallelism, problems: Problems
) -> None:
    """Note second copies of weights that ranks do not make, or that there is nothing to copy of."""
    degree = settings.secondary_shard_degree
    if degree is None:
        return
    pointer = f"/training/{SECONDARY}"
    if settings.zero_stage < 3:
        problems.add(
            pointer,
            f"with zero_stage {settings.zero_stage} each rank holds all weights; use zero_stage 3, "
            "or leave it out",
        )
    elif settings.data_parallel_shard_degree is not None:
        problems.add(
            pointer, f"groups that hold all states gather within themselves; leave out {GROUPED}"
        )
    elif parallelism.pipeline > 1:
        problems.add(
            pointer, "in a pipeline weights stay gathered; leave it out, or use pipeline 1"
        )
    elif parallelism.data % degree:
        working = ", ".join(str(n) for n in divisors(parallelism.data))
        problems.add(
            pointer,
            f"{parallelism.data} data-parallel ranks do not make groups of {degree}; these work: "
            f"{working}",
        )
