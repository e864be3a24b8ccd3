"""Fits the catalog's efficiency constants to published measurements; see docs/methodology.md."""
