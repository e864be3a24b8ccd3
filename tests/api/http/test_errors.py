from __future__ import annotations

import codecs
import gzip
import json

import httpx
import pytest

from service.api.app import create_app
from service.api.http.problems import MEDIA_TYPE, PROBLEM_TYPES
from service.portal import views
from service.settings import Settings
from tests.api.conftest import MAIN, UNPLACED
from tests.core.memory.test_checkpoint import LLAMA_8B

PATH = "/v1/estimates/inference"


def problem(response: httpx.Response, status: int) -> dict:
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == MEDIA_TYPE
    body = response.json()
    assert body["status"] == status
    assert body["type"].removeprefix("/problems/") in PROBLEM_TYPES
    assert body["detail"]
    assert body["instance"] == f"urn:request:{response.headers['x-request-id']}"
    return body


def pointers(body: dict) -> set[str]:
    return {error["pointer"] for error in body["errors"]}


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"workload": {"input_tokens": 0}}, "/workload/input_tokens"),
        ({"workload": {"input_tokens": -5}}, "/workload/input_tokens"),
        ({"workload": {"input_tokens": 1.5}}, "/workload/input_tokens"),
        ({"workload": {"input_tokens": "2048"}}, "/workload/input_tokens"),
        ({"workload": {"input_tokens": True}}, "/workload/input_tokens"),
        ({"workload": {"output_tokens": 10**30}}, "/workload/output_tokens"),
        ({"workload": {"prefix_cached_ratio": 1.2}}, "/workload/prefix_cached_ratio"),
        ({"workload": {"speed": 1}}, "/workload/speed"),
        ({"precision": {"weights": "bf17"}}, "/precision/weights"),
        ({"serving": {"engine": "magic"}}, "/serving/engine"),
        ({"unheard_of": 1}, "/unheard_of"),
        ({"model": 5}, "/model"),
        ({"model": {"config": {}}}, "/model/config"),
        ({"model": {"config": {"model_type": "llama"}}}, "/model/config/hidden_size"),
        (
            {"model": {"config": LLAMA_8B, "safetensors_index": {"metadata": {}}}},
            "/model/safetensors_index",
        ),
        (
            {"accelerator": {"figures": {"memory_bytes": "much"}}},
            "/accelerator/figures/memory_bytes",
        ),
        ({"region": {"figures": {"pue_ratio": 0.5}}}, "/region/figures/pue_ratio"),
        ({"region": {"parent": "country/XY"}}, "/region/parent"),
        ({"accelerator_count": 0}, "/accelerator_count"),
        ({"catalog_revision": 10**9}, "/catalog_revision"),
    ],
)
async def test_errors_point_to_the_field(client, change, pointer):
    body = problem(await client.post(PATH, json=MAIN | change), 422)
    assert pointer in pointers(body)


async def test_all_errors_are_named_at_once(client):
    body = problem(
        await client.post(
            PATH, json={"model": "lama-3.1-70b", "accelerator": "nvidia-h1000", "region": "sweeden"}
        ),
        422,
    )
    details = {error["pointer"]: error["detail"] for error in body["errors"]}
    assert set(details) == {"/model", "/accelerator", "/region"}
    assert "meta-llama/Llama-3.1-70B" in details["/model"]
    assert "nvidia-h100" in details["/accelerator"]
    assert "country/SE" in details["/region"]


@pytest.mark.parametrize(
    ("parallelism", "pointer", "works"),
    [
        ({"tensor": 7}, "/parallelism/tensor", "8"),
        ({"tensor": 1, "pipeline": 81}, "/parallelism/pipeline", "80"),
        ({"tensor": 8, "expert": 2}, "/parallelism/expert", "1"),
    ],
)
async def test_impossible_parallelism_says_what_would_work(client, parallelism, pointer, works):
    request = {k: v for k, v in UNPLACED.items() if k != "accelerator_count"}
    body = problem(
        await client.post("/v1/memory/inference", json=request | {"parallelism": parallelism}), 422
    )
    found = {error["pointer"]: error["detail"] for error in body["errors"]}
    assert works in found[pointer]


