"""Latency and throughput of an inference deployment."""
