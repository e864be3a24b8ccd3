"""Emissions over time, and the choice of memory by its life cycle."""
