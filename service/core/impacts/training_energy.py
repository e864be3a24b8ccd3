"""Power of accelerators while they train, and the energy of a step and of a whole run."""

from __future__ import annotations

from service.core.deployment import Accelerator
from service.core.elementwise import minimum, scaled
from service.core.explanation import Formula, paths
from service.core.impacts.energy import SECONDS_PER_HOUR, DeploymentPower, deployment_power
from service.core.impacts.infrastructure import Infrastructure
from service.core.interval import Interval, damped, exact, product, scale
from service.core.lightweight import lightweight
from service.core.memory.tiers import TierWorth
from service.core.memory.transfers import transfer_energy_j
from service.core.performance.calibration import PowerModel
from service.core.performance.training.run import TrainingRun
from service.core.performance.training.step import TrainingStep
from service.core.performance.usage import Usage, phase_use, reference_flops_per_s

_WATTS = 1000.0

#: Paths start at a ``TrainingEnergy``.
TRAINING = (
    Formula(
        "it_energy_per_step_kwh",
        "it_power_w * step_s / 3600 / 1000",
        "definition",
        "step_kwh",
        paths("power.it_power_w"),
    ),
    Formula(
        "it_energy_kwh",
        "it_power_w * wall_s / 3600 / 1000",
        "definition",
        "run_kwh",
        paths("run.wall_s", "power.it_power_w"),
    ),
)


@lightweight
class TrainingEnergy:
    """Power of all accelerators with their hosts, and IT energy before the building's share.

    ``run_kwh`` is that of the whole run, failures and restarts included, through which the
    accelerators draw what they draw in a step; None without a run.
    """

    power: DeploymentPower
    accelerators: int
    step_s: Interval
    run: TrainingRun | None

    @property
    def step_kwh(self) -> Interval:
        """Energy of a step [kWh]: where it takes less time, power that follows speed is higher."""
        return self._energy_kwh(self.step_s)

    @property
    def step_hours(self) -> Interval:
        """Accelerator-hours of a step [h]."""
        return scale(scale(self.step_s, 1.0 / SECONDS_PER_HOUR), self.accelerators)

    @property
    def run_kwh(self) -> Interval | None:
        """Energy of the whole run [kWh]."""
        if self.run is None:
            return None
        return self._energy_kwh(self.run.wall_s)

    def _energy_kwh(self, time_s: Interval) -> Interval:
        rest_s = damped(time_s, 1.0 - self.power.following_it_ratio)
        return scale(product(self.power.it_power_w, rest_s), 1.0 / SECONDS_PER_HOUR / _WATTS)


def training_energy(
    accelerator: Accelerator,
    accelerators: int,
    step: TrainingStep,
    step_s: Interval,
    run: TrainingRun | None,
    model: PowerModel,
    infrastructure: Infrastructure,
    tier: TierWorth | None = None,
) -> TrainingEnergy:
    """Power [W] and energy [kWh] of a training run.

    Parameters
    ----------
    accelerator, accelerators
        Device and how many.
    step, step_s
        Work of a step on one of them, and its time with an interval [s].
    run
        The whole run, if its tokens are known.
    model, infrastructure
        Fitted power by use, and what stands around the accelerators.
    tier
        What moving a bit to and from the memory tier takes, if there is one.

    Raises
    ------
    ValueError
        If the accelerator's thermal design power is unknown.
    """
    bandwidth = accelerator.memory_bandwidth_bytes_per_s
    messages_s = step.exposed_model_messages_s + step.exposed_data_messages_s
    waiting_s = messages_s + step.pipeline_bubble_s + step.overhead_s + step.offload_stall_s
    slowed = step.step_s / step.published_step_s
    usage = Usage(
        memory_utilisation_ratio=minimum(step.memory_bytes / step.step_s / bandwidth, 1.0),
        compute_utilisation_ratio=minimum(step.hfu_ratio, 1.0),
        busy_ratio=1.0,
        phases=(
            phase_use(
                1.0,
                step.step_s,
                waiting_s * slowed,
                step.memory_bytes,
                step.matrix_products_s + step.attention_s,
                reference_flops_per_s(accelerator),
                scaled(step.host_computing_s, slowed),
            ),
        ),
    )
    moved_w = exact(0.0)
    if tier is not None and tier.energy_pj_per_bit is not None:
        moved_w = transfer_energy_j(step.tier_traffic_bytes / step.step_s, tier.energy_pj_per_bit)
    power = deployment_power(accelerator, accelerators, usage, model, infrastructure, moved_w)
    return TrainingEnergy(power, accelerators, step_s, run)