async def test_a_count_that_degrees_do_not_give_is_named(client):
    body = problem(
        await client.post(
            "/v1/memory/inference", json=UNPLACED | {"parallelism": {"tensor": 4, "data": 3}}
        ),
        422,
    )
    assert pointers(body) == {"/accelerator_count"}


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1/estimates/inference", {"accelerator_count": 8, "parallelism": {"tensor": 4}}),
        (
            "/v1/estimates/training",
            {"accelerator_count": 64, "parallelism": {"tensor": 8, "pipeline": 2}},
        ),
    ],
)
async def test_copies_follow_from_the_count_as_in_every_launcher(client, path, asked):
    layout = asked["parallelism"]
    copies = asked["accelerator_count"] // (layout["tensor"] * layout.get("pipeline", 1))
    said = asked | {"parallelism": layout | {"data": copies}}
    given = {name: UNPLACED[name] for name in ("model", "accelerator")}
    short, full = [await client.post(path, json=given | one) for one in (asked, said)]
    assert short.status_code == 200, short.text
    assert short.json() == full.json()


async def test_a_count_that_copies_do_not_make_up_is_named(client):
    asked = UNPLACED | {"accelerator_count": 6, "parallelism": {"tensor": 4}}
    body = problem(await client.post("/v1/memory/inference", json=asked), 422)
    assert pointers(body) == {"/accelerator_count"}
    assert "4 or 8 would work" in body["errors"][0]["detail"]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[" * 100_000,
        b'{"a":' * 5_000,
        b"\xff\xfe",
        b'{"model": "\\ud800"}',
        b"NaN",
        b'{"model": NaN}',
        b"null",
        b"[]",
        b'"text"',
    ],
)
async def test_what_is_no_request_is_refused(client, content):
    response = await client.post(
        PATH, content=content, headers={"Content-Type": "application/json"}
    )
    problem(response, 422)


@pytest.mark.parametrize(
    "number", ["1e400", "-1e400", "1e308", "1" + "0" * 5000, "NaN", "Infinity"]
)
async def test_numbers_beyond_reason_are_refused(client, number):
    content = '{"energy_kwh": ' + number + ', "region": "country/SE"}'
    response = await client.post(
        "/v1/impacts", content=content, headers={"Content-Type": "application/json"}
    )
    problem(response, 422)


async def test_config_numbers_beyond_reason_are_refused(client):
    content = (
        '{"model": {"config": {"model_type": "llama", "hidden_size": 1e400}}, "accelerator": "h100"'
        "}"
    )
    response = await client.post(
        "/v1/memory/inference", content=content, headers={"Content-Type": "application/json"}
    )
    problem(response, 422)


def nested(levels: int) -> bytes:
    config = (
        b'{"model_type": "llama", "text": "]]}}[{\\"", "deep": ' + b"[" * levels + b"]" * levels
    )
    return b'{"accelerator": "h100", "model": {"config": ' + config + b"}}}"


async def test_deep_nesting_is_refused_and_brackets_in_text_are_not_nesting(client):
    path, json_type = "/v1/memory/inference", {"Content-Type": "application/json"}
    # Three levels are around what is deep.
    shallow = await client.post(path, content=nested(29), headers=json_type)
    assert pointers(problem(shallow, 422)) == {"/model/config/hidden_size"}
    deep = problem(await client.post(path, content=nested(30), headers=json_type), 422)
    assert deep["type"] == "/problems/malformed-json"
    wide = b'{"accelerator": "h100", "model": {"config": {"wide": [' + b"[]," * 500 + b"[]]}}}"
    refused = await client.post(path, content=wide, headers=json_type)
    assert pointers(problem(refused, 422)) == {"/model/config/hidden_size"}


@pytest.mark.parametrize("count", [200, 40_000])
async def test_the_list_of_errors_is_bounded(client, count):
    body = MAIN | {f"unheard_of_{number}": 1 for number in range(count)}
    response = await client.post(PATH, json=body)
    listed = problem(response, 422)
    assert str(count) in listed["detail"]
    assert len(listed["errors"]) <= 100
    assert len(response.content) < 50_000


