"""Traces as a collector gets them from a process, and what is never in them."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from service.api.observability.tracing import is_wanted
from service.settings import INSTALLATION
from tests.faults.processes import QUESTION, serving

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Collector(ThreadingHTTPServer):
    """Keeps what it is sent, as the OpenTelemetry protocol over HTTP has it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Kept)
        self.requests: list[ExportTraceServiceRequest] = []
        self.bytes = b""

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]


class Kept(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        assert self.path == "/v1/traces"
        content = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            content = gzip.decompress(content)
        self.server.bytes += content
        self.server.requests.append(ExportTraceServiceRequest.FromString(content))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def collecting() -> Iterator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.serve_forever)
    thread.start()
    yield collector
    collector.shutdown()
    thread.join()
    collector.server_close()


def attributes(span: Any) -> dict[str, Any]:
    return {
        one.key: getattr(one.value, str(one.value.WhichOneof("value"))) for one in span.attributes
    }


def test_a_request_is_one_trace_without_what_only_its_caller_may_know(
    catalog_url: str, tmp_path: Path
) -> None:
    secret = "5ec2e7aa-0000-4000-8000-000000000000"
    with (
        collecting() as collector,
        (tmp_path / "log").open("w") as log,
        serving(
            log=log,
            DATABASE_URL=catalog_url,
            HEADROOM_LOG_LEVEL="info",
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.server_port}",
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=tests",
        ) as service,
    ):
        headers = {"traceparent": PARENT, "Authorization": "Bearer headroom_hush"}
        asked = service.ask("GET", "/v1/models?limit=7777777", headers=headers)
        assert asked.status_code in (401, 422)
        assert service.ask("GET", f"/v1/sweeps/{secret}").status_code == 404
        assert service.ask("POST", "/v1/estimates/inference", json=QUESTION).status_code == 200
        assert service.ask("GET", "/livez").status_code == 200
        assert service.stop() == 0
    named = {span.name: span for span in collector.spans}
    assert {"GET /v1/models", "GET /v1/sweeps/{id}", "POST /v1/estimates/inference"} <= set(named)
    assert not [name for name in named if "livez" in name]
    joined = named["GET /v1/models"]
    assert joined.trace_id.hex() == PARENT.split("-")[1]
    assert attributes(joined)["http.route"] == "/v1/models"
    statements = [attributes(span).get("db.statement", "") for span in collector.spans]
    assert any("sweep" in statement for statement in statements), "what the database was asked"
    for hidden in (b"7777777", b"hush", secret.encode(), b"llama"):
        assert hidden not in collector.bytes
    assert b"deployment.environment.name" in collector.bytes
    lines = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
    told = {line["route"]: line for line in lines if line.get("message") == "request"}
    assert told["/v1/models"]["trace_id"] == joined.trace_id.hex()
    assert told["/v1/models"]["span_id"] == joined.span_id.hex()


def test_a_collector_that_is_away_harms_nobody() -> None:
    with serving(
        HEADROOM_EMBEDDED_DATABASE="false",
        HEADROOM_LOG_LEVEL="error",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",
    ) as service:
        assert service.ask("POST", "/v1/estimates/inference", json=QUESTION).status_code == 200
        assert service.stop() == 0


@pytest.mark.parametrize(
    ("environment", "wanted"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://there"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://there"}, True),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({"OTEL_TRACES_EXPORTER": "console"}, True),
        ({"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://there"}, False),
        ({"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://there"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": ""}, False),
    ],
)
def test_the_standard_variables_switch_it_on(environment: dict[str, str], wanted: bool) -> None:
    assert is_wanted(environment) is wanted


def test_nothing_is_loaded_when_it_is_off() -> None:
    look = (
        "import sys\n"
        "from service.api.app import create_app\n"
        "from service.settings import Settings\n"
        "create_app(Settings(embedded_database=False))\n"
        "loaded = {'opentelemetry.sdk', 'opentelemetry.instrumentation'} & set(sys.modules)\n"
        "sys.exit(str(loaded) if loaded else 0)\n"
    )
    found = subprocess.run(
        [sys.executable, "-c", look], cwd=INSTALLATION, check=False, capture_output=True, text=True
    )
    assert found.returncode == 0, found.stderr
