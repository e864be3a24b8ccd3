from __future__ import annotations

import asyncio

import httpx
import orjson
from asgi_lifespan import LifespanManager
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from service.api.app import create_app
from service.api.observability.answers import Readiness
from service.settings import Settings
from tests.api.conftest import MAIN, served
from tests.api.shapes import validated


async def test_liveness_and_readiness(client):
    assert (await client.get("/livez")).json() == {"status": "alive"}
    ready = (await client.get("/readyz")).json()
    validated(Readiness, ready)
    assert ready["status"] == "ready"
    assert ready["catalog_source"] == "packaged files"


async def test_on_postgres_the_same_question_has_a_recorded_revision(catalog_url, client):
    settings = Settings(DATABASE_URL=SecretStr(catalog_url), log_level="error")
    app = create_app(settings)
    async with LifespanManager(app, startup_timeout=None):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as stored:
            ready = (await stored.get("/readyz")).json()
            assert ready["status"] == "ready"
            assert ready["catalog_source"] == "postgres"
            assert ready["database_reachable"]
            body = (await stored.post("/v1/estimates/inference", json=MAIN)).json()
            assert body["catalog_revision"] == ready["catalog_revision"] >= 1
            pinned = MAIN | {"catalog_revision": body["catalog_revision"]}
            again = (await stored.post("/v1/estimates/inference", json=pinned)).json()
            assert again == body
            from_files = (await client.post("/v1/estimates/inference", json=MAIN)).json()
            assert from_files | {"catalog_revision": body["catalog_revision"]} == body
            missing = MAIN | {"catalog_revision": body["catalog_revision"] + 1}
            refused = await stored.post("/v1/estimates/inference", json=missing)
            assert refused.status_code == 422


async def test_without_its_database_the_service_answers_and_says_so():
    unreachable = SecretStr("postgresql://nobody@127.0.0.1:9/none")
    app = create_app(Settings(DATABASE_URL=unreachable, log_level="error"))
    async with LifespanManager(app, startup_timeout=None):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            ready = (await client.get("/readyz")).json()
            assert ready["status"] == "degraded"
            assert ready["problem"]
            answered = await client.post("/v1/estimates/inference", json=MAIN)
            assert answered.status_code == 200
            pinned = await client.post(
                "/v1/estimates/inference", json=MAIN | {"catalog_revision": 7}
            )
            assert pinned.status_code == 503
            assert int(pinned.headers["retry-after"]) > 0


async def test_metrics_count_by_route_and_never_by_path(client):
    await client.get("/v1/models/llama-3.1-8b")
    await client.get("/v1/models/llama-3.1-70b")
    text = (await client.get("/metrics")).text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    routes = {sample.labels["route"] for sample in families["headroom_requests"].samples}
    assert "/v1/models/{id:path}" in routes
    assert not any("llama" in route for route in routes)
    assert "headroom_catalog_revision" in families


async def test_odd_methods_are_counted_as_one(client):
    for number in range(3):
        assert (await client.request(f"ODD{number}", "/livez")).status_code == 405
    text = (await client.get("/metrics")).text
    assert "ODD" not in text
    assert 'method="other"' in text


def test_head_is_get_without_the_body():
    app = create_app(Settings(embedded_database=False, log_level="error"))
    with served(app) as address, httpx.Client(base_url=address) as client:
        for path in ("/livez", "/v1/accelerators", "/v1/models/llama-3.1-8b"):
            got, headed = client.get(path), client.head(path)
            assert headed.status_code == 200
            assert headed.content == b""
            assert headed.headers["content-length"] == got.headers["content-length"]
            plain = client.head(path, headers={"Accept-Encoding": "identity"})
            assert plain.headers["content-length"] == str(len(got.content))
            assert headed.headers.get("etag") == got.headers.get("etag")
        assert client.get("/livez").status_code == 200


async def test_above_its_limit_the_service_asks_to_come_back():
    app = create_app(Settings(embedded_database=False, log_level="error", concurrency_limit=1))
    waiting, finish = asyncio.Event(), asyncio.Event()

    async def slow_body():
        waiting.set()
        await finish.wait()
        yield orjson.dumps(MAIN)

    async with LifespanManager(app, startup_timeout=None):
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            headers = {"Content-Type": "application/json"}
            first = asyncio.create_task(
                client.post("/v1/estimates/inference", content=slow_body(), headers=headers)
            )
            await waiting.wait()
            refused = await client.get("/v1/accelerators")
            assert refused.status_code == 503
            assert int(refused.headers["retry-after"]) > 0
            assert (await client.get("/livez")).status_code == 200
            finish.set()
            assert (await first).status_code == 200
            assert (await client.get("/v1/accelerators")).status_code == 200


async def test_a_client_that_leaves_is_no_fault_of_the_service(app, caplog):
    sent = []

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "path": "/v1/estimates/inference",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
    }
    await app(scope, receive, send)
    assert sent == []
    assert not caplog.records


async def test_security_headers_and_cors(client):
    response = await client.get("/livez", headers={"Origin": "https://portal.example"})
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in response.headers["content-security-policy"]
    assert response.headers["access-control-allow-origin"] == "*"


#: Posts that say all they have to say in their path.
BODILESS = {"/v1/sweeps/{id}/cancel"}


async def test_the_contract_is_complete(client, app):
    document = orjson.loads((await client.get("/openapi.json")).content)
    assert document["openapi"].startswith("3.1")
    ids = []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            ids.append(operation["operationId"])
            assert operation["summary"], (path, method)
            if method == "post" and path not in BODILESS:
                content = operation["requestBody"]["content"]["application/json"]
                assert content["examples"]
                assert "$ref" in content["schema"]
    assert len(ids) == len(set(ids))
    names = set(document["components"]["schemas"])
    text = orjson.dumps(document).decode()
    for part in text.split('"#/components/schemas/')[1:]:
        assert part.split('"')[0] in names