async def test_an_odd_length_is_no_fault_of_the_service(client):
    # Digits to Python, but not to HTTP.
    headers = {"Content-Type": "application/json", "Content-Length": b"\xb2"}
    response = await client.post(PATH, content=json.dumps(MAIN).encode(), headers=headers)
    assert response.status_code == 200


async def test_bodies_of_another_type_are_refused(client):
    for content_type in ("text/plain", "application/xml", "multipart/form-data; boundary=x"):
        response = await client.post(PATH, content=b"{}", headers={"Content-Type": content_type})
        problem(response, 415)
    response = await client.post(PATH, content=b"{}")
    problem(response, 415)
    assert response.json()["detail"] == "the Content-Type is missing; send application/json"


@pytest.mark.parametrize("path", [PATH, "/v1/plans/site"])
async def test_bodies_in_another_encoding_are_refused_as_such(client, path):
    body = json.dumps(MAIN).encode()
    headers = {"Content-Type": "application/json"}
    compressed = await client.post(
        path, content=gzip.compress(body), headers={**headers, "Content-Encoding": "gzip"}
    )
    assert "'gzip'" in problem(compressed, 415)["detail"]
    assert compressed.headers["accept-encoding"] == "identity"
    for marked in (body.decode().encode("utf-16"), codecs.BOM_UTF8 + body):
        response = await client.post(path, content=marked, headers=headers)
        assert "byte order mark" in problem(response, 422)["detail"]


async def test_errors_of_validators_say_what_is_wrong_and_no_more(client):
    response = await client.post("/v1/recommendations", json={})
    problem(response, 422)
    assert response.json()["errors"][0]["detail"] == "give either model, or models to choose from"


async def test_oversized_bodies_are_refused_by_length_and_while_reading(client):
    huge = b'{"model": "' + b"a" * 2_000_000 + b'"}'
    json_type = {"Content-Type": "application/json"}
    problem(await client.post(PATH, content=huge, headers=json_type), 413)

    async def chunks():
        for _ in range(40):
            yield b"a" * 50_000

    problem(await client.post(PATH, content=chunks(), headers=json_type), 413)


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ("model=llama-3.1-8b&accelerator=h100&speed=1", "/speed"),
        ("model=llama-3.1-8b&accelerator=h100&tensor=x", "/tensor"),
        ("model=llama-3.1-8b&accelerator=h100&tensor=1&tensor=2", "/tensor"),
        ("accelerator=h100", "/model"),
        ("model=llama-3.1-8b&accelerator=h100&weights=", "/weights"),
    ],
)
async def test_query_errors_name_the_parameter(client, query, pointer):
    body = problem(await client.get(f"/v1/memory/inference?{query}"), 422)
    assert pointer in pointers(body)


async def test_paths_and_methods_that_do_not_exist(client):
    problem(await client.get("/v1/nothing"), 404)
    problem(await client.get("/problems/none"), 404)
    problem(await client.get("/docs/../app.py"), 404)
    refused = await client.delete(PATH)
    problem(refused, 405)
    assert "POST" in refused.headers["allow"] or "GET" in refused.headers["allow"]


async def test_a_slash_at_the_end_leads_to_the_address_without_it(client):
    for path, without in (("/docs/", "/docs"), ("/v1/models/?q=llama", "/v1/models?q=llama")):
        moved = await client.get(path)
        assert (moved.status_code, moved.headers["location"]) == (308, without)
    asked = await client.post("/v1/estimates/inference/", json=MAIN)
    assert (asked.status_code, asked.headers["location"]) == (308, "/v1/estimates/inference")
    for path in ("/nothing/", "//example.com/", "//example.com/docs/", "/v1/nothing/"):
        assert (await client.get(f"http://test{path}")).status_code == 404


async def test_an_unknown_entry_names_the_nearest(client):
    body = problem(await client.get("/v1/accelerators/nvidia-h100-smx-80gb"), 404)
    assert "nvidia-h100-sxm-80gb" in body["detail"]


