"""A client that a well-known generator makes of the contract: complete, typed, and it works."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from service.api.app import create_app
from service.settings import Settings
from tests.api.conftest import MAIN, served

#: What the generator has no notion of: files that are not JSON, and images.
_NO_NOTION = {
    "POST /v1/catalog/imports within catalog.",
    "GET /v1/badges/inference within page.",
    "GET /v1/measurements/documents within measurements.",
}

#: What a user of the client writes; run as a program of its own, so that it sees nothing else.
USE = """
import json, sys
from client import Client
from client.api.estimates import create_inference_estimate, get_inference_memory
from client.api.catalog import get_accelerator, list_regions, search_catalog
from client.api.decisions import create_recommendation
from client.models import InferenceAnswer, InferenceRequest, ProblemDetails, RecommendationRequest
from client.models import MemoryInferenceAnswer

client = Client(base_url=sys.argv[1], timeout=600)
question = InferenceRequest.from_dict(json.loads(sys.argv[2]))
answer = create_inference_estimate.sync(client=client, body=question)
assert isinstance(answer, InferenceAnswer), answer
assert answer.memory.fits is True
assert answer.latency.tpot_s.low <= answer.latency.tpot_s.value <= answer.latency.tpot_s.high

memory = get_inference_memory.sync(
    client=client, model="llama-3.1-8b", accelerator="nvidia-l40s-48gb", concurrency=8
)
assert isinstance(memory, MemoryInferenceAnswer), memory

refused = create_inference_estimate.sync(
    client=client,
    body=InferenceRequest.from_dict(json.loads(sys.argv[2]) | {"accelerator": "nvidia-h10"}),
)
assert isinstance(refused, ProblemDetails), refused
assert refused.errors[0].pointer == "/accelerator"

found = search_catalog.sync(client=client, q="H100 80GB SXM5")
assert found.items[0].id == "nvidia-h100-sxm-80gb"
assert get_accelerator.sync(client=client, id=found.items[0].id).name
assert list_regions.sync(client=client, limit=3).next_cursor
chosen = create_recommendation.sync(
    client=client,
    body=RecommendationRequest.from_dict(
        {"model": "llama-3.1-8b", "workload": {"input_tokens": 512, "output_tokens": 128},
         "search": {"accelerators": ["nvidia-l40s-48gb"], "regions": ["country/SE"]}}
    ),
)
assert chosen.choices, chosen
print("works")
"""


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder with the client, and what the generator complained of."""
    folder = tmp_path_factory.mktemp("generated")
    document = create_app(Settings(embedded_database=False, log_level="error")).openapi()
    (folder / "openapi.json").write_text(json.dumps(document))
    told = subprocess.run(
        [
            *(sys.executable, "-m", "openapi_python_client", "generate"),
            *("--path", str(folder / "openapi.json"), "--meta", "none"),
            *("--output-path", str(folder / "client")),
        ],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )
    return folder, told.stdout + told.stderr


def test_nothing_of_the_contract_is_left_out(generated: tuple[Path, str]) -> None:
    _, told = generated
    assert "Unable to" not in told
    left_out = set(re.findall(r"^WARNING parsing (.*)$", told, re.MULTILINE))
    assert left_out <= _NO_NOTION


def test_its_types_hold(generated: tuple[Path, str]) -> None:
    folder, _ = generated
    # The connection handling is the generator's own and the same for every contract.
    (folder / "mypy.ini").write_text(
        "[mypy]\nstrict = true\n[mypy-client.client]\nignore_errors = true\n"
    )
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", "mypy.ini", "client"],
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )
    assert checked.returncode == 0, checked.stdout


def test_it_asks_a_running_service(generated: tuple[Path, str]) -> None:
    folder, _ = generated
    application = create_app(Settings(embedded_database=False, log_level="error"))
    with served(application) as address:
        used = subprocess.run(
            [sys.executable, "-c", USE, address, json.dumps(MAIN)],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(folder)},
        )
    assert used.stdout.strip() == "works", used.stderr[-3000:]
