"""Claims in words, each with the figure that decides it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from service.core.claims.facts import Facts, Recompute, cache_bytes
from service.core.impacts.noise import Path, received_db

_TOKENS = 4096.0
#: Parameters that the documents mean by 7B, and bytes of each.
_PARAMETERS, _BYTES = 7e9, 2.0
_PCIE_4_BYTES_PER_S = 32e9
_NANOSECONDS = 1e9
#: Rated power of a machine of eight H100 [kW]. Source: NVIDIA, DGX H100 datasheet, 2022.
_DGX_H100_KW, _IN_A_RACK = 10.2, 4.0


def _quadratic_share(facts: Facts) -> float:
    """Attention over all earlier tokens, of the work of a sequence with a cache [-]."""
    model = facts.models["7B"]
    attended = 4.0 * model.hidden_size * (_TOKENS / 2.0) * model.layer_count
    return attended / (attended + 2.0 * _PARAMETERS)


def _twice_as_long(facts: Facts) -> float:
    return cache_bytes(facts.models["7B"], 2.0 * _TOKENS) / cache_bytes(facts.models["7B"], _TOKENS)


def _tokens_like_weights(facts: Facts) -> float:
    return _PARAMETERS * _BYTES / cache_bytes(facts.models["7B"], 1.0)


def _weight_of_a_token(_: Facts) -> float:
    """Weight of a token in a micro-batch half as long as the mean, if means are averaged."""
    short, long = 100.0, 300.0
    return (short + long) / 2.0 / short


def _memory_over_pages(facts: Facts) -> float:
    bandwidth = facts.accelerators["nvidia-a100-sxm-80gb"].memory_bandwidth_bytes_per_s
    return float(bandwidth) / _PCIE_4_BYTES_PER_S


def _hbm_latency_ns(facts: Facts) -> float:
    latency = facts.memory_tiers["hbm3"].latency_s
    if latency is None:
        raise KeyError("hbm3")
    return float(latency.value) * _NANOSECONDS


def _rack_kw(_: Facts) -> float:
    return _IN_A_RACK * _DGX_H100_KW


def _making_of_hbm(facts: Facts) -> float:
    made = [facts.memory_tiers[id_].embodied_kgco2e_per_gb for id_ in ("hbm3", "ddr5-8ch")]
    if made[0] is None or made[1] is None:
        raise KeyError("embodied_kgco2e_per_gb")
    return float(made[0].value / made[1].value)


def _at_61_m(_: Facts) -> float:
    return float(received_db(100.0, Path(61.0)))


def _life_years(facts: Facts) -> float:
    return facts.hardware_life_years


def _moratoria(facts: Facts) -> float:
    return facts.local_moratoria


def _unfit_citations(_: Facts) -> float:
    """Three about other topics, and two that were not found."""
    return 3.0 + 2.0


def _rules_in_force(facts: Facts) -> float:
    return float(sum(id_ in facts.rules_in_force for id_ in ("us-sec-climate", "eu-csrd")))


WORD_CLAIMS: Mapping[str, Recompute] = MappingProxyType(
    {
        "kv-cache-complexity": _quadratic_share,
        "attention-memory-quadratic": _twice_as_long,
        "inference-state": _tokens_like_weights,
        "accumulation": _weight_of_a_token,
        "unified-memory-name": _memory_over_pages,
        "hbm-latency": _hbm_latency_ns,
        "hbm-cooling": _rack_kw,
        "hbm-embodied": _making_of_hbm,
        "noise-level": _at_61_m,
        "refresh": _life_years,
        "shut-down-by-complaints": _moratoria,
        "citations": _unfit_citations,
        "rules-now-require": _rules_in_force,
    }
)
