"""Answers about entries of the catalog: what is derived from them."""

from __future__ import annotations

from service.estimation.answers import Answer, Interval


class ModelFacts(Answer):
    """What the model's config amounts to."""

    total_parameters: int
    """Parameters of the whole model."""
    active_parameters: int
    """Parameters that one token uses."""
    layers: int
    """Blocks of the model."""
    hidden_size: int
    """Width of the hidden states."""
    vocab_size: int
    """Entries of the vocabulary."""
    max_position_embeddings: int | None
    """Longest sequence; null if the config states none."""


class RegionFigures(Answer):
    """Figures as estimates use them: the newest, inherited where the region has none."""

    grid_gco2e_per_kwh: Interval | None
    market_gco2e_per_kwh: Interval | None
    pue_ratio: Interval
    wue_l_per_kwh: Interval | None
    ewif_l_per_kwh: Interval | None
    water_stress_ratio: Interval | None
    wet_bulb_celsius: Interval | None
    electricity_usd_per_kwh: Interval | None
