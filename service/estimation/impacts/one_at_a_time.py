"""What to say of a deployment in a data centre that is asked about without a load."""

from __future__ import annotations

from service.core.explanation import EstimateWarning
from service.estimation.costs.price_remarks import OF_ONE_PERSON
from service.estimation.inference.deployment import ComputedDeployment
from service.estimation.requests import WorkloadRequest

_ONE_AT_A_TIME = EstimateWarning(
    "one_request_at_a_time",
    "energy and footprint are for one request at a time, because neither a concurrency nor a rate "
    "is given: a service that answers many requests together uses a fraction of that for each",
    "it_energy_per_request_wh",
)


def load_warnings(
    asked: WorkloadRequest, computed: ComputedDeployment
) -> tuple[EstimateWarning, ...]:
    """That a request has all accelerators to itself, where services share them and none said so."""
    machine = computed.resolved.machine
    shared = machine is not None and machine.value.platform.kind not in OF_ONE_PERSON
    told = asked.requests_per_s is not None or "concurrency" in asked.model_fields_set
    return (_ONE_AT_A_TIME,) if shared and not told else ()
