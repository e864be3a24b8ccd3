"""``/llms.txt``: what language models need to know to use the service (https://llmstxt.org)."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response

from service.api.http.contract import Operations

router = Operations(tags=["operations"])

_HEAD = """\
# Headroom

> What an LLM deployment needs and costs before it is bought: memory per accelerator, latency and
> throughput, energy, carbon, water and cost, each as a value with a 90 % interval and its sources.

- Bodies and answers are JSON. Units are in the names of fields; GB are 1e9 bytes.
- Estimated figures are {"value", "low", "high"}, a central 90 % interval; `null` is unknown, not
  zero.
- `model` takes a catalog id or alias, `hf:organisation/name`, or `{"config": ...}` with a
  config.json; `accelerator` and `region` an id, an alias, or an object. Ids are found with `?q=`.
- `POST` takes a body. Estimates also answer `GET`, with the body's fields as flat query parameters.
- Errors are RFC 9457 problems; `errors` lists each wrong field and what would be accepted.
- `warnings` says what a careful colleague would mention: pass it on.

A first question:

    POST /v1/estimates/inference
    {"model": "meta-llama/Llama-3.1-70B", "accelerator": "nvidia-h100-sxm-80gb",
     "accelerator_count": 8, "region": "aws/eu-north-1",
     "workload": {"input_tokens": 2048, "output_tokens": 256, "concurrency": 32}}

## Reference

- [OpenAPI 3.1]({root}/openapi.json): every operation, its body, its answer, with examples
- [Reference for people]({root}/docs)

## Operations

"""


@router.get(
    "/llms.txt",
    operation_id="getLlmsText",
    summary="Introduction for language models that use this service",
    response_class=PlainTextResponse,
)
async def llms_text(http: HttpRequest) -> Response:
    """Introduce the service in plain text, and list every operation of its contract."""
    root = str(http.scope.get("root_path", ""))
    text = _HEAD.replace("{root}", root) + "\n".join(_operations(http.app.openapi(), root)) + "\n"
    return PlainTextResponse(text, headers={"Cache-Control": "public, max-age=3600"})


def _operations(contract: dict[str, Any], root: str) -> list[str]:
    """A line an operation, as the contract sums it up."""
    return [
        f"- `{method.upper()} {root}{path}`: {operation['summary']}"
        for path, operations in contract["paths"].items()
        for method, operation in operations.items()
    ]
