"""Footprints in the shape that standards and laws ask for."""