async def test_every_problem_type_has_its_page(client):
    for slug in PROBLEM_TYPES:
        page = await client.get(f"/problems/{slug}")
        assert page.status_code == 200
        assert PROBLEM_TYPES[slug].title in page.text


async def test_request_ids_are_kept_when_decent_and_made_when_not(client):
    kept = await client.get("/livez", headers={"X-Request-ID": "trace-1234.abc"})
    assert kept.headers["x-request-id"] == "trace-1234.abc"
    for odd in ("short", "x" * 65, 'injected" id=1'):
        made = await client.get("/livez", headers={"X-Request-ID": odd})
        assert made.headers["x-request-id"] != odd
        assert len(made.headers["x-request-id"]) == 32


async def test_a_fault_of_the_service_is_a_problem_without_details():
    app = create_app(Settings(embedded_database=False, log_level="error"))

    # Without its lifespan the application has no catalog, which no client can bring about.
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        body = problem(await client.post(PATH, json=MAIN), 500)
    assert "shared" not in body["detail"]


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"growth_per_year_ratio": 20, "days": 36_500}, "/growth_per_year_ratio"),
        ({"training_kgco2e": 0}, "/training_kgco2e"),
        ({"requests_per_day": {"value": 5, "low": 6, "high": 7}}, "/requests_per_day"),
    ],
)
async def test_projections_beyond_reason_are_refused(client, change, pointer):
    asked = {"training_kgco2e": 1e5, "requests_per_day": 1e6, "gco2e_per_request": 0.1}
    body = problem(await client.post("/v1/projections", json=asked | change), 422)
    assert pointers(body) == {pointer}


@pytest.mark.parametrize("path", ["/v1/memory/inference", "/v1/models", "/embed", "/oembed?url=/"])
async def test_thousands_of_parameters_are_not_told_one_by_one(client, path):
    """Each unknown one is told what is known: a line of 60 kB would be answered with 30 MB."""
    mark = "&" if "?" in path else "?"
    response = await client.get(path + mark + "&".join(f"p{n}=1" for n in range(5_000)))
    assert response.status_code == 422
    assert len(response.content) < 100_000


@pytest.mark.parametrize("odd", [b"67381130392928198656", b"1" * 400, b'"\\ud800"'])
async def test_odd_values_in_a_batch_are_refused_by_themselves(client, odd):
    body = b'{"requests": [{"model": ' + odd + b', "x": {"' + b"y" + b'": ' + odd + b"}}]}"
    headers = {"Content-Type": "application/json"}
    response = await client.post("/v1/estimates/batch", content=body, headers=headers)
    assert response.status_code in (200, 422), response.text
    if response.status_code == 200:
        [item] = response.json()["items"]
        assert item["answer"] is None
        assert item["errors"]


