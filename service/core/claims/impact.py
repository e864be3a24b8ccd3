"""Claims about energy, carbon, noise and rules."""

from __future__ import annotations

from service.core.claims.claim import Claim, Facts
from service.core.impacts.projection import projection
from service.core.interval import exact


def _crossover_days(requests_per_day: float) -> float:
    found = projection(exact(550e6), exact(requests_per_day), exact(0.15), 0.0)
    if found.crossover_days is None:
        raise ValueError("without growth or decline inference always overtakes")
    return float(found.crossover_days.value)


def _days_of_700_million(_: Facts) -> float:
    return _crossover_days(700e6)


def _llama_over_gpt_3(_: Facts) -> float:
    return 11_390.0 / 552.0


def _gwh_of_a_year(_: Facts) -> float:
    return 0.42 * 700e6 * 365.0 / 1e9


def _ten_steps_s(_: Facts) -> float:
    return 10 * 0.1


def _memory_parts_per_bandwidth(_: Facts) -> float:
    """Making of 80 GB of HBM at three times DDR5's, per GB/s of an H100 [GB of DDR5 per GB/s]."""
    return 3.0 * 80.0 / 3350.0


IMPACT_CLAIMS: tuple[Claim, ...] = (
    Claim(
        "hbm-embodied",
        ("000",),
        "Making HBM beside DDR",
        "3 times the carbon per GB",
        None,
        "unsupported",
        "The cited works do not say it. Three times the wafer area per GB does stand in a maker's "
        "filing; open inventories of graphics memory give less than DDR's figure. Never decide on "
        "it alone.",
    ),
    Claim(
        "prefer-ddr",
        ("000",),
        "DDR for less carbon",
        "more DDR has lower carbon per GB",
        "GB of DDR5 per GB/s",
        "conditional",
        "Of making a GB, if the claim above holds; use dominates, and a slower tier lengthens it. "
        "Per GB/s, HBM takes this much, a DDR5 module of 64 GB 1.7.",
        _memory_parts_per_bandwidth,
    ),
    Claim(
        "noise-level",
        ("000",),
        "Noise of data centres",
        "60 to 75 dB, continuous",
        None,
        "unsupported",
        "A level means nothing without weighting and distance, or as sound power.",
    ),
    Claim(
        "refresh",
        ("000",),
        "Life of accelerators",
        "2 to 3 years",
        None,
        "conditional",
        "Filings write servers off over 5 to 6 years; first use may be shorter.",
    ),
    Claim(
        "shut-down-by-complaints",
        ("000",),
        "Community complaints",
        "have shut down data centres",
        None,
        "unsupported",
        "What is documented are projects blocked, delayed or withdrawn, not sites closed.",
    ),
    Claim(
        "training-run",
        ("000",),
        "Emissions of a frontier training run",
        "550 t",
        "-",
        "conditional",
        "GPT-3's of 2020. The figure is how many times more the Llama 3.1 models took, by their "
        "model card (11,390 t, location-based).",
        _llama_over_gpt_3,
    ),
    Claim(
        "inference-overtakes",
        ("000",),
        "Inference beside training",
        "quickly overtakes",
        "days",
        "conditional",
        "The figure is for 700 million requests a day of 0.15 g against 550 t; a million a day "
        "take ten years.",
        _days_of_700_million,
    ),
    Claim(
        "prompts-of-a-year",
        ("000",),
        "700 million prompts a day of 0.42 Wh",
        "the electricity of 35,000 homes",
        "GWh/year",
        "internal",
        "The study's own total of 391 to 463 GWh implies prompts of 1.5 to 1.8 Wh on average: "
        "short and long ones were mixed up.",
        _gwh_of_a_year,
    ),
    Claim(
        "agent-of-ten-steps",
        ("000",),
        "An agent of ten steps of 100 ms",
        "1 s",
        "s",
        "conditional",
        "The arithmetic holds; output tokens, tools and growing context come on top.",
        _ten_steps_s,
    ),
    Claim(
        "citations",
        ("000",),
        "Works cited for SRAM machines, paging, agents, tiers and training capacity",
        "as support",
        None,
        "unsupported",
        "Three are about other things (retrieval in ReRAM, processing in DRAM, a fabric compared "
        "with RDMA); two could not be found.",
    ),
    Claim(
        "rules-now-require",
        ("000",),
        "Climate reporting rules of the SEC and the CSRD",
        "now require",
        None,
        "conditional",
        "The SEC's rule never took effect; the CSRD was narrowed.",
    ),
)
