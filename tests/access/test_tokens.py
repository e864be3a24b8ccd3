"""Tokens of an OpenID Connect issuer, a stand-in of which signs them here."""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import jwt
import pytest
from asgi_lifespan import LifespanManager
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from fastapi import FastAPI
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from service.access.keys import KeyRefused
from service.access.tokens import IssuerFailed, TokenIssuer
from service.api.app import create_app
from service.settings import Settings
from tests.api.conftest import served
from tests.api.http.test_errors import problem

ISSUER = "https://login.example.com/realms/acme"
RSA_KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
STRANGER = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PUBLISHED = [
    json.loads(RSAAlgorithm.to_jwk(RSA_KEY.public_key())) | {"kid": "r", "alg": "RS256"},
    json.loads(ECAlgorithm.to_jwk(EC_KEY.public_key())) | {"kid": "e", "alg": "ES256"},
    {"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0LTEyMzQ", "kid": "o", "alg": "HS256"},
    {"kty": "RSA", "kid": "broken"},
    "not a key",
]


def settings(**changes: Any) -> Settings:
    return Settings(oidc_issuer=ISSUER, embedded_database=False, log_level="error", **changes)


def claims(**changes: Any) -> dict[str, Any]:
    usual = {
        "iss": ISSUER,
        "aud": "headroom",
        "sub": "ada",
        "exp": time.time() + 300,
        "organisation": "acme",
        "scope": "openid own:write keys:read",
    }
    return {name: value for name, value in (usual | changes).items() if value is not None}


def token(key: Any = RSA_KEY, kid: str = "r", algorithm: str = "RS256", **changes: Any) -> str:
    return jwt.encode(claims(**changes), key, algorithm=algorithm, headers={"kid": kid})


def published(request: httpx.Request) -> httpx.Response:
    if request.url.path.endswith("/openid-configuration"):
        return httpx.Response(200, json={"issuer": ISSUER, "jwks_uri": f"{ISSUER}/keys"})
    return httpx.Response(200, json={"keys": PUBLISHED})


@pytest.fixture
async def issuer() -> TokenIssuer:
    known = TokenIssuer(settings(), httpx.MockTransport(published))
    await known.refresh()
    return known


@pytest.mark.parametrize(
    ("key", "kid", "algorithm"), [(RSA_KEY, "r", "RS256"), (EC_KEY, "e", "ES256")]
)
async def test_a_token_names_its_holder(
    issuer: TokenIssuer, key: Any, kid: str, algorithm: str
) -> None:
    caller = issuer.caller(token(key, kid, algorithm))
    assert (caller.organisation, caller.name, caller.key_id) == ("acme", "ada", "oidc:ada")
    assert caller.scopes == {"own:write"}
    assert issuer.caller(token(scope=["catalog:write", 7])).scopes == {"catalog:write"}
    assert issuer.caller(token(scope=None)).scopes == frozenset()
    assert issuer.caller(token(scope=7)).scopes == frozenset()


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": 1.0},
        {"exp": None},
        {"nbf": time.time() + 3_600},
        {"iss": "https://elsewhere.example"},
        {"iss": None},
        {"aud": "another service"},
        {"aud": None},
        {"sub": None},
        {"organisation": None},
        {"organisation": "Not A Name"},
        {"organisation": ["acme"]},
    ],
)
async def test_tokens_that_do_not_hold(issuer: TokenIssuer, changes: dict[str, Any]) -> None:
    with pytest.raises(KeyRefused):
        issuer.caller(token(**changes))


async def test_signatures_of_others_are_refused(issuer: TokenIssuer) -> None:
    unsigned = jwt.encode(claims(), None, algorithm="none", headers={"kid": "r"})  # type: ignore[arg-type]
    secret = "secret-secret-secret-secret-1234"
    shared = jwt.encode(claims(), secret, algorithm="HS256", headers={"kid": "o"})
    sound = token()
    for text in (
        token(STRANGER),
        token(STRANGER, kid="unknown"),
        token(EC_KEY, kid="r", algorithm="ES256"),
        unsigned,
        shared,
        sound[:-4] + "AAAA",
        sound.replace(".", ".e30", 1),
        "a.b.c",
        "..",
    ):
        with pytest.raises(KeyRefused):
            issuer.caller(text)


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500),
        httpx.Response(302, headers={"Location": "https://elsewhere.example"}),
        httpx.Response(200, content=b"not json"),
        httpx.Response(200, json=[]),
        httpx.Response(200, content=b"x" * 300_000),
        httpx.Response(200, json={"issuer": "https://elsewhere.example", "jwks_uri": "https://x"}),
        httpx.Response(200, json={"issuer": ISSUER, "jwks_uri": "http://unsafe.example/keys"}),
        httpx.Response(200, json={"issuer": ISSUER}),
    ],
)
async def test_strange_issuers_change_nothing(issuer: TokenIssuer, answer: httpx.Response) -> None:
    issuer._transport = httpx.MockTransport(lambda _: answer)
    with pytest.raises(IssuerFailed):
        await issuer.refresh()
    assert issuer.caller(token())


