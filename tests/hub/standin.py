"""A Hub of our own on this machine: it answers as the real one does, or as none should."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

COMMIT = "0123456789abcdef0123456789abcdef01234567"
LATER = "89abcdef0123456789abcdef0123456789abcdef"
TOKEN = "hf_secret"
CONFIG: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 2048,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "intermediate_size": 5632,
    "vocab_size": 32000,
    "torch_dtype": "bfloat16",
}
PARAMETERS = 1_100_048_384


class StandIn:
    """The application, with what it was asked and where its branch stands."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.commit = COMMIT
        self.broken = False
        self.app = Starlette(
            routes=[
                Route("/api/models/{org}/{name}/revision/{revision:path}", self.model),
                Route("/api/models/{name}/revision/{revision:path}", self.model),
                Route("/{org}/{name}/raw/{commit}/config.json", self.config),
                Route("/{name}/raw/{commit}/config.json", self.config),
            ]
        )

    async def model(self, request: Request) -> Response:
        org, name = request.path_params.get("org", "acme"), request.path_params["name"]
        revision = request.path_params["revision"]
        self.asked[f"model {name}@{revision}"] += 1
        assert request.query_params.getlist("expand") == ["sha", "safetensors", "lastModified"]
        if self.broken:
            return Response("oops", 500)
        if name == "renamed":
            return RedirectResponse(
                f"/api/models/{org}/small/revision/{revision}?{request.url.query}"
            )
        if name == "elsewhere":
            return RedirectResponse("http://169.254.169.254/latest/meta-data/", 302)
        if name == "round":
            return RedirectResponse(str(request.url), 302)
        if name == "slow":
            await asyncio.sleep(2)
        if name == "limited":
            return JSONResponse({"error": "too many"}, 429)
        if request.headers.get("authorization") == "Bearer old":
            message = "Invalid credentials in Authorization header"
            return JSONResponse({}, 401, headers={"X-Error-Message": message})
        if name == "private" and request.headers.get("authorization") != f"Bearer {TOKEN}":
            return JSONResponse({}, 401, headers={"X-Error-Code": "RepoNotFound"})
        if name == "missing":
            return JSONResponse({}, 404, headers={"X-Error-Code": "RepoNotFound"})
        if name == "page":
            return Response("<html>", media_type="text/html")
        if revision not in ("main", "v1", "feature/x", COMMIT, LATER):
            return JSONResponse({}, 404, headers={"X-Error-Code": "RevisionNotFound"})
        sha = revision if revision in (COMMIT, LATER) else self.commit
        told: dict[str, Any] = {
            "_id": "1",
            "id": f"{org}/{name}",
            "sha": "nonsense" if name == "no-commit" else sha,
            "lastModified": "2024-07-18T08:56:00.000Z",
        }
        if name == "small":
            told["safetensors"] = {"parameters": {"BF16": PARAMETERS}, "total": PARAMETERS}
        if name == "new-types":
            told["safetensors"] = {"parameters": {"F6_E2M3": PARAMETERS}, "total": PARAMETERS}
        return JSONResponse(told)

    async def config(self, request: Request) -> Response:
        name = request.path_params["name"]
        self.asked[f"config {name}@{request.path_params['commit']}"] += 1
        if name == "gated":
            return JSONResponse({}, 403, headers={"X-Error-Code": "GatedRepo"})
        if name == "closed":
            return JSONResponse({}, 401)
        if name == "no-config":
            return JSONResponse({}, 404, headers={"X-Error-Code": "EntryNotFound"})
        if name == "huge":
            return Response(b'{"a": "' + b"x" * 3_000_000 + b'"}')
        if name == "no-json":
            return Response(b"not json")
        if name == "many-keys":
            return JSONResponse({str(at): at for at in range(600)})
        if name == "strange":
            return JSONResponse({"model_type": "llama", "hidden_size": "big"})
        if name == "infinite":
            return Response(b'{"model_type": "llama", "rope_theta": Infinity}')
        return JSONResponse(CONFIG)
