"""The worked example of the methodology is what the service answers, and adds up on paper."""

from __future__ import annotations

import json
import math
import re

import httpx
import pytest

from tests.docs.blocks import blocks, call, commands
from tests.docs.test_examples import PROJECT_FOLDER

#: A refit moves figures a little; an example that is further off no longer shows the service.
TOLERANCE = 0.05
#: Figures on paper are rounded to three digits.
ROUNDING = 0.01

PAGE = (PROJECT_FOLDER / "docs" / "methodology.md").read_text()
SECTION = PAGE.split("### A worked example\n")[1].split("\n### ")[0]
ROWS = re.findall(r"^\| `(\w+)` \| (.+) \| (.+) \|$", SECTION, re.MULTILINE)


def number(text: str) -> float:
    """The first number in a cell: ``1,130 /s`` is 1130."""
    found = re.search(r"\d[\d,]*\.?\d*", text)
    assert found is not None, text
    return float(found.group().replace(",", ""))


def worked_out(text: str) -> float:
    """What an expression in words comes to: ``32 requests / 7.25 s`` is 4.41."""
    total = 0.0
    for term in text.split(" + "):
        first, *others = re.split(r" ([×/]) ", term)
        product = number(first)
        for sign, factor in zip(others[::2], others[1::2], strict=True):
            product = product * number(factor) if sign == "×" else product / number(factor)
        total += product
    return total


def told(pattern: str) -> float:
    """A number in the text, whose lines may break anywhere."""
    found = re.search(pattern, " ".join(SECTION.split()))
    assert found is not None, pattern
    return float(found.group(1))


async def traced(client: httpx.AsyncClient) -> dict[str, tuple[float, dict[str, float]]]:
    """Results and inputs of the formulas behind the README's answer, by name."""
    readme = blocks(PROJECT_FOLDER / "README.md")
    block = next(one for one in readme if "/v1/estimates/inference" in one.text)
    [asked] = [call(command) for command in commands(block.text)]
    body = json.loads(asked.body or "") | {"explain": True}
    answer = await client.post(asked.path, json=body)
    return {
        step["name"]: (step["value"], step["inputs"])
        for step in answer.raise_for_status().json()["explanation"]
    }


@pytest.mark.parametrize(("figure", "expression", "result"), ROWS)
def test_each_row_adds_up(figure: str, expression: str, result: str) -> None:
    assert math.isclose(worked_out(expression), number(result), rel_tol=ROUNDING), figure


async def test_the_service_answers_so(client: httpx.AsyncClient) -> None:
    steps = await traced(client)
    assert len(ROWS) >= 7
    for figure, _, result in ROWS:
        assert math.isclose(number(result), steps[figure][0], rel_tol=TOLERANCE), figure
    decode_s, decode = steps["decode_step_s"]
    prompt_s, prompt = steps["prefill_step_s"]
    # A step of decoding is bound by memory, one with prompts by arithmetic, as the text says.
    assert decode["memory_bound_s"] > 0.5 * decode_s
    assert prompt["compute_bound_s"] > 0.5 * prompt_s
    moved_bytes = steps["decode_arithmetic_intensity"][1]["memory_bytes"]
    bandwidth = steps["decode_ridge_point"][1]["memory_bandwidth_bytes_per_s"]
    operations = steps["prefill_arithmetic_intensity"][1]["flops"]
    peak = steps["prefill_ridge_point"][1]["peak_flops_per_s"]
    share = steps["tpot_s"][1]
    for said, computed in {
        told(r"moves ([\d.]+) GB per accelerator"): moved_bytes / 1e9,
        told(r"that takes ([\d.]+) ms"): 1e3 * moved_bytes / bandwidth,
        told(r"kernels reach (\d+) % of it"): 100
        * moved_bytes
        / bandwidth
        / decode["memory_bound_s"],
        told(r"takes ([\d.]+) TFLOP per"): operations / 1e12,
        told(r"(\d+) ms at the datasheet's"): 1e3 * operations / peak,
        told(r"kernels reach about (\d+) %"): 100 * operations / peak / prompt["compute_bound_s"],
        told(r"a step (\d+) ms longer"): 1e3 * share["taken_s"],
        told(r"has ([\d.]+) prompts on average"): share["prompts_per_step"],
    }.items():
        assert math.isclose(said, computed, rel_tol=TOLERANCE), (said, computed)
