"""Headroom: what an LLM deployment needs and costs, before it is bought."""

# Part of every answer: the same request, catalog revision and engine version give the same bytes.
ENGINE_VERSION = "0.8.0"
