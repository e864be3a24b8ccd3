"""Parsers of bytes that strangers send: each ends in a result or in its own refusal.

``./headroom fuzz`` runs the same with as many cases as there is time for.
"""

from __future__ import annotations

import asyncio
import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest
import yaml
from hypothesis import HealthCheck, given
from hypothesis import settings as fuzz_settings
from hypothesis import strategies as some
from pydantic import ValidationError

from service.access.keys import KeyRefused
from service.access.tokens import TokenIssuer
from service.api.http.bodies import is_too_deep
from service.catalog.exchange.reading import FileInvalid, read_catalog_file
from service.catalog.exchange.writing import catalog_file
from service.catalog.files import read_schemas
from service.checkpoints.local import local_model
from service.checkpoints.reading import CheckpointUnreadable
from service.core.architecture.config import ConfigNotUnderstood, parse_config
from service.estimation.detection.machine import detect
from service.estimation.measurements.imports.imported import understood_file
from service.estimation.measurements.imports.pickles import plain_pickle
from service.estimation.measurements.imports.reading import Content, FileRefused
from service.estimation.measurements.imports.registry import read_runs
from service.estimation.references import ModelConfig
from service.grid.entsoe import newest_intensity
from service.grid.series import ProviderFailed
from service.settings import INSTALLATION, Settings
from tests.access.test_tokens import published, token
from tests.access.test_tokens import settings as issuer_settings
from tests.checkpoints.gguf_files import write_gguf
from tests.conftest import packaged
from tests.estimation.detection import samples
from tests.estimation.measurements.imports.conftest import FILES
from tests.fuzz import tally
from tests.fuzz.bounds import bounded_memory, coming_back
from tests.fuzz.mutation import damaged
from tests.grid.test_entsoe import document, series

CATALOG = INSTALLATION / "hardware_catalog"
SCHEMAS = read_schemas(CATALOG)
DOCUMENTS = packaged()
#: A few entries of a collection, as a file that is small enough to be changed everywhere.
FEW = {
    collection: {key: DOCUMENTS[collection][key] for key in sorted(DOCUMENTS[collection])[:2]}
    for collection in ("models", "accelerators", "regions", "sources")
}
CONFIGS = [
    json.dumps(found["config"]).encode()
    for found in DOCUMENTS["models"].values()
    if "config" in found and len(json.dumps(found["config"])) < 5_000
]
#: What tools of machines write, each also read as another's.
OUTPUTS = {
    "nvidia-smi": samples.DGX_H100.encode(),
    "amd-smi": samples.AMD_SMI.encode(),
    "rocm-smi": samples.RX_7900_XT.encode(),
    "xpu-smi": samples.XPU_SMI.encode(),
    "system_profiler": samples.MACBOOK_M3_MAX.encode(),
    "lscpu": samples.lscpu("AMD EPYC 9654 96-Core Processor", 2).encode(),
    "meminfo": samples.meminfo(64.0).encode(),
    "device-tree-model": b"NVIDIA Jetson AGX Orin Developer Kit\0",
    "dmi-product": b"PowerEdge R740",
}
POWER = document(series("B14", 40_000, 40_000), series("B04", 5_000, 10_000))

