"""Asks a running service over HTTP."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

import httpx
import orjson

from service.client.estimator import NotReached, Refused

#: Recommendations over the whole catalog take seconds, and a busy server makes them wait.
_TIMEOUT_S = 120.0
_CONNECT_TIMEOUT_S = 5.0
_NO_CONTENT = 204


class Server:
    """A service at an address such as ``http://127.0.0.1:8000``.

    With an API key, own entries of its organisation can be asked about.
    """

    def __init__(
        self, url: str, key: str | None = None, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        self._url = url.rstrip("/").removesuffix("/v1")
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._transport = transport

    async def ask(self, question: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to a question; see :class:`service.client.estimator.EstimatorClient`."""
        try:
            content = orjson.dumps(body)
        except orjson.JSONEncodeError as error:
            raise Refused({"detail": f"the request is not JSON: {error}"}) from None
        return await self._answer(
            "POST", question, content=content, headers={"Content-Type": "application/json"}
        )

    def sweep(
        self, body: Mapping[str, Any], told: Callable[[int, int], None]
    ) -> AsyncIterator[str]:
        """A sweep's table; see :class:`service.client.estimator.EstimatorClient`."""
        from service.client.sweeps import swept_by

        return swept_by(self._url, self._headers, body, told, self._transport)

    async def import_file(
        self, body: Mapping[str, Any], idempotency_key: str | None = None
    ) -> dict[str, Any]:
        """Measurements of a file; see :class:`service.client.estimator.EstimatorClient`."""
        headers = {"Content-Type": "application/json"}
        if idempotency_key is not None:
            headers["Idempotency-Key"] = idempotency_key
        content = orjson.dumps(body)
        return await self._answer("POST", "measurements/imports", content=content, headers=headers)

    async def report(self, document: Mapping[str, Any], idempotency_key: str) -> dict[str, Any]:
        """Report a measurement; the same one under the same key is stored once.

        Raises
        ------
        Refused
            If it cannot be taken.
        NotReached
            If the service does not answer.
        """
        headers = {"Content-Type": "application/json", "Idempotency-Key": idempotency_key}
        content = orjson.dumps(document)
        return await self._answer("POST", "measurements", content=content, headers=headers)

    async def withdraw(self, number: int) -> None:
        """Withdraw a report.

        Raises
        ------
        Refused
            If there is none, or it is another organisation's.
        NotReached
            If the service does not answer.
        """
        await self._answer("DELETE", f"measurements/{number}")

    async def look_up(self, collection: str, text: str, most: int) -> list[dict[str, Any]]:
        """Entries of the catalog; see :class:`service.client.estimator.EstimatorClient`."""
        params = {"limit": str(most)} | ({"q": text} if text else {})
        page = await self._answer("GET", collection, params=params)
        items = page.get("items")
        if not isinstance(items, list):
            raise NotReached(f"{self._url} answers something else than Headroom does")
        return items

    async def _answer(self, method: str, path: str, **asked: Any) -> dict[str, Any]:
        timeout = httpx.Timeout(_TIMEOUT_S, connect=_CONNECT_TIMEOUT_S)
        try:
            async with httpx.AsyncClient(
                timeout=timeout, transport=self._transport, headers=self._headers
            ) as client:
                response = await client.request(method, f"{self._url}/v1/{path}", **asked)
        except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
            told = str(error) or type(error).__name__
            raise NotReached(f"{self._url} cannot be reached: {told}") from None
        if response.status_code == _NO_CONTENT:
            return {}
        try:
            answer = orjson.loads(response.content)
        except orjson.JSONDecodeError:
            answer = None
        if not isinstance(answer, dict):
            raise NotReached(
                f"{self._url} answers {response.status_code} with something else than Headroom does"
            )
        if response.is_success:
            return answer
        if 400 <= response.status_code < 500:
            raise Refused(answer)
        detail = answer.get("detail") or answer.get("title") or "it failed"
        raise NotReached(f"{self._url} answers {response.status_code}: {detail}")
