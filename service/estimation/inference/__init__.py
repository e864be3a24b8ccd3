"""Inference: memory, latency, and everything about a deployment in one answer."""
