"""What HTTP and JSON promise: methods that are named, forms that are honoured, one value a key."""

from __future__ import annotations

import json
import string

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as some

from service.api.app import create_app
from service.api.http.contract import REQUESTS
from service.api.http.problems import MEDIA_TYPE
from service.api.http.queries import flat_fields
from service.estimation.bodies import repeated_keys, whole_numbers
from service.settings import Settings
from tests.api.conftest import MAIN
from tests.core.memory.test_checkpoint import LLAMA_8B

PATH = "/v1/estimates/inference"
LINK = "/v1/memory/inference?model=llama-3.1-8b&accelerator=nvidia-l40s-48gb"
JSON = {"Content-Type": "application/json"}


def as_floats(value: object) -> object:
    """A JSON value whose integers are spelled as floats."""
    if isinstance(value, dict):
        return {name: as_floats(part) for name, part in value.items()}
    if isinstance(value, list):
        return [as_floats(part) for part in value]
    return float(value) if type(value) is int else value


async def test_whole_numbers_may_have_a_fraction_of_zero(client) -> None:
    spelled = as_floats(MAIN)
    assert '"concurrency": 32.0' in json.dumps(spelled)
    answer = await client.post(PATH, json=spelled)
    assert answer.json() == (await client.post(PATH, json=MAIN)).json()
    assert answer.status_code == 200
    batch = {"requests": [MAIN, as_floats(MAIN)]}
    plain, floats = (await client.post("/v1/estimates/batch", json=batch)).json()["items"]
    assert plain["answer"] == floats["answer"] is not None
    link = await client.get(f"{LINK}&concurrency=8.0&accelerator_count=2.0")
    assert link.content == (await client.get(f"{LINK}&concurrency=8&accelerator_count=2")).content
    # Configurations of models, too, and what is spelled with an exponent.
    pasted = {"model": {"config": as_floats(LLAMA_8B)}, "accelerator": "nvidia-l40s-48gb"}
    assert (await client.post("/v1/memory/inference", json=pasted)).status_code == 200
    text = json.dumps(MAIN).replace('"output_tokens": 256', '"output_tokens": 2.56e2')
    assert (await client.post(PATH, content=text, headers=JSON)).status_code == 200


async def test_a_fraction_is_none_of_an_integer(client) -> None:
    asked = MAIN | {"accelerator_count": 8.0, "workload": {"input_tokens": 8.5}}
    response = await client.post(PATH, json=asked)
    assert [error["pointer"] for error in response.json()["errors"]] == ["/workload/input_tokens"]


def test_whole_numbers_are_exact() -> None:
    assert repr(whole_numbers({"a": [8.0, 8.5, True, 2.0**60, "8.0", float("inf")]})) == (
        "{'a': [8, 8.5, True, 1.152921504606847e+18, '8.0', inf]}"
    )


@pytest.mark.parametrize(
    ("text", "pointers"),
    [
        ('{"a": 1, "a": 2}', ["/a"]),
        ('{"a": 1, "a": 1, "b": {"c": 0, "c": 1, "d": ":"}}', ["/a", "/b/c"]),
        ('{"a": [{}, {"x/y": 1, "x/y": 2}]}', ["/a/1/x~1y"]),
        # A key dropped and a character spelled by number would make up for each other.
        ('{"a": 1, "a": 2, "b": "\\u003a"}', ["/a"]),
        ('{"a": 1, "\\u0061": 2}', ["/a"]),
        ('{"a": ":::", "b": "a:b"}', []),
        ('{"a": NaN, "a": 1}', ["/a"]),
        ('{"a": 1, "a"', []),
        ("[1e999, 123456789012345678901234567890]", []),
        ("\x00", []),
    ],
)
def test_keys_that_are_given_twice_are_found(text: str, pointers: list[str]) -> None:
    assert list(repeated_keys(text.encode())) == pointers


def test_a_body_of_a_hundred_thousand_keys_is_read_in_one_pass() -> None:
    # Counting each key among all others would not come to an end.
    keys = ",".join(f'"k{number}":1' for number in range(100_000))
    assert list(repeated_keys(f'{{{keys},"k5":2}}'.encode())) == ["/k5"]


_VALUES = some.recursive(
    some.none() | some.floats(allow_nan=False) | some.text(string.printable + "é☃:"),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
    max_leaves=12,
)


@given(_VALUES, some.booleans())
def test_what_has_every_key_once_passes(value: object, ascii_only: bool) -> None:
    assert not list(repeated_keys(json.dumps(value, ensure_ascii=ascii_only).encode()))


@pytest.mark.parametrize("path", [PATH, "/v1/estimates/batch", "/v1/recommendations"])
async def test_keys_that_are_given_twice_are_refused(client, path) -> None:
    content = '{"model": "llama-3.1-8b", "workload": {"input_tokens": 1, "input_tokens": 2}}'
    response = await client.post(path, content=content, headers=JSON)
    assert response.status_code == 422
    [error] = response.json()["errors"]
    assert error["pointer"] == "/workload/input_tokens"
    assert "more than once" in error["detail"]


