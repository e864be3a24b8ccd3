"""What EcoLogits estimates for the runs whose energy was measured, to compare with.

Its published formula, written down here from its documentation: energy per generated token on one
H100 as a fit over active parameters at a batch size, times a number of accelerators that follows
from the memory of the weights. Prompts, formats, accelerator and actual batch do not enter.

References
----------
Rincé and Banse, EcoLogits: Evaluating the Environmental Impacts of Generative AI, 2025,
https://doi.org/10.21105/joss.07471; methodology of LLM inference, coefficients of version 0.11.3,
https://ecologits.ai/latest/methodology/llm_inference/.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil, exp, log2

from service.catalog.snapshot import CatalogSnapshot
from service.validation.report.peers import Beside
from service.validation.report.statistics import Compared

VERSION = "0.11.3"
BATCH_SIZE = 64
WEIGHT_BITS = 16
ACCELERATOR_MEMORY_GB = 80.0

_ENERGY_ALPHA = 1.1665273170451914e-06
_ENERGY_BETA = -0.011205921025579175
_ENERGY_GAMMA = 4.052928146734005e-05
_LATENCY_ALPHA_S = 0.0006785088094353663
_LATENCY_BETA_S = 0.0003119310311688259
_LATENCY_GAMMA_S = 0.019473717579473387
_SERVER_WITHOUT_ACCELERATORS_W = 1200.0
_SERVER_ACCELERATORS = 8
_MEMORY_OVERHEAD = 1.2
_JOULES_PER_WH = 3600.0
_SECONDS_PER_HOUR = 3600.0
_OF_OUTPUT = "accelerator_energy_per_output_token_j"
_QUANTITIES = (_OF_OUTPUT, "accelerator_energy_per_request_j")


def accelerators_needed(total_parameters_b: float) -> int:
    """Accelerators that EcoLogits takes for a model: a power of two that holds its weights."""
    memory_gb = _MEMORY_OVERHEAD * total_parameters_b * WEIGHT_BITS / 8.0
    return int(2 ** ceil(log2(ceil(memory_gb / ACCELERATOR_MEMORY_GB))))


def accelerator_wh_per_token(active_parameters_b: float) -> float:
    """Energy of one accelerator per generated token [Wh]."""
    batch_factor = exp(_ENERGY_BETA * BATCH_SIZE)
    return _ENERGY_ALPHA * batch_factor * active_parameters_b + _ENERGY_GAMMA


def request_kwh(
    active_parameters_b: float, total_parameters_b: float, output_tokens: float, pue_ratio: float
) -> float:
    """Energy of a request, servers and building included [kWh].

    Parameters
    ----------
    active_parameters_b, total_parameters_b
        Parameters [billions].
    output_tokens
        Generated tokens.
    pue_ratio
        Of the building [-].
    """
    accelerators = accelerators_needed(total_parameters_b)
    latency_s = output_tokens * (
        _LATENCY_ALPHA_S * active_parameters_b + _LATENCY_BETA_S * BATCH_SIZE + _LATENCY_GAMMA_S
    )
    server_wh = (
        latency_s
        / _SECONDS_PER_HOUR
        * _SERVER_WITHOUT_ACCELERATORS_W
        * accelerators
        / _SERVER_ACCELERATORS
        / BATCH_SIZE
    )
    accelerators_wh = accelerators * output_tokens * accelerator_wh_per_token(active_parameters_b)
    return pue_ratio * (server_wh + accelerators_wh) / 1000.0


def beside_ecologits(compared: Iterable[Compared], snapshot: CatalogSnapshot) -> list[Beside]:
    """EcoLogits' energy of accelerators for every comparison that its formula can speak to."""
    found = []
    for entry in compared:
        joules = _accelerators_j(entry, snapshot)
        if joules is not None:
            found.append(Beside(entry, joules))
    return found


def _accelerators_j(entry: Compared, snapshot: CatalogSnapshot) -> float | None:
    """Energy of all accelerators in the quantity's unit [J]; None for other quantities."""
    model = snapshot.models.get(entry.model)
    if model is None or entry.quantity not in _QUANTITIES:
        return None
    total, active = model.value.total_parameters / 1e9, model.value.active_parameters / 1e9
    per_token = accelerators_needed(total) * accelerator_wh_per_token(active) * _JOULES_PER_WH
    return per_token * (1.0 if entry.quantity == _OF_OUTPUT else entry.output_tokens)