async def test_faults_are_told_as_people_or_programs_read_them(client, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("a secret of the inside")

    monkeypatch.setattr(views, "page", broken)
    page = await client.get("/", headers={"Accept": "text/html"})
    assert page.status_code == 500
    assert page.headers["Content-Type"].startswith("text/html")
    assert "Something went wrong here" in page.text
    assert page.headers["X-Request-Id"] in page.text
    told = await client.get("/", headers={"Accept": "application/json"})
    assert told.status_code == 500
    assert told.json()["type"] == "/problems/internal-error"
    assert "secret" not in page.text + told.text


DOORS = [
    ("/v1/estimates/inference", MAIN),
    ("/v1/estimates/training", {"model": "llama-3.1-8b", "accelerator": "h100", "training": {}}),
    ("/v1/impacts", {"energy_kwh": 1.0}),
    ("/v1/charts/sensitivity", MAIN),
    ("/v1/social-licence", {}),
    ("/v1/recommendations", {"model": "llama-3.1-8b"}),
    ("/v1/recommendations/training", {"model": "llama-3.1-8b", "training": {"tokens": 1e9}}),
    ("/v1/compare", {"models": ["llama-3.1-8b"], "accelerators": ["h100"]}),
]


@pytest.mark.parametrize(("path", "body"), DOORS, ids=[door[0] for door in DOORS])
async def test_a_place_that_is_misspelt_is_suggested_in_every_door(client, path, body):
    place = "Stokholm"
    if path.startswith("/v1/recommendations"):
        asked = body | {"search": {"regions": [place]}}
    else:
        asked = body | ({"regions": [place]} if path == "/v1/compare" else {"region": place})
    response = await client.post(path, json=asked)
    found = response.json()
    errors = found["rows"][0]["errors"] if path == "/v1/compare" else found["errors"]
    [error] = errors
    assert "region" in error["pointer"]
    assert error["suggestions"][0] == "aws/eu-north-1"
    assert not [one for one in error["suggestions"] if one.startswith("country/")]
    for one in error["suggestions"]:
        region = (await client.get(f"/v1/regions/{one}")).json()
        assert (region["country"], region["place"]) == ("SE", "Stockholm")


@pytest.mark.parametrize(
    ("change", "pointer", "suggested"),
    [
        ({"modle": "llama-3.1-8b"}, "/modle", "model"),
        ({"workload": {"input_token": 5}}, "/workload/input_token", "input_tokens"),
        ({"serving": {"enginee": "vllm"}}, "/serving/enginee", "engine"),
        ({"serving": {"engine": "vlm"}}, "/serving/engine", "vllm"),
        ({"serving": {"usage_context": "ofline"}}, "/serving/usage_context", "offline"),
        ({"precision": {"weights": "bf17"}}, "/precision/weights", "bf16"),
        ({"accelerator": "h1000"}, "/accelerator", "nvidia-h100-sxm-80gb"),
        ({"accelerator": {"vender": "acme"}}, "/accelerator/vender", "vendor"),
    ],
)
async def test_what_was_perhaps_meant_can_be_put_in_its_place(client, change, pointer, suggested):
    body = problem(await client.post(PATH, json=MAIN | change), 422)
    [error] = [one for one in body["errors"] if one["pointer"] == pointer]
    assert error["suggestions"][0] == suggested


async def test_parameters_and_lists_of_the_catalog_suggest_as_bodies_do(client):
    body = problem(await client.get("/v1/techniques?applies_t=training"), 422)
    assert body["errors"][0]["suggestions"] == ["applies_to"]
    body = problem(await client.get("/v1/techniques?applies_to=trainin"), 422)
    assert body["errors"][0]["suggestions"] == ["training"]


@pytest.mark.parametrize(
    "path", ["/v1/models/lama-3.1-70b", "/v1/regions/Stokholm", "/v1/techniques/zero3x"]
)
async def test_what_is_not_found_has_links_to_what_is(client, path):
    body = problem(await client.get(path), 404)
    assert body["suggestions"]
    for link in body["suggestions"]:
        assert link.startswith(path.rsplit("/", 1)[0])
        assert (await client.get(link)).status_code == 200


async def test_a_framework_that_does_not_exist_is_refused(client):
    asked = {"model": "llama-3.1-8b", "training": {"tokens": 1e9, "framework": "torchtitn"}}
    body = problem(await client.post("/v1/recommendations/training", json=asked), 422)
    assert body["errors"][0]["pointer"] == "/training/framework"
    assert body["errors"][0]["suggestions"][0] == "torchtitan"


@pytest.mark.parametrize("name", ["data_parallel_shard_degree", "secondary_shard_degree"])
async def test_a_word_in_place_of_a_number_has_one_error(client, name):
    asked = {"model": "llama-3.1-8b", "accelerator": "h100", "training": {name: "all"}}
    [error] = problem(await client.post("/v1/estimates/training", json=asked), 422)["errors"]
    assert error["pointer"] == f"/training/{name}"
    assert error["detail"] == "must be a whole number or machine"


SENT = "/v1/estimates/inference"


@pytest.mark.parametrize(
    ("change", "pointer", "detail", "suggestions"),
    [
        ({"accelerator_count": "8"}, "/accelerator_count", "without quotation marks", ["8"]),
        ({"accelerator_count": 2.5}, "/accelerator_count", "a whole number, not 2.5", []),
        ({"accelerator_count": True}, "/accelerator_count", "not true or false", []),
        ({"model": None}, "/model", "must not be null", []),
        ({"precision": "fp8"}, "/precision", "an object with fields such as activations", []),
        (
            {"precision": True},
            "/precision",
            "an object, not true or false, with fields such as activations",
            [],
        ),
        ({"as_of": "22.11.2026"}, "/as_of", "year-month-day", ["2026-11-22"]),
        ({"as_of": "2026-02-30"}, "/as_of", "a day of the calendar", []),
        ({"workload": {"input_tokens": -5}}, "/workload/input_tokens", "must be at least 1", []),
        ({"workload": {"input_tokens": 10**12}}, "/workload/input_tokens", "10,000,000", []),
        ({"workload": {"concurrency": "lots"}}, "/workload/concurrency", "number or max", []),
        ({"limits": {"ttft_ms": 500}}, "/limits/ttft_ms", "times are in seconds", ["ttft_s"]),
        ({"input_tokens": 512}, "/input_tokens", "workload", ["workload.input_tokens"]),
        ({"cost": {"currency": "EUR"}}, "/cost/currency", "money is in US dollars", []),
        ({"limits": {"percentile": 0.95}}, "/limits/percentile", "would be p95", ["p95"]),
        ({"limits": {"percentile": 90}}, "/limits/percentile", "p90 is not computed", ["p95"]),
        (
            {"limits": {"percentile": 95, "ttft_s": 1.0, "ttft_p95_s": 2.0}},
            "/limits",
            "limited twice",
            [],
        ),
        ({"calibration": "owned"}, "/calibration", "must be own or published", ["own"]),
    ],
)
async def test_what_is_wrong_is_said_beside_its_field(client, change, pointer, detail, suggestions):
    body = problem(await client.post(SENT, json=MAIN | change), 422)
    [error] = body["errors"]
    assert error["pointer"] == pointer
    assert detail in error["detail"]
    assert error.get("suggestions", [])[: len(suggestions) or None] == suggestions
    assert "Input should" not in error["detail"]


async def test_a_missing_field_says_what_it_is(client):
    asked = {name: value for name, value in MAIN.items() if name != "accelerator"}
    [error] = problem(await client.post(SENT, json=asked), 422)["errors"]
    assert error["detail"].startswith("is required (Catalog id or alias")


async def test_an_empty_body_is_called_empty(client):
    headers = {"Content-Type": "application/json"}
    body = problem(await client.post(SENT, content=b"", headers=headers), 422)
    assert body["detail"] == "the body is empty; send a JSON object"


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("/v1/acelerators", "/v1/accelerators"),
        ("/v1/charts/rooflin", "/v1/charts/roofline"),
        ("/v1/reports/csrdd", "/v1/reports/csrd"),
        ("/v1/catalog/schemas/accelerator", "/v1/catalog/schemas/accelerators"),
    ],
)
async def test_a_path_that_is_nearly_right_is_suggested(client, path, near):
    assert problem(await client.get(path), 404)["suggestions"][0] == near


