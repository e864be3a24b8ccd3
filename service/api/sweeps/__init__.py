"""Sweeps: durable jobs, their progress and their results."""
