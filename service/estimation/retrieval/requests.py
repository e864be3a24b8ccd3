"""What is asked about answers that take retrieved context."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from service.estimation.detail import FieldPaths, Grounded
from service.estimation.references import (
    AcceleratorReference,
    FacilityRequest,
    ModelReference,
    Reference,
    RegionReference,
    Request,
)
from service.estimation.requests import EXAMPLE_DEPLOYMENT, DeploymentRequest, PrecisionRequest


class EmbeddingRequest(Request):
    """What makes a vector of a question."""

    model: ModelReference = Field(examples=["BAAI/bge-large-en-v1.5"])
    """Model that embeds: catalog id or alias, or {'config': …}."""
    accelerator: AcceleratorReference | None = None
    """Accelerator that it runs on; if null, one like those of the generation."""
    precision: PrecisionRequest = PrecisionRequest()
    question_tokens: int = Field(32, ge=1, le=1_000_000)
    """Tokens that are embedded for each question."""


class VectorSearchRequest(Request):
    """The store that is searched."""

    vectors: float = Field(ge=1.0, le=1e15)
    """Vectors in the store."""
    dimensions: int = Field(ge=1, le=1_000_000)
    """Elements per vector."""
    bytes_per_element: float = Field(4.0, ge=0.125, le=8.0)
    """Bytes per element; 4 for 32-bit floats."""
    links_per_vector: int = Field(0, ge=0, le=10_000)
    """M of an HNSW graph; 0 for a search over all vectors."""
    tier: Reference = Field("ddr5-8ch", examples=["ddr5-8ch"])
    """Memory that the store is kept in, as fast as it is read."""


class RetrievalRequest(DeploymentRequest):
    """A deployment that generates, with what it retrieves for each request.

    workload.input_tokens are those of the prompt without what is retrieved.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                EXAMPLE_DEPLOYMENT
                | {
                    "region": "aws/eu-north-1",
                    "workload": {"input_tokens": 300, "output_tokens": 200, "requests_per_s": 2.0},
                    "embedding": {"model": "BAAI/bge-large-en-v1.5"},
                    "search": {"vectors": 10_000_000, "dimensions": 1024},
                    "retrieved_chunks": 8,
                    "chunk_tokens": 512,
                }
            ]
        }
    )

    region: RegionReference | None = Field(None, examples=["aws/eu-north-1"])
    """Cloud region, country, grid zone, or an inline region. Without a place, carbon is unknown."""
    facility: FacilityRequest = FacilityRequest()
    embedding: EmbeddingRequest | None = None
    """What embeds the question; if null, embedding is left out."""
    include: Grounded = ()
    fields: FieldPaths = ()
    search: VectorSearchRequest | None = None
    """The store; if null, the search is left out."""
    retrieved_chunks: int = Field(5, ge=0, le=100_000)
    """Chunks that come into the prompt."""
    chunk_tokens: int = Field(512, ge=0, le=1_000_000)
    """Tokens of a chunk."""
