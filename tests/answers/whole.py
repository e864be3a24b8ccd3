"""Questions that ask for whole answers, which are small unless more is included."""

from __future__ import annotations

from typing import Any

import httpx

from service.estimation.use_cases import USE_CASES

_BATCH = "/v1/estimates/batch"


def groups(path: str) -> list[str]:
    """Everything that an operation's answer may have; explanations are asked for by explain."""
    use_case = USE_CASES.get(path.removeprefix("/v1/"))
    known = () if use_case is None else use_case.groups
    return [group for group in known if group != "explanation"]


def whole_body(body: Any, path: str) -> Any:
    """A body that asks for a whole answer; of a batch, for those of its requests."""
    if not isinstance(body, dict):
        return body
    if path == _BATCH and isinstance(body.get("requests"), list):
        return body | {"requests": [whole_body(one, _single(one)) for one in body["requests"]]}
    included = groups(path)
    return {"include": included} | body if included else body


def _single(body: Any) -> str:
    kind = "training" if isinstance(body, dict) and "training" in body else "inference"
    return f"/v1/estimates/{kind}"


def whole_path(method: str, path: str) -> str:
    """The address, which asks for a whole answer where there is no body."""
    bare, _, query = path.partition("?")
    included = groups(bare)
    if method != "GET" or not included or "include=" in query:
        return path
    return f"{bare}?{query}{'&' if query else ''}include={','.join(included)}"


class AskingForAll(httpx.AsyncClient):
    """A client whose questions ask for whole answers."""

    async def request(self, method: str, url: Any, **asked: Any) -> httpx.Response:
        """Send a request."""
        path = str(url)
        if asked.get("json") is not None:
            asked["json"] = whole_body(asked["json"], path)
        elif asked.get("params"):
            included = groups(path)
            if included and "include" not in asked["params"]:
                asked["params"] = {**asked["params"], "include": ",".join(included)}
        else:
            url = whole_path(method, path)
        return await super().request(method, url, **asked)
