"""The table of what can be measured: its names, its page, and what it reads."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from service.estimation.measurements.quantities import (
    QUANTITIES,
    NotEstimated,
    canonical,
    names_of,
    quantity_of,
)

PAGE = Path(__file__).parents[2] / "docs" / "nomenclature.md"
_ENDINGS = {
    "B": "_bytes",
    "tokens": "_tokens",
    "s": "_s",
    "tokens/s": "_tokens_per_s",
    "requests/s": "_requests_per_s",
    "sequences/s": "samples_per_s",
    "sequences": "_sequences",
    "TFLOP/s": "_tflops",
    "1": "_ratio",
    "W": "_w",
    "J": "_j",
    "gCO2e": "_gco2e",
    "l": "_l",
}


def test_the_page_lists_every_quantity_as_the_table_has_it() -> None:
    section = PAGE.read_text().split("\n## Measured quantities\n")[1].split("\n## ")[0]
    listed = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", section, re.MULTILINE)
    assert listed == [
        (one.name, one.unit, ", ".join(one.kinds), one.meaning) for one in QUANTITIES.values()
    ]


def test_names_say_their_unit() -> None:
    for name, one in QUANTITIES.items():
        stem = name.removesuffix("_per_accelerator").removesuffix("_per_request")
        stem = stem.removesuffix("_per_output_token")
        assert f"_{stem}".endswith(_ENDINGS[one.unit]), name


def test_aliases_mean_one_quantity_each() -> None:
    aliases = [alias for one in QUANTITIES.values() for alias in one.aliases]
    assert len(aliases) == len(set(aliases))
    assert not set(aliases) & set(QUANTITIES)
    assert canonical("peak_allocated_bytes") == "allocated_bytes"
    assert canonical("step_time_s") == "step_s"
    assert canonical("nothing of the kind") == "nothing of the kind"


def test_quantities_of_another_kind_are_not_estimated() -> None:
    assert quantity_of("step_time_s", "training").name == "step_s"
    with pytest.raises(NotEstimated, match="no estimate of inference gives 'step_s'"):
        quantity_of("step_s", "inference")
    with pytest.raises(NotEstimated, match="did you mean tpot_s"):
        quantity_of("tpott_s", "inference")
    assert "mfu_ratio" not in names_of("impacts")