async def test_every_operation_refuses_forms_that_it_lacks(app, client) -> None:
    """406 before anything else, so that no body is needed to find out."""
    asked = 0
    for path, item in app.openapi()["paths"].items():
        for method, operation in item.items():
            succeeds = [told for status, told in operation["responses"].items() if status < "3"]
            if not path.startswith("/v1/") or not any("content" in told for told in succeeds):
                continue
            assert "406" in operation["responses"], (method, path)
            place = path.replace("{kind}", "csrd").replace("{collection}", "models")
            headers = {"Accept": "application/x-unheard-of, image/x-none"}
            response = await client.request(method, place, headers=headers)
            assert response.status_code == 406, (method, path)
            assert response.headers["content-type"] == MEDIA_TYPE
            assert "available as application/json" in response.json()["detail"] or not any(
                "application/json" in told["content"] for told in succeeds if "content" in told
            )
            asked += 1
    assert asked > 90


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        (PATH, "GET, POST, HEAD, OPTIONS"),
        ("/v1/estimates/batch", "POST, OPTIONS"),
        ("/v1/accelerators", "GET, HEAD, OPTIONS"),
        ("/v1/accelerators/nvidia-l40s-48gb", "GET, PUT, DELETE, HEAD, OPTIONS"),
        ("/v1/models/meta-llama/Llama-3.1-8B", "GET, PUT, DELETE, HEAD, OPTIONS"),
        ("/v1/charts/roofline", "GET, POST, HEAD, OPTIONS"),
        ("/openapi.json", "GET, HEAD, OPTIONS"),
        ("/", "GET, HEAD, OPTIONS"),
    ],
)
async def test_paths_name_their_methods(client, path: str, methods: str) -> None:
    told = await client.options(path)
    assert (told.status_code, told.headers["allow"], told.content) == (204, methods, b"")
    refused = await client.request("PATCH", path)
    assert (refused.status_code, refused.headers["allow"]) == (405, methods)


async def test_what_is_nowhere_has_no_methods(client) -> None:
    assert (await client.options("/v1/nowhere")).status_code == 404


async def test_browsers_of_other_sites_may_ask_first() -> None:
    """The answer to a preflight is that of CORS, with what a page may send."""
    app = create_app(Settings(embedded_database=False, cors_origins=("https://a.example",)))
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://test"
    ) as client:
        asks = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
        told = await client.options(PATH, headers=asks)
    assert told.headers["access-control-allow-origin"] == "https://a.example"


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
async def test_any_copy_is_confirmed_with_the_tag_of_the_form(client, encoding: str) -> None:
    accepts = {"Accept-Encoding": encoding}
    sent = await client.get(LINK, headers=accepts)
    held = await client.get(LINK, headers=accepts | {"If-None-Match": "*"})
    assert (held.status_code, held.headers["etag"]) == (304, sent.headers["etag"])
    assert held.headers["etag"].endswith('-gzip"') is (encoding == "gzip")


async def test_the_document_is_kept_compressed_and_confirmed(client, app) -> None:
    packed = await client.get("/openapi.json", headers={"Accept-Encoding": "gzip"})
    plain = await client.get("/openapi.json", headers={"Accept-Encoding": "identity"})
    assert packed.headers["content-encoding"] == "gzip"
    assert "content-encoding" not in plain.headers
    assert packed.json() == plain.json() == app.openapi()
    assert int(packed.headers["content-length"]) < len(plain.content) / 4
    assert packed.headers["etag"] != plain.headers["etag"]
    for response in (packed, plain):
        tag = response.headers["etag"]
        again = await client.get("/openapi.json", headers={"If-None-Match": tag})
        assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)


async def test_a_name_of_a_link_means_the_nearest_field(client) -> None:
    """Names that stand at several places of a request are the first one's."""
    link = {"model": "llama-3.1-8b", "accelerator": "h100", "region": "SE"}
    answer = (await client.get(PATH, params=link | {"pue_ratio": 1.5})).json()
    assert answer["facility"]["pue_ratio"]["value"] == 1.5
    assert "compliance" not in answer
    sent = {**link, "embedding": {"model": "BAAI/bge-large-en-v1.5"}, "chunk_tokens": 256}
    linked = link | {"embedding_model": "BAAI/bge-large-en-v1.5", "chunk_tokens": 256}
    answered = await client.get("/v1/retrieval", params=linked)
    assert answered.json() == (await client.post("/v1/retrieval", json=sent)).json()
    assert answered.status_code == 200


@pytest.mark.parametrize("request_", REQUESTS.values(), ids=REQUESTS)
def test_no_field_hides_another_in_links(request_) -> None:
    places = flat_fields(request_)
    assert len(set(places.values())) == len(places)
    for name, place in places.items():
        assert name not in request_.model_fields or place == (name,)
