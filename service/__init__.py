"""Headroom: what an LLM deployment needs and costs, before it is bought."""

import os

# Part of every answer: the same request, catalog revision and engine version give the same bytes.
ENGINE_VERSION = "0.20.0"

# Before numpy is imported: its library would start a thread for each core. They wait for each other
# at full speed where cores are shared, and round sums by how many they are.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
