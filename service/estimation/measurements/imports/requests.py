"""What callers send to import a tool's file."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field, JsonValue, model_validator

from service.estimation.measurements.imports.registry import FORMATS
from service.estimation.references import Request

_LLAMA_BENCH = """\
| model                |       size |     params | backend | ngl |  test |           t/s |
| -------------------- | ---------: | ---------: | ------- | --: | ----: | ------------: |
| llama 8B Q4_0        |   4.33 GiB |     8.03 B | CUDA    |  99 | tg128 | 145.10 ± 0.32 |
"""
_DEPLOYMENT: dict[str, Any] = {
    "model": "meta-llama/Llama-3.1-8B",
    "accelerator": "nvidia-rtx-4090-24gb",
    "accelerator_count": 1,
}


def _known(format_id: str) -> str:
    if format_id not in FORMATS:
        raise ValueError(f"no such format; there are {', '.join(FORMATS)}")
    return format_id


class MeasurementImportRequest(Request):
    """A file that a benchmark, a trainer or a meter wrote."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "content": _LLAMA_BENCH,
                    "name": "llama-bench.md",
                    "deployment": _DEPLOYMENT,
                    "dry_run": True,
                }
            ]
        }
    )

    content: str | None = Field(None, min_length=1)
    """The file as text; alternative to content_base64."""
    content_base64: str | None = Field(None, min_length=1)
    """The file in base64, for files that are not text: a pickled memory snapshot."""
    name: str = Field("file", min_length=1, max_length=300)
    """The file's name, for the names of the documents and their places."""
    format: Annotated[str, AfterValidator(_known), Field(max_length=40)] | None = Field(
        None, json_schema_extra={"enum": [*FORMATS, None]}
    )
    """The tool's format; if null, it is recognised from the content."""
    deployment: dict[str, JsonValue] = Field(default_factory=dict, max_length=50)
    """What the file does not say of the deployment, in the form of a request of POST
    /v1/latency/inference or /latency/training; it wins over what the file says."""
    dry_run: bool = False
    """Only say what was understood."""

    @model_validator(mode="after")
    def _one_content(self) -> MeasurementImportRequest:
        if (self.content is None) == (self.content_base64 is None):
            raise ValueError("give either content or content_base64")
        self.data()
        return self

    def data(self) -> bytes:
        """The bytes of the file.

        Raises
        ------
        ValueError
            If they are not base64.
        """
        if self.content_base64 is None:
            return (self.content or "").encode("utf-8", "replace")
        try:
            return base64.b64decode(self.content_base64, validate=True)
        except binascii.Error:
            raise ValueError("content_base64 is not base64") from None
