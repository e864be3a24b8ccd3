"""What callers may ask of memory that computes or sits on the chip, and of stores of vectors."""

from __future__ import annotations

from pydantic import ConfigDict, Field

from service.estimation.detail import FieldPaths, Grounded
from service.estimation.references import (
    AcceleratorReference,
    CatalogRequest,
    ModelReference,
    Ratio,
    Reference,
)
from service.estimation.requests import PrecisionRequest


class NearMemoryRequest(CatalogRequest):
    """A model in on-chip memory, or in memory that computes."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"model": "meta-llama/Llama-2-70b-hf", "tier": "sram-groq-lpu-v1"},
                {"model": "meta-llama/Llama-2-7b-hf", "tier": "sangam-cxl-pim"},
                {"tier": "reram-dirc-rag", "stored_bytes": 768e6},
            ]
        }
    )

    tier: Reference = Field(examples=["sram-groq-lpu-v1"])
    """Catalog id or alias of on-chip, processing-in-memory or compute-in-memory."""
    model: ModelReference | None = None
    """Model whose weights and caches are stored; alternative to stored_bytes."""
    precision: PrecisionRequest = PrecisionRequest()
    accelerator: AcceleratorReference | None = None
    """Accelerator that computes beside memory that computes: with a model, the share of decoding
    that memory bounds follows from the two, sequences and tokens."""
    stored_bytes: float | None = Field(None, ge=1.0, le=1e18)
    """Bytes stored; alternative to a model."""
    sequences: int = Field(1, ge=1, le=1_000_000)
    """Sequences whose caches are on chip."""
    tokens: int = Field(0, ge=0, le=100_000_000)
    """Tokens per sequence."""
    program_bytes_per_chip: float = Field(0.0, ge=0.0, le=1e15)
    """Memory of a chip that programs use."""
    memory_bound_time_ratio: Ratio | None = None
    """Share of decoding time that memory bounds; if null, that of the model on the accelerator,
    else the tier's figure, else 0.6 to 0.8."""
    hop_s: float | None = Field(None, ge=0.0, le=1.0)
    """Time from one chip to the next; if null, it is left out."""
    explain: bool = False
    """Add a step-by-step explanation."""
    include: Grounded = ()
    fields: FieldPaths = ()


class StoreRequest(CatalogRequest):
    """Vectors stored for retrieval or an agent's memory, and what they add to prompts."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {
                    "vectors": 1_000_000,
                    "dimensions": 1536,
                    "links_per_vector": 32,
                    "added_per_day": 2_000,
                    "retrieved_chunks": 8,
                    "chunk_tokens": 512,
                    "model": "meta-llama/Llama-3.1-8B",
                    "tier": "ddr5-8ch",
                }
            ]
        }
    )

    vectors: float = Field(ge=0.0, le=1e15)
    """Vectors at the start."""
    dimensions: int = Field(ge=1, le=1_000_000)
    """Elements per vector."""
    bytes_per_element: float = Field(4.0, ge=0.125, le=8.0)
    """Bytes per element of a vector; 4 for 32-bit floats."""
    links_per_vector: int = Field(0, ge=0, le=10_000)
    """M of an HNSW graph; 0 for a search without an index."""
    payload_bytes: float = Field(0.0, ge=0.0, le=1e12)
    """Text and metadata stored with each vector."""
    added_per_day: float = Field(0.0, ge=0.0, le=1e15)
    """Events remembered per day."""
    retention_days: float | None = Field(None, ge=1e-3, le=1e6)
    """Time after which an added vector is forgotten."""
    days: float = Field(365.0, ge=0.0, le=36_525.0)
    """Time that passes."""
    embedding_model: ModelReference | None = None
    """Model that computes the vectors."""
    model: ModelReference | None = None
    """Model whose prompt receives what is retrieved."""
    precision: PrecisionRequest = PrecisionRequest()
    retrieved_chunks: int = Field(0, ge=0, le=1_000_000)
    """Chunks that each retrieval adds to the prompt; see injected_tokens."""
    chunk_tokens: int = Field(0, ge=0, le=10_000_000)
    """Tokens per chunk."""
    tier: Reference | None = None
    """Where the store is kept; gives the time of a search over all of it."""
    explain: bool = False
    """Add a step-by-step explanation."""
    include: Grounded = ()
    fields: FieldPaths = ()
