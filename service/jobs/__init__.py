"""Durable jobs: sweeps that outlive the request that asked for them, and the process at work."""