@pytest.mark.parametrize("percentile", [95, 95.0, "95", "P95", "p95", "95th"])
async def test_a_percentile_is_understood_as_people_write_it(client, percentile):
    limits = {"percentile": percentile, "ttft_s": 2.0}
    answers = [
        (await client.post(SENT, json=MAIN | {"limits": asked})).json()["goodput"]
        for asked in (limits, {"ttft_p95_s": 2.0})
    ]
    assert answers[0] == answers[1]
    assert answers[0]["limits"][0]["name"] == "ttft_p95_s"


async def test_unknown_names_are_told_beside_what_cannot_be_read(client):
    """Whoever mends a request mends it once."""
    body = {"model": "no-such-model", "accelerator": "h101", "workload": {"input_tokens": 0}}
    wrong = {"/model", "/accelerator", "/workload/input_tokens"}
    assert pointers(problem(await client.post(PATH, json=body), 422)) == wrong
    query = {"model": "no-such-model", "accelerator": "h101", "input_tokens": "0", "bogus": 1}
    found = pointers(problem(await client.get(PATH, params=query), 422))
    assert found == {"/model", "/accelerator", "/input_tokens", "/bogus"}
    lists = {"models": ["llama-3.1-8b", "no-such-model"], "accelerators": 5, "regions": ["eu", "?"]}
    found = pointers(problem(await client.post("/v1/compare", json=lists), 422))
    assert found == {"/models/1", "/accelerators", "/regions/1"}