async def test_without_keys_nobody_is_let_in() -> None:
    def empty(request: httpx.Request) -> httpx.Response:
        found = published(request)
        return found if "openid" in request.url.path else httpx.Response(200, json={"keys": []})

    issuer = TokenIssuer(settings(), httpx.MockTransport(empty))
    with pytest.raises(IssuerFailed):
        await issuer.refresh()
    with pytest.raises(KeyRefused):
        issuer.caller(token())


async def test_a_service_takes_tokens_beside_keys() -> None:
    stand_in = FastAPI()
    with served(stand_in) as address:

        @stand_in.get("/.well-known/openid-configuration")
        def configuration() -> dict[str, str]:
            return {"issuer": address, "jwks_uri": f"{address}/keys"}

        @stand_in.get("/keys")
        def keys() -> dict[str, Any]:
            return {"keys": PUBLISHED[:1]}

        chosen = settings().model_copy(update={"oidc_issuer": address})
        app = create_app(chosen)
        async with LifespanManager(app, startup_timeout=None):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
                known = {"Authorization": f"Bearer {token(iss=address)}"}
                for _ in range(200):
                    answer = await client.get("/v1/workloads", headers=known)
                    if answer.status_code == 200:
                        break
                    await asyncio.sleep(0.05)
                assert answer.status_code == 200, answer.text
                assert answer.headers["cache-control"].startswith("private")
                other = {"Authorization": f"Bearer {token(STRANGER, iss=address)}"}
                problem(await client.get("/v1/workloads", headers=other), 401)
                refused = await client.put(
                    "/v1/accelerators/x?reason=because",
                    json={},
                    headers=known | {"If-None-Match": "*"},
                )
                assert "catalog:write" in problem(refused, 403)["detail"]


def unsigned(header: bytes) -> str:
    return f"{base64.urlsafe_b64encode(header).rstrip(b'=').decode()}.e30.c2ln"


@pytest.mark.parametrize(
    "text",
    [
        unsigned(b"[" * 10_000),
        unsigned(b'{"kid":' + b"[" * 5_000),
        unsigned(b'{"kid": 1' + b"0" * 5_000 + b"}"),
        unsigned(b'{"kid": "r", "alg": "RS256", "crit": {}}'),
        unsigned(b'{"kid": "r", "alg": ["RS256"]}'),
        unsigned(b'"kid"'),
        unsigned(b"\xff"),
        "a" * 1_000_000 + ".e30.c2ln",
        "\u00e9.\u00e9.\u00e9",
        "..",
    ],
)
async def test_what_is_no_token_is_refused_and_no_more(issuer, text):
    with pytest.raises(KeyRefused):
        issuer.caller(text)


@pytest.mark.parametrize("subject", ["a\0b", "a\nb", "\ud800", "a\u202eb"])
async def test_subjects_that_no_log_can_hold_are_refused(issuer, subject):
    with pytest.raises(KeyRefused, match="not allowed"):
        issuer.caller(token(sub=subject))


async def test_a_published_secret_signs_nothing(issuer):
    secret = base64.urlsafe_b64decode(PUBLISHED[2]["k"] + "=")
    with pytest.raises(KeyRefused, match="not published"):
        issuer.caller(token(secret, "o", "HS256"))


async def test_a_packed_answer_is_not_unpacked():
    def packed(request: httpx.Request) -> httpx.Response:
        assert request.headers["accept-encoding"] == "identity"
        bomb = gzip.compress(b"0" * 1_000_000)
        return httpx.Response(200, headers={"content-encoding": "gzip"}, stream=Bytes(bomb))

    with pytest.raises(IssuerFailed, match="packed"):
        await TokenIssuer(settings(), httpx.MockTransport(packed)).refresh()


class Bytes(httpx.AsyncByteStream):
    """Content that is sent as it is."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._content