TRIED: Counter[str] = Counter()
fuzzed = fuzz_settings(
    max_examples=tally.cases(150),
    deadline=None,
    derandomize=tally.is_repeatable(),
    database=None,
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture(autouse=True)
def within_memory() -> Iterator[None]:
    with bounded_memory():
        yield


@pytest.fixture(scope="module", autouse=True)
def counted() -> Iterator[None]:
    yield
    for kind, count in TRIED.items():
        tally.told(kind=kind, cases=count)


def hold(kind: str, parse: Callable[[], Any], *refusals: type[Exception]) -> None:
    """Try a parser, which may refuse what it reads."""
    TRIED[kind] += 1
    with coming_back(), suppress(*refusals):
        parse()


def imported(content: bytes, form: Any, collection: str | None) -> None:
    """Read a file as an import does; its faults must go over the wire."""
    try:
        read_catalog_file(content, form, collection, SCHEMAS)
    except FileInvalid as invalid:
        for error in invalid.errors[:100]:
            assert error.detail
            assert len(error.detail) < 10_000


YAML = [catalog_file({one: FEW[one]}, "yaml", [one], SCHEMAS).encode() for one in FEW]
JSON = [catalog_file({one: FEW[one]}, "json", [one], SCHEMAS).encode() for one in FEW]
CSV = [(one, catalog_file({one: FEW[one]}, "csv", [one], SCHEMAS).encode()) for one in FEW]


@fuzzed
@given(damaged(YAML))
def test_yaml_imports(content):
    hold("import, YAML", lambda: imported(content, "yaml", None))


@fuzzed
@given(damaged(JSON))
def test_json_imports(content):
    hold("import, JSON", lambda: imported(content, "json", None))


@fuzzed
@given(
    some.sampled_from(CSV).flatmap(lambda one: some.tuples(some.just(one[0]), damaged([one[1]])))
)
def test_csv_imports(table):
    hold("import, CSV", lambda: imported(table[1], "csv", table[0]))


@fuzzed
@given(damaged(CONFIGS))
def test_configurations(content):
    def parse() -> None:
        if is_too_deep(content):
            return
        given_ = ModelConfig.model_validate_json(b'{"config":' + content + b"}", strict=True)
        assert parse_config(given_.config).total_parameters > 0

    hold("config.json", parse, ValidationError, ConfigNotUnderstood)


@fuzzed
@given(some.sampled_from(sorted(OUTPUTS)), damaged(list(OUTPUTS.values())))
def test_outputs_of_tools(packaged_snapshot, tool, content):
    hold(
        "output of a tool",
        lambda: detect({tool: content.decode("utf-8", "replace")}, packaged_snapshot),
    )


@fuzzed
@given(damaged(CONFIGS))
def test_bodies_too_deep_are_found_before_they_are_read(content):
    """What the look at brackets lets through, a parser reads without calling itself too often."""
    if not is_too_deep(content):
        hold("JSON body", lambda: orjson.loads(content), orjson.JSONDecodeError)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("checkpoints")
    (folder / "config.json").write_bytes(CONFIGS[0])
    return folder


@pytest.fixture(scope="module")
def gguf_file(place: Path, packaged_snapshot: Any) -> bytes:
    model = packaged_snapshot.models["meta-llama/Llama-3.2-1B"]
    return write_gguf(place / "sound.gguf", "llama", model).read_bytes()


@fuzzed
@given(data=some.data())
def test_gguf_headers(place, gguf_file, data):
    path = place / "model.gguf"
    path.write_bytes(data.draw(damaged([gguf_file, gguf_file[:2_000]])))
    hold("GGUF header", lambda: local_model(path), CheckpointUnreadable)


def _safetensors(header: dict[str, Any]) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text


SAFETENSORS = _safetensors(
    {
        "__metadata__": {"format": "pt"},
        "lm_head.weight": {"dtype": "BF16", "shape": [32, 64], "data_offsets": [0, 4096]},
        "norm.weight": {"dtype": "F32", "shape": [64], "data_offsets": [4096, 4352]},
    }
)


@fuzzed
@given(content=damaged([SAFETENSORS]))
def test_safetensors_headers(place, content):
    path = place / "model.safetensors"
    path.write_bytes(content)
    hold("safetensors header", lambda: local_model(path), CheckpointUnreadable)


@fuzzed
@given(damaged([POWER, POWER.decode().encode("utf-16")]))
def test_documents_of_grids(content):
    hold("ENTSO-E document", lambda: newest_intensity(content), ProviderFailed, OverflowError)


@pytest.fixture(scope="module")
def issuer() -> TokenIssuer:
    known = TokenIssuer(issuer_settings(), httpx.MockTransport(published))
    with asyncio.Runner() as runner:
        runner.run(known.refresh())
    return known


TOOLS = {
    path.name: path.read_bytes() for path in sorted(FILES.iterdir()) if path.name != "README.md"
}


@fuzzed
@given(content=damaged([data for data in TOOLS.values() if len(data) < 8_000]))
def test_files_of_tools(packaged_snapshot, content):
    def parse() -> None:
        file = understood_file(content, {"accelerator_count": 1}, packaged_snapshot)
        assert file.runs
        for fault in file.faults:
            assert 0 < len(fault.detail) < 10_000

    hold("file of a tool", parse, FileRefused)


@fuzzed
@given(content=damaged([TOOLS["torch-memory-snapshot.pickle"], pickle.dumps([1, {"a": (2.5,)}])]))
def test_pickles(content):
    hold("pickle", lambda: plain_pickle(content), FileRefused)


@fuzzed
@given(content=damaged([token().encode(), token(organisation="-").encode(), b"e30.e30.e30"]))
def test_tokens(issuer, content):
    hold("token", lambda: issuer.caller(content.decode("latin-1")), KeyRefused)


def test_the_contents_are_sound_before_they_are_damaged(place, gguf_file, issuer):
    """Else the fuzzer would only knock at the door."""
    for content in YAML:
        assert yaml.safe_load(content)
        read_catalog_file(content, "yaml", None, SCHEMAS)
    for content in JSON:
        read_catalog_file(content, "json", None, SCHEMAS)
    for collection, content in CSV:
        read_catalog_file(content, "csv", collection, SCHEMAS)
    for content in CONFIGS:
        parse_config(json.loads(content))
    (place / "model.gguf").write_bytes(gguf_file)
    assert local_model(place / "model.gguf")["config"]["model_type"] == "llama"
    (place / "model.safetensors").write_bytes(SAFETENSORS)
    assert local_model(place / "model.safetensors")["safetensors_index"]["parameters"]
    assert newest_intensity(POWER)
    assert len(TOOLS) > 20
    for content in TOOLS.values():
        assert read_runs(Content(content))[1]
    assert issuer.caller(token()).organisation == "acme"
    assert Settings().body_limit_bytes > max(map(len, CONFIGS))