async def test_names_in_another_catalog_are_not_judged(client):
    body = {"model": "no-such-model", "accelerator": "h100", "catalog_revision": 1, "bogus": 1}
    assert pointers(problem(await client.post(PATH, json=body), 422)) == {"/bogus"}


async def test_a_field_of_another_question_leads_there(client):
    body = {"model": "llama-3.1-8b", "accelerator": "h100", "region": "SE"}
    sent = problem(await client.post("/v1/memory/inference", json=body), 422)
    linked = problem(await client.get("/v1/memory/inference", params=body), 422)
    for told in (sent, linked):
        [error] = told["errors"]
        assert error["pointer"] == "/region"
        assert "/v1/estimates/inference takes it" in error["detail"]


@pytest.mark.parametrize(
    ("change", "suggested"),
    [
        ({"batch_size": 8}, "workload.concurrency"),
        ({"tensor_parallel_size": 8}, "parallelism.tensor"),
        ({"gpu_count": 8}, "accelerator_count"),
        ({"dtype": "fp8"}, "precision.weights"),
        ({"workload": {"rps": 3}}, "requests_per_s"),
        ({"workload": {"tokens": 3}}, "input_tokens"),
    ],
)
async def test_fields_are_known_by_the_names_that_other_tools_give_them(client, change, suggested):
    body = problem(await client.post(PATH, json=MAIN | change), 422)
    [error] = body["errors"]
    assert suggested in error["suggestions"]
    assert suggested in error["detail"]


async def test_links_know_them_as_well(client):
    link = "/v1/memory/inference?model=llama-3.1-8b&accelerator=h100"
    for name, suggested in {"tp": "tensor", "gpus": "accelerator_count"}.items():
        body = problem(await client.get(f"{link}&{name}=2"), 422)
        assert body["errors"][0]["suggestions"] == [suggested]


async def test_a_global_batch_is_known_by_what_trainers_call_it(client):
    asked = {"model": "llama-3.1-8b", "accelerator": "h100-sxm", "accelerator_count": 8}
    body = asked | {"training": {"train_batch_size": 64}}
    error = problem(await client.post("/v1/estimates/training", json=body), 422)["errors"][0]
    assert error["suggestions"] == ["global_batch_size"]


async def test_batch_of_training_is_that_of_one_accelerator(client):
    asked = {"model": "llama-3.1-8b", "accelerator": "h100", "batch_size": 4}
    body = problem(await client.post("/v1/memory/training", json=asked), 422)
    assert body["errors"][0]["suggestions"] == ["training.micro_batch_size"]


async def test_fields_in_the_address_of_a_body_are_refused(client):
    body = problem(await client.post(f"{PATH}?explain=true", json=MAIN), 422)
    [error] = body["errors"]
    assert error["pointer"] == "/explain"
    assert "go into the body" in error["detail"]


async def test_the_problem_in_short_says_where_the_first_error_is(client):
    one = problem(await client.post(PATH, json=MAIN | {"accelerator_count": 0}), 422)
    assert one["detail"] == "/accelerator_count: must be at least 1"
    workload = {"input_tokens": 0, "output_tokens": 0}
    two = problem(await client.post(PATH, json=MAIN | {"workload": workload}), 422)
    assert two["detail"].startswith("2 errors; the first is at /workload/input_tokens: ")
